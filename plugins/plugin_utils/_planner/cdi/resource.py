# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the CDI spec of a host: the questions for the look, and the plan that makes the spec true.

The spec has one owner. Ours stands in /etc/cdi. /var/run/cdi outranks it, but is gone after a reboot,
and engines that start containers at boot would not find it (nixpkgs 420638); that is why
nvidia-cdi-refresh's file there is taken over, which would hide this collection's.
"""

from __future__ import annotations

import contextlib
import dataclasses as dc
import functools
import posixpath
from collections.abc import Callable, Mapping
from typing import Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import owned_file, queries, transaction
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.adoption import cdi_files, cdi_generators, cdi_refresh, gpu_operator
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi import (
    described,
    driver_part,
    fabric_kinds,
    files,
    lost,
    messages,
    other_files,
    safety_correction,
    shared_kinds,
    staleness,
    staleness_guard,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.devices import inventory, sources
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.driver_files import catalogue, discover
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.engine_view import reader
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.generate import build, hooks, layouts
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.spec import version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.spec import writer as render
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cdi.spec.model import KIND, Spec
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.driver import outer_host
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.lowering import Decided, by_policy, caused
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import (
    Difference,
    Driver,
    HostDecision,
    Leftover,
    Plan,
    Policy,
    merge,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import File, Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.resources import packages, toolkit_config

REFRESH_FILE = cdi_refresh.REFRESH_FILE
# The package's script starts the units at once, after the look and before our files are written. Packages before 1.18 have no units.
STOP_REFRESH = (
    "systemctl cat nvidia-cdi-refresh.service >/dev/null 2>&1 || exit 0; "
    f"systemctl --no-reload disable --now nvidia-cdi-refresh.path nvidia-cdi-refresh.service && rm -f {REFRESH_FILE}"
)
AFTER_INSTALLATION: transaction.Command = {
    "argv": ["sh", "-c", STOP_REFRESH],
    "timeout": 60,
    "why": messages.REFRESH_STARTS.fill(),
}
MODE = "0644"  # rootless engines read it as well
# Layouts whose files go if nothing of theirs is on offer, and why.
GOING = {layouts.BY_SHARING: messages.NOT_SHARED.fill(), layouts.FABRIC: messages.NOT_ASKED.fill()}


def questions(policy: Policy) -> list[queries.Question]:
    found = [*discover.questions(policy), *hooks.questions(policy), *files.of_directories(policy)]
    more = [*staleness_guard.questions(policy), *toolkit_config.questions(policy)]
    return [*found, *more, queries.package([packages.BASE]), owned_file.ORIGINALS]


@dc.dataclass(frozen=True)
class Made:
    """The specs as they have to be, by kind. source: what listed the devices. notes: what a person should know."""

    specs: Mapping[str, build.Generated]
    source: str
    notes: tuple[str, ...] = ()
    of: driver_part.OfDriver | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path for made in self.specs.values() for path in made.missing))

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(name for made in self.specs.values() for name in made.spec.names)


NOTHING_MADE = Made({}, "")


def plan(policy: Policy, obs: Observation, host: HostDecision, driver: Driver, probe_source: str) -> Plan:
    return outcome(policy, obs, host, driver, probe_source)[0]


def outcome(
    policy: Policy, obs: Observation, host: HostDecision, driver: Driver, probe_source: str, decided: Decided = by_policy
) -> tuple[Plan, Made]:
    """Return the plan for the specs, and the specs themselves.

    If this collection is the owner, our specs become as they have to be, and no others stay for the
    same devices. If the owner is another one or none, our specs go.
    """
    if host.skipped:
        return Plan(), NOTHING_MADE
    files.look_into(policy, obs)
    if host.cdi_owner != "collection":
        why = (messages.REFRESH_WRITES if host.cdi_owner == "toolkit" else messages.NOTHING_READS).fill()
        unheard = Plan(advice=fabric_kinds.unheard(policy, why))
        gone_over = lost.handed_over(policy, host.cdi_owner, withdraw(policy, obs, why), decided)
        return merge([gone_over, start_refresh(policy, obs, host, driver), unheard]), NOTHING_MADE
    if driver.state == "none":
        return without_gpu(policy, obs, driver), NOTHING_MADE
    require_driver(driver)
    made = make(policy, obs, host, driver, probe_source)
    left = [left_by_others(policy, obs, one.spec) for one in made.specs.values()]
    judged = functools.partial(verdict, policy, obs, host, driver)
    less = functools.partial(lost.explained, policy, obs, driver, decided)
    written = [(write(policy, obs, one.spec, made.source, judged), place(policy, obs, one.spec), one.spec) for one in made.specs.values()]
    writes = [less(planned, file, spec, dict(files.kinds(policy))[spec.kind], own=files.is_own(file)) for planned, file, spec in written]
    driver_part.require_libraries(made.of, driver.version, writes) if made.of else None
    moved = [files.leave(obs, file) for file in files.elsewhere(policy, obs)]
    less_asked = [(fabric_kinds.withdrawn(policy, going), why) for going, why in GOING.items()]
    gone = [caused(withdraw(policy, obs, why, going, frozenset(made.specs)), "policy") for going, why in less_asked if going]
    fabric = fabric_kinds.advice(policy, obs, merge(writes))
    return merge(
        [
            take_over(policy, obs, host),
            *left,
            *writes,
            *gone,
            caused(merge(moved), "policy"),
            Plan(advice=(*driver.notes, *made.notes, *fabric, *files.advice(policy, obs, host))),
        ]
    ), made


def watched(policy: Policy, obs: Observation, host: HostDecision, done: tuple[Plan, Made], program: str) -> Plan:
    """Plan the watch that sees between two runs whether the specs of this run are true. A watch that goes follows its spec."""
    if host.skipped or policy.root != "/":
        return Plan()
    written = {c["path"]: staleness_guard.digest(c["content"]) for c in done[0].changes if c["op"] == "write"}
    places = {files.path(policy, name): one.spec for name, one in done[1].specs.items()}
    there = {where: files.seen(policy, obs, where).content for where in places if where not in written}
    hashes = {**written, **{where: staleness_guard.digest(text) for where, text in there.items() if text is not None}}
    specs = {where: (hashes.get(where, ""), spec) for where, spec in places.items()}
    return caused(staleness_guard.plan(policy, obs, host.cdi_owner, specs, program), "policy")


def without_gpu(policy: Policy, obs: Observation, driver: Driver) -> Plan:
    """Plan for a host on which no spec has a GPU to name.

    Raise PlanError for a GPU of a kind that no spec is made for, if a spec is all that was asked
    for.
    """
    if driver.platform and policy.single:
        raise PlanError(messages.NO_SPEC_HERE.fill(evidence=driver.evidence))
    advice = messages.NO_SPEC_YET.fill(evidence=driver.evidence)
    if driver.platform == "vgpu":  # a spec from before lists GPUs that are there
        return Plan(advice=(advice,))
    stay = frozenset(name for name, layout in files.kinds(policy) if fabric_kinds.stays(policy, obs, layout))
    gone = withdraw(policy, obs, messages.NO_GPU_LEFT.fill(), but=stay)
    return merge([lost.with_hardware(policy, obs, driver, gone), Plan(advice=(advice,))])


def plan_absent(policy: Policy, obs: Observation) -> Plan:
    why = messages.SPECS_WITHDRAWN.fill()
    plans = [withdraw(policy, obs, why)]
    theirs = files.seen(policy, obs, REFRESH_FILE)
    if files.shared_kind(policy) and posixpath.dirname(REFRESH_FILE) in files.directories(policy) and not files.is_own(theirs):
        plans.append(owned_file.give_back(obs, theirs, why=why, own=False))
    return merge([*plans, staleness_guard.plan_absent(policy, obs, why)])


def record_of_options(owner: Literal["collection", "toolkit", "none"], cap: str) -> HostDecision:
    """Build the parts of a record that this resource reads, for the single module, which does what its options ask for."""
    return HostDecision(
        decisions=(),
        refused=(),
        skipped="",
        runtime_mode="auto",
        annotation_prefixes=(),
        isolation="compatible",
        low_level_runtimes=(),
        packages=(),
        cdi_owner=owner,
        cdi_version_cap=cap,
        reasons=(),
    )


def own_paths(policy: Policy) -> tuple[str, ...]:
    """Return the files that hold specs of these kinds, and the files that go with them."""
    others = (REFRESH_FILE, *cdi_refresh.MASKS.values()) if files.shared_kind(policy) else ()
    return (*(files.path(policy, name) for name, _layout in files.kinds(policy)), *others)


def taken_over(policy: Policy, obs: Observation) -> tuple[str, ...]:
    """Return the files of nvidia-ctk, under any name, that were removed when ours was written."""
    folders = tuple(f"{directory}/" for directory in files.directories(policy))
    gone = (path_ for path_, kept in owned_file.originals(obs).items() if kept.get("existed") and kept.get("now") is None)
    return tuple(path_ for path_ in gone if path_.startswith(folders))


def withdraw(policy: Policy, obs: Observation, why: str, of: tuple[str, ...] = (), but: frozenset[str] = frozenset()) -> Plan:
    """Plan the removal of our specs. of: the layouts whose files go, empty for all. but: the kinds that stay."""
    going = [name for name, layout in files.kinds(policy) if name not in but and (not of or layout in of)]
    own = [files.seen(policy, obs, files.path(policy, name)) for name in going]
    own += () if of or but else files.elsewhere(policy, obs)
    kept = owned_file.originals(obs)
    linked = {file.real for file in files.in_former(policy, obs) if file.path in kept}  # given back by that path
    own = [file for file in own if file.path in kept or file.real not in linked]
    return merge([owned_file.give_back(obs, file, why=why, own=files.is_own(file)) for file in own])


def require_driver(driver: Driver) -> None:
    if driver.state == "not-loaded":
        raise PlanError(messages.SPEC_DRIVER_NOT_LOADED.fill(evidence=driver.evidence), next=driver.remedy)
    if driver.state == "broken":
        raise PlanError(messages.SPEC_DRIVER_BROKEN.fill(evidence=driver.evidence), next=driver.remedy)


def make(policy: Policy, obs: Observation, host: HostDecision, driver: Driver, probe_source: str) -> Made:
    """Make the specs as they have to be.

    NVML or nvidia-smi use the GPUs only if our specs on the host cannot be the right ones. Raise
    NeedMore to ask them.
    """
    look = inventory.observe(policy, obs, driver.gpus)
    make_of = functools.partial(generated, policy, host, driver_part.of_driver(policy, obs, host, driver))
    made = make_of(look)
    require_nodes(policy, obs, made)  # before a source uses the GPUs: NVML makes missing nodes if root asks it, also in check mode
    if policy.root != "/":
        return made
    known = sources.recalled(look, recorded(policy, obs))
    made = made if known == look else make_of(known)
    if all(is_right(policy, place(policy, obs, one.spec), one.spec) for one in made.specs.values()):
        return made
    full, words = sources.identified(policy, obs, known, probe_source)
    made = make_of(full, words)
    require_nodes(policy, obs, made)
    return made


def generated(policy: Policy, host: HostDecision, of: driver_part.OfDriver, look: inventory.Hardware, words: tuple[str, ...] = ()) -> Made:
    """Make one spec for each kind, and none if no device would be in it."""
    parts = {name: (part_of(policy, look, layout), layout) for name, layout in files.kinds(policy)}
    all_of_them = {name: one_spec(policy, host, of, part, name, layout) for name, (part, layout) in parts.items()}
    specs = {name: one for name, one in all_of_them.items() if one.spec.devices}
    optional = (*layouts.BY_SHARING, *fabric_kinds.not_asked(policy))
    lacking = [name for name, (_part, layout) in parts.items() if name not in specs and layout not in optional]
    empty = [messages.NO_DEVICE_OF_KIND.fill(kind=name) for name in lacking]
    notes = tuple(dict.fromkeys(note for one in all_of_them.values() for note in one.notes))
    return Made(specs, look.source, (*words, *notes, *of.notes, *empty), of)


def part_of(policy: Policy, look: inventory.Hardware, layout: str) -> inventory.Hardware:
    """Return the part of the hardware that a layout is about."""
    return fabric_kinds.part(policy, shared_kinds.part(policy, look, layout), layout)


def one_spec(
    policy: Policy, host: HostDecision, of: driver_part.OfDriver, look: inventory.Hardware, name: str, layout: str
) -> build.Generated:
    options = build.Options(
        kind=name,
        cap=host.cdi_version_cap,
        layout=layout,
        names=policy.cdi_device_names,
        node_attributes=policy.cdi_node_attributes,
        group_ids=policy.cdi_group_ids,
        above_cap=policy.cdi_above_cap,
        assume_nodes=policy.root != "/" and not look.shows_nodes,
        features=frozenset(policy.cdi_features or catalogue.FEATURES),
        void_mount=of.void_mount,
    )
    made = build.generate(look, options, of.common, of.of_drm)
    too_new = version.above(made.spec, host.cdi_version_cap)
    if too_new:
        raise PlanError(messages.READERS_TOO_OLD.fill(version=host.cdi_version_cap, needs="; ".join(too_new)))
    return made


def require_nodes(policy: Policy, obs: Observation, made: Made) -> None:
    if made.missing and policy.cdi_missing_nodes == "fail":
        inside = outer_host.kind(policy, obs)
        row = messages.SPEC_NODE_MISSING if policy.root == "/" else messages.NODE_MISSING_IN_TREE
        step = outer_host.nodes_remedy(inside) if inside else ""
        raise PlanError(row.fill(nodes=", ".join(made.missing)), next=step)


def recorded(policy: Policy, obs: Observation) -> list[Spec]:
    """Return our own specs on the host, which know what NVML reported when they were made."""
    found = []
    for file in (files.seen(policy, obs, files.path(policy, name)) for name, _layout in files.kinds(policy)):
        with contextlib.suppress(ValueError):
            found += [reader.parse(file.content or "")] if files.is_own(file) else []
    return found


def verdicts(policy: Policy, obs: Observation, host: HostDecision, driver: Driver) -> tuple[staleness.Verdict, ...]:
    """Judge whether the specs on this host are still true: our files, and nvidia-cdi-refresh's if it exists."""
    files.look_into(policy, obs)
    own = [files.path(policy, name) for name, _layout in files.kinds(policy)]
    refreshed = [cdi_refresh.refresh(policy, obs).output] if files.shared_kind(policy) else []
    wanted = [p for p in dict.fromkeys((*own, *refreshed)) if p in own or files.seen(policy, obs, p).exists]
    found = [v for v in (verdict(policy, obs, host, driver, p) for p in wanted) if v]
    return tuple(sorted(found, key=lambda v: not files.seen(policy, obs, v.path).exists))  # withdrawn files come last


