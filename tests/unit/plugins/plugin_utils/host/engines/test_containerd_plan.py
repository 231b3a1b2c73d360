# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines that are written for one containerd, and the files that are refused, each with its place."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import edits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Handler,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    containerd_places,
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    edit as containerd_edit,
)

from tests.unit import builders
from tests.unit.containerd_plans import CRI, DROP_IN, NVIDIA, OLD, ROOT, applied, plan

NEW = '"io.containerd.cri.v1.runtime"'
# A root file without `version`, for containerd 1.7 -> the version that it gets, and the CRI table
# that ours is written to.
V1_TABLE = "plugins.cri"
V2_TABLE = f"plugins.{CRI}"
WITHOUT_VERSION = {
    "an empty file": ("", 2, V2_TABLE),
    "comments alone": ("# ours since 2019\n", 2, V2_TABLE),
    "empty lists": ("disabled_plugins = []\nrequired_plugins = []\n", 2, V2_TABLE),
    "settings that all versions name alike": (
        'oom_score = -999\n[grpc]\n  gid = 3\n[debug]\n  level = "info"\n',
        2,
        V2_TABLE,
    ),
    "no plugin beneath plugins": ("[plugins]\n", 2, V2_TABLE),
    # What version 2 would name otherwise: with `version = 2`, 1.x refuses the file.
    "a table of version 1": ('[plugins.cri]\nsandbox_image = "x"\n', None, V1_TABLE),
    "a table of another plugin": ('[plugins.opt]\npath = "/opt/x"\n', None, V1_TABLE),
    "a disabled plugin": ('disabled_plugins = ["btrfs"]\n', None, V1_TABLE),
    "a required plugin": ('required_plugins = ["cri"]\n', None, V1_TABLE),
    "version 1, said": ("version = 1\n", 1, V1_TABLE),
}


@pytest.mark.parametrize("case", WITHOUT_VERSION)
@pytest.mark.parametrize("release", ["1.6.20", "1.7.24"])
def test_a_file_without_a_version_gets_version_2_where_that_changes_nothing_else(
    case: str, release: str
) -> None:
    text, version, table = WITHOUT_VERSION[case]
    found = plan(release, {ROOT: text})
    after = applied({ROOT: text}, found)
    read = tomllib.loads(after[ROOT])
    assert (read.get("version"), f"[{table}.containerd.runtimes.nvidia]" in after[ROOT]) == (
        version,
        True,
    )
    assert {key: value for key, value in read.items() if key not in ("version", "plugins")} == {
        key: value
        for key, value in tomllib.loads(text).items()
        if key not in ("version", "plugins")
    }
    assert [d.after for d in found.differences if d.key == "version"] == (
        [2] if version == 2 else []
    )
    assert plan(release, after).changes == (), "the second run changes nothing"
    if version == 2:  # and the release after an upgrade reads it
        plan("2.1.9", after)


def test_a_file_without_a_version_whose_import_says_version_2_is_read_by_that() -> None:
    files = {
        ROOT: 'imports = ["/etc/containerd/a.toml"]\n',
        "/etc/containerd/a.toml": "version = 2\n",
    }
    after = applied(files, plan("1.7.24", files))
    assert tomllib.loads(after[ROOT])["version"] == 2
    assert f"[{V2_TABLE}.containerd.runtimes.nvidia]" in after[ROOT]


@pytest.mark.parametrize("settings", ["explicit", "never"])
def test_a_file_without_a_version_that_is_edited_in_place_on_2_x_gets_version_2(
    settings: str,
) -> None:
    text = "" if settings == "explicit" else "oom_score = 0\n"
    after = applied({ROOT: text}, plan("2.1.9", {ROOT: text}, Policy(drop_in="never")))
    assert tomllib.loads(after[ROOT])["version"] == 2
    assert f"[{V2_TABLE}.containerd.runtimes.nvidia]" in after[ROOT]


@pytest.mark.parametrize(("version", "text"), [("1.7.24", OLD), ("2.1.9", "version = 3\n")])
def test_the_order_of_handlers_writes_the_same_files(version: str, text: str) -> None:
    zeta, alpha = Handler("zeta"), Handler("alpha")
    one, other = (
        plan(version, {ROOT: text}, Policy(handlers=order))
        for order in ((zeta, alpha), (alpha, zeta))
    )
    assert one.changes == other.changes != ()


