# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The values that travel through the house: what is wanted, what was seen, what is decided, what is
to be done.

Nothing here acts. A planner takes a policy and an observation and returns a plan; the words are
those of ARCHITECTURE.md.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    messages,
    transaction,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
    Refusal,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)

Injection = Literal["native-cdi", "nvidia-runtime", "legacy", "oci-hook", "jit-cdi"]
RuntimeMode = Literal["auto", "cdi", "legacy", "jit-cdi", "csv"]
Switch = Literal["auto", "enabled", "disabled"]
# Why a plan takes something away. policy: the options ask for it, and all that the decision rests
# on has answered. uninstalled: package, program and unit of a component are absent. hardware_gone:
# neither PCI nor a device node has it any more. adoption: this collection or another tool takes it
# over. safety: a documented correction.
Cause = Literal["policy", "uninstalled", "hardware_gone", "adoption", "safety"]

State = TypeVar("State", bound="str | None")

RUNTIME_BINARY = "/usr/bin/nvidia-container-runtime"
HOOK_BINARY = "/usr/bin/nvidia-container-runtime-hook"
# DefaultSpecDirs of the CDI library (pkg/cdi/spec-dirs.go)
CDI_DIRS = (
    "/etc/cdi",
    "/var/run/cdi",
)
# systemd's for its services
STANDARD_PATH = (
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
)
JOURNAL_DIR = "/var/lib/gpufleet"


def leaves_restarts(restart: str) -> bool:
    """Tell whether the option `restart` leaves every restart of an engine to a person."""
    return restart == "never"


@dc.dataclass(frozen=True)
class Handler:
    """An OCI runtime entry that the user wants in an engine's configuration."""

    name: str = "nvidia"
    binary: str = RUNTIME_BINARY
    options: Mapping[str, Any] = dc.field(default_factory=dict)
    chosen: bool = False  # the user named the program


