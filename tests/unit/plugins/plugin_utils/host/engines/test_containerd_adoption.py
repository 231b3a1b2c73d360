# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nvidia-ctk left beside a configuration of containerd: what is taken over, and the one
sentence for everything that is not.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Handler,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    containerd_places,
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    nvidia_ctk,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detect as containerd_detect,
)

from tests.unit import builders
from tests.unit.containerd_leftovers import COPY, OURS, ROOT, SITE, THEIRS, VERSIONS, rendered
from tests.unit.containerd_plans import DECISION, instance


def shown(text: str) -> dict[str, Any]:
    """A file as a host sends it."""
    return {
        "content": file_places.show_own_text(text, containerd_places.keep_containerd_places()),
        "keep": containerd_places.keep_containerd_places(),
        "sha256": builders.sha(text),
        "text": text,
    }


def plan(
    version: str,
    files: Mapping[str, Any],
    originals: Any = None,
    policy: Policy | None = None,
    **more: Any,
) -> Plan:
    obs = builders.obs(files=files, originals=originals)
    return containerd_detect.plan_instance(
        policy or Policy(),
        containerd_detect.read_facts(policy or Policy(), obs),
        instance(version, running=False),
        dc.replace(DECISION, **{"default": True, **more}),
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_drop_in_that_is_all_explained_goes_with_the_change_that_takes_its_place(
    version: str,
) -> None:
    found = plan(version, rendered(version, {ROOT: SITE, THEIRS: COPY}))
    (left,) = found.leftovers
    assert (left.tool, left.path, left.exact, left.fate, left.settings) == (
        "nvidia-ctk",
        THEIRS,
        True,
        "adopted",
        (),
    )
    assert [(c["op"], c["path"]) for c in found.changes] == [
        ("edit", ROOT) if version < "2" else ("write", OURS),
        ("remove", THEIRS),
    ]
    assert found.changes[-1]["expect"] == builders.sha(rendered(version, {THEIRS: COPY})[THEIRS])
    assert [(d.path, d.before, d.after) for d in found.differences if d.key == ""] == [
        (THEIRS, "present", None)
    ]
    assert len(found.restarts) == 0  # nothing runs in this test


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("was", "wanted", "shown"),
    [
        # the default handler in the drop-in, whether the decision makes ours the default, what the
        # plan says of the default
        ("nvidia", False, [(THEIRS, "nvidia", "runc")]),
        ("nvidia", True, []),  # the edit of our own file shows it
        ("runc", False, []),
    ],
)
def test_a_default_handler_that_goes_with_the_drop_in_is_shown(
    version: str, was: str, wanted: bool, shown: list[Any]
) -> None:
    named = COPY.replace('default_runtime_name = "nvidia"', f'default_runtime_name = "{was}"')
    found = plan(version, rendered(version, {ROOT: SITE, THEIRS: named}), default=wanted)
    assert found.leftovers[0].fate == "adopted", found.leftovers
    said = [
        d for d in found.differences if d.key.endswith("default_runtime_name") and d.path == THEIRS
    ]
    assert [(d.path, d.before, d.after) for d in said] == shown
    assert all(get_code(d.why) == "containerd.not-default-handler-unless-asked" for d in said)


