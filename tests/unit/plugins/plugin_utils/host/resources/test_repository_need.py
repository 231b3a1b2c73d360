# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a host gets a package repository: by its packages, its sources and what it reaches."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    apt_sources,
    repository,
)

from tests.unit.repository_hosts import MIRROR, observe_distribution
from tests.unit.repository_keys import FINGERPRINT, OLD, armor

NO_SOURCES: dict[str, Any] = {repository.SOURCES["id"]: {"files": []}}
REACHED = {**NO_SOURCES, "probe:reach": {"value": {"tried": True, "reached": True, "why": ""}}}
LOST = {
    **NO_SOURCES,
    "probe:reach": {"value": {"tried": True, "reached": False, "why": "its name is not known"}},
}
FETCHED = {f"fetch:{repository.KEY_URL}": {"content": armor(OLD)}}


NEEDED: dict[str, tuple[dict[str, str], bool, bool, bool]] = {
    # options, packages are missing, a configured repository has them -> a repository comes
    "nothing is missing": ({}, False, False, False),
    "a configured one has them": ({}, True, True, False),
    "none has them": ({}, True, False, True),
    "none is wanted": ({"toolkit_repository": ""}, True, False, False),
    "packages are left alone": ({"packages": "ignore"}, True, False, False),
    "another root": ({"root": "/srv/image"}, True, False, False),
    "a mirror, though nothing is missing": (MIRROR, False, False, True),
    "a mirror, though another has them": (MIRROR, True, True, True),
    "a mirror, but packages are left alone": ({**MIRROR, "packages": "ignore"}, True, False, False),
}


def plan_needed(
    options: dict[str, str], missing: bool, offered: bool, answers: dict[str, Any] | None = None
) -> Plan:
    here = observe_distribution("debian")
    found = Observation(
        {**here.host, "machine": "x86_64"}, {**here.answers, **(answers or {**REACHED, **FETCHED})}
    )
    policy = Policy(**{"toolkit_key_fingerprint": FINGERPRINT, **options})  # type: ignore[arg-type]
    return repository.plan_needed_repository(
        policy, repository.read_repository_facts(found), missing=missing, offered=lambda: offered
    )


@pytest.mark.parametrize(("options", "missing", "offered", "comes"), NEEDED.values(), ids=NEEDED)
def test_a_repository_comes_only_where_it_is_needed_or_named(
    options: dict[str, str], missing: bool, offered: bool, comes: bool
) -> None:
    assert bool(plan_needed(options, missing, offered).changes) is comes


def test_nothing_is_asked_of_the_network_where_no_repository_is_needed() -> None:
    """No answer is there to any question of this kind, so asking one would raise."""
    for missing, offered in ((False, False), (True, True)):
        assert plan_needed({}, missing, offered, {"none": {}}).empty


def test_what_the_look_has_not_asked_is_asked_where_it_is_needed() -> None:
    """A look has no question about NVIDIA's repository where the user names none, which is the
    default.
    """
    here = Observation(observe_distribution("debian").host, {**REACHED, **FETCHED})
    with pytest.raises(NeedMore) as caught:
        repository.plan_needed_repository(
            Policy(toolkit_key_fingerprint=FINGERPRINT),
            repository.read_repository_facts(here),
            missing=True,
            offered=lambda: False,
        )
    where = repository.FAMILIES["debian"]
    asked = {question["id"] for question in caught.value.questions}
    assert asked == {
        "originals",
        f"file:{where.key_path}",
        f"file:{where.list_path}",
        *(f"glob:{p}" for p in apt_sources.PATTERNS),
    }


def test_nvidias_own_address_is_in_each_package_managers_words() -> None:
    written = plan_needed({}, True, False).changes[1]["content"]
    assert "URIs: https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH)\n" in written
    assert {f.nvidia for f in repository.FAMILIES.values() if f.manager != "apt"} == {
        "https://nvidia.github.io/libnvidia-container/stable/rpm/$basearch"
    }


def test_apt_reads_the_repository_before_it_is_put_in_place() -> None:
    plan = plan_needed({}, True, False)
    (check,) = plan.validate
    assert check["argv"][:3] == ["apt-get", "-q", "update"]
    assert "Dir::Etc::sourceparts=-" in check["argv"]
    assert plan.substitute == (
        (repository.FAMILIES["debian"].key_path, "{stage}/gpufleet-nvidia.asc"),
    )
    assert "gpufleet_toolkit_repository" in plan.beforehand[0]


def test_a_package_manager_that_has_to_be_started_is_asked_last() -> None:
    """One that never read a configured repository, whose key nobody has accepted yet, fails at it."""
    asked: list[str] = []

    def offered() -> bool:
        asked.append("dnf")
        return False

    source = {
        repository.SOURCES["id"]: {
            "files": [{"path": "/etc/yum.repos.d/gpufleet-nvidia.repo", "type": "file"}]
        }
    }
    here = Observation({"os_release": {"ID": "rocky"}}, source)
    assert repository.plan_needed_repository(
        Policy(), repository.read_repository_facts(here), missing=True, offered=offered, slow=True
    ).empty
    assert asked == []


REFUSED = {
    "another key than NVIDIA's": ({"toolkit_key_fingerprint": ""}, {**REACHED, **FETCHED}, "other-key"),
    "a key that is none": ({}, {**REACHED, f"fetch:{repository.KEY_URL}": {"content": "<html>"}}, "key-not-armored"),
    "no key": (
        {}, {**REACHED, f"fetch:{repository.KEY_URL}": {"error": {"message": "timed out"}}},
        "key-not-fetched"),
    "out of reach": ({}, {**LOST, **FETCHED}, "out-of-reach"),
    "a mirror out of reach": (MIRROR, LOST, "out-of-reach"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_source_out_of_reach_is_told_from_a_wrong_one(case: str) -> None:
    """The rest of a plan is shown for the first, since a person corrects it without a look at the
    host.
    """
    options, answers, _code = REFUSED[case]
    with pytest.raises(PlanError) as refused:
        plan_needed(options, True, False, answers)
    assert isinstance(refused.value, repository.NoSource) is (
        case in ("no key", "out of reach", "a mirror out of reach")
    )


@pytest.mark.parametrize(("options", "answers", "code"), REFUSED.values(), ids=REFUSED)
def test_what_stands_in_the_way_is_said_before_anything_is_touched(
    options: dict[str, str], answers: dict[str, Any], code: str
) -> None:
    with pytest.raises(PlanError) as refused:
        plan_needed(options, True, False, answers)
    assert refused.value.code == f"repository.{code}"
    assert refused.value.values.get("problem", "") in ("", "timed out", "its name is not known")
    assert (
        not options.get("toolkit_repository")
        or refused.value.where == options["toolkit_repository"]
    )


def test_a_given_key_needs_no_fetching_and_a_reach_that_could_not_be_tried_stops_nothing() -> None:
    for answer in (
        {"value": {"tried": False, "reached": False, "why": "a proxy"}},
        {"error": {"kind": "timeout", "message": ""}},
    ):
        assert plan_needed(
            {"toolkit_key": armor(OLD)}, True, False, {**NO_SOURCES, "probe:reach": answer}
        ).changes


def test_a_source_that_no_package_list_knows_yet_is_a_configured_one() -> None:
    found = {
        repository.SOURCES["id"]: {
            "files": [
                {"path": "/etc/apt/sources.list.d/nvidia-container-toolkit.list", "type": "file"}
            ]
        }
    }
    assert plan_needed({}, True, False, {**REACHED, **FETCHED, **found}).empty
