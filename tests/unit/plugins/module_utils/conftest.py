# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host made by hand: a systemd whose units are text files, and a runtime that answers CRI. Python
3.6.
"""

import errno
import hashlib
import json
import os
import socket
import stat
import struct
import subprocess
import threading

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    journal,
    journal_queries,
    keyed,
    observe,
    trust,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.rpc import cri
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    deadline,
    launcher,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    entry as transaction_entry,
)

VERSION = subprocess.run(["sleep", "--version"], stdout=subprocess.PIPE, check=True).stdout.decode()
LOG = """Starting engine.service...
time=1 level=info msg="token=hunter2"
time=1 level=fatal msg="line 7: no such runtime, password=hunter2"
engine.service: Main process exited, code=exited, status=1/FAILURE
engine.service: Failed with result 'exit-code'."""
SYSTEMCTL = r"""#!/bin/sh
# A unit is a directory UNITS/NAME with files ActiveState, UnitFileState, InvocationID, and hooks that actions run. With a file `refused`
# it was started too often, and is not started until reset-failed.
units=%(units)s
echo "$*" >> %(log)s
action=$1; shift
[ "$action" = --no-reload ] && { action=$1; shift; }
[ "$1" = --now ] && shift
case $action in
show)
    while [ "$1" != -- ]; do shift; done; shift
    for asked in "$@"; do
        name=$(echo "$asked" | tr -d '[]')  # a pattern stands for one name, and for units in memory only
        [ "$name" = "$asked" ] || [ -d "$units/$name" ] || continue
        echo "Id=$name"; echo "Names=$name"
        if [ -d "$units/$name" ]; then
            echo LoadState=loaded
            for key in ActiveState UnitFileState InvocationID Result; do echo "$key=$(cat "$units/$name/$key" 2>/dev/null)"; done
        else
            echo LoadState=not-found; echo ActiveState=inactive
        fi
        echo
    done;;
*)
    case $action in
    reset-failed)
        rm -f "$units/$1/refused"
        grep -q failed "$units/$1/ActiveState" && echo inactive > "$units/$1/ActiveState";;
    start|restart)
        if [ -e "$units/$1/refused" ]; then
            echo "Job for $1 failed." >&2
            echo failed > "$units/$1/ActiveState"
            exit 1
        fi
        cat /proc/sys/kernel/random/uuid > "$units/$1/InvocationID";;
    esac
    if [ -x "$units/$1/on-$action" ] && ! "$units/$1/on-$action"; then
        echo "Job for $1 failed." >&2
        echo failed > "$units/$1/ActiveState"
        exit 1
    fi
    case $action in
    start|restart|reload) echo active > "$units/$1/ActiveState";;
    stop) grep -q failed "$units/$1/ActiveState" || echo inactive > "$units/$1/ActiveState";;
    disable) echo disabled > "$units/$1/UnitFileState"; echo inactive > "$units/$1/ActiveState";;
    enable) echo enabled > "$units/$1/UnitFileState";;
    esac;;