def test_1_x_is_edited_in_place_with_runcs_options() -> None:
    files = {ROOT: OLD}
    found = plan("1.7.24", files, enable_cdi=True, default=True)
    text = applied(files, found)[ROOT]
    assert (
        text
        == f"""# ours since 2019
version = 2
[plugins]
  [plugins.{CRI}]
    sandbox_image = "pause:3.9" # mirror
    enable_cdi = true
    [plugins.{CRI}.containerd]
      default_runtime_name = "nvidia"
      [plugins.{CRI}.containerd.runtimes.runc]
        runtime_type = "io.containerd.runc.v2"
        [plugins.{CRI}.containerd.runtimes.runc.options]
          SystemdCgroup = true

      [plugins.{CRI}.containerd.runtimes.nvidia]
        runtime_type = "io.containerd.runc.v2"
        container_annotations = ["nvidia.cdi.k8s.io/*"]

        [plugins.{CRI}.containerd.runtimes.nvidia.options]
          BinaryName = "{NVIDIA}"
          SystemdCgroup = true

[debug]
  level = "info"
"""
    )
    assert all(d.why for d in found.differences)
    assert plan("1.7.24", {ROOT: text}, enable_cdi=True, default=True).empty


def test_1_x_without_any_handler_gets_runc_beside_ours() -> None:
    files = {ROOT: "version = 2\n"}
    text = applied(files, plan("1.6.20", files))[ROOT]
    assert "runtimes.runc]" in text
    assert "enable_cdi" not in text


def test_version_1_names_on_1_x() -> None:
    files = {ROOT: '[plugins.cri]\n  sandbox_image = "x"\n'}
    text = applied(files, plan("1.7.24", files))[ROOT]
    assert "[plugins.cri.containerd.runtimes.nvidia.options]" in text
    assert "version" not in text


@pytest.mark.parametrize(
    ("version", "root", "declared", "table"),
    [
        ("2.1.9", f"version = 2\n[plugins.{CRI}]\nenable_selinux = false\n", 2, CRI),
        # as AKS writes it
        (
            "2.3.7",
            f"version = 2\n[plugins.{NEW}]\nenable_selinux = false\n",
            2,
            NEW,
        ),
        ("2.1.9", f"version = 3\n[plugins.{NEW}]\nenable_selinux = false\n", 3, NEW),
        # the server's part keeps the old name
        (
            "2.1.9",
            f'version = 3\n[plugins.{CRI}]\nstream_server_port = "0"\n',
            3,
            NEW,
        ),
        ("2.3.7", "version = 4\n", 4, NEW),
        ("2.3.7", "version = 3\n", 3, NEW),
        ("2.1.9", "oom_score = -1\n", 2, CRI),
    ],
)
def test_2_x_gets_a_drop_in_of_the_roots_own_version_and_names(
    version: str, root: str, declared: int, table: str
) -> None:
    files = {ROOT: root}
    after = applied(files, plan(version, files))
    assert after[DROP_IN].splitlines()[1] == f"version = {declared}"
    assert f"[plugins.{table}.containerd.runtimes.nvidia]" in after[DROP_IN]
    assert 'imports = ["/etc/containerd/conf.d/*.toml"]' in after[ROOT]
    assert set(root.splitlines()) <= set(after[ROOT].splitlines())
    assert plan(version, after).empty


def test_2_x_uses_the_directory_that_the_root_file_imports_already() -> None:
    files = {ROOT: 'version = 3\nimports = ["/etc/containerd/site/*.toml"]\n'}
    after = applied(files, plan("2.3.7", files))
    assert set(after) == {ROOT, "/etc/containerd/site/90-gpufleet.toml"}
    assert after[ROOT] == files[ROOT]


def test_2_x_without_a_root_file_gets_a_small_one() -> None:
    after = applied({}, plan("2.3.7", {}))
    assert (
        after[ROOT]
        == f'{containerd_edit.FIRST_LINE}\nversion = 3\nimports = ["/etc/containerd/conf.d/*.toml"]\n'
    )
    assert DROP_IN in after


def test_2_x_is_edited_in_place_where_no_drop_in_is_wanted() -> None:
    files = {ROOT: "version = 3\n"}
    after = applied(files, plan("2.3.7", files, Policy(drop_in="never")))
    assert set(after) == {ROOT}
    assert "runtimes.nvidia" in after[ROOT]


def test_files_that_nobody_imports_are_not_brought_to_life() -> None:
    sleeping = "/etc/containerd/conf.d/99-nvidia.toml"
    files = {
        ROOT: "version = 3\n",
        sleeping: f'version = 3\n[plugins.{NEW}.containerd]\ndefault_runtime_name = "nvidia"\n',
    }
    after = applied(files, plan("2.3.7", files))
    assert f'imports = ["{DROP_IN}"]' in after[ROOT]


