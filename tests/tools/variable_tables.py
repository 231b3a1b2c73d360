# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of docs/variables.md and docs/rollout-reference.md: variables by subject, and the
settings of a rollout.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import options
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import arguments
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import variables
from page_table import table

# The page's headings in the order in which people need them, each with the beginnings of the names
# that belong there. The longest counts.
SUBJECTS: Mapping[str, tuple[str, ...]] = {
    "How containers get GPUs": (
        *(
            "engines",
            "injection",
            "isolation",
            "handlers",
            "set_as_default",
            "cdi",
            "no_gpu",
            "adopt",
            "known_bad",
            "state",
            "restart",
        ),
        *("fleet_policy", "sharing", "device_nodes"),
    ),
    "The GPUs of a host": ("gpus", "accepted_findings", "persistence"),
    "The driver": ("driver",),
    "Packages": ("packages", "toolkit_"),
    "Verification": ("verify_",),
    "The CDI spec": ("cdi_",),
    "Kubernetes": ("device_plugin_", "dra", "operator_toolkit", "kubernetes_"),
    "Taking hosts out of service": ("drain", "slurm_node"),
    "Where an engine is, and the way to a host": (
        *(
            "config_path",
            "drop_in",
            "engine_version",
            "service",
            "socket",
            "root",
            "transport",
            "metrics_dir",
        ),
    ),
    "Approved changes": ("rollout_id", "approved_change"),
    "Archives of packages": ("bundle_",),
    "AWX": ("awx_",),
}


# The ten that people need first, each with an example and with the reader who needs it.
FIRST: Mapping[str, tuple[str, str]] = {
    "gpufleet_verify_image": (
        "registry.example.org/tools/busybox:1.37",
        "want each host verified with real containers. The image is on the hosts already",
    ),
    "gpufleet_device_plugin_strategy": (
        "[cdi-cri]",
        "run a Kubernetes device plugin that is configured already",
    ),
    "gpufleet_toolkit_repository": (
        "https://mirror.example.org/nvidia/stable/deb/amd64",
        "take packages from a mirror",
    ),
    "gpufleet_toolkit_key": (
        "\"{{ lookup('ansible.builtin.file', inventory_dir ~ '/group_vars/nvidia.asc') }}\"",
        "name such a mirror, or have a controller without internet",
    ),
    "gpufleet_toolkit_version": ("1.20.2", "want one version of the toolkit on all hosts"),
    "gpufleet_engines": ("[auto, docker]", "want Docker configured on a Kubernetes node as well"),
    "gpufleet_no_gpu": ("fail", "want a host without a GPU to be an error"),
    "gpufleet_gpus": ("8", "want to be told if a host serves fewer GPUs than it should"),
    "gpufleet_isolation": (
        "strict",
        "want no container to get GPUs only because of its image",
    ),
    "gpufleet_restart": ("never", "restart engines yourself, at a time of your own"),
}


def build_first_table() -> str:
    """Return the ten variables that people need first, with their values and an example."""
    known = collect_variables()
    return table(
        ["variable", "values", "for example", "set it if you"],
        [
            [f"`{name}`", show_values(known[name]), f"`{example}`", reader]
            for name, (example, reader) in FIRST.items()
        ],
    )


def find_subject(name: str) -> str:
    """Return the heading of a variable. The longest beginning counts, as `cdi` is not a setting of
    the spec.
    """
    fits = [
        (len(begin), title)
        for title, begins in SUBJECTS.items()
        for begin in begins
        if strip_prefix(name).startswith(begin)
    ]
    if not fits:
        raise SystemExit(
            f"variable_tables.py: {name} has no heading in docs/variables.md; name one in SUBJECTS"
        )
    return max(fits)[1]


def place_in_subject(begins: Sequence[str], name: str) -> int:
    """Return the position of a variable among those of its subject."""
    return next(
        number for number, begin in enumerate(begins) if strip_prefix(name).startswith(begin)
    )


def strip_prefix(name: str) -> str:
    return name.removeprefix("gpufleet_")


def collect_variables() -> dict[str, dict[str, Any]]:
    """Return the documentation of every variable of the roles, by its name."""
    found: dict[str, dict[str, Any]] = {}
    for entries in options.ENTRIES.values():
        for module in entries.values():
            found = {**options.variables(module), **found}
    return found


def build_variable_tables() -> str:
    """Return every variable of the roles by subject, with its values and the beginning of its
    description.
    """
    found = collect_variables()
    parts = []
    for title, begins in SUBJECTS.items():
        of = sorted(name for name in found if find_subject(name) == title)
        of.sort(key=functools.partial(place_in_subject, begins))
        rows = [
            [
                f"`{name}`" + (", on the command line" if name in variables.RUN else ""),
                show_values(found[name]),
                describe_briefly(found[name]),
            ]
            for name in of
        ]
        parts.append(f"## {title}\n\n{table(['variable', 'values', 'what it says'], rows)}")
    return "\n".join(parts)


def build_rollout_settings_table() -> str:
    """Return every setting of a rollout, as the variable that it is."""
    documented = arguments.read_step_documentation("rollout_settings")["options"]
    rows = [
        [
            f"`gpufleet_rollout_{name}`",
            show_default(spec),
            " ".join(
                render_markup(name_settings(sentence, documented))
                for sentence in list_sentences(spec)
            ),
        ]
        for name, spec in sorted(documented.items())
    ]
    return table(["Setting", "Default", "Effect"], rows)


def name_settings(sentence: str, settings: Collection[str]) -> str:
    """Call the settings of a rollout that a sentence names by their variables, as a reader sets
    them.
    """
    return re.sub(
        r"\bO\((\w+)",
        lambda m: f"O(gpufleet_rollout_{m[1]}" if m[1] in settings else m[0],
        sentence,
    )


def show_default(option: Mapping[str, Any]) -> str:
    return f"`{json.dumps(option['default'])}`" if option.get("default") not in (None, "") else ""


def list_sentences(option: Mapping[str, Any]) -> list[str]:
    text = option["description"]
    return [text] if isinstance(text, str) else list(text)


def show_values(option: Mapping[str, Any]) -> str:
    """Return the choices with the default in bold, or else the type and the default."""
    default = option.get("default")
    first = default if isinstance(default, list) else [default]
    if "choices" in option:
        words = ", ".join(
            f"**{show_choice(choice)}**" if choice in first else show_choice(choice)
            for choice in option["choices"]
        )
        return f"list of {words}" if option["type"] == "list" else words
    kind = f"list of {option['elements']}" if option["type"] == "list" else option["type"]
    return (
        kind if default in (None, "", []) else f"{kind}, **`{json.dumps(default).strip(chr(34))}`**"
    )


def show_choice(choice: str) -> str:
    return f"`{choice}`" if choice else "empty"


def describe_briefly(option: Mapping[str, Any]) -> str:
    """Return the beginning of a description. If it begins with the values, all of them belong to
    it, since a reader compares them.
    """
    sentences = list_sentences(option)
    of_values = itertools.takewhile(lambda sentence: sentence.startswith("V("), sentences)
    return render_markup(" ".join(of_values) or sentences[0])


def render_markup(sentence: str) -> str:
    """Turn Ansible's markup into Markdown's."""
    return re.sub(
        r"\b[CEOV]\(((?:[^()]|\([^()]*\))*)\)|\bM\(([^)]*)\)",
        lambda m: f"`{m[1] or m[2]}`",
        sentence,
    ).replace("|", "\\|")
