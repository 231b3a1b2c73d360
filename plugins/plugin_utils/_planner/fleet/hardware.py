# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the hardware class of a host. Hosts of one class fail alike, so one of them is tried first.

A class and a failure domain are the values at key paths, in what the look at a host found and in
its variables.
"""

from __future__ import annotations

import dataclasses as dc
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import escape
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import messages

CLASS = ("engine", "injection", "gpu.model", "driver.branch", "os.release")
NONE = "-"
PATH = re.compile(r"[A-Za-z_][\w-]*(\.[\w-]+)*")
LONGEST = 200


def build_class_view(result: Mapping[str, Any]) -> dict[str, Any]:
    """Build what key paths read of a host: the parts of a class by short names, and its whole
    result under `result`.
    """
    driver = result.get("driver") or {}
    system = result.get("os") or {}
    models = sorted(
        {
            str(g.get("model") or "").removeprefix("NVIDIA ") or "GPU"
            for g in driver.get("gpus") or ()
        }
    )
    version = str(driver.get("version") or "")
    return {
        "engine": describe_configured_engines(result) or NONE,
        "injection": ", ".join(
            sorted({str(d.get("injection")) for d in list_class_decisions(result)})
        )
        or NONE,
        "gpu": {"model": ", ".join(models) or NONE, "count": len(driver.get("gpus") or ())},
        "driver": {
            "branch": version.partition(".")[0] or NONE,
            "version": version or NONE,
            "state": str(driver.get("state") or NONE),
        },
        "os": {
            "id": str(system.get("id") or NONE),
            "release": " ".join(filter(None, (system.get("id"), system.get("version")))) or NONE,
        },
        "result": result,
    }


def list_class_decisions(result: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the decisions about a host's engines; () if there are none."""
    return (result.get("decision") or {}).get("decisions") or ()


def describe_configured_engines(result: Mapping[str, Any]) -> str:
    """Return the engines that are configured, as `containerd 1.7 (package)`, with commas between
    them.
    """
    engines = set()
    for instance in list_chosen_instances(result):
        release = ".".join(str(instance.get("version") or "").split(".")[:2])
        engines.add(f"{instance.get('engine')} {release} ({instance.get('manager')})")
    return ", ".join(sorted(engines))


def list_chosen_instances(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """List the engine instances that have a decision."""
    keys = {str(d.get("instance")) for d in list_class_decisions(result)}
    return [instance for instance in result.get("instances") or () if instance.get("key") in keys]


def list_running_engines(result: Mapping[str, Any]) -> tuple[str, ...]:
    """List the keys of the chosen engines that run. Podman has no daemon, so it never does."""
    return tuple(
        str(instance["key"])
        for instance in list_chosen_instances(result)
        if instance.get("running")
    )


def require_paths(setting: str, paths: Sequence[str]) -> tuple[str, ...]:
    """Return the user's key paths as text. Raise PlanError for one that has not the form of a key
    path.
    """
    wrong = [str(p) for p in paths if not PATH.fullmatch(str(p))]
    if wrong:
        raise PlanError(
            messages.NO_KEY_PATH.fill(setting=setting, paths=", ".join(map(repr, wrong)))
        )
    return tuple(str(p) for p in paths)


def get_value_at_path(
    path: str, seen: Mapping[str, Any], variables: Mapping[str, Any]
) -> str | None:
    """Return the value at a key path as text, None if it is nowhere.

    It is looked up in the look if its first key is there, else in the host's variables.
    """
    first, *rest = path.split(".")
    value: Any = seen[first] if first in seen else variables.get(first)
    for key in rest:
        if isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(value, Sequence) and not isinstance(value, str) and key.isdigit():
            value = value[int(key)] if int(key) < len(value) else None
        else:
            return None
    return None if value is None else shorten_class_text(str(value))


def shorten_class_text(text: str) -> str:
    """Return the text without templates. Cut it after LONGEST characters, with a digest of the
    whole behind it.

    A class is the key of an approval, which the next run gets as a variable. The digest keeps two
    classes apart that differ only behind the cut.
    """
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}... ({hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:12]})"
    return escape.replace_braces(text)


@dc.dataclass(frozen=True)
class Label:
    """The values of one host at the key paths of one setting."""

    values: tuple[str, ...]

    @property
    def text(self) -> str:
        return ", ".join(v for v in self.values if v != NONE) or NONE


def map_class_labels(
    setting: str,
    paths: Sequence[str],
    seen: Mapping[str, Mapping[str, Any]],
    variables: Mapping[str, Mapping[str, Any]],
) -> dict[str, str]:
    """Map each host to the text of its values.

    Raise PlanError for a key path that no host has, since it is misspelt.
    """
    labels = {
        host: {path: get_value_at_path(path, view_, variables.get(host) or {}) for path in paths}
        for host, view_ in seen.items()
    }
    for path in paths:
        if labels and all(values[path] is None for values in labels.values()):
            row, known = messages.UNKNOWN_KEY_PATH, ", ".join(list_class_paths())
            raise PlanError(row.fill(setting=setting, path=path, known=known))
    return {
        host: Label(tuple(values[path] or NONE for path in paths)).text
        for host, values in labels.items()
    }


def list_class_paths() -> list[str]:
    """List the key paths that every host has."""
    parts = {key: value for key, value in build_class_view({}).items() if key != "result"}
    return [
        f"{key}.{inner}" if inner else key
        for key, value in parts.items()
        for inner in (value if isinstance(value, dict) else [""])
    ]