@dc.dataclass(frozen=True)
class Policy:
    """The options of the user, from variables, validated by the argument spec."""

    state: Literal["present", "absent"] = "present"
    engines: tuple[str, ...] = ("auto",)
    root: str = "/"
    engine_version: str = ""
    config_path: str = ""
    drop_in: Literal["auto", "never"] = "auto"
    drop_in_path: str = ""  # empty: the place that the engine's own files name
    socket: str = ""
    service: str = ""
    restart: Literal["auto", "never", "force"] = "auto"
    handlers: tuple[Handler, ...] = (Handler(),)
    set_as_default: Switch = "auto"
    adopt: Literal["auto", "never"] = "auto"  # whether what other tools left is taken over
    cdi: Switch = "auto"
    cdi_spec_dirs: tuple[str, ...] = ()  # empty: leave the engine's own
    # no option: the one of them for specs if engines have directories of their own
    # (host/cdi/placement.py)
    cdi_place: str = ""
    annotation_prefixes: tuple[
        str, ...
    ] = ()  # of single-resource modules; empty: the NVIDIA runtime's own
    injection: Literal["auto"] | Injection = "auto"
    isolation: Literal["auto", "strict", "compatible"] = "auto"
    no_gpu: Literal["skip", "prepare", "fail"] = "skip"
    cdi_owner: Literal["auto", "collection", "toolkit"] = "auto"
    cdi_profile: Literal["auto", "full", "hookless", "devices"] = "auto"
    cdi_features: tuple[str, ...] = ()  # driver capabilities; empty: all
    cdi_compat32: bool = False
    cdi_sockets: bool = False
    device_plugin_strategy: tuple[
        str, ...
    ] = ()  # declared by the user: lets `auto` take the default away on a live cluster
    # of the annotations that the plugin writes on all nodes alike; empty: each host has its own
    device_plugin_prefix: str = ""
    # gone: by the cluster, the operator's toolkit does not come back here
    operator_toolkit: Literal["auto", "gone"] = "auto"
    # the host has to be ready for NVIDIA's DRA driver; that is checked as well if the driver is
    # seen
    dra: bool = False
    packages: Literal["present", "ignore"] = "present"
    # nvidia: added if no configured one has the packages; an address: always; empty: never
    toolkit_repository: str = "nvidia"
    # of that repository, armored text; empty: NVIDIA's own is fetched by the controller
    toolkit_key: str = ""
    toolkit_key_fingerprint: str = ""  # empty: NVIDIA's own is known
    # an archive on the controller that has the packages; empty: they come from a repository
    bundle_file: str = ""
    toolkit_version: str = ""  # empty: what is installed, else the repository's candidate
    # what becomes of a combination that the table of known-bad ones has
    known_bad: Literal["stop", "warn", "ignore"] = "stop"
    proc_root: str = "/proc"
    sys_root: str = "/sys"
    # where the driver's own files are, as the host sees them (a driver container's
    # /run/nvidia/driver)
    cdi_driver_root: str = "/"
    cdi_dev_root: str = ""  # where the driver's device nodes are; empty: as cdi_driver_root
    cdi_layout: Literal["gpu", "management"] = "gpu"
    cdi_vendor: str = ""  # empty: by layout
    cdi_class: str = "gpu"
    cdi_model_class: str = ""  # of a second kind that names GPUs by model; empty: none
    cdi_device_names: tuple[str, ...] = ("index", "uuid")
    cdi_node_attributes: Literal["none", "static", "all"] = "static"
    cdi_imex_channels: tuple[
        str, ...
    ] = ()  # numbers, or `all` that are there; empty: no device for any
    cdi_nvswitch: bool = False
    cdi_group_ids: bool = False
    cdi_above_cap: Literal["drop", "refuse"] = "drop"
    cdi_missing_nodes: Literal["fail", "allow"] = "fail"
    device_nodes: Literal["ignore", "present"] = "ignore"
    gpus: int | None = None  # how many the host should have; None: not said
    accepted_findings: tuple[str, ...] = ()  # of the health of GPUs, as `CODE` or `CODE GPU`
    # whether advice says what may take the driver out of order, and whether its packages are held
    driver: Literal["ignore", "advise", "hold"] = "advise"
    driver_hold_reason: str = ""
    persistence: Literal["ignore", "advise", "enabled"] = "advise"
    # None: not looked at; empty: what an earlier run set is taken back
    sharing: Mapping[str, Any] | None = None
    cdi_refresh: Literal["converge", "watch"] = "converge"
    metrics_dir: str = ""  # empty: no metrics
    # a single-resource module: does what its options say, no host-wide decision
    single: bool = False

    @property
    def leaves_restarts(self) -> bool:
        """Tell whether every restart of an engine is left to a person."""
        return leaves_restarts(self.restart)

    @property
    def handlers_by_name(self) -> tuple[Handler, ...]:
        """The handlers in the order of files, by name.

        The order in the options chooses the first handler, and a change of it rewrites no other
        line of a file.
        """
        return tuple(sorted(self.handlers, key=lambda handler: handler.name))


@dc.dataclass(frozen=True)
class Evidence:
    """The source of a fact. source: cri-status | dump | files | version."""

    source: str
    text: str


@dc.dataclass(frozen=True, kw_only=True)
class Cdi:
    """The CDI support of an engine. able: it knows CDI. enabled: CDI is on now. dirs: the
    directories in force, now or once CDI is on.
    """

    able: bool
    enabled: bool
    dirs: tuple[str, ...]
    max_version: str  # "" when not able
    evidence: Evidence
    cri_field: bool = True  # accepts the CRI field CDIDevices (containerd 1.7.2, CRI-O 1.28.0)
    next_dirs: tuple[str, ...] | None = (
        # the directories by its file, which are read after its next start; None if that is not
        # known
        None
    )


