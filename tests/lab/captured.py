# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tree of a machine that `make gpu` measured: what its driver, /proc, /sys and /dev have, from a
capture.

Names, links and texts are the machine's. Libraries have no content but their SONAME, and NVML
answers as the record says. Absolute links are relative here, since nvidia-ctk follows the others on
the host.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from . import trees
from .fakegpu import driver_libraries, host_tree, packaged, tree_entries
from .recorded import Node

MERGED = ("lib", "lib64", "bin", "sbin")
SONAME = re.compile(r"lib[\w-]+\.so\.\d{1,2}")


def build(root: Path, node: Node) -> Path:
    """Build the tree, and return it."""
    answers = node.seen["answers"]
    for name in MERGED:
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    listed = [
        entry for key in answers if key.startswith("paths:") for entry in _files(answers[key])
    ]
    for entry in listed:
        _write(root, entry, _get_soname_of_link(entry["real"], listed))
    for entry in listed:
        _link(root, entry)
    _hardware(root, node)
    folders = {
        os.path.dirname(e["real"]) for e in listed if SONAME.match(os.path.basename(e["path"]))
    }
    trees.write(root / "etc/ld.so.conf", "".join(f"{f}\n" for f in sorted(folders)).encode())
    subprocess.run(["/sbin/ldconfig", "-r", str(root)], check=True, capture_output=True)
    return root


def _files(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [entry for entry in answer.get("files") or () if entry.get("real")]


def _get_soname_of_link(real: str, listed: list[Mapping[str, Any]]) -> str:
    """Return the name by which a library is loaded: that of the link next to it, else its own."""
    folder = os.path.dirname(real)
    names = (
        os.path.basename(entry["path"])
        for entry in listed
        if entry["real"] == real and os.path.dirname(entry["path"]) == folder
    )
    return next((name for name in names if SONAME.fullmatch(name)), os.path.basename(real))


def _write(root: Path, entry: Mapping[str, Any], soname: str) -> None:
    place = root / entry["real"][1:]
    name = place.name
    if place.exists() or entry["type"] not in ("file", "link"):
        return
    content = b"{}\n"
    if ".so" in name:
        content = driver_libraries.nvml_bytes() if "libnvidia-ml" in name else trees.stub(soname)
    elif entry["mode"] & 0o111:
        content = b"#!/bin/sh\n"
    trees.write(place, content)


def _link(root: Path, entry: Mapping[str, Any]) -> None:
    place, real = root / entry["path"][1:], root / entry["real"][1:]
    if entry["path"] == entry["real"] or place.exists() or place.is_symlink():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(os.path.relpath(real, place.parent.resolve()))


def _hardware(root: Path, node: Node) -> None:
    for name, entry in host_tree.tree(node.inventory, os.uname().release).items():
        if name.startswith(packaged.TOP) or name == "etc/fake-nvml.conf":
            tree_entries.put(root / name, entry)
    for path, text in _list_captured_texts(node.seen["answers"]):
        tree_entries.put(root / packaged.TOP / path[1:], tree_entries.Entry(text, mode=0o444))
    for key, answer in node.seen["answers"].items():
        for entry in _files(answer) if key.startswith("glob:/dev/") else ():
            _device(root, entry)


def _list_captured_texts(answers: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the texts of /proc and /sys that the machine showed. Its UUIDs are those of the record."""
    for key, answer in answers.items():
        kind, _colon, path = key.partition(":")
        found = [{**answer, "path": path}] if kind == "file" else _files(answer)
        for entry in found:
            if entry.get("content") and entry["path"].startswith(("/proc/", "/sys/")):
                yield entry["path"], re.sub("GPU-[0-9a-f-]{36}", _uuid, entry["content"])


def _uuid(found: re.Match[str]) -> str:
    """Return the record's UUID for a stand-in of a capture, which counts from 1."""
    number = int(found.group()[-12:], 16) - 1
    return f"GPU-{number:08d}-0000-0000-0000-{number:012d}"


def _device(root: Path, entry: Mapping[str, Any]) -> None:
    place = root / entry["path"][1:]
    if entry["type"] != "char" or place.exists():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(place, stat.S_IFCHR, os.makedev(*entry["rdev"]))
    place.chmod(entry["mode"])