OF_NVIDIA = '.runtimes.nvidia]\n          runtime_type = "io.containerd.runc.v2"\n'
RUNC_TABLE = "        [plugins.@CRI@.containerd.runtimes.runc]\n"
# What stays: (edit of the root file, edit of the copy, other files, the named places). (text,
# text): the one in the place of the other.
EDITS: dict[str, tuple[tuple[str, str], tuple[str, str], dict[str, str], str]] = {
    "a value in the copy": (
        ("", ""),
        ("16384", "8192"),
        {},
        r"/\S+/99-nvidia\.toml:8.*/\S+/config\.toml:6",
    ),
    "a key more in the copy": (
        ("", ""),
        ("    enable_sel", '    drain_exec_sync_io_timeout = "5s"\n    enable_sel'),
        {},
        r"/\S+/99-nvidia\.toml:7",
    ),
    "a later edit of the root file": (
        ("0x4000", "0x2000"),
        ("", ""),
        {},
        r"/\S+/99-nvidia\.toml:8.*/\S+/config\.toml:6",
    ),
    "the handler in the copy": (
        ("", ""),
        (OF_NVIDIA, OF_NVIDIA + "          privileged_without_host_devices = true\n"),
        {},
        r"containerd\.runtimes\.nvidia\.privileged_without_host_devices .*/\S+/99-nvidia\.toml:\d+.*true",
    ),
    "the cgroup driver of the handler in the copy": (
        ("", ""),
        (
            'runtime"\n            SystemdCgroup = true',
            'runtime"\n            SystemdCgroup = false',
        ),
        {},
        r"containerd\.runtimes\.nvidia\.options\.SystemdCgroup .*/\S+/99-nvidia\.toml:20.*false",
    ),
    "runc in the root file, afterwards": (
        ("SystemdCgroup = true", "SystemdCgroup = false"),
        ("", ""),
        {},
        r"containerd\.runtimes\.runc\.options\.SystemdCgroup .*/\S+/99-nvidia\.toml:26.*true.*/\S+/config\.toml:10.*false",
    ),
    "a handler that says nothing": (
        ("", ""),
        (RUNC_TABLE, "[plugins.@CRI@.containerd.runtimes.x]\n" + RUNC_TABLE),
        {},
        r"handler x.*/\S+/99-nvidia\.toml",
    ),
    "a site's file that the copy hides": (
        ("", ""),
        ("", ""),
        {
            "/etc/containerd/conf.d/10-site.toml": "version = @V@\n[plugins.@CRI@]\nenable_selinux = false\n"
        },
        r"/\S+/99-nvidia\.toml:7.*/\S+/10-site\.toml:3",
    ),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", EDITS)
def test_what_nothing_explains_keeps_the_file_and_is_named_with_both_lines(
    name: str, version: str
) -> None:
    root, copy, others, places = EDITS[name]
    files = {
        ROOT: SITE.replace(*root) if root[0] else SITE,
        THEIRS: COPY.replace(*copy) if copy[0] else COPY,
        **others,
    }
    files = rendered(version, files)
    assert files != rendered(version, {ROOT: SITE, THEIRS: COPY})
    if version < "2":
        with pytest.raises(PlanError) as caught:
            plan(version, files)
        assert (caught.value.where, caught.value.code) == (
            THEIRS,
            "containerd.file-of-tool-read-later",
        )
        require_named(caught.value.values["cause"], places)
        return
    found = plan(version, files)
    (left,) = found.leftovers
    assert (left.fate, left.exact, bool(left.settings)) == ("kept", False, True)
    require_named(left.why, places)
    assert f"remove {THEIRS}" in left.next
    assert THEIRS not in [c["path"] for c in found.changes]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", EDITS)
def test_the_step_leads_past_the_file(name: str, version: str) -> None:
    """The values that hold are those of the other files, and the tool's file is removed: what is
    said next, if anything, is about another file.
    """
    root, _copy, others, _places = EDITS[name]
    files = rendered(version, {ROOT: SITE.replace(*root) if root[0] else SITE, **others})
    said = ("", "")
    try:
        left = plan(version, files).leftovers
    except PlanError as refused:
        left, said = (), (refused.where, refused.code)
    assert left == ()
    assert THEIRS not in said
    assert "containerd.file-of-tool-read-later" not in said


def require_named(why: str, places: str) -> None:
    """Require the message about keys that nothing explains, with these places."""
    assert isinstance(why, Message)
    assert why.code.endswith("keys-unexplained")
    assert re.search(places, why.values["keys"]), why


@pytest.mark.parametrize("name", EDITS)
def test_what_keeps_a_file_keeps_it_in_the_next_run_too(name: str) -> None:
    """Our drop-in, which the first run has written beside it, has copies of what it says, and
    explains nothing.
    """
    root, copy, others, _places = EDITS[name]
    files = {
        ROOT: SITE.replace(*root) if root[0] else SITE,
        THEIRS: COPY.replace(*copy) if copy[0] else COPY,
        **others,
    }
    files = rendered("2.1.9", files)
    first = plan("2.1.9", files)
    written = {change["path"]: change["content"] for change in first.changes}
    assert set(written) == {OURS}
    again = plan("2.1.9", {**files, **written})
    assert [(left.fate, left.settings) for left in again.leftovers] == [
        (left.fate, left.settings) for left in first.leftovers
    ]
    assert again.changes == ()


def test_no_value_that_is_not_sent_is_in_a_sentence() -> None:
    secret = SITE + '[plugins.@CRI@.registry.configs."r".auth]\npassword = "hunter2"\n'
    copy = COPY + '\n    [plugins.@CRI@.registry.configs."r".auth]\n      password = "hunter3"\n'
    with pytest.raises(PlanError) as caught:
        plan("1.7.24", rendered("1.7.24", {ROOT: secret, THEIRS: copy}))
    assert "config.toml:12" in str(caught.value)
    assert "hunter" not in str(caught.value)


# Debian's file names no handler, and up to 1.7 containerd has none of its own as soon as a file
# names one.
BARE = SITE.partition("[plugins.@CRI@.containerd.runtimes.runc]")[0]
BARE_COPY = COPY.partition("            SystemdCgroup")[0]
MENDED = """
        [plugins.@CRI@.containerd.runtimes.runc]
          runtime_type = "io.containerd.runc.v2"

          [plugins.@CRI@.containerd.runtimes.runc.options]
            SystemdCgroup = @ON@
"""


@pytest.mark.parametrize("default", ["nvidia", "runc"])
@pytest.mark.parametrize(("systemd", "goes"), [("true", False), ("false", True)])
def test_a_runc_that_somebody_added_to_the_copy_keeps_its_cgroup_driver(
    default: str, systemd: str, goes: bool
) -> None:
    """Ours has the built-in runc where no other file has one: with the systemd driver of the host's
    pods it would take away every pod.
    """
    copy = BARE_COPY.replace('_name = "nvidia"', f'_name = "{default}"') + MENDED.replace(
        "@ON@", systemd
    )
    files = rendered("1.7.24", {ROOT: BARE, THEIRS: copy})
    if goes:
        assert [left.fate for left in plan("1.7.24", files).leftovers] == ["adopted"]
        return
    line = copy[: copy.index("SystemdCgroup")].count("\n") + 1
    with pytest.raises(PlanError) as caught:
        plan("1.7.24", files)
    require_named(
        caught.value.values["cause"],
        rf"containerd\.runtimes\.runc\.options\.SystemdCgroup .*{THEIRS}:{line}.*true",
    )


WRAPPER = "/opt/site/nvidia-container-runtime-wrapper"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("handler", "goes"),
    [
        (Handler(), False),
        (Handler(binary=WRAPPER, chosen=True), True),
        (Handler(chosen=True), True),
    ],
)
def test_a_program_of_the_sites_own_goes_only_where_one_is_named(
    version: str, handler: Handler, goes: bool
) -> None:
    files = rendered(
        version, {ROOT: SITE, THEIRS: COPY.replace("/usr/bin/nvidia-container-runtime", WRAPPER)}
    )
    if goes:
        found = plan(version, files, policy=Policy(handlers=(handler,)))
        assert [left.fate for left in found.leftovers] == ["adopted"]
        assert f'BinaryName = "{handler.binary}"' in str(found.changes[0])
        return
    with pytest.raises(PlanError) as caught:
        plan(version, files)
    assert caught.value.code == "engine.handler-other-program"
    assert caught.value.values == {"handler": "nvidia", "program": WRAPPER}


