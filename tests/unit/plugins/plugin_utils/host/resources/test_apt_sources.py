# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sources of the same repository that others left, in both of apt's forms: taken over, refused, or
none of our business.
"""

from __future__ import annotations

import hashlib

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Plan
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import earlier_runs
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    apt_sources,
)
from hypothesis import given
from hypothesis import strategies as st

URL = "https://mirror.example/nvidia/deb/$(ARCH)"
OWN = "/etc/apt/sources.list.d/gpufleet-nvidia.sources"
LIST, SOURCES = (
    "/etc/apt/sources.list.d/nvidia-container-toolkit.list",
    "/etc/apt/sources.list.d/toolkit.sources",
)
MAIN = "/etc/apt/sources.list"
GUIDE = f"deb [signed-by=/usr/share/keyrings/nvidia.gpg] {URL} /\n"
STANZA = f"Types: deb\nURIs: {URL}/\nSuites: /\nSigned-By: /usr/share/keyrings/nvidia.gpg\n"


def host(files: dict[str, str], url: str = URL) -> Observation:
    """Files of a host as the host shows them."""
    answers = {}
    for pattern, wanted in zip(apt_sources.PATTERNS, (".list", ".sources", ""), strict=True):
        found = [
            path
            for path in files
            if (path == MAIN if not wanted else path != MAIN and path.endswith(wanted))
        ]
        shown = [
            (
                path,
                file_places.show_own_text(files[path], apt_sources.keep_apt_lines(url)),
                hashlib.sha256(files[path].encode()).hexdigest(),
            )
            for path in found
        ]
        answers[f"glob:{pattern}"] = {
            "files": [
                {"path": p, "exists": True, "type": "file", "content": c, "sha256": d}
                for p, c, d in shown
            ]
        }
    return Observation({}, answers)


TAKEN = {
    "one line, as NVIDIA's guide writes it": {LIST: GUIDE},
    "with comments and blank lines": {
        LIST: f"# the toolkit\n\n{GUIDE}# deb {URL}/experimental /\n"
    },
    "with options, and a slash at the end": {LIST: f"deb [arch=amd64 signed-by=/k.asc] {URL}/ /\n"},
    "without a key": {LIST: f"deb {URL} /\n"},
    "with the architecture by its name": {LIST: GUIDE.replace("$(ARCH)", "amd64")},
    "deb822": {SOURCES: STANZA},
    "deb822, with more keys": {SOURCES: STANZA + "Architectures: amd64 arm64\nEnabled: yes\n"},
    "with tabs, and a comment behind it": {
        LIST: f"deb\t[signed-by=/k.asc]\t{URL}\t/ # since 2024\n"
    },
    "twice": {LIST: GUIDE, SOURCES: STANZA},
}


@pytest.mark.parametrize("files", TAKEN.values(), ids=TAKEN)
def test_a_file_that_names_this_repository_and_nothing_else_is_taken_over(
    files: dict[str, str],
) -> None:
    plan = apt_sources.plan_other_apt_sources(
        apt_sources.read_apt_files(host(files)), URL, OWN, adopt=True
    )
    assert [(c["op"], c["path"]) for c in plan.changes] == [("remove", path) for path in files]
    assert [(left.path, left.fate) for left in plan.leftovers] == [
        (path, "adopted") for path in files
    ]


ALONE = {
    "our own": {OWN: STANZA},
    "another repository": {LIST: GUIDE.replace("mirror.example", "nvidia.github.io")},
    "another directory of the same server": {LIST: GUIDE.replace("/nvidia/deb", "/debian")},
    "a longer address": {LIST: GUIDE.replace("$(ARCH)", "$(ARCH)/old")},
    "commented out": {LIST: f"# {GUIDE}"},
    "switched off": {SOURCES: STANZA + "Enabled: no\n"},
    "another suite": {LIST: f"deb {URL} stable main\n"},
    "switched off, its fields in small letters": {
        SOURCES: STANZA.replace("URIs:", "uris:") + "Enabled: no\n"
    },
    "its sources": {LIST: GUIDE.replace("deb [", "deb-src [")},
}


@pytest.mark.parametrize("files", ALONE.values(), ids=ALONE)
def test_what_names_another_repository_is_left_alone(files: dict[str, str]) -> None:
    assert apt_sources.plan_other_apt_sources(
        apt_sources.read_apt_files(host(files)), URL, OWN, adopt=True
    ).empty


REFUSED = {
    "another source in the file": (
        {LIST: GUIDE + "deb http://deb.debian.org/debian trixie main\n"},
        True,
        "apt.source-with-more",
    ),
    "another stanza in the file": (
        {SOURCES: f"{STANZA}\nTypes: deb\nURIs: http://x.example\n"},
        True,
        "apt.source-with-more",
    ),
    "a key in the file": (
        {SOURCES: STANZA.replace("/usr/share/keyrings/nvidia.gpg", "\n -----BEGIN")},
        True,
        "apt.source-with-more",
    ),
    "another stanza in the file, which is switched off": (
        {SOURCES: f"{STANZA}\nTypes: deb\nURIs: http://x.example\nSuites: /\nEnabled: no\n"},
        True,
        "apt.source-with-more",
    ),
    "options of other forms": (
        {LIST: f"deb [signed-by=/k(1).asc] {URL} /\n"},
        True,
        "apt.source-with-more",
    ),
    "an entry that is indented": ({LIST: f"  deb {URL} /\n"}, True, "apt.source-with-more"),
    "a field in small letters": (
        {SOURCES: STANZA.replace("URIs:", "uris:")},
        True,
        "apt.source-with-more",
    ),
    "no blank behind a field": (
        {SOURCES: STANZA.replace("URIs: ", "URIs:")},
        True,
        "apt.source-with-more",
    ),
    "several addresses": (
        {SOURCES: STANZA.replace("URIs:", "URIs: http://x.example/")},
        True,
        "apt.source-with-more",
    ),
    "an address in a line of its own": (
        {SOURCES: STANZA.replace("URIs: ", "URIs:\n ")},
        True,
        "apt.source-with-more",
    ),
    "the distribution's own file": ({MAIN: GUIDE}, True, "apt.source-with-more"),
    "nothing is to be taken over": ({LIST: GUIDE}, False, "apt.source-to-keep"),
}


@pytest.mark.parametrize(("files", "adopt", "code"), REFUSED.values(), ids=REFUSED)
def test_one_that_cannot_be_taken_over_is_refused_since_apt_would_stop(
    files: dict[str, str], adopt: bool, code: str
) -> None:
    with pytest.raises(PlanError) as caught:
        apt_sources.plan_other_apt_sources(
            apt_sources.read_apt_files(host(files)), URL, OWN, adopt=adopt
        )
    assert (caught.value.code, caught.value.where in files) == (code, True)


def test_a_source_that_cannot_be_read_is_not_taken_for_one_of_others() -> None:
    answers = {f"glob:{pattern}": {"files": []} for pattern in apt_sources.PATTERNS}
    unread = {"path": LIST, "error": {"kind": "permission", "message": "others may write to it"}}
    here = Observation({}, {**answers, f"glob:{apt_sources.PATTERNS[0]}": {"files": [unread]}})
    with pytest.raises(PlanError) as caught:
        apt_sources.plan_other_apt_sources(apt_sources.read_apt_files(here), URL, OWN, adopt=True)
    assert (caught.value.code, caught.value.values) == (
        "apt.source-unreadable",
        {"problem": "others may write to it"},
    )


# As apt 2.6 reads them: the line, and why it stops there; '' if it does not.
LINES = {
    "a web page (rgryta/Stable-Diffusion-WSL2-Docker/issues/7)": (
        "<!doctype html>",
        "unknown-type",
    ),
    "a stanza of the other form": ("Types: deb", "unknown-type"),
    "a source of rpm packages": ("rpm http://a.example b", "unknown-type"),
    "capitals": ("DEB http://a.example stable main", "unknown-type"),
    "no suite (NVIDIA/nvidia-docker/issues/800)": ("deb http://a.example/amd64/", "line-cut-short"),
    "no suite, with options": ("deb [arch=amd64 lang=c] http://a.example", "line-cut-short"),
    "no suite of this very repository": (f"deb {URL}", "line-cut-short"),
    "no component": ("deb http://user:hunter2@a.example stable # main", "line-cut-short"),
    "nothing but a type": ("deb ", "line-cut-short"),
    "sources, indented, no suite": ("  deb-src http://a.example", "line-cut-short"),
    "a flat repository": ("deb http://a.example/ ./", ""),
    "a suite that is a path": ("deb http://a.example stable/", ""),
    "components": ("deb http://a.example stable main contrib # x", ""),
    "options with blanks": ("deb [ arch=amd64 signed-by=/x ] http://a.example b c", ""),
    "tabs": ("deb\thttp://a.example\tb\tc", ""),
    "a disc": ("deb cdrom:[Debian GNU/Linux 12]/ bookworm main", ""),
    "quotation marks": ('deb "http://a.example/a b" "c d" e', ""),
    "sources, indented": ("\tdeb-src http://a.example b c", ""),
    "a comment": ("  # <html>", ""),
    "nothing": ("", ""),
}


@pytest.mark.parametrize(("line", "code"), LINES.values(), ids=LINES)
def test_no_source_is_added_where_apt_reads_none_at_all(line: str, code: str) -> None:
    here = host({LIST: f"# a list\n{line}\n", SOURCES: "<html>\n"})
    if not code:
        apt_sources.require_lines(apt_sources.read_apt_files(here))
        return
    with pytest.raises(PlanError) as caught:
        apt_sources.require_lines(apt_sources.read_apt_files(here))
    assert (caught.value.code, caught.value.where, caught.value.line) == (f"apt.{code}", LIST, 2)
    assert "hunter2" not in str(caught.value)


@given(st.text(alphabet=st.characters(blacklist_categories=["Cs"]), max_size=60))
def test_of_any_other_line_nothing_travels_but_its_first_word(text: str) -> None:
    secret = "hunter2" + text.replace("\n", " ").replace("\r", " ")
    for line in (
        f"deb https://user:{secret}@mirror.example/ /\nURIs: {secret}",
        f"deb https://user:{secret}",
        f"<{secret}",
        f"deb [{secret}",
    ):
        assert "hunter2" not in file_places.show_own_text(
            f"{line}\n", apt_sources.keep_apt_lines(URL)
        )


def test_what_was_taken_over_comes_back_when_the_repository_goes() -> None:
    kept = {
        LIST: {"existed": True, "sha256_after": None},
        "/etc/other": {"existed": True, "sha256_after": None},
    }
    here = Observation({}, {"originals": {"originals": kept}, f"file:{LIST}": {"exists": False}})
    assert [(c["op"], c["path"]) for c in plan_restore(here).changes] == [("restore", LIST)]


def plan_restore(here: Observation) -> Plan:
    earlier = earlier_runs.read_earlier_runs(here)
    return apt_sources.plan_apt_source_restore(
        earlier, apt_sources.read_taken_over_files(here, earlier)
    )


def test_what_others_put_in_the_place_of_a_source_that_was_taken_over_stays() -> None:
    kept = {LIST: {"existed": True, "sha256_after": None}}
    file = {"exists": True, "kind": "file", "content": "# ours\n", "sha256": "f" * 64}
    plan = plan_restore(
        Observation({}, {"originals": {"originals": kept, "known": True}, f"file:{LIST}": file})
    )
    assert (plan.changes, plan.released) == ((), (LIST,))
    assert len(plan.advice) == 1
