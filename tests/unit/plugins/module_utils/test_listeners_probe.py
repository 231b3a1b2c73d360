# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who listens at a port, by the kernel's tables (Documentation/networking/proc_net_tcp.rst)."""

import os
import socket
import sys

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.probes import listeners

HEADING = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
LINE = "   0: %s %s %s 00000000:00000000 00:00000000 00000000 %5d        0 %d 1 0000000000000000 100 0 0 10 0\n"
NONE = "00000000:0000"
# addresses as a machine with the order of x86 has them
LOOPBACK, ANY, OTHER, NEXT = "0100007F", "00000000", "0500000A", "0200007F"
SIX, SIX_ANY = "00000000000000000000000001000000", "0" * 32
MAPPED = "0000000000000000FFFF00000100007F"
LISTENS, OPEN = "0A", "01"


def line(address, uid, inode, port="15B3", state=LISTENS):
    return LINE % ("%s:%s" % (address, port), NONE, state, uid, inode)


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([], []),
        ([line(LOOPBACK, 0, 7)], [(0, 7)]),
        ([line(ANY, 1000, 8)], [(1000, 8)]),
        (
            [line(SIX, 0, 7), line(SIX_ANY, 1000, 8), line(MAPPED, 5, 9)],
            [(0, 7), (1000, 8), (5, 9)],
        ),
        # another port, an address of the network, one of loopback that "localhost" is not
        ([line(LOOPBACK, 1000, 8, "15B4"), line(OTHER, 1000, 8), line(NEXT, 1000, 8)], []),
        # a connection to the port, and what the kernel lists behind it
        ([line(LOOPBACK, 0, 7, state=OPEN), line(LOOPBACK, 1000, 8)], []),
    ],
)
def test_the_listeners_of_a_port(tmp_path, monkeypatch, lines, found):
    monkeypatch.setattr(listeners.struct, "pack", pack_little_endian)
    table = tmp_path / "tcp"
    table.write_text(HEADING + "".join(lines))
    assert [
        (entry["uid"], entry["inode"])
        for lines in listeners.open_tables([str(table), str(tmp_path / "tcp6")])
        for entry in listeners.list_listeners(lines, 5555)
    ] == found


PACK = listeners.struct.pack


def pack_little_endian(form, *values):
    return PACK(form.replace("=", "<"), *values)


TABLES = ["/proc/net/tcp", "/proc/net/tcp6"]
PROGRAM = os.path.basename(os.path.realpath(sys.executable))


@pytest.mark.parametrize(
    ("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0")]
)
def test_a_real_listener_is_found_with_who_holds_it(family, address):
    with socket.socket(family) as server:
        server.bind((address, 0))
        server.listen(4)
        request = {"port": server.getsockname()[1], "tables": TABLES}
        told = listeners.run(dict(request, program=PROGRAM))
        (found,) = told["listeners"]
        assert told["reached"] is True
        assert found["inode"] == os.fstat(server.fileno()).st_ino
        assert found["pids"] == ([os.getpid()] if os.geteuid() == 0 else [])
        (found,) = listeners.run(dict(request, program="nv-hostengine"))["listeners"]
        assert found["pids"] == []


def test_a_port_of_nobody_is_not_reached():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        request = {"port": free.getsockname()[1], "tables": TABLES, "program": PROGRAM}
        assert listeners.run(request) == {"listeners": [], "reached": False}


OWN_END, FAR_END = (("127.0.0.1", 5555), ("127.0.0.1", 40000))


@pytest.mark.parametrize(
    ("local", "remote", "found"),
    [
        ("0100007F:15B3", "0100007F:9C40", True),
        # a server of both families has a connection of IPv4 in the table of IPv6
        (MAPPED + ":15B3", MAPPED + ":9C40", True),
        # the client's end alone: the packet filter has sent the connection elsewhere
        ("0100007F:9C40", "0100007F:15B3", False),
        # another port of this host, to which it was sent
        ("0100007F:15B4", "0100007F:9C40", False),
        ("0100007F:15B3", "0100007F:9C41", False),
    ],
)
def test_a_connection_ends_at_the_port_of_this_namespace(monkeypatch, local, remote, found):
    monkeypatch.setattr(listeners.struct, "pack", pack_little_endian)
    lines = iter([HEADING, LINE % (local, remote, OPEN, 0, 0)])
    assert listeners.has_connection(lines, (OWN_END, FAR_END)) is found


def test_a_program_is_roots_by_its_name_even_after_its_upgrade(tmp_path):
    (tmp_path / "exe").symlink_to("/usr/bin/nv-hostengine (deleted)")
    told = listeners.is_roots_program(str(tmp_path), "nv-hostengine")
    assert told is (os.geteuid() == 0)
    assert not listeners.is_roots_program(str(tmp_path), "nv-host")
    assert not listeners.is_roots_program(str(tmp_path / "gone"), "nv-hostengine")