OPERATORS = f"""version = 3
[plugins.{NEW}.containerd.runtimes.nvidia]
runtime_type = "io.containerd.runc.v2"
container_annotations = ["nvidia.cdi.k8s.io/*"]
[plugins.{NEW}.containerd.runtimes.nvidia.options]
BinaryName = "@BINARY@"
SystemdCgroup = false
"""
IMPORTING = 'version = 3\nimports = ["/etc/containerd/conf.d/*.toml"]\n'


def test_prefixes_of_annotations_are_passed_on_as_they_are_given() -> None:
    found = plan(
        "2.3.7",
        {ROOT: "version = 3\n"},
        annotation_prefixes=("gpu.example.org/", "nvidia.cdi.k8s.io/"),
    )
    assert (
        'container_annotations = ["gpu.example.org/*", "nvidia.cdi.k8s.io/*"]'
        in found.changes[0]["content"]
    )


def test_a_file_of_nvidia_ctk_that_says_the_same_is_enough_where_nothing_is_taken_over() -> None:
    files = {
        ROOT: IMPORTING,
        "/etc/containerd/conf.d/99-nvidia.toml": OPERATORS.replace("@BINARY@", NVIDIA),
    }
    found = plan("2.3.7", files, Policy(adopt="never"))
    assert found.empty
    assert [(left.fate, get_code(left.why)) for left in found.leftovers] == [
        ("kept", "containerd.adopt-never")
    ]
    assert get_code(found.advice[0]) == "containerd.handler-defined-twice"


def test_a_persons_file_with_the_same_handler_is_named_with_the_step_and_without_another_tool() -> (
    None
):
    text = f"# by hand\n{OPERATORS.replace('@BINARY@', NVIDIA)}"
    found = plan("2.3.7", {ROOT: IMPORTING, "/etc/containerd/conf.d/50-site.toml": text})
    (advice,) = [a for a in found.advice if "50-site.toml" in a]
    assert get_code(advice) == "containerd.handler-defined-twice"


def test_the_operators_file_that_is_not_taken_over_is_named() -> None:
    operators = OPERATORS.replace("@BINARY@", "/usr/local/nvidia/toolkit/nvidia-container-runtime")
    files = {ROOT: IMPORTING, "/etc/containerd/conf.d/99-nvidia.toml": operators}
    with pytest.raises(PlanError) as caught:
        plan("2.3.7", files, Policy(adopt="never"))
    assert (caught.value.code, caught.value.values["tool"]) == (
        "containerd.file-of-tool-read-later",
        "gpu-operator",
    )


def test_what_was_not_sent_is_no_hindrance_and_stays_where_it_is() -> None:
    secret = f'{OLD}\n[plugins.{CRI}.registry.configs."r".auth]\n  password = "hunter2"\n'
    keep = containerd_places.keep_containerd_places()
    shown = {
        "content": file_places.show_own_text(secret, keep),
        "keep": keep,
        "sha256": builders.sha(secret),
    }
    (change,), (plain,) = (plan("1.7.24", {ROOT: text}).changes for text in (shown, secret))
    assert "hunter2" not in shown["content"]
    assert change == {**plain, "keep": keep, "result": change["result"]}
    assert "hunter2" in edits.apply_line_edits(ROOT, secret.encode(), change).decode()


def test_a_link_is_kept_and_the_real_file_edited() -> None:
    found = plan("1.7.24", {ROOT: {"content": OLD, "real": "/srv/containerd.toml"}})
    assert [c["path"] for c in found.changes] == ["/srv/containerd.toml"]
    assert found.stage_files == (
        {"name": "etc/containerd/config.toml", "source": "/srv/containerd.toml"},
    )