@dc.dataclass(frozen=True)
class Instance:
    """A running or installed engine. Its `key` identifies it everywhere, since a host may have
    several.
    """

    engine: str  # containerd | crio | docker | podman
    version: str  # "1.7.24"; of the running daemon if one runs
    binary: str
    socket: str
    config_path: str
    unit: str
    # the writer of its configuration: package | docker | k3s | rke2 | microk8s | k0s | eks |
    # bottlerocket | ...
    manager: str
    running: bool
    cdi: Cdi
    invocation_id: str = ""
    schema: int = 0  # declared config version (containerd); 0 if the engine has none
    default_handler: str = ""
    handlers: Mapping[str, str] = dc.field(default_factory=dict)  # name -> binary as in force
    # the program that runs its containers (runc, crun or youki, or a path of one); "" = another
    # one, or not known
    low_level: str = ""
    cri: bool = True  # serves CRI (a Docker-only containerd does not)
    refusal: Refusal = Refusal()
    # why its handlers are the ones that its manager finds at its start; '' if it reads files of
    # this collection
    detects: str = ""
    used_by_kubelet: bool = False
    pid: int = 0  # its process, and when that began, in the kernel's ticks; 0 if none was verified
    ticks: int = 0
    # its program is run by `binary`, not as the file of the process: one file of several programs
    by_path: bool = False

    @property
    def process(self) -> dict[str, int] | None:
        """The process whose program is run for it; None if the program is run by its path, or no
        process was verified.
        """
        return {"pid": self.pid, "ticks": self.ticks} if self.pid and not self.by_path else None

    @property
    def key(self) -> str:
        return f"{self.engine}:{self.config_path or self.socket or self.binary}"


def build_refused_instance_error(instance: Instance) -> PlanError:
    """Return the reason why an instance is left alone as an error, for the caller to raise."""
    return PlanError(instance.refusal.message, where=instance.config_path or instance.binary)


@dc.dataclass(frozen=True)
class SeenGpu:
    """A GPU as the everyday look sees it (procfs and sysfs only). The uuid may be unknown ('')
    before first use.
    """

    index: int
    minor: int
    bus_id: str  # 0000:17:00.0
    uuid: str
    model: str = ""
    migs: int = 0  # MIG devices that exist on it; containers then get those, never the whole GPU


@dc.dataclass(frozen=True)
class Driver:
    """The state of the NVIDIA driver. state: ok | none (no GPU) | not-loaded | broken."""

    state: Literal["ok", "none", "not-loaded", "broken"]
    version: str
    gpus: tuple[SeenGpu, ...]
    evidence: str
    # of a GPU that is there and that no spec is made for
    platform: Literal["", "wsl", "tegra", "vfio", "vgpu"] = ""
    remedy: str = ""  # how to repair a driver that is broken or not loaded, if that is known
    notes: tuple[str, ...] = ()  # what a person should know of a driver that works

    def __post_init__(self) -> None:
        """Move the next step of the evidence's message to `remedy`."""
        if isinstance(self.evidence, Message) and self.evidence.next:
            object.__setattr__(self, "remedy", self.remedy or self.evidence.next)
            object.__setattr__(self, "evidence", self.evidence.drop_step())


@dc.dataclass(frozen=True)
class Kubelet:
    """The kubelet of a host. present: it runs. installed: its program is there, maybe on an image
    that no host was started from yet. directory: what it was started with as --root-dir.
    """

    present: bool = False
    version: str = ""
    endpoint: str = ""
    installed: bool = False
    directory: str = ""

    @property
    def expected(self) -> bool:
        return self.present or self.installed


@dc.dataclass(frozen=True)
class Reason:
    """The reason why one field of the decision has its value. code: the code of `why`."""

    what: str
    value: str
    why: Message
    evidence: str = ""
    code: str = dc.field(init=False, default="")

    def __post_init__(self) -> None:
        """Take the code from the message of `why`."""
        object.__setattr__(self, "code", self.why.code)


@dc.dataclass(frozen=True)
class Decision:
    """The decision how GPUs get into containers through one instance."""

    instance: str
    engine: str
    engine_version: str
    injection: Injection
    handler: str  # "" = none (oci-hook)
    default: bool
    runtime_mode: RuntimeMode
    annotation_prefixes: tuple[str, ...]  # of the NVIDIA runtime
    device_list_strategy: tuple[str, ...]  # for a Kubernetes device plugin
    plugin_annotation_prefix: str
    runtime_class: str  # "" = none needed
    enable_cdi: bool  # the engine's switch has to be written
    max_cdi_version: str
    hook: bool  # the OCI prestart hook file is wanted
    reasons: tuple[Reason, ...]


