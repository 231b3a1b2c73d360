# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A service of this collection that stays on a host: a small program, the file with its
instructions, and the units that start it.

systemd never reloads, since that takes GPUs from containers that got them by the legacy hook
(nvidia-container-toolkit issue 48). It reads a new unit when the unit is first started, and reads
all of them at boot. So a unit's file never changes; everything that may change is in the other
file. A drop-in of multi-user.target wants the unit: unlike a link, it is a plain file that can be
given back.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping, Sequence

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    queries,
    transaction,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import NeedMore
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    AskedQuestions,
    Lookup,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
    Restart,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    OWN_UNIT,
    WHOLE,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    earlier_runs,
    owned_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known

PROGRAMS = "/usr/local/libexec/gpufleet"
SETTINGS = "/etc/gpufleet"
UNITS = "/etc/systemd/system"
# The units that start containers, or write CDI specs from the nodes that exist.
BEFORE = " ".join(
    (
        "containerd.service crio.service docker.service podman.service podman-restart.service kubelet.service nvidia-cdi-refresh.service",
        *known.own_engine_units(),
    )
)
# RHEL 8 has its Python in /usr/libexec only. By path: systemd's own PATH begins with /usr/local,
# which is not root's alone everywhere.
PYTHONS = "/usr/bin/python3 /usr/libexec/platform-python /run/current-system/sw/bin/python3"
START = f"for p in {PYTHONS}; do [ -x $p ] && exec $p -I -S %s; done; echo There is no Python at {PYTHONS} >&2; exit 127"


@dc.dataclass(frozen=True)
class Resident:
    """A set of units that stays on a host, with the program that they run.

    units: name -> text. wanted: the units that start at boot. program: the source; '' if the units
    run no program of this collection.
    """

    name: str
    units: Mapping[str, str]
    wanted: tuple[str, ...]
    why: str
    settings: str = ""
    program: str = ""
    shows: tuple[
        str, ...
    ] = ()  # keys of the settings whose values people read before there are any

    @property
    def program_path(self) -> str:
        return get_program_path(self.name)

    @property
    def settings_path(self) -> str:
        return get_settings_path(self.name)


def get_program_path(name: str) -> str:
    return f"{PROGRAMS}/{name}.py"


def get_settings_path(name: str) -> str:
    return f"{SETTINGS}/{name}.json"


def build_service_command(name: str, *words: str) -> list[str]:
    """Return the command that starts a resident program.

    words: its arguments after the file with its instructions.
    """
    return [
        "/bin/sh",
        "-c",
        START % " ".join((get_program_path(name), get_settings_path(name), *words)),
    ]


def write_exec_start(name: str, *words: str) -> str:
    """Return the command for ExecStart= of a unit.

    It doubles each $, since systemd reads $ as the beginning of a variable.
    """
    shell, option, script = build_service_command(name, *words)
    return f"{shell} {option} '{script.replace('$', '$$')}'"


def write_service_drop_in(name: str) -> str:
    return f"{UNITS}/multi-user.target.d/gpufleet-{name}.conf"


def write_service_unit(name: str, description: str, *, seconds: int, after: str = "") -> str:
    """Return a unit that runs the program once, before any program that starts containers.

    seconds: the time after which systemd continues without the program. A unit of this type has no
    limit of its own. A program that waits in the kernel for a GPU that does not answer ends by no
    signal, and every engine would wait for it at boot.
    """
    later = f" {after}" if after else ""
    return (
        "# Written by gpufleet.nvidia.\n"
        f"[Unit]\nDescription={description}\nAfter=systemd-modules-load.service local-fs.target{later}\nBefore={BEFORE}\n\n"
        f"[Service]\nType=oneshot\nTimeoutStartSec={seconds}\nTimeoutStopSec=10\nExecStart={write_exec_start(name)}\n"
    )


def list_service_paths(name: str, units: tuple[str, ...]) -> tuple[str, ...]:
    return (
        get_program_path(name),
        get_settings_path(name),
        *(f"{UNITS}/{unit}" for unit in units),
        write_service_drop_in(name),
    )


