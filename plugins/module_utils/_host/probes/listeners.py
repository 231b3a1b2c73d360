# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List who listens at a TCP port of this host's own addresses, as the kernel tells it.

A plain program, in a child that is killed when it takes too long. Standard library only, Python
3.6. Arguments are one JSON object: {"port", "tables": the kernel's files}. Prints {"listeners":
[{"uid", "inode"}]}. The kernel lists sockets that listen first (Documentation/networking/
proc_net_tcp.rst), so connections, which any user may have thousands of, are not read.
"""

import json
import socket
import struct
import sys

LISTENS = "0A"  # TCP_LISTEN in the kernel's include/net/tcp_states.h
MOST = 64  # of one port: two families, and one for each address
OWN = ("0.0.0.0", "127.0.0.1", "::", "::1", "::ffff:127.0.0.1", "::ffff:0.0.0.0")


def run(request):
    sockets = []
    for table in request["tables"]:
        try:
            with open(table, encoding="ascii") as lines:
                sockets += list_listeners(lines, request["port"])
        except FileNotFoundError:  # a kernel without IPv6
            continue
    return {"listeners": sockets[:MOST]}


def list_listeners(lines, port):
    """List the sockets of a table that listen at a port, at an address that "localhost" may be."""
    next(lines, None)  # the heading
    sockets = []
    for line in lines:
        words = line.split()
        if words[3] != LISTENS:
            break
        address, _colon, number = words[1].partition(":")
        if int(number, 16) == port and decode_address(address) in OWN:
            sockets.append({"uid": int(words[7]), "inode": int(words[9])})
    return sockets


def decode_address(text):
    """Return an address of the kernel's table as text. Each 32 bits are in the machine's order."""
    parts = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    family = socket.AF_INET if len(parts) == 1 else socket.AF_INET6
    return socket.inet_ntop(family, struct.pack("=%dI" % len(parts), *parts))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(json.loads(sys.argv[1]))))