@dc.dataclass(frozen=True)
class HostDecision:
    """The record of one host."""

    decisions: tuple[Decision, ...]
    refused: tuple[tuple[str, str], ...]  # (instance key, sentence)
    skipped: str  # "" or why the host is not touched (no GPU)
    runtime_mode: RuntimeMode
    annotation_prefixes: tuple[str, ...]
    isolation: Literal["strict", "compatible"]
    low_level_runtimes: tuple[str, ...]
    packages: tuple[str, ...]
    cdi_owner: Literal["collection", "toolkit", "none"]
    cdi_version_cap: str
    reasons: tuple[Reason, ...]
    plugin_strategies: tuple[str, ...] = ()  # by which ways a device plugin gives pods GPUs here
    plugin_source: str = ""  # declared | seen | default; "" without a kubelet
    # Where engines look for CDI specs, lowest priority first; () if all use the usual directories.
    cdi_dirs: tuple[str, ...] = ()
    cdi_place: str = ""  # the one of these that the host's specs go to; "" if none is read by all


@dc.dataclass(frozen=True)
class Difference:
    """An entry of a plan as a person reads it."""

    what: str  # file | package | unit | node | module | mode
    path: str
    key: str
    before: Any
    after: Any
    why: str
    # of what is less afterwards (lowering.py); None if nothing is taken away
    cause: Cause | None = None


@dc.dataclass(frozen=True)
class Leftover:
    """A thing that another tool left on the host, and what happens to it.

    settings: the keys in the file that are the tool's, dotted; () if the whole file is. exact: that
    tool's own rules and the rest of the configuration explain every key in it. fate: `adopted` (it
    goes or is managed here, and the journal keeps its bytes), `kept` (a person has to decide) or
    `live` (its tool still works here, so it stays).
    """

    tool: str  # nvidia-ctk | gpu-operator | nvidia-docker2 | ...
    path: str
    settings: tuple[str, ...]
    exact: bool
    fate: Literal["adopted", "kept", "live"]
    why: str
    # what ends it, if it is not adopted: a command or a setting; a message of `why` has its own
    next: str = ""

    def __post_init__(self) -> None:
        """Move the message's next step to its field."""
        if isinstance(self.why, Message) and self.why.next:
            object.__setattr__(self, "next", self.why.next)
            object.__setattr__(self, "why", self.why.drop_step())


@dc.dataclass(frozen=True)
class Restart:
    """A unit that takes up the new files, and why. timeout: in seconds."""

    unit: str
    # wait: its manager takes the files up by itself
    action: Literal["restart", "reload", "start", "wait"] = "restart"
    why: str = ""
    timeout: float = transaction.UNIT_TIMEOUT


@dc.dataclass(frozen=True)
class Plan:
    """The differences from now, and the transaction that corrects them. Field formats are the host
    protocol's (schema 1).
    """

    differences: tuple[Difference, ...] = ()
    commands: tuple[transaction.PackageCommand, ...] = ()  # commands_before
    changes: tuple[transaction.Change, ...] = ()
    expect_files: Mapping[str, str | None] = dc.field(default_factory=dict)
    expect_units: Mapping[str, str] = dc.field(default_factory=dict)
    stage_files: tuple[transaction.Staged, ...] = ()
    substitute: tuple[tuple[str, str], ...] = ()
    validate: tuple[transaction.Validator, ...] = ()
    disable_units: tuple[str, ...] = ()
    restarts: tuple[Restart, ...] = ()
    health: tuple[transaction.Health, ...] = ()
    pending: tuple[str, ...] = ()  # units that have to be restarted, which is left to a person
    ends: tuple[
        str, ...
    ] = ()  # containers that end by a restart which is planned, or which waits for them to end
    advice: tuple[str, ...] = ()
    beforehand: tuple[
        str, ...
    ] = ()  # advice that is of no use any more once the plan has been carried out
    diffs: tuple[
        tuple[str, str, str], ...
    ] = ()  # (path, text before, text after) for --diff, as the host shows them
    leftovers: tuple[Leftover, ...] = ()
    # (key of the instance, handler, file): handlers that go with a file of another tool
    retired: tuple[tuple[str, str, str], ...] = ()
    # Of `state: absent`: files that were judged, and that have nothing of this collection any more.
    released: tuple[str, ...] = ()
    # Plans with a transaction of their own before this one; then the host is looked at and planned
    # again.
    first: tuple[Plan, ...] = ()
    # Path -> what an approval binds of a file instead of its content, if that has values of the
    # moment (fleet/bound.py).
    lasting: Mapping[str, str] = dc.field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not (self.differences or self.changes or self.commands or self.first)

    @property
    def acts(self) -> bool:
        """True if the plan does anything on the host, including restarts that are left to a person."""
        return bool(
            self.first or self.changes or self.commands or self.disable_units or self.restarts
        )

    @property
    def whole(self) -> Plan:
        """This plan merged with the plans in `first`: all that differs from the host as it was
        seen.
        """
        return merge_plans([*self.first, dc.replace(self, first=())]) if self.first else self

    def list_acted_restarts(self, restart: str) -> tuple[Restart, ...]:
        """Return what is done to units. `restart: never` holds back only engines that would stop
        serving: starts and reloads take place.
        """
        return tuple(
            r
            for r in self.restarts
            if not leaves_restarts(restart) or r.action in ("start", "reload", "wait")
        )

    def list_left_units(self, policy: Policy) -> tuple[str, ...]:
        """List the units whose restart is left to a person: by their planner, or by `restart:
        never` alone.

        The host remembers them, however the restart would end.
        """
        acted = self.list_acted_restarts(policy.restart)
        held = [r.unit for r in self.restarts if policy.root == "/" and r not in acted]
        return tuple(dict.fromkeys([*self.pending, *held]))

    def list_interrupted_units(self, restart: str) -> list[str]:
        """List the units that stop serving for a moment."""
        return [
            r.unit for r in self.list_acted_restarts(restart) if r.action not in ("start", "reload")
        ]


