# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stay on a host, and make the device nodes that a file of rules names, with the numbers that the
kernel has for them now.

    device_nodes.py RULES.json

It loads modules, and reads each driver's major and each device's minor from the places that the
rules name. It makes missing nodes, replaces nodes that have other numbers, and puts links to the
nodes where systemd looks for them. A correct node is left alone. It is run at every boot and
whenever a run of the collection finds something wrong. Host side: standard library only, Python
3.6.
"""

import contextlib
import errno
import os
import stat
import sys

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.resident.programs import (
    LATER,
    TRIES,
    get_lock_stamp,
    list_matching_files,
    read_instructions,
    run_program,
    turn,
)


def main(arguments):
    """Make the device nodes of the rules. Print what went wrong, and return the exit status."""
    troubles = []
    try:
        follow_rules(arguments[0], troubles)
    except OSError as exc:  # the rules, the kernel's list of drivers, or the lock of transactions
        troubles.append(str(exc))
    for line in troubles:
        sys.stdout.write(line + "\n")
    return 1 if troubles else 0


def follow_rules(path, troubles):
    """Do what the rules ask for, and add what goes wrong to the troubles, as sentences."""
    rules = read_instructions(path)
    troubles += load_modules(
        rules.get("modules") or [], read_kernel_file(rules["majors"]), rules["seconds"]
    )
    for _try in range(TRIES):
        before = get_lock_stamp()
        rules = read_instructions(path)
        # Before the lock is taken: a device that does not answer holds any process that reads from
        # it.
        desired, unread = list_desired_nodes(rules)
        with turn(rules.get("units") or []) as mine:
            if not mine:
                sys.stdout.write(LATER)
                return
            if get_lock_stamp() == before:
                troubles += unread + make_all(desired, rules.get("links"))
                return


def make_all(desired, links):
    """Make each node and its link, and write what was done. Return the troubles as sentences."""
    troubles = []
    for one in desired:
        try:
            for line in make_nodes(one) + make_node_link(one, links):
                sys.stdout.write(line + "\n")
        except OSError as exc:
            troubles.append("%s: %s" % (one["path"], os.strerror(exc.errno) if exc.errno else exc))
    return troubles


def read_kernel_file(path):
    """Return the text of a file of the kernel, at most 1 MiB."""
    with open(path, encoding="utf-8", errors="replace") as stream:
        return stream.read(1 << 20)


def read_fields(path):
    """Return the fields of a driver's file; {} if it does not exist, since the driver is not loaded
    or the device is gone.
    """
    try:
        return parse_key_values(read_kernel_file(path))
    except (FileNotFoundError, NotADirectoryError):
        return {}


def parse_majors(text):
    """Return name -> major of the character devices in the kernel's list."""
    lines = [line.split() for line in text.split("Block devices:")[0].splitlines()]
    return {words[1]: int(words[0]) for words in lines if len(words) == 2 and words[0].isdigit()}


def parse_key_values(text):
    """Return key -> value of lines `key: value`."""
    pairs = [line.split(":", 1) for line in text.splitlines() if ":" in line]
    return {key.strip(): value.strip() for key, value in pairs}


def load_modules(modules, devices, seconds):
    """Load modules whose devices do not exist. Return troubles as sentences.

    modules: {"name": module, "device": the name of its devices} each.
    """
    troubles, known = [], parse_majors(devices)
    for module in modules:
        if module["device"] in known:
            continue
        try:
            run_program(["modprobe", module["name"]], seconds)
        except (OSError, ValueError) as exc:
            troubles.append(str(exc))
    return troubles


