# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Predict what the legacy mode of the NVIDIA runtime would refuse, before a container is started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    toolkit_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    facts,
    messages,
    nvidia_require,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images.inspected import (
    Inspected,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images.nvidia_require import (
    CUDA_VERSION,
    DISABLE,
    PREFIX,
    cut_image_text,
)

# A switch of NVIDIA's config.toml: on, and the hook takes every image as one with
# NVIDIA_DISABLE_REQUIRE=true.
SWITCH = ("disable-require",)
KEEP = file_places.keep_places("toml", {SWITCH: "bool"})
# characters of an expression in a result, which has room for those of CUDA's own images
WHOLE = 2000


def list_preflight_questions() -> list[queries.Question]:
    """List what a host is asked before an image is judged as the legacy runtime would."""
    return [queries.ask_for_file(toolkit_config.PATH, KEEP)]


def is_switched_off(obs: Observation) -> bool:
    """Tell whether the host's owner has switched requirements off. A file that cannot be read
    switches nothing off.
    """
    return toolkit_config.read_toolkit_config_facts(Policy(), obs).read_setting(SWITCH) is True


def judge_image_requirements(
    said: Inspected, host: facts.ImageHost, decision: Mapping[str, Any], *, off: bool = False
) -> dict[str, Any]:
    """Judge the image's requirements on this host.

    decision: the record of this host, as a dictionary. off: its owner has switched requirements
    off, which the legacy mode reads.
    """
    legacy = any(
        entry.get("injection") in facts.LEGACY for entry in decision.get("decisions") or ()
    )
    environment = {**dict(said.environment), **({DISABLE: "true"} if off and legacy else {})}
    verdict = nvidia_require.judge_requirements(environment, host.list_subjects(host.gpus))
    return {
        "met": verdict.met,
        "why": verdict.why,
        "expressions": list_bounded_expressions(environment),
        "enforced": legacy and not off,
    }


def list_bounded_expressions(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the expressions that count, within limits: an image may have any number of them, of
    any length.
    """
    try:
        requirements = nvidia_require.list_requirement_variables(environment)
    except nvidia_require.Invalid:
        requirements = {
            name: environment[name]
            for name in environment
            if name.startswith(PREFIX) or name == CUDA_VERSION
        }
    return {
        cut_image_text(name): cut_image_text(text, WHOLE)
        for name, text in sorted(requirements.items())[: nvidia_require.MOST]
    }


def explain_preflight_refusal(found: Mapping[str, Any]) -> str:
    """Return the sentence about an image that the legacy runtime would refuse."""
    row = messages.NOT_STARTED if found["enforced"] else messages.FAILS_LATER
    return row.fill(reason=found["why"], variable=DISABLE)
