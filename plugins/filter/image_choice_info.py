# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give templates the choice of the module image_choice_info."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    catalogues,
    guard,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import escape
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    choose,
    facts,
)
from jinja2.exceptions import UndefinedError

DOCUMENTATION = r"""
name: image_choice_info
short_description: Find the image of a catalogue that fits a host
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - The same choice as that of the module M(gpufleet.nvidia.image_choice_info), from facts that are at hand.
  - Fails where no image fits, unless O(nothing_fits=report).
positional: catalogue
options:
  _input:
    description: The facts of a host, as the option O(gpufleet.nvidia.image_choice_info#module:facts) of the module.
    type: dict
    required: true
  catalogue:
    description: The catalogue, or the name of its file on the controller.
    type: raw
    required: true
  gpus:
    description: Whether one image has to run on all GPUs of the host, or each GPU gets one of its own.
    type: str
    choices: [all, each]
    default: all
  nothing_fits:
    description: What becomes of a host that no image fits.
    type: str
    choices: [fail, report]
    default: fail
seealso:
  - plugin: gpufleet.nvidia.image_choice_info
    plugin_type: module
"""

EXAMPLES = r"""
- name: Run the image that fits
  ansible.builtin.debug:
    msg: "{{ (gpu_facts | gpufleet.nvidia.image_choice_info('catalogue.yml')).choices.0.chosen.reference }}"
  vars:
    gpu_facts:
      driver: 550.54.14
      gpus:
        - model: NVIDIA A100-SXM4-80GB
          device: "0x20b2"
"""

RETURN = r"""
_value:
  description: RV(gpufleet.nvidia.image_choice_info#module:fits), RV(gpufleet.nvidia.image_choice_info#module:choices) and
    RV(gpufleet.nvidia.image_choice_info#module:problem) of the module.
  type: dict
"""


def get_image_choice(
    given: Any, catalogue: Any, gpus: str = "all", nothing_fits: str = "fail"
) -> dict[str, Any]:
    """Return the choice to the template that asks.

    Neither the choice nor the message of a failure is a template: Ansible protects only results.
    """
    if gpus not in ("all", "each") or nothing_fits not in ("fail", "report"):
        raise build_filter_error(str(PlanError(messages.IMAGE_FILTER_OPTIONS.fill())))
    try:
        found = choose_image_for_template(given, catalogue, gpus)
    except UndefinedError:  # its message names the undefined variable in the filter's input
        raise
    except PlanError as error:
        raise build_filter_error(str(error)) from None
    except Exception as error:
        raise build_filter_error(guard.build_unexpected_failure(error)["msg"]) from None
    if found["problem"] and nothing_fits == "fail":
        raise build_filter_error(found["problem"])
    return dict(escape.escape_templates(found))


def choose_image_for_template(given: Any, catalogue: Any, gpus: str) -> dict[str, Any]:
    """Return what the module of the same name returns.

    Raise PlanError for invalid facts or catalogues.
    """
    # Values are plain again after a round trip: since ansible-core 2.19 they are tagged subclasses.
    # `str` of an undefined value names it.
    plain, named = json.loads(json.dumps([given, catalogue], default=str))
    host = facts.parse_host_facts(plain, catalogues.read_archspec_targets())
    return choose.report_choices(
        catalogues.read_catalogue_images(named),
        host,
        gpus,  # type: ignore[arg-type]
        catalogues.read_archspec_targets(),
    )


def build_filter_error(message: str) -> AnsibleFilterError:
    """Make the failure of this filter."""
    return AnsibleFilterError(f"image_choice_info: {escape.escape_templates(message)}")


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"image_choice_info": get_image_choice}
