# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the dynamic linker loads for a program that root runs, and who could change it. Python 3.6.

Programs, libraries and the linker's cache are made here byte by byte, as elf(5) and glibc's
dl-cache.h describe them.
"""

import os
import struct

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    commands,
    host_files,
    linker,
    trust,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.resident import programs

MEMORY = 0x400000  # where the file lies in memory


def build_elf(needed=(), runpath="", rpath="", interpreter="", text=()):
    """Build a file for the linker: its segments, its dynamic segment, its texts."""
    words = [*needed, runpath, rpath, interpreter]
    offsets, texts = [], b"\0"
    for word in words:
        offsets.append(len(texts))
        texts += word.encode() + b"\0"
    tags = [(1, offsets[at]) for at in range(len(needed))]
    tags += [(29, offsets[-3])] if runpath else []
    tags += [(15, offsets[-2])] if rpath else []
    dynamic_at = 64 + 3 * 56
    size = (len(tags) + 2) * 16
    texts_at = dynamic_at + size
    tags += [(5, MEMORY + texts_at), (0, 0)]
    dynamic = b"".join(struct.pack("<QQ", *tag) for tag in tags)
    body = dynamic + texts + b"".join(b"\0" + word.encode() + b"\0" for word in text)
    segments = [(1, 0, MEMORY, dynamic_at + len(body)), (2, dynamic_at, MEMORY, size)]
    segments += [(3, texts_at + offsets[-1], 0, len(interpreter) + 1)] if interpreter else []
    table = b"".join(
        struct.pack("<IIQQQQQQ", kind, 4, at, to, to, length, length, 8)
        for kind, at, to, length in segments
    )
    head = b"\x7fELF\2\1\1" + b"\0" * 9 + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, len(segments), 0, 0, 0)  # fmt: skip
    return head + table.ljust(3 * 56, b"\0") + body


def build_cache(paths, old=b""):
    """Build the linker's cache of these paths, in the order given, behind one in the old form."""
    texts, entries = b"", []
    start = 48 + 24 * len(paths)
    for path in paths:
        key = start + len(texts)
        texts += os.path.basename(path).encode() + b"\0"
        entries.append((3, key, start + len(texts), 0, 0))
        texts += path.encode() + b"\0"
    head = b"glibc-ld.so.cache1.1" + struct.pack("<II", len(paths), len(texts)) + b"\0" * 20
    return old + head + b"".join(struct.pack("<iIIIQ", *entry) for entry in entries) + texts


@pytest.fixture(name="host")
def a_host(tmp_path, monkeypatch):
    """A host with `tool`, which needs libone, which needs libtwo. NVML is what it loads later."""
    tmp_path.chmod(0o755)
    for name in ("lib", "own", "etc", "etc/ld.so.conf.d"):
        (tmp_path / name).mkdir(mode=0o755)
    for name in ("ld.so.preload", "ld.so.conf"):
        (tmp_path / "etc" / name).write_text("")
    (tmp_path / "lib" / "libone.so.1.2").write_bytes(build_elf(["libtwo.so.2"]))
    (tmp_path / "lib" / "libone.so.1").symlink_to("libone.so.1.2")
    for name in ("libtwo.so.2", "libnvidia-ml.so.1", "libother.so.3"):
        (tmp_path / "lib" / name).write_bytes(build_elf())
    paths = [str(tmp_path / "lib" / name) for name in sorted(os.listdir(str(tmp_path / "lib")))]
    (tmp_path / "etc" / "ld.so.cache").write_bytes(build_cache(paths))
    write_tool(tmp_path)
    etc = str(tmp_path) + "/etc/"
    monkeypatch.setattr(linker, "CACHE", etc + "ld.so.cache")
    monkeypatch.setattr(linker, "PRELOAD", etc + "ld.so.preload")
    configuration = [etc + name for name in sorted(os.listdir(etc))]
    monkeypatch.setattr(linker, "CONFIGURATION", configuration)
    monkeypatch.setattr(programs, "CONFIGURATION", configuration)
    return tmp_path


def write_tool(host, **more):
    content = build_elf(["libone.so.1"], text=["libnvidia-ml.so.1"], **more)
    (host / "own" / "tool").write_bytes(content)
    (host / "own" / "tool").chmod(0o755)


def open_to_all(path):
    path.chmod(0o777)


def put_elsewhere(host, name, mode=0o777):
    """Put a folder there that others may write to."""
    (host / name).mkdir()
    (host / name).chmod(mode)
    return host / name