LITERAL = SITE.replace("*.toml", "99-nvidia.toml")
SECOND = COPY.replace("runtimes.nvidia", "runtimes.gpu").replace('"nvidia"', '"gpu"')
REMOVED = {THEIRS: {"existed": True, "sha256_before": "x", "sha256_after": None, "content": None}}
# Bad input: (files, what the journal keeps, adopt, the code)
STAYS: dict[str, tuple[dict[str, Any], Any, str, str]] = {
    "adopt: never": ({ROOT: SITE, THEIRS: COPY}, None, "never", "adopt-never"),
    "an import by name": (
        {ROOT: LITERAL, THEIRS: COPY},
        None,
        "auto",
        "file-of-tool-imported-by-name",
    ),
    "two tools at once": (
        {ROOT: SITE, THEIRS: COPY, "/etc/containerd/conf.d/95-site.toml": SECOND},
        None,
        "auto",
        "two-tools",
    ),
    "half edited: a comment": (
        {ROOT: SITE, THEIRS: "# by Anna\n" + COPY},
        None,
        "auto",
        "key-not-of-nvidia-ctk",
    ),
    "half edited: a comment behind a value": (
        {ROOT: SITE, THEIRS: COPY.replace("enable_cdi = true", "enable_cdi = true # why")},
        None,
        "auto",
        "key-not-of-nvidia-ctk",
    ),
    "another configuration imports it": (
        {
            ROOT: SITE,
            THEIRS: COPY,
            "/etc/containerd/second.toml": 'version = 2\nimports = ["conf.d/99-nvidia.toml"]\n',
        },
        None,
        "auto",
        "stopped-containerd-imports",
    ),
    "half edited: another plugin": (
        {
            ROOT: SITE,
            THEIRS: COPY + '[plugins."io.containerd.gc.v1.scheduler"]\npause_threshold = 0.02\n',
        },
        None,
        "auto",
        "key-not-of-nvidia-ctk",
    ),
    "it comes back at every boot": (
        {ROOT: SITE, THEIRS: COPY},
        REMOVED,
        "auto",
        "file-of-tool-came-back",
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_bad_input_is_said_in_one_sentence_and_changes_nothing_of_it(name: str) -> None:
    files, originals, adopt, code = STAYS[name]
    found = plan("2.1.9", rendered("2.1.9", files), originals, Policy(adopt=adopt))  # type: ignore[arg-type]
    assert {left.fate for left in found.leftovers} == {"kept"}
    assert {get_code(left.why) for left in found.leftovers} == {f"containerd.{code}"}
    assert all(left.next for left in found.leftovers)
    assert not [c for c in found.changes if c["op"] == "remove"]


OTHER = "/srv/second/config.toml"
# How a second containerd was started, the text of its configuration, the code of why the file stays
# ('' if it goes)
SECONDS: dict[str, tuple[list[str], str, str]] = {
    "it imports the file by name": (["-c", OTHER], f'version = 2\nimports = ["{THEIRS}"]\n', "reads"),
    "it imports the directory": ([f"--config={OTHER}"], 'version = 2\nimports = ["/etc/containerd/conf.d/*.toml"]\n', "reads"),
    "its configuration is broken": (["--config", OTHER], "version = [\n", "config-unreadable"),
    "nobody knows where its configuration is": (["-c", "config.toml"], "", "at-unknown-path"),
    "it imports nothing": (["-c", OTHER], "version = 2\n", ""),
    "it has the same configuration": (["-c", ROOT], "", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", SECONDS)
def test_a_file_that_a_second_containerd_reads_stays(case: str) -> None:
    flags, text, code = SECONDS[case]
    files = {**rendered("2.1.9", {ROOT: SITE, THEIRS: COPY}), OTHER: text}
    seen = builders.obs(
        files=files,
        processes=[{"pid": 77, "exe": "/usr/bin/containerd", "argv": ["containerd", *flags]}],
    )
    found = containerd_detect.plan_instance(
        Policy(),
        containerd_detect.read_facts(Policy(), seen),
        instance("2.1.9", running=False),
        dc.replace(DECISION, default=True),
    )
    (left,) = found.leftovers
    assert (left.fate, get_code(left.why)) == (
        ("kept", f"containerd.other-containerd-{code}")
        if code
        else ("adopted", "containerd.explained-by-nvidia-ctk")
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_annotations_that_the_tool_copied_to_a_handler_that_was_there_stay_beside_ours(
    version: str,
) -> None:
    """Where the handler stands in the main file as well, ours is made like that one, and the tool's
    like runc.
    """
    runc = '.runtimes.runc]\nruntime_type = "io.containerd.runc.v2"\n'
    passed = 'container_annotations = ["site/*"]\n'
    theirs = (
        SITE
        + '[plugins.@CRI@.containerd.runtimes.nvidia]\nruntime_type = "io.containerd.runc.v2"\n'
    )
    site = theirs.replace(runc, runc + passed)
    copy = re.sub(r"(\.runtimes\.(?:runc|nvidia)\]\n)", rf"\g<1>          {passed}", COPY)
    files = rendered(version, {ROOT: site, THEIRS: copy})
    found = plan(version, files)
    assert [left.fate for left in found.leftovers if left.path == THEIRS] == ["adopted"], (
        found.leftovers
    )
    (set_to,) = [
        d.after
        for d in found.differences
        if d.key.endswith("runtimes.nvidia.container_annotations")
    ] or [None]
    assert set_to is None or set(set_to) == {"site/*", "nvidia.cdi.k8s.io/*"}
    if version > "2":
        kept = {
            THEIRS: {
                "existed": True,
                "sha256_before": "x",
                "sha256_after": None,
                "content": files[THEIRS],
            }
        }
        written = next(c["content"] for c in found.changes if c["path"] == OURS)
        assert '"site/*"' in written
        assert plan(version, {ROOT: files[ROOT], OURS: written}, kept).empty


def test_a_copy_of_a_handler_of_the_old_shims_type_goes_and_ours_has_the_type_of_today() -> None:
    """nvidia-ctk copies the type with the rest; ours is one of runc's, whatever it is copied from."""
    old = {"io.containerd.runc.v2": "io.containerd.runtime.v1.linux", "SystemdCgroup = true": ""}
    linux = [re.sub("|".join(old), lambda found: old[found.group()], text) for text in (SITE, COPY)]
    found = plan("1.7.24", rendered("1.7.24", dict(zip((ROOT, THEIRS), linux, strict=True))))
    assert [left.fate for left in found.leftovers] == ["adopted"], found.leftovers
    types = [d.after for d in found.differences if d.key.endswith("runtimes.nvidia.runtime_type")]
    assert types == ["io.containerd.runc.v2"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_copy_of_a_handler_whose_type_is_built_in_goes_and_ours_has_a_type(version: str) -> None:
    """Up to 1.19 the tool copies what the main file sets, without the type that containerd adds to
    runc there.
    """
    bare = [re.sub(r'\n *runtime_type = "\S+"', "", text) for text in (SITE, COPY)]
    found = plan(version, rendered(version, dict(zip((ROOT, THEIRS), bare, strict=True))))
    assert [left.fate for left in found.leftovers] == ["adopted"], found.leftovers
    types = [d.after for d in found.differences if d.key.endswith("runtimes.nvidia.runtime_type")]
    assert types == ["io.containerd.runc.v2"]


@pytest.mark.parametrize("path", [THEIRS, nvidia_ctk.MISPLACED])
def test_a_file_that_nobody_imports_is_named_and_stays(path: str) -> None:
    found = plan(
        "1.7.24", rendered("1.7.24", {ROOT: SITE.replace("imports", "# imports"), path: COPY})
    )
    (left,) = found.leftovers
    assert (left.path, left.fate, get_code(left.why)) == (
        path,
        "kept",
        "containerd.file-of-tool-not-imported",
    )
    assert [c["path"] for c in found.changes] == [ROOT]


def test_a_link_to_the_file_stays() -> None:
    files: dict[str, Any] = rendered("2.1.9", {ROOT: SITE, THEIRS: COPY})
    found = plan(
        "2.1.9", {**files, THEIRS: {"content": files[THEIRS], "real": "/srv/99-nvidia.toml"}}
    )
    assert [(left.fate, get_code(left.why)) for left in found.leftovers] == [
        ("kept", "engine.file-of-tool-is-link")
    ]


def test_the_operators_handlers_are_not_nvidia_ctks() -> None:
    operators = COPY.replace("/usr/bin/", "/usr/local/nvidia/toolkit/")
    with pytest.raises(
        NeedMore, match="processes:kubelet, processes:nvidia-ctk-installer,nvidia-toolkit"
    ):
        plan(
            "2.1.9", rendered("2.1.9", {ROOT: SITE, "/etc/containerd/conf.d/95-x.toml": operators})
        )


def test_a_handler_of_another_name_goes_on_and_is_still_there_in_the_second_run() -> None:
    files = rendered("2.1.9", {ROOT: SITE, THEIRS: SECOND})
    found = plan("2.1.9", files, default=False)
    (written, removed) = found.changes
    assert ".runtimes.gpu.options]" in written["content"]
    assert 'default_runtime_name = "gpu"' in written["content"]
    kept = {
        removed["path"]: {
            "existed": True,
            "sha256_before": "x",
            "sha256_after": None,
            "content": files[THEIRS],
        }
    }
    again = plan("2.1.9", {ROOT: files[ROOT], OURS: written["content"]}, kept, default=False)
    assert again.empty, again.differences


# ---------------------------------------------------------------- a handler in the main file, and
# the drop-in beside it

IN_MAIN = (
    SITE
    + """[plugins.@CRI@.containerd.runtimes.nvidia]
runtime_type = "io.containerd.runc.v2"
@MORE@
[plugins.@CRI@.containerd.runtimes.nvidia.options]
BinaryName = "/usr/bin/nvidia-container-runtime"
@OPTION@
"""
)
# What nvidia-ctk 1.20 writes on containerd 2.x: the handler alone, a copy of runc.
HANDLER = "".join(line for line in COPY.partition("        [plugins.@CRI@.containerd.runtimes.runc]")[0].splitlines(keepends=True)
                  if not any(key in line for key in ("enable_", "max_container", "default_runtime")))  # fmt: skip
# the handler in the main file beyond its program -> what stays in force; () where the two say the
# same of the cgroup driver
LENT: dict[str, tuple[str, str, bool]] = {
    "by 1.17": ("", "SystemdCgroup = true", True),
    "without a word on the cgroup driver": ("", "", True),
    "a flag": ("privileged_without_host_devices = true", "SystemdCgroup = true", True),
    "annotations": ('container_annotations = ["a/*"]', "SystemdCgroup = true", True),
    "a spec": ('base_runtime_spec = "/etc/containerd/nvidia.json"', "", True),
    "an option": ("", 'ShimCgroup = "/shims"', True),
    "an option that is not sent": ("", 'Secret = "s3cret"', True),
    "another cgroup driver, which the drop-in hides": ("", "SystemdCgroup = false", False),
}  # fmt: skip


@pytest.mark.parametrize("case", LENT)
def test_a_drop_in_beside_a_handler_of_the_main_file_goes_and_that_handler_keeps_what_it_has(
    case: str,
) -> None:
    more, option, goes = LENT[case]
    version = "2.1.9"
    main = IN_MAIN.replace("@MORE@", more).replace("@OPTION@", option)
    files = rendered(version, {ROOT: main, THEIRS: HANDLER})
    found = plan(version, files, default=False)
    assert [(left.path, left.fate) for left in found.leftovers][:1] == [
        (THEIRS, "adopted" if goes else "kept")
    ], found.leftovers
    if not goes:
        return
    assert [c["path"] for c in found.changes] == [OURS, THEIRS]
    assert (ROOT, "adopted") in [(left.path, left.fate) for left in found.leftovers]
    said = [line.partition(" = ") for line in (more, option) if line and "Secret" not in line]
    ours = found.changes[0]["content"]
    assert all(
        f"{name} = {value}" in ours or (name == "container_annotations" and '"a/*"' in ours)
        for name, _is, value in said
    ), ours
    assert [d for d in found.differences if d.before == d.after] == []


def test_a_property_that_the_drop_in_itself_adds_is_still_named() -> None:
    version = "2.1.9"
    main = IN_MAIN.replace("@MORE@", "").replace("@OPTION@", "SystemdCgroup = true")
    added = HANDLER.replace(
        OF_NVIDIA, OF_NVIDIA + "          privileged_without_host_devices = true\n"
    )
    left = plan(version, rendered(version, {ROOT: main, THEIRS: added}), default=False).leftovers[0]
    assert (
        left.fate,
        "privileged_without_host_devices (/etc/containerd/conf.d/99-nvidia.toml" in left.why,
    ) == ("kept", True), left
