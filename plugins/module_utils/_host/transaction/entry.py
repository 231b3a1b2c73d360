# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply a list of file, package and unit changes as one transaction, or leave everything as it was:
the executor's entry.

It checks the form of a request (`request`). Then this very process carries it out (`executor`), or
the host alone does (`launcher`). Host side: standard library only, Python 3.6.
"""

import os

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    commands,
    host_files,
    journal,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    deadline,
    executor,
    journal_writer,
    launcher,
    rollback,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    request as transaction_request,
)


def run(request):
    """Return the answer to a transaction request. Errors are part of it.

    "judge": nothing is begun; the files are judged as a transaction judges them first.
    "alone": the host is to finish by itself what is begun. Check mode changes nothing, and nothing
    runs beneath another root, or in an image without systemd. These work in this process, and so do
    accounts that cannot start a unit.
    """
    try:
        transaction_request.require_valid_request(request)
    except host_files.HostError as exc:
        return executor.build_refused_request(request, exc)
    commands.asked_for[:] = request.get("environment") or []
    if request.get("judge"):
        return executor.Transaction(request).judge_files()
    here = (request.get("root") or "/") == "/"
    if (
        request.get("alone")
        and here
        and not request.get("check")
        and os.geteuid() == 0
        and deadline.has_systemd()
    ):
        return launcher.run_away(request)
    return executor.Transaction(request).run()


def recover_transactions(root="", journal_dir=executor.DEFAULT_DIR, by="its caller"):
    """Bring every transaction that was cut short to its end. Return what became of each."""
    base = journal.get_journal_directory(root, journal_dir)
    with journal_writer.hold_transaction_lock(base, "recovery", keep=True, wait=60, root=root):
        return rollback.recover_open_transactions(root, base, by)