def list_service_questions(name: str, units: tuple[str, ...]) -> list[queries.Question]:
    files = [
        queries.ask_for_file(path, keep=OWN_UNIT if path.startswith(f"{UNITS}/") else WHOLE)
        for path in list_service_paths(name, units)
    ]
    return [*files, queries.ask_for_units(list(units)), earlier_runs.ORIGINALS]


@dc.dataclass(frozen=True)
class ServiceFacts:
    """A host's facts about this collection's services: files by path, units by name.

    asked: the questions that the look has answered.
    """

    files: Lookup[str, ObservedFile]
    units: Lookup[str, Mapping[str, str]]
    asked: AskedQuestions
    earlier: earlier_runs.EarlierRuns

    def is_active(self, unit: str) -> bool:
        return self.units.get(unit).get("ActiveState") == "active"


def read_service_facts(obs: Observation) -> ServiceFacts:
    return obs.compute_once(
        "services",
        lambda: ServiceFacts(
            Lookup(obs.get_file),
            Lookup(obs.get_unit),
            obs.get_asked(),
            earlier_runs.read_earlier_runs(obs),
        ),
    )


def plan_service(policy: Policy, facts: ServiceFacts, wanted: Resident) -> Plan:
    """Plan the files that differ. Units that watch start with them; the plan that needs a service
    starts it.
    """
    texts = {f"{UNITS}/{unit}": text for unit, text in wanted.units.items()}
    texts[write_service_drop_in(wanted.name)] = (
        f"# Written by gpufleet.nvidia.\n[Unit]\nWants={' '.join(wanted.wanted)}\n"
    )
    if wanted.program:
        texts[wanted.program_path] = wanted.program
        texts[wanted.settings_path] = wanted.settings
    files = merge_plans(
        [
            plan_service_file(facts, path, text, wanted.why, wanted.shows)
            for path, text in sorted(texts.items())
        ]
    )
    watching = [u for u in wanted.wanted if not u.endswith(".service") and not facts.is_active(u)]
    restarts = (
        tuple(Restart(u, "start", wanted.why) for u in watching) if policy.root == "/" else ()
    )
    return dc.replace(files, restarts=restarts)


def plan_service_file(
    facts: ServiceFacts, path: str, text: str, why: str, shows: Sequence[str] = ()
) -> Plan:
    file = owned_file.require_readable(facts.files.get(path))
    if file.content == text and owned_file.has_right_mode(file):
        return Plan()
    if path.startswith(f"{SETTINGS}/"):
        return owned_file.write_values(file, text, why=why, shows=shows)
    return owned_file.plan_owned_file(file, text, why=why)


def is_own_service_file(earlier: earlier_runs.EarlierRuns, file: ObservedFile) -> bool:
    """Tell whether a file of a service is ours. A person may have put another one in its place.
    Units carry our mark, the program and its settings do not.
    """
    if file.path.startswith(f"{UNITS}/"):
        return owned_file.is_marked(file)
    return owned_file.is_known_as_ours(earlier, file)


def plan_service_removal(
    policy: Policy, facts: ServiceFacts, name: str, units: tuple[str, ...], why: str
) -> Plan:
    """Plan to remove the files. A unit that watches is stopped first, since otherwise it would go
    on until the next boot.
    """
    wanted = list_service_questions(name, units)
    if not all(facts.asked.has(q) for q in wanted if q["kind"] == "file"):
        raise NeedMore(wanted)  # in one more look, not in one for each
    files = [facts.files.get(path) for path in list_service_paths(name, units)]
    back = merge_plans(
        [
            owned_file.plan_owned_file_restore(
                facts.earlier, f, why=why, own=is_own_service_file(facts.earlier, f)
            )
            for f in files
        ]
    )
    watching = [u for u in units if not u.endswith(".service") and facts.is_active(u)]
    if back.empty or policy.root != "/" or not watching:
        return back
    stop: transaction.PackageCommand = {
        "argv": ["systemctl", "stop", *watching],
        "timeout": 60,
        "why": why,
        "undo": ["systemctl", "start", *watching],
    }
    return dc.replace(back, commands=(stop,))
