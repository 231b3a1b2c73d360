# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts with the real programs how many hosts that were configured before are taken over. The
numbers go to docs/adoption.md.

    python -m tests.integration.adopted [--write] [--jobs N]

Two counts over the configurations of tests/fixtures, each with every release of containerd that
such hosts have:

- the real nvidia-ctk configures the host, this collection takes it over, and `containerd config
  dump` says what is in force, compared with a host of the same configuration that nvidia-ctk never
  was on;
- of the configurations in which containerd's built-in runc is the wrong handler to copy from: how
  many handlers come out like their base.
"""

from __future__ import annotations

import argparse
import dataclasses as dc
import itertools
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import conftest

# importing it makes this checkout importable as the collection that it is
ROOT = Path(conftest.ROOT)

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml

from tests.fixtures import earlier_content as earlier
from tests.fixtures import public_configurations as public
from tests.fixtures.containerd_releases import list_distinct
from tests.fixtures.public_configurations import Public
from tests.integration.containerd_trees import NATURAL, Tree, cri_of
from tests.integration.nvidia_ctk_trees import CDI, DEFAULT, TreeHost, ctk, effective, files, said
from tests.integration.public_judges import BUILT_IN, judged

PAGE = ROOT / "docs/adoption.md"
BEGIN, END = "<!-- counts: written by make adopted -->", "<!-- end of counts -->"
TOOLS = ("1.17", "1.20")
FLAGS = {"none": (), "`--set-as-default --cdi.enabled`": (DEFAULT, CDI)}
ALIKE, REFUSED, WRONG = "like a host that it never was on", "refused", "wrong"
# 1.17 overwrites the default handler's name, and with it the sign of the cgroup driver that pods
# had: a kubelet can tell, files cannot.
KEPT = "as it left them"
CRUN = """version = {version}
[plugins.{cri}.containerd]
default_runtime_name = "crun"
[plugins.{cri}.containerd.runtimes.crun]
runtime_type = "io.containerd.runc.v2"
[plugins.{cri}.containerd.runtimes.crun.options]
BinaryName = "/usr/bin/crun"
SystemdCgroup = true
"""
RUNC = '[plugins.{cri}.containerd.runtimes.runc]\nruntime_type = "io.containerd.runc.v2"\n'


@dc.dataclass(frozen=True)
class Host:
    """A configuration on one release of containerd.

    base, systemd, copied, default, refused: what an expert expects of our handler.
    """

    title: str
    release: str
    text: str
    base: str = "runc"
    systemd: bool = True
    default: str = "runc"
    copied: tuple[str, ...] = ()
    refused: str = ""


@dc.dataclass(frozen=True)
class Verdict:
    """A verdict on one host. why: the refusal, or what differs."""

    host: Host
    outcome: str
    why: str = ""

    @property
    def as_expected(self) -> bool:
        return (
            bool(self.host.refused) and self.host.refused in self.why
            if self.outcome == REFUSED
            else self.outcome != WRONG
        )


def of_rows(rows: Iterable[Public]) -> list[Host]:
    distinct = {row.file: row for row in rows}.values()
    return [
        Host(
            row.title,
            release,
            row.text,
            row.base,
            row.systemd,
            row.default,
            row.copied,
            row.refused,
        )
        for row in distinct
        for release in row.releases
    ]


def with_crun() -> list[Host]:
    """Return hosts with crun as default handler, with runc built in and with runc declared."""
    versions = {release: 2 if release < "2" else 3 for release in list_distinct()}
    return [
        Host(
            f"crun{', runc declared' if more else ''}",
            release,
            (CRUN + more).format(version=n, cri=NATURAL[n]),
            "crun",
            True,
            "crun",
        )
        for release, n in versions.items()
        for more in ("", RUNC)
    ]


def open_hosts() -> list[Host]:
    """Return the hosts that no other system writes, so that nvidia-ctk and this collection are used
    there.
    """
    return of_rows(row for row in public.CONTAINERDS if not row.home.manager)


def wrong_bases() -> list[Host]:
    """Return the hosts whose `runc` is the wrong handler to copy from.

    It is not declared, or pods run with another handler.
    """
    every = [*of_rows((*public.CONTAINERDS, *earlier.ROWS)), *with_crun()]
    return [host for host in every if host.base != "runc" or not _declares_runc(host.text)]


def _declares_runc(text: str) -> bool:
    plugins = toml.load_toml(text, "").get("plugins", {})
    return any(
        toml.look_up_toml(cri, ("containerd", "runtimes", "runc"), None)
        for cri in plugins.values()
        if isinstance(cri, dict)
    )


# ---------------------------------------------------------------- nvidia-ctk was here


def taken_over(host: Host, tool: str, flags: Sequence[str]) -> Verdict:
    """Judge whether the host ends as one that the tool never was on, by containerd's own dump.

    `state: absent` must also give back the files as the tool has left them.
    """
    with tempfile.TemporaryDirectory(prefix="gpufleet-") as place:
        tree, untouched = (Tree(Path(place) / name, host.release) for name in ("tree", "untouched"))
        for each in (tree, untouched):
            each.write({"config.toml": BUILT_IN.sub('imports = ["@DIR@/', host.text)})
        ctk(tree, tool, *flags)
        was, before = files(tree), cri_of(effective(tree))["containerd"]
        tree_host, plain = TreeHost(tree), TreeHost(untouched)
        try:
            tree_host.apply(tree_host.plan("present"))
        except PlanError as refused:
            return Verdict(host, REFUSED, str(refused))
        plain.apply(plain.plan("present"))
        found = _compared(effective(tree), effective(untouched), before)
        if not tree_host.plan("present").empty:
            return Verdict(host, WRONG, "a second run would change something")
        tree_host.apply(tree_host.plan("absent"))
        return (
            Verdict(host, found)
            if files(tree) == was
            else Verdict(host, WRONG, "state: absent does not give the bytes back")
        )


def _compared(now: dict[str, Any], there: dict[str, Any], before: dict[str, Any]) -> str:
    """Compare two dumps, and return ALIKE, KEPT or WRONG.

    before: containerd's handlers as the tool has left them.
    """
    if now == there:
        return ALIKE
    ours, _theirs = (
        cri_of(whole)["containerd"]["runtimes"].pop("nvidia") for whole in (now, there)
    )
    was, has = (
        said({**handler, **_options(handler)}) for handler in (before["runtimes"]["nvidia"], ours)
    )
    return KEPT if now == there and {key: has.get(key) for key in was} == was else WRONG


def _options(handler: dict[str, Any]) -> dict[str, Any]:
    """Return a handler's options by their names in small letters.

    1.x takes the usual spelling before any other.
    """
    every = sorted((handler.get("options") or {}).items(), reverse=True)
    return {"options": None, **{f"options.{name.lower()}": value for name, value in every}}


def like_its_base(host: Host) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="gpufleet-") as place:
        try:
            judged(
                Path(place),
                host.release,
                host.text,
                host.base,
                host.systemd,
                host.default,
                host.copied,
                "module",
            )
        except PlanError as refused:
            return Verdict(host, REFUSED, str(refused))
        except AssertionError as wrong:
            return Verdict(
                host, WRONG, str(wrong).splitlines()[0] if str(wrong) else "not like its base"
            )
        return Verdict(host, ALIKE)


# ---------------------------------------------------------------- the page


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ["---"] * len(head), *rows))


def counted(label: Sequence[str], found: Sequence[Verdict], outcomes: Sequence[str]) -> list[str]:
    number = Counter(verdict.outcome for verdict in found)
    return [*label, str(len(found)), *(str(number[outcome]) for outcome in outcomes)]


def written(tables: Sequence[str]) -> str:
    head, _begin, rest = PAGE.read_text().partition(BEGIN)
    _old, _end, tail = rest.partition(END)
    return f"{head}{BEGIN}\n" + "\n".join(tables) + END + tail


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.integration.adopted", description=__doc__
    )
    parser.add_argument(
        "--write", action="store_true", help="write the numbers into docs/adoption.md"
    )
    parser.add_argument("--jobs", type=int, default=2, help="how many hosts at once")
    options = parser.parse_args(arguments)
    bases, every, tables = wrong_bases(), list[Verdict](), list[str]()
    columns = (ALIKE, KEPT, REFUSED, WRONG)
    with ProcessPoolExecutor(options.jobs) as pool:
        for head, hosts in {
            "configured by": open_hosts(),
            "after older content, by": of_rows(earlier.ROWS),
        }.items():
            rows = []
            for tool, (name, flags) in itertools.product(TOOLS, FLAGS.items()):
                found = list(
                    pool.map(taken_over, hosts, itertools.repeat(tool), itertools.repeat(flags))
                )
                rows.append(counted((f"nvidia-ctk {tool}", name), found, columns))
                every += found
            tables.append(table([head, "flags", "hosts", *columns], rows))
        right = list(pool.map(like_its_base, bases))
    found = counted(("the built-in `runc`",), right, (ALIKE, REFUSED, WRONG))
    tables.append(
        table(["wrong to copy from", "hosts", "like their base", REFUSED, WRONG], [found])
    )
    print("\n".join(tables))
    for verdict in (v for v in (*every, *right) if v.outcome in (REFUSED, WRONG)):
        print(
            f"{verdict.host.title}, containerd {verdict.host.release}: {verdict.outcome}: {verdict.why}"
        )
    if options.write:
        PAGE.write_text(written(tables))
    return 0 if all(verdict.as_expected for verdict in (*every, *right)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
