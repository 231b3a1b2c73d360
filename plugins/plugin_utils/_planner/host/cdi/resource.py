# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the CDI spec of a host: the questions for the look, and the plan that makes the spec true.

The spec has one owner. Ours stands in /etc/cdi. /var/run/cdi outranks it, but is gone after a
reboot, and engines that start containers at boot would not find it (nixpkgs 420638). A file of
nvidia-cdi-refresh there would hide ours, so it is taken over.
"""

from __future__ import annotations

import contextlib
import dataclasses as dc
import functools
import posixpath
from collections.abc import Callable, Mapping
from typing import Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    queries,
    transaction,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Difference,
    Driver,
    HostDecision,
    Plan,
    Policy,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    earlier_runs,
    owned_file,
    refusals,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    cdi_refresh,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    contested,
    described,
    driver_part,
    fabric_kinds,
    files,
    lost,
    messages,
    shared_kinds,
    spec_facts,
    staleness,
    staleness_guard,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices import (
    inventory,
    nvml,
    sources,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    catalogue,
    driver_listing,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    reader,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate import (
    build,
    hooks,
    layouts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import (
    writer as spec_writer,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Spec,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    outer_host,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.lowering import (
    Decided,
    add_cause,
    get_policy_cause,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    packages,
    toolkit_config,
)

# Layouts whose files go if nothing of theirs is on offer, and why.
GOING = {layouts.BY_SHARING: messages.NOT_SHARED.fill(), layouts.FABRIC: messages.NOT_ASKED.fill()}


def list_questions(policy: Policy) -> list[queries.Question]:
    questions = [
        *driver_listing.list_driver_file_questions(policy),
        *hooks.list_hook_program_questions(policy),
        *files.list_directory_questions(policy),
    ]
    more = [*staleness_guard.list_watch_questions(policy), *toolkit_config.list_questions(policy)]
    more += nvml.ask_nvml_where_new(policy, files.list_marks(policy))
    return [*questions, *more, queries.ask_for_packages([packages.BASE]), earlier_runs.ORIGINALS]


@dc.dataclass(frozen=True)
class Made:
    """The specs as they have to be, by kind.

    source: what listed the devices. notes: what a person should know. missing: the nodes that the
    kinds lack, also of a kind that has no spec since all its nodes are missing.
    """

    specs: Mapping[str, build.Generated]
    source: str
    notes: tuple[str, ...] = ()
    of: driver_part.DriverPart | None = None
    missing: tuple[str, ...] = ()

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(name for made in self.specs.values() for name in made.spec.names)


NOTHING_MADE = Made({}, "")


def plan_specs_and_outcome(
    policy: Policy,
    facts: spec_facts.SpecFacts,
    host: HostDecision,
    driver: Driver,
    decided: Decided = get_policy_cause,
) -> tuple[Plan, Made]:
    """Return the plan for the specs, and the specs themselves.

    If this collection is the owner, our specs become as they have to be, and no others stay for the
    same devices. If the owner is another one or none, our specs go.
    """
    if host.skipped:
        return Plan(), NOTHING_MADE
    files.look_into(policy, facts.files)
    if host.cdi_owner != "collection":
        return plan_spec_handover(policy, facts, host, driver, decided), NOTHING_MADE
    if driver.state == "none":
        return plan_specs_without_gpu(policy, facts, driver), NOTHING_MADE
    require_driver(driver)
    made = make_specs(policy, facts, host)
    left = [
        contested.plan_specs_of_others(policy, facts.contested, one.spec)
        for one in made.specs.values()
    ]
    writes = plan_lasting_writes(policy, facts, driver, made, decided)
    if made.of:
        driver_part.require_libraries(made.of, driver.version, writes)
    advice = (
        *driver.notes,
        *made.notes,
        *fabric_kinds.advise_on_fabric_kinds(policy, facts.nodes, merge_plans(writes)),
        *files.advise_on_spec_directories(policy, facts.files, host),
    )
    return merge_plans(
        [
            contested.plan_refresh_removal(policy, facts.contested),
            *left,
            *writes,
            *plan_unasked_removals(policy, facts, made),
            Plan(advice=advice),
        ]
    ), made


def plan_spec_handover(
    policy: Policy,
    facts: spec_facts.SpecFacts,
    host: HostDecision,
    driver: Driver,
    decided: Decided,
) -> Plan:
    """Plan that our specs go, since another program writes them or nothing reads them."""
    row = messages.REFRESH_WRITES if host.cdi_owner == "toolkit" else messages.NOTHING_READS
    why = row.fill()
    unheard = Plan(advice=fabric_kinds.list_unheard_options(policy, why))
    # An engine that others configure is not inspected, so it may read what is there.
    unknown = host.cdi_owner == "none" and refusals.is_host_left_alone(host)
    gone_over = (
        Plan()
        if unknown and policy.cdi != "disabled"
        else lost.explain_spec_handover(
            policy, host.cdi_owner, plan_spec_withdrawal(policy, facts.files, why), decided
        )
    )
    lacking = Plan(advice=tuple(driver_part.advise_on_lost_libraries(facts.core_lost)))
    return merge_plans([gone_over, plan_refresh(policy, facts, host, driver), unheard, lacking])


def plan_lasting_writes(
    policy: Policy, facts: spec_facts.SpecFacts, driver: Driver, made: Made, decided: Decided
) -> list[Plan]:
    """Plan to write each spec that is not right. Raise PlanError if a device would be lost."""
    kinds = dict(files.list_spec_kinds(policy))
    judged = functools.partial(judge_one_spec, policy, facts)
    less = functools.partial(lost.explain_spec_loss, policy, facts.missing, driver, decided)
    written = [
        (
            plan_spec_write(policy, facts, one.spec, made.source, judged),
            get_own_spec_file(policy, facts.files, one.spec),
            one.spec,
        )
        for one in made.specs.values()
    ]
    return [
        less(planned, file, spec, kinds[spec.kind], own=files.is_own_spec(file))
        for planned, file, spec in written
    ]


def plan_unasked_removals(policy: Policy, facts: spec_facts.SpecFacts, made: Made) -> list[Plan]:
    """Plan the removal of our specs that the options no longer ask for, or no longer in that place."""
    moved = [
        files.plan_former_spec_removal(facts.files, file)
        for file in files.list_specs_elsewhere(policy, facts.files)
    ]
    gone = [
        add_cause(
            plan_spec_withdrawal(policy, facts.files, why, going, frozenset(made.specs)), "policy"
        )
        for layouts, why in GOING.items()
        if (going := fabric_kinds.list_withdrawn_layouts(policy, layouts))
    ]
    return [*gone, add_cause(merge_plans(moved), "policy")]


def plan_spec_watch(
    policy: Policy,
    facts: spec_facts.SpecFacts,
    host: HostDecision,
    done: tuple[Plan, Made],
    program: str,
) -> Plan:
    """Plan the watch that sees between two runs whether the specs of this run are true. A watch
    that goes follows its spec.
    """
    if host.skipped or policy.root != "/":
        return Plan()
    written = {
        c["path"]: staleness_guard.digest_watch_text(c["content"])
        for c in done[0].changes
        if c["op"] == "write"
    }
    places = {files.get_spec_path(policy, name): one.spec for name, one in done[1].specs.items()}
    there = {
        where: files.get_seen_file(policy, facts.files, where).content
        for where in places
        if where not in written
    }
    hashes = {
        **written,
        **{
            where: staleness_guard.digest_watch_text(text)
            for where, text in there.items()
            if text is not None
        },
    }
    specs = {where: (hashes.get(where, ""), spec) for where, spec in places.items()}
    return add_cause(
        staleness_guard.plan_watch(policy, facts.watch, host.cdi_owner, specs, program), "policy"
    )


def plan_specs_without_gpu(policy: Policy, facts: spec_facts.SpecFacts, driver: Driver) -> Plan:
    """Plan for a host on which no spec has a GPU to name.

    Raise PlanError for a GPU of a kind that no spec is made for, if a spec is all that was asked
    for.
    """
    if driver.platform and policy.single:
        raise PlanError(messages.NO_SPEC_HERE.fill(evidence=driver.evidence))
    advice = messages.NO_SPEC_YET.fill(evidence=driver.evidence)
    if driver.platform == "vgpu":  # a spec from before lists GPUs that are there
        return Plan(advice=(advice,))
    stay = frozenset(
        name
        for name, layout in files.list_spec_kinds(policy)
        if fabric_kinds.keep_fabric_kind(policy, facts.nodes, layout)
    )
    gone = plan_spec_withdrawal(policy, facts.files, messages.NO_GPU_LEFT.fill(), but=stay)
    return merge_plans(
        [lost.explain_hardware_loss(policy, facts.missing, driver, gone), Plan(advice=(advice,))]
    )


def plan_absent(policy: Policy, facts: spec_facts.SpecRemovalFacts) -> Plan:
    why = messages.SPECS_WITHDRAWN.fill()
    plans = [plan_spec_withdrawal(policy, facts.files, why)]
    theirs = files.get_seen_file(policy, facts.files, cdi_refresh.REFRESH_FILE)
    if (
        files.has_refresh_kind(policy)
        and posixpath.dirname(cdi_refresh.REFRESH_FILE) in files.list_cdi_directories(policy)
        and not files.is_own_spec(theirs)
    ):
        plans.append(
            owned_file.plan_owned_file_restore(facts.files.earlier, theirs, why=why, own=False)
        )
    return merge_plans([*plans, staleness_guard.plan_watch_removal(policy, facts.watch, why)])


def record_of_options(owner: Literal["collection", "toolkit", "none"], cap: str) -> HostDecision:
    """Build the parts of a record that this resource reads, for the single module, which does what
    its options ask for.
    """
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
    others = (
        (cdi_refresh.REFRESH_FILE, *cdi_refresh.MASKS.values())
        if files.has_refresh_kind(policy)
        else ()
    )
    return (
        *(files.get_spec_path(policy, name) for name, _layout in files.list_spec_kinds(policy)),
        *others,
    )


def list_taken_over_specs(policy: Policy, facts: files.SpecFileFacts) -> tuple[str, ...]:
    """Return the files of nvidia-ctk, under any name, that were removed when ours was written."""
    folders = tuple(f"{directory}/" for directory in files.list_cdi_directories(policy))
    gone = (
        path_
        for path_, kept in facts.earlier.originals.items()
        if kept.get("existed") and kept.get("now") is None
    )
    return tuple(path_ for path_ in gone if path_.startswith(folders))


def plan_spec_withdrawal(
    policy: Policy,
    facts: files.SpecFileFacts,
    why: str,
    of: tuple[str, ...] = (),
    but: frozenset[str] = frozenset(),
) -> Plan:
    """Plan the removal of our specs. of: the layouts whose files go, empty for all. but: the kinds
    that stay.
    """
    going = [
        name
        for name, layout in files.list_spec_kinds(policy)
        if name not in but and (not of or layout in of)
    ]
    own = [files.get_seen_file(policy, facts, files.get_spec_path(policy, name)) for name in going]
    own += () if of or but else files.list_specs_elsewhere(policy, facts)
    kept = facts.earlier.originals
    # given back by that path
    linked = {file.real for file in files.list_former_files(policy, facts) if file.path in kept}
    own = [file for file in own if file.path in kept or file.real not in linked]
    return merge_plans(
        [
            owned_file.plan_owned_file_restore(
                facts.earlier, file, why=why, own=files.is_own_spec(file)
            )
            for file in own
        ]
    )


def require_driver(driver: Driver) -> None:
    if driver.state == "not-loaded":
        raise PlanError(
            messages.SPEC_DRIVER_NOT_LOADED.fill(evidence=driver.evidence), next=driver.remedy
        )
    if driver.state == "broken":
        raise PlanError(
            messages.SPEC_DRIVER_BROKEN.fill(evidence=driver.evidence), next=driver.remedy
        )


def make_specs(policy: Policy, facts: spec_facts.SpecFacts, host: HostDecision) -> Made:
    """Make the specs as they have to be.

    NVML or nvidia-smi use the GPUs only if our specs on the host cannot be the right ones. Raise
    NeedMore to ask them.
    """
    look = facts.hardware.value
    make_of = functools.partial(generate_specs, policy, host, facts.of_driver.value)
    made = make_of(look)
    # before a source uses the GPUs: NVML makes missing nodes if root asks it, also in check mode
    require_spec_nodes(policy, facts, made)
    if policy.root != "/":
        return made
    known = sources.restore_recorded_hardware(look, list_recorded_specs(policy, facts.files))
    made = made if known == look else make_of(known)
    if all(
        is_right(get_own_spec_file(policy, facts.files, one.spec), one.spec)
        for one in made.specs.values()
    ):
        return made
    full, words = sources.identify_hardware(facts.sources, known)
    made = make_of(full, words)
    require_spec_nodes(policy, facts, made)
    return made


def generate_specs(
    policy: Policy,
    host: HostDecision,
    of: driver_part.DriverPart,
    look: inventory.Hardware,
    words: tuple[str, ...] = (),
) -> Made:
    """Make one spec for each kind, and none if no device would be in it."""
    parts = {
        name: (get_layout_part(policy, look, layout), layout)
        for name, layout in files.list_spec_kinds(policy)
    }
    all_of_them = {
        name: generate_one_spec(policy, host, of, part, name, layout)
        for name, (part, layout) in parts.items()
    }
    specs = {name: one for name, one in all_of_them.items() if one.spec.devices}
    optional = (*layouts.BY_SHARING, *fabric_kinds.list_unasked_layouts(policy))
    lacking = [
        name
        for name, (_part, layout) in parts.items()
        if name not in specs and layout not in optional
    ]
    empty = [messages.NO_DEVICE_OF_KIND.fill(kind=name) for name in lacking]
    notes = tuple(dict.fromkeys(note for one in all_of_them.values() for note in one.notes))
    missing = tuple(dict.fromkeys(path for one in all_of_them.values() for path in one.missing))
    return Made(specs, look.source, (*words, *notes, *of.notes, *empty), of, missing)


def get_layout_part(policy: Policy, look: inventory.Hardware, layout: str) -> inventory.Hardware:
    """Return the part of the hardware that a layout is about."""
    return fabric_kinds.get_fabric_part(
        policy, shared_kinds.get_shared_part(policy, look, layout), layout
    )


def generate_one_spec(
    policy: Policy,
    host: HostDecision,
    of: driver_part.DriverPart,
    look: inventory.Hardware,
    name: str,
    layout: str,
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
    made = build.generate(look, options, of.common, of.build_edits_of_drm)
    too_new = version.list_needs_above_cap(made.spec, host.cdi_version_cap)
    if too_new:
        raise PlanError(
            messages.READERS_TOO_OLD.fill(version=host.cdi_version_cap, needs="; ".join(too_new))
        )
    return made


def require_spec_nodes(policy: Policy, facts: spec_facts.SpecFacts, made: Made) -> None:
    if made.missing and policy.cdi_missing_nodes == "fail":
        inside = facts.outer.value
        row = messages.SPEC_NODE_MISSING if policy.root == "/" else messages.NODE_MISSING_IN_TREE
        step = outer_host.suggest_nodes_remedy(inside) if inside else ""
        step = step or fabric_kinds.suggest_channels_remedy(made.missing)
        raise PlanError(row.fill(nodes=", ".join(made.missing)), next=step)


def list_recorded_specs(policy: Policy, facts: files.SpecFileFacts) -> list[Spec]:
    """Return our own specs on the host, which know what NVML reported when they were made."""
    specs = []
    for file in (
        files.get_seen_file(policy, facts, files.get_spec_path(policy, name))
        for name, _layout in files.list_spec_kinds(policy)
    ):
        with contextlib.suppress(ValueError):
            specs += [reader.parse_spec(file.content or "")] if files.is_own_spec(file) else []
    return specs


def judge_specs(policy: Policy, facts: spec_facts.SpecFacts) -> tuple[staleness.SpecVerdict, ...]:
    """Judge whether the specs on this host are still true: our files, and nvidia-cdi-refresh's if
    it exists.
    """
    files.look_into(policy, facts.files)
    own = [files.get_spec_path(policy, name) for name, _layout in files.list_spec_kinds(policy)]
    refreshed = [facts.refreshed] if files.has_refresh_kind(policy) else []
    wanted = [
        p
        for p in dict.fromkeys((*own, *refreshed))
        if p in own or files.get_seen_file(policy, facts.files, p).exists
    ]
    verdicts = [v for v in (judge_one_spec(policy, facts, p) for p in wanted) if v]
    # withdrawn files come last
    return tuple(
        sorted(verdicts, key=lambda v: not files.get_seen_file(policy, facts.files, v.path).exists)
    )


def judge_one_spec(
    policy: Policy, facts: spec_facts.SpecFacts, of: str
) -> staleness.SpecVerdict | None:
    """Judge one of these files, or its absence if our guard has taken it away; None for other
    absent files.
    """
    file = files.get_seen_file(policy, facts.files, of)
    if not file.exists:
        return (
            staleness.judge_withdrawn_spec(of)
            if staleness_guard.is_set_aside_by_watch(facts.watch, of)
            else None
        )
    held_against = facts.spec_host.value
    return staleness.judge_spec_file(file, find_spec_writer(policy, facts, file), held_against)


def find_spec_writer(
    policy: Policy, facts: spec_facts.SpecFacts, file: ObservedFile
) -> staleness.Writer:
    """Tell who wrote a spec, by its first line, else by the path that nvidia-cdi-refresh writes to."""
    if files.is_own_spec(file):
        return "collection"
    return "toolkit" if files.has_refresh_kind(policy) and file.path == facts.refreshed else "other"


def plan_refresh(
    policy: Policy, facts: spec_facts.SpecFacts, host: HostDecision, driver: Driver
) -> Plan:
    """Plan to let nvidia-cdi-refresh write its file again if that makes it fresh. A driver that
    does not work is not asked.
    """
    if host.cdi_owner != "toolkit" or policy.root != "/" or driver.state != "ok":
        return Plan()
    output = facts.refreshed
    stale = next(
        (v for v in judge_specs(policy, facts) if v.path == output and v.state == "stale"),
        None,
    )
    if stale is None or not facts.runs_refresh.value or all(r.what == "cap" for r in stale.reasons):
        return Plan()
    why = messages.REFRESHED.fill(path=output, problem=stale.sentence)
    start: transaction.PackageCommand = {
        "argv": ["systemctl", "start", cdi_refresh.SERVICE],
        "timeout": 120,
        "why": why,
    }
    return Plan(
        differences=(Difference("unit", cdi_refresh.SERVICE, output, "stale", "fresh", why),),
        commands=(start,),
    )


def get_own_spec_file(policy: Policy, facts: files.SpecFileFacts, spec: Spec) -> ObservedFile:
    """Return the file that our spec is in, or will be. Raise PlanError if it is a link."""
    file = files.get_seen_file(policy, facts, files.get_spec_path(policy, spec.kind))
    if file.is_link:
        raise PlanError(messages.LINK.fill(target=file.real), where=file.path)
    return owned_file.require_readable(file)


def is_right(file: ObservedFile, spec: Spec) -> bool:
    return (
        file.exists
        and owned_file.has_right_mode(file, files.SPEC_MODE)
        and described.is_same_spec(file.content or "", spec)
    )


def plan_spec_write(
    policy: Policy,
    facts: spec_facts.SpecFacts,
    spec: Spec,
    source: str,
    judged: Callable[[str], staleness.SpecVerdict | None],
) -> Plan:
    """Plan to write a spec that is not right yet. judged: gives the verdict on a file; it is called
    only for a file that is written.
    """
    file = get_own_spec_file(policy, facts.files, spec)
    if is_right(file, spec):
        return Plan()
    verdict = judged(file.path)
    why = messages.WRITTEN.fill(source=source, version=spec.version)
    if verdict and verdict.reasons:
        why = messages.STALE_REPLACED.fill(problem=verdict.sentence)
    text = spec_writer.render_spec(spec)
    before, after = (
        described.describe_file_before(file, spec, files.SPEC_MODE),
        f"{described.describe_spec(spec)} ({owned_file.name_content(text)})",
    )
    return owned_file.plan_owned_file(
        file, text, why=why, key=spec.kind, before=before, after=after, mode=files.SPEC_MODE
    )
