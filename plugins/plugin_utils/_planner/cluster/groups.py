# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Group hosts with equal decisions, and build the device plugin's file for each group.

The label of a node names its file of the plugin. The plugin's sidecar looks at that label alone, so
it does not notice that the content of a file has changed (k8s-device-plugin v0.20,
cmd/config-manager/main.go). So the name of a group follows from its file's content: if the content
changes, the label does, and the sidecar has the plugin read it.
"""

from __future__ import annotations

import dataclasses as dc
import hashlib
import json
from collections.abc import Collection, Iterable
from typing import Any

import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster.members import (
    ClusterMember,
    MemberSetting,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import yaml_text
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import by_plugin

DIGITS = 8
RESOURCE = "nvidia.com/gpu"
POLICIES: dict[by_plugin.PluginPolicy, str] = {"time_slicing": "timeSlicing", "mps": "mps"}
# The reason in the plugin's file. It is true for all hosts of a group, including hosts that this
# run knows nothing of.
ABOUT = {
    "native-cdi": "the engine resolves CDI devices itself",
    "nvidia-runtime": "the engine cannot resolve CDI devices, so the NVIDIA runtime does it in cdi mode",
    "legacy": "CDI is not wanted, so the NVIDIA runtime injects GPUs through its prestart hook",
    "oci-hook": "CDI is not wanted, and the engine runs the OCI hook by itself",
    "jit-cdi": "the NVIDIA runtime makes a CDI spec in memory for each container",
}


@dc.dataclass(frozen=True)
class Group:
    """A group of hosts that Kubernetes can treat alike. text: the device plugin's configuration."""

    name: str
    setting: MemberSetting
    injection: str
    handler: str
    default: bool
    text: str
    members: tuple[ClusterMember, ...]

    @property
    def hosts(self) -> str:
        return names.show_some_runs(m.host for m in self.members)

    @property
    def title(self) -> str:
        return f"{self.name} ({self.hosts})"


def group_members(
    members: Iterable[ClusterMember], fixed: Collection[str] = ()
) -> tuple[Group, ...]:
    """Group the members with equal decisions and settings, sorted by the groups' names.

    fixed: keys of the plugin's file that the cluster sets as environment. The environment ranks
    above the file, so the file leaves these keys out.
    """
    groups: dict[tuple[Any, ...], list[ClusterMember]] = {}
    for m in members:
        groups.setdefault((m.injection, m.handler, m.default, m.setting), []).append(m)
    made = [_group(same, fixed) for same in groups.values()]
    return tuple(sorted(made, key=lambda group: group.name))


def _group(same: list[ClusterMember], fixed: Collection[str]) -> Group:
    first = same[0]
    text = f"# {ABOUT[first.injection]}\n{build_plugin_document(first.setting, fixed)}"
    # The whole decision, so that groups whose files are equal have names of their own: their
    # RuntimeClass may differ.
    content = json.dumps(
        [first.injection, first.handler, first.default, shorten_group_setting(first.setting), text],
        sort_keys=True,
    )
    name = f"{first.injection}-{hashlib.sha256(content.encode()).hexdigest()[:DIGITS]}"
    members = tuple(sorted(same, key=lambda m: names.build_natural_key(m.host)))
    return Group(name, first.setting, first.injection, first.handler, first.default, text, members)


def shorten_group_setting(setting: MemberSetting) -> dict[str, Any]:
    """Return a setting as it goes into the name of a group.

    The names of its fields must stay as they are: with another name, all nodes would get other
    labels.
    """
    fields = dc.asdict(setting)
    if fields["replicas"]:
        fields["replicas"]["flavor"] = fields["replicas"].pop("policy")
        if not fields["replicas"]["allocation"]:  # groups from before it keep their names
            del fields["replicas"]["allocation"]
    return fields


def build_plugin_document(setting: MemberSetting, fixed: Collection[str] = ()) -> str:
    """Build the device plugin's file (`version: v1`, api/config/v1 of its source).

    A key that is left out has the plugin's default.
    """
    plugin = {
        "deviceListStrategy": list(setting.strategies),
        "deviceIDStrategy": setting.device_ids,
        "cdiAnnotationPrefix": setting.prefix,
        "nvidiaCTKPath": setting.hook,
        "sharedDevicesAllocationPolicy": setting.replicas.allocation if setting.replicas else "",
    }
    flags = {
        "migStrategy": setting.mig,
        "nvidiaDriverRoot": setting.driver_root,
        "nvidiaDevRoot": setting.dev_root,
    }
    kept = {key: value for key, value in flags.items() if value and key not in fixed}
    inner = {key: value for key, value in plugin.items() if value and key not in fixed}
    whole = {
        "version": "v1",
        "flags": {**kept, **({"plugin": inner} if inner else {})},
        **build_plugin_sharing(setting),
    }
    return yaml.safe_dump({key: value for key, value in whole.items() if value}, sort_keys=False)


def list_file_strategies(text: str) -> tuple[str, ...]:
    """Return the device list strategies of a file of the plugin; () if the file sets none or cannot
    be read.
    """
    try:
        value = yaml_text.read_bounded_yaml(text)
    except yaml_text.YamlError:
        return ()
    for key in ("flags", "plugin", "deviceListStrategy"):
        value = value.get(key) if isinstance(value, dict) else None
    said = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    # a few lines can make a list of lists of any size
    return tuple(name for name in said if isinstance(name, str))


def build_plugin_sharing(setting: MemberSetting) -> dict[str, Any]:
    """Build `sharing` of the plugin's file: how pods share the GPUs of a group. {} if they share
    none.

    No environment ranks above it. With MPS, the plugin itself divides memory and threads by the
    number.
    """
    of = setting.replicas
    if of is None:
        return {}
    known = {"renameByDefault": of.rename or None, "failRequestsGreaterThanOne": of.fail}
    said = {key: value for key, value in known.items() if value is not None}
    return {
        "sharing": {
            POLICIES[of.policy]: {**said, "resources": [{"name": RESOURCE, "replicas": of.number}]}
        }
    }
