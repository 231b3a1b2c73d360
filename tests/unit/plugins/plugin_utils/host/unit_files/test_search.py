# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files a unit has beneath a directory. Every row was held against systemd 252, which shows
them (systemd --test).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.unit_files import search

from tests.unit.bare_trees import Tree

ETC, RUN, USR, LIB = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
D = "d.service"
LINK = "-> "  # before the target of a link
# what is there: files of no content that counts, or links -> the unit's own file, and its drop-ins
# in their order
CASES: dict[str, tuple[str, dict[str, str], str, list[str]]] = {
    "nothing": (D, {}, "", []),
    "only a drop-in": (D, {f"{ETC}/{D}.d/a.conf": ""}, "", []),
    "vendor's": (D, {f"{USR}/{D}": ""}, f"{USR}/{D}", []),
    "/lib that is not merged": (D, {f"{LIB}/{D}": ""}, f"{LIB}/{D}", []),
    "/lib that is merged": (D, {"/lib": f"{LINK}usr/lib", f"{USR}/{D}": ""}, f"{USR}/{D}", []),
    "run over vendor": (D, {f"{RUN}/{D}": "", f"{USR}/{D}": ""}, f"{RUN}/{D}", []),
    "etc over run": (D, {f"{ETC}/{D}": "", f"{RUN}/{D}": "", f"{USR}/{D}": ""}, f"{ETC}/{D}", []),
    "masked": (D, {f"{ETC}/{D}": f"{LINK}/dev/null", f"{USR}/{D}": "", f"{USR}/{D}.d/a.conf": ""}, "", []),
    "masked by run": (D, {f"{RUN}/{D}": f"{LINK}/dev/null", f"{USR}/{D}": ""}, "", []),
    "a mask that /etc outranks": (D, {f"{ETC}/{D}": "", f"{RUN}/{D}": f"{LINK}/dev/null"}, f"{ETC}/{D}", []),
    "a linked unit": (D, {f"{ETC}/{D}": f"{LINK}/opt/{D}", f"/opt/{D}": ""}, f"{ETC}/{D}", []),
    "drop-ins of all folders by name": (
        D, {f"{USR}/{D}": "", f"{USR}/{D}.d/20.conf": "", f"{ETC}/{D}.d/30.conf": "", f"{RUN}/{D}.d/10.conf": "", f"{ETC}/{D}.d/9.txt": ""},
        f"{USR}/{D}", [f"{RUN}/{D}.d/10.conf", f"{USR}/{D}.d/20.conf", f"{ETC}/{D}.d/30.conf"]),
    "of one name the higher folder": (
        D, {f"{USR}/{D}": "", f"{USR}/{D}.d/a.conf": "", f"{ETC}/{D}.d/a.conf": ""}, f"{USR}/{D}", [f"{ETC}/{D}.d/a.conf"]),
    "a link to nothing takes one back": (
        D, {f"{USR}/{D}": "", f"{USR}/{D}.d/a.conf": "", f"{ETC}/{D}.d/a.conf": f"{LINK}/dev/null"}, f"{USR}/{D}", []),
    "of all services": (D, {f"{USR}/{D}": "", f"{ETC}/service.d/a.conf": ""}, f"{USR}/{D}", [f"{ETC}/service.d/a.conf"]),
    "its own outranks that of all services": (
        D, {f"{USR}/{D}": "", f"{USR}/{D}.d/a.conf": "", f"{ETC}/service.d/a.conf": ""}, f"{USR}/{D}", [f"{USR}/{D}.d/a.conf"]),
    "by the beginning of its name": (
        "a-b-c.service",
        {f"{USR}/a-b-c.service": "", f"{ETC}/a-.service.d/1.conf": "", f"{USR}/a-b-.service.d/1.conf": "",
         f"{RUN}/a-.service.d/2.conf": ""},
        f"{USR}/a-b-c.service", [f"{ETC}/a-.service.d/1.conf", f"{RUN}/a-.service.d/2.conf"]),
    "an alias": (
        "d.service", {f"{ETC}/{D}": f"{LINK}{USR}/o.service", f"{USR}/o.service": "", f"{USR}/o.service.d/1.conf": "",
                      f"{ETC}/{D}.d/1.conf": "", f"{ETC}/{D}.d/2.conf": ""},
        f"{USR}/o.service", [f"{USR}/o.service.d/1.conf", f"{ETC}/{D}.d/2.conf"]),
    "drop-ins of an alias": (
        D, {f"{USR}/{D}": "", f"{ETC}/nick.service": f"{LINK}{USR}/{D}", f"{USR}/nick.service.d/1.conf": ""},
        f"{USR}/{D}", [f"{USR}/nick.service.d/1.conf"]),
    "links that are no names of units": (
        D, {f"{USR}/{D}": "", f"{ETC}/a*.service": f"{LINK}{USR}/{D}", f"{ETC}/an.service.d/1.conf": "", f"{ETC}/a b.service": LINK + D},
        f"{USR}/{D}", []),
    "a link to what is no unit's name": (D, {f"{ETC}/{D}": f"{LINK}{USR}/*.service", f"{USR}/*.service": ""}, "", []),
    "an alias that leads in a circle": (D, {f"{ETC}/{D}": f"{LINK}{USR}/{D}", f"{USR}/{D}": ""}, f"{ETC}/{D}", []),
    "an instance": (
        "t@i.service", {f"{USR}/t@.service": "", f"{USR}/t@.service.d/1.conf": "", f"{ETC}/t@i.service.d/2.conf": ""},
        f"{USR}/t@.service", [f"{USR}/t@.service.d/1.conf", f"{ETC}/t@i.service.d/2.conf"]),
    "an instance with a file of its own": ("t@i.service", {f"{USR}/t@.service": "", f"{USR}/t@i.service": ""}, f"{USR}/t@i.service", []),
}  # fmt: skip


@pytest.mark.parametrize(("unit", "there", "own", "drop_ins"), CASES.values(), ids=CASES)
def test_the_files_of_a_unit(
    unit: str, there: dict[str, str], own: str, drop_ins: list[str], tmp_path: Path
) -> None:
    tree = Tree(tmp_path / "tree")
    for path, text in there.items():
        if text.startswith(LINK):
            tree.path(path).parent.mkdir(parents=True, exist_ok=True)
            tree.path(path).symlink_to(text.removeprefix(LINK))
        else:
            tree.write(path, "[Service]\n")
    found = find(tree, unit)
    assert (found.own, list(found.drop_ins)) == (own, drop_ins)


def test_names_without_end_are_refused(tmp_path: Path) -> None:
    """Each name has more than a hundred places for drop-ins, and more with each dash in it."""
    tree = Tree(tmp_path / "tree")
    tree.write(f"{USR}/{D}", "")
    tree.path(ETC).mkdir(parents=True)
    for number in range(9):
        tree.path(f"{ETC}/{'a-' * 100}{number}.service").symlink_to(f"{USR}/{D}")
    with pytest.raises(PlanError):
        find(tree, D)


def find(tree: Tree, unit: str) -> search.UnitFiles:
    seen = tree.look(Observation({}, {}), [search.ask_for(unit)])
    while True:
        try:
            return search.find_files(seen, unit)
        except NeedMore as more:
            seen = tree.look(seen, more.questions)
