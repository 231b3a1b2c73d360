# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List who listens at a TCP port of this host's own addresses, as the kernel tells it.

A plain program, in a child that is killed when it takes too long. Standard library only, Python
3.6. Arguments are one JSON object: {"port", "tables": the kernel's files, "program": the name of
the server that is expected}. Prints {"listeners": [{"uid", "inode", "pids"}], "reached"}. pids:
root's processes of that name that hold the socket. Their name proves nothing; the asker judges the
processes. reached: whether a connection to the port ends at this network namespace's own port,
since a rule of the packet filter may send it to a container instead. No byte is sent. The kernel
lists sockets that listen first (Documentation/networking/proc_net_tcp.rst), so for those,
connections, which any user may have thousands of, are not read.
"""

import json
import os
import socket
import struct
import sys

LISTENS = "0A"  # TCP_LISTEN in the kernel's include/net/tcp_states.h
MOST = 64  # of one port: two families, and one for each address
OWN = ("0.0.0.0", "127.0.0.1", "::", "::1", "::ffff:127.0.0.1", "::ffff:0.0.0.0")
# The addresses of "localhost", in the order in which a server is looked for.
LOOPBACKS = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
MAPPED = "::ffff:"  # an address of IPv4 in the table of IPv6
DELETED = " (deleted)"
SOCKET = "socket:["
SECONDS = 3  # for a connection to this very host


def run(request):
    sockets = []
    for lines in open_tables(request["tables"]):
        sockets += list_listeners(lines, request["port"])
    holders = map_holders(request["program"]) if sockets else {}
    return {
        "listeners": [
            dict(found, pids=holders.get(found["inode"], [])) for found in sockets[:MOST]
        ],
        "reached": bool(sockets) and reach_own_port(request["port"], request["tables"]),
    }


def open_tables(paths):
    """Yield each of the kernel's tables. A kernel without IPv6 has only one."""
    for path in paths:
        try:
            with open(path, encoding="ascii") as lines:
                yield lines
        except FileNotFoundError:
            continue


def list_listeners(lines, port):
    """List the sockets of a table that listen at a port, at an address that "localhost" may be."""
    next(lines, None)  # the heading
    sockets = []
    for line in lines:
        words = line.split()
        if words[3] != LISTENS:
            break
        address, number = decode_endpoint(words[1])
        if number == port and address in OWN:
            sockets.append({"uid": int(words[7]), "inode": int(words[9])})
    return sockets


def map_holders(program):
    """Return inode -> the numbers of root's processes of this name that hold the socket."""
    holders = {}
    for name in os.listdir("/proc"):
        if not name.isdigit() or not is_roots_program("/proc/" + name, program):
            continue
        for inode in list_socket_inodes("/proc/%s/fd" % name):
            holders.setdefault(inode, []).append(int(name))
    return {inode: sorted(pids) for inode, pids in holders.items()}


def is_roots_program(process, program):
    """Tell whether a process, by its directory, is root's and runs a program of this name."""
    try:
        if os.stat(process).st_uid:
            return False
        path = os.readlink(process + "/exe")
    except OSError:  # it has ended, or is the kernel's
        return False
    if path.endswith(DELETED):  # its package was upgraded meanwhile
        path = path[: -len(DELETED)]
    return os.path.basename(path) == program


def list_socket_inodes(directory):
    """List the inodes of the sockets that a process has open; none for one that has ended."""
    try:
        names = os.listdir(directory)
    except OSError:
        return set()
    links = [read_link(os.path.join(directory, name)) for name in names]
    return {int(link[len(SOCKET) : -1]) for link in links if link.startswith(SOCKET)}


def read_link(path):
    """Return where a link leads, '' for a descriptor that was closed meanwhile."""
    try:
        return os.readlink(path)
    except OSError:
        return ""


def reach_own_port(port, tables):
    """Tell whether connections to the port end at the port of this very network namespace. Its
    table has them then with that port as their own.
    """
    ends = [find_own_end(family, address, port, tables) for family, address in LOOPBACKS]
    return True in ends and False not in ends


def find_own_end(family, address, port, tables):
    """Tell whether a connection ends at that port here; None if nothing takes it."""
    try:
        with socket.socket(family) as mine:
            mine.settimeout(SECONDS)
            mine.connect((address, port))
            wanted = ((address, port), mine.getsockname()[:2])
            return any(has_connection(lines, wanted) for lines in open_tables(tables))
    except OSError:  # refused, or no such family
        return None


def has_connection(lines, wanted):
    """Tell whether a table has a connection, by its own end and the other one."""
    next(lines, None)
    for line in lines:
        words = line.split()
        if (decode_endpoint(words[1], plain=True), decode_endpoint(words[2], plain=True)) == wanted:
            return True
    return False


def decode_endpoint(text, plain=False):
    """Return address and port of the kernel's table. plain: an address of IPv4 as such in both
    tables.
    """
    address, _colon, number = text.partition(":")
    decoded = decode_address(address)
    if plain and decoded.startswith(MAPPED):
        decoded = decoded[len(MAPPED) :]
    return decoded, int(number, 16)


def decode_address(text):
    """Return an address of the kernel's table as text. Each 32 bits are in the machine's order."""
    parts = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    family = socket.AF_INET if len(parts) == 1 else socket.AF_INET6
    return socket.inet_ntop(family, struct.pack("=%dI" % len(parts), *parts))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(json.loads(sys.argv[1]))))