esac
"""


def script(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


class Systemd(object):
    def __init__(self, directory):
        self.units = directory / "units"
        self.log_file = directory / "systemctl.log"
        self.bin = directory / "bin"
        self.units.mkdir()
        self.bin.mkdir()
        script(self.bin / "systemctl", SYSTEMCTL % {"units": self.units, "log": self.log_file})
        script(self.bin / "journalctl", "#!/bin/sh\ncat <<'END'\n%s\nEND\n" % LOG)

    def add(self, name, active="active", enabled="enabled", invocation="i1"):
        unit = self.units / name
        unit.mkdir()
        for key, value in (
            ("ActiveState", active),
            ("UnitFileState", enabled),
            ("InvocationID", invocation),
        ):
            (unit / key).write_text(value + "\n")

    def hook(self, name, action, text):
        """Add a script that runs with the action. If it fails, the action fails."""
        script(self.units / name / ("on-" + action), "#!/bin/sh\n" + text + "\n")

    def state(self, name, key="ActiveState"):
        return (self.units / name / key).read_text().strip()

    @property
    def actions(self):
        """Actions so far, without looks."""
        lines = self.log_file.read_text().splitlines() if self.log_file.exists() else []
        return [line for line in lines if not line.startswith("show ")]


@pytest.fixture
def systemd(tmp_path, monkeypatch):
    made = Systemd(tmp_path)
    first_on_path(monkeypatch, str(made.bin))
    return made


def first_on_path(monkeypatch, directory):
    """Put a directory before the others that root's own programs come from.

    This holds for this process, and for the program that it puts on the disk.
    """
    monkeypatch.setattr(trust, "PROGRAM_PATH", (directory,) + trust.PROGRAM_PATH)
    source = launcher.read_part_source
    begins = "PROGRAM_PATH = ("
    monkeypatch.setattr(
        launcher,
        "read_part_source",
        lambda part: source(part).replace(begins, "%s%r, " % (begins, directory), 1),
    )


def sha(text):
    return hashlib.sha256(text.encode("utf-8") if isinstance(text, str) else text).hexdigest()


def told(text):
    """Return the digest of a text that the controller is told."""
    return keyed.digest_with_key(sha(text))


def put(path, data):
    """Write bytes to a file in place, past the journal."""
    with open(path, "wb") as stream:
        stream.write(data)


def fail(number=errno.EIO, only=None, real=None):
    """Return what raises an OSError in place of a function, or only for paths that `only` names."""

    def call(path, *args, **more):
        if only is None or only(path):
            raise OSError(number, os.strerror(number), path)
        return real(path, *args, **more)

    return call


# --- a runtime that speaks just enough HTTP/2
# ---------------------------------------------------------------------------


def frame(kind, flags, stream, payload=b""):
    return (
        struct.pack(">I", len(payload))[1:]
        + bytes(bytearray((kind, flags)))
        + struct.pack(">I", stream)
        + payload
    )


def header(name, value):
    """Return a literal field without indexing and without Huffman code. It has 126 bytes at most."""
    return b"\x00" + b"".join(
        bytes(bytearray((len(word),))) + word for word in (name.encode(), value.encode())
    )


def answer(message, code="0", text="", status_block=b"\x88"):
    """Return the frames of a usual answer: headers, one message, trailers.

    0x88 is the static table's ":status: 200".
    """
    trailers = header("grpc-status", code) + (header("grpc-message", text) if text else b"")
    if message is None:  # trailers only
        return frame(1, 0x5, 1, status_block + trailers)
    body = struct.pack(">BI", 0, len(message)) + message
    pieces = [body[at : at + 16384] for at in range(0, len(body), 16384)]
    return (
        frame(1, 0x4, 1, status_block)
        + b"".join(frame(0, 0, 1, piece) for piece in pieces)
        + frame(1, 0x5, 1, trailers)
    )


def status_message(config, handlers=(), ready=True):
    conditions = [
        (1, 2, [(1, 2, "RuntimeReady"), (2, 0, ready), (4, 2, "" if ready else "starting")])
    ]
    info = [(2, 2, [(1, 2, "config"), (2, 2, json.dumps(config))])]
    return cri.encode_fields(
        [(1, 2, conditions)] + info + [(3, 2, [(1, 2, name)]) for name in handlers]
    )


def wire_version(name, version):
    return cri.encode_fields([(2, 2, name), (3, 2, version)])


class Runtime(object):
    """A runtime that answers each connection with the next of `replies` (bytes to send), the last
    one forever.

    None in `replies` means: send nothing.
    """

    def __init__(self, path, replies):
        self.path, self.replies, self.requests = str(path), list(replies), []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.path)
        self.listener.listen(5)
        self.open = []
        self.thread = threading.Thread(target=self._serve)
        self.thread.daemon = True
        self.thread.start()

    def _serve(self):
        while True:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            self.open.append(connection)
            self.requests.append(self._request(connection))
            reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
            if reply is not None:
                connection.sendall(reply)
                connection.shutdown(socket.SHUT_WR)

    @staticmethod
    def _request(connection):
        """Return (preface, [(kind, flags, stream, payload)]) up to the end of the request."""
        stream = connection.makefile("rb")
        preface, frames = stream.read(24), []
        while not frames or not (frames[-1][0] == 0 and frames[-1][1] & 1):
            head = stream.read(9)
            if len(head) < 9:
                break
            size = struct.unpack(">I", b"\0" + head[:3])[0]
            frames.append((head[3], head[4], struct.unpack(">I", head[5:])[0], stream.read(size)))
        return preface, frames

    def close(self):
        # shutdown() wakes the accept() that close() alone would leave waiting.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(5)
        for connection in self.open:
            connection.close()


@pytest.fixture
def runtime(tmp_path):
    made = []

    def make(*replies):
        made.append(Runtime(tmp_path / ("cri%d.sock" % len(made)), replies))
        return made[-1]

    yield make
    for server in made:
        server.close()


# --- a host directory with transactions upon it
# -------------------------------------------------------------------------


RESTART = [{"name": "engine.service", "action": "restart", "timeout": 20}]
CONFIG = "version = 2\n# a comment\n[plugins]\n  x = 1\n"
ID = "0123456789abcdef0123456789abcdef"


class HostDirectory(object):
    """A host directory with an engine's configuration, and transactions upon it."""

    def __init__(self, directory):
        self.directory = directory
        self.etc = directory / "etc" / "engine"
        self.etc.mkdir(parents=True)
        self.config = self.etc / "config.toml"
        self.config.write_text(CONFIG)
        self.config.chmod(0o640)
        self.dropin = self.etc / "conf.d" / "90-gpufleet.toml"
        self.journal = str(directory / "journal")

    def run(self, changes=(), **more):
        request = dict(
            {
                "schema": 1,
                "id": ID,
                "root": "/",
                "journal_dir": self.journal,
                "reason": "test",
                "changes": list(changes),
            },
            **more,
        )
        return transaction_entry.run(request)

    def write(self, path, text, **more):
        return dict({"path": str(path), "op": "write", "content": text}, **more)

    def tree(self):
        """Return everything below etc, with bytes, mode and owner."""
        found = {}
        for directory, subdirs, names in os.walk(str(self.directory / "etc")):
            for name in subdirs + names:
                path = os.path.join(directory, name)
                state = os.lstat(path)
                data = None
                if stat.S_ISREG(state.st_mode):
                    with open(path, "rb") as stream:
                        data = stream.read()
                found[os.path.relpath(path, str(self.directory))] = (
                    data,
                    stat.S_IMODE(state.st_mode),
                    state.st_uid,
                    state.st_gid,
                )
        return found

    def originals(self):
        return journal_queries.look_at_journal("", self.journal)["originals"]

    def states(self):
        return [entry["state"] for entry in journal.list_transactions(self.journal)]


