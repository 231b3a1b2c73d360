# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of a host's GPUs for sentences, and the refusal of an entry that names none."""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import messages


def name_shared_gpu(uuid: str, bus: str) -> str:
    return f"{uuid} ({bus})"


def build_unknown_gpu_error(
    option: str, key: str, gpus: Iterable[tuple[str, str, str]]
) -> PlanError:
    """Return the error for an entry that names no GPU of the host.

    gpus: UUID, PCI address and product name of each that exists.
    """
    here = list(gpus)
    # tables show them shorter
    products = ", ".join(sorted({model for _uuid, _bus, model in here if model}))
    named = ", ".join(name_shared_gpu(uuid, bus) for uuid, bus, _model in here)
    if products:
        return PlanError(
            messages.NO_SUCH_GPU_OR_PRODUCT.fill(
                option=option, key=key, gpus=named, products=products
            )
        )
    return PlanError(messages.NO_SUCH_GPU.fill(option=option, key=key, gpus=named))
