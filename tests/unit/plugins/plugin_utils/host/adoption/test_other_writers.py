# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who else writes on a host, who owns the CDI spec, and which engine the kubelet uses."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Kubelet,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    installation,
    lowering,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    cdi_generators,
    cdi_refresh,
    other_writers,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    kubelet,
    kubelet_facts,
)

from tests.unit.builders import obs, sha
from tests.unit.coded import get_codes, get_values
from tests.unit.records import record

SPEC = "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices: []\n"
UNITS = {
    cdi_refresh.SERVICE: {"ActiveState": "inactive"},
    cdi_refresh.PATH: {"ActiveState": "active"},
}
ENABLED = {**dict.fromkeys(cdi_refresh.LINKS.values(), ""), cdi_refresh.UNIT_FILES[0]: ""}
REFRESHED = {**ENABLED, cdi_refresh.REFRESH_FILE: SPEC}
GENERATED = cdi_generators.GENERATORS["nixos"].output
NIX = {"os_release": {"ID": "nixos"}, "epoch": 10.0}


def host(
    files: dict[str, Any] | None = None, units: dict[str, Any] | None = None, **more: Any
) -> Observation:
    return obs(files=files or {}, units=UNITS if units is None else units, **more)


NIXOS = host({GENERATED: SPEC}, {}, host=NIX)


@pytest.mark.parametrize(
    ("case", "policy", "seen", "cap", "owner", "why"),
    [
        (
            "no refresh unit",
            Policy(),
            host(units={}),
            "1.0.0",
            "collection",
            {"code": "adoption.refresh-absent"},
        ),
        (
            "enabled, file accepted",
            Policy(),
            host(REFRESHED),
            "1.0.0",
            "toolkit",
            {"code": "adoption.refresh-serves"},
        ),
        ("exactly the cap", Policy(), host(REFRESHED), "0.5.0", "toolkit", {"version": "0.5.0"}),
        (
            "too new for the oldest engine",
            Policy(),
            host({**REFRESHED, cdi_refresh.REFRESH_FILE: SPEC.replace("0.5.0", "0.7.0")}),
            "0.6.0",
            "collection",
            {"version": "0.7.0"},
        ),
        (
            "0.10.0 is newer than 0.9.0",
            Policy(),
            host({**REFRESHED, cdi_refresh.REFRESH_FILE: SPEC.replace("0.5.0", "0.10.0")}),
            "0.9.0",
            "collection",
            {"version": "0.10.0"},
        ),
        (
            "JSON",
            Policy(),
            host({**REFRESHED, cdi_refresh.REFRESH_FILE: '{"cdiVersion": "0.6.0"}'}),
            "1.0.0",
            "toolkit",
            {"version": "0.6.0"},
        ),
        (
            "enabled, but nothing written",
            Policy(),
            host(ENABLED),
            "1.0.0",
            "collection",
            {"code": "adoption.refresh-without-file"},
        ),
        (
            "disabled",
            Policy(),
            host({cdi_refresh.REFRESH_FILE: SPEC}),
            "1.0.0",
            "collection",
            {"code": "adoption.refresh-off"},
        ),
        (
            "masked by us",
            Policy(),
            host({**REFRESHED, cdi_refresh.MASKS[cdi_refresh.SERVICE]: ""}),
            "1.0.0",
            "collection",
            {"code": "adoption.refresh-off"},
        ),
        (
            "writes where no engine looks",
            Policy(),
            host(
                {
                    **REFRESHED,
                    cdi_refresh.REFRESH_ENV: "NVIDIA_CTK_CDI_OUTPUT_FILE_PATH=/srv/n.yaml\n",
                    "/srv/n.yaml": SPEC,
                }
            ),
            "1.0.0",
            "collection",
            {"code": "adoption.refresh-unread"},
        ),
        (
            "NixOS has a generator",
            Policy(),
            NIXOS,
            "1.0.0",
            "toolkit",
            {"code": "adoption.refresh-serves", "title": "the generator of NixOS"},
        ),
        (
            "NixOS has one and it is too new",
            Policy(),
            NIXOS,
            "0.3.0",
            "collection",
            {"code": "adoption.refresh-too-new", "version": "0.5.0"},
        ),
        (
            "an image of NixOS",
            Policy(root="/srv/tree"),
            NIXOS,
            "1.0.0",
            "collection",
            {"code": "adoption.no-other-writer"},
        ),
        (
            "an image of NixOS, forced",
            Policy(root="/srv/tree", cdi_owner="toolkit"),
            NIXOS,
            "1.0.0",
            "toolkit",
            {"code": "adoption.cdi-owner-forced"},
        ),
        (
            "NixOS without its module",
            Policy(),
            host(units={}, host=NIX),
            "1.0.0",
            "collection",
            {"code": "adoption.refresh-absent"},
        ),
        (
            "the file's name elsewhere is nobody's",
            Policy(),
            host({GENERATED: SPEC}, {}),
            "1.0.0",
            "collection",
            {"code": "adoption.refresh-absent"},
        ),
        (
            "forced, the collection",
            Policy(cdi_owner="collection"),
            host(REFRESHED),
            "1.0.0",
            "collection",
            {"code": "adoption.cdi-owner-forced"},
        ),
        (
            "forced, the toolkit",
            Policy(cdi_owner="toolkit"),
            host(REFRESHED),
            "1.0.0",
            "toolkit",
            {"code": "adoption.cdi-owner-forced"},
        ),
        (
            "forced, the toolkit, comes with the packages",
            Policy(cdi_owner="toolkit"),
            host(units={}),
            "1.0.0",
            "toolkit",
            {"code": "adoption.cdi-owner-forced"},
        ),
        (
            "an image",
            Policy(root="/srv/tree"),
            host(REFRESHED),
            "1.0.0",
            "collection",
            {"code": "adoption.no-other-writer"},
        ),
    ],
)
def test_one_owner(
    case: str, policy: Policy, seen: Observation, cap: str, owner: str, why: dict[str, str]
) -> None:
    found, reason = cdi_refresh.choose_cdi_owner(policy, cdi_refresh.read_refresh_facts(seen), cap)
    assert (found, reason.value) == (owner, owner), case
    assert {"code": get_code(reason.why), **get_values(reason.why)}.items() >= why.items()


