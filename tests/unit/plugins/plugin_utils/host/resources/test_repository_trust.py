# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The key in rpm's own keyring: imported before zypper installs, erased when the repository goes."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    QueryFailed,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    repository,
)

from tests.unit.repository_hosts import MIRROR, observe_distribution
from tests.unit.repository_keys import FINGERPRINT, OLD, armor

IN_RPM = f"gpg-pubkey-{FINGERPRINT[-8:].lower()}"
TRUSTED = {
    # distribution, our repository comes, our key is there -> whether rpm gets the key
    "dnf has keys of its own": ("rocky", True, True, False),
    "the repository comes": ("sles", True, False, True),
    "it is there": ("sles", False, True, True),
    "the packages come from elsewhere": ("sles", False, False, False),
    "a distribution that is not known": ("plan9", True, True, False),
}


@pytest.mark.parametrize(("os_id", "comes", "there", "told"), TRUSTED.values(), ids=TRUSTED)
def test_rpm_trusts_our_key_before_zypper_installs(
    os_id: str, comes: bool, there: bool, told: bool
) -> None:
    key = repository.FAMILIES["suse"].key_path
    like = {"ID": os_id, "ID_LIKE": {"rocky": "rhel", "sles": "suse"}.get(os_id, "")}
    source = Plan(changes=({"op": "remove", "path": "/x"},)) if comes else Plan()
    for known in (False, True):
        here = Observation(
            {"os_release": like},
            {
                f"stat:{key}": {"exists": there},
                f"command:rpm --query {IN_RPM}": {"rc": int(not known)},
            },
        )
        commands = [
            (c["argv"], c["undo"])
            for c in repository.list_trust_commands(
                Policy(**MIRROR), repository.read_repository_facts(here), source
            )
        ]
        assert commands == (
            [(["rpmkeys", "--import", key], ["rpm", "--erase", IN_RPM])]
            if told and not known
            else []
        )


def test_whether_rpm_has_the_key_is_not_guessed() -> None:
    """A rollback erases the key that was imported, so one of a person's must not pass for ours."""
    key = repository.FAMILIES["suse"].key_path
    late = {"timed_out": True, "stdout": "", "stderr": ""}
    here = Observation(
        {"os_release": {"ID": "sles", "ID_LIKE": "suse"}},
        {f"stat:{key}": {"exists": True}, f"command:rpm --query {IN_RPM}": late},
    )
    with pytest.raises(QueryFailed, match="rpm --query"):
        repository.list_trust_commands(
            Policy(**MIRROR), repository.read_repository_facts(here), Plan()
        )


def test_rpm_trusts_the_key_of_an_archive_where_no_repository_is_named() -> None:
    """bundle_file excludes the address of a repository, so with an empty one its packages still
    need a key.
    """
    key = repository.FAMILIES["suse"].key_path
    here = Observation(
        {"os_release": {"ID": "sles", "ID_LIKE": "suse"}},
        {f"command:rpm --query {IN_RPM}": {"rc": 1}},
    )
    archived = Policy(
        toolkit_repository="", bundle_file="/srv/bundle.tar", toolkit_key=MIRROR["toolkit_key"]
    )
    (command,) = repository.list_trust_commands(
        archived,
        repository.read_repository_facts(here),
        Plan(changes=({"op": "remove", "path": "/x"},)),
    )
    assert command["argv"] == ["rpmkeys", "--import", key]


TIME = f"command:rpm --query --queryformat %{{INSTALLTIME}}\n {IN_RPM}"
GOES: dict[str, tuple[dict[str, Any], str, bool]] = {
    # what rpm says of our key, another source of NVIDIA's packages -> rpm loses it. Our file is of
    # 1000.7.
    "as we left it": ({"rc": 0, "stdout": "1000\n"}, "", True),
    "somebody has removed it": ({"rc": 1, "stdout": ""}, "", False),
    "another source may need it": (
        {"rc": 0, "stdout": "1000\n"},
        "/etc/zypp/repos.d/nvidia-container-toolkit.repo",
        False,
    ),
    "a person had imported it before": ({"rc": 0, "stdout": "999\n"}, "", False),
    "rpm does not say when": ({"rc": 0, "stdout": ""}, "", False),
}


@pytest.mark.parametrize(("said", "other", "goes"), GOES.values(), ids=GOES)
def test_rpm_no_longer_trusts_our_key_when_the_repository_goes(
    said: dict[str, Any], other: str, goes: bool
) -> None:
    here = observe_distribution("sles", "suse", key=armor(OLD), list="ours")
    where = repository.FAMILIES["suse"]
    rest = {f"file:{path}": {"exists": False} for path in repository.PATHS}
    paths = [where.list_path, *([other] if other else [])]
    more = {
        repository.SOURCES["id"]: {"files": [{"path": path, "type": "file"} for path in paths]},
        TIME: said,
    }
    key = {f"file:{where.key_path}": {**here.answers[f"file:{where.key_path}"], "mtime": 1000.7}}
    gone = repository.plan_absent(
        Policy(state="absent"),
        repository.read_repository_facts(
            Observation(here.host, {**rest, **here.answers, **more, **key})
        ),
    )
    assert [c["argv"] for c in gone.commands] == ([["rpm", "--erase", IN_RPM]] if goes else [])
    assert [c["op"] for c in gone.changes] == ["remove", "remove"]
