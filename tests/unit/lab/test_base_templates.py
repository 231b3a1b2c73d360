# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The templates that stand for those of k3s, RKE2 and MicroK8s have their keys: none of our own,
and none left out without a reason.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fixtures import base_templates
from tests.fixtures.base_templates import IMAGES, NIX, STARGZ, UPSTREAM, V2, V3

LAB = Path(__file__).resolve().parents[3] / "tests" / "lab"
ACTION = re.compile(r"^(?:\{\{[^}]*\}\}\s*)+")
NAME = re.compile(r"""["']?\{\{.*?\}\}["']?""")
TABLE, KEY = re.compile(r"\[([^\[\]]+)\]"), re.compile(r"(\w+)\s*=")

# Why a key of theirs is in no template of the lab: what it is for -> tables with all their keys, or
# single keys.
LEFT_OUT: dict[str, tuple[tuple[str, str], ...]] = {
    "registries": tuple((f"plugins.{cri}.registry{more}", "") for cri in (V2, IMAGES) for more in ("", ".configs.*.auth")),
    "snapshotters that the lab has not": tuple((f"plugins.{name}", "") for name in (STARGZ, NIX))
    + tuple((f"plugins.{STARGZ}.{more}", "") for more in ("cri_keychain", "registry", "registry.configs.*.auth"))
    + ((f"plugins.{NIX}.image_service", ""), (f"plugins.{V2}.containerd", "disable_snapshot_annotations"))
    + tuple((f"plugins.{IMAGES}", key) for key in ("disable_snapshot_annotations", "use_local_image_pull")),
    "nodes without root's rights": tuple(
        (f"plugins.{cri}", key) for cri in (V2, V3) for key in (*base_templates.ROOTLESS.split(), "restrict_oom_score_adj")
    ),
    "Windows": tuple((f"plugins.{cri}.containerd.runtimes.runhcs-wcow-process", "") for cri in (V2, V3)),
    "hardware classes of I/O and caches": (('plugins."io.containerd.service.v1.tasks-service"', ""),),
    "NRI, which is off there": (('plugins."io.containerd.nri.v1.nri"', ""),),
    "limits and files of MicroK8s that say what containerd takes anyway": (
        ("cgroup", ""), ("debug", ""), ("grpc", "max_recv_message_size"), ("grpc", "max_send_message_size"),
        (f"plugins.{V2}", "enable_tls_streaming"), (f"plugins.{V2}", "max_container_log_line_size"),
        (f"plugins.{V2}", "stats_collect_period"),
    ),
    "an address that the arguments say as well": (("grpc", "address"),),
}  # fmt: skip
# Rendered by ours for releases of k3s that do not: only for those of the lab that read drop-ins.
OF_NEWER = {("", "imports")}
CASES = [(path, upstream) for path, releases in UPSTREAM.items() for upstream in releases]


def keys(text: str) -> set[tuple[str, str]]:
    """(table, key) of all that a template may render, whatever its conditions say."""
    table, found = "", set()
    for line in (ACTION.sub("", line.strip()) for line in text.splitlines()):
        if head := TABLE.fullmatch(line):
            table = NAME.sub("*", head[1]).replace("'", '"')
        elif said := KEY.match(line):
            found.add((table, said[1]))
    return found


def ours(path: str) -> set[tuple[str, str]]:
    return keys((LAB / path).read_text())


def left_out(key: tuple[str, str]) -> bool:
    return any(entry in (key, (key[0], "")) for entries in LEFT_OUT.values() for entry in entries)


@pytest.mark.parametrize(
    ("path", "upstream"), CASES, ids=[f"{Path(path).name}, {of.release}" for path, of in CASES]
)
def test_ours_renders_no_key_that_the_release_does_not(
    path: str, upstream: base_templates.Upstream
) -> None:
    newer = OF_NEWER if upstream.source == base_templates.K3S else set()
    assert ours(path) - upstream.all - newer == set()


@pytest.mark.parametrize(
    ("path", "upstream"), CASES, ids=[f"{Path(path).name}, {of.release}" for path, of in CASES]
)
def test_every_key_of_the_release_is_in_ours_or_left_out_for_a_reason(
    path: str, upstream: base_templates.Upstream
) -> None:
    assert {key for key in upstream.all - ours(path) if not left_out(key)} == set()


@pytest.mark.parametrize("reason", LEFT_OUT)
def test_what_is_left_out_is_somewhere_upstream_and_not_in_ours(reason: str) -> None:
    missing = {key for path, upstream in CASES for key in upstream.all - ours(path)}
    tables = {table for table, _key in missing}
    assert [
        entry
        for entry in LEFT_OUT[reason]
        if entry not in missing and (entry[1] or entry[0] not in tables)
    ] == []


def test_three_releases_of_each_system_are_compared() -> None:
    releases: dict[str, set[str]] = {}
    for _path, upstream in CASES:
        releases.setdefault(upstream.source, set()).add(upstream.release)
        assert re.fullmatch("[0-9a-f]{40}", upstream.commit)
    assert {source: len(found) for source, found in releases.items()} == {
        base_templates.K3S: 3,
        base_templates.MICROK8S: 3,
    }


def test_what_is_read_of_a_template() -> None:
    text = "a = 1\n{{ if .X }}b = 2{{ end }}\n[t.'{{ $name }}'.options]\n  {{- with .Y }}\n  C = {{ . }}\n  {{- end }}\n# d = 3\n"
    assert keys(text) == {("", "a"), ("", "b"), ("t.*.options", "C")}
