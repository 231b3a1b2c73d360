# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a setting of the running kubelet where the kubelet takes it from: its flags, its drop-ins,
its file.

A setting that is in none of them has the kubelet's built-in value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import selection
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    host_paths,
    versions,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    json_bounds,
    yaml_text,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import processes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    kubelet_facts,
    messages,
)

GATES = "--feature-gates"
ALL_ALPHA, ALL_BETA = "AllAlpha", "AllBeta"
GO_TRUE = ("1", "t", "true")  # strconv.ParseBool, in small letters
ENDPOINT, ENDPOINT_KEY = "--container-runtime-endpoint", "containerRuntimeEndpoint"
# pkg/kubelet/apis/config/v1beta1/defaults.go, as it is in 1.34. The key itself came with 1.27.
BUILT_IN_ENDPOINT, BUILT_IN_SINCE = "unix:///run/containerd/containerd.sock", (1, 27)


def get_engine_socket(facts: kubelet_facts.KubeletFacts) -> str:
    """Return the socket of the engine in which a running kubelet starts its pods, '' for a kubelet
    whose release has none built in and that nothing sets.

    Raise PlanError if a place that may name it cannot be read.
    """
    argv = facts.argv
    by_kubeadm = facts.kubeadm_flags.value.replace('"', " ").split()
    given = processes.flag(argv, ENDPOINT) or processes.flag(by_kubeadm, ENDPOINT)
    if given == selection.HIDDEN:
        raise build_unread_flag_error(ENDPOINT)
    named = given or next((str(it) for _at, it in list_settings(facts, argv, ENDPOINT_KEY)), "")
    if named:
        return named
    release = versions.parse_engine_version(facts.version.value)
    return BUILT_IN_ENDPOINT if release is None or release.series >= BUILT_IN_SINCE else ""


def get_feature_gate(
    facts: kubelet_facts.KubeletFacts, argv: list[str], name: str, group: str
) -> bool | None:
    """Return the value of a feature gate from the kubelet's flags, otherwise from its files; None if
    none of them sets it.

    group: AllAlpha or AllBeta, the gate that sets all of its stage that are not set by their own
    names (component-base/featuregate). The flag may be given several times, and each time adds to
    the gates. Raise PlanError if a value of it was not sent: any gate may be in it.
    """
    given = processes.flag_values(argv, GATES)
    if selection.HIDDEN in given:
        raise build_unread_flag_error(GATES)
    flags = dict(pair.partition("=")[::2] for value in given for pair in value.split(","))
    if name in flags:
        return flags[name].lower() in GO_TRUE
    every = [
        gates
        for _path, gates in list_settings(facts, argv, "featureGates")
        if isinstance(gates, Mapping)
    ]
    own = next((gates[name] for gates in every if name in gates), None)
    if own is not None:
        return own is True
    if group in flags:
        return flags[group].lower() in GO_TRUE
    stage = next((gates[group] for gates in every if group in gates), None)
    return None if stage is None else stage is True


def list_settings(
    facts: kubelet_facts.KubeletFacts, argv: list[str], key: str
) -> Iterator[tuple[str, Any]]:
    """Yield (path of the file, value) of a setting. The file that counts comes first."""
    for file in _list_files(facts, argv):
        value = _read_setting(file, key)
        if value:
            yield file.path, value


def _list_files(facts: kubelet_facts.KubeletFacts, argv: list[str]) -> Iterator[ObservedFile]:
    """Yield the kubelet's files. The file that counts comes first.

    The order is: drop-ins (`*.conf`, the last in filepath.Walk's order wins), then the file itself.
    """
    folder, main = (_read_path(argv, name) for name in ("--config-dir", "--config"))
    if folder:
        patterns = [f"{folder}/{below}" for below in ("*.conf", "*/*.conf")]
        files = [file for pattern in patterns for file in facts.folders.get(pattern)]
        yield from sorted(files, key=lambda file: file.path.split("/"), reverse=True)
    if main:
        yield facts.files.get(main)


def _read_path(argv: list[str], flag: str) -> str:
    """Return the path that a flag names, '' without the flag.

    Raise PlanError for a path that was not sent, or that begins where the kubelet was started: any
    setting may be there.
    """
    given = processes.flag(argv, flag)
    if given and not given.startswith("/"):
        raise build_unread_flag_error(flag)
    return host_paths.keep_as_opened(given)


def build_unread_flag_error(flag: str) -> PlanError:
    """Return the error about a flag whose value is not known, and may be any."""
    return PlanError(messages.KUBELET_FLAG_UNREAD.fill(flag=flag))


def _read_setting(file: ObservedFile, key: str) -> Any:
    """Return the value of a key in a file.

    Raise PlanError if the file cannot be read, since any value may be in it.
    """
    if file.content is None:
        raise PlanError(
            messages.KUBELET_CONFIG_UNREADABLE.fill(trouble=file.trouble),
            where=file.path,
        )
    file_places.require_shown(
        file.path, [entry for entry in file.withheld if entry["path"][0] == key]
    )
    try:
        data = (
            json_bounds.load_bounded_json(file.content)
            if file.content.lstrip().startswith("{")
            else yaml_text.read_bounded_yaml(file.content)
        )
    except ValueError as broken:
        line, why = getattr(broken, "line", None), getattr(broken, "problem", "")
        raise PlanError(
            messages.KUBELET_CONFIG_NOT_YAML.fill(problem=why), where=file.path, line=line
        ) from None
    return data.get(key) if isinstance(data, Mapping) else None