@pytest.mark.parametrize(
    ("seen", "cap"),
    [
        (host({**REFRESHED, cdi_refresh.REFRESH_FILE: SPEC.replace("0.5.0", "0.7.0")}), "0.5.0"),
        (host({cdi_refresh.REFRESH_FILE: SPEC}), "1.0.0"),
    ],
)
def test_theirs_is_refused_where_it_cannot_work(seen: Observation, cap: str) -> None:
    with pytest.raises(PlanError) as caught:
        cdi_refresh.choose_cdi_owner(
            Policy(cdi_owner="toolkit"), cdi_refresh.read_refresh_facts(seen), cap
        )
    assert caught.value.code == "adoption.toolkit-cannot-own"


BOTH = list(cdi_refresh.MASKS.values())
DONE = dict.fromkeys(BOTH, "")
IDLE = {
    cdi_refresh.PATH: {"ActiveState": "inactive"},
    cdi_refresh.SERVICE: {"ActiveState": "inactive"},
}
BY_HAND = dict.fromkeys(BOTH, {"content": None, "type": "char", "real": "/dev/null"})


@pytest.mark.parametrize(
    ("case", "seen", "owner", "stopped", "masked"),
    [
        ("both would write", host(REFRESHED), "collection", [cdi_refresh.PATH], BOTH),
        (
            "the service runs now",
            host(REFRESHED, {cdi_refresh.SERVICE: {"ActiveState": "activating"}}),
            "collection",
            [cdi_refresh.SERVICE],
            BOTH,
        ),
        ("toolkit", host(REFRESHED), "toolkit", [], []),
        ("not there, and comes with the packages", host(units={}), "collection", [], BOTH),
        ("done before", host({**REFRESHED, **DONE}, IDLE), "collection", [], []),
        ("masked by hand", host({**REFRESHED, **BY_HAND}, IDLE), "collection", [], []),
    ],
)
def test_taking_over(
    case: str, seen: Observation, owner: str, stopped: list[str], masked: list[str]
) -> None:
    plan = other_writers.plan_other_writers(
        Policy(), other_writers.read_writer_facts(seen), record(cdi_owner=owner)
    )
    assert [c["argv"] for c in plan.commands] == (
        [["systemctl", "stop", *stopped]] if stopped else []
    ), case
    assert [(c["path"], c["op"], c["content"]) for c in plan.changes] == [
        (path, "write", "") for path in masked
    ]
    assert (plan.restarts, plan.disable_units) == ((), ())


INSTALLED = [
    # what the host has before this run's packages; whether their units are stopped at once, and
    # whether what they write goes
    (host(units={}), True, True),
    (host({cdi_refresh.REFRESH_FILE: SPEC}, {}), True, False),  # goes later, and can come back
    (host(REFRESHED, IDLE), False, False),
    (NIXOS, False, False),
]