def list_desired_nodes(rules):
    """Return (the nodes that must exist: path, numbers, mode, owner; what could not be read, as
    sentences).

    A driver that is not loaded has none. A device whose file cannot be read keeps no other from its
    node.
    """
    known = parse_majors(read_kernel_file(rules["majors"]))
    params = rules.get("params") or {}
    parameters = read_fields(params["file"]) if params else {}
    nodes, unread = [], []
    for rule in rules["nodes"]:
        major = next((known[name] for name in rule["drivers"] if name in known), None)
        for minor, own in list_minors(rule, unread) if major is not None else []:
            nodes.append(
                {
                    "path": rule["path"].replace("{minor}", str(minor)),
                    "numbers": (major, minor),
                    "mode": parse_number_or_default(
                        own.get(rule.get("mode")),
                        parse_number_or_default(parameters.get(params.get("mode")), 0o666),
                    ),
                    "uid": parse_number_or_default(parameters.get(params.get("uid")), 0),
                    "gid": parse_number_or_default(parameters.get(params.get("gid")), 0),
                }
            )
    return nodes, unread


def list_minors(rule, unread):
    """Return [(minor, the fields of the file that contains it)].

    There is one for a rule with a number, and one for each file of a rule with a pattern. A file
    or a directory that cannot be read is added to `unread`.
    """
    if "each" not in rule:
        return [(rule["minor"], {})]
    minors = []
    try:
        paths = list_matching_files(rule["each"])
    except OSError as exc:
        unread.append(str(exc))
        return []
    for path in paths:
        try:
            device = read_fields(path)
        except OSError as exc:
            unread.append(str(exc))
            continue
        unless = rule.get("unless") or ["", "never"]
        if device.get(rule["minor"], "").isdigit() and device.get(unless[0]) != unless[1]:
            minors.append((int(device[rule["minor"]]), device))
    return minors


def parse_number_or_default(text, default):
    """Return a decimal number of permissions or ids, else the default."""
    return int(text) & 0o7777777 if text is not None and text.isdigit() else default


def make_nodes(desired):
    """Make or correct one node.

    Return what was done, as sentences. A new node appears whole, by one rename.
    """
    path, (major, minor) = desired["path"], desired["numbers"]
    right = (stat.S_IFCHR | desired["mode"], desired["uid"], desired["gid"])
    try:
        status = os.lstat(path)
    except OSError as exc:
        if exc.errno not in (errno.ENOENT, errno.ENOTDIR):
            raise
        status = None
    if (
        status is not None
        and stat.S_ISCHR(status.st_mode)
        and status.st_rdev == os.makedev(major, minor)
    ):
        if (status.st_mode, status.st_uid, status.st_gid) == right:
            return []
        os.chown(path, desired["uid"], desired["gid"])
        os.chmod(path, desired["mode"])
        return [
            "%s: mode %o, owner %d:%d" % (path, desired["mode"], desired["uid"], desired["gid"])
        ]
    if status is not None and stat.S_ISDIR(status.st_mode):
        # Engines make an empty one if a mount's source is missing; a full one belongs to a program
        # or a person.
        os.rmdir(path)
    get_node_place(path, lambda spare: make_node(spare, desired))
    return ["%s: made as %d:%d, mode %o" % (path, major, minor, desired["mode"])]


def make_node(path, desired):
    """Make a character device with its numbers, owner and mode."""
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(*desired["numbers"]))
    os.chown(path, desired["uid"], desired["gid"])
    os.chmod(path, desired["mode"])


def make_node_link(desired, directory):
    """Make the link by numbers, through which systemd finds a device again.

    Return what was done, as sentences. A link that leads to the node is correct however it is
    written.
    """
    if not directory:
        return []
    path = "%s/%d:%d" % ((directory,) + desired["numbers"])
    if os.path.islink(path) and os.path.realpath(path) == os.path.realpath(desired["path"]):
        return []
    get_node_place(
        path, lambda spare: os.symlink(os.path.relpath(desired["path"], directory), spare)
    )
    return ["%s: links to %s" % (path, desired["path"])]


def get_node_place(path, make_at):
    """Make something under a spare name, and rename it to its place. A failure leaves neither."""
    directory = os.path.dirname(path)
    if not os.path.isdir(directory):
        os.makedirs(directory)
        os.chmod(directory, 0o755)  # whatever the umask
    spare = "%s/.gpufleet-%d" % (directory, os.getpid())
    with contextlib.suppress(FileNotFoundError):
        os.unlink(spare)
    try:
        make_at(spare)
        os.rename(spare, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(spare)
        raise


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
