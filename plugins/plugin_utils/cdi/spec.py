# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CDI spec of a host as a resource: what to look at, and the plan that makes it true, with one owner.

Ours stands in /etc/cdi. /var/run/cdi outranks it, but is gone after a reboot, and engines that start containers at boot would not find it
(nixpkgs 420638); that is why nvidia-cdi-refresh's file there is taken over, which would hide ours.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from typing import Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils import ask, gpu, owners, packages, wholefile
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.cdi import (
    catalogue,
    files,
    freshness,
    generate,
    hardware,
    hooks,
    nvml,
    profiles,
    read,
    render,
    version,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.cdi.model import KIND, Spec
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.model import (
    CDI_DIRS,
    Difference,
    Driver,
    Gpu,
    HostDecision,
    Plan,
    PlanError,
    Policy,
    merge,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils.observation import File, Observation

FILE = "nvidia.yaml"
REFRESH_FILE = "/var/run/cdi/nvidia.yaml"
# The package's script starts the units at once, after the look and before our files are written. Packages before 1.18 have no units.
STOP_REFRESH = (
    "systemctl cat nvidia-cdi-refresh.service >/dev/null 2>&1 || exit 0; "
    f"systemctl --no-reload disable --now nvidia-cdi-refresh.path nvidia-cdi-refresh.service && rm -f {REFRESH_FILE}"
)
AFTER_INSTALLATION = {
    "argv": ["sh", "-c", STOP_REFRESH],
    "timeout": 60,
    "why": "the package starts nvidia-cdi-refresh, whose file would hide ours",
}
VOLATILE = ("/run/", "/var/run/")
MODE = "0644"  # rootless engines read it, too


def directories(policy: Policy) -> tuple[str, ...]:
    """Lowest priority first, as engines list them."""
    return policy.cdi_spec_dirs or CDI_DIRS


def path(policy: Policy) -> str:
    """The first directory that survives a reboot."""
    lasting = [d for d in directories(policy) if not f"{d}/".startswith(VOLATILE)]
    return posixpath.join((lasting or list(directories(policy)))[0], FILE)


def questions(policy: Policy) -> list[ask.Question]:
    globs = [ask.glob(f"{d}/*", max=1 << 20) for d in directories(policy)]
    found = [*files.questions(policy), *hooks.questions(policy), *freshness.questions(policy, directories(policy))]
    return [*globs, *found, ask.package([packages.BASE]), wholefile.ORIGINALS]


def plan(policy: Policy, obs: Observation, host: HostDecision, driver: Driver, probe_source: str) -> Plan:
    """Ours: the spec as it has to be, and nobody else's for the same devices. Theirs, or nobody's: ours goes."""
    if host.skipped:
        return Plan()
    if host.cdi_owner != "ours":
        writer = "nvidia-cdi-refresh writes the CDI spec here" if host.cdi_owner == "theirs" else "nothing reads CDI specs here"
        return merge([withdraw(policy, obs, writer), refresh_theirs(policy, obs, host, driver)])
    if driver.state == "none":
        advice = Plan(advice=("No CDI spec yet: it names GPUs, and there is none. It is written by the first run after one is there",))
        return merge([withdraw(policy, obs, "there is no GPU"), advice])
    require_driver(driver)
    generated = make(policy, obs, host, driver, probe_source)
    return merge([
        take_over(policy, obs, host),
        write(policy, obs, generated.spec, verdict(policy, obs, host, driver)),
        Plan(advice=(*generated.notes, *strays(policy, obs, generated.spec))),
    ])


def plan_absent(policy: Policy, obs: Observation) -> Plan:
    plans = [withdraw(policy, obs, "state: absent")]
    if policy.cdi_spec_dirs == () or posixpath.dirname(REFRESH_FILE) in policy.cdi_spec_dirs:
        plans.append(wholefile.give_back(obs, seen(policy, obs, REFRESH_FILE), why="state: absent", ours=False))
    return merge(plans)


def told(owner: Literal["ours", "theirs", "none"], cap: str) -> HostDecision:
    """For the single module, which does what it is told: the parts of a record that this resource reads."""
    return HostDecision(
        decisions=(), refused=(), skipped="", runtime_mode="auto", annotation_prefixes=(), isolation="compatible", low_level_runtimes=(),
        packages=(), cdi_owner=owner, cdi_version_cap=cap, reasons=(),
    )


def withdraw(policy: Policy, obs: Observation, why: str) -> Plan:
    file = seen(policy, obs, path(policy))
    return wholefile.give_back(obs, file, why=why, ours=is_ours(file))


def is_ours(file: File) -> bool:
    return (file.content or "").startswith(render.HEADER)


def require_driver(driver: Driver) -> None:
    if driver.state == "not-loaded":
        step = "Load the driver (modprobe nvidia; the kernel log says why it fails), then run again"
        raise PlanError("no CDI spec can be made: " + driver.evidence, next=step)
    if driver.state == "broken":
        raise PlanError("no CDI spec can be made: " + driver.evidence, next="Nothing was changed")


def make(policy: Policy, obs: Observation, host: HostDecision, driver: Driver, probe_source: str) -> generate.Generated:
    """The spec as it has to be. Asks once more only where the driver does not tell the UUIDs without being used."""
    mig = gpu.mig_instances(policy, obs)
    if mig:
        step = "Set cdi_owner to theirs: nvidia-cdi-refresh names them"
        raise PlanError("MIG instances cannot be named in a CDI spec by this version", where=mig[0], next=step)
    here = policy.root == "/"
    gpus = driver.gpus
    if here and any(not g.uuid for g in gpus):
        gpus = known_before(policy, obs, gpus) or nvml.complete(obs, gpus, probe_source)
    wish, libraries = profiles.wish(policy, obs, host), found(policy, obs, driver)
    links = files.dri_links(policy, obs)
    options = generate.Options(
        cap=host.cdi_version_cap,
        assume_nodes=not here,
        profile=wish.profile,
        features=frozenset(policy.cdi_features or catalogue.FEATURES),
        driver_root=policy.cdi_driver_root,
        dev_root=policy.cdi_dev_root,
    )
    made = generate.generate(
        hardware.observe(policy, obs, gpus), options, profiles.common(libraries, wish), lambda drm: profiles.of_gpu(drm, links, wish)
    )
    if made.missing:
        why = "a container would start without a working GPU"
        step = "Make it: nvidia-smi -L and nvidia-modprobe -c 0 -u do that, then run again"
        raise PlanError(f"device node missing: {', '.join(made.missing)}", why=why, next=step)
    too_new = version.above(made.spec, host.cdi_version_cap)
    if too_new:
        raise PlanError(f"no CDI spec for consumers up to version {host.cdi_version_cap}", why="; ".join(too_new))
    return made


def found(policy: Policy, obs: Observation, driver: Driver) -> files.DriverFiles:
    """The driver's files for containers; those of the kernel module's version, since no others work with it."""
    return files.discover(obs, policy, policy.cdi_features or catalogue.FEATURES, driver.version)



def known_before(policy: Policy, obs: Observation, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """UUIDs from our own spec, so that unused GPUs are not asked through NVML at every run; () where it lacks one."""
    file = seen(policy, obs, path(policy))
    if not is_ours(file):
        return ()
    try:
        devices = read.parse(file.content or "").devices
    except ValueError:
        return ()
    uuids = {n.path: d.name for d in devices if d.name.startswith("GPU-") for n in d.edits.device_nodes}
    named = tuple(dc.replace(g, uuid=g.uuid or uuids.get(hardware.node_path(g), "")) for g in gpus)
    return named if all(g.uuid for g in named) else ()


def verdicts(policy: Policy, obs: Observation, host: HostDecision, driver: Driver) -> tuple[freshness.Verdict, ...]:
    """Whether the specs on this host are still true: our file and nvidia-cdi-refresh's, as far as they are there."""
    held_against = freshness.host(policy, obs, driver, host.cdi_version_cap, directories(policy))
    files = [seen(policy, obs, p) for p in dict.fromkeys((path(policy), owners.refresh(policy, obs).output))]
    return tuple(freshness.judge(f, "ours" if is_ours(f) else "theirs", held_against) for f in files if f.exists)


def verdict(policy: Policy, obs: Observation, host: HostDecision, driver: Driver) -> freshness.Verdict | None:
    """The one on our own file."""
    return next((v for v in verdicts(policy, obs, host, driver) if v.path == path(policy)), None)


def refresh_theirs(policy: Policy, obs: Observation, host: HostDecision, driver: Driver) -> Plan:
    """Let nvidia-cdi-refresh write its file anew where that mends it. A driver that does not work is not asked."""
    if host.cdi_owner != "theirs" or policy.root != "/" or driver.state != "ok":
        return Plan()
    output = owners.refresh(policy, obs).output
    found = next((v for v in verdicts(policy, obs, host, driver) if v.path == output and v.state == "stale"), None)
    if found is None or not obs.unit(owners.SERVICE) or all(r.what == "cap" for r in found.reasons):
        return Plan()
    why = f"{output} {found.sentence}"
    start = {"argv": ["systemctl", "start", owners.SERVICE], "timeout": 120, "why": why}
    return Plan(differences=(Difference("unit", owners.SERVICE, output, "stale", "fresh", why),), commands=(start,))


def write(policy: Policy, obs: Observation, spec: Spec, found: freshness.Verdict | None = None) -> Plan:
    file = wholefile.readable(seen(policy, obs, path(policy)))
    if file.is_link:
        why = "an engine would read another file than the one that is written"
        raise PlanError(f"this is a symbolic link to {file.real}", where=file.path, why=why, next="Remove the link, then run again")
    text = render.render(spec)
    if file.exists and wholefile.right_mode(file, MODE) and same(file.content or "", text, spec):
        return Plan()
    why = f"CDI {spec.version} with {', '.join(d.name for d in spec.devices)}; no consumer on this host is too old for it"
    if found and found.reasons:
        why = f"stale: the spec {found.sentence}"
    return wholefile.write(file, text, why=why, key=KIND, before=summary(file), after=describe(spec), mode=MODE)


def same(content: str, text: str, spec: Spec) -> bool:
    if content == text:
        return True
    try:
        return read.equal(read.parse(content), spec)
    except ValueError:
        return False


def summary(file: File) -> str | None:
    if not file.exists:
        return None
    try:
        return describe(read.parse(file.content or ""))
    except ValueError as error:
        return f"not a CDI spec: {error}"


def describe(spec: Spec) -> str:
    return f"CDI {spec.version}: {', '.join(d.name for d in spec.devices)}"


def take_over(policy: Policy, obs: Observation, host: HostDecision) -> Plan:
    """nvidia-cdi-refresh's file goes, now or right after the package that brings its units wrote it. Units are the affair of `owners`."""
    if policy.root != "/" or path(policy) == REFRESH_FILE:
        return Plan()
    if host.packages and obs.package(packages.BASE) is None and packages.plan(policy, obs, host).commands:
        return Plan(commands=(AFTER_INSTALLATION,))
    file = seen(policy, obs, REFRESH_FILE) if posixpath.dirname(REFRESH_FILE) in directories(policy) else File(REFRESH_FILE, exists=False)
    why = f"nvidia-cdi-refresh wrote it; it would hide {path(policy)}, which is ours on this host"
    return wholefile.remove(file, why=why)


def seen(policy: Policy, obs: Observation, wanted: str) -> File:
    """A file of the directories that were looked at; one that a glob did not show is not there."""
    for directory in directories(policy):
        for file in obs.glob(f"{directory}/*"):
            if file.path == wanted:
                return file
    return File(wanted, exists=False)


def strays(policy: Policy, obs: Observation, spec: Spec) -> tuple[str, ...]:
    """Other files that define our devices. Raises where engines would then drop or hide ours; returns what merely deserves a word."""
    mine, words = path(policy), []
    for directory in directories(policy):
        for file in obs.glob(f"{directory}/*"):
            if file.path in (mine, REFRESH_FILE) or file.type != "file":
                continue
            words += stray(file, mine, spec, outranks=outranks(policy, directory, mine))
    return tuple(words)


def outranks(policy: Policy, directory: str, mine: str) -> bool:
    order = directories(policy)
    return order.index(directory) > order.index(posixpath.dirname(mine))


def stray(file: File, mine: str, spec: Spec, *, outranks: bool) -> list[str]:
    if file.error:
        return [f"{file.path} could not be read ({file.error}), so nobody knows which devices it defines"]
    if KIND not in (file.content or ""):
        return []
    if not file.path.endswith(read.SUFFIXES):
        advice = f"{file.path} is read by no engine, which read {' and '.join(read.SUFFIXES)} only; remove or rename it"
        return [advice] if file.path.endswith(".yml") else []
    try:
        doubles = sorted(set(read.parse(file.content or "").names) & set(spec.names))
    except ValueError as error:
        return [f"{file.path} is no CDI spec: {error}; engines ignore it"]
    if not doubles:
        return []
    same_directory = posixpath.dirname(file.path) == posixpath.dirname(mine)
    if not same_directory and not outranks:
        return [f"{file.path} defines {doubles[0]}, too; {mine} hides it"]
    effect = "engines drop a device that two files of one directory define" if same_directory else f"it outranks {mine} and hides it"
    step = "Remove the file, or keep it outside of the CDI directories"
    raise PlanError(f"it defines {', '.join(doubles)}, as {mine} does", where=file.path, why=effect, next=step)
