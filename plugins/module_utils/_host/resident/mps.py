# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stay on a host, and run one control daemon for each device, as a unit of systemd asks.

    mps.py LIST.json prepare|serve|settle|quit|clear NAME

prepare: make directories of root's, and a file system of its own for each one that containers write
to, so that filling it does not fill /run. serve: clear what an earlier daemon has left, and become
the daemon. settle: wait until the daemon answers, set its limits and read back what can be read.
quit: ask the daemon to end, which waits for its clients. clear: remove what prepare has made. Host
side: standard library only, Python 3.6.
"""

import contextlib
import json
import os
import re
import stat
import sys
import time

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.resident.programs import (
    LATER,
    PATH,
    find_trusted_program,
    run_program,
    turn,
)

NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]*\Z")
PAUSE = 0.1
# The daemon is root and writes to files of its own there, in whose place root of a container may
# put links meanwhile. Linux 5.10 on, and mount(8) of util-linux 2.37 on, know this option.
NO_LINKS = "nosymfollow"


def main(arguments):
    """Run one verb for one daemon. Return the exit status."""
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
    """Make the places of a daemon. Existing ones stay.

    Containers have them mounted, and systemd may do this again beside a daemon that serves.
    """
    load_client_module(wanted)
    with turn([unit.replace("NAME", name) for unit in wanted.get("units") or []]) as mine:
        if mine:
            make_places(wanted, name)
        else:
            sys.stdout.write(LATER)


def make_places(wanted, name):
    """Make the directories and mounts of a daemon."""
    own_directory(get_daemon_directory(wanted, "log", name))
    for kind, of in sorted(wanted["mounts"].items()):
        path = get_daemon_directory(wanted, kind, name)
        own_directory(os.path.dirname(path))
        if os.path.ismount(path):
            restore_file_system_top(path, int(of["mode"], 8))
        else:
            own_directory(path)
            options = "%s,mode=%s" % (of["options"], of["mode"])
            try:
                mount_new(wanted, options + "," + NO_LINKS, path)
            except ValueError:
                mount_new(wanted, options, path)


def mount_new(wanted, options, path):
    """Mount an empty file system in memory."""
    run_program(["mount", "-t", "tmpfs", "-o", options, "gpufleet-mps", path], wanted["seconds"])


def load_client_module(wanted):
    """Load the module that the first client would have loaded.

    The daemon's unit loads none, and has only the devices that exist already.
    """
    with open(wanted["majors"], encoding="utf-8") as stream:
        devices = stream.read().split()
    if wanted["device"] in devices:
        return
    try:
        run_program(["modprobe", wanted["module"]], wanted["seconds"])
    except ValueError as exc:
        # Not this program's to judge: a module that cannot be loaded keeps clients from their
        # start, and the driver reports why.
        sys.stdout.write("%s\n" % exc)


def restore_file_system_top(path, mode):
    """Restore owner and mode of the top of a file system, which root of a container may have
    changed there.
    """
    top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchown(top, os.geteuid(), os.getegid())
        os.fchmod(top, mode)
    finally:
        os.close(top)


def remove_daemon(wanted, path):
    """Remove what is left of a daemon, so that it keeps no daemon from its start.

    Root of a container may have put anything there. It is removed by rm, which takes directories of
    any depth: shutil.rmtree has a frame of Python or an open file for each.
    """
    run_program(["rm", "-rf", "--one-file-system", "--", path], wanted["seconds"])


def get_daemon_directory(wanted, kind, name):
    """Return the directory of a daemon of this kind."""
    return wanted["places"][kind].replace("NAME", name)


def own_directory(path):
    """Make a directory and the missing ones above it.

    Raise ValueError if another account could change what is there.
    """
    done = "/"
    for part in path.strip("/").split("/"):
        done = os.path.join(done, part)
        with contextlib.suppress(FileExistsError):
            os.mkdir(done, 0o755)
        # The system's own links (/var/run) are not on these ways.
        status = os.lstat(done)
        shared = status.st_mode & 0o022 and not (status.st_mode & stat.S_ISVTX)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (0, os.geteuid()) or shared:
            raise ValueError("%s is not a directory that is root's alone" % done)


def serve(wanted, name):
    """Clear what an earlier daemon has left, and become the daemon.

    No other daemon serves now: systemd starts one process of a unit. Sockets of a daemon that has
    crashed would keep this one from its start.
    """
    pipes = get_daemon_directory(wanted, "pipe", name)
    for left in os.listdir(pipes):
        remove_daemon(wanted, os.path.join(pipes, left))
    logs = get_daemon_directory(wanted, "log", name)
    for log in os.listdir(logs) if wanted.get("logged") else ():
        # else this one would soon have no room for its own
        if os.lstat(os.path.join(logs, log)).st_size > wanted["logged"]:
            remove_daemon(wanted, os.path.join(logs, log))
    os.execve(
        find_trusted_program(wanted["program"]),
        [wanted["program"], "-f"],
        build_daemon_environment(wanted, name),
    )


def build_daemon_environment(wanted, name):
    """Return the environment of a daemon and its clients."""
    variables = {key: value.replace("NAME", name) for key, value in wanted["environment"].items()}
    return dict(variables, PATH=PATH, LANG="C", LC_ALL="C")


def ask_daemon(wanted, name, command, seconds=None):
    """Return the daemon's answer to a command. Raise ValueError if it does not answer.

    seconds: for an answer that may take longer than most.
    """
    return run_program(
        [wanted["program"]],
        seconds or wanted["seconds"],
        text=command + "\n",
        environment=build_daemon_environment(wanted, name),
    )


def settle_daemon(wanted, name):
    """Wait until the daemon answers: then it serves. Set its limits.

    They count for servers that start afterwards, and none has started yet.
    """
    end = time.monotonic() + wanted["seconds"]
    while True:
        try:
            ask_daemon(wanted, name, wanted["asked"])
            break
        except ValueError:
            if time.monotonic() > end:
                raise
            # The pause between two tries, until the time is over: the daemon does not say when its
            # socket is there (with -f it is a process like any other, and not Type=notify).
            time.sleep(PAUSE)
    for limit in wanted["daemons"].get(name, {}).get("limits", []):
        ask_daemon(wanted, name, limit["set"])
        said = ask_daemon(wanted, name, limit["get"])
        if limit["number"] is not None and parse_daemon_number(said) != limit["number"]:
            raise ValueError(
                "after %s it answers %s" % (limit["set"], " ".join(said.split()) or "nothing")
            )


def parse_daemon_number(text):
    """Return the first number in a text; None if there is none."""
    match = re.search(r"\d+(?:\.\d+)?", text)
    return float(match.group(0)) if match else None


def quit_daemon(wanted, name):
    """Ask the daemon to end, and wait for that as long as its clients need.

    systemd ends what is left once this is over, so this lasts as long as the daemon does. The
    answer itself may wait for the clients.
    """
    end = time.monotonic() + wanted["patience"]
    ask_daemon(wanted, name, "quit", wanted["patience"])
    main_process = os.environ.get("MAINPID", "")
    while main_process and os.path.exists("/proc/" + main_process):
        if time.monotonic() > end:
            raise ValueError("its clients have not ended within %d s" % wanted["patience"])
        # The pause between two looks, until the time is over: the daemon is a child of systemd, and
        # the kernel announces its end to its parent alone (pidfd_open is of Python 3.9).
        time.sleep(PAUSE)


def clear(wanted, name):
    """Remove the mounts and directories of a daemon."""
    for kind in sorted(wanted["mounts"]):
        path = get_daemon_directory(wanted, kind, name)
        if os.path.ismount(path):
            # containers that have it mounted keep theirs
            run_program(["umount", "-l", path], wanted["seconds"])
    for kind in sorted(wanted["places"]):
        path = get_daemon_directory(wanted, kind, name)
        remove_daemon(wanted, path)
        remove_empty_directories(
            os.path.dirname(path), wanted["places"][kind].partition("/NAME")[0]
        )


def remove_empty_directories(path, top):
    """Remove empty directories from here up to the one that is for MPS alone, and none above it."""
    with contextlib.suppress(OSError):  # not empty: others are there; or gone already
        while path.startswith(top):
            os.rmdir(path)
            path = os.path.dirname(path)


VERBS = {
    "prepare": prepare,
    "serve": serve,
    "settle": settle_daemon,
    "quit": quit_daemon,
    "clear": clear,
}

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
