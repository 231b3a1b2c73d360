# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Name the devices of a CDI spec by index, by UUID, by type and index, and more specifically by
model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices.inventory import (
    Board,
    MigDevice,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Device,
)

ALL = "all"
# The strategies of `nvidia-ctk cdi generate --device-name-strategy`, by the same names.
INDEX, UUID, TYPE_INDEX = "index", "uuid", "type-index"
DEFAULT = (INDEX, UUID)
DIGIT_NAMES = "0.5.0"  # a library below it drops a file with a name that begins with a digit
DEVICE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
# Facts about a device in its name, read back from our spec.
BY_INDEX = re.compile(r"(?:gpu|mig)?(\d{1,9})(?::(\d{1,9}))?")
BY_MODEL = re.compile(r".*-mig-(?P<profile>[0-9a-z.+-]+)-\d{1,9}:\d{1,9}")
MODEL_NOISE = re.compile(r"\b(nvidia|geforce|tesla|graphics|device)\b")


def list_allowed_strategies(strategies: Iterable[str], cap: str) -> tuple[str, ...]:
    """Return the strategies whose names the oldest consumer can read: `gpu0` if it cannot read `0`."""
    wanted = tuple(dict.fromkeys(strategies)) or DEFAULT
    if version.get_spec_version_key(cap or version.UNKNOWN_CAP) >= version.get_spec_version_key(
        DIGIT_NAMES
    ):
        return wanted
    return tuple(dict.fromkeys(TYPE_INDEX if s == INDEX else s for s in wanted))


def name_gpu(board: Board, strategies: Iterable[str]) -> list[str]:
    """List the names of a whole GPU, one for each strategy that gives a valid name."""
    known = {INDEX: str(board.gpu.index), TYPE_INDEX: f"gpu{board.gpu.index}", UUID: board.gpu.uuid}
    return [name for name in (known[s] for s in strategies) if is_valid_device_name(name)]


def name_mig_device(board: Board, mig: MigDevice, strategies: Iterable[str]) -> list[str]:
    """List the names of a MIG device, one for each strategy that gives a valid name.

    `0:1` is the MIG device 1 on GPU 0, as nvidia-smi counts both.
    """
    place = f"{board.gpu.index}:{mig.index}"
    known = {INDEX: place, TYPE_INDEX: f"mig{place}", UUID: mig.uuid}
    return [name for name in (known[s] for s in strategies) if is_valid_device_name(name)]


def is_valid_device_name(name: str) -> bool:
    """Tell whether CDI libraries take a text for the name of a device.

    Drivers before R470 call MIG devices MIG-GPU-<uuid>/<gi>/<ci>, which no CDI library takes for
    one.
    """
    return DEVICE_NAME.fullmatch(name) is not None


def get_model_name(board: Board) -> str:
    """Return the model as a name: `NVIDIA H100 80GB HBM3` becomes h100-80gb-hbm3.

    The result is '' if no source reports the model. A name that begins with a digit gets `gpu-` in
    front.
    """
    words = MODEL_NOISE.sub(" ", board.gpu.model.lower())
    slug = re.sub(r"[^a-z0-9]+", "-", words).strip("-")
    return f"gpu-{slug}" if slug[:1].isdigit() else slug


def name_gpu_by_model(board: Board) -> str:
    """Return the name of one GPU of its model."""
    return f"{get_model_name(board)}-{board.gpu.index}"


def name_mig_device_by_model(board: Board, mig: MigDevice) -> str:
    """Return the name of one MIG device of its model and profile.

    A profile has its attributes behind a plus sign, which no name may have. NVIDIA's device plugin
    writes a dot for it: `1g.10gb.me`.
    """
    slug = mig.profile.replace("+", ".")
    profile = f"-{slug}" if is_valid_device_name(slug) else ""
    return f"{get_model_name(board)}-mig{profile}-{board.gpu.index}:{mig.index}"


def sort_device_names(device: Device) -> tuple[bool, bool, tuple[int, ...], str]:
    """Return a sort key: indices as numbers, then all other names, `all` at the end."""
    match = BY_INDEX.fullmatch(device.name)
    numbers = tuple(int(part) for part in match.groups() if part is not None) if match else ()
    return device.name == ALL, match is None, numbers, device.name
