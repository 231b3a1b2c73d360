# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster in a file, for playbooks that are played: what stands for kubernetes.core keeps objects
as server-side apply does, and writes down what was applied, with the hosts that were converged by
then. The kubeconfig is that file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

# Modules of the kind that reads a file of JSON. They import nothing of Ansible, whose import took
# more time than all else in these rollouts.
MODULE = """#!/usr/bin/python
# WANT_JSON
import json, os, sys

def main():
    with open(sys.argv[1]) as stream:
        told = json.load(stream)
    given = {name: value for name, value in told.items() if not name.startswith("_ansible_")}
    unknown = sorted(set(given) - set(OPTIONS))
    if unknown:
        fail("Unsupported parameters: %s" % ", ".join(unknown))
    given, path = {**dict.fromkeys(OPTIONS), **given}, told["kubeconfig"]
    if not os.path.exists(path):
        fail("Failed to get client: Connection refused: Max retries exceeded with url: /version")
    with open(path) as stream:
        state = json.load(stream)
    print(json.dumps(act(told.get("_ansible_check_mode"), given, state, path)))

def fail(words):
    print(json.dumps({"failed": True, "msg": words}))
    sys.exit(1)

def keys(part):
    return {"f:%s" % key: {} for key in part}

def converged(path):
    trees = os.path.join(os.path.dirname(path), "trees")
    marks = [os.path.join(trees, host, "etc/containerd/config.toml") for host in sorted(os.listdir(trees))]
    return [mark.split(os.sep)[-4] for mark in marks if WORD in open(mark).read()]
"""
INFO = """
OPTIONS = ["kubeconfig", "context", "api_version", "kind", "name", "namespace", "label_selectors"]

def act(check_mode, given, state, path):
    default = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "default"}}
    spaces = [o["metadata"]["name"] for o in [default, *state["objects"]] if o["kind"] == "Namespace"]
    of_all = [{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "kube-root-ca.crt", "namespace": space}} for space in spaces]
    found = [o for o in [default, *state["objects"], *of_all] if o["kind"] == given["kind"]]
    if given.get("name"):
        found = [o for o in found if o["metadata"]["name"] == given["name"]]
    return {"resources": found, "api_found": True, "changed": False}
"""
APPLY = """
OPTIONS = ["kubeconfig", "context", "resource_definition", "apply", "server_side_apply"]

def act(check_mode, given, state, path):
    if check_mode:
        if state.get("refuses"):
            fail(state["refuses"])
        return {"changed": True}
    for wanted in given["resource_definition"] or []:
        name = wanted["metadata"]["name"]
        there = [o for o in state["objects"] if (o["kind"], o["metadata"]["name"]) == (wanted["kind"], name)]
        one = there[0] if there else {"kind": wanted["kind"], "apiVersion": wanted["apiVersion"], "metadata": {"name": name}}
        if not there:
            state["objects"].append(one)
        old = (one["metadata"].get("managedFields") or [{"fieldsV1": {"f:metadata": {}}}])[0]["fieldsV1"]["f:metadata"]
        fields = {}
        for part in ("labels", "annotations"):
            mine = [key[2:] for key in old.get("f:" + part, {})]
            kept = {k: v for k, v in (one["metadata"].get(part) or {}).items() if k not in mine}
            one["metadata"][part] = {**kept, **(wanted["metadata"].get(part) or {})}
            fields["f:" + part] = keys(wanted["metadata"].get(part) or {})
        if wanted["metadata"].get("namespace"):
            one["metadata"]["namespace"] = wanted["metadata"]["namespace"]
        one["metadata"]["managedFields"] = [
            {"manager": given["server_side_apply"]["field_manager"], "operation": "Apply", "fieldsV1": {"f:metadata": fields}}]
        one.update({k: v for k, v in wanted.items() if k not in ("metadata", "kind", "apiVersion")})
        label = (one["metadata"]["labels"] or {}).get("nvidia.com/device-plugin.config", "")
        maps = [o for o in state["objects"] if o["kind"] == "ConfigMap"]
        text = (maps[0].get("data") or {}).get(label, "") if maps else ""
        state["log"].append({"kind": wanted["kind"], "name": name, "config": text, "converged": converged(path)})
    with open(path, "w") as stream:
        json.dump(state, stream)
    return {"changed": True}
"""
END = "\nmain()\n"


def start(place: Path, nodes: list[str], word: str) -> Path:
    """Make the cluster, and return its kubeconfig.

    word: what a converged host has in its containerd's configuration.
    """
    modules = place / "stub/ansible_collections/kubernetes/core/plugins/modules"
    modules.mkdir(parents=True)
    for name, text in (("k8s_info", INFO), ("k8s", APPLY)):
        (modules / f"{name}.py").write_text(MODULE + f"\nWORD = {word!r}\n" + text + END)
    path = place / "cluster.json"
    found: list[dict[str, Any]] = [
        {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "uid": name}}
        for name in nodes
    ]
    path.write_text(json.dumps({"objects": found, "log": []}))
    return path


def log(path: Path) -> list[dict[str, Any]]:
    """Return what was applied since the last call."""
    state = json.loads(path.read_text())
    path.write_text(json.dumps({**state, "log": []}))
    return list(state["log"])
