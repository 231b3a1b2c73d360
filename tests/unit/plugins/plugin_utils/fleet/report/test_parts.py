# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The small parts of the tables: names of hosts, values as files have them, columns of the user's
own, names of variables.
"""

from __future__ import annotations

from typing import Any

import jmespath
import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import (
    layout,
    names,
    sentences,
    values,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.report import (
    columns,
    fleet_hosts,
    registered,
)
from hypothesis import given
from hypothesis import strategies as st

NAMES = [
    (["gpu1"], "gpu1"),
    (["web"], "web"),
    (["dock", "dock0", "dock2"], "dock, dock0, dock2"),
    (["k0s", "k3s", "d20", "d28"], "d20, d28, k0s, k3s"),
    (["k0s", "k3s", "k5s"], "k[0,3,5]s"),
    (["web.a.org", "web2.a.org"], "web2.a.org, web.a.org"),
    (["gpu10", "gpu9", "gpu8"], "gpu[8-10]"),
    (["gpu001", "gpu002", "gpu004"], "gpu[001-002,004]"),
    (["gpu099", "gpu100", "gpu101"], "gpu[099-101]"),
    (["gpu9", "gpu09"], "gpu09, gpu9"),
    (["n1.a.org", "n2.a.org", "n1.b.org"], "n[1-2].a.org, n1.b.org"),
    (["10.0.0.7", "10.0.0.8", "10.0.1.7"], "10.0.0.[7-8], 10.0.1.7"),
    (["ber.gpu1.a.org", "ber.gpu2.a.org", "ber.gpu3.a.org"], "ber.gpu[1-3].a.org"),
    (["Ams-GPU.1", "Ams-GPU.2", "Ams-GPU.B"], "Ams-GPU.[1-2], Ams-GPU.B"),
    (["gpu1.rack1", "gpu2.rack1", "gpu1.rack2"], "gpu[1-2].rack1, gpu1.rack2"),
    (["rack2-gpu1", "rack1-gpu1", "rack1-gpu2"], "rack1-gpu[1-2], rack2-gpu1"),
    (["b", "a", "c", "f", "e", "d", "g"], "a, b, c, d, e and 2 more"),
    (["b", "a", "c", "f", "e", "d"], "a, b, c, d, e, f"),
    (["b", "a", "c", "e", "d", "x1", "x2", "x3"], "a, b, c, d, e and 3 more"),
    (
        [f"g{n}" for n in range(0, 40, 2)],
        "g[0,2,4,6,8], g[10,12,14,16,18], g[20,22,24,26,28], g[30,32,34,36,38]",
    ),
    ([f"gpu{'9' * 5000}", "gpu10", "gpu9"], f"gpu[9-10], gpu{'9' * 5000}"),
    ([f"g{'0' * 5000}9-7", f"g{'0' * 5000}9-8"], f"g{'0' * 5000}9-[7-8]"),
    ([], ""),
]


@pytest.mark.parametrize(("hosts", "text"), NAMES)
def test_names_of_hosts(hosts: list[str], text: str) -> None:
    assert names.show_some_runs(hosts) == text


FEW = [
    ([], 2, ", ", ""),
    (["a", "b"], 2, ", ", "a, b"),
    (["a", "b", "c"], 2, ", ", "a, b and 1 more"),
    (["it is new", "it is gone", "it moved"], 1, "; ", "it is new; and 2 more"),
]


@pytest.mark.parametrize(("texts", "limit", "separator", "text"), FEW)
def test_a_few_texts(texts: list[str], limit: int, separator: str, text: str) -> None:
    assert names.show_few_texts(texts, limit, separator) == text


@given(st.lists(st.from_regex(r"[a-z]{0,2}[0-9]{0,3}(\.[a-z])?", fullmatch=True), max_size=60))
def test_no_host_is_counted_twice_or_left_out(hosts: list[str]) -> None:
    assert sum(count for _text, count in names.list_name_runs(hosts)) == len(set(hosts))


TOML = "/etc/containerd/config.toml"
VALUES = [
    # path, key, value, as it is shown
    (TOML, "enable_cdi", True, "true"),
    (TOML, "enable_cdi", None, "not set"),
    (TOML, "mode", "cdi", '"cdi"'),
    (TOML, "dirs", ["/etc/cdi", "/var/run/cdi"], '["/etc/cdi", "/var/run/cdi"]'),
    (TOML, "options", {"SystemdCgroup": True, "a.b": 1}, '{ SystemdCgroup = true, "a.b" = 1 }'),
    ("/etc/crio/crio.conf.d/90-gpufleet.conf", "default_runtime", "nvidia", '"nvidia"'),
    ("/etc/docker/daemon.json", "features", {"cdi": True}, '{"cdi": true}'),
    ("/etc/docker/daemon.json", "runtimes.nvidia.path", None, "not set"),
    ("/var/lib/gpufleet/decision.json", "", "present", "present"),
    (
        "/var/lib/gpufleet/decision.json",
        "decision",
        "containerd 2.1: native-cdi",
        "containerd 2.1: native-cdi",
    ),
    ("nvidia-container-toolkit", "version", None, "none"),
    ("nvidia-container-toolkit", "version", "1.17.8", "1.17.8"),
    (TOML, "", "with this collection's keys", "with this collection's keys"),
    (TOML, "long", "x" * 300, '"' + "x" * 196 + "..."),
]


@pytest.mark.parametrize(("path", "key", "value", "text"), VALUES)
def test_values_are_spelled_as_in_the_file(path: str, key: str, value: Any, text: str) -> None:
    assert values.get_value_writer(path, key)(value) == text


MERGED = [
    (["a b c"], "a b c"),
    (["a 1 c", "a 2 c"], "a [1 or 2] c"),
    (["a 1 c", "a 2 c", "a 3 c"], "a [3 values] c"),
    ([f"a {9:061d} c", "a 2 c"], "a [2 values] c"),
    (["a 1 c", "a 2 c", "quite other words here"], "a [1 or 2] c (and 1 other reason)"),
    ([], ""),
]


@pytest.mark.parametrize(("given_", "text"), MERGED)
def test_sentences_of_many_hosts_are_one(given_: list[str], text: str) -> None:
    assert sentences.merge_sentences(given_) == text


@given(st.lists(st.text(max_size=90), min_size=3, max_size=3), st.integers(60, 200))
def test_any_text_stays_within_the_width_and_is_printable(row: list[str], width: int) -> None:
    found = layout.lay_out_table(("A", "B", "C"), [row], width)
    assert all(line.isprintable() for line in found)
    assert max(len(line) for line in found) <= width


RESULT = {
    "decision": {"isolation": "strict", "decisions": [{"engine": "crio"}, {"engine": "docker"}]},
    "row": {"engine": "CRI-O"},
}
PATHS = [
    ("decision.isolation", "strict"),
    ("decision.nosuch.deeper", "-"),
    ("table.engine", "CRI-O"),
    ("table.host", "gpu1"),
    ("decision.decisions[].engine", '["crio", "docker"]'),
    ("length(decision.decisions)", "2"),
]


@pytest.mark.parametrize(("path", "cell"), PATHS)
def test_columns_of_ones_own(path: str, cell: str) -> None:
    def compiled(text: str) -> columns.Search:
        searched: columns.Search = jmespath.compile(text).search
        return searched

    view = columns.apply_columns(fleet_hosts.FleetView(), [columns.Column("mine", path)], compiled)
    assert view.cells
    assert view.cells("gpu1", RESULT) == [cell]
    assert fleet_hosts.list_fleet_lines({"gpu1": RESULT}, view)[-2:] == [
        "HOST  MINE",
        f"gpu1  {cell}",
    ]


def test_without_the_library_it_is_named_where_it_is_needed() -> None:
    with pytest.raises(PlanError, match=r"\[report.no-jmespath\]"):
        columns.apply_columns(fleet_hosts.FleetView(), [columns.Column("mine", "a[0]")], None)
    assert columns.apply_columns(
        fleet_hosts.FleetView(), [columns.Column("mine", "a.b")], None
    ).titles == ("mine",)


VARIABLES = [
    # the name that was given, the variables that hosts have, the one that is meant
    ("gpufleet_node_resutl", ["gpufleet_host_result", "x"], "gpufleet_host_result"),
    ("sen", ["seen"], "seen"),
    ("nosuch", [], ""),
]


@pytest.mark.parametrize(("name", "defined", "near"), VARIABLES)
def test_a_mistyped_variable_is_named_with_the_right_one(
    name: str, defined: list[str], near: str
) -> None:
    with pytest.raises(PlanError) as caught:
        registered.require_known_variable(name, defined)
    told = {"near": near} if near else {"known": ", ".join(registered.RESULTS)}
    code = "report.unknown-result-near" if near else "report.unknown-result"
    assert (caught.value.code, caught.value.values) == (code, {"name": name, **told})


def test_a_name_of_the_roles_is_right_though_every_host_was_lost_before() -> None:
    registered.require_known_variable("gpufleet_host_result", [])
    registered.require_known_variable("mine", ["mine"])


@given(st.text("ab \n\t", max_size=300), st.integers(8, 40))
def test_wrapped_lines_fit_and_lose_nothing(text: str, width: int) -> None:
    lines = layout.wrap(text, width)
    assert lines
    assert max(map(len, lines)) <= width
    assert "".join(lines).replace(" ", "") == "".join(text.split())


WORDS = [
    # a word that is longer than the line, its width, the lines: names stay whole where there is a
    # mark to break after
    ("runtimes.nvidia.options.SystemdCgroup:", 30, ["runtimes.nvidia.options.", "SystemdCgroup:"]),
    (
        "/etc/nvidia-container-runtime/config.toml",
        32,
        ["/etc/nvidia-container-runtime/", "config.toml"],
    ),
    ("1.7.24~ds1-6+deb13u1", 16, ["1.7.24~ds1-", "6+deb13u1"]),
    # a mark near the beginning would leave the line empty
    (
        "a.bbbbbbbbbbbbbbbb",
        10,
        ["a.bbbbbbbb", "bbbbbbbb"],
    ),
    ("0123456789", 10, ["0123456789"]),
]


@pytest.mark.parametrize(("word", "width", "lines"), WORDS)
def test_a_long_word_is_broken_between_its_parts(word: str, width: int, lines: list[str]) -> None:
    assert layout.wrap(word, width) == lines


def test_a_word_of_megabytes_is_broken_in_linear_time() -> None:
    """One host's message must not hold up the table of all: what is copied again for each line
    takes an hour here.
    """
    assert len(layout.split_word("x" * 8_000_000, 80)) == 100_000


LAST = [
    (("",), ""),
    ((" \n",), ""),
    (("no such node\n",), "no such node"),
    (("Traceback\n  File x\nValueError: y\n\n", "on standard output"), "ValueError: y"),
    (("\n", "first\nlast"), "last"),
    (("x" * 301,), "x" * 300),
]


@pytest.mark.parametrize(("outputs", "line"), LAST)
def test_the_last_line_of_what_a_program_printed(outputs: tuple[str, ...], line: str) -> None:
    assert sentences.get_last_line(*outputs) == line