@pytest.mark.parametrize(("seen", "stopped", "removed"), INSTALLED)
@pytest.mark.parametrize("owner", ["collection", "toolkit"])
def test_units_that_a_package_starts_are_stopped_and_can_be_taken_back(
    seen: Observation, stopped: bool, removed: bool, owner: str
) -> None:
    plan = other_writers.plan_other_writers(
        Policy(), other_writers.read_writer_facts(seen), record(cdi_owner=owner), installing=True
    )
    stop = ["systemctl", "stop", cdi_refresh.PATH, cdi_refresh.SERVICE]
    remove = ["rm", "-f", cdi_refresh.REFRESH_FILE]
    mine = owner == "collection"
    wanted = [*([stop] if stopped and mine else []), *([remove] if removed and mine else [])]
    assert [command["argv"] for command in plan.commands] == wanted
    assert all(command["undo"] for command in plan.commands)
    assert all(5 in command.get("accepts", ()) for command in plan.commands[:1]), "before 1.18"
    lowering.require_causes(plan)
    assert {d.cause for d in plan.differences if d.after != "masked"} <= {"adoption"}
    lost = [low.path for low in lowering.find_change_lowerings(plan)]
    assert lost == [word for argv in wanted for word in argv[2:]]


INSTALL = {"argv": ["apt-get", "install", "toolkit"]}
KEPT_BACK = {**INSTALL, "undo": ["apt-get", "remove", "toolkit"]}


def play(argv: list[str], there: set[str]) -> None:
    """Do to a host what a command does: its package, the unit that stays, the file that is written.

    The service ends once it has written.
    """
    brings = {cdi_refresh.PATH, cdi_refresh.REFRESH_FILE}
    if argv[:2] == ["apt-get", "install"]:
        there |= {"toolkit", *brings}
    elif argv[:2] == ["apt-get", "remove"]:
        there -= {"toolkit", cdi_refresh.PATH}
    elif argv[0] == "systemctl" and "stop" in argv:
        there -= set(argv)
    elif argv[0] == "systemctl" and "toolkit" in there:
        there |= {*(set(argv) & brings), cdi_refresh.REFRESH_FILE}
    elif argv[0] == "rm":
        there -= set(argv)


BACK: dict[str, tuple[Any, set[str], set[str]]] = {
    # the command that installs, what is there before, what is there once all is taken back
    "the package goes, and all with it": (KEPT_BACK, set(), set()),
    "with the file of another tool": (
        KEPT_BACK,
        {cdi_refresh.REFRESH_FILE},
        {cdi_refresh.REFRESH_FILE},
    ),
    "the package stays, as its script leaves it": (
        INSTALL,
        set(),
        {"toolkit", cdi_refresh.PATH, cdi_refresh.REFRESH_FILE},
    ),
}


@pytest.mark.parametrize("case", BACK)
def test_after_each_command_the_way_back_leads_to_what_was_there_before(case: str) -> None:
    install, before, after = BACK[case]
    files = {path: SPEC for path in before}
    facts = other_writers.read_writer_facts(host(files, {}))
    installing = Plan(commands=(install,))
    goes = installation.is_taken_back(installing)
    owned = record(cdi_owner="collection")
    commands = [
        *(other_writers.clear_behind_installation(facts, owned).commands if goes else ()),
        install,
        *other_writers.plan_other_writers(
            Policy(), facts, owned, installing=True, goes=goes
        ).commands,
    ]
    for ran in range(commands.index(install) + 1, len(commands) + 1):
        there = set(before)
        for command in commands[:ran]:
            play(command["argv"], there)
        for command in reversed(commands[:ran]):
            play(command.get("undo") or ["true"], there)
        assert there == after, ran


@pytest.mark.parametrize(
    ("files", "told"),
    [(REFRESHED, [("nvidia-cdi-refresh", "adopted")]), ({**REFRESHED, **DONE}, [])],
    ids=[
        "there before this run",
        "brought by the package that this run has installed and masked beforehand",
    ],
)
def test_what_this_run_brought_is_not_left_by_others(
    files: dict[str, Any], told: list[tuple[str, str]]
) -> None:
    plan = cdi_refresh.stop(
        Policy(), cdi_refresh.read_refresh_facts(host(files, UNITS)), record(cdi_owner="collection")
    )
    assert plan.commands, "its units are stopped either way"
    assert [(left.tool, left.fate) for left in plan.leftovers] == told


def test_a_unit_of_the_users_own_is_not_overwritten() -> None:
    with pytest.raises(PlanError) as caught:
        other_writers.plan_other_writers(
            Policy(),
            other_writers.read_writer_facts(
                host({**REFRESHED, cdi_refresh.MASKS[cdi_refresh.SERVICE]: "[Service]\n"})
            ),
            record(cdi_owner="collection"),
        )
    assert caught.value.code == "adoption.unit-in-the-way"


