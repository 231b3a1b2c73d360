# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stays on a host: one control daemon for each device, from its directories to its end, as a unit of systemd asks for it.

    mps.py LIST.json prepare|serve|settle|quit|clear NAME

prepare: directories of root's, and a file system for shared memory of its own, lest who fills that fills /run. serve: become the daemon.
settle: wait until it answers, tell it its limits and read back what can be read. quit: ask it to end, which waits for its clients.
clear: what prepare has made goes. Node side: standard library only, Python 3.6.
"""

import contextlib
import json
import os
import re
import stat
import sys
import time

from ansible_collections.gpufleet.nvidia.plugins.module_utils._node.resident.programs import run_program, trusted

NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]*\Z")
PAUSE = 0.1


def main(arguments):
    with open(arguments[0], encoding="utf-8") as stream:
        wanted = json.load(stream)
    verb, name = arguments[1:]
    if not NAME.match(name) or verb not in VERBS:
        sys.stdout.write("%s %s: no such task or no such name\n" % (verb, name))
        return 2
    try:
        VERBS[verb](wanted, name)
    except (OSError, ValueError) as exc:
        sys.stdout.write("%s: %s\n" % (name, exc))
        return 1
    return 0


def prepare(wanted, name):
    """A daemon that has crashed leaves its sockets; its directory stays the same, since containers have it mounted."""
    for kind in ("pipe", "log", "shm"):
        own_directory(place(wanted, kind, name))
    pipes = place(wanted, "pipe", name)
    for left in os.listdir(pipes):
        remove(wanted, os.path.join(pipes, left))
    shared = place(wanted, "shm", name)
    if not os.path.ismount(shared):
        mount(wanted, ["mount", "-t", "tmpfs", "-o", wanted["shm_options"], "gpufleet-mps", shared])


def remove(wanted, path):
    """What is left of a daemon, or whatever else root of a container has put there, so that it keeps no daemon from its start.

    By rm, which takes directories of any depth: shutil.rmtree has a frame of Python or an open file for each.
    """
    act(wanted, ["rm", "-rf", "--one-file-system", "--", path])


def place(wanted, kind, name):
    return wanted["places"][kind].replace("NAME", name)


def own_directory(path):
    """Make it and what is lacking on the way; ValueError where somebody else could change what is there."""
    done = "/"
    for part in path.strip("/").split("/"):
        done = os.path.join(done, part)
        with contextlib.suppress(FileExistsError):
            os.mkdir(done, 0o755)
        # What the system itself has as a link (/var/run) is not on these ways.
        found = os.lstat(done)
        shared = found.st_mode & 0o022 and not (found.st_mode & stat.S_ISVTX)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (0, os.geteuid()) or shared:
            raise ValueError("%s is not a directory that is root's alone" % done)


def mount(wanted, argv):
    act(wanted, argv)


def act(wanted, argv):
    """Run it; ValueError where it fails."""
    status, said = run_program(argv, wanted["seconds"])
    if status:
        raise ValueError("%s: exit status %d: %s" % (" ".join(argv), status, " ".join(said.split())))


def serve(wanted, name):
    os.execve(trusted(wanted["program"]), [wanted["program"], "-f"], environment(wanted, name))


def environment(wanted, name):
    found = {key: value.replace("NAME", name) for key, value in wanted["environment"].items()}
    return dict(found, PATH="/usr/sbin:/usr/bin:/sbin:/bin", LANG="C", LC_ALL="C")


def tell(wanted, name, command, seconds=None):
    """What the daemon answers; ValueError where it does not. seconds: for an answer that may take longer than most."""
    status, said = run_program([wanted["program"]], seconds or wanted["seconds"], command + "\n", environment(wanted, name))
    if status:
        raise ValueError("%s: exit status %d: %s" % (command, status, " ".join(said.split())))
    return said


def settle(wanted, name):
    """It serves once it answers; limits count for servers that start afterwards, and none has started yet."""
    end = time.monotonic() + wanted["seconds"]
    while True:
        try:
            tell(wanted, name, wanted["asked"])
            break
        except ValueError:
            if time.monotonic() > end:
                raise
            time.sleep(PAUSE)
    for limit in wanted["daemons"].get(name, {}).get("limits", []):
        tell(wanted, name, limit["set"])
        said = tell(wanted, name, limit["get"])
        if limit["number"] is not None and number(said) != limit["number"]:
            raise ValueError("%s was told to it, and it answers %s" % (limit["set"], " ".join(said.split()) or "nothing"))


def number(text):
    found = re.search(r"\d+(?:\.\d+)?", text)
    return float(found.group(0)) if found else None


def quit_daemon(wanted, name):
    """systemd ends what is left once this is over, so it lasts as long as the daemon does, which is as long as it has clients.

    The answer itself may wait for them.
    """
    end = time.monotonic() + wanted["patience"]
    tell(wanted, name, "quit", wanted["patience"])
    main_process = os.environ.get("MAINPID", "")
    while main_process and os.path.exists("/proc/" + main_process):
        if time.monotonic() > end:
            raise ValueError("its clients have not ended within %d s" % wanted["patience"])
        time.sleep(PAUSE)


def clear(wanted, name):
    shared = place(wanted, "shm", name)
    if os.path.ismount(shared):
        mount(wanted, ["umount", "-l", shared])  # containers that have it mounted keep theirs
    for kind in ("pipe", "shm", "log"):
        path = place(wanted, kind, name)
        remove(wanted, path)
        leave(os.path.dirname(path), wanted["places"][kind].partition("/NAME")[0])


def leave(path, top):
    """Remove empty directories from here up to the one that is for MPS alone, and none above it."""
    with contextlib.suppress(OSError):  # not empty: others are there; or gone already
        while path.startswith(top):
            os.rmdir(path)
            path = os.path.dirname(path)


VERBS = {"prepare": prepare, "serve": serve, "settle": settle, "quit": quit_daemon, "clear": clear}

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
