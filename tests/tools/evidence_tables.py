# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of docs/evidence.md: which hardware and which releases a judge has seen, which judge it
was, and what has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import parts
import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import currency
from page_table import code, table

from tests.lab import kinds, mig_layouts, recorded

FIXTURES = recorded.FIXTURES
BY_DAY, BY_NIGHT = "each `make test`", "each night"
# The fleet of tests/integration/story.py, which several files read.
STORY = "story of all engines"
WHOLE = "test_each_release"


# Words for the way in which a part is known to work on a real GPU. All but the first two are
# preview: no real GPU has confirmed the part.
MEASURED, BY_HAND = "measured", "seen by hand"
RECORDED, IMITATED = "recorded", "imitated"
CONFIRMED = (MEASURED, BY_HAND)
# Each part with the page about it and such a word. `make gpu` measured the machines of the first
# word, and the machines of the second are named.
PARTS = (
    ("CDI specs of a host: device nodes, libraries, firmware, answers of NVML", "cdi.md", MEASURED),
    ("containers of a spec: only its nodes can be opened", "cdi.md", MEASURED),
    (
        "`plan`, `site` with a verification, a second run, `rollback` on containerd 2.3",
        "getting-started.md",
        BY_HAND,
    ),
    ("more than one GPU, the order of GPUs, PCI domains, the fabric, arm64", "cdi.md", RECORDED),
    ("MIG: names, capability nodes, layouts", "cdi.md", RECORDED),
    ("NVSwitches, IMEX channels, nodes for drawing", "cdi.md", IMITATED),
    ("sharing: compute modes, time slices, MPS", "sharing.md", IMITATED),
    ("GPU health: a driver that is broken, a GPU that is lost or hangs", "gpu-health.md", IMITATED),
    ("the needs of NVSwitch systems and NVL72", "platform.md", IMITATED),
    (
        "CRI-O, Docker, Podman, and containerd other than 2.3 with a real GPU",
        "support.md",
        IMITATED,
    ),
    ("Kubernetes: device plugin, DRA, handing a node over", "kubernetes.md", IMITATED),
)
BY_HAND_ON = "NVIDIA H100 80GB HBM3"


def build_preview_table() -> str:
    """Return each part with its label: confirmed by which machines, or preview."""
    return table(
        ["part", "real GPUs", "how it is tested besides"],
        [
            [
                f"[{part}]({page})" if "`" not in part else f"{part} ([page]({page}))",
                label_part(word),
                "a record of such a machine" if word == RECORDED else "real engines, imitated GPUs",
            ]
            for part, page, word in PARTS
        ],
    )


def label_part(word: str) -> str:
    """Return the label of a part, from the word for its evidence."""
    if word == MEASURED:
        return f"confirmed, {word}: {', '.join(list_measured_gpus())}"
    return f"confirmed, {word}: {BY_HAND_ON}" if word in CONFIRMED else f"**preview**, {word}"


def list_measured_gpus() -> list[str]:
    """Return the models of the machines that `make gpu` measured."""
    measured = [node for node in recorded.nodes().values() if node.seen]
    return sorted({node.inventory.gpus[0].name for node in measured})


@cache
def read_fixture(name: str) -> Any:
    return yaml.safe_load((FIXTURES / name).read_text("utf-8"))


def find_run(test: str) -> str:
    """Return when a test of tests/integration runs, by the table of parts.

    Raise LookupError if there is no such test.
    """
    for names, title in (
        *((names, f"lab: {part}") for part, names in parts.LAB.items()),
        *((names, part) for part, names in parts.JUDGES.items()),
    ):
        if test in names:
            return BY_NIGHT if title in parts.NIGHTLY else BY_DAY
    if test in parts.unnamed():
        return BY_DAY
    raise LookupError(f"tests/integration has no test_{test}.py")


def name_test(test: str) -> str:
    return code([f"test_{test}"])


def link_source(address: str) -> str:
    """Return a link to a source by the name of its repository; the text itself if it is none."""
    repository = re.match(r"https://github\.com/([^/]+/[^/]+)/", address)
    if not repository:
        return address or "not public"
    return f"[{repository[1]}]({address})"


def build_hardware_table() -> str:
    """Return a row for each node that others recorded or `make gpu` measured."""
    rows = [
        [
            code([name]),
            f"{len(node.inventory.gpus)} × {node.inventory.gpus[0].name}",
            node.inventory.version,
            *judge_node(node),
            link_source(node.source),
        ]
        for name, node in sorted(recorded.nodes().items())
    ]
    return table(["node", "GPUs", "driver", "kind", "judge", "when", "source"], rows)


def judge_node(node: recorded.Node) -> tuple[str, str, str]:
    kind = "measured" if node.seen else "recorded" if node.measured else "imitated by others"
    test = "cdi_captures" if node.seen else "cdi_recorded_nodes"
    return kind, name_test(test), find_run(test)


