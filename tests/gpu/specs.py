# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make every spec of this machine by the planner, and compare them with those of nvidia-ctk."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    STANDARD_PATH,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import fabric_kinds
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices import (
    inventory,
    sources,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    catalogue,
    discover,
    driver_listing,
    ld_cache,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate import (
    build,
    layouts,
    profiles,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate.hooks import (
    INSTALLED,
    HookProgram,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Edits,
    Spec,
    convert_spec_to_document,
    read_spec_of_document,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_state,
    gpus,
)

from tests.gpu import look, spec_facts

ROUNDS = 6
CAP = "1.1.0"
# The newest hooks, if there is no nvidia-ctk to ask for its release.
HOOKS = HookProgram(INSTALLED, (1, 20, 2))
# What each spec is called, its profile and its layout.
KINDS: Mapping[str, tuple[profiles.Profile, str]] = {
    "full": ("full", layouts.WORKLOADS),
    "hookless": ("hookless", layouts.WORKLOADS),
    "devices": ("devices", layouts.WORKLOADS),
    "by-model": ("full", layouts.MODELS),
    "management": ("full", layouts.MANAGEMENT),
    "imex-channels": ("full", layouts.CHANNELS),
    "nvswitches": ("full", layouts.SWITCHES),
}
NAMES = ("index", "uuid")
# What nvidia-ctk makes alike: our spec, its mode.
COMPARED = {"full": "nvml", "management": "management"}
VERSION = re.compile(r"version (\d+)\.(\d+)\.(\d+)")


def make_policy() -> Policy:
    return Policy(cdi_device_names=NAMES, cdi_imex_channels=("all",), cdi_nvswitch=True)


def list_questions(policy: Policy) -> list[Mapping[str, Any]]:
    """Return the questions of the first look, which do not depend on answers."""
    return [*gpus.list_questions(policy), *driver_listing.list_driver_file_questions(policy)]


def observe(policy: Policy, seen: Observation, probe: str) -> Observation:
    """Return all that the specs take, NVML's answers included."""
    for _round in range(ROUNDS):
        try:
            plan(policy, seen, probe, *KINDS["full"])
        except NeedMore as need:
            seen = seen.add_answers(look.ask(list(need.questions)))
        else:
            return seen
    raise ValueError(f"the planner still asks after {ROUNDS} looks")


def plan(
    policy: Policy,
    seen: Observation,
    probe: str,
    profile: profiles.Profile,
    layout: str,
    hooks: HookProgram = HOOKS,
) -> build.Generated:
    """Plan one spec from an observation, which is the pure part."""
    driver = driver_state.read_driver(policy, seen)
    found = discover.find_driver_files(
        discover.read_driver_file_facts(policy, seen),
        policy.cdi_features or catalogue.FEATURES,
        driver.version,
    )
    how = profiles.MountPlan(
        profile,
        hooks,
        policy.cdi_driver_root,
        str(seen.host["machine"]),
        layout == layouts.MANAGEMENT,
    )
    links = driver_listing.map_dri_links(policy, seen)

    def of_gpu(drm: tuple[str, ...]) -> Edits:
        return profiles.build_gpu_link_edits(drm, links, how)

    there, _words = sources.identify_hardware(
        sources.read_source_facts(policy, seen, probe),
        inventory.observe(policy, seen, driver.gpus),
    )
    return build.generate(
        fabric_kinds.get_fabric_part(policy, there, layout),
        build.Options(cap=CAP, layout=layout, names=policy.cdi_device_names),
        profiles.build_common_edits(found, how),
        of_gpu,
    )


def run(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return every spec as a document, with what is missing and the notes of its making.

    request: `answer` of the look, `ctk` the path of nvidia-ctk or "".
    """
    policy, probe = make_policy(), look.read_own_text(look.PROBE)
    seen = observe(policy, Observation({}, {}).add_answers(request["answer"]), probe)
    hooks = HookProgram(INSTALLED, read_ctk_version(request["ctk"]) or HOOKS.version)
    made: dict[str, Any] = {}
    specs: dict[str, Spec] = {}
    for kind in KINDS:
        began = time.monotonic()
        done = plan(policy, seen, probe, *KINDS[kind], hooks)
        specs[kind] = done.spec
        made[kind] = {
            "spec": convert_spec_to_document(done.spec),
            "missing": list(done.missing),
            "notes": list(done.notes),
            "seconds": round(time.monotonic() - began, 3),
        }
    found = discover.find_driver_files(
        discover.read_driver_file_facts(policy, seen),
        catalogue.FEATURES,
        driver_state.read_driver(policy, seen).version,
    )
    compared = {
        kind: compare(request["ctk"], mode, specs[kind])
        for kind, mode in (COMPARED.items() if request["ctk"] else ())
    }
    return {
        "specs": made,
        "driver": driver_state.read_driver(policy, seen).version,
        "files": {"missing": list(found.missing), "left_out": list(found.left_out)},
        "compared": compared,
        "ctk": ".".join(map(str, hooks.version)) if request["ctk"] else "",
        "host": dict(seen.host),
        "answers": narrow_loader_cache(seen.answers),
    }


def narrow_loader_cache(answers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answers with a loader's cache that has the driver's libraries alone: the others
    tell what else is on a machine, and where.
    """
    of = f"file:{ld_cache.PATH}"
    content = (answers.get(of) or {}).get("content")
    if not content:
        return dict(answers)
    try:
        known = ld_cache.parse_ld_cache(content.encode("utf-8", "surrogateescape"))
    except ValueError:
        known = ()
    text = render_loader_cache(list(filter(discover.is_driver_entry, known)))
    narrowed = {**answers[of], "content": text.decode("utf-8", "surrogateescape")}
    return {**answers, of: {**narrowed, "size": len(text)} if "size" in narrowed else narrowed}


def render_loader_cache(entries: Sequence[ld_cache.Entry]) -> bytes:
    """Return a cache of 64-bit libraries as ldconfig writes it."""
    kinds = {cpu: kind | 0x3 for kind, cpu in ld_cache.BITS_64.items()}
    start = ld_cache.NEW_HEADER.size + ld_cache.NEW_ENTRY.size * len(entries)
    table, texts = b"", b""
    for entry in entries:
        places = []
        for text in (entry.name, entry.path):
            places.append(start + len(texts))
            texts += text.encode("utf-8", "surrogateescape") + b"\0"
        table += ld_cache.NEW_ENTRY.pack(kinds[entry.cpu], *places, 0, 0)
    return ld_cache.NEW_HEADER.pack(ld_cache.NEW, len(entries), len(texts), 2, 0) + table + texts


# ---------------------------------------------------------------- nvidia-ctk


def read_ctk_version(program: str) -> tuple[int, ...] | None:
    if not program:
        return None
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    found = VERSION.search(done.stdout)
    return tuple(map(int, found.groups())) if found else None


def ask_ctk(program: str, mode: str) -> Mapping[str, Any]:
    """Return nvidia-ctk's spec as a document. Raise ValueError with its last line if it fails."""
    command = [
        *(program, "cdi", "generate", "--mode", mode, "--format", "json"),
        *("--feature-flag", "disable-nvsandboxutils", "--nvidia-cdi-hook-path", INSTALLED),
        *(word for name in NAMES for word in ("--device-name-strategy", name)),
    ]
    # It finds programs by its PATH; this is the one of a service.
    env = {"PATH": ":".join(STANDARD_PATH)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError((done.stderr.strip().splitlines() or ["it says nothing"])[-1])
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found


def compare(program: str, mode: str, ours: Spec) -> dict[str, Any]:
    """Return the differences from nvidia-ctk's spec by topic, and the unexplained ones at ""."""
    try:
        document = ask_ctk(program, mode)
    except ValueError as error:
        return {"failed": str(error)}
    theirs = read_spec_of_document(document)
    root = Path("/")
    both = [spec_facts.list_facts(spec, root) for spec in (theirs, ours)]
    if mode == "management":
        both = [spec_facts.select_device_facts(found, "all") for found in both]
    differences = spec_facts.compare_facts(both[0], both[1])
    return {"theirs": document, "differences": dict(describe(differences))}


def describe(
    found: Mapping[str, Sequence[tuple[str, spec_facts.Fact]]],
) -> Iterator[tuple[str, list[list[Any]]]]:
    for topic, facts in found.items():
        yield topic, [[side, fact.device, fact.kind, list(fact.value)] for side, fact in facts]
