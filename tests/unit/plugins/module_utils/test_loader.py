# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a program's parts are found and when they are compiled. Python 3.6."""

import json
import subprocess
import sys
import zlib

from ansible_collections.gpufleet.nvidia.plugins.module_utils import loader

PARTS = [
    ["used", "from far.away import unused, inner\nimport far.away.inner.most as most\n\ndef run(asked):\n    return [asked, most.value]\n"],
    ["unused", "raise ValueError('this part was run')\n"],
    ["inner.most", "from far.away import unused\nvalue = 7\n"],
    ["touching", "from far.away import unused\n\ndef run(asked):\n    return unused.anything\n"],
    ["broken", "def run(asked):\n    return 1 / 0\n"],
]


def run(main, asked="x"):
    """What a host does with what is sent."""
    with open(loader.__file__) as stream:
        own = stream.read()
    job = {"package": "far.away", "main": main, "request": asked, "marker": "M:"}
    blobs = [zlib.compress(data.encode()) for data in (own, json.dumps(PARTS), json.dumps(job))]
    start = (
        "import sys,zlib;s=sys.stdin.buffer;n=[int(w) for w in s.readline().split()];"
        "o=zlib.decompress(s.read(n[0]));exec(o);sent(s,o.decode('utf-8'),n[1:])"
    )
    words = " ".join(str(len(blob)) for blob in blobs).encode() + b"\n" + b"".join(blobs)
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", start], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = child.communicate(words)
    lines = [line for line in out.decode().splitlines() if line.startswith("M:")]
    return (loader.unpack(loader.binascii.a2b_base64(lines[0][2:])) if lines else None), err.decode()


def test_a_part_runs_when_something_of_it_is_used_and_not_before():
    assert run("used") == (["x", 7], "")
    answer, said = run("touching")
    assert answer is None
    assert "ValueError: this part was run" in said


def test_an_error_names_the_part_and_the_line():
    assert 'File "broken.py", line 2, in run' in run("broken")[1]


def test_a_part_that_is_not_sent_is_an_error():
    assert "No module named 'far.away.nowhere'" in run("nowhere")[1]


def test_a_sources_text_can_be_had_again():
    parts = loader.Parts("far.away", zlib.compress(json.dumps(PARTS).encode()), "")
    assert parts.get_source("far.away.unused") == PARTS[1][1]
    assert parts.packages == {"far", "far.away", "far.away.inner"}
    assert parts.find_spec("far.elsewhere") is None
