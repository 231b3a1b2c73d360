# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is taken back of one containerd: bytes of the journal, or our keys alone."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    edit as containerd_edit,
)

from tests.unit import builders
from tests.unit.containerd_plans import (
    DROP_IN,
    NVIDIA,
    OLD,
    OPTIONS,
    ROOT,
    applied,
    loaded,
    plan,
    write_old,
)


def test_absent_gives_back_the_bytes_that_the_journal_kept() -> None:
    files = write_old()
    kept = {ROOT: {"existed": True, "sha256_after": builders.sha(files[ROOT])}}
    found = plan(
        "1.7.24",
        files,
        absent=True,
        originals=kept,
        running=True,
        handlers={"nvidia": NVIDIA},
        cri=loaded(nvidia=OPTIONS),
    )
    assert found.changes == ({"path": ROOT, "op": "restore"},)
    assert [r.unit for r in found.restarts] == ["containerd.service"]


@pytest.mark.parametrize("handlers", [{"nvidia": NVIDIA}, {}])
@pytest.mark.parametrize("mode", ["process", "mixed"])
def test_absent_leaves_the_restart_of_a_daemon_that_has_our_handlers(
    mode: str, handlers: dict[str, str]
) -> None:
    files = write_old()
    found = plan(
        "1.7.24",
        files,
        Policy(restart="never", state="absent"),
        absent=True,
        originals={ROOT: {"existed": True, "sha256_after": builders.sha(files[ROOT])}},
        running=True,
        handlers=handlers,
        cri=loaded(nvidia=OPTIONS),
        units={"containerd.service": {"KillMode": mode}},
    )
    assert (len(found.changes), found.restarts) == (1, ())
    assert found.pending == (("containerd.service",) if handlers else ())


def test_absent_takes_out_just_our_keys_where_others_have_written_since() -> None:
    files = {ROOT: write_old()[ROOT] + "# Anna was here\n"}
    found = plan(
        "1.7.24", files, absent=True, originals={ROOT: {"existed": True, "sha256_after": "another"}}
    )
    assert applied(files, found)[ROOT] == OLD + "# Anna was here\n"
    assert found.changes[0]["forget"] is True
    assert get_code(found.advice[-1]) == "containerd.only-own-keys-removed"


def test_absent_removes_a_drop_in_and_the_import_that_names_it() -> None:
    files = {
        ROOT: f'version = 3\nimports = ["{DROP_IN}"]\n',
        DROP_IN: f"{containerd_edit.FIRST_LINE}\nversion = 3\n",
    }
    assert applied(files, plan("2.3.7", files, absent=True)) == {ROOT: "version = 3\n"}


def test_absent_where_nothing_of_this_collection_is() -> None:
    assert plan("1.7.24", {ROOT: OLD}, absent=True).empty