@pytest.fixture
def host_dir(tmp_path):
    return HostDirectory(tmp_path / "host")


def ask(root="/", limits=None, **question):
    question = dict(
        {"keep": {"format": "whole"}} if question.get("kind") in ("file", "glob") else {},
        **question,
    )
    request = {
        "schema": 1,
        "root": str(root),
        "limits": limits,
        "questions": [dict(question, id="q")],
    }
    return observe.run(request)["answers"]["q"]


def tree(directory, **files):
    """Write files by path, "__" for "/". A value that begins with "->" is a link."""
    for name, text in files.items():
        path = directory.joinpath(*name.split("__"))
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("->"):
            path.symlink_to(text[2:])
        else:
            path.write_text(text)
    return directory


def edit(host_dir, edits, result, before=CONFIG):
    lines = [{"start": start, "end": end, "text": text} for start, end, text in edits]
    return {
        "path": str(host_dir.config),
        "op": "edit",
        "expect": sha(before),
        "edits": lines,
        "result": sha(result),
    }


def restore(path):
    return {"path": str(path), "op": "restore", "id": ""}


# Starts what systemd-run would start, beside us, with a unit that lives as long as it; a timer is
# only noted.
SYSTEMD_RUN = """#!/bin/sh
echo "$*" >> %(log)s
case "$*" in *--on-active*) exit 0;; esac
for word in "$@"; do case $word in --unit=*) unit=%(units)s/${word#--unit=};; esac; done
mkdir -p $unit; echo active > $unit/ActiveState
while [ "$1" != -- ]; do shift; done; shift
{ setsid "$@"; echo inactive > $unit/ActiveState; } </dev/null >>%(log)s 2>&1 &
"""


@pytest.fixture
def host(tmp_path, systemd, monkeypatch):
    """Return a host with systemd, as far as the executor can see."""
    made = HostDirectory(tmp_path / "host")
    made.systemd = systemd
    made.runs = tmp_path / "systemd-run.log"
    script(systemd.bin / "systemd-run", SYSTEMD_RUN % {"log": made.runs, "units": systemd.units})
    units = tmp_path / "units.d"
    (units / deadline.WANTS).mkdir(parents=True)
    made.units = units
    monkeypatch.setattr(deadline, "RUNNING", str(tmp_path))
    monkeypatch.setattr(deadline, "UNITS", str(units))
    source, named = launcher.read_part_source, 'UNITS = "/etc/systemd/system"'
    monkeypatch.setattr(
        launcher,
        "read_part_source",
        lambda part: source(part).replace(named, "UNITS = %r" % str(units)),
    )
    systemd.add("engine.service")
    return made
