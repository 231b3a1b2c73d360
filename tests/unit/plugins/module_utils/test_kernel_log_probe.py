# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The search of the kernel log as it runs on a host: a child with its source on standard input, and
files as /dev/kmsg reads.
"""

import json
import os
import subprocess
import sys

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.probes import kernel_log

XID = "NVRM: Xid (PCI:0000:41:00): 79, pid=1234, name=python, GPU has fallen off the bus."
# what a controller asks for, in short
PATTERN = r"NVRM: Xid \(PCI:(?P<pci>[0-9A-Fa-f:.]+)\): (?P<xid>[0-9]+)"


@pytest.fixture
def written(tmp_path):
    """A file that only root may write to, as a lab's host has it; its owner is whoever runs the
    tests.
    """

    def write(text, mode=0o644):
        path = tmp_path / "kmsg"
        path.write_text(text)
        path.chmod(mode)
        return str(path)

    return write


def probe(path):
    source = kernel_log.__file__
    with open(source, "rb") as stream:
        args = json.dumps({"path": path, "pattern": PATTERN})
        said = subprocess.check_output(
            [sys.executable, "-I", "-S", "-", args], stdin=stream, timeout=60
        )
    return json.loads(said.decode())


ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file of root's")
LOG = (
    "6,10,1000000,-;Linux version 6.1\n"
    "4,11,2000000,-;" + XID + "\n SUBSYSTEM=pci\n DEVICE=+pci:0000:41:00.0\n"
    "12,12,3000000,-;" + XID + "\n"  # a program wrote it: facility 1
    "3,14,4000000,c;NVRM: Xid (PCI:0000:41:00): 31, pid=1\n"
    "not a record\n"
)  # fmt: skip


@ROOT
def test_lines_of_the_kernel_are_told_by_number_and_address(written):
    said = probe(written(LOG))
    assert (said["first"], said["last"], said["complete"]) == (10, 14, True)
    assert [(e["sequence"], e["groups"]["xid"]) for e in said["found"]] == [(11, "79"), (14, "31")]
    assert "python" not in json.dumps(said)


@ROOT
def test_a_log_without_a_line_is_known(written):
    said = probe(written(""))
    assert (said["first"], said["last"], said["found"], said["complete"]) == (None, None, [], True)


def flood(*xids):
    """Lines with these errors, numbered from 0 on; each a kind of its own by its GPU, where it is a
    pair (Xid, GPU).
    """
    pairs = [xid if isinstance(xid, tuple) else (xid, 0) for xid in xids]
    return "".join(
        "4,%d,%d,-;NVRM: Xid (PCI:%08x:41:00): %d, pid=1\n" % (n, n + 1, gpu, xid)
        for n, (xid, gpu) in enumerate(pairs)
    )


# The errors in the order of the log, what is reported: the numbers of lines with Xid 79, how many
# of others, the first line it speaks for.
FLOODS = [
    # an application of whoever may use a GPU cannot push the error of the GPU out
    (
        [79] + [31] * 2000,
        [0],
        10,
        0,
    ),
    ([31] * 2000 + [79], [2000], 10, 0),
    ([79] * 30, list(range(20, 30)), 0, 0),
    ([79] + [(31, gpu) for gpu in range(999)], [0], 999, 0),
    ([79] + [(31, gpu) for gpu in range(1500)], [], 1000, 501),
]


@ROOT
@pytest.mark.parametrize(("errors", "lost", "others", "first"), FLOODS)
def test_many_errors_of_one_kind_hide_no_other(written, errors, lost, others, first):
    said = probe(written(flood(*errors)))
    assert [e["sequence"] for e in said["found"] if e["groups"]["xid"] == "79"] == lost
    assert len([e for e in said["found"] if e["groups"]["xid"] != "79"]) == others
    assert (said["first"], said["last"]) == (first, len(errors) - 1)


def test_what_is_not_the_kernels_log_is_not_read(written, tmp_path):
    (tmp_path / "link").symlink_to("/dev/tty")
    os.mkfifo(str(tmp_path / "fifo"))
    cases = {
        str(tmp_path / "none"): "cannot be read: No such file or directory",
        str(tmp_path / "link"): "is not the kernel's log",
        str(tmp_path / "fifo"): "is not the kernel's log",
        "/dev/null": "is not the kernel's log",
        written(LOG, mode=0o666): "is not the kernel's log",
    }
    assert {path: probe(path)["why"] for path in cases} == {
        path: "%s %s" % (path, why) for path, why in cases.items()
    }


def test_what_is_not_the_kernels_log_is_not_opened(monkeypatch):
    """Opening is enough for some devices to act: a watchdog begins to count, for example."""

    def act(path, *_words):
        raise AssertionError("%s was opened" % path)

    monkeypatch.setattr(kernel_log.os, "open", act)
    for path in ("/dev/null", "/dev"):
        with pytest.raises(kernel_log.Unknown):
            kernel_log.open_kernel_log(path)


def test_records_that_are_written_over_while_they_are_read_make_it_incomplete(monkeypatch):
    said = iter([b"6,1,1,-;a\n", BrokenPipeError(), b"6,9,1,-;b\n", BlockingIOError()])

    def read(_fd, _size):
        found = next(said)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(kernel_log.os, "read", read)
    assert kernel_log.read_kernel_log(0) == (["6,1,1,-;a", "6,9,1,-;b", ""], False)
