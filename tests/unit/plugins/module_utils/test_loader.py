# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a program's parts are found and when they are compiled. Python 3.6."""

import json
import marshal
import os
import shutil
import stat
import subprocess
import sys
import zlib

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import loader, trust

PARTS = [
    [
        "used",
        "from far.away import unused, inner\nimport far.away.inner.most as most\n\ndef run(asked):\n    return [asked, most.value]\n",
    ],
    ["unused", "raise ValueError('this part was run')\n"],
    ["inner.most", "from far.away import unused\nvalue = 7\n"],
    ["touching", "from far.away import unused\n\ndef run(asked):\n    return unused.anything\n"],
    ["broken", "def run(asked):\n    return 1 / 0\n"],
]


def joined(parts):
    return "\0".join(word for part in parts for word in part)


def run(main, asked="x", base=None, keep=False):
    """What a host does with what is sent."""
    with open(loader.__file__) as stream:
        own = stream.read()
    job = {
        "package": "far.away",
        "main": main,
        "request": asked,
        "marker": "M:",
        "base": base,
        "keep": keep,
    }
    blobs = [zlib.compress(data.encode()) for data in (own, joined(PARTS), json.dumps(job))]
    start = (
        "import sys,zlib;s=sys.stdin.buffer;n=[int(w) for w in s.readline().split()];"
        "o=zlib.decompress(s.read(n[0]));exec(o);run_sent_program(s,o.decode('utf-8'),n[1:])"
    )
    words = " ".join(str(len(blob)) for blob in blobs).encode() + b"\n" + b"".join(blobs)
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", start],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = child.communicate(words)
    lines = [line for line in out.decode().splitlines() if line.startswith("M:")]
    return (
        loader.unpack_job(loader.binascii.a2b_base64(lines[0][2:])) if lines else None
    ), err.decode()


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
    parts = loader.Parts("far.away", zlib.compress(joined(PARTS).encode()), "")
    assert parts.get_source("far.away.unused") == PARTS[1][1]
    assert parts.packages == {"far", "far.away", "far.away.inner"}
    assert parts.find_spec("far.elsewhere") is None


# --- the compiled form
# --------------------------------------------------------------------------------------------------

PACKED = zlib.compress(joined(PARTS).encode())
OTHER = 12345


@pytest.fixture
def base(tmp_path):
    made = tmp_path / "lib" / "gpufleet"
    made.mkdir(parents=True)
    return made


def form(base, packed=PACKED):
    return loader.Compiled(str(base), packed)


def place(base):
    return base / "compiled" / form(base).name


def kept(base):
    """A form that can be told from the plain sources: its answer is another."""
    codes = {part: marshal.dumps(compile(source, part, "exec")) for part, source in PARTS}
    codes["used"] = marshal.dumps(
        compile("def run(asked):\n    return 'of the compiled form'\n", "used", "exec")
    )
    form(base).write(codes)
    assert ran(base) == "of the compiled form"
    return place(base)


def ran(base, **more):
    return run("used", base=str(base), **more)[0]


def test_the_first_start_leaves_the_form_that_the_second_one_runs(base):
    assert ran(base, keep=True) == ["x", 7]
    found = os.lstat(str(place(base)))
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert (os.listdir(str(base)), os.listdir(str(base / "compiled"))) == (
        ["compiled"],
        [place(base).name],
    )
    assert stat.S_IMODE(os.lstat(str(base / "compiled")).st_mode) == 0o700
    assert sorted(form(base).read()) == sorted(part for part, _source in PARTS), (
        "those that were not used, too"
    )
    assert ran(base, keep=True) == ["x", 7]
    kept(base)


def test_a_form_of_other_sources_is_not_run(base):
    kept(base)
    assert form(base, PACKED + b"x").read() == {}


@pytest.mark.parametrize(
    "there, keep", [(False, True), (True, False)], ids=["never had us", "check mode"]
)
def test_nothing_is_left(tmp_path, there, keep):
    base = tmp_path / "lib" / "gpufleet"
    (base if there else tmp_path).mkdir(parents=True, exist_ok=True)
    assert ran(base, keep=keep) == ["x", 7]
    assert (base.exists(), [] if not there else os.listdir(str(base))) == (there, [])


def given_away(path):
    os.chown(str(path), OTHER, OTHER, follow_symlinks=False)


def replaced_by_link(path):
    path.rename(path.parent / "elsewhere")
    path.symlink_to(path.parent / "elsewhere")


def bytes_of(path, change):
    path.write_bytes(change(path.read_bytes()))


def of_another_name(path):
    """What another Python has compiled, under the name of this one's."""
    other = loader.Compiled(str(path.parent.parent), PACKED)
    other.name = path.name.replace(sys.implementation.cache_tag, "cpython-399")
    other.write({"used": marshal.dumps(compile("1", "used", "exec"))})
    (path.parent / other.name).rename(path)


