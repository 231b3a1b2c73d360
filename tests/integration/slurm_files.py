# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a Slurm cluster of the lab."""

from __future__ import annotations

# Both daemons on one host. Its control groups are neither of the two layouts that Slurm finds by
# itself.
CONF = """ClusterName=lab
SlurmctldHost=gpu1
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
KillWait=1
ReturnToService=0
NodeName=gpu1 CPUs=1 State=UNKNOWN
PartitionName=gpus Nodes=ALL Default=YES State=UP
"""
FILES = {
    "/etc/slurm/slurm.conf": CONF,
    "/etc/slurm/cgroup.conf": "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\n",
}
