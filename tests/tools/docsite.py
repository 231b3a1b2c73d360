# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the documentation's site in .cache/docs/site, or judge what it is made of.

    docsite.py              every page of docs/ and every module and role, as HTML; fails on any warning and any broken link
    docsite.py --lint       reuse on the checkout, antsibull-docs on the archive

antsibull-docs follows links out of a checkout, as the lab has some; so it reads the archive, which
is what users get. No network is needed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import archive
import environments
from environments import CACHE, ROOT
from variable_tables import SUBJECTS, find_subject

PLACE = CACHE / "docs"
COLLECTIONS = PLACE / "collections"
SOURCE = PLACE / "source"
SITE = PLACE / "site"
REPOSITORY = "https://github.com/gpufleet/gpufleet.nvidia/blob/main/"
NAME = "gpufleet.nvidia"
# Pages from outside docs/, and their places in the site.
MORE = {
    "ARCHITECTURE.md": "architecture.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/README.md": "examples.md",
}
# The page whose sections are the site's navigation.
CONTENTS = Path("docs/README.md")
# Pages that antsibull-docs writes, beside those of the section.
GENERATED = {"Reference": ("Options and results <modules/index>",)}
ENTRY = re.compile(r"^- \[([^\]]+)\]\(([^)#\s]+)\)", re.MULTILINE)
# Pages of antsibull-docs with so many options that people look for them by subject -> how an anchor
# of the page, and how Ansible's markup, names an option, up to the option's own name.
GROUPED = {
    "host_module": ("host_module__parameter-", "host#module:"),
    "host_info_module": ("host_info_module__parameter-", "host_info#module:"),
    "host_role": ("host_role__parameter-main__", "host#role:main:"),
}
ANCHOR = f".. _ansible_collections.{NAME}."
PARAMETERS = "\nParameters\n----------\n"
# An entry of the navigation that antsibull-docs writes.
PLUGIN = re.compile(r"^    ((\w+?)_(?:module|filter|lookup|role))$", re.MULTILINE)
# A page with fewer sections is read as a whole.
SECTIONS = 3
ON_THIS_PAGE = """
```{contents} On this page
:local:
:depth: 1
```
"""
LINK = re.compile(r"(!?\[[^\]]*\]\()(?!https?:|#)([^)#\s]+)((?:#[^)\s]*)?\))")
# Ansible's labels that antsibull-docs links to, each with its page.
LABELS = {
    "ansible_configuration_settings": "reference_appendices/config.html",
    "action_plugins": "plugins/action.html",
    "common_return_values": "reference_appendices/common_return_values.html",
    "check_mode": "playbook_guide/playbooks_checkmode.html",
    "ansible_collections_list": "collections/index.html",
    "ansible_collections.ansible.builtin.inventory_hostnames_lookup": "collections/ansible/builtin/inventory_hostnames_lookup.html",
}


class Failed(Exception):
    """A tool that found something, which it has printed."""


def run(programs: Path, *command: str | Path, **environment: str) -> None:
    """Run a program of the documentation's environment and show what it prints."""
    settings = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", **environment}
    done = subprocess.run(
        [programs / command[0], *command[1:]],
        cwd=ROOT,
        check=False,
        env=settings,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        raise Failed(
            f"{command[0]} ended with exit status {done.returncode}; its own words are above"
        )


def unpack() -> Path:
    """Put the archive's files into the place in which Ansible looks for a collection."""
    target = COLLECTIONS / "ansible_collections" / NAME.replace(".", "/")
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="gpufleet-") as folder:
        archive.copy(Path(folder) / "clone")
        with tarfile.open(archive.build(Path(folder) / "clone", Path(folder) / "built")) as packed:
            packed.extractall(target, filter="data")
    return target


def lint(programs: Path) -> None:
    """Have reuse judge the licences, and antsibull-docs the documentation."""
    run(programs, "reuse", "lint", "--quiet")
    run(
        programs,
        "antsibull-docs",
        "lint-collection-docs",
        "--plugin-docs",
        "--validate-collection-refs",
        "self",
        unpack(),
    )


