# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configurations as they should not be, by table: what the planners say, or that they cope."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils import host
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.engines import containerd, crio
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.model import Plan, PlanError, Policy

from tests.unit import builders

ENGINES = {"containerd": containerd, "crio": crio}
TOML = "/etc/containerd/config.toml"
CONF_D = "/etc/containerd/conf.d"
CRIO_D = "/etc/crio/crio.conf.d"
FILE = f"{CRIO_D}/10-site.conf"
OLD, NEW, CRIO = "1.7.24", "2.3.7", "1.34.2"
V2, V3 = 'plugins."io.containerd.grpc.v1.cri"', 'plugins."io.containerd.cri.v1.runtime"'


def planned(engine: str, version: str, files: dict[str, Any]) -> Plan:
    policy = Policy(root="/tree", engine_version=version, engines=(engine,))
    seen = builders.obs(files=files)
    instance, decision = host.single(policy, seen, engine)
    found: Plan = ENGINES[engine].plan(policy, seen, instance, decision)
    return found


def raw(content: bytes) -> dict[str, Any]:
    """Not UTF-8 travels as base64."""
    return {"content": base64.b64encode(content).decode(), "encoding": "base64"}


def odd(kind: str) -> dict[str, Any]:
    return {"type": kind, "content": None}


TOO_LARGE = {"error": {"kind": "too-large", "message": f"{TOML}: is larger than the 1048576 bytes asked for"}}
DENIED = {"error": {"kind": "denied", "message": f"{TOML}: Permission denied"}}
GLOB = f'imports = ["{CONF_D}/*.toml"]\n'

