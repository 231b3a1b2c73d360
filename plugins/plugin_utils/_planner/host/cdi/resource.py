# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the CDI spec of a host: the questions for the look, and the plan that makes the spec true.

The spec has one owner. Ours stands in /etc/cdi. /var/run/cdi outranks it, but is gone after a
reboot, and engines that start containers at boot would not find it (nixpkgs 420638). A file of
nvidia-cdi-refresh there would hide ours, so it is taken over.
"""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Callable
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
    made_specs,
    messages,
    spec_facts,
    spec_verdicts,
    staleness,
    staleness_guard,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices import (
    nvml,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    driver_listing,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate import (
    hooks,
    layouts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import (
    writer as spec_writer,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Spec,
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


def plan_specs_and_outcome(
    policy: Policy,
    facts: spec_facts.SpecFacts,
    host: HostDecision,
    driver: Driver,
    decided: Decided = get_policy_cause,
) -> tuple[Plan, made_specs.Made]:
    """Return the plan for the specs, and the specs themselves.

    If this collection is the owner, our specs become as they have to be, and no others stay for the
    same devices. If the owner is another one or none, our specs go.
    """
    if host.skipped:
        return Plan(), made_specs.NOTHING_MADE
    files.look_into(policy, facts.files)
    if host.cdi_owner != "collection":
        return plan_spec_handover(policy, facts, host, driver, decided), made_specs.NOTHING_MADE
    if driver.state == "none":
        return plan_specs_without_gpu(policy, facts, driver), made_specs.NOTHING_MADE
    require_driver(driver)
    made = made_specs.make_specs(policy, facts, host)
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
    dropped = (
        contested.advise_on_dropped_devices(policy, facts.files)
        if host.cdi_owner == "toolkit"
        else ()
    )
    lost_libraries = driver_part.advise_on_lost_libraries(facts.core_lost)
    lacking = Plan(advice=(*dropped, *lost_libraries))
    return merge_plans([gone_over, plan_refresh(policy, facts, host, driver), unheard, lacking])


def plan_lasting_writes(
    policy: Policy,
    facts: spec_facts.SpecFacts,
    driver: Driver,
    made: made_specs.Made,
    decided: Decided,
) -> list[Plan]:
    """Plan to write each spec that is not right. Raise PlanError if a device would be lost."""
    kinds = dict(files.list_spec_kinds(policy))
    judged = functools.partial(spec_verdicts.judge_one_spec, policy, facts)
    less = functools.partial(lost.explain_spec_loss, policy, facts.missing, driver, decided)
    written = [
        (
            plan_spec_write(policy, facts, one.spec, made.source, judged),
            made_specs.get_own_spec_file(policy, facts.files, one.spec),
            one.spec,
        )
        for one in made.specs.values()
    ]
    return [
        less(planned, file, spec, kinds[spec.kind], own=files.is_own_spec(file))
        for planned, file, spec in written
    ]


def plan_unasked_removals(
    policy: Policy, facts: spec_facts.SpecFacts, made: made_specs.Made
) -> list[Plan]:
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
    done: tuple[Plan, made_specs.Made],
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
        (
            v
            for v in spec_verdicts.judge_specs(policy, facts)
            if v.path == output and v.state == "stale"
        ),
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
    file = made_specs.get_own_spec_file(policy, facts.files, spec)
    if made_specs.is_right(file, spec):
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
