# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Note in the journal what was reported: transactions that were rolled back, and strays next to
files.

No transaction. Host side: standard library only, Python 3.6.
"""

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import host_files, journal
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    journal_writer,
)


def run(request):
    """Return {"swept", "error"}.

    If another program is at work, it is left in peace, and the next look reports the same once
    more.
    """
    try:
        root = host_files.clean_root(request["root"])
        base = journal.get_journal_directory(root, request["journal_dir"])
        with journal_writer.hold_transaction_lock(base, "an acknowledgement", keep=True, root=root):
            swept = journal_writer.remove_names_beside(root, base, request["strays"])
            journal_writer.acknowledge_outcomes(base, request["ids"])
    except (host_files.HostError, OSError) as exc:
        return {"swept": [], "error": host_files.cut_middle(str(exc))}
    return {"swept": swept, "error": None}