def build_layout_table() -> str:
    """Return a row for each board, with the number of its MIG layouts, and the one that is judged by
    day.
    """
    layouts: dict[str, list[str]] = {}
    for board, layout in mig_layouts.cases():
        layouts.setdefault(board, []).append(layout)
    rows = [
        [
            code([board]),
            code(name for name in names if name in mig_layouts.BY_DAY),
            str(len(names)),
            name_test("cdi_mig_layouts"),
        ]
        for board, names in sorted(layouts.items())
    ]
    return table(["board", BY_DAY, f"MIG layouts, {BY_NIGHT}", "judge"], rows)


def build_driver_table() -> str:
    """Return a row for each driver whose files others published."""
    return table(["driver", "what", "judge", "when", "source"], sorted(list_driver_rows()))


def list_driver_rows() -> Iterator[list[str]]:
    for name, spec in read_fixture("replayed_specs.yml").items():
        what = f"a CDI spec of a node: `{name}`"
        test = "cdi_replayed_specs"
        yield [str(spec["driver"]), what, *judge_driver(test, find_run(test), spec["source"])]
    for name, row in read_fixture("driver_packages.yml").items():
        what = f"the files of packages: `{name}`"
        when = BY_DAY if row.get("by_day") else BY_NIGHT
        yield [str(row["version"]), what, *judge_driver("cdi_driver_packages", when, row["source"])]


def judge_driver(test: str, when: str, source: str) -> tuple[str, str, str]:
    return name_test(test), when, link_source(source)


NO_LIST = "no list of their files can be read"
NEVER_SEEN = (
    ("driver packages of NVIDIA's apt repository", "the public lists end with branch 535"),
    (
        "NVIDIA's driver packages for Red Hat's family from 575 on",
        "the public lists end with branch 570; those of later branches are Negativo17's",
    ),
    ("driver packages of SUSE other than branch 575", "the public list is of that branch"),
    ("driver packages of branch 620", NO_LIST),
    (
        "driver packages of Azure Linux 4",
        "no list of their files was found; its os-release says that it is like Fedora",
    ),
    (
        "containerd 1.4 and 1.5, CRI-O other than 1.34, Docker 23 to 25 and 27, Podman 6",
        "no host of the lab has them; what is known of them is read in their sources",
    ),
    ("the compute capability of GR102", "it is not published"),
    ("a host with more than one real GPU", "the measured machines have one"),
)


def build_unknown_table() -> str:
    """Return what no judge has seen, with the reason."""
    return table(["what", "why"], [list(row) for row in NEVER_SEEN])


def build_release_table() -> str:
    """Return a row for each project: the newest release that the tables know, and since when."""
    rows = [
        [row.title, row.newest, row.checked, f"[source]({row.source})"]
        for row in currency.KNOWN.values()
    ]
    return table(["project", "newest release in the tables", "compared on", "source"], rows)


def build_engine_table() -> str:
    """Return a row for each kind of host with an engine of its own, and the tests that boot it."""
    rows = [
        [code([kind]), name_story(tests), *(join_tests(tests, when) for when in (BY_DAY, BY_NIGHT))]
        for kind, tests in sorted(map_kinds_to_tests().items())
        if tests
    ]
    return table(["kind of host", "whole story", BY_DAY, BY_NIGHT], rows)


def name_story(tests: Iterable[str]) -> str:
    """Return which test takes a kind of host from the plan to the way back, and when."""
    return f"{code([WHOLE])}, {BY_NIGHT}" if WHOLE in tests else "none"


def join_tests(tests: Iterable[str], when: str) -> str:
    return ", ".join(code([test]) for test in tests if test != WHOLE and when == find_boot(test))


def find_boot(test: str) -> str:
    """Return when a test boots its hosts, by the table of parts."""
    return BY_DAY if test == STORY else find_run(test.removeprefix("test_"))


def map_kinds_to_tests() -> dict[str, list[str]]:
    """Return the tests that name a kind of host, by the kind. The story's fleet is a test, too.

    Judges boot no hosts; they read with an engine's program.
    """
    folder = FIXTURES.parent
    judges = {f"test_{name}" for names in parts.JUDGES.values() for name in names}
    sources = {
        path.stem: path.read_text("utf-8")
        for path in sorted((folder / "integration").glob("test_*.py"))
        if path.stem not in judges
    }
    sources["test_rpm_hosts"] += (folder / "lab/rpmrepo.py").read_text("utf-8")
    sources["test_lab"] += (folder / "lab/fleets/all.json").read_text("utf-8")
    sources[STORY] = (folder / "lab/fleets/engines.json").read_text("utf-8")
    return {kind: list(find_users(kind, sources.items())) for kind in kinds.KINDS}


def find_users(kind: str, sources: Iterable[tuple[str, str]]) -> Iterator[str]:
    return (name for name, text in sources if f'"{kind}"' in text)