# ---------------------------------------------------------------- the site's source


def places() -> Mapping[Path, Path]:
    """Return each page of the repository that the site shows, with its place there."""
    guides = {
        path.relative_to(ROOT): name_place(path.relative_to(ROOT / "docs"))
        for path in sorted((ROOT / "docs").rglob("*.md"))
    }
    return {**guides, **{Path(page): Path(place) for page, place in MORE.items()}}


def name_place(page: Path) -> Path:
    """Return where a page of docs/ goes. The README of a directory is its index."""
    return page.with_name("index.md") if page.name == "README.md" else page


def list_sections(text: str) -> Mapping[str, list[tuple[str, str]]]:
    """Return the sections of a page of contents that list pages, each with titles and links."""
    parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)[1:]
    found = {head: ENTRY.findall(body) for head, body in zip(parts[::2], parts[1::2], strict=True)}
    return {head: entries for head, entries in found.items() if entries}


def add_navigation(text: str, path: Path, shown: Mapping[Path, Path]) -> str:
    """Add what Sphinx makes its navigation of: the pages that the sections of a page list."""
    trees = []
    for head, entries in list_sections(text).items():
        targets = [(title, Path(os.path.normpath(path.parent / link))) for title, link in entries]
        names = [
            f"{title} <{find_way(shown[target], path, shown).with_suffix('')}>"
            for title, target in targets
            if target in shown
        ]
        lines = [*names, *(GENERATED.get(head, ()) if path == CONTENTS else ())]
        trees.append(
            "\n".join(["```{toctree}", ":hidden:", f":caption: {head}", "", *lines, "```"])
        )
    return "\n\n".join([text.rstrip(), *trees]) + "\n"


def add_contents(text: str) -> str:
    """Add a list of a page's sections below its title, if it has more than a few."""
    if len(re.findall(r"^## ", without_blocks(text), re.MULTILINE)) < SECTIONS:
        return text
    return re.sub(r"\A((?:<!--.*?-->\s*)*# [^\n]*\n)", rf"\1{ON_THIS_PAGE}", text, flags=re.DOTALL)


def without_blocks(text: str) -> str:
    """Return a page's text without its blocks of code, which have lines that look like headings."""
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)


def shorten_titles(text: str) -> str:
    """Call each plugin and role by its short name in the navigation."""
    return PLUGIN.sub(r"    \2 <\1>", text)


def group_options(text: str, anchor: str, markup: str) -> str:
    """Add links to all options of a page by subject, in the order of the page of variables.

    anchor, markup: as in GROUPED.
    """
    begin = re.escape(f"{ANCHOR}{anchor}")
    names = sorted(set(re.findall(rf"^ *{begin}(\w+):$", text, re.MULTILINE)))
    groups = {
        subject: [name for name in names if find_subject(name) == subject] for subject in SUBJECTS
    }
    lines = [
        f"* {subject}: " + ", ".join(f":ansopt:`{NAME}.{markup}{name}`" for name in group)
        for subject, group in groups.items()
        if group
    ]
    return text.replace(PARAMETERS, "\n".join([PARAMETERS, "By subject:", "", *lines, ""]), 1)


def ease_generated(modules: Path) -> None:
    """Give the pages of antsibull-docs short names in the navigation, and options by subject."""
    index = modules / "index.rst"
    index.write_text(shorten_titles(index.read_text()))
    for name, (anchor, markup) in GROUPED.items():
        path = modules / f"{name}.rst"
        path.write_text(group_options(path.read_text(), anchor, markup))


def find_way(place: Path, path: Path, shown: Mapping[Path, Path]) -> Path:
    """Return a place of the site as a page names it."""
    return Path(os.path.relpath(place, shown.get(path, Path(path.name)).parent))


