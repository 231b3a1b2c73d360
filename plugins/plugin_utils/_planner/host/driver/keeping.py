# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Say what may take a host's driver out of order: parts of several versions, programs that would
move it, and a next boot without its module.

A host whose owner says nothing is only told. All of it is read of files in the everyday look.
"""

from __future__ import annotations

import dataclasses as dc
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
    QueryFailed,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import (
    Fact,
    require_together,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    end_with_code,
    read_error_message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    apt_pins,
    driver_packages,
    gpus,
    hold_blacklist,
    hold_facts,
    holding,
    holding_messages,
    mismatch,
    module_flavours,
    next_kernel,
    outer_host,
    package_locks,
    package_movers,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    keeping_messages as messages,
)

# Refusals because the driver does not serve, which say what is so and not why.
EXPLAINED = ("cdi.driver-not-loaded", "cdi.driver-broken")
ONE_GPU = "driver.gpu-not-served"  # the driver serves others
SHOWN = 4  # packages that a sentence names


@dc.dataclass(frozen=True)
class KeepingFacts:
    """A host's facts about what keeps its driver as it is.

    outer: the kind of container that this host is, whose driver is that of the host outside.
    packages: those of the driver. movers: what says how packages move by themselves. boot: what
    the next boot loads. secure_boot: whether a module may be refused. nvidia_out: the file that keeps
    NVIDIA's module from being loaded, '' for none. kinds: the GPUs by their device ids. loaded:
    which modules are. held: the other kernel driver that has a GPU, by its bus. hold: of the
    packages, by this collection or a person.
    """

    outer: Fact[str]
    packages: Fact[driver_packages.DriverSet]
    movers: Fact[package_movers.MoverFiles]
    boot: Fact[next_kernel.NextBoot]
    secure_boot: Fact[next_kernel.SecureBoot]
    nvidia_out: Fact[str]
    kinds: Fact[tuple[module_flavours.GpuKind, ...]]
    loaded: Fact[module_flavours.Flavour]
    held: Fact[Mapping[str, str]]
    hold: hold_facts.HoldingFacts


def list_questions(policy: Policy) -> list[queries.Question]:
    """Return the questions of the everyday look; [] if the driver is ignored."""
    if policy.driver == "ignore":
        return hold_facts.list_questions(policy)
    return [
        *hold_facts.list_questions(policy),
        *driver_packages.list_package_questions(policy),
        *package_movers.list_mover_questions(),
        *next_kernel.list_boot_questions(),
        module_flavours.ask_for_devices(policy),
    ]


def read_keeping_facts(policy: Policy, obs: Observation) -> KeepingFacts:
    hold = hold_facts.read_holding_facts(policy, obs)
    return KeepingFacts(
        hold=hold,
        outer=Fact(lambda: outer_host.get_outer_host_kind(policy, obs)),
        packages=hold.packages,
        movers=hold.movers,
        boot=Fact(lambda: next_kernel.read_next_boot(obs, mismatch.read_disk_modules(obs))),
        secure_boot=Fact(lambda: next_kernel.read_secure_boot(obs)),
        nvidia_out=Fact(lambda: next_kernel.find_nvidia_keeper(obs)),
        kinds=Fact(lambda: module_flavours.read_gpu_kinds(policy, obs)),
        loaded=Fact(lambda: module_flavours.read_loaded_flavour(policy, obs)),
        held=Fact(lambda: gpus.map_gpus_held_by_others(obs, gpus.get_gpu_paths(policy))),
    )


def plan_keeping(policy: Policy, facts: KeepingFacts, driver: Driver) -> Plan:
    """Plan the hold of a driver, with the advice about one that may move or break."""
    if driver.state == "none" and policy.driver == "advise":  # the driver may be gone since
        return holding.plan_hold(policy, facts.hold)
    if policy.driver == "ignore" or driver.state == "none" or facts.outer.value:
        return Plan(advice=tuple(advise_on_no_driver(policy, facts, driver)))
    running = driver.version if driver.state == "ok" else ""
    hold = holding.plan_hold(policy, facts.hold, running)
    _require_answers(facts, driver)
    rules: tuple[Callable[[], Iterable[Message]], ...] = (
        lambda: advise_on_interrupted(facts.packages.value),
        lambda: advise_on_parts(facts.packages.value),
        # a package that this plan holds does not move any more
        *([] if policy.driver == "hold" else [lambda: advise_on_movers(facts, driver, hold)]),
        functools.partial(advise_on_next_boot, facts, driver),
        functools.partial(advise_on_flavour, facts, driver),
    )
    told = tuple(dict.fromkeys(text for rule in rules for text in _apply(rule)))
    return dc.replace(hold, advice=(*hold.advice, *told))


def advise_on_no_driver(policy: Policy, facts: KeepingFacts, driver: Driver) -> Iterator[Message]:
    """Yield why nothing is held on a host whose driver is to be held."""
    if policy.driver != "hold":
        return
    evidence = driver.evidence
    if facts.outer.value:
        evidence = holding_messages.DRIVER_OUTSIDE.fill(kind=facts.outer.value)
    yield holding_messages.NO_DRIVER.fill(evidence=evidence)


def get_installed_release(facts: KeepingFacts) -> str:
    """Return the release of the driver's packages; '' if there are none, or if this look did not
    ask for them.
    """
    try:
        return facts.packages.value.release
    except (NeedMore, QueryFailed):
        return ""


def explain_refused_plan(
    policy: Policy, facts: KeepingFacts, driver: Driver, error: PlanError
) -> PlanError:
    """Return the error of a refused plan, with what explains a driver that does not serve. The step
    is then that of the first cause.
    """
    whole = error.code in EXPLAINED and driver.state in ("not-loaded", "broken")
    if policy.driver == "ignore" or not (whole or error.code == ONE_GPU) or facts.outer.value:
        return error
    _require_answers(facts, driver)
    rules: list[Callable[[], Iterable[Message]]] = [
        functools.partial(advise_on_flavour, facts, driver)
    ]
    if whole:
        rules[:0] = [
            lambda: advise_on_interrupted(facts.packages.value),
            lambda: advise_on_parts(facts.packages.value),
            functools.partial(advise_on_next_boot, facts, driver),
        ]
    causes = [text for rule in rules for text in _apply(rule)]
    # a program that has moved it once does it again
    movers = _apply(functools.partial(advise_on_movers, facts, driver)) if whole else ()
    told = [end_with_code(cause.drop_step()) for cause in (*causes, *movers)]
    if not told:
        return error
    explained = PlanError(
        error.message,
        where=error.where,
        why="; ".join(filter(None, [error.why, *told])),
        next=causes[0].next if causes else error.next,
        line=error.line,
    )
    explained.kept = error.kept
    return explained


def _require_answers(facts: KeepingFacts, driver: Driver) -> None:
    """Raise NeedMore with all that a host whose module is not loaded has not answered yet."""
    needs: list[Callable[[], object]] = [lambda: facts.packages.value]
    if driver.state == "not-loaded":
        needs += [lambda: facts.secure_boot.value, lambda: facts.nvidia_out.value]
    require_together(needs)


def _apply(rule: Callable[[], Iterable[Message]]) -> tuple[Message, ...]:
    """Return what a rule says. An answer that failed is advice as well, beside what was said before
    it, since a host is configured without it.
    """
    told = []
    try:
        for text in rule():
            told.append(text)  # noqa: PERF402  (a list would lose all of them)
    except QueryFailed as error:
        told.append(messages.NOT_CHECKED.fill(problem=read_error_message(error)))
    return tuple(told)


def advise_on_parts(found: driver_packages.DriverSet) -> Iterator[Message]:
    """Yield what is wrong with the versions of packages that are one release."""
    odd = found.list_odd_packages()
    if odd:
        yield messages.PARTS_DIFFER.fill(
            release=found.release,
            odd=_name_some([package.shown for package in odd]),
            maker=driver_packages.MAKERS.get(found.maker, "Their maker"),
        )


def advise_on_interrupted(found: driver_packages.DriverSet) -> Iterator[Message]:
    """Yield the packages that an interrupted run of a package manager has left."""
    lost = [row for row in found.half if row[1] in ("half-installed", "reinstreq")]
    half = [row for row in found.half if row not in lost]
    if lost:
        yield messages.TO_BE_REINSTALLED.fill(
            packages=_name_some([f"{name} ({state})" for name, state in lost]),
            names=" ".join(name for name, _state in lost),
        )
    if half:
        yield messages.HALF_INSTALLED.fill(
            packages=_name_some([f"{name} ({state})" for name, state in half])
        )
    twice = found.list_twice_installed() if found.manager == "rpm" else []
    if twice:
        yield messages.TWICE_INSTALLED.fill(packages=_name_some(twice))


def advise_on_movers(
    facts: KeepingFacts,
    driver: Driver,
    hold: Plan = Plan(),  # noqa: B008
) -> Iterator[Message]:
    """Yield what may move the driver without a person, or a part that has to have its release while
    no package brings the driver itself. hold: a plan that takes a hold back.
    """
    files, found = facts.movers.value, facts.packages.value
    release = found.release or driver.version
    if not found.matching or not release:
        return
    if files.unread and files.unattended and found.manager == "dpkg":
        yield messages.APT_UNREAD.fill(path=files.unread)
    yield from advise_on_locks(files.locks, found, release)
    if found.manager == "dpkg":
        yield from advise_on_pins(files.pins, found, release)
    released = [d.path for d in hold.differences if d.what == "package"]
    past = hold_blacklist.list_past_rules(facts.hold, hold)
    for mover in package_movers.list_movers(files, found, released, past):
        names = _name_some([package.name for package in mover.moves])
        values = {"release": release, "packages": names}
        if mover.program == "offline-update":
            yield messages.MOVES_AT_BOOT.fill(**values, path=mover.where)
        else:
            row = messages.WILL_MOVE if found.release else messages.PART_WILL_MOVE
            yield row.fill(**values, program=mover.program, where=mover.where)


def advise_on_locks(
    locks: package_locks.HostLocks, found: driver_packages.DriverSet, release: str
) -> Iterator[Message]:
    """Yield the locks of a driver of this release that keep nothing."""
    if found.manager != "rpm":
        return
    unused = [p.name for p in found.matching if locks.unused.list_locks(p.name)]
    if locks.distrust:
        yield messages.LOCKS_IDLE.fill(why=locks.distrust)
    elif unused:
        yield messages.LOCKS_IDLE.fill(why=messages.PLUGIN_OFF.fill(path=locks.off))
    open_to = [
        p
        for p in found.matching
        if locks.index.judge(p.name, found.versions[p.name]) == "elsewhere"
    ]
    if open_to:
        first = open_to[0]
        evrs = package_locks.list_compared_versions(found.versions[first.name])
        every = locks.index.list_locks(first.name)
        others = [lock.shown for lock in every if not lock.keeps(evrs)]
        yield messages.LOCKED_ELSEWHERE.fill(
            packages=_name_some([p.name for p in open_to]), release=release, lock=others[0]
        )


def advise_on_pins(
    pins: tuple[apt_pins.Pin, ...], found: driver_packages.DriverSet, release: str
) -> Iterator[Message]:
    """Yield the preferences of apt that take packages of this release to another version. A hold is
    stronger.
    """
    free = [(p.name, p.version) for p in found.matching if not p.held]
    by_pin: dict[apt_pins.Pin, list[str]] = {}
    for name, pin in apt_pins.list_pinned(pins, free, "elsewhere"):
        by_pin.setdefault(pin, []).append(name)
    for pin, named in by_pin.items():
        yield messages.PINNED_ELSEWHERE.fill(
            path=pin.path,
            packages=_name_some(named),
            version=pin.version,
            priority=pin.priority,
            release=release,
        )


def advise_on_next_boot(facts: KeepingFacts, driver: Driver) -> Iterator[Message]:
    """Yield what keeps the module from being loaded, now or at the next boot."""
    boot = facts.boot.value
    if boot.running and boot.lacks_module:
        yield from _advise_on_missing_module(boot)
    yield from _advise_on_other_module(facts, driver)
    taken = [bus for bus, name in facts.held.value.items() if name == "nouveau"]
    if taken:
        yield messages.NOUVEAU_LOADED.fill(gpus=", ".join(taken))
    elif boot.running and boot.with_module and boot.next in boot.nouveau and not boot.kept_out:
        yield messages.NOUVEAU_NOT_KEPT_OUT.fill(kernel=boot.next)
    if driver.state == "not-loaded" and boot.running in boot.with_module:
        if facts.nvidia_out.value:
            yield messages.MODULE_KEPT_OUT.fill(path=facts.nvidia_out.value, kernel=boot.running)
        elif not taken:
            yield from _advise_on_secure_boot(facts.secure_boot.value, boot.running)


def _advise_on_missing_module(boot: next_kernel.NextBoot) -> Iterator[Message]:
    """Yield why the newest kernel has no module. That the running one has none is said of the
    driver already, so of that kernel only a cause is.
    """
    kernels = sorted(boot.with_module, key=next_kernel.get_kernel_order)
    values = {"next": boot.next, "kernels": ", ".join(kernels)}
    if boot.broken:
        yield messages.DKMS_STOPS.fill(**values, path=boot.broken)
    elif boot.dkms and boot.next not in boot.headers:
        yield messages.HEADERS_MISSING.fill(**values)
    elif boot.log:
        yield messages.BUILD_FAILED.fill(**values, log=boot.log)
    elif boot.next != boot.running:
        yield messages.NEXT_KERNEL_LACKS_MODULE.fill(**values, last=kernels[-1])


def _advise_on_other_module(facts: KeepingFacts, driver: Driver) -> Iterator[Message]:
    """Yield a newest kernel whose module is of another release than the libraries. The driver that
    works has one release; of another driver, the packages say that of its libraries.
    """
    boot = facts.boot.value
    release = driver.version if driver.state == "ok" else facts.packages.value.release
    built = boot.list_other_builds(release) if boot.running else []
    if built:
        yield messages.NEXT_KERNEL_OTHER_MODULE.fill(
            next=boot.next, built=" and ".join(built), release=release, running=boot.running
        )


def _advise_on_secure_boot(secure: next_kernel.SecureBoot, kernel: str) -> Iterator[Message]:
    if secure.on and not secure.keys:
        yield messages.UNSIGNED_MODULE.fill(kernel=kernel, keys=" or ".join(next_kernel.KEYS))
    elif secure.on and secure.trusted is False:
        yield messages.KEY_NOT_ENROLLED.fill(kernel=kernel, keys=" ".join(secure.keys))
    elif not secure.on and secure.enforced:
        yield messages.SIGNATURES_ENFORCED.fill(kernel=kernel, path=secure.enforced)


def advise_on_flavour(facts: KeepingFacts, driver: Driver) -> Iterator[Message]:
    """Yield GPUs that the kind of modules here, or the branch, does not serve."""
    loaded, last = facts.loaded.value, module_flavours.LAST_WITH_OLD_GPUS
    flavour = loaded or module_flavours.find_installed_flavour(facts.packages.value)
    state = "loaded" if loaded else "installed"
    ours = [kind for kind in facts.kinds.value if kind.bus not in facts.held.value]
    old = module_flavours.name_gpus(kind for kind in ours if kind.before_turing)
    new = module_flavours.name_gpus(kind for kind in ours if kind.open_only)
    release = facts.packages.value.release or driver.version
    if old and module_flavours.get_branch(release) > last:
        yield messages.NO_DRIVER_FOR_OLD_GPU.fill(release=release, gpus=old, branch=last)
    elif old and flavour == "open":
        yield messages.OPEN_ON_OLD_GPU.fill(state=state, gpus=old, branch=last)
    if new and flavour == "proprietary":
        yield messages.PROPRIETARY_ON_NEW_GPU.fill(state=state, gpus=new)
    integrated = module_flavours.name_gpus(kind for kind in ours if kind.in_gb10)
    if integrated and flavour == "proprietary":
        yield messages.PROPRIETARY_ON_GB10.fill(state=state, gpus=integrated)


def _name_some(names: list[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