# what it is: (version, files, what is said)
CONTAINERD: dict[str, tuple[str, dict[str, Any], str]] = {
    # not TOML
    "a table header without end": (OLD, {TOML: "version = 2\n\n[plugins\n"}, f"{TOML}:3: this is not valid TOML"),
    "the same table twice": (OLD, {TOML: "version = 2\n[a]\n\n[a]\n"}, f"{TOML}:4: this is not valid TOML"),
    "the same key twice": (NEW, {TOML: "version = 3\nversion = 3\n"}, f"{TOML}:2: this is not valid TOML"),
    "a NUL byte": (NEW, {TOML: "version = 3\n\0\n"}, f"{TOML}:2: this is not valid TOML"),
    "line ends of an old Macintosh": (OLD, {TOML: "version = 2\r[plugins]\r"}, f"{TOML}:1: this is not valid TOML"),
    "a conflict of git's": (OLD, {TOML: "version = 2\n<<<<<<< HEAD\n"}, f"{TOML}:2: this is not valid TOML"),
    "YAML": (NEW, {TOML: "version: 3\n"}, f"{TOML}:1: this is not valid TOML"),
    "JSON": (NEW, {TOML: '{"version": 3}\n'}, f"{TOML}:1: this is not valid TOML"),
    "an error page": (NEW, {TOML: "<!DOCTYPE html>\n"}, f"{TOML}:1: this is not valid TOML"),
    "UTF-16": (NEW, {TOML: raw("version = 3\n".encode("utf-16"))}, f"{TOML}:1: this is UTF-16, and TOML is UTF-8"),
    "Latin-1 for 2.x": (NEW, {TOML: raw(b"version = 3\n# gr\xfcn\n")}, f"{TOML}:2: this is not UTF-8 (containerd 2.3.7 refuses it)"),
    "nested without end": (NEW, {TOML: "a = " + "[" * 5000 + "]" * 5000}, f"{TOML}: this is nested too deeply"),
    "a broken drop-in": (NEW, {TOML: "version = 3\n" + GLOB, f"{CONF_D}/1.toml": "\na =\n"}, f"{CONF_D}/1.toml:2: this is not valid TOML"),
    # not a file
    "a directory": (OLD, {TOML: odd("dir")}, f"{TOML}: this file cannot be read (it is a directory)"),
    "a named pipe": (OLD, {TOML: odd("fifo")}, f"{TOML}: this file cannot be read (it is a named pipe)"),
    "a socket": (OLD, {TOML: odd("socket")}, f"{TOML}: this file cannot be read (it is a socket)"),
    "a device": (OLD, {TOML: odd("char")}, f"{TOML}: this file cannot be read (it is a device)"),
    "a link to nothing": (NEW, {TOML: {**odd("link"), "real": None}}, f"{TOML}: this file cannot be read (it is a link to nothing)"),
    "more than a mebibyte": (NEW, {TOML: TOO_LARGE}, f"{TOML}: this file cannot be read (it is larger than the 1048576 bytes asked for)"),
    "not to be read": (NEW, {TOML: DENIED}, f"{TOML}: this file cannot be read (Permission denied)"),
    "a directory for our drop-in": (NEW, {TOML: "version = 3\n", f"{CONF_D}/90-gpufleet.toml": odd("dir")}, "taken (it is a directory)"),
    "a link for our drop-in": (NEW, {TOML: "version = 3\n", f"{CONF_D}/90-gpufleet.toml": odd("link")}, "taken (it is a link to nothing)"),
    # versions
    "a version as a string": (OLD, {TOML: 'version = "2"\n'}, f"{TOML}:1: `version` is not a number"),
    "a version with a point": (OLD, {TOML: "version = 2.0\n"}, f"{TOML}:1: `version` is not a number"),
    "a version that is true": (NEW, {TOML: "version = true\n"}, f"{TOML}:1: `version` is not a number"),
    "a version from the future": (NEW, {TOML: "version = 9\n"}, "containerd 2.3.7 knows only 1, 2, 3 and 4"),
    "a version below all": (OLD, {TOML: "version = -1\n"}, "containerd 1.7.24 knows only 1 and 2"),
    "a newer drop-in": (NEW, {TOML: "version = 2\n" + GLOB, f"{CONF_D}/1.toml": "version = 3\n"}, f"{CONF_D}/1.toml:1: "),
    # imports
    "imports as a string": (NEW, {TOML: 'version = 3\nimports = "/x"\n'}, f"{TOML}:2: `imports` is not a list of paths"),
    "imports of numbers": (OLD, {TOML: "version = 2\nimports = [1]\n"}, f"{TOML}:2: `imports` is not a list of paths"),
    "an import of itself": (NEW, {TOML: f'version = 3\nimports = ["{TOML}"]\n'}, f"{TOML}:2: the import {TOML} leads back"),
    "an import that is missing": (OLD, {TOML: 'version = 2\nimports = ["/x"]\n'}, f"{TOML}:2: the imported file /x does not exist"),
    "an import of a directory": (NEW, {TOML: 'version = 3\nimports = ["/x"]\n', "/x": odd("dir")}, "the import /x is a directory"),
    "an import of a pipe": (NEW, {TOML: 'version = 3\nimports = ["/x"]\n', "/x": odd("fifo")}, "/x: this file cannot be read"),
    # types
    "plugins as a string": (OLD, {TOML: 'version = 2\nplugins = "x"\n'}, f"{TOML}:2: plugins is a string here, and it must be a table"),
    "an array of plugins": (NEW, {TOML: "version = 3\n[[plugins]]\n"}, f"{TOML}:2: plugins is an array of tables here"),
    "an array of CRI tables": (OLD, {TOML: f"version = 2\n[[{V2}]]\n"}, f"{TOML}:2: {V2} is an array of tables here"),
    "an array of runtimes": (OLD, {TOML: f"version = 2\n[[{V2}.containerd.runtimes]]\n"}, "runtimes is an array of tables here"),
    "runtimes as a string": (NEW, {TOML: f'version = 3\n[{V3}.containerd]\nruntimes = "runc"\n'}, "runtimes is a string here"),
    "runc as a path": (OLD, {TOML: f'version = 2\n[{V2}.containerd.runtimes]\nrunc = "/x"\n'}, "runtimes.runc is a string here"),
    "an array of our handler": (NEW, {TOML: f"version = 3\n[[{V3}.containerd.runtimes.nvidia]]\n"}, "nvidia is an array of tables here"),
    "options as a string": (OLD, {TOML: f'version = 2\n[{V2}.containerd.runtimes.runc]\noptions = "x"\n'}, f"{TOML}:3: "),
    "a default that is a number": (NEW, {TOML: f"version = 3\n[{V3}.containerd]\ndefault_runtime_name = 7\n"}, "is a number here"),
    "a switch that is a word": (OLD, {TOML: f'version = 2\n[{V2}]\nenable_cdi = "no"\n'}, "it must be true or false"),
    "directories as a string": (OLD, {TOML: f'version = 2\n[{V2}]\ncdi_spec_dirs = "/x"\n'}, "it must be an array of strings"),
    "a list of plugins as a string": (NEW, {TOML: 'version = 3\ndisabled_plugins = "cri"\n'}, "disabled_plugins is a string here"),
    "a date for a binary": (OLD, {TOML: f"version = 2\n[{V2}.containerd.runtimes.a.options]\nBinaryName = 2020-01-01\n"}, "is a date here"),
    # what is ours already
    "CRI switched off": (OLD, {TOML: 'version = 2\ndisabled_plugins = ["cri"]\n'}, f"CRI is switched off in this containerd: {TOML}:2"),
    "somebody's file in our place": (NEW, {TOML: "version = 3\n" + GLOB, f"{CONF_D}/90-gpufleet.toml": "#\n"}, "exists and is not ours"),
}  # fmt: skip

