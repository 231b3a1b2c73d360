# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the parts of a CDI spec that leave a host, place by place with the shape of the value.

These are the parts that this collection judges. Stand-ins replace all other parts. Values of `env`,
annotations, unknown fields and comments are hidden. So are arguments of hooks, except the arguments
that NVIDIA's own hooks know. The host makes the stand-ins
(module_utils/_host/projection/documents.py); they break and keep the same rules as what they stand
for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import JOURNAL_DIR
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view.lookup import (
    SUFFIXES,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.lint import (
    document_rules,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import writer

# Variables whose values are judged or written by us; of others only the name and whether there is a
# value travel.
VARIABLES = {
    "NVIDIA_VISIBLE_DEVICES": "one of void", "NVIDIA_CTK_LIBCUDA_DIR": "path", "NVIDIA_CTK_DEBUG": "switch",
    "CUDA_MPS_PIPE_DIRECTORY": "path", "CUDA_MPS_LOG_DIRECTORY": "path",
}  # fmt: skip
# which keys are NVIDIA's own is judged, and nothing else of them
ANNOTATION = [
    "hidden",
    "qualified name",
    ["nvidia.com"],
]
ENV = ["split", "=", "variable", VARIABLES]
# Of NVIDIA's own programs the command (there are more of them with each release) and flags with the
# shape of their value (cmd/nvidia-cdi-hook in NVIDIA/nvidia-container-toolkit).
COMMANDS = {"nvidia-cdi-hook": 1, "nvidia-ctk": 2}
FLAGS = {
    "hook": "name",
    "--link": "link", "--folder": "path", "--path": "path", "--mode": "number", "--host-driver-version": "version",
    "--host-cuda-version": "version", "--ldconfig-path": "path", "--cuda-compat-container-root": "path", "--driver-root": "path",
    "--gpu-id": "numbered name",
}  # fmt: skip
EDITS: Mapping[tuple[str, ...], Any] = {
    ("env", "[]"): ENV,
    **{("deviceNodes", "[]", key): "path" for key in ("path", "hostPath")},
    ("deviceNodes", "[]", "type"): "one of b|c|u|p",
    ("deviceNodes", "[]", "permissions"): "access",
    **{
        ("deviceNodes", "[]", key): "number" for key in ("major", "minor", "fileMode", "uid", "gid")
    },
    **{("netDevices", "[]", key): "name" for key in ("hostInterfaceName", "name")},
    ("hooks", "[]", "hookName"): "one of " + "|".join(releases.HOOKS),
    ("hooks", "[]", "path"): "program",
    ("hooks", "[]", "args"): ["arguments", FLAGS, "path", COMMANDS],
    ("hooks", "[]", "env", "[]"): ENV,
    ("hooks", "[]", "timeout"): "number",
    ("mounts", "[]", "hostPath"): "program",
    ("mounts", "[]", "containerPath"): "path",
    ("mounts", "[]", "type"): "name",
    ("mounts", "[]", "options", "[]"): "one of " + "|".join(sorted(document_rules.OPTIONS)),
    ("intelRdt", "closID"): "name",
    **{("intelRdt", key): ["hidden", "name", []] for key in ("l3CacheSchema", "memBwSchema")},
    ("intelRdt", "schemata", "[]"): ["hidden", "name", []],
    **{("intelRdt", key): "bool" for key in ("enableMonitoring", "enableCMT", "enableMBM")},
    ("additionalGids", "[]"): "number",
}
PLACES: Mapping[tuple[str, ...], Any] = {
    ("cdiVersion",): "version",
    ("kind",): ["split", "/", "name", {"*": "name"}],
    ("annotations", "*"): ANNOTATION,
    ("devices", "[]", "name"): "numbered name",
    ("devices", "[]", "annotations", "*"): ANNOTATION,
    **{("containerEdits", *path): shape for path, shape in EDITS.items()},
    **{("devices", "[]", "containerEdits", *path): shape for path, shape in EDITS.items()},
}
KEEP: Mapping[str, Any] = {
    "format": "document",
    "places": [[list(path), shape] for path, shape in PLACES.items()],
    "comments": [writer.HEADER.rstrip("\n")],
    # a spec that is as this collection wrote it is shown as it is, without being read place by
    # place
    "journal": JOURNAL_DIR,
}


def ask_for_specs(
    directory: str, directories: Iterable[str], known: Sequence[str] = ()
) -> queries.Question:
    """Ask for a CDI directory.

    The answer has all that is in it by kind and mode, and what engines read of it if that lies in
    one of the directories.
    """
    # a spec of eight GPUs, all cut up, takes a fifth of it
    question = queries.ask_for_glob(f"{directory.rstrip('/')}/*", KEEP, max=1 << 20)
    return narrow_spec_question(question, directories, known)


def narrow_spec_question(
    question: queries.Question, directories: Iterable[str], known: Sequence[str] = ()
) -> queries.Question:
    """Return the question, for which only specs in these directories are read, and only what may
    travel.

    known: paths that the asker itself has given, so it knows the names in them.
    """
    keep = {**KEEP, "known": sorted({name for path in known for name in path.split("/") if name})}
    return {**question, "keep": keep, "names": list(SUFFIXES), "inside": list(directories)}
