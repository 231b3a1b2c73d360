# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of containerd about keys beside those of this collection: by release, with the line, before
a change and after it.
"""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Handler
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import Version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    config,
    engine_rules,
)

from tests.fixtures import containerd_rules as rules
from tests.unit import bare_trees, builders

ROOT = "/etc/containerd/config.toml"


def version(release: str) -> Version:
    found = versions.parse_engine_version(rules.PATCH[release])
    assert found
    return found


@pytest.mark.parametrize(("name", "release"), rules.CASES)
def test_a_rule_is_broken_on_the_releases_that_have_it(name: str, release: str) -> None:
    row = rules.ROWS[name]
    found = engine_rules.find_broken_containerd_rules(
        config.load_containerd_files(
            config.read_config_facts(builders.obs(files={ROOT: row.files["config.toml"]})),
            ROOT,
            version(release),
        ),
        version(release),
    )
    expected = (
        [(row.code, row.line, "no-cri" if row.starts else "does-not-start")]
        if release in row.refused
        else []
    )
    assert [(one.rule.code, one.spot.line, one.rule.effect) for one in found] == expected


MIRRORS = '[{}.registry.mirrors."docker.io"]\nendpoint = ["https://mirror.example.org"]\n'
V2, V3 = 'plugins."io.containerd.grpc.v1.cri"', 'plugins."io.containerd.cri.v1.images"'
# the file -> the line with mirrors that 2.2.0 and 2.2.1 do not take (0 = none)
DEFAULT_PATH = {
    "no path": (f"version = 2\n{MIRRORS.format(V2)}", 2),
    "an empty path, which the migration fills in": (
        f'version = 2\n[{V2}.registry]\nconfig_path = ""\n{MIRRORS.format(V2)}',
        4,
    ),
    "no path in version 3": (f"version = 3\n{MIRRORS.format(V3)}", 2),
    "an empty path in version 3": (
        f'version = 3\n[{V3}.registry]\nconfig_path = ""\n{MIRRORS.format(V3)}',
        0,
    ),
    "no mirrors": (f"version = 2\n[{V2}.registry.mirrors]\n", 0),
    "nothing": ("version = 2\n", 0),
}


@pytest.mark.parametrize(("text", "line"), DEFAULT_PATH.values(), ids=DEFAULT_PATH)
def test_mirrors_alone_are_refused_by_two_releases(text: str, line: int) -> None:
    for release, refuses in {
        "2.1.9": False,
        "2.2.0": True,
        "2.2.1": True,
        "2.2.2": False,
        "2.3.0": False,
    }.items():
        found = versions.parse_engine_version(release)
        assert found
        broken = engine_rules.find_broken_containerd_rules(
            config.load_containerd_files(
                config.read_config_facts(builders.obs(files={ROOT: text})), ROOT, found
            ),
            found,
        )
        assert [(one.rule.code, one.spot.line) for one in broken] == (
            [("mirrors-and-default-path", line)] if refuses and line else []
        )


DROP_IN = "/etc/containerd/conf.d/registries.toml"
PATH = '[{}.registry]\nconfig_path = "/etc/containerd/certs.d"\n'
# the release, the root file, the file that it imports -> what counts is in one of two tables that a
# release does not add up
APART = {
    "1.x takes the CRI table of the last file for the whole": (
        "1.7.24", f"version = 2\n{PATH.format(V2)}", f"version = 2\n{MIRRORS.format(V2)}"),
    "2.1 passes over names of version 2 in version 3": ("2.1.9", f"version = 3\n{PATH.format(V3)}", f"version = 3\n{MIRRORS.format(V2)}"),
    "2.1 passes over names of version 1 in version 2": (
        "2.1.9", f"version = 2\n{PATH.format(V2)}", f"version = 2\n{MIRRORS.format('plugins.cri')}"),
    "2.2.1 passes over names of version 2 in version 3": ("2.2.1", "version = 3\n", f"version = 3\n{MIRRORS.format(V2)}"),
}  # fmt: skip


@pytest.mark.parametrize(("release", "text", "imported"), APART.values(), ids=APART)
def test_mirrors_that_a_release_does_not_read_are_no_trouble(
    release: str, text: str, imported: str
) -> None:
    found = versions.parse_engine_version(release)
    assert found
    files = {ROOT: f'imports = ["{DROP_IN}"]\n{text}', DROP_IN: imported}
    assert (
        engine_rules.find_broken_containerd_rules(
            config.load_containerd_files(
                config.read_config_facts(builders.obs(files=files)), ROOT, found
            ),
            found,
        )
        == []
    )


RUNC = f'[{V2}.containerd.runtimes.runc]\nruntime_type = "io.containerd.runc.v2"\n'
HIDDEN = {
    "an empty default": f'version = 2\n[{V2}.containerd]\ndefault_runtime_name = ""\n',
    "a handler untrusted": f'version = 2\n[{V2}.containerd.runtimes.untrusted]\nruntime_type = "io.containerd.runc.v2"\n',
}


@pytest.mark.parametrize("hidden", HIDDEN.values(), ids=HIDDEN)
def test_a_table_that_a_later_file_hides_from_1_x_breaks_no_rule(hidden: str) -> None:
    found = version("1.7")
    untrusted = (
        f'[{V2}.containerd.untrusted_workload_runtime]\nruntime_type = "io.containerd.runc.v2"\n'
    )
    files = {ROOT: f'imports = ["{DROP_IN}"]\n{hidden}', DROP_IN: f"version = 2\n{RUNC}{untrusted}"}
    assert (
        engine_rules.find_broken_containerd_rules(
            config.load_containerd_files(
                config.read_config_facts(builders.obs(files=files)), ROOT, found
            ),
            found,
        )
        == []
    )


def test_every_rule_has_a_row() -> None:
    assert {rule.code for rule in engine_rules.RULES} == {
        row.code for row in rules.ROWS.values() if row.code
    }


@pytest.mark.parametrize(
    ("name", "release"), [case for case in rules.CASES if case[1] in rules.ROWS[case[0]].refused]
)
def test_such_a_file_is_named_and_stays_as_it_is_or_the_change_makes_it_right(
    tmp_path: pathlib.Path, name: str, release: str
) -> None:
    home, row = bare_trees.Tree(tmp_path), rules.ROWS[name]
    home.write(ROOT, row.files["config.toml"])
    home.write("/usr/bin/nvidia-container-runtime", "", 0o755)
    before = home.state()
    result = home.single(
        "containerd", engine_version=rules.PATCH[release], set_as_default="disabled"
    )
    if not result["failed"]:
        files = {path: data.decode() for path, (data, *_more) in home.state().items() if data}
        after = config.load_containerd_files(
            config.read_config_facts(builders.obs(files=files)), ROOT, version(release)
        )
        assert row.code == "default-missing"
        assert engine_rules.find_broken_containerd_rules(after, version(release)) == []
        return
    assert f"{ROOT}:{row.line}: containerd {rules.PATCH[release]} " in result["msg"]
    assert home.state() == before


@pytest.mark.parametrize(
    ("release", "text", "told"),
    [
        ("2.1", "version = 2\n[plugins.cri.containerd]\n", True),
        ("2.4", "version = 3\n[plugins.cri.containerd]\n", True),
        ("2.3", "[plugins.cri.containerd]\n", False),
        ("2.1", 'version = 2\n[plugins."io.containerd.grpc.v1.cri".containerd]\n', False),
    ],
)
def test_a_table_that_2_x_passes_over_is_told(
    tmp_path: pathlib.Path, release: str, text: str, told: bool
) -> None:
    home = bare_trees.Tree(tmp_path)
    home.write(ROOT, text)
    home.write("/usr/bin/nvidia-container-runtime", "", 0o755)
    result = home.single(
        "containerd", engine_version=rules.PATCH[release], set_as_default="disabled"
    )
    assert not result["failed"], result["msg"]
    assert (
        any(get_code(advice) == "containerd.old-cri-table-unread" for advice in result["advice"])
        is told
    )


LINUX = rules.ROWS["systemd_cgroup beside the old type"].files["config.toml"]
OLDER = rules.ROWS["the older default table"].files["config.toml"]
UNTRUSTED = (
    "version = 2\n"
    '[plugins."io.containerd.grpc.v1.cri".containerd.untrusted_workload_runtime]\n'
    'runtime_type = "io.containerd.runc.v2"\n'
)

AS_DEFAULT: dict[str, Any] = {"set_as_default": "enabled"}
BESIDE: dict[str, Any] = {"set_as_default": "disabled"}
# Where it was met, the file, the release, options, the place and the code of the refusal; "" if the
# plan goes through.
CHANGES: dict[str, tuple[str, str, str, dict[str, Any], str, str]] = {
    "a new default beside systemd_cgroup": (
        "https://github.com/kubernetes/website/issues/24605", LINUX, "1.6", AS_DEFAULT,
        f"{ROOT}:3", "rule-systemd-cgroup"),
    "a handler beside systemd_cgroup": ("", LINUX, "1.6", BESIDE, "", ""),
    "a new default beside the older default table": (
        "https://github.com/awslabs/amazon-eks-ami/issues/1329", OLDER, "1.7", AS_DEFAULT,
        f"{ROOT}:3", "default-outranked"),
    "a handler beside the older default table": ("", OLDER, "1.7", BESIDE, "", ""),
    "a new default on 2.x, which does not know that table": ("", OLDER, "2.1", AS_DEFAULT, "", ""),
    "a handler by the name of the older default table": (
        "", OLDER, "1.7", {"handlers": (Handler("default"),), **BESIDE}, f"{ROOT}:3", "setting-outranked"),
    "a handler by the name of the older table for untrusted pods": (
        "", UNTRUSTED, "1.7", {"handlers": (Handler("untrusted"),), **BESIDE}, f"{ROOT}:2", "rule-untrusted-twice"),
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGES)
def test_a_change_is_refused_after_which_cri_would_not_load_or_that_would_not_count(
    tmp_path: pathlib.Path, case: str
) -> None:
    _source, text, release, options, place, code = CHANGES[case]
    home = bare_trees.Tree(tmp_path)
    home.write(ROOT, text)
    home.write("/usr/bin/nvidia-container-runtime", "", 0o755)
    before = home.state()
    result = home.single("containerd", engine_version=rules.PATCH[release], **options)
    if code:
        assert result["msg"].startswith(f"{place}: ")
        assert result["msg"].endswith(f"[containerd.{code}]")
        assert home.state() == before
        return
    assert not result["failed"], result["msg"]
    assert not home.single("containerd", engine_version=rules.PATCH[release], **options)["changed"]


CRUN = """version = 2
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.crun]
runtime_type = "io.containerd.runc.v2"
base_runtime_spec = "/etc/containerd/base.json"
container_annotations = ["example.org/*"]
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.crun.options]
BinaryName = "/usr/bin/crun"
SystemdCgroup = %s
"""


@pytest.mark.parametrize("systemd", ["true", "false"])
@pytest.mark.parametrize("options", [AS_DEFAULT, BESIDE], ids=["as default", "beside"])
@pytest.mark.parametrize("release", rules.OLD)
def test_a_node_without_runc_keeps_the_driver_of_its_handler_run_after_run(
    tmp_path: pathlib.Path, release: str, options: dict[str, Any], systemd: str
) -> None:
    """1.x has no runc of its own then; one that this collection adds is its own work and no
    evidence of the node.
    """
    home = bare_trees.Tree(tmp_path)
    home.write(ROOT, CRUN % systemd)
    home.write("/usr/bin/nvidia-container-runtime", "", 0o755)
    before = home.state()
    assert not home.single("containerd", engine_version=rules.PATCH[release], **options)["failed"]
    files = {path: data.decode() for path, (data, *_more) in home.state().items() if data}
    handlers = config.build_effective_cri_table(
        config.load_containerd_files(
            config.read_config_facts(builders.obs(files=files)), ROOT, version(release)
        ),
        version(release),
    )["containerd"]["runtimes"]
    assert handlers["nvidia"]["options"]["SystemdCgroup"] is (systemd == "true")
    assert handlers["nvidia"]["base_runtime_spec"] == "/etc/containerd/base.json"
    if options is BESIDE:
        assert handlers["runc"]["options"]["SystemdCgroup"] is (systemd == "true")
    assert not home.single("containerd", engine_version=rules.PATCH[release], **options)["changed"]
    assert not home.single(
        "containerd", engine_version=rules.PATCH[release], state="absent", **options
    )["failed"]
    assert home.state() == before
