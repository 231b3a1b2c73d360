# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which handler of CRI-O ours is copied from, and what of it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Handler,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import base
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    config as crio_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    releases as crio_releases,
)

from tests.unit.coded import get_coded
from tests.unit.crio_plans import DIRECTORY, host, planned, written

WHERE = crio_config.CrioPaths(
    "/etc/crio/crio.conf", DIRECTORY, "/run/crio.sock", f"{DIRECTORY}/90-gpufleet.conf"
)
NVIDIA = "/usr/bin/nvidia-container-runtime"
CRUN = {
    "runtime_path": "/usr/libexec/crio/crun",
    "monitor_path": "/usr/libexec/crio/conmon",
    "container_min_memory": "12MiB",
}
RUNC = {"runtime_path": "/usr/libexec/crio/runc", "runtime_root": "/run/runc"}
THEIRS = {"runtime_path": NVIDIA, "monitor_cgroup": "pod"}


def effective(default: str, **handlers: Any) -> crio_config.Effective:
    return crio_config.Effective(default, handlers, (), (), "files")


# case: what is declared, the handler that is copied, the program that the NVIDIA runtime hands over
# to
BASES: dict[str, tuple[crio_config.Effective, str, str]] = {
    "the packages' default": (effective("crun", crun=CRUN, runc=RUNC), "crun", CRUN["runtime_path"]),
    "runc is the default": (effective("runc", crun=CRUN, runc=RUNC), "runc", RUNC["runtime_path"]),
    "one of the same name": (effective("crun", crun=CRUN, nvidia=THEIRS), "nvidia", CRUN["runtime_path"]),
    "of the same name, and the default": (effective("nvidia", crun=CRUN, runc=RUNC, nvidia=THEIRS), "nvidia", RUNC["runtime_path"]),
    "NVIDIA's under another name is the default": (effective("gpu", gpu=THEIRS, runc=RUNC), "gpu", RUNC["runtime_path"]),
    "a node system's own shim": (effective("own", own={"runtime_path": "/opt/own-shim"}, crun=CRUN), "own", CRUN["runtime_path"]),
    "Kata is the default": (effective("kata", kata={"runtime_type": "vm", "runtime_path": "/usr/bin/shim"}, crun=CRUN), "crun",
                            CRUN["runtime_path"]),
    "gVisor is the default": (effective("runsc", runsc={"runtime_path": "/usr/bin/runsc"}, runc=RUNC), "runc", RUNC["runtime_path"]),
    "crun for WebAssembly, by its name alone": (effective("crun-wasm", **{"crun-wasm": {}}, runc=RUNC), "runc", RUNC["runtime_path"]),
    "a program on PATH": (effective("youki", youki={}), "youki", "youki"),
}  # fmt: skip


@pytest.mark.parametrize("case", BASES)
def test_the_first_handler_that_fits_is_copied(case: str) -> None:
    declared, name, program = BASES[case]
    assert base.choose_crio_base(declared, Handler(), WHERE)[0] == name
    assert base.find_crio_base_program(declared, Handler()) == program


@pytest.mark.parametrize(
    ("theirs", "handler", "code", "values"),
    [
        (
            {"runtime_type": "vm", "runtime_path": "/usr/bin/shim"},
            Handler(),
            "crio.handler-of-other-kind",
            {"kind": "vm"},
        ),
        (
            {"runtime_path": "/usr/bin/runsc"},
            Handler(),
            "crio.handler-of-other-kind",
            {"kind": "/usr/bin/runsc"},
        ),
        (
            {"runtime_path": "/opt/acme/gpu"},
            Handler(),
            "engine.handler-other-program",
            {"program": "/opt/acme/gpu"},
        ),
        ({"runtime_path": "/opt/acme/gpu"}, Handler(binary="/opt/acme/gpu"), "", {}),
        ({"runtime_path": "/opt/acme/gpu"}, Handler(chosen=True), "", {}),
        ({"runtime_path": "/usr/local/nvidia/toolkit/nvidia-container-runtime"}, Handler(), "", {}),
        ({"runtime_path": "/usr/bin/crun"}, Handler(), "", {}),
    ],
)
def test_a_handler_of_our_name_that_is_somebody_elses_is_refused(
    theirs: dict[str, Any], handler: Handler, code: str, values: dict[str, str]
) -> None:
    declared = effective("crun", crun=CRUN, nvidia=theirs)
    if not code:
        assert base.choose_crio_base(declared, handler, WHERE)[0] == "nvidia"
        return
    with pytest.raises(PlanError) as refused:
        base.choose_crio_base(declared, handler, WHERE)
    assert (refused.value.code, refused.value.values) == (code, {"handler": "nvidia", **values})