def lead_through(host):
    """Make a library a link through a folder that others may write to."""
    there = put_elsewhere(host, "theirs") / "libone.so.1"
    there.symlink_to(str(host / "lib" / "libone.so.1.2"))
    (host / "lib" / "libone.so.1").unlink()
    (host / "lib" / "libone.so.1").symlink_to(str(there))


def cache_second_place(host):
    """Have the cache know another place of a library as well."""
    second = str(put_elsewhere(host, "theirs") / "libtwo.so.2")
    first = [str(host / "lib" / name) for name in ("libone.so.1", "libtwo.so.2")]
    (host / "etc" / "ld.so.cache").write_bytes(build_cache([*first, second], old=b"ld.so-1.7.0"))


def write_script(host):
    (host / "own" / "tool").write_text("#! %s/shell -e\n" % put_elsewhere(host, "theirs"))


# what of a host others can change, and what of it is named
REFUSED = {
    "a library": (lambda host: open_to_all(host / "lib" / "libone.so.1.2"), "lib/libone.so.1.2"),
    "a library of a library": (
        lambda host: open_to_all(host / "lib/libtwo.so.2"),
        "lib/libtwo.so.2",
    ),
    "their folder": (lambda host: open_to_all(host / "lib"), "lib"),
    "a step of a link": (lead_through, "theirs"),
    "a second place in the cache": (cache_second_place, "theirs"),
    "what is loaded later": (
        lambda host: open_to_all(host / "lib" / "libnvidia-ml.so.1"),
        "lib/libnvidia-ml.so.1",
    ),
    "RUNPATH": (
        lambda host: write_tool(host, runpath="/no/such:%s" % put_elsewhere(host, "theirs")),
        "theirs",
    ),
    "RPATH": (lambda host: write_tool(host, rpath=str(put_elsewhere(host, "theirs"))), "theirs"),
    "RUNPATH beside the program": (
        lambda host: (put_elsewhere(host, "theirs"), write_tool(host, runpath="$ORIGIN/../theirs")),
        "theirs",
    ),
    "RPATH beside the program": (
        lambda host: (put_elsewhere(host, "theirs"), write_tool(host, rpath="${ORIGIN}/../theirs")),
        "theirs",
    ),
    "the linker itself": (
        lambda host: write_tool(host, interpreter="%s/ld.so" % put_elsewhere(host, "theirs")),
        "theirs",
    ),
    "a script's interpreter": (write_script, "theirs"),
    "what every program loads": (
        lambda host: (host / "etc" / "ld.so.preload").write_text(
            "libtwo.so.2 %s/x.so\n" % put_elsewhere(host, "theirs")
        ),
        "theirs",
    ),
    "the cache": (lambda host: open_to_all(host / "etc" / "ld.so.cache"), "etc/ld.so.cache"),
    "the list of preloads": (
        lambda host: open_to_all(host / "etc" / "ld.so.preload"),
        "etc/ld.so.preload",
    ),
    "ldconfig's file": (lambda host: open_to_all(host / "etc" / "ld.so.conf"), "etc/ld.so.conf"),
    "ldconfig's folder": (
        lambda host: open_to_all(host / "etc" / "ld.so.conf.d"),
        "etc/ld.so.conf.d",
    ),
}
# what of a host keeps no program of root's from being run
PASSED = {
    "nothing": lambda host: None,
    "another library": lambda host: open_to_all(host / "lib" / "libother.so.3"),
    "a folder of RUNPATH that is not there": lambda host: write_tool(host, runpath="/no/such"),
    "a file for a folder of RUNPATH": lambda host: write_tool(host, runpath="$ORIGIN/tool"),
    "a remark in the list of preloads": lambda host: (host / "etc" / "ld.so.preload").write_text(
        "libtwo.so.2 # not %s/x.so\n" % put_elsewhere(host, "theirs")
    ),
    "no cache": lambda host: (host / "etc" / "ld.so.cache").unlink(),
    "rubbish for a cache": lambda host: (host / "etc" / "ld.so.cache").write_text("rubbish"),
    "a library that is gone": lambda host: (host / "lib" / "libtwo.so.2").unlink(),
    "a library cut short": lambda host: (host / "lib" / "libtwo.so.2").write_bytes(
        build_elf()[:90]
    ),
    "a script without an interpreter": lambda host: (host / "own" / "tool").write_text("#!"),
    "an empty library": lambda host: (host / "lib" / "libtwo.so.2").write_bytes(b""),
    "a library of 32 bits": lambda host: (host / "lib" / "libtwo.so.2").write_bytes(b"\x7fELF\1\1"),
    "no dynamic segment": lambda host: (host / "own" / "tool").write_bytes(build_elf()[:64]),
}


