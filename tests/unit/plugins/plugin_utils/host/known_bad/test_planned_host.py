# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What rows are held against: the host as one look saw it, and as the plan would leave it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import Refusal
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    RUNTIME_BINARY,
    Difference,
    Driver,
    Instance,
    Leftover,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    consumers,
    staleness,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import mismatch
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.known_bad import (
    planned_host,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.known_bad.rules import (
    HostView,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    packages,
    repository,
)

from tests.unit.builders import obs
from tests.unit.known_bad_hosts import BASE, HOOK, NOTHING, look, seen
from tests.unit.records import ONE_GPU, instance

MAIN, DROP_IN = "/etc/containerd/config.toml", "/etc/containerd/conf.d/99-nvidia.toml"


def view(*instances: Instance, **more: Any) -> HostView:
    (found,) = planned_host.views(look(*instances, **more))
    return found


def installing(*after: str) -> Plan:
    differences = tuple(
        Difference("package", name, "version", None, version, "")
        for name, version in zip((BASE, HOOK), after, strict=False)
    )
    return Plan(first=(Plan(differences=differences),))


BANNER = "NVIDIA Container Toolkit CLI version 1.18.0\n"
# What is known of the toolkit: packages, the program's own word, the plan, and the releases that
# rows are held against.
TOOLKITS: list[tuple[str, dict[str, str], dict[str, Any] | None, Plan | None, list[str | None]]] = [
    ("nothing is there", {}, None, NOTHING, []),
    ("a package", {BASE: "1.18.0-1"}, None, NOTHING, ["1.18.0-1"]),
    (
        "two packages of one version",
        {BASE: "1.18.0-1", HOOK: "1.18.0-1"},
        None,
        NOTHING,
        ["1.18.0-1"],
    ),
    (
        "two packages of two versions",
        {BASE: "1.18.0-1", HOOK: "1.17.8-1"},
        None,
        NOTHING,
        ["1.18.0-1", "1.17.8-1"],
    ),
    ("the plan upgrades it", {BASE: "1.18.0-1"}, None, installing("1.20.1"), ["1.20.1"]),
    ("the plan installs it", {}, None, installing("1.18.0-1"), ["1.18.0-1"]),
    ("the plan installs whatever there is", {}, None, installing("the repository's"), [None]),
    ("a plan that was refused: as it is", {BASE: "1.18.0-1"}, None, None, ["1.18.0-1"]),
    ("no package, and the program says it", {}, {"rc": 0, "stdout": BANNER}, NOTHING, ["1.18.0"]),
    ("no package, and the program fails", {}, {"rc": 1, "stdout": ""}, NOTHING, [None]),
    (
        "no package, and the program is not root's",
        {},
        {"error": {"kind": "untrusted"}},
        NOTHING,
        [None],
    ),
    ("no package, and the program hangs", {}, {"error": {"kind": "timeout"}}, NOTHING, [None]),
    ("no package, and no program", {}, {"error": {"kind": "not-found"}}, NOTHING, []),
    (
        "the package's word counts",
        {BASE: "1.20.1-1"},
        {"rc": 0, "stdout": BANNER},
        NOTHING,
        ["1.20.1-1"],
    ),
]


@pytest.mark.parametrize(
    ("case", "installed", "said", "plan", "releases"), TOOLKITS, ids=[row[0] for row in TOOLKITS]
)
def test_the_toolkit(
    case: str, installed: dict[str, str], said: Any, plan: Plan | None, releases: list[str | None]
) -> None:
    found = planned_host.list_toolkit_releases(
        look(of=seen(packages=installed, said=said), plan=plan)
    )
    assert [None if v is None else str(v) for v in found] == releases, case


def test_a_runtime_without_a_package_and_without_a_word_is_there_in_a_version_that_is_not_known() -> (
    None
):
    assert planned_host.list_toolkit_releases(look(of=seen(files={RUNTIME_BINARY: "x"}))) == (None,)


def test_packages_that_could_not_be_asked_leave_it_not_known() -> None:
    """An rpm database beneath another root is read by running rpm, and there nothing is run."""
    failed = {
        packages.QUESTION["id"]: {
            "error": {"kind": "offline", "message": "not beneath another root"}
        }
    }
    of = obs(answers={consumers.QUESTION["id"]: {"found": {}}, **failed})
    assert planned_host.list_toolkit_releases(look(of=of, policy=Policy(root="/srv/image"))) == (
        None,
    )


DRIVERS = [
    (ONE_GPU, ["580.95.5"]),
    (Driver("none", "", (), "no GPU"), []),
    (Driver("broken", "", (), "?"), [None]),
]


@pytest.mark.parametrize(("driver", "releases"), DRIVERS)
def test_the_driver(driver: Driver, releases: list[str | None]) -> None:
    assert [
        None if v is None else str(v) for v in planned_host.list_driver_releases(driver)
    ] == releases


def test_only_engines_that_are_managed_here_are_looked_at() -> None:
    alone = instance("containerd", "2.3.4", refusal=Refusal("It is someone else's", "Leave it"))
    docker = instance("docker", "28.5.2", cri=False, config_path="/etc/docker/daemon.json")
    found = planned_host.views(look(alone, docker))
    assert [set(h.programs) for h in found] == [{"toolkit", "driver", "docker"}]
    assert planned_host.views(look(alone)) == []


def test_an_engine_that_does_not_say_its_version_is_not_known() -> None:
    found = view(instance("containerd", ""), of=seen(packages={BASE: "1.18.0-1"}))
    assert found.programs["containerd"] == (None,)
    assert found.states["drop-in-above-root"] is None


# A containerd's files, what the plan removes, and what is so of their versions.
FILES: list[tuple[int | None, int | None, Plan | None, bool, bool]] = [
    (2, 3, NOTHING, True, False),
    (2, 3, None, True, False),
    (3, 3, NOTHING, False, True),
    (3, 2, NOTHING, False, True),
    (2, None, NOTHING, False, False),
    (None, None, NOTHING, False, False),
    (2, 4, Plan(changes=({"op": "remove", "path": DROP_IN},)), False, False),
]


@pytest.mark.parametrize(("main", "drop_in", "plan", "above", "newer"), FILES)
def test_versions_of_files(
    main: int | None, drop_in: int | None, plan: Plan | None, above: bool, newer: bool
) -> None:
    files = (
        {MAIN: f'version = {main}\nimports = ["/etc/containerd/conf.d/*.toml"]\n'} if main else {}
    )
    files |= {DROP_IN: f"version = {drop_in}\n"} if drop_in else {}
    found = view(instance("containerd", "2.3.4"), of=seen(files=files), plan=plan)
    assert (found.states["drop-in-above-root"], found.states["config-version-3"]) == (above, newer)


def test_files_that_cannot_be_read_are_not_known() -> None:
    found = view(instance("containerd", "2.3.4"), of=seen(files={MAIN: "version = \n"}))
    assert (found.states["drop-in-above-root"], found.states["config-version-3"]) == (None, None)


CRI = "[plugins.'io.containerd.cri.v1.runtime']"
CNI = "[plugins.'io.containerd.cri.v1.runtime'.cni]"
OLD_CNI = "[plugins.'io.containerd.grpc.v1.cri'.cni]"
OTLP = "[plugins.'io.containerd.tracing.processor.v1.otlp']"
TRACES = "[plugins.'io.containerd.internal.v1.tracing']"
OF_CNI, OF_CDI, OF_TRACES = "cni-bin-dir", "cdi-switched-off", "tracing-in-files"
# The main file, a drop-in, and the states that follow: keys that containerd 2.4 ignores.
IGNORED: dict[str, tuple[str, str, set[str]]] = {
    "nothing": ("version = 3\n", "", set()),
    "another directory": (f'version = 3\n{CNI}\nbin_dir = "/usr/lib/cni"\n', "", {OF_CNI}),
    "in version 4": (f'version = 4\n{CNI}\nbin_dir = "/usr/lib/cni"\n', "", {OF_CNI}),
    "the usual one": (f'version = 3\n{CNI}\nbin_dir = "/opt/cni/bin"\n', "", set()),
    "as 2.3 prints it": (f"version = 3\n{CNI}\nbin_dir = ''\nbin_dirs = ['/a']\n", "", set()),
    "moved by containerd": (f'version = 2\n{OLD_CNI}\nbin_dir = "/usr/lib/cni"\n', "", set()),
    "in a drop-in": ("version = 3\n", f'{CNI}\nbin_dir = "/usr/lib/cni"\n', {OF_CNI}),
    "a drop-in has both": (
        f'version = 3\n{CNI}\nbin_dir = "/usr/lib/cni"\n',
        f'{CNI}\nbin_dirs = ["/usr/lib/cni"]\n',
        set(),
    ),
    "switched off": (f"version = 3\n{CRI}\nenable_cdi = false\n", "", {OF_CDI}),
    "switched on again": (
        f"version = 3\n{CRI}\nenable_cdi = false\n",
        f"{CRI}\nenable_cdi = true\n",
        set(),
    ),
    "traces": (f'version = 3\n{OTLP}\nendpoint = "http://a:4318"\n', "", {OF_TRACES}),
    "sampled traces": (f"version = 3\n{TRACES}\nsampling_ratio = 0.1\n", "", {OF_TRACES}),
}


@pytest.mark.parametrize("name", IGNORED)
def test_keys_that_a_later_containerd_ignores(name: str) -> None:
    main, drop_in, states = IGNORED[name]
    head, _line, rest = main.partition("\n")
    imports = 'imports = ["/etc/containerd/conf.d/*.toml"]'
    files = {MAIN: f"{head}\n{imports}\n{rest}"}
    files |= {DROP_IN: f"version = 3\n{drop_in}"} if drop_in else {}
    found = view(instance("containerd", "2.4.2"), of=seen(files=files)).states
    assert {state for state in (OF_CNI, OF_CDI, OF_TRACES) if found[state]} == states  # type: ignore[index]


STALE = staleness.SpecVerdict("/etc/cdi/nvidia.yaml", "other", "stale", "0.6.0")
FRESH = staleness.SpecVerdict("/etc/cdi/nvidia.yaml", "other", "fresh", "0.6.0")
SPECS = [
    ((), NOTHING, False),
    ((FRESH,), NOTHING, False),
    ((STALE,), NOTHING, True),
    ((STALE,), None, True),
    ((STALE,), Plan(changes=({"op": "write", "path": STALE.path},)), False),
    (
        (STALE,),
        Plan(
            differences=(
                Difference("unit", "nvidia-cdi-refresh.service", STALE.path, "stale", "fresh", ""),
            )
        ),
        False,
    ),
    ((STALE,), Plan(changes=({"op": "write", "path": "/etc/docker/daemon.json"},)), True),
]


@pytest.mark.parametrize(("freshness", "plan", "stays"), SPECS)
def test_a_stale_spec_counts_where_it_stays(
    freshness: tuple[staleness.SpecVerdict, ...], plan: Plan | None, stays: bool
) -> None:
    assert view(freshness=freshness, plan=plan).states["stale-spec"] is stays


MODULES = [
    ([], None, None),
    (["/lib/modules/6.12.1/updates/dkms/nvidia.ko"], False, False),
    (["/lib/modules/6.12.1/updates/dkms/nvidia.ko.zst"], True, False),
    (["/lib/modules/6.12.1/updates/dkms/nvidia-current.ko.xz"], True, True),
    (
        [
            "/lib/modules/6.1.0/updates/dkms/nvidia.ko.xz",
            "/lib/modules/6.12.1/updates/dkms/nvidia.ko",
        ],
        False,
        False,
    ),
    (["/lib/modules/6.1.0/updates/dkms/nvidia.ko.xz"], True, False),
]


@pytest.mark.parametrize(("paths", "compressed", "current"), MODULES)
def test_the_module_on_disk(
    paths: list[str], compressed: bool | None, current: bool | None
) -> None:
    of = seen(
        files=dict.fromkeys(paths, "x"),
        host={"os_release": {"ID": "debian"}, "kernel": "6.12.1", "epoch": 10.0},
    )
    assert of.was_asked(mismatch.list_mismatch_questions()[0])
    found = view(of=of).states
    assert (found["module-compressed"], found["module-nvidia-current"]) == (compressed, current)


READERS: list[tuple[Instance, dict[str, str], bool | None]] = [
    (instance("containerd", "2.3.7"), {}, False),
    (instance("containerd", "2.3.7"), {"podman": "4.9.3+ds1-1"}, True),
    (instance("containerd", "2.3.7"), {"podman": "5.4.2+ds1-2"}, False),
]


@pytest.mark.parametrize(("engine", "installed", "old"), READERS)
def test_the_oldest_reader(engine: Instance, installed: dict[str, str], old: bool | None) -> None:
    assert view(engine, of=seen(packages=installed)).states["reader-below-0.7.0"] is old


def test_a_podman_without_a_package_is_a_reader_of_which_nothing_is_known() -> None:
    of = obs(answers={consumers.QUESTION["id"]: {"found": {"podman": "/usr/local/bin/podman"}}})
    assert view(instance("containerd", "2.3.7"), of=of).states["reader-below-0.7.0"] is None


def left(tool: str, path: str, fate: Any) -> Plan:
    return Plan(leftovers=(Leftover(tool, path, (), True, fate, ""),))


DROP_INS = [
    (NOTHING, False),
    (None, None),
    (left("nvidia-ctk", DROP_IN, "adopted"), False),
    (left("nvidia-ctk", DROP_IN, "kept"), True),
    (left("gpu-operator", DROP_IN, "live"), True),
    (left("nvidia-ctk", "/etc/cdi/nvidia.yaml", "kept"), False),
]


@pytest.mark.parametrize(("plan", "stays"), DROP_INS)
def test_a_drop_in_of_a_tool(plan: Plan | None, stays: bool | None) -> None:
    assert view(plan=plan).states["toolkit-drop-in"] is stays


ADDED = Plan(
    first=(Plan(changes=({"op": "write", "path": repository.FAMILIES["debian"].list_path},)),)
)
REPOSITORIES = [
    (Policy(), ADDED, True),
    (Policy(), NOTHING, False),
    (Policy(), None, False),
    (Policy(toolkit_repository="https://mirror.example.org/deb"), ADDED, False),
    (Policy(bundle_file="b.tar"), ADDED, True),
    (Policy(bundle_file="b.tar", toolkit_repository="https://mirror.example.org/deb"), ADDED, True),
    (
        Policy(bundle_file="b.tar", toolkit_key_fingerprint=f" {repository.FINGERPRINT.lower()}"),
        ADDED,
        True,
    ),
    (Policy(bundle_file="b.tar", toolkit_key_fingerprint="A" * 40), ADDED, False),
]


@pytest.mark.parametrize(("policy", "plan", "adds"), REPOSITORIES)
def test_nvidias_repository(policy: Policy, plan: Plan | None, adds: bool) -> None:
    assert view(policy=policy, plan=plan).states["adds-nvidia-repository"] is adds


@pytest.mark.parametrize(
    ("policy", "by_cdi"), [(Policy(), True), (Policy(injection="legacy"), False)]
)
def test_injection_by_cdi(policy: Policy, by_cdi: bool) -> None:
    assert view(policy=policy).states["cdi-injection"] is by_cdi


@pytest.mark.parametrize(
    ("programs", "there"),
    [({}, False), ({"enroot": "/usr/bin/enroot"}, True), ({"enroot": None}, False)],
)
def test_enroot_counts_where_its_program_is(programs: dict[str, Any], there: bool) -> None:
    of = obs(answers={consumers.QUESTION["id"]: {"found": programs}})
    assert view(of=of).states["enroot"] is there


@pytest.mark.parametrize(
    ("injection", "so"), [("auto", False), ("legacy", False), ("jit-cdi", True)]
)
def test_the_mode_of_the_runtime_is_the_one_that_the_plan_leaves(injection: Any, so: bool) -> None:
    assert view(policy=Policy(injection=injection)).states["mode-jit-cdi"] is so
