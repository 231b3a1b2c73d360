# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links and directories around a CDI spec, and which file counts there."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Instance,
    Policy,
)

from tests.unit.cdi_plans import (
    OURS,
    RECORD,
    file_of,
    paths,
    plan,
    seen,
)
from tests.unit.coded import read_all_coded, read_coded
from tests.unit.records import instance, record

# path -> (what the host tells of its place, whether it goes): /var/run is a link on every host of
# today, and no reason to leave a file.
PLACES: dict[str, tuple[str, dict[str, Any], bool]] = {
    "below a link": (
        "/var/run/cdi/ctk.yaml",
        {"real": "/run/cdi/ctk.yaml", "links": ["/var/run"]},
        True,
    ),
    "in a linked directory": (
        "/etc/cdi/ctk.yaml",
        {"real": "/srv/cdi/ctk.yaml", "links": ["/etc/cdi"]},
        True,
    ),
    "itself a link": (
        "/etc/cdi/ctk.yaml",
        {"real": "/srv/x.yaml", "links": ["/etc/cdi/ctk.yaml"]},
        False,
    ),
    "a link below a link": (
        "/var/run/cdi/ctk.yaml",
        {"real": "/srv/ctk.yaml", "links": ["/var/run", "/run/cdi/ctk.yaml"]},
        False,
    ),
}


@pytest.mark.parametrize(("path", "answer", "goes"), PLACES.values(), ids=PLACES)
def test_a_spec_of_nvidia_ctk_is_taken_over_where_it_is_no_link_itself(
    path: str, answer: dict[str, Any], goes: bool
) -> None:
    files = {path: {"content": file_of(), **answer}}
    if goes:
        assert paths(plan(seen(files))) == [("remove", path), ("write", OURS)]
        return
    with pytest.raises(PlanError) as refused:
        plan(seen(files))
    assert read_coded(refused.value.values["reason"]) == (
        "cdi.kept-link",
        {"target": answer["real"]},
    )
    assert path in refused.value.next


OLD, NEW = instance("containerd", "2.3.7"), instance("containerd", "2.4.0")
LINKED = ("cdi-finding.link", {"target": "/srv"})
# what is with /etc/cdi: (what the host tells of it, the engines, the problem that is told)
DIRECTORIES: dict[str, tuple[dict[str, Any], tuple[Instance, ...], Any]] = {
    "podman#17539, root's umask was 077": ({"mode": 0o700}, (), ("cdi-finding.mode", {"mode": 0o700})),
    "for everybody": ({"mode": 0o755}, (), None),
    "a link, and the engines are not known": ({"mode": 0o755, "real": "/srv", "links": ["/etc/cdi"]}, (), LINKED),
    "a link that this engine does not follow": ({"mode": 0o755, "real": "/srv", "links": ["/etc/cdi"]}, (OLD,), LINKED),
    "a link that this engine follows": ({"mode": 0o755, "real": "/srv", "links": ["/etc/cdi"]}, (NEW,), None),
    "a link that one of two follows": (
        {"mode": 0o755, "real": "/srv", "links": ["/etc/cdi"]}, (NEW, instance("docker", "29.8.0")), LINKED
    ),
}  # fmt: skip


@pytest.mark.parametrize(("directory", "engines", "problem"), DIRECTORIES.values(), ids=DIRECTORIES)
def test_a_directory_that_engines_cannot_read_is_told(
    directory: dict[str, Any], engines: tuple[Instance, ...], problem: Any
) -> None:
    decided = record(Policy(), *engines) if engines else RECORD
    found = plan(seen({"/etc/cdi": {"type": "dir", **directory}}), decided)
    told = [
        values
        for code, values in read_all_coded(found.advice)
        if code == "cdi.directory-not-listed"
    ]
    assert [(values["directory"], values["problem"]) for values in told] == (
        [("/etc/cdi", problem)] if problem else []
    )


def test_our_spec_in_a_linked_directory_is_found_and_written_again() -> None:
    made = plan(
        seen({OURS: {"content": file_of(), "real": "/srv/cdi/nvidia.yaml", "links": ["/etc/cdi"]}})
    )
    assert paths(made) == [("write", OURS)]
