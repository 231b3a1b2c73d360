# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lay out the devices of a spec and the nodes of each: for workloads, for management containers,
and by model.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Callable, Iterable, Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices import (
    inventory,
    names,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices.inventory import (
    Board,
    Hardware,
    MigDevice,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate import mps
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Edits,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import gpus

WORKLOADS, MANAGEMENT, MODELS, SHARED, MPS = "gpu", "management", "model", "shared", "mps"
CHANNELS, SWITCHES = "imex-channel", "nvswitch"
BY_SHARING = (SHARED, MPS)  # they come and go with a policy
FABRIC = (CHANNELS, SWITCHES)  # they come and go with an option each, and have no GPU
REQUIRED = ("/dev/nvidiactl", "/dev/nvidia-uvm")
OPTIONAL = ("/dev/nvidia-modeset", "/dev/nvidia-uvm-tools")
# The two capabilities that make and watch MIG instances, always 1 and 2 in the driver's table.
MIG_CONTROL = tuple(inventory.get_cap_path(minor) for minor in (1, 2))
# Other drivers' nodes and the fabric's; upstream's management mode leaves them out as well.
NOT_MANAGED = re.compile(r"/dev/nvidia-(fs|nvswitch|nvlink).*|/dev/dri/.*")


@dc.dataclass(frozen=True)
class DeviceOffer:
    """A set of names, and what a container gets for any of them."""

    names: tuple[str, ...]
    paths: tuple[str, ...]
    more: Edits = Edits()


@dc.dataclass(frozen=True)
class Layout:
    """The devices of a spec, and the nodes that they bring.

    offers: the devices. everything: the nodes of the device `all`, None for a layout without it.
    shared: nodes for every container.

    driver: whether containers get the driver's files and need its control nodes. A device of the
    fabric comes beside one of a GPU.
    """

    offers: Callable[[Hardware, tuple[str, ...]], list[DeviceOffer]]
    everything: Callable[[Hardware, list[DeviceOffer]], tuple[str, ...]] | None
    shared: Callable[[Hardware], tuple[str, ...]]
    driver: bool = True


def offer_workload_devices(seen: Hardware, strategies: tuple[str, ...]) -> list[DeviceOffer]:
    """Offer whole GPUs, or their MIG devices if they have some."""
    offers = []
    for board in inventory.list_offered_boards(seen):
        if not board.devices:
            offers.append(
                DeviceOffer(tuple(names.name_gpu(board, strategies)), (board.path, *board.drm))
            )
        offers += [
            DeviceOffer(
                tuple(names.name_mig_device(board, mig, strategies)),
                list_mig_paths(seen, board, mig),
            )
            for mig in board.devices
        ]
    return offers


def list_mig_paths(seen: Hardware, board: Board, mig: MigDevice) -> tuple[str, ...]:
    """Return the nodes that a container of a MIG device gets. DRM nodes are included only if the
    instance can draw.
    """
    graphics = board.drm if mig.graphics else ()
    return (*inventory.list_mig_node_paths(seen, board, mig), *graphics)


def offer_management_devices(seen: Hardware, strategies: tuple[str, ...]) -> list[DeviceOffer]:
    """Offer every GPU whatever its mode, each with all its MIG instances.

    An agent for one GPU needs this, which upstream has only for all GPUs.
    """
    migs = {
        b: tuple(path for mig in b.devices for path in list_mig_paths(seen, b, mig)[1:])
        for b in seen.boards
    }
    return [
        DeviceOffer(tuple(names.name_gpu(b, strategies)), (b.path, *migs[b])) for b in seen.boards
    ]


def offer_models(seen: Hardware, _strategies: tuple[str, ...]) -> list[DeviceOffer]:
    """Offer by model: every GPU of it, one of them, or one of its MIG devices.

    GPUs whose model no source reports have no such name.
    """
    known = [b for b in inventory.list_offered_boards(seen) if names.get_model_name(b)]
    whole = [b for b in known if not b.devices]
    kinds = dict.fromkeys(names.get_model_name(b) for b in whole)
    offers = [
        DeviceOffer(
            (kind,),
            tuple(p for b in whole if names.get_model_name(b) == kind for p in (b.path, *b.drm)),
        )
        for kind in kinds
    ]
    offers += [DeviceOffer((names.name_gpu_by_model(b),), (b.path, *b.drm)) for b in whole]
    return offers + [
        DeviceOffer((names.name_mig_device_by_model(b, m),), list_mig_paths(seen, b, m))
        for b in known
        for m in b.devices
    ]


def offer_mps_clients(seen: Hardware, strategies: tuple[str, ...]) -> list[DeviceOffer]:
    """Offer whole GPUs with the way to their MPS daemons.

    A client has one daemon, so there is no name for several GPUs.
    """
    whole = [board for board in inventory.list_offered_boards(seen) if not board.devices]
    return [
        DeviceOffer(
            tuple(names.name_gpu(b, strategies)),
            (b.path, *b.drm),
            mps.build_mps_client_edits(b.gpu.uuid),
        )
        for b in whole
    ]


def list_common_nodes(_seen: Hardware, offers: list[DeviceOffer]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path for offer in offers for path in offer.paths))


def list_every_node(seen: Hardware, offers: list[DeviceOffer]) -> tuple[str, ...]:
    """List all nodes of the driver.

    It includes all capabilities, and the nodes of GPUs that the driver does not serve just now.
    """
    present = (path for path in seen.nodes if not NOT_MANAGED.fullmatch(path))
    return tuple(sorted({*present, *list_common_nodes(seen, offers)}))


def offer_channels(seen: Hardware, _strategies: tuple[str, ...]) -> list[DeviceOffer]:
    """Offer one device for each channel, by its number, and none for all channels.

    Each channel is another tenant's (upstream's pkg/nvcdi/lib-imex.go).
    """
    named = ((gpus.CHANNEL.fullmatch(path), path) for path in seen.granted)
    return [DeviceOffer((match[1],), (path,)) for match, path in named if match]


def offer_switches(seen: Hardware, _strategies: tuple[str, ...]) -> list[DeviceOffer]:
    """Offer one device that has all NVSwitches.

    A program for one NVSwitch needs its neighbours (pkg/nvcdi/gated.go).
    """
    return [DeviceOffer((names.ALL,), seen.granted)]


def list_control_nodes(_seen: Hardware) -> tuple[str, ...]:
    """Return the driver's control nodes, and nothing else.

    Every container with a GPU gets them without asking for them.
    """
    return (*REQUIRED, *OPTIONAL)


def list_no_nodes(_seen: Hardware) -> tuple[str, ...]:
    return ()


def list_management_control_nodes(seen: Hardware) -> tuple[str, ...]:
    return (*REQUIRED, *OPTIONAL, *(path for path in MIG_CONTROL if path in seen.nodes))


LAYOUTS: Mapping[str, Layout] = {
    WORKLOADS: Layout(offer_workload_devices, list_common_nodes, list_control_nodes),
    MANAGEMENT: Layout(offer_management_devices, list_every_node, list_management_control_nodes),
    MODELS: Layout(offer_models, None, list_control_nodes),
    SHARED: Layout(offer_workload_devices, list_common_nodes, list_control_nodes),
    MPS: Layout(offer_mps_clients, None, list_control_nodes),
    CHANNELS: Layout(offer_channels, None, list_no_nodes, driver=False),
    SWITCHES: Layout(offer_switches, None, list_no_nodes, driver=False),
}


def list_wanted_nodes(seen: Hardware, layout: str, strategies: Iterable[str]) -> tuple[str, ...]:
    """List the nodes that the spec must have.

    These are the nodes of its devices, and the control nodes without which nothing works.
    """
    offers = LAYOUTS[layout].offers(seen, tuple(strategies))
    needed = REQUIRED if LAYOUTS[layout].driver else ()
    return tuple(dict.fromkeys((*needed, *(path for offer in offers for path in offer.paths))))