NOTHING = Plan()


def merge_plans(every: list[Plan]) -> Plan:
    """Merge the plans of several resources into one transaction. A unit that several of them
    restart is restarted once.

    Raise PlanError if two of them rest on different states of a file or unit.
    """
    # on a converged host that is nearly all of them
    plans = [plan for plan in every if plan != NOTHING]
    if not plans:
        return NOTHING
    return Plan(
        first=tuple(f for p in plans for f in p.first),
        differences=tuple(d for p in plans for d in p.differences),
        commands=tuple(c for p in plans for c in p.commands),
        changes=tuple(c for p in plans for c in p.changes),
        expect_files=_merge_states(p.expect_files for p in plans),
        expect_units=_merge_states(p.expect_units for p in plans),
        stage_files=tuple(s for p in plans for s in p.stage_files),
        substitute=tuple(s for p in plans for s in p.substitute),
        validate=tuple(v for p in plans for v in p.validate),
        disable_units=tuple(dict.fromkeys(u for p in plans for u in p.disable_units)),
        lasting=_merge_states(p.lasting for p in plans),
        restarts=_merge_restarts(r for p in plans for r in p.restarts),
        health=tuple(h for p in plans for h in p.health),
        pending=tuple(dict.fromkeys(u for p in plans for u in p.pending)),
        ends=tuple(dict.fromkeys(c for p in plans for c in p.ends)),
        advice=tuple(dict.fromkeys(a for p in plans for a in p.advice)),
        beforehand=tuple(dict.fromkeys(a for p in plans for a in p.beforehand)),
        diffs=tuple(d for p in plans for d in p.diffs),
        leftovers=tuple(dict.fromkeys(left for p in plans for left in p.leftovers)),
        retired=tuple(dict.fromkeys(one for p in plans for one in p.retired)),
        released=tuple(dict.fromkeys(path for p in plans for path in p.released)),
    )


def _merge_restarts(every: Iterable[Restart]) -> tuple[Restart, ...]:
    """Return one action for each unit, with the longest of its timeouts.

    A restart does what a start, a reload and a wait do, and takes their place. Of others the first
    one stays.
    """
    by_unit: dict[str, Restart] = {}
    for one in every:
        first = by_unit.get(one.unit, one)
        chosen = one if one.action == "restart" and first.action != "restart" else first
        by_unit[one.unit] = dc.replace(chosen, timeout=max(first.timeout, one.timeout))
    return tuple(by_unit.values())


def _merge_states(every: Iterable[Mapping[str, State]]) -> dict[str, State]:
    """Return one value for each name. Raise PlanError if two differ."""
    merged: dict[str, State] = {}
    for states in every:
        for name, state in states.items():
            if merged.setdefault(name, state) != state:
                raise PlanError(messages.STATES_DIFFER.fill(name=name))
    return merged
