# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What --diff shows: lines that change under the header of their table, and no other line of a
file.
"""

from __future__ import annotations

import hashlib

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import projector
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import decision_file
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.results import diff
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import count_examples

PATH = "/etc/containerd/config.toml"
BEFORE = """version = 2
[plugins.cri]
  enable_cdi = false
  sandbox_image = "SECRET"
[plugins.cri.registry]
  password = "SECRET"
[plugins.cri.containerd]
  # SECRET
  default_runtime_name = "runc"
  snapshotter = "SECRET"
"""
AFTER = BEFORE.replace("enable_cdi = false", "enable_cdi = true").replace('"runc"\n', '"nvidia"\n')
SHOWN = f"""--- {PATH} (kept whole in the journal on the host)
+++ {PATH}
@@ -3 +3 @@ [plugins.cri]
-  enable_cdi = false
+  enable_cdi = true
@@ -9 +9 @@ [plugins.cri.containerd]
-  default_runtime_name = "runc"
+  default_runtime_name = "nvidia"
"""
SPEC = '{\n  "cdiVersion": "0.5.0",\n  "kind": "nvidia.com/gpu"\n}\n'


KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\nmDMEZ\n-----END PGP PUBLIC KEY BLOCK-----\n"
KEY_PATH, PROGRAM, NEW = (
    "/etc/apt/keyrings/gpufleet-nvidia.asc",
    "/usr/local/libexec/gpufleet/modes.py",
    "new\n",
)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def shown(before: str, after: str, path: str = PATH, *, verbose: bool = False) -> str:
    (one,) = diff.convert_diffs_for_ansible(
        [diff.build_diff_entry(path, before, after)], verbose=verbose
    )
    assert (one["before_header"], one["after_header"]) == (path, path)
    return one["prepared"] if "prepared" in one else f"{one['before']}=>{one['after']}"


def test_lines_that_change_and_their_tables() -> None:
    assert shown(BEFORE, AFTER) == SHOWN
    assert shown(BEFORE, AFTER, verbose=True) == SHOWN


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ("", "a = 1\n", f"--- {PATH}\n+++ {PATH}\n@@ -0,0 +1 @@\n+a = 1\n"),
        (
            "a = 1\n",
            "",
            f"--- {PATH} (kept whole in the journal on the host)\n+++ {PATH}\n@@ -1 +0,0 @@\n-a = 1\n",
        ),
        (
            "[a]\nb = 1\nc = SECRET\n",
            "[a]\nc = SECRET\n",
            f"--- {PATH} (kept whole in the journal on the host)\n+++ {PATH}\n@@ -2 +1,0 @@ [a]\n-b = 1\n",
        ),
        ("same\n", "same\n", ""),
    ],
)
def test_files_that_come_and_go(before: str, after: str, text: str) -> None:
    assert shown(before, after) == text


@pytest.mark.parametrize(
    ("path", "before", "after", "text"),
    [
        (
            "/var/run/cdi/nvidia.yaml",
            "",
            SPEC,
            "/var/run/cdi/nvidia.yaml: 4 lines, new (-v shows it)\n",
        ),
        (
            "/etc/cdi/n.yaml",
            "cdiVersion: 0.5.0\nkind: x\n",
            "",
            "/etc/cdi/n.yaml: removed (-v shows it)\n",
        ),
        (
            KEY_PATH,
            "",
            KEY,
            f"{KEY_PATH}: a public key, 3 lines, new, sha256 {digest(KEY)} (-v shows it)\n",
        ),
        (KEY_PATH, KEY, "", f"{KEY_PATH}: a public key, removed (-v shows it)\n"),
        (
            PROGRAM,
            "old\n",
            "new\n",
            f"{PROGRAM}: a program of this collection, 1 lines, changed, sha256 {digest(NEW)} (-v shows it)\n",
        ),
        (
            decision_file.DECISION_PATH,
            "{}\n",
            '{"a": 1}\n',
            f"{decision_file.DECISION_PATH}: 1 lines, changed (-v shows it)\n",
        ),
    ],
)
def test_what_a_program_writes_whole_is_one_line_unless_asked_for(
    path: str, before: str, after: str, text: str
) -> None:
    assert shown(before, after, path) == text
    assert shown(before, after, path, verbose=True) == f"{before}=>{after}"


LINES = st.lists(
    st.sampled_from(["a = 1", "b = 2", "[t]", "[[u]]", "", "x = 'FOREIGN'", "# FOREIGN"]),
    max_size=12,
)


@settings(max_examples=count_examples(400))
@given(LINES, LINES, st.integers(0, 11))
def test_no_line_that_stays_is_shown(lines: list[str], ours: list[str], at: int) -> None:
    own = [line for line in ours if "FOREIGN" not in line]
    after = [*lines[:at], *own, *lines[at:]]
    assert "FOREIGN" not in shown("\n".join([*lines, ""]), "\n".join([*after, ""]))


# ---------------------------------------------------------------- what is not sent from a host

FILES = {
    "a name": ("toml", '[registry]\nsecret_name = "s3cret"\n'),
    "a comment": ("toml", "# ask Anna\nversion = 2\n"),
    "a value": ("toml", 'sandbox_image = "s3cret"\n'),
    "a number": ("toml", "[limits]\nmost = 17\n"),
    "a list": ("toml", 'mirrors = ["a", "b"]\n'),
    "a table in one line": ("toml", 'auth = { user = "a" }\n'),
    "a table's name": ("toml", "[s3cret]\nversion = 2\n"),
    "a member of JSON": ("json", '{"token": "s3cret"}\n'),
}
KEEP = [[["version"], "integer"], [["sandbox_image"], "path"]]


@pytest.mark.parametrize("way", ["goes", "comes"])
@pytest.mark.parametrize("case", FILES)
def test_what_stands_for_hidden_text_is_explained_once(case: str, way: str) -> None:
    form, text = FILES[case]
    sent = projector.project_file(text.encode(), {"format": form, "places": KEEP}).data.decode()
    assert sent != text
    found = shown(sent, "") if way == "goes" else shown("", sent)
    assert (found.count(diff.HIDDEN), found.splitlines()[2]) == (1, diff.HIDDEN), found


PLAIN = [
    'a = ""\n',
    "version = 2\n[plugins]\n",
    'x = 1\nmax = "x"\n',
    'path = "/usr/bin/xx"\n',
    '{"a": [1, 2], "b": {}}\n',
]


@pytest.mark.parametrize("text", PLAIN)
def test_nothing_is_explained_where_nothing_is_hidden(text: str) -> None:
    assert diff.HIDDEN not in shown(text, "")


def test_what_stays_needs_no_word() -> None:
    assert diff.HIDDEN not in shown('xxxx = "    "\na = 1\n', 'xxxx = "    "\na = 2\n')
