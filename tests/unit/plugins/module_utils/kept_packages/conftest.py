# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that keeps packages: its package managers answer what a test says, and its folders are a
test's.
"""

import hashlib
import json
import os
import pathlib
import types

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    commands,
    host_files,
    journal,
    kept_files,
    kept_packages,
)

OLD, NEW = b"the package that is installed", b"another package"
SIZE = len(OLD)
LIMITS = {"most": 10, "bytes": 1 << 20, "reserve": 0, "seconds": 60, "download": True}
# A line of `dpkg-query -W` in our format, as dpkg 1.21 of Debian 12 prints it
INSTALLED = "libcuda1\tamd64\t535.261.03-1~deb12u1\tinstalled\n"
DEB = "libcuda1_535.261.03-1~deb12u1_amd64.deb"
RPM = "libnvidia-ml-535.261.03-1.el9.x86_64.rpm"
HEADER = "c" * 64
OF_RPM = f"libnvidia-ml\tx86_64\t3:535.261.03-1.el9\t{HEADER}\n"
NAMES = ["libcuda1", "nvidia-smi"]
SMI = INSTALLED.replace("libcuda1", "nvidia-smi")
# A program that had not ended in time, and one that printed more than is read
SLOW, CUT = {"rc": None}, {"rc": 0, "truncated": True}
FREE = {
    "argv": ["apt-mark", "unhold", "libcuda1"],
    "undo": ["apt-mark", "hold", "libcuda1"],
}
UNHOLD = {"release": [FREE]}


def digest(data):
    return hashlib.sha256(data).hexdigest()


def stanza(data, version="535.261.03-1~deb12u1"):
    """Return what `apt-cache show` prints of a package whose file has these bytes. Its description
    looks like a field.
    """
    return (
        f"Package: libcuda1\nArchitecture: amd64\nVersion: {version}\nSize: {len(data)}\n"
        f"SHA256: {digest(data)}\nDescription: x\n SHA256: {'0' * 64}\n\n"
    )


@pytest.fixture
def host(tmp_path, monkeypatch):
    """Return a host whose folders are below `root`.

    says: name of a program, with or without its first word -> its text, its exit status and its
    text, or a part of the answer of commands.run(). `uris` is the exit status of `apt-get download
    --print-uris` and what it says on stderr. fetches: the bytes that apt fetches, None if it fails.
    ran: the commands so far. owners: the arguments of each chown. accounts: those of each _become().
    """
    made = types.SimpleNamespace(
        says={}, fetches=None, root=tmp_path, ran=[], owners=[], accounts=[]
    )
    (tmp_path / "archives").mkdir()
    (tmp_path / "cache/nvidia-1f/packages").mkdir(parents=True)
    monkeypatch.setattr(kept_files, "ARCHIVES", str(tmp_path / "archives"))
    monkeypatch.setattr(kept_files, "CACHES", (str(tmp_path / "cache"),))
    monkeypatch.setattr(journal, "get_journal_directory", lambda _root, _name: str(tmp_path / "j"))
    monkeypatch.setattr(os, "chown", lambda *args: made.owners.append(args))
    monkeypatch.setattr(host_files, "map_id_names", lambda _root, _of: {0: "root", 42: "_apt"})

    def run(argv, timeout=0, cap=0, become=None):
        made.ran.append(argv)
        ended = {"rc": 0, "stdout": b"", "stderr": b"refused", "truncated": False}
        if "--print-uris" in argv:
            rc, text, *cut = made.says.get("uris", (0, ""))
            return {**ended, "rc": rc, "stderr": text.encode(), "truncated": bool(cut)}
        if "download" in argv:
            made.accounts.append(become.args)
            if made.fetches:
                (pathlib.Path(become.args[2]) / DEB).write_bytes(made.fetches)
            return {**ended, "rc": 0 if made.fetches is not None else 100}
        said = made.says.get(argv[0] + argv[1], made.says.get(argv[0], ""))
        if isinstance(said, dict):
            return {**ended, **said}
        rc, text = said if isinstance(said, tuple) else (0, said)
        return {**ended, "rc": rc, "stdout": text.encode()}

    monkeypatch.setattr(commands, "run", run)
    return made


def ask(operation="keep", manager="dpkg", **more):
    """Run the program with a usual request, and return its answer."""
    return kept_packages.run(
        {
            "operation": operation,
            "journal_dir": "/var/lib/gpufleet",
            "manager": manager,
            "packages": ["libnvidia-ml" if manager == "rpm" else "libcuda1"],
            "record": {"writer": "gpufleet.nvidia", "schema": 1, "release": "535.261.03"},
            "release": [],
            "limits": LIMITS,
            **more,
        }
    )


def limited(**more):
    """Return the part of a request with limits other than the usual ones."""
    return {"limits": {**LIMITS, **more}}


def list_fetches(host):
    """List the commands that fetch a package."""
    return [argv for argv in host.ran if "download" in argv and "--print-uris" not in argv]


def read_record(host):
    return json.loads((host.root / "j/kept/record.json").read_text())


class Killed(Exception):
    """The run is killed here."""