@pytest.mark.parametrize(
    ("case", "files", "links"),
    [
        ("they were enabled before", REFRESHED, 0),
        ("they came with our packages", {cdi_refresh.UNIT_FILES[1]: ""}, 2),
    ],
)
def test_absent_enables_the_units_again(case: str, files: dict[str, Any], links: int) -> None:
    seen = host(
        {**files, **DONE},
        originals=dict.fromkeys(BOTH, {"existed": False, "sha256_after": sha("")}),
    )
    plan = cdi_refresh.plan_absent(Policy(state="absent"), cdi_refresh.read_refresh_facts(seen))
    assert [c["op"] for c in plan.changes] == ["restore", "restore"], case
    assert [c["argv"][-1] for c in plan.commands] == list(cdi_refresh.LINKS.values())[:links]


def test_absent_leaves_a_mask_alone_that_is_not_ours() -> None:
    assert cdi_refresh.plan_absent(
        Policy(state="absent"), cdi_refresh.read_refresh_facts(host(DONE))
    ).empty


@pytest.mark.parametrize(
    ("case", "argv", "files", "endpoint"),
    [
        (
            "by argument",
            ["kubelet", "--container-runtime-endpoint=unix:///run/a.sock"],
            {},
            "unix:///run/a.sock",
        ),
        (
            "by two words",
            ["kubelet", "--container-runtime-endpoint", "unix:///run/a.sock"],
            {},
            "unix:///run/a.sock",
        ),
        (
            "kubeadm's flags",
            ["kubelet"],
            {
                kubelet_facts.KUBEADM_FLAGS: 'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///run/b.sock --x=1"\n'
            },
            "unix:///run/b.sock",
        ),
        (
            "its configuration",
            ["kubelet", f"--config={kubelet_facts.CONFIG}"],
            {kubelet_facts.CONFIG: 'a: 1\ncontainerRuntimeEndpoint: "unix:///run/c.sock"\n'},
            "unix:///run/c.sock",
        ),
        (
            "another file",
            ["kubelet", "--config=/opt/k.yaml"],
            {"/opt/k.yaml": "containerRuntimeEndpoint: unix:///run/d.sock\n"},
            "unix:///run/d.sock",
        ),
        ("nowhere: the built-in one", ["kubelet"], {}, "unix:///run/containerd/containerd.sock"),
    ],
)
def test_kubelet(case: str, argv: list[str], files: dict[str, str], endpoint: str) -> None:
    process = {"pid": 9, "exe": "/usr/bin/kubelet", "argv": argv}
    seen = obs(
        files=files, processes=[process], commands={"kubelet --version": "Kubernetes v1.34.2\n"}
    )
    assert kubelet.find_kubelet(Policy(), kubelet_facts.read_kubelet_facts(seen)) == Kubelet(
        True, "1.34.2", endpoint
    ), case


@pytest.mark.parametrize(
    ("argv", "directory"),
    [
        ([], ""),
        (["--root-dir=/var/lib/k0s/kubelet"], "/var/lib/k0s/kubelet"),
        (["--root-dir", "/data//kubelet/"], "/data/kubelet"),
    ],
)
def test_a_kubelet_has_the_directory_that_it_was_started_with(
    argv: list[str], directory: str
) -> None:
    process = {"pid": 9, "exe": "/usr/bin/kubelet", "argv": ["kubelet", *argv]}
    seen = obs(processes=[process], commands={"kubelet --version": "Kubernetes v1.34.2\n"})
    found = kubelet.find_kubelet(Policy(), kubelet_facts.read_kubelet_facts(seen))
    assert found.directory == directory


def test_no_kubelet() -> None:
    assert kubelet.find_kubelet(Policy(), kubelet_facts.read_kubelet_facts(obs())) == Kubelet()


@pytest.mark.parametrize(
    ("mark", "code"),
    [
        (other_writers.OPERATOR_MARK, "adoption.operator-seen"),
        (other_writers.KUBESPRAY_MARK, "adoption.kubespray-seen"),
    ],
)
def test_other_writers_are_named(mark: str, code: str) -> None:
    assert code in get_codes(
        other_writers.plan_other_writers(
            Policy(),
            other_writers.read_writer_facts(host({mark: ""}, {})),
            record(cdi_owner="toolkit"),
        ).advice
    )


@pytest.mark.parametrize("root", ["/", "/srv/image"])
@pytest.mark.parametrize(
    ("files", "installed"),
    [({}, False), ({"/usr/bin/kubelet": ""}, True), ({"/opt/bin/kubelet": ""}, True)],
)
def test_a_kubelet_that_does_not_run_is_known_by_its_program(
    files: dict[str, str], installed: bool, root: str
) -> None:
    found = kubelet.find_kubelet(
        Policy(root=root), kubelet_facts.read_kubelet_facts(obs(files=files, processes=[]))
    )
    assert (found.present, found.installed, found.expected) == (False, installed, installed)
