# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nvidia-ctk left in CRI-O's configuration: which file is taken over, which one stays, and
with which sentence.
"""

from __future__ import annotations

import dataclasses as dc
import pathlib
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
    Refusal,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml_file
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Handler,
    Instance,
    Kubelet,
    Leftover,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import decide, traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    nvidia_ctk_crio,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    detect as crio_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    plan as crio_plan,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit import operators
from tests.unit.bare_trees import Tree
from tests.unit.coded import get_coded, get_values
from tests.unit.crio_leftovers import BARE, COPY, shown
from tests.unit.crio_plans import (
    DIRECTORY,
    NVIDIA,
    OURS,
    PROCESS,
    host,
    left_alone,
    status,
    taken_back,
)

THEIRS = f"{DIRECTORY}/99-nvidia.toml"


def find_reason(instance: Instance) -> str:
    """Return the code of the reason why a file is not taken over, by the refusal of its engine."""
    return get_code(get_values(instance.refusal.message)["reason"])


MAIN = "/etc/crio/crio.conf"
BARE_DEFAULT = BARE.replace(
    "  [crio.runtime]\n", '  [crio.runtime]\n    default_runtime = "nvidia"\n'
)
PRINTED = """
[crio]

  [crio.runtime]

    [crio.runtime.runtimes]

      [crio.runtime.runtimes.nvidia]
        container_min_memory = ""
        inherit_default_runtime = false
        monitor_cgroup = "system.slice"
        monitor_exec_cgroup = ""
        monitor_path = "/usr/libexec/crio/conmon"
        privileged_without_host_devices = false
        runtime_config_path = ""
        runtime_path = "/usr/bin/nvidia-container-runtime"
        runtime_root = ""
        runtime_type = "oci"
