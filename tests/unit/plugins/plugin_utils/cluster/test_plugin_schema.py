# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each file that is rendered for the device plugin is one that its release documents;
tests/fixtures has the schema.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import (
    groups,
    helm,
    members,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    device_plugin,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing.by_plugin import (
    MOST_CLIENTS,
    POLICIES,
    Replicas,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.schemas import judged

SCHEMA: dict[str, Any] = yaml.safe_load(
    (Path(__file__).resolve().parents[4] / "fixtures/device-plugin-v1.schema.yml").read_text()
)
PATHS = ("", "/", "/run/nvidia/driver", "/home/kubernetes/bin/nvidia", "/opt/a: b # c")
SETTINGS = st.builds(
    members.MemberSetting,
    strategies=st.lists(st.sampled_from(device_plugin.KNOWN), min_size=1, unique=True).map(tuple),
    prefix=st.sampled_from(members.PREFIXES),
    device_ids=st.sampled_from(members.DEVICE_IDS),
    mig=st.sampled_from(members.MIG),
    driver_root=st.sampled_from(PATHS),
    dev_root=st.sampled_from(PATHS),
    hook=st.sampled_from(PATHS),
    replicas=st.none()
    | st.builds(
        Replicas,
        policy=st.sampled_from(POLICIES),
        number=st.integers(2, MOST_CLIENTS),
        rename=st.booleans(),
        fail=st.sampled_from([None, True, False]),
    ),
)
FIXED = [
    helm.list_fixed_plugin_keys(helm.CHART, {}),
    *(
        helm.list_fixed_plugin_keys(helm.OPERATOR, helm.get_plugin_environment(given))
        for given in ({}, {"MIG_STRATEGY": ""})
    ),
]


@given(SETTINGS, st.sampled_from(FIXED))
def test_what_is_rendered_is_what_the_plugin_documents(
    setting: members.MemberSetting, fixed: frozenset[str]
) -> None:
    assert judged(yaml.safe_load(groups.build_plugin_document(setting, fixed)), SCHEMA) == []


REFUSED = {
    "{version: v2}": ": 'v2'",
    "{flags: {}}": ": no version",
    "{version: v1, strategy: envvar}": ": strategy is unknown",
    "{version: v1, flags: {deviceListStrategy: [envvar]}}": ".flags: deviceListStrategy is unknown",
    "{version: v1, flags: {plugin: {deviceListStrategy: 'envvar,cdi-annotations'}}}": ".flags.plugin.deviceListStrategy: no array",
    "{version: v1, flags: {plugin: {deviceListStrategy: [cdi]}}}": ".flags.plugin.deviceListStrategy[0]: 'cdi' is none of the values",
    "{version: v1, flags: {plugin: {deviceListStrategy: []}}}": ".flags.plugin.deviceListStrategy: too short",
    "{version: v1, sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 1}]}}}": "replicas: less than 2",
    "{version: v1, sharing: {mps: {resources: [{name: nvidia.com/gpu, devices: all, replicas: 2}]}}}": "devices is unknown",
    "{version: v1, imex: {channelIDs: [1]}}": ".imex.channelIDs[0]: 1",
}


@pytest.mark.parametrize(("text", "said"), REFUSED.items())
def test_the_schema_refuses_what_the_plugin_refuses_or_reads_over(text: str, said: str) -> None:
    (sentence,) = judged(yaml.safe_load(text), SCHEMA)
    assert said in sentence
