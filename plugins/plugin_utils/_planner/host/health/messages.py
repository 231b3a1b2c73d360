# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about the health of a host's GPUs, and why it is not known."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

LOG_OF_TREE = Sentence("gpu-health.directory-tree", "a directory tree has no kernel log")
LOG_UNREADABLE = Sentence("gpu-health.log-unreadable", "{cause}")
LOG_NOT_READ = Sentence("gpu-health.log-not-read", "this run did not read the kernel log")
LOG_NOT_READ_BEFORE = Sentence(
    "gpu-health.log-not-read-before", "this run did not read the kernel log before the change"
)
LOG_WRITTEN_OVER = Sentence(
    "gpu-health.log-written-over",
    "the kernel has written over lines of its log since the change of the host",
)
DIAGNOSIS_NOT_RUN = Sentence("gpu-health.diagnosis-not-run", "{cause}")
DIAGNOSIS_NO_SERVER = Sentence(
    "gpu-health.diagnosis-no-server",
    "no nv-hostengine listens at port {port} of this host, and dcgmi asks that. Install DCGM, and start nvidia-dcgm.service",
)
DIAGNOSIS_OTHER_SERVER = Sentence(
    "gpu-health.diagnosis-server-of-another",
    "user {uid} listens at port {port} of this host, where dcgmi expects root's nv-hostengine, so its answer does not count. "
    "End that program, and start nvidia-dcgm.service",
)
DIAGNOSIS_UNVERIFIED_SERVER = Sentence(
    "gpu-health.diagnosis-server-unverified",
    "another program than the nv-hostengine of the host's systemd listens at port {port} of this host, so its answer does not count. "
    "End that program or container, and start nvidia-dcgm.service",
)
DIAGNOSIS_DIVERTED = Sentence(
    "gpu-health.diagnosis-diverted",
    "a connection to port {port} of this host does not end at its nv-hostengine, so its answer does not count. "
    "See whether a rule of the packet filter sends this port to a container",
)
DIAGNOSIS_SERVER_UNKNOWN = Sentence(
    "gpu-health.diagnosis-server-unknown", "the listener at port {port} is not known ({cause})"
)
DIAGNOSIS_SERVER_CHANGED = Sentence(
    "gpu-health.diagnosis-server-changed",
    "another program listens at port {port} than before the diagnosis, so its answer does not count",
)
DIAGNOSIS_LATE = Sentence(
    "gpu-health.diagnosis-late", "{command} did not end within {seconds} seconds"
)
DIAGNOSIS_WITHOUT_RESULT = Sentence(
    "gpu-health.diagnosis-without-result",
    "{command} ended with exit status {status}, without a result",
)
DIAGNOSIS_UNSAID = Sentence("gpu-health.diagnosis-without-reason", "{command} could not be run")

# ---------------------------------------------------------------- what the kernel log tells

XID = Sentence("gpu-health.xid", "Xid {xid} of the GPU {pci} ({time})")
SXID = Sentence("gpu-health.sxid", "fatal SXid {sxid} of the NVSwitch {pci} ({time})")
OFF_BUS = Sentence(
    "gpu-health.off-bus", "the GPU {pci} does not answer, and the driver could not begin ({time})"
)
OFF_BUS_UNNAMED = Sentence(
    "gpu-health.off-bus-unnamed", "a GPU does not answer, and the driver could not begin ({time})"
)
FELL_OFF = Sentence("gpu-health.fell-off", "the GPU {pci} has fallen off the bus ({time})")
DRIVER_NOT_STARTED = Sentence(
    "gpu-health.not-started", "the driver could not start the GPU {pci} ({time})"
)
DRIVER_NOT_STARTED_UNNAMED = Sentence(
    "gpu-health.not-started-unnamed", "the driver could not start a GPU ({time})"
)
RESET_DUE_UNNAMED = Sentence(
    "gpu-health.reset-due-unnamed", "a GPU that serves nothing before its reset ({time})"
)
NOT_PROBED = Sentence("gpu-health.not-probed", "the driver did not take the GPU {pci} ({time})")

# ---------------------------------------------------------------- what a person does

STEP_NONE = Sentence("gpu-health.step-none", "nothing is to be done")
STEP_APPLICATION = Sentence("gpu-health.step-application", "start the application again")
STEP_DRIVER = Sentence(
    "gpu-health.step-driver", "have the driver serve its GPUs first: the plan says what it lacks"
)
STEP_FABRIC = Sentence(
    "gpu-health.step-fabric",
    "see that Fabric Manager of the driver's version runs, or in a rack of GB200 or GB300 its switches",
)
STEP_UPDATE = Sentence(
    "gpu-health.step-update", "bring driver and firmware to releases that fit each other"
)
STEP_RESET = Sentence(
    "gpu-health.step-reset",
    "stop what uses the GPU and reset it (nvidia-smi --gpu-reset -i ADDRESS), or reboot the host",
)
STEP_REBOOT = Sentence(
    "gpu-health.step-reboot", "reboot the host; if it comes back, have the GPU replaced"
)
STEP_REPLACE = Sentence(
    "gpu-health.step-replace",
    "check the power, the cooling and the seat of the board, and have it replaced if that does not help",
)
STEP_SUPPORT = Sentence(
    "gpu-health.step-support",
    "take the host out of service and ask its vendor, with what nvidia-bug-report.sh writes",
)
STEP_ACCEPTED = Sentence(
    "gpu-health.step-accepted", "nothing is to be done: gpufleet_accepted_findings names it"
)