def page(path: Path, shown: Mapping[Path, Path]) -> str:
    """Return the text of a page with its links as they are in the site: to other pages there, or to
    the repository.
    """

    def moved(found: re.Match[str]) -> str:
        target = Path(os.path.normpath(path.parent / found[2]))
        if target in shown:
            return f"{found[1]}{find_way(shown[target], path, shown)}{found[3]}"
        if found[2].endswith((".svg", ".png")):
            return f"{found[1]}{find_way(Path(target.name), path, shown)}{found[3]}"
        return f"{found[1]}{REPOSITORY}{target}{found[3]}"

    text = (ROOT / path).read_text()
    contents = path.name == "README.md" and path.is_relative_to("docs")
    return LINK.sub(moved, add_navigation(text, path, shown) if contents else add_contents(text))


def inventory() -> bytes:
    """Return an inventory for Sphinx of the labels of Ansible's own documentation that our pages
    use.
    """
    head = "# Sphinx inventory version 2\n# Project: Ansible\n# Version: devel\n# The remainder of this file is compressed using zlib.\n"
    lines = "".join(
        f"{label} std:label -1 {place}#{re.sub('[_.]', '-', label)} {label}\n"
        for label, place in LABELS.items()
    )
    return head.encode() + zlib.compress(lines.encode())


def write_source(programs: Path) -> None:
    """Put together what Sphinx reads."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(ROOT / "docs/docsite", SOURCE)
    shown = places()
    for path, place in shown.items():
        (SOURCE / place).parent.mkdir(exist_ok=True)
        (SOURCE / place).write_text(page(path, shown))
    for picture in sorted([*(ROOT / "docs").rglob("*.svg"), *(ROOT / "docs").rglob("*.png")]):
        shutil.copy(picture, SOURCE)
    (SOURCE / "ansible.inv").write_bytes(inventory())
    (SOURCE / "modules").mkdir(mode=0o755)
    unpack()
    options = (
        "--use-current",
        "--squash-hierarchy",
        "--fail-on-error",
        "--dest-dir",
        SOURCE / "modules",
    )
    run(
        programs,
        "antsibull-docs",
        "collection",
        *options,
        NAME,
        ANSIBLE_COLLECTIONS_PATH=str(COLLECTIONS),
    )
    ease_generated(SOURCE / "modules")


# ---------------------------------------------------------------- what was built


class Page(HTMLParser):
    """Anchors of an HTML page, and what it refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.targets: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            if name in ("href", "src") and value:
                self.targets.add(value)


def broken(site: Path) -> Iterator[str]:
    """Name each link within the site that leads nowhere."""
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    for path, content in pages.items():
        for target in sorted(content.targets):
            if re.match(r"[a-z]+:|//", target):
                continue
            parts = urlsplit(target)
            name, anchor = unquote(parts.path), unquote(parts.fragment)
            other = path if not name else Path(os.path.normpath(path.parent / name))
            if not other.exists():
                yield f"{path.relative_to(site)}: {target} is not there"
            elif anchor and other in pages and anchor not in pages[other].anchors:
                yield f"{path.relative_to(site)}: {target} has no such anchor"


def build(programs: Path) -> None:
    """Build the site, and follow every link in it."""
    write_source(programs)
    shutil.rmtree(SITE, ignore_errors=True)
    run(
        programs,
        "sphinx-build",
        "-q",
        "-W",
        "--keep-going",
        "-b",
        "html",
        "-d",
        PLACE / "doctrees",
        SOURCE,
        SITE,
    )
    lost = list(broken(SITE))
    if lost:
        raise Failed("\n".join(["broken links in the site:", *lost]))
    print(f"{len(list(SITE.rglob('*.html')))} pages: {(SITE / 'index.html').relative_to(ROOT)}")


def main(arguments: list[str]) -> int:
    """Do what the arguments name."""
    try:
        programs = environments.ensure("docs")
        (lint if "--lint" in arguments else build)(programs)
    except environments.NoInterpreter as error:
        print(f"docsite.py: not run here, {error}")
        return 0 if "--lint" in arguments else 1
    except Failed as error:
        print(f"docsite.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