def verdict(policy: Policy, obs: Observation, host: HostDecision, driver: Driver, of: str) -> staleness.Verdict | None:
    """Judge one of these files, or its absence if our guard has taken it away; None for other absent files."""
    file = files.seen(policy, obs, of)
    if not file.exists:
        return staleness.withdrawn(of) if staleness_guard.withdrawn(obs, of) else None
    held_against = staleness.host(policy, obs, driver, host.cdi_version_cap, files.directories(policy))
    return staleness.judge(file, writer(policy, obs, file), held_against)


def writer(policy: Policy, obs: Observation, file: File) -> staleness.Writer:
    """Tell who wrote a spec, by its first line, else by the path that nvidia-cdi-refresh writes to."""
    if files.is_own(file):
        return "collection"
    return "toolkit" if files.shared_kind(policy) and file.path == cdi_refresh.refresh(policy, obs).output else "other"


def start_refresh(policy: Policy, obs: Observation, host: HostDecision, driver: Driver) -> Plan:
    """Plan to let nvidia-cdi-refresh write its file again if that makes it fresh. A driver that does not work is not asked."""
    if host.cdi_owner != "toolkit" or policy.root != "/" or driver.state != "ok":
        return Plan()
    output = cdi_refresh.refresh(policy, obs).output
    found = next((v for v in verdicts(policy, obs, host, driver) if v.path == output and v.state == "stale"), None)
    if found is None or not obs.unit(cdi_refresh.SERVICE) or all(r.what == "cap" for r in found.reasons):
        return Plan()
    why = messages.REFRESHED.fill(path=output, problem=found.sentence)
    start: transaction.Command = {"argv": ["systemctl", "start", cdi_refresh.SERVICE], "timeout": 120, "why": why}
    return Plan(differences=(Difference("unit", cdi_refresh.SERVICE, output, "stale", "fresh", why),), commands=(start,))