def test_one_that_inherits_has_its_own_properties_and_the_defaults_program() -> None:
    own = {
        "inherit_default_runtime": True,
        "allowed_annotations": ["a"],
        "runtime_root": "/run/own",
    }
    name, table = base.choose_crio_base(
        effective("crun", crun={**CRUN, "runtime_root": "/run/crun"}, nvidia=own), Handler(), WHERE
    )
    assert name == "nvidia"
    assert table == {
        "allowed_annotations": ["a"],
        "runtime_path": CRUN["runtime_path"],
        "runtime_root": "/run/crun",
    }


@pytest.mark.parametrize(
    ("names", "found"),
    [(("nvidia",), "crun"), (("nvidia", "crun"), "runc"), (("crun", "runc"), "")],
)
def test_who_becomes_the_default_in_our_place(names: tuple[str, ...], found: str) -> None:
    assert (
        base.choose_default_successor(
            effective("nvidia", crun=CRUN, runc=RUNC, nvidia=THEIRS), names
        )
        == found
    )


NO_PATH = ("runtime_path", "runtime_type", *crio_releases.NOT_COPIED)


def test_the_copy_is_whole() -> None:
    """Every property that this release knows of a handler, the minimum memory among them, and each
    of our handlers from its own base.
    """
    more = "\n".join([
        '[crio.runtime.runtimes.crun]', 'runtime_path = "/usr/libexec/crio/crun"', 'container_min_memory = "512KiB"',
        'monitor_exec_cgroup = "container"', 'runtime_pull_image = true', 'seccomp_profile = "/etc/seccomp.json"', 'no_sync_log = true',
        '[crio.runtime.runtimes.crun.default_annotations]', '"a.b/c" = "d"',
        '[crio.runtime.runtimes.nvidia-legacy]', f'runtime_path = "{NVIDIA}.legacy"', 'container_min_memory = "7MiB"',
    ])  # fmt: skip
    handlers = (Handler(), Handler("nvidia-legacy", f"{NVIDIA}.legacy"))
    files = {f"{DIRECTORY}/20-more.conf": more, f"{NVIDIA}.legacy": ""}
    found = written(planned(Policy(handlers=handlers), host(files)))["runtimes"]
    assert {k: v for k, v in found["nvidia"].items() if k not in NO_PATH} == {
        "container_min_memory": "512KiB", "monitor_exec_cgroup": "container", "runtime_pull_image": True,
        "seccomp_profile": "/etc/seccomp.json", "no_sync_log": True, "default_annotations": {"a.b/c": "d"},
    }  # fmt: skip
    assert found["nvidia-legacy"]["container_min_memory"] == "7MiB"


def test_the_program_of_a_node_systems_own_default_is_not_taken_over_and_that_is_said() -> None:
    own = '[crio.runtime]\ndefault_runtime = "own"\n[crio.runtime.runtimes.own]\nruntime_path = "/opt/own-shim"\nmonitor_cgroup = "pod"\n'
    found = planned(Policy(), host({f"{DIRECTORY}/20-own.conf": own}))
    assert written(found)["runtimes"]["nvidia"]["monitor_cgroup"] == "pod"
    assert written(found)["runtimes"]["nvidia"]["runtime_path"] == NVIDIA
    said = {"copied": "own", "program": "/opt/own-shim", "handler": "nvidia"}
    assert get_coded(found.advice) == {"engine.program-not-taken-over": said}