def judge_in_a_run(program):
    doubt = trust.judge_libraries(program, program)
    assert doubt is None or doubt.row in ("library", "path")
    return trust.describe_doubt(doubt) if doubt else ""


JUDGES = {"a run": judge_in_a_run, "a program that stays": programs.explain_untrusted_libraries}


@pytest.mark.parametrize("judge", JUDGES.values(), ids=list(JUDGES))
@pytest.mark.parametrize("change, place", REFUSED.values(), ids=list(REFUSED))
def test_library_of_another_account_keeps_a_program_from_being_run(host, judge, change, place):
    assert judge(str(host / "own" / "tool")) == ""
    change(host)
    assert judge(str(host / "own" / "tool")).startswith("%s/%s may be written" % (host, place))


@pytest.mark.parametrize("judge", JUDGES.values(), ids=list(JUDGES))
@pytest.mark.parametrize("change", PASSED.values(), ids=list(PASSED))
def test_libraries_that_root_alone_can_change_keep_no_program_from_being_run(host, judge, change):
    change(host)
    assert judge(str(host / "own" / "tool")) == ""


def test_a_program_with_such_a_library_is_not_run_and_the_remedy_is_named(host):
    open_to_all(host / "lib" / "libone.so.1.2")
    with pytest.raises(host_files.HostError) as caught:
        commands.run([str(host / "own" / "tool")])
    assert caught.value.kind == "untrusted"
    assert "the dynamic linker takes %s/lib/libone.so.1 from there" % host in caught.value.message
    assert "chmod o-w" in caught.value.message
    with pytest.raises(ValueError, match="is not run"):
        programs.find_trusted_program(str(host / "own" / "tool"))


def test_a_look_reads_the_cache_and_each_library_once(host, monkeypatch):
    opened = []
    real = linker.list_needs
    monkeypatch.setattr(
        linker,
        "list_needs",
        lambda path, *more, **how: opened.append(path) or real(path, *more, **how),
    )
    with host_files.remember_links():
        for _time in range(2):
            assert trust.judge_libraries(str(host / "own" / "tool"), "") is None
    names = [os.path.basename(path) for path in opened]
    assert sorted(names) == ["libnvidia-ml.so.1", "libone.so.1.2", "libtwo.so.2", "tool", "tool"]


def test_libraries_that_a_question_names_are_judged_by_the_linkers_places(host):
    assert trust.judge_libraries("", "", ["libnvidia-ml.so.1"]) is None
    open_to_all(host / "lib" / "libnvidia-ml.so.1")
    doubt = trust.judge_libraries("", "", ["libnvidia-ml.so.1"])
    assert doubt.place == str(host / "lib" / "libnvidia-ml.so.1")


@pytest.mark.parametrize(
    "opened", ["", "lib/libnvidia-ml.so.1", "data", "etc/ld.so.cache", "usr/bin"]
)
def test_a_program_of_a_tree_is_judged_by_the_linker_of_the_tree(tmp_path, opened):
    """That of a driver container finds its libraries there, and its links stay inside."""
    for name in ("etc", "lib", "usr/bin", "data"):
        (tmp_path / name).mkdir(mode=0o755, parents=True)
    (tmp_path / "usr" / "bin" / "nvidia-smi").write_bytes(build_elf(text=["libnvidia-ml.so.1"]))
    (tmp_path / "lib" / "libnvidia-ml.so.1").write_bytes(build_elf(runpath="/data"))
    (tmp_path / "opt").symlink_to("/lib")
    cache = build_cache(["/opt/libnvidia-ml.so.1"])
    (tmp_path / "etc" / "ld.so.cache").write_bytes(cache)
    if opened == "data":
        needs = build_elf(["libtwo.so.2"], runpath="/data")
        (tmp_path / "lib" / "libnvidia-ml.so.1").write_bytes(needs)
    if opened:
        open_to_all(tmp_path / opened)
    doubt = trust.judge_libraries("", "", ["/usr/bin/nvidia-smi"], str(tmp_path))
    assert (doubt and doubt.place) == (str(tmp_path / opened) if opened else None)


@pytest.mark.parametrize("name", ["sh", "python3"])
def test_the_programs_of_this_host_are_read_as_its_linker_reads_them(name):
    """The C library is what every one of them needs, and the cache knows it."""
    path = os.path.realpath(trust.find_root_program("", name) or "/bin/sh")
    needs = [need for need, _folders in linker.list_needs(path, path)]
    assert any(need.startswith("libc.") for need in needs)
    assert any(need.startswith("/") for need in needs)  # the linker
    assert "libc.so.6" in linker.map_libraries() or not os.path.exists("/etc/ld.so.cache")
