# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A secret at any place that is not listed of what engines and programs tell: it does not leave the
host, and the plan is the same.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import causes as node_causes
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import selection
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.rpc import cri_queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import causes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    output_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    daemons,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    config as crio_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    config as docker_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    kubelet_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    told_words,
)
from hypothesis import given
from hypothesis import strategies as st

# What a password, a token or a key may look like: the first sort could be taken for a name, the
# second has a shape of nothing.
WORDS = st.from_regex(r"\AZq[A-Za-z0-9]{10,24}\Z")
SECRETS = (
    WORDS
    | WORDS.map("user:{}@host".format)
    | WORDS.map("https://{}@host/p?token=x".format)
    | WORDS.map('"{}" \\x1b'.format)
)
ODD = WORDS.map("pw={}".format) | WORDS.map("https://user:{}@host".format)

CONTAINERD = {
    "enableCDI": True,
    "cdiSpecDirs": ["/etc/cdi", "/var/run/cdi"],
    "containerd": {
        "defaultRuntimeName": "runc",
        "runtimes": {
            "runc": {
                "runtimeType": "io.containerd.runc.v2",
                "options": {"BinaryName": "/usr/bin/runc", "SystemdCgroup": True},
            }
        },
    },
    "registry": {
        "configs": {"r": {"auth": {}}},
        "mirrors": {"docker.io": {"endpoint": []}},
        "headers": {},
    },
}
CRIO = {
    "crio": {
        "DefaultRuntime": "crun",
        "HooksDir": ["/usr/share/containers/oci/hooks.d"],
        "Runtimes": {
            "crun": {
                "RuntimePath": "/usr/bin/crun",
                "MonitorEnv": ["PATH=/usr/bin:/bin"],
                "MonitorCgroup": "system.slice",
            }
        },
        "DefaultEnv": [],
    }
}
INFO = {
    "ServerVersion": "26.1.5",
    "DefaultRuntime": "runc",
    "Runtimes": {"runc": {"path": "runc"}},
    "CDISpecDirs": [],
    "Labels": [],
    "RegistryConfig": {"Mirrors": [], "IndexConfigs": {"docker.io": {}}},
    "Swarm": {"LocalNodeState": "inactive", "Cluster": {}},
}
TOLD = [
    ({"config": CONTAINERD}, output_places.STATUS),
    ({"config": CRIO}, output_places.STATUS),
    (INFO, output_places.HTTP["/info"]),
    ([{"Names": ["/web"], "Id": "ab", "Labels": {}}], output_places.HTTP["/containers/json"]),
]


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every table and list of a structure."""
    below = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    found = [place for key, value in below for place in places(value, (*path, key))]
    return [path, *found] if isinstance(data, dict | list) else []


def planted(data: Any, path: tuple[Any, ...], key: str, value: Any) -> Any:
    """The structure with one value more in the table or list at that path."""
    made = copy.deepcopy(data)
    spot = made
    for step in path:
        spot = spot[step]
    if isinstance(spot, dict):
        spot[key] = value
    else:
        spot.append(value)
    return made


@given(st.data(), SECRETS, st.sampled_from(["note", "password", "Env", "x.y/z"]))
@pytest.mark.parametrize("what", range(len(TOLD)))
def test_a_value_at_a_place_that_is_not_listed_does_not_travel(
    what: int, data: st.DataObject, secret: str, key: str
) -> None:
    told, keep = TOLD[what]
    path = data.draw(st.sampled_from(places(told)))
    value = data.draw(st.sampled_from([secret, [secret], {"a": secret}, {"a": [{"b": secret}]}]))
    with_it = planted(told, path, key, value)
    spot = with_it
    for step in path:
        spot = spot[step]
    shown = selection.select(with_it, keep)
    if isinstance(spot, dict):
        # A handler that is new is a listed name, and a table in it is looked into; nothing else of
        # what was planted may show.
        assert secret not in json.dumps(shown)
    elif selection.get_listed_shape(keep, [str(step) for step in path]) is None:
        assert secret not in json.dumps(shown)


@given(st.data(), ODD)
@pytest.mark.parametrize("what", range(len(TOLD)))
def test_a_value_of_no_shape_does_not_travel_from_any_place(
    what: int, data: st.DataObject, secret: str
) -> None:
    told, keep = TOLD[what]
    path = data.draw(st.sampled_from(places(told)))
    shown = selection.select(
        planted(
            told,
            path,
            data.draw(st.sampled_from([secret, "BinaryName", "path", "Names", "cdiSpecDirs"])),
            secret,
        ),
        keep,
    )
    assert secret not in json.dumps(shown)


@given(SECRETS)
def test_what_is_read_of_a_status_is_the_same_with_a_secret_in_it(secret: str) -> None:
    more = {
        "registry": {"configs": {"r": {"auth": {"password": secret}}}},
        "imageDecryption": {"keyModel": secret},
    }
    without = selection.select(
        {"config": {**CONTAINERD, **dict.fromkeys(more, {})}}, output_places.STATUS
    )
    assert selection.select({"config": {**CONTAINERD, **more}}, output_places.STATUS) == without


FLAGS = {
    "containerd": (daemons.READ_FLAGS, ["/usr/bin/containerd", "--config", "/etc/x.toml"]),
    "crio": (crio_config.READ_FLAGS, ["/usr/bin/crio", "--listen=/run/x.sock"]),
    "dockerd": (docker_config.READ_FLAGS, ["/usr/bin/dockerd", "-H", "fd://", "--live-restore"]),
    "kubelet": (
        kubelet_facts.READ_FLAGS,
        ["/usr/bin/kubelet", "--config=/var/lib/kubelet/config.yaml"],
    ),
}


@pytest.mark.parametrize("name", FLAGS)
@given(
    SECRETS,
    st.sampled_from(["--http-proxy={}", "--log-opt {}", "--token={}", "-p {}", "--label a={}"]),
    st.integers(1, 3),
)
def test_a_flag_that_is_not_read_does_not_travel(
    name: str, secret: str, flag: str, at: int
) -> None:
    flags, argv = FLAGS[name]
    words = flag.format(secret).split(" ", 1)
    cut = len(argv) if at >= len(argv) or not argv[at].startswith("-") else at
    with_it = selection.select_arguments([*argv[:cut], *words, *argv[cut:]], flags)
    assert secret not in json.dumps(with_it)
    assert [*with_it[:cut], *with_it[cut + len(words) :]] == selection.select_arguments(argv, flags)


LINES = [
    "level=fatal msg=\"login failed: password={}\"", "toml: line 7: {}", "{}", "failed to load plugin io.containerd.grpc.v1.cri: {}",
    "Failed to fetch https://user:{}@mirror/x", "the following directives don't match any configuration option: a, {}",
    "invalid runtime_path for runtime '{}'", "unresolvable CDI devices {}", "no runtime for \"{}\" is configured: auth={}",
]  # fmt: skip


@given(ODD, st.sampled_from(LINES))
def test_a_line_of_a_log_or_a_validator_does_not_travel(secret: str, line: str) -> None:
    text = f"Starting x\n{line.replace('{}', secret)}\nx.service: Failed with result 'exit-code'."
    told = [
        node_causes.recognise_causes(text, causes.build_cause_table()),
        node_causes.recognise_causes(
            node_causes.find_last_failure(text), causes.build_cause_table()
        ),
    ]
    assert secret not in json.dumps(told)
    assert secret not in node_causes.extract_known_phrases(text, told_words.PHRASES)
    assert secret not in causes.describe_causes(told[0])


@given(SECRETS)
def test_the_sentences_of_a_status_do_not_travel(secret: str) -> None:
    condition = {
        "type": "NetworkReady",
        "status": False,
        "reason": f"not {secret}",
        "message": secret,
    }
    found = {
        "service": "s",
        "runtime": {},
        "conditions": [condition],
        "handlers": ["runc"],
        "info": {"config": {"note": secret}, "x": secret},
    }
    assert secret not in json.dumps(cri_queries.select_status(found, output_places.STATUS))