"""
OPERATOR = COPY.replace("/usr/bin/", "/usr/local/nvidia/toolkit/")


def plan(
    files: dict[str, Any],
    policy: Policy | None = None,
    *,
    said: Any = None,
    pods: Any = None,
    default: bool = False,
) -> Plan:
    seen = host(
        {path: shown(text) for path, text in files.items()}, said or status(nvidia=NVIDIA), pods
    )
    instance = crio_detect.find_instances(
        policy or Policy(), crio_detect.read_facts(policy or Policy(), seen)
    )[0]
    assert instance.refusal == Refusal()
    record = decide.decide_one(policy or Policy(), instance, Kubelet())
    facts = crio_detect.read_facts(policy or Policy(), seen)
    return crio_detect.plan_instance(
        policy or Policy(), facts, instance, dc.replace(record, default=default)
    )


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (BARE, THEIRS),
        (BARE_DEFAULT, THEIRS),
        (COPY, THEIRS),
        (PRINTED, THEIRS),
        (COPY, f"{DIRECTORY}/99-nvidia.conf"),
        (COPY, f"{DIRECTORY}/50-gpus.toml"),  # --drop-in-config
        # --nvidia-runtime-path
        (
            COPY.replace('runtime"\n        runtime_root', 'runtime.cdi"\n        runtime_root'),
            THEIRS,
        ),
        (COPY, nvidia_ctk_crio.UNREAD),
    ],
)
def test_a_file_that_says_what_the_tool_writes_and_nothing_else_goes(text: str, path: str) -> None:
    found = plan({path: text})
    assert [(x.path, x.exact, x.fate, x.settings) for x in found.leftovers] == [
        (path, True, "adopted", ())
    ]
    assert [(c["op"], c["path"]) for c in found.changes] == [("write", OURS), ("remove", path)]
    assert found.expect_files[path]
    assert "runtime_path" in found.changes[0]["content"]


def test_the_low_level_runtime_is_that_of_the_configuration_without_the_file() -> None:
    """Else the run that takes it over and the next one would not write the same list into the
    runtime's config.toml.
    """
    said = status(nvidia=NVIDIA)
    said["info"]["config"]["crio"]["DefaultRuntime"] = "nvidia"
    with_file, without = host({THEIRS: shown(BARE_DEFAULT)}, said), host(said=said)
    assert [
        crio_detect.find_instances(Policy(), crio_detect.read_facts(Policy(), seen))[0].low_level
        for seen in (with_file, without)
    ] == ["/usr/libexec/crio/crun"] * 2


def test_two_files_of_the_tool_go_together() -> None:
    both = {THEIRS: COPY, f"{DIRECTORY}/99-nvidia.conf": BARE_DEFAULT, nvidia_ctk_crio.UNREAD: BARE}
    assert sorted((x.path, x.fate) for x in plan(both).leftovers) == [
        (path, "adopted") for path in sorted(both)
    ]


TABLES = st.dictionaries(
    st.sampled_from(
        (
            "runtime_root",
            "monitor_path",
            "monitor_env",
            "allowed_annotations",
            "no_sync_log",
            "container_min_memory",
        )
    ),
    st.one_of(
        st.sampled_from(("", "/a", "/b")),
        st.lists(st.sampled_from("ab"), max_size=2),
        st.booleans(),
    ),
    max_size=4,
)
OWN = {"runtime_path": "/usr/bin/nvidia-container-runtime", "runtime_type": "oci"}


@given(st.lists(TABLES, min_size=1, max_size=3), st.data())
def test_a_copy_is_explained_and_any_change_of_it_that_says_something_is_not(
    candidates: list[dict[str, Any]], data: st.DataObject
) -> None:
    copied = {**data.draw(st.sampled_from(candidates)), **OWN}
    assert (
        nvidia_ctk_crio.list_unexplained_crio_keys(copied, candidates, [OWN["runtime_path"]]) == ()
    )
    changed = {**copied, data.draw(st.sampled_from((*copied, "seccomp_profile"))): "/changed"}
    assert (
        nvidia_ctk_crio.list_unexplained_crio_keys(changed, candidates, [OWN["runtime_path"]]) != ()
    )


def test_what_was_in_force_is_in_force_again_without_a_restart() -> None:
    """The copy says what ours says, and CRI-O runs with it already."""
    assert (plan({THEIRS: COPY}).restarts, plan({THEIRS: COPY}).health) == ((), ())


def test_a_poorer_handler_becomes_a_whole_one_with_one_restart() -> None:
    poor = {"RuntimePath": NVIDIA["RuntimePath"], "RuntimeType": "oci"}
    found = plan({THEIRS: BARE}, said=status(nvidia=poor))
    assert [r.unit for r in found.restarts] == ["crio.service"]
    assert "monitor_path" in found.changes[0]["content"]


def test_the_staged_tree_may_lose_what_the_file_said_and_nothing_else() -> None:
    allow = plan({THEIRS: COPY}).validate[0]["allow"]
    assert r'(?:# )?runtime_path = "/usr/bin/nvidia\-container\-runtime"' in allow
    assert not [line for line in allow if "log_level" in line]


HANDLER = "crio.runtime.runtimes.nvidia"
ADDED = "        monitor_env = []\n        no_sync_log = true\n        monitor_path"
KATA = '\n      [crio.runtime.runtimes.kata]\n        runtime_path = "/usr/bin/kata"\n'
OF_KATA = (
    "crio.runtime.runtimes.kata.runtime_path",
    "crio.runtime.runtimes.kata.runtime_type",
    "crio.runtime.runtimes.kata",
)


def with_setting(line: str) -> str:
    return COPY.replace("  [crio.runtime]\n", f"  [crio.runtime]\n    {line}\n")


UNEXPLAINED = [
    (COPY.replace("/usr/libexec/crio/conmon", "/opt/conmon"), (f"{HANDLER}.monitor_path",)),
    (COPY.replace('        runtime_type = "oci"\n', ""), (f"{HANDLER}.runtime_type",)),
    (COPY.replace("        monitor_path", ADDED), (f"{HANDLER}.no_sync_log",)),
    # the root has it now
    (
        COPY.replace('        monitor_path = "/usr/libexec/crio/conmon"\n', ""),
        (f"{HANDLER}.monitor_path",),
    ),
    (COPY + '\n  [crio.image]\n    pause_image = "registry.example/pause"\n', ("line 17",)),
    (COPY + KATA, OF_KATA),
    (with_setting('hooks_dir = ["/opt/hooks"]'), ("crio.runtime.hooks_dir",)),
    (with_setting('default_runtime = "runc"'), ("crio.runtime.default_runtime",)),
    (COPY.replace("nvidia-container-runtime", "my-own-runtime"), (f"{HANDLER}.runtime_path",)),
    (f"# do not touch, see ticket 4711{COPY}", ("the comment in line 1",)),
    (
        COPY.replace("        monitor_path", "        # ours\n        monitor_path"),
        ("the comment in line 11",),
    ),
    (COPY.replace('conmon"\n', 'conmon" # ours\n'), ("the comment in line 11",)),
]


@pytest.mark.parametrize(("text", "keys"), UNEXPLAINED)
def test_a_file_with_more_in_it_stays_and_each_key_is_named(
    text: str, keys: tuple[str, ...]
) -> None:
    seen = host({THEIRS: shown(text)}, status(nvidia=NVIDIA))
    (instance,) = crio_detect.find_instances(Policy(), crio_detect.read_facts(Policy(), seen))
    assert instance.manager == "nvidia-ctk"
    assert find_reason(instance) == "crio.unexplained"
    assert get_values(instance.refusal.message)["reason"].values["keys"] == ", ".join(keys)
    (left,) = left_alone(Policy(), seen, instance)
    assert (left.settings, left.exact, left.fate) == (keys, False, "kept")
    assert get_code(left.why) == "crio.unexplained"


SOURCE = "[crio.runtime.runtimes.crun]\n" + COPY.partition("runtimes.nvidia]\n")[2].replace(
    "nvidia-container-runtime", "crun"
)


@pytest.mark.parametrize(
    ("copied", "there", "why"),
    [
        ("some_key = 1", "some_key = 2", "another value of the same length"),
        ("some_key = 1", "newerkey = 1", "another key of the same length"),
        ("some_key = [1]", "some_key = [2]", "another list"),
        ("some_key = true", "some_key = true", "the same, which ours would not have"),
    ],
)
def test_a_key_of_a_handler_that_is_not_known_here_keeps_the_file(
    copied: str, there: str, why: str
) -> None:
    """Many keys and values have the same stand-in, so the planner cannot tell whether one was
    copied.
    """
    seen = host(
        {THEIRS: shown(f"{COPY}        {copied}\n"), MAIN: shown(f"{SOURCE}        {there}\n")},
        status(nvidia=NVIDIA),
    )
    (instance,) = crio_detect.find_instances(Policy(), crio_detect.read_facts(Policy(), seen))
    assert get_values(instance.refusal.message)["reason"].values["keys"] == "line 15", why
    same = host(
        {THEIRS: shown(COPY + '        some_key = ""\n'), MAIN: shown(SOURCE)},
        status(nvidia=NVIDIA),
    )
    assert (
        crio_detect.find_instances(Policy(), crio_detect.read_facts(Policy(), same))[0].refusal
        == Refusal()
    )


NAMED = f"{DIRECTORY}/50-gpus.toml"
GPU = COPY.replace("runtimes.nvidia", "runtimes.gpu")
GPU_DEFAULT = GPU.replace("  [crio.runtime]\n", '  [crio.runtime]\n    default_runtime = "gpu"\n')
TWO = {"handlers": (Handler("other"), Handler())}
STAYS: list[tuple[str, str, dict[str, Any], str, dict[str, str]]] = [
    (COPY, THEIRS, {"adopt": "never"}, "crio.left-to-owner", {}),
    (COPY, nvidia_ctk_crio.UNREAD, {"adopt": "never"}, "crio.left-to-owner", {}),
    (GPU, NAMED, {}, "crio.handler-not-named", {"handler": "gpu"}),
    (BARE_DEFAULT, NAMED, TWO, "crio.other-default", {"default": "nvidia", "handler": "other"}),
    (COPY, NAMED, {"injection": "oci-hook"}, "crio.hook-wanted", {}),
]


@pytest.mark.parametrize(("text", "path", "options", "code", "values"), STAYS)
def test_what_is_recognised_may_stay_all_the_same(
    text: str, path: str, options: dict[str, Any], code: str, values: dict[str, str]
) -> None:
    policy = Policy(**options)
    seen = host({path: shown(text)}, status(nvidia=NVIDIA))
    (instance,) = crio_detect.find_instances(policy, crio_detect.read_facts(policy, seen))
    if instance.refusal:
        lefts: tuple[Leftover, ...] = left_alone(policy, seen, instance)
    else:
        facts = crio_detect.read_facts(policy, seen)
        planned = crio_detect.plan_instance(
            policy, facts, instance, decide.decide_one(policy, instance, Kubelet())
        )
        lefts = planned.leftovers
        assert path not in [c["path"] for c in planned.changes]
    (left,) = lefts
    assert (left.fate, left.exact, get_code(left.why), bool(left.next)) == (
        "kept",
        True,
        code,
        True,
    )
    assert get_values(left.why).items() >= values.items()


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        (COPY, {"adopt": "never"}, "crio.left-to-owner"),
        (GPU_DEFAULT, {}, "crio.handler-not-named"),
        (f"# mine{COPY}", {}, "crio.unexplained"),
    ],
)
def test_a_refusal_names_the_step_that_ends_it(
    text: str, options: dict[str, Any], code: str
) -> None:
    (instance,) = crio_detect.find_instances(
        Policy(**options),
        crio_detect.read_facts(
            Policy(**options), host({THEIRS: shown(text)}, status(nvidia=NVIDIA))
        ),
    )
    assert find_reason(instance) == code
    assert bool(instance.refusal.next)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("", ()),
        ("\n[crio]\n", ()),
        ("# nothing\n", ("the comment in line 1",)),
        ("[crio.runtime]\n", ()),
    ],
)
def test_a_file_without_a_handler_stays_and_says_so(text: str, keys: tuple[str, ...]) -> None:
    (left,) = plan({THEIRS: text}).leftovers
    assert (left.fate, left.exact, left.settings) == (
        "kept",
        False,
        (*keys, "crio.runtime.runtimes"),
    )
    assert get_coded([left.why]) == {"crio.declares-no-handler": {"path": THEIRS}}


REMOVED = {"existed": True, "sha256_before": "b" * 64, "sha256_after": None}


@pytest.mark.parametrize(
    ("kept", "back"),
    [
        (REMOVED, True),
        ({**REMOVED, "sha256_after": "c" * 64}, False),  # it was written, not taken over
        ({**REMOVED, "existed": False}, False),
    ],
)
@pytest.mark.parametrize("path", [THEIRS, NAMED, nvidia_ctk_crio.UNREAD])
def test_a_file_that_was_taken_over_and_is_back_stays_with_the_step(
    path: str, kept: dict[str, Any], back: bool
) -> None:
    seen = host({path: shown(COPY)}, status(nvidia=NVIDIA), originals={path: kept})
    (instance,) = crio_detect.find_instances(Policy(), crio_detect.read_facts(Policy(), seen))
    assert bool(instance.refusal) is (back and path == THEIRS)
    if instance.refusal:
        assert find_reason(instance) == "crio.came-back"
        return
    facts = crio_detect.read_facts(Policy(), seen)
    (left,) = crio_detect.plan_instance(
        Policy(), facts, instance, decide.decide_one(Policy(), instance, Kubelet())
    ).leftovers
    assert left.fate == ("kept" if back else "adopted")
    assert get_code(left.why) == ("crio.came-back" if back else "crio.tool-writes")


def test_the_operators_file_is_left_to_the_operator() -> None:
    works = [PROCESS, {"pid": 90, "exe": "/usr/bin/nvidia-toolkit", "unverified": "namespace"}]
    answers = operators.answers(
        "/var/run/crio/crio.sock", ["nvidia"], traits.get_traits(traits.CRIO).pod_note, pid=7
    )
    seen = host(
        {f"{DIRECTORY}/99-nvidia.conf": shown(OPERATOR)},
        status(nvidia=NVIDIA),
        processes=works,
        answers=answers,
    )
    (instance,) = crio_detect.find_instances(Policy(), crio_detect.read_facts(Policy(), seen))
    assert (instance.manager, left_alone(Policy(), seen, instance)) == (
        "gpu-operator",
        (),
    )
    assert instance.refusal.message.code == "operator.runs"


EDITED = COPY.replace(
    "  [crio.runtime]\n",
    '  [crio.runtime]\n    default_runtime = "nvidia"\n    log_level = "warn"\n',
)


@pytest.mark.parametrize(
    ("text", "tool", "exact"),
    [
        (EDITED, "nvidia-ctk", True),
        (EDITED.replace("/usr/libexec/crio/conmon", "/opt/conmon"), "nvidia-ctk", False),
        (EDITED.lstrip(), "a person or an unknown tool", True),
        # up to 1.17; it is gone
        (
            EDITED.replace("/usr/bin/", "/usr/local/nvidia/toolkit/"),
            "gpu-operator",
            True,
        ),
    ],
)
def test_a_main_file_that_was_edited_stays_and_ours_decides(
    text: str, tool: str, exact: bool
) -> None:
    found = plan({MAIN: text}, default=True)
    keys = ("crio.runtime.runtimes.nvidia", "crio.runtime.default_runtime")
    assert [(x.tool, x.path, x.settings, x.exact, x.fate) for x in found.leftovers] == [
        (tool, MAIN, keys, exact, "adopted")
    ]
    assert [c["path"] for c in found.changes] == [OURS]


ROOTED = COPY.replace("/run/crun", "/run/runc")
RUNC = """\
[crio.runtime.runtimes.runc]
runtime_root = "/run/runc"
allowed_annotations = ["io.containers.trace-syscall"]
monitor_path = "/usr/libexec/crio/conmon"
"""


@pytest.mark.parametrize(
    ("pods", "default", "refused"),
    [
        ({"pods": []}, "crun", False),
        ({"pods": ["a/b"]}, "crun", True),
        # unknown counts as in use
        (
            {"error": {"kind": "timeout", "message": "no answer"}},
            "crun",
            True,
        ),
        ({"pods": []}, "nvidia", True),  # pods of the default handler do not name it
    ],
)
def test_a_handler_whose_containers_would_be_lost_stays_until_none_runs(
    pods: Any, default: str, refused: bool
) -> None:
    files = {THEIRS: ROOTED, f"{DIRECTORY}/20-runc.conf": RUNC}
    said = status(nvidia={**NVIDIA, "RuntimeRoot": "/run/runc"})
    said["info"]["config"]["crio"]["DefaultRuntime"] = default
    if default == "crun":
        with pytest.raises(NeedMore):
            plan(files, said=said)
    if refused:
        with pytest.raises(PlanError) as caught:
            plan(files, said=said, pods=pods)
        assert caught.value.code == "crio.state-elsewhere"
        assert caught.value.values == {
            "handler": "nvidia",
            "present": "/run/runc",
            "planned": "/run/crun",
        }
    else:
        assert [x.fate for x in plan(files, said=said, pods=pods).leftovers] == ["adopted"]


def test_absent_names_no_pod_where_the_tools_handler_comes_back() -> None:
    files = {
        OURS: COPY.replace(
            "\n[crio]",
            "# Written by the Ansible collection gpufleet.nvidia; changes are overwritten.\n[crio]",
            1,
        )
    }
    kept = {THEIRS: {"existed": True, "sha256_before": "b" * 64, "sha256_after": None}}
    seen = host({p: shown(t) for p, t in files.items()}, status(nvidia=NVIDIA), originals=kept)
    assert taken_back(seen).advice == ()


# ---------------------------------------------------------------- links


@pytest.mark.parametrize("name", ["99-nvidia.toml", "99-nvidia.conf"])
def test_a_link_stays_since_crio_does_not_start_with_one_that_leads_to_nothing(
    tmp_path: pathlib.Path, name: str
) -> None:
    tree = Tree(tmp_path / "host")
    tree.write("/srv/nvidia.toml", BARE)
    tree.path(DIRECTORY).mkdir(parents=True)
    tree.path(f"{DIRECTORY}/{name}").symlink_to("/srv/nvidia.toml")
    state = tree.state()
    found = tree.single("crio", engine_version="1.34.0")
    assert found["failed"] is True
    assert "it is a symbolic link to /srv/nvidia.toml" in found["msg"]
    assert tree.state() == state


def test_a_file_in_a_linked_directory_goes_and_comes_back(tmp_path: pathlib.Path) -> None:
    tree = Tree(tmp_path / "host")
    tree.write("/srv/crio/99-nvidia.toml", BARE, 0o600)
    tree.path("/etc/crio").mkdir(parents=True)
    tree.path(DIRECTORY).symlink_to("/srv/crio")
    state = tree.state()
    assert [left["fate"] for left in tree.single("crio", engine_version="1.34.0")["leftovers"]] == [
        "adopted"
    ]
    assert not tree.path("/srv/crio/99-nvidia.toml").exists()
    tree.write("/srv/crio/99-nvidia.toml", BARE, 0o600)
    refused = tree.single("crio", engine_version="1.34.0")["error"]
    assert refused["code"] == "crio.not-taken-over"
    tree.path("/srv/crio/99-nvidia.toml").unlink()
    assert tree.single("crio", engine_version="1.34.0", state="absent")["failed"] is False
    assert tree.state() == state
    assert [left["fate"] for left in tree.single("crio", engine_version="1.34.0")["leftovers"]] == [
        "adopted"
    ]


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (None, "/a", (None, "/a")),
        (
            toml_file.Hidden("1", "", None, (0, 0), ""),
            toml_file.Hidden("2", "", None, (0, 0), ""),
            ("(hidden)", "(hidden), another one"),
        ),
        (toml_file.Hidden("1", "", None, (0, 0), ""), None, ("(hidden)", None)),
    ],
)
def test_two_values_that_are_not_sent_are_not_shown_as_one(
    before: Any, after: Any, shown: Any
) -> None:
    assert crio_plan.show_value_pair(before, after) == shown


# a drop-in without a handler -> the table that nothing explains
EMPTY_TABLES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "nothing": ({}, nvidia_ctk_crio.RUNTIMES),
    "the table of CRI-O": ({"crio": {}}, nvidia_ctk_crio.RUNTIMES),
    "its runtime": ({"crio": {"runtime": {}}}, nvidia_ctk_crio.RUNTIMES),
    "its handlers": ({"crio": {"runtime": {"runtimes": {}}}}, nvidia_ctk_crio.RUNTIMES),
    "another table": ({"crio": {"image": {}}}, ("crio", "image")),
}


@pytest.mark.parametrize("case", EMPTY_TABLES)
def test_an_empty_table_on_the_way_to_handlers_explains_itself(case: str) -> None:
    data, unexplained = EMPTY_TABLES[case]
    assert nvidia_ctk_crio.judge_ctk_crio_file(data, [], []).unexplained == (unexplained,)