def place(policy: Policy, obs: Observation, spec: Spec) -> File:
    """Return the file that our spec is in, or will be. Raise PlanError if it is a link."""
    file = files.seen(policy, obs, files.path(policy, spec.kind))
    if file.is_link:
        raise PlanError(messages.LINK.fill(target=file.real), where=file.path)
    return owned_file.readable(file)


def is_right(policy: Policy, file: File, spec: Spec) -> bool:
    return file.exists and owned_file.right_mode(file, MODE) and described.same(file.content or "", spec)


def write(policy: Policy, obs: Observation, spec: Spec, source: str, judged: Callable[[str], staleness.Verdict | None]) -> Plan:
    """Plan to write a spec that is not right yet. judged: gives the verdict on a file; it is called only for a file that is written."""
    file = place(policy, obs, spec)
    if is_right(policy, file, spec):
        return Plan()
    found = judged(file.path)
    why = messages.WRITTEN.fill(source=source, version=spec.version)
    if found and found.reasons:
        why = messages.STALE_REPLACED.fill(problem=found.sentence)
    unasked = safety_correction.why(files.is_own(file), file, spec, why)
    why = unasked or why
    text = render.render(spec)
    before, after = described.before(file, spec, MODE), f"{described.describe(spec)} ({owned_file.content(text)})"
    planned = owned_file.write(file, text, why=why, key=spec.kind, before=before, after=after, mode=MODE)
    return dc.replace(planned, differences=tuple(dc.replace(d, cause="safety") for d in planned.differences)) if unasked else planned


