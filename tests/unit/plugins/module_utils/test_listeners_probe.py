# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who listens at a port, by the kernel's tables (Documentation/networking/proc_net_tcp.rst)."""

import socket

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
    request = {"port": 5555, "tables": [str(table), str(tmp_path / "tcp6")]}
    assert listeners.run(request) == {
        "listeners": [{"uid": uid, "inode": inode} for uid, inode in found]
    }


PACK = listeners.struct.pack


def pack_little_endian(form, *values):
    return PACK(form.replace("=", "<"), *values)


def test_a_real_listener_is_found():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(1)
        request = {"port": server.getsockname()[1], "tables": ["/proc/net/tcp", "/proc/net/tcp6"]}
        assert len(listeners.run(request)["listeners"]) == 1
