# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the checks of a change of CRI-O: `crio config` reads the staged files, and CRI is asked after
the restart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    transaction,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    toml,
    toml_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Instance,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    crio_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    config,
    messages,
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    facts as crio_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    plan as crio_plan,
)


def stage_crio_files(facts: crio_facts.CrioFacts) -> tuple[transaction.Staged, ...]:
    """Return what is staged for the check: the main file, if there is one, and the drop-ins."""
    where = facts.where.value
    main: tuple[transaction.Staged, ...] = (
        ({"name": "crio.conf", "source": where.config},)
        if facts.files.by_path.get(where.config).exists
        else ()
    )
    return (*main, {"name": "crio.conf.d", "source": where.directory, "tree": True})


def validate_staged_crio(
    facts: crio_facts.CrioFacts, instance: Instance, desired: crio_plan.DesiredCrio, gone: list[str]
) -> tuple[transaction.Validator, ...]:
    """Build the check by `crio config` on the staged tree: its output may change in our keys alone.

    gone: patterns for lines of the files that are taken over.
    """
    where, layers = facts.where.value, facts.files.loaded.value
    main = facts.files.by_path.get(where.config)
    return (
        {
            "argv": [
                instance.binary,
                "--config",
                "{stage}/crio.conf" if main.exists else "",
                "--config-dir",
                "{stage}/crio.conf.d",
                "config",
            ],
            "timeout": 30,
            "baseline": [instance.binary, *config.list_crio_config_flags(where, main), "config"],
            "refuse": [{"pattern": r"level=(?:error|fatal)", "says": messages.LOGS_ERROR.fill()}],
            "names": [
                *crio_places.HANDLER_FIELDS,
                "default_runtime",
                "hooks_dir",
                "cdi_spec_dirs",
                "cgroup_manager",
                "conmon_cgroup",
                "listen",
            ],
            "allow": [
                *list_allowed_crio_lines(crio_plan.own_layer(layers, where), desired),
                *list_allowed_monitor_lines(layers),
                *gone,
            ],
            "why": messages.CRIO_CHECKED.fill(),
            "process": instance.process,
        },
    )


def list_allowed_crio_lines(
    written: config.Layer | None, desired: crio_plan.DesiredCrio
) -> list[str]:
    """Return patterns for lines of `crio config` that may come or go.

    If all handlers are built-in, CRI-O prints them as comments. A new handler uncomments them.
    """
    # A handler of our name from another owner is replaced: its lines go as well.
    named = [
        *desired.bases.values(),
        *desired.handlers.items(),
        *(written.handlers if written else {}).items(),
    ]
    lines = ["", "# ", r"(?:# )?default_runtime = .*"]
    for name, table in named:
        lines.append(rf"(?:# )?\[crio\.runtime\.runtimes\.{re.escape(name)}\]")
        lines.extend(allow_value_pattern(k, v) for k, v in table.items())
    # Keys that the template prints of every handler, set or not; the last two are filled in by
    # CRI-O.
    lines += [rf'(?:# )?{key} = (?:""|false|\[)' for key in crio_places.HANDLER_FIELDS] + [
        r"(?:# )?\]"
    ]
    lines += [r'(?:# )?(?:monitor_cgroup|container_min_memory) = "[^"]*"']
    if desired.cdi_dirs or (written and "cdi_spec_dirs" in written.runtime):
        lines += [r"(?:# )?cdi_spec_dirs = .*", r'(?:# )?\s*"/[^"]*",']
    return lines


def list_allowed_monitor_lines(layers: tuple[config.Layer, ...]) -> list[str]:
    """Return patterns for the deprecated global settings of conmon.

    CRI-O copies them to every handler, the new one included (TranslateMonitorFields).
    """
    said: dict[str, Any] = {}
    for layer in layers:
        said.update(
            {
                key: value
                for key, value in layer.runtime.items()
                if key in crio_places.GLOBAL_MONITOR and value
            }
        )
    return [
        allow_value_pattern(crio_places.GLOBAL_MONITOR[key], value) for key, value in said.items()
    ]


def allow_value_pattern(key: str, value: Any) -> str:
    """Return a pattern for the lines that `crio config` prints of a key with this value."""
    # an item of a list is on a line of its own, with any quotes in it
    if isinstance(value, toml_file.Hidden):
        return rf'(?:# )?(?:{re.escape(key)} = .*|\s*".*",?)'
    if isinstance(value, Mapping):
        # as its template prints a map
        pairs = ",".join(
            f"{toml.dump_toml_value(k)} = {toml.dump_toml_value(v)}"
            for k, v in sorted(value.items())
        )
        return rf"(?:# )?{re.escape(key)} = {re.escape('{' + pairs + '}')}"
    if isinstance(value, (list, tuple)):
        return (
            r"(?:# )?\s*(?:" + "|".join(re.escape(toml.dump_toml_value(v)) for v in value) + "),?"
        )
    return rf"(?:# )?{re.escape(key)} = {re.escape(toml.dump_toml_value(value))}"


def build_crio_health_check(
    instance: Instance, version: tuple[int, int], desired: crio_plan.DesiredCrio | None
) -> tuple[transaction.Cri, ...]:
    """Require that CRI-O serves again and reports the handlers."""
    require: list[transaction.HealthNeed] = []
    if desired is None:
        return (
            {
                "kind": "cri",
                "socket": instance.socket,
                "timeout": traits.SERVES_WITHIN,
                "require": require,
            },
        )
    if version >= releases.HANDLER_LIST_SINCE:
        require += [{"handler": name} for name in desired.handlers]
    if version >= releases.STATUS_CONFIG_SINCE:
        runtime = ["config", "crio"]
        require += [
            {"path": [*runtime, "Runtimes", n, "RuntimePath"], "equals": t["runtime_path"]}
            for n, t in desired.handlers.items()
        ]
        if desired.default:
            require.append({"path": [*runtime, "DefaultRuntime"], "equals": desired.default})
    return (
        {
            "kind": "cri",
            "socket": instance.socket,
            "timeout": traits.SERVES_WITHIN,
            "require": require,
        },
    )