def take_over(policy: Policy, obs: Observation, host: HostDecision) -> Plan:
    """Plan the removal of nvidia-cdi-refresh's file.

    It goes now, or once the package that brings its units wrote it. The units are left to the
    module `cdi_refresh`.
    """
    if policy.root != "/" or not files.shared_kind(policy) or files.path(policy, KIND) == REFRESH_FILE:
        return Plan()
    if host.packages and obs.package(packages.BASE) is None and packages.brings(policy, obs, host):
        return Plan(commands=(AFTER_INSTALLATION,))
    file = files.seen(policy, obs, REFRESH_FILE)
    if not file.exists or files.is_own(file):
        return Plan()
    mine = files.path(policy, KIND)
    if not cdi_refresh.refresh(policy, obs).present:
        other_files.require_explained(policy, file, messages.WOULD_HIDE.fill(mine=mine))
    why = messages.REFRESH_HIDES.fill(mine=mine)
    left = Leftover(cdi_files.REFRESH, REFRESH_FILE, (), True, "adopted", why, cdi_refresh.LEAVE_IT)
    return dc.replace(owned_file.remove(file, why=why, cause="adoption"), leftovers=(left,))


def left_by_others(policy: Policy, obs: Observation, spec: Spec) -> Plan:
    """Plan the handling of other files that define our devices: what nvidia-ctk wrote goes.

    Raise PlanError if engines would drop or hide our spec for another.
    """
    mine = files.path(policy, spec.kind)
    if spec.kind == KIND and (generator := cdi_generators.find(obs)):
        raise generator.refusal()
    own = {*(files.path(policy, name) for name, _layout in files.kinds(policy)), *(f.path for f in files.elsewhere(policy, obs))}
    themselves = files.real_paths(policy, obs)
    there = files.seen(policy, obs, mine)
    plans = [] if files.is_own(there) or leaves_as_it_is(policy, obs, there, spec) else [other_files.at_own_path(policy, there, spec)]
    if policy.root == "/" and files.shared_kind(policy) and mine != REFRESH_FILE:
        other_files.require_names(policy, files.seen(policy, obs, REFRESH_FILE), spec, messages.WOULD_HIDE.fill(mine=mine))
    for directory in files.directories(policy):
        for file in obs.glob(f"{directory}/*"):
            itself = file.path in (*own, REFRESH_FILE) or (file.real in themselves and not file.is_link)
            if not itself and (file.error or file.type == "file"):
                plans.append(other_files.of_other(policy, file, mine, spec, outranks=outranks(policy, directory, mine)))
    return merge(plans)


def of_management(policy: Policy, obs: Observation, state: Callable[[str], gpu_operator.State]) -> tuple[Leftover, ...]:
    """Return the specs of others for management containers. state: gives that of the GPU Operator's toolkit that left a file."""
    own = {files.path(policy, name) for name, _layout in files.kinds(policy)}
    every = [file for directory in files.directories(policy) for file in obs.glob(f"{directory}/*") if not files.is_own(file)]
    return tuple(left for file in every if file.path not in own for left in other_files.of_management(file, state))


def leaves_as_it_is(policy: Policy, obs: Observation, there: File, spec: Spec) -> bool:
    """Tell whether adopt: never leaves a file at our path.

    It leaves a file that defines the same as our spec, and that of nvidia-cdi-refresh, which
    cdi_owner decides about.
    """
    if policy.adopt != "never":
        return False
    of_units = there.path == REFRESH_FILE and cdi_refresh.refresh(policy, obs).present
    return of_units or (not there.is_link and owned_file.right_mode(there, MODE) and described.same(there.content or "", spec))


def outranks(policy: Policy, directory: str, mine: str) -> bool:
    order = files.directories(policy)
    return order.index(directory) > order.index(posixpath.dirname(mine))