# what it is: (the drop-in, what is said)
DROP_INS: dict[str, tuple[Any, str]] = {
    "a README": ("Put files here.\n", f"{FILE}:1: CRI-O would refuse to start: this is not valid TOML"),
    "UTF-16": (raw("[crio]\n".encode("utf-16")), f"{FILE}:1: CRI-O would refuse to start: this is UTF-16"),
    "Latin-1": (raw(b"[crio]\n# gr\xfcn\n"), f"{FILE}:2: CRI-O would refuse to start: this is not UTF-8"),
    "a NUL byte": ("[crio]\n\0", f"{FILE}:2: CRI-O would refuse to start"),
    "the same table twice": ("[crio]\n[crio]\n", f"{FILE}:2: CRI-O would refuse to start"),
    "nested without end": ("a = " + "[" * 5000 + "]" * 5000, "nested too deeply"),
    "a named pipe": (odd("fifo"), f"{FILE}: CRI-O cannot read this: it is a named pipe"),
    "a link to nothing": ({**odd("link"), "real": None}, f"{FILE}: CRI-O cannot read this: it is a link to nothing"),
    "crio as a string": ('crio = "x"\n', f"{FILE}:1: CRI-O would refuse to start: crio is a string here"),
    "an array of runtimes": ("[[crio.runtime.runtimes]]\n", "runtimes is an array of tables here"),
    "crun as a path": ('[crio.runtime.runtimes]\ncrun = "/x"\n', "crio.runtime.runtimes.crun is a string here, and it must be a table"),
    "a default that is a number": ("[crio.runtime]\ndefault_runtime = 7\n", "default_runtime is a number here"),
    "directories as a string": ('[crio.runtime]\nhooks_dir = "/x"\n', "hooks_dir is a string here, and it must be an array of strings"),
    "directories as a number": ("[crio.runtime]\ncdi_spec_dirs = 7\n", "cdi_spec_dirs is a number here"),
    "numbers for directories": ("[crio.runtime]\ncdi_spec_dirs = [7]\n", "it must be an array of strings"),
    "an environment that is a number": ("[crio.runtime.runtimes.crun]\nmonitor_env = 7\n", f"{FILE}:2: "),
}

# what it is: (version, the root file, the lines around the change that must come through)
FINE: dict[str, tuple[str, Any, str]] = {
    "a byte order mark": (OLD, "\ufeffversion = 2\n", ""),
    "line ends of Windows": (OLD, "version = 2\r\n# ours\r\n", ""),
    "nothing in it": (NEW, "", ""),
    "Latin-1 in a comment, which 1.x reads": (OLD, raw(b"version = 2\n# gr\xfcn\n"), ""),
    "no line end at the end": (NEW, "version = 3", ""),
    "writable by the world, and somebody's": (OLD, {"content": "version = 2\n", "mode": 0o666, "uid": 1000, "owner": "ops"}, ""),
    "a link": (OLD, {"content": "version = 2\n", "real": "/srv/containerd.toml"}, "/srv/containerd.toml"),
}


@pytest.mark.parametrize(("version", "files", "sentence"), CONTAINERD.values(), ids=CONTAINERD)
def test_containerd(version: str, files: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PlanError) as refused:
        planned("containerd", version, files)
    assert sentence in str(refused.value)
    assert refused.value.where
    assert refused.value.next or "run again" in str(refused.value)


@pytest.mark.parametrize(("text", "sentence"), DROP_INS.values(), ids=DROP_INS)
def test_crio(text: Any, sentence: str) -> None:
    with pytest.raises(PlanError) as refused:
        planned("crio", CRIO, {FILE: text})
    assert sentence in str(refused.value)
    assert (refused.value.where, bool(refused.value.next)) == (FILE, True)


@pytest.mark.parametrize(("version", "root", "real"), FINE.values(), ids=FINE)
def test_unusual_and_fine(version: str, root: Any, real: str) -> None:
    (*_others, change) = planned("containerd", version, {TOML: root}).changes
    assert (change["path"], change["op"]) == (real or TOML, "edit")
    assert {"mode", "owner", "group"} & set(change) == set()  # they stay as they are
    assert all("\n" in edit["text"] for edit in change["edits"])


@pytest.mark.parametrize("text", ["\ufeff[crio.runtime]\n", "[crio.runtime]\r\n", "", "# nothing\n"], ids=repr)
def test_unusual_and_fine_for_crio(text: str) -> None:
    (change,) = planned("crio", CRIO, {FILE: text}).changes
    assert change["path"] == f"{CRIO_D}/90-gpufleet.conf"