# ---------------------------------------------------------------- what is wrong with a host's GPUs

NOT_SERVED = Sentence(
    "gpu-health.not-served",
    "the GPU {gpu} is on the PCI bus, and the driver that serves others does not serve it",
)
FEWER_SERVED = Sentence(
    "gpu-health.fewer-served",
    "the driver serves {served} GPUs, and gpufleet_gpus says {expected}; {on_bus} are on the PCI bus, "
    "and options keep {withheld} from containers",
)
FEWER_ON_BUS = Sentence(
    "gpu-health.fewer-on-bus",
    "the driver serves {served} GPUs, and gpufleet_gpus says {expected}; only {on_bus} are on the PCI bus, "
    "and options keep {withheld} from containers",
)
LOG_TELLS = Sentence("gpu-health.log-tells", "the kernel log of this boot tells of {lines}")

# ---------------------------------------------------------------- what NVML says

STATE_NOT_ASKED = Sentence(
    "gpu-health.state-not-asked",
    "NVML was not asked: no driver serves a GPU here, or a GPU has no device node",
)
STATE_UNREADABLE = Sentence("gpu-health.state-unreadable", "NVML could not be asked: {cause}")
STATE_SILENT = Sentence(
    "gpu-health.state-silent", "NVML did not answer within {seconds} seconds: a GPU hangs"
)
FEWER_IN_NVML = Sentence(
    "gpu-health.fewer-in-nvml", "NVML has {nvml} GPUs, and the driver lists {served} in procfs"
)
NO_HANDLE = Sentence("gpu-health.no-handle", "NVML refuses GPU {index}: {cause}")
NOT_OPENED = Sentence(
    "gpu-health.not-opened", "NVML tells nothing of GPU {index}, and not that it is sick: {cause}"
)
VALUES_UNREAD = Sentence(
    "gpu-health.values-unread", "NVML did not tell some values of the GPU {gpu} ({calls})"
)
SILENT_GPU = Sentence(
    "gpu-health.silent-gpu", "NVML tells neither the name nor the address of GPU {index}"
)
GPU_LOST = Sentence("gpu-health.lost", "NVML says that the GPU {gpu} is lost")
RESET_REQUIRED = Sentence("gpu-health.reset-required", "NVML says that the GPU {gpu} needs a reset")
RECOVERY_DUE = Sentence(
    "gpu-health.recovery-due", "the driver says that the GPU {gpu} needs recovery (action {action})"
)
ROWS_FAILED = Sentence(
    "gpu-health.rows-failed", "a row of the memory of the GPU {gpu} could not be remapped"
)
ROWS_PENDING = Sentence(
    "gpu-health.rows-pending", "rows of the memory of the GPU {gpu} are remapped at its next reset"
)
PAGES_PENDING = Sentence(
    "gpu-health.pages-pending", "pages of the memory of the GPU {gpu} are retired at its next reset"
)
LINKS_DOWN = Sentence(
    "gpu-health.links-down",
    "the GPU {gpu} has {up} NVLinks up, and others of its model on this host have {peers}",
)
FABRIC_NOT_JOINED = Sentence(
    "gpu-health.fabric-not-joined",
    "the GPU {gpu} has not joined the NVLink fabric (state: {state}), and CUDA does not start on it",
)
FABRIC_FAILED = Sentence(
    "gpu-health.fabric-failed", "the GPU {gpu} could not join the NVLink fabric (status {status})"
)
FABRIC_BANDWIDTH = Sentence(
    "gpu-health.fabric-bandwidth", "the GPU {gpu} has less bandwidth in the NVLink fabric"
)
FABRIC_ROUTE = Sentence(
    "gpu-health.fabric-route", "a route of the GPU {gpu} in the NVLink fabric is unhealthy"
)
FABRIC_TIMEOUT = Sentence(
    "gpu-health.fabric-timeout", "the GPU {gpu} recovers from a timeout in the NVLink fabric"
)
FABRIC_CONFIGURATION = Sentence(
    "gpu-health.fabric-configuration",
    "the NVLink fabric of the GPU {gpu} is not configured rightly",
)
POWER_BRAKE = Sentence("gpu-health.power-brake", "the power brake slows the GPU {gpu} down")
THERMAL_BRAKE = Sentence("gpu-health.thermal-brake", "heat slows the GPU {gpu} down to protect it")
SOFTWARE_THERMAL = Sentence("gpu-health.thermal-limit", "heat limits the clocks of the GPU {gpu}")