SPOILT = {
    "the file is somebody else's": given_away,
    "the group may write to the file": lambda path: path.chmod(0o620),
    "everybody may write to the file": lambda path: path.chmod(0o602),
    "the file has another name": lambda path: os.link(str(path), str(path) + ".other"),
    "the file is a link": replaced_by_link,
    "the file is a directory": lambda path: (path.unlink(), path.mkdir()),
    "the file is a pipe": lambda path: (path.unlink(), os.mkfifo(str(path))),
    "the file is gone": lambda path: path.unlink(),
    "the file is empty": lambda path: bytes_of(path, lambda data: b""),
    "the file ends within the digest": lambda path: bytes_of(path, lambda data: data[:20]),
    "the file has only the digest": lambda path: bytes_of(path, lambda data: data[:32]),
    "the file was cut short": lambda path: bytes_of(path, lambda data: data[:-1]),
    "the file has more": lambda path: bytes_of(path, lambda data: data + b"x"),
    "another digest": lambda path: bytes_of(path, lambda data: b"x" * 32 + data[32:]),
    "another body": lambda path: bytes_of(
        path, lambda data: data.replace(b"of the compiled form", b"of somebody's making")
    ),
    "a body of another Python": of_another_name,
    "a file that nobody has room for": lambda path: os.truncate(str(path), loader.LARGEST + 1),
    "the directory is somebody else's": lambda path: given_away(path.parent),
    "the group may write to the directory": lambda path: path.parent.chmod(0o720),
    "everybody may write to the directory": lambda path: path.parent.chmod(0o1777),
    "the directory is a link": lambda path: replaced_by_link(path.parent),
    "the directory above is somebody else's": lambda path: given_away(path.parent.parent),
    "the directory above is a link": lambda path: replaced_by_link(path.parent.parent),
    "the group may write to the directory above": lambda path: path.parent.parent.chmod(0o770),
    "everybody may write to one on the way": lambda path: path.parent.parent.parent.chmod(0o777),
    "one on the way is somebody else's": lambda path: given_away(path.parent.parent.parent),
}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("spoilt", sorted(SPOILT))
def test_a_form_that_is_not_as_it_has_to_be_is_not_run(base, spoilt):
    path = kept(base)
    SPOILT[spoilt](path)
    assert form(base).read() == {}
    assert ran(base) == ["x", 7], "the plain sources run"
    assert ran(base, keep=True) == ["x", 7]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("spoilt", sorted(SPOILT))
def test_what_the_rule_for_paths_doubts_is_not_run(base, spoilt):
    """The loader judges before `trust` is there, and by no means more mildly."""
    path = kept(base)
    assert trust.judge_path("", str(path)) is None
    SPOILT[spoilt](path)
    if trust.judge_path("", str(path)) is not None:
        assert form(base).read() == {}


@pytest.mark.parametrize("where", [1, 2, 3])
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_nothing_is_written_where_another_may_write(base, where):
    folder = [base / "compiled", base, base.parent][where - 1]
    (base / "compiled").mkdir()
    folder.chmod(0o777)
    form(base).write({"used": b""})
    assert os.listdir(str(base / "compiled")) == []


def test_a_form_in_a_sticky_directory_is_safe_if_what_stands_in_it_is_roots(base):
    base.parent.chmod(0o1777)
    kept(base)


@pytest.mark.parametrize("when", ["open", "fstat"])
def test_what_takes_its_place_after_it_was_opened_is_not_read(base, monkeypatch, when):
    """Where that is seen (the file has no name any more) nothing is run; what was opened is what
    runs, if anything.
    """
    path = kept(base)
    whole, other = form(base).read(), path.parent / "other"
    shutil.copy(str(path), str(other))
    form(base).write({"used": b"of somebody's making"})
    os.rename(str(path), str(path) + ".evil")
    os.rename(str(other), str(path))
    real, swapped = getattr(os, when), []

    def swapping(*args, **more):
        found = real(*args, **more)
        if not swapped and (
            (when == "open" and args[0] == path.name)
            or (when == "fstat" and stat.S_ISREG(found.st_mode))
        ):
            swapped.append(args)
            os.rename(str(path) + ".evil", str(path))
        return found

    monkeypatch.setattr(os, when, swapping)
    found = form(base).read()
    assert swapped
    assert found == ({} if when == "open" else whole)


def test_a_full_disk_is_nobodys_concern(base, monkeypatch):
    (base / "compiled").mkdir(mode=0o700)
    (base / "compiled").chmod(0o700)

    def full(*_args, **_more):
        raise OSError(28, "no room")

    monkeypatch.setattr(os, "rename", full)
    form(base).write({"used": b""})
    assert os.listdir(str(base / "compiled")) == []


def test_a_few_forms_are_kept_the_newest(base):
    for number in range(loader.KEPT + 3):
        made = form(base, b"%d" % number)
        made.write({"used": b""})
        os.utime(str(base / "compiled" / made.name), (number, number))
    kept_now = {name.partition(".")[0] for name in os.listdir(str(base / "compiled"))}
    names = [form(base, b"%d" % number).name.partition(".")[0] for number in range(loader.KEPT + 3)]
    assert names[-1] in kept_now
    assert len(kept_now) == loader.KEPT


def test_no_bytecode_of_the_standard_librarys_making_is_left(base):
    assert ran(base, keep=True) == ["x", 7]
    assert [name for _folder, folders, _names in os.walk(str(base)) for name in folders] == [
        "compiled"
    ]