# What is refused: (version, files, the file and the line, the code)
BAD = {
    "broken TOML": ("1.7.24", {ROOT: "version = 2\n[plugins\n"}, f"{ROOT}:2", "content.invalid-toml"),
    "a missing import": ("2.3.7", {ROOT: 'version = 3\nimports = ["/x.toml"]\n'}, f"{ROOT}:2", "containerd.import-missing"),
    "imports that is no list": ("2.3.7", {ROOT: 'version = 3\nimports = "x"\n'}, f"{ROOT}:2", "containerd.imports-not-a-list"),
    "version 3 on 1.7": ("1.7.24", {ROOT: "# x\nversion = 3\n"}, f"{ROOT}:2", "containerd.config-version-unsupported"),
    "version 4 on 2.1": ("2.1.9", {ROOT: "version = 4\n"}, f"{ROOT}:1", "containerd.config-version-unsupported"),
    "a version that is no number": ("2.1.9", {ROOT: 'version = "2"\n'}, f"{ROOT}:1", "containerd.version-not-a-number"),
    "a drop-in newer than its root": (
        "2.3.4", {ROOT: 'version = 2\nimports = ["/d/*.toml"]\n', "/d/a.toml": "version = 3\n"}, "/d/a.toml:1",
        "containerd.drop-in-newer-than-root"),
    "a table of version 2 in a file without a version, which 1.x does not read": (
        "1.7.24", {ROOT: f'[plugins.{CRI}]\nsandbox_image = "x"\n'}, f"{ROOT}:1", "containerd.table-of-version-2-unread"),
    "the CRI part of a version 1 file on 2.1": (
        "2.1.9", {ROOT: '[plugins.cri]\nsandbox_image = "x"\n'}, f"{ROOT}:1", "containerd.version-1-cri-dropped"),
    "a drop-in that replaces the CRI table on 1.x": (
        "1.7.24", {ROOT: 'version = 2\nimports = ["/d/*.toml"]\n', "/d/a.toml": f"version = 2\n[plugins.{CRI}]\nenable_cdi = true\n"},
        "/d/a.toml:2", "containerd.setting-shadowed-by-table"),
    "a drop-in path that is someone else's": (
        "2.3.7", {ROOT: IMPORTING, DROP_IN: "version = 3\n"}, f"{DROP_IN}:None", "containerd.drop-in-of-others"),
    "CRI disabled": ("1.7.24", {ROOT: '# x\ndisabled_plugins = ["cri"]\n'}, f"{ROOT}:2", "containerd.cri-switched-off-by-file"),
    "a directory": ("2.3.7", {ROOT: {"content": None, "type": "dir"}}, f"{ROOT}:None", "containerd.file-unreadable"),
    "no version": ("", {ROOT: OLD}, f"{ROOT}:None", "containerd.version-unknown"),
    "too old": ("1.2.13", {ROOT: OLD}, f"{ROOT}:None", "containerd.too-old"),
}  # fmt: skip


@pytest.mark.parametrize(("version", "files", "place", "code"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_with_its_place(
    version: str, files: dict[str, Any], place: str, code: str
) -> None:
    with pytest.raises(PlanError) as caught:
        plan(version, files)
    assert f"{caught.value.where}:{caught.value.line}" == place
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("version", "root", "why"),
    [
        ("1.6.20", "version = 2\n", ""),
        ("1.7.24", "version = 2\n", "cdi-off-in-1-7"),
        ("1.7.24", f"version = 2\n[plugins.{CRI}]\nenable_cdi = false\n", "cdi-off-in-1-7"),
        ("1.7.24", f"version = 2\n[plugins.{CRI}]\nenable_cdi = true\n", ""),
        ("2.1.9", "version = 3\n", ""),
        ("2.1.9", f"version = 3\n[plugins.{NEW}]\nenable_cdi = false\n", "cdi-switched-off"),
        ("2.4.2", f"version = 3\n[plugins.{NEW}]\nenable_cdi = false\n", ""),
    ],
)
def test_the_cdi_switch_is_written_only_where_it_is_needed_and_known(
    version: str, root: str, why: str
) -> None:
    found = plan(version, {ROOT: root}, enable_cdi=True)
    assert [
        (d.after, get_code(d.why)) for d in found.differences if d.key.endswith("enable_cdi")
    ] == ([(True, f"containerd.{why}")] if why else [])


def test_spec_directories_by_option() -> None:
    found = plan("2.3.7", {ROOT: "version = 3\n"}, Policy(cdi_spec_dirs=("/srv/cdi",)))
    assert [d.after for d in found.differences if d.key.endswith("cdi_spec_dirs")] == [["/srv/cdi"]]


def test_several_handlers_and_their_own_options() -> None:
    handlers = (
        Handler(),
        Handler(
            "nvidia-legacy", "/usr/bin/nvidia-container-runtime.legacy", {"NoNewKeyring": True}
        ),
    )
    files = {ROOT: "version = 3\n"}
    text = applied(files, plan("2.3.7", files, Policy(handlers=handlers)))[DROP_IN]
    assert (
        'BinaryName = "/usr/bin/nvidia-container-runtime.legacy"\nSystemdCgroup = false\nNoNewKeyring = true\n'
        in text
    )
