# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rule for paths against the kernel's own rules, for any owners and modes."""

import os
import stat

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import host_files, trust

hypothesis = pytest.importorskip("hypothesis")  # not on the oldest Python
from hypothesis import example, given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

STRANGER = 1001
ENTRIES = st.lists(
    st.tuples(
        st.sampled_from([0, STRANGER]),
        st.sampled_from([0, 50, 100]),
        st.integers(0, 0o1777),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


def may_exchange(uid, groups, above, entry, last):
    """By the kernel's rules alone: whether this account can put something else in the place of an
    entry, or change the last one.

    Another call asks what the account could do to each entry of a directory on the way.
    """
    owner, gid, mode, _directory = above
    writes = owner == uid or (gid in groups and mode & 0o020) or mode & 0o002
    kept = mode & 0o1000 and owner != uid and entry[0] != uid
    changes = (entry[1] in groups and entry[2] & 0o020) or entry[2] & 0o002
    return entry[0] == uid or (last and changes) or (writes and not kept)


@given(ENTRIES)
@example([(0, 0, 0o1777, True), (0, 0, 0o755, True)])  # a directory of root's in /tmp
def test_path_that_passes_can_be_changed_by_no_stranger(entries):
    """A stranger in a group of his own, on a path of any owners and modes; the last entry is a file
    or a directory.
    """
    tree = {"/": (0, 0, 0o755, True)}
    for number, entry in enumerate(entries):
        last = number == len(entries) - 1
        tree["/".join(["", *"abcd"[: number + 1]])] = (*entry[:3], entry[3] if last else True)
    wanted = "/" + "/".join("abcd"[: len(entries)])

    def lstat(_root, path):
        uid, gid, mode, directory = tree[path]
        return os.stat_result(
            ((stat.S_IFDIR if directory else stat.S_IFREG) | mode, 0, 0, 1, uid, gid, 0, 0, 0, 0)
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host_files, "get_lstat", lstat)
        patch.setattr(trust, "_has_acl", lambda place: False)
        doubt = trust.judge_spot("", wanted)
    chain = [tree["/".join(["", *"abcd"[:n]]) or "/"] for n in range(len(entries) + 1)]
    exchanged = any(
        may_exchange(STRANGER, {100}, chain[n], chain[n + 1], n + 1 == len(entries))
        for n in range(len(entries))
    )
    assert doubt or not exchanged
    tidy = all(uid == 0 and not mode & 0o022 for uid, _gid, mode, _directory in chain)
    assert doubt is None or not tidy
