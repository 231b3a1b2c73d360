# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Directories of a manager that a group may write to as well, because its members are its
administrators and root by it anyway.

MicroK8s gives the group `microk8s` its snap's args/ (snap/hooks/configure: chgrp -R and chmod -R
ug+rwX at each refresh, so a chmod does not last). run-containerd-with-args reads
args/containerd-env there as a shell script of root's, and the arguments of root's daemons from the
files beside it. So a user who may write to that directory decides what root runs at the next start.
A file that we read or write there adds nothing to that. No other group is let in, and no other
directory: the link to the revision, and all above args/, stay root's alone. A cluster that does not
want it has MicroK8s' own switch (cis-hardening), by which the directory is root's.
"""

from __future__ import annotations

import re

_ARGS = re.compile(r"/var/snap/microk8s/[^/]+/args/[^/]+")


def get_admin_groups(path: str) -> tuple[str, ...]:
    """Return the groups besides root's own that may write to this path and its directory; () for
    none.
    """
    return ("microk8s",) if _ARGS.fullmatch(path) else ()
