# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A unit that makes a CDI spec at each boot is named if it is enabled, whoever has put it there."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    cdi_generators,
    cdi_refresh,
)

from tests.unit.builders import obs

ETC, USR = "/etc/systemd/system", "/usr/lib/systemd/system"
RUNS = "[Service]\nType=oneshot\nExecStart={}\n"
GENERATES = RUNS.format("/usr/bin/nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml")
NAME = "ublue-nvctk-cdi.service"


def enabled(name: str, folder: str = ETC) -> dict[str, Any]:
    return {f"{folder}/multi-user.target.wants/{name}": ""}


ROWS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "one of the image (ublue-os/akmods/pull/75)": (
        {f"{USR}/{NAME}": GENERATES, **enabled(NAME)},
        [f"{USR}/{NAME}"],
    ),
    "enabled by the image itself": (
        {f"{USR}/{NAME}": GENERATES, **enabled(NAME, USR)},
        [f"{USR}/{NAME}"],
    ),
    "a person's (NVIDIA/nvidia-container-toolkit/issues/856)": (
        {
            f"{ETC}/nvidia-toolkit-cdi.service": RUNS.format("nvidia-ctk cdi generate"),
            **enabled("nvidia-toolkit-cdi.service"),
        },
        [f"{ETC}/nvidia-toolkit-cdi.service"],
    ),
    "by a shell, with flags": (
        {
            f"{ETC}/cdi.service": RUNS.format(
                'sh -c "nvidia-ctk --quiet cdi generate > /etc/cdi/a.yaml"'
            ),
            **enabled("cdi.service"),
        },
        [f"{ETC}/cdi.service"],
    ),
    "not enabled": ({f"{USR}/{NAME}": GENERATES}, []),
    "masked": (
        {
            f"{ETC}/{NAME}": {"type": "char", "real": "/dev/null"},
            f"{USR}/{NAME}": GENERATES,
            **enabled(NAME),
        },
        [],
    ),
    "a unit of the host's own in its place": (
        {f"{ETC}/{NAME}": RUNS.format("true"), f"{USR}/{NAME}": GENERATES, **enabled(NAME)},
        [],
    ),
    "another program": (
        {
            f"{USR}/cdi-agent.service": RUNS.format("/usr/bin/cdi-agent"),
            **enabled("cdi-agent.service"),
        },
        [],
    ),
    "another command of it": (
        {f"{USR}/{NAME}": RUNS.format("nvidia-ctk cdi list"), **enabled(NAME)},
        [],
    ),
    "nvidia-cdi-refresh": (
        {f"{USR}/{cdi_refresh.SERVICE}": GENERATES, **enabled(cdi_refresh.SERVICE)},
        [],
    ),
    "one that is not root's alone": (
        {
            f"{ETC}/{NAME}": {
                "type": "file",
                "error": {"kind": "untrusted", "message": "belongs to user 1000"},
            },
            **enabled(NAME),
        },
        [],
    ),
    "none": ({}, []),
}


@pytest.mark.parametrize(("files", "named"), ROWS.values(), ids=ROWS)
def test_a_unit_is_named(files: dict[str, Any], named: list[str]) -> None:
    assert [
        sentence.partition(" ")[0]
        for sentence in cdi_generators.advise_on_other_generators(
            cdi_generators.read_generator_facts(obs(files=files)), cdi_refresh.SERVICE
        )
    ] == named


def test_nothing_else_of_a_unit_travels() -> None:
    text = RUNS.format("env TOKEN=hunter2 nvidia-ctk cdi generate --output=/srv/hunter2.yaml")
    assert "hunter2" not in file_places.show_own_text(
        f"Environment=A=hunter2\n{text}", cdi_generators.GENERATES
    )
