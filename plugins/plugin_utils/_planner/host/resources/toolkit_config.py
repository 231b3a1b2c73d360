# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's runtime configuration, /etc/nvidia-container-runtime/config.toml: our keys, and every
other line as it is.
"""

from __future__ import annotations

import dataclasses as dc
import functools
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    host_paths,
    queries,
    transaction,
    versions,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.facts import Fact
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import (
    toml,
    toml_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    CDI_DIRS,
    HOOK_BINARY,
    Decision,
    Difference,
    HostDecision,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
    ObservedFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    earlier_runs,
    owned_file,
    traits,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    runtime_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import outer_host
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    messages,
    owners_settings,
)

PATH = "/etc/nvidia-container-runtime/config.toml"
DEFAULT_KIND = "nvidia.com/gpu"
BY_ENV = ("accept-nvidia-visible-devices-envvar-when-unprivileged",)
BY_MOUNT = ("accept-nvidia-visible-devices-as-volume-mounts",)
RUNTIME = ("nvidia-container-runtime",)
RUNTIMES = (*RUNTIME, "runtimes")
CDI = (*RUNTIME, "modes", "cdi")
SPEC_DIRS = (*CDI, "spec-dirs")
# In `[features]`, known from 1.17 on; older releases pass over it.
IGNORE_CHANNELS = ("features", "ignore-imex-channel-requests")
MOUNTS = "volume-mounts"  # the strategy of a device plugin that asks by mounts
SKIP = ("nvidia-container-runtime-hook", "skip-mode-detection")

Keys = Mapping[tuple[str, ...], Any]

WHY: Mapping[tuple[str, ...], str] = {
    (*RUNTIME, "mode"): messages.RUNTIME_MODE.fill(),
    (*CDI, "annotation-prefixes"): messages.ANNOTATION_PREFIXES.fill(),
    (*CDI, "default-kind"): messages.DEFAULT_KIND.fill(),
    SPEC_DIRS: messages.SPEC_DIRS.fill(),
    RUNTIMES: messages.LOW_LEVEL_RUNTIMES.fill(),
    BY_ENV: messages.ASKS_BY_VARIABLE.fill(),
    BY_MOUNT: messages.ASKS_BY_MOUNTS.fill(),
    IGNORE_CHANNELS: messages.CHANNELS_IGNORED.fill(),
    SKIP: messages.MODE_DETECTION.fill(),
}
# reasons for which a setting is made safe unasked
SAFETY = (
    messages.CHANNELS_IGNORED.code,
    messages.MOUNTS_REFUSED.code,
)

SWARM = ("swarm-resource",)  # variables that Docker Swarm sets, with commas between them
READ = {**file_places.RUNTIME_CONFIG, SWARM: "pattern"}
OWN_KEYS = file_places.keep_places("toml", file_places.RUNTIME_CONFIG)
KEEP = file_places.keep_places("toml", {**READ, **owners_settings.list_owner_places(())})


def list_questions(policy: Policy, mode: str = "") -> list[queries.Question]:
    """Return the questions about the file.

    mode: the one that is asked for by name; else all modes count that the policy can lead to.
    """
    modes = frozenset((mode,)) if mode else owners_settings.list_possible_modes(policy)
    keep = (
        file_places.keep_places("toml", {**READ, **owners_settings.list_owner_places(modes)})
        if modes
        else KEEP
    )
    return [
        queries.ask_for_file(PATH, keep),
        *owners_settings.list_owner_questions(modes),
        *outer_host.list_outer_host_questions(policy),
    ]


def list_toolkit_keys(policy: Policy, record: HostDecision) -> dict[tuple[str, ...], Any]:
    """Return our keys with the values that the decision asks for."""
    mode, isolation, prefixes = record.runtime_mode, record.isolation, record.annotation_prefixes
    by_mounts = MOUNTS in record.plugin_strategies
    keys = build_wanted_toolkit_keys(
        mode,
        isolation,
        prefixes,
        record.low_level_runtimes,
        policy.cdi_spec_dirs,
        by_mounts=by_mounts,
    )
    if record.runtime_mode != "legacy" and any(
        traits.get_traits(d.engine).asks_variable for d in record.decisions
    ):
        keys[SKIP] = True
    return keys


def build_wanted_toolkit_keys(
    mode: str,
    isolation: str,
    prefixes: tuple[str, ...],
    runtimes: tuple[str, ...],
    spec_dirs: tuple[str, ...],
    *,
    by_mounts: bool = False,
) -> dict[tuple[str, ...], Any]:
    """Return our keys with their values. by_mounts: a device plugin asks for its pods by mounts.

    Without mounts the runtime takes their directory for the name of a device, and refuses every
    such pod. If mounts are accepted, the plugin's own option for IMEX asks by them as well, and so
    channels cannot be ignored.
    """
    strict = isolation == "strict"
    keys: dict[tuple[str, ...], Any] = {
        BY_ENV: not strict,
        BY_MOUNT: by_mounts,
        (*RUNTIME, "mode"): mode,
        RUNTIMES: list(runtimes),
        (*CDI, "annotation-prefixes"): list(prefixes),
        (*CDI, "default-kind"): DEFAULT_KIND,
    }
    if strict and not by_mounts:
        keys[IGNORE_CHANNELS] = True
    if spec_dirs:
        keys[SPEC_DIRS] = list(spec_dirs)
    return keys


def needs_toolkit_config(record: HostDecision) -> bool:
    """Tell whether the host runs NVIDIA's runtime or hook by this collection's configuration."""
    return not record.skipped and any(d.handler or d.hook for d in record.decisions)


@dc.dataclass(frozen=True)
class ToolkitConfigFacts:
    """A host's facts about NVIDIA's config.toml.

    asked: the look has asked for the file. file: the file, and document: what is in it; a document
    without keys if there is no file. Reading a broken one raises PlanError. hook: whether the
    prestart hook is there, if the look has asked for it. owner: what its owner's settings name.
    """

    asked: bool
    file: Fact[ObservedFile]
    document: Fact[toml.TomlDocument]
    hook: Fact[bool]
    owner: owners_settings.OwnerFacts
    earlier: earlier_runs.EarlierRuns

    def read_setting(self, key: tuple[str, ...]) -> Any:
        """Read one value of the file for advice; None if it is not there.

        For a broken file it is None too: the plan for the file reports the error.
        """
        if not self.asked:
            return None
        try:
            return toml.look_up_toml(self.document.value.data, key)
        except PlanError:
            return None


def read_toolkit_config_facts(policy: Policy, obs: Observation) -> ToolkitConfigFacts:
    return obs.compute_once(
        ("config.toml", policy.proc_root), lambda: _read_toolkit_config_facts(policy, obs)
    )


def _read_toolkit_config_facts(policy: Policy, obs: Observation) -> ToolkitConfigFacts:
    hook = queries.ask_for_file(HOOK_BINARY, content=False)
    return ToolkitConfigFacts(
        obs.was_asked(queries.ask_for_file(PATH, KEEP)),
        Fact(lambda: owned_file.require_readable(obs.get_file(PATH, KEEP))),
        Fact(lambda: _read_document(obs)),
        Fact(lambda: obs.was_asked(hook) and bool(obs.get_answer_or_error(hook).get("exists"))),
        owners_settings.read_owner_facts(policy, obs),
        earlier_runs.read_earlier_runs(obs),
    )


def _read_document(obs: Observation) -> toml.TomlDocument:
    file = owned_file.require_readable(obs.get_file(PATH, KEEP))
    return toml_file.read_toml_file(file) if file.exists else toml.parse_toml("", PATH)


def plan_toolkit_config(
    policy: Policy, facts: ToolkitConfigFacts, record: HostDecision, *, installing: bool = False
) -> Plan:
    """Plan the host's file by the host's decision. A host that runs neither NVIDIA's runtime nor
    its hook needs no file.

    installing: packages come first, with programs that the file may name, and the host is planned
    once more after them.
    """
    if not needs_toolkit_config(record):
        return Plan()
    wanted = {
        **list_toolkit_keys(policy, record),
        **get_spec_directories_key(policy, facts, record),
    }
    written = PATH in facts.earlier.originals
    if written:
        wanted[RUNTIMES] = add_earlier_runtimes(facts, wanted[RUNTIMES])
    planned = plan_keys(facts, keep_directory_spelling(facts, wanted))
    # later on, other values are most often our own from before
    first = policy.adopt == "auto" and not written
    modes: set[str] = {
        record.runtime_mode,
        *(d.runtime_mode for d in record.decisions if d.handler or d.hook),
    }
    if any(calls_hook(facts, d) for d in record.decisions):
        modes.add(owners_settings.BY_ENGINE)
    return dc.replace(
        planned,
        leftovers=runtime_config.list_changed_runtime_keys(PATH, planned.differences)
        if first
        else (),
        advice=() if installing else advise_on_toolkit_config(facts, modes),
    )


def calls_hook(facts: ToolkitConfigFacts, decision: Decision) -> bool:
    """Tell whether this engine calls the prestart hook by itself: the hook exists, and this release
    does not use CDI instead yet.
    """
    engine, version = (
        traits.get_traits(decision.engine),
        versions.parse_engine_version(decision.engine_version),
    )
    first = versions.parse_engine_version(engine.variable_by_cdi)
    return (
        facts.hook.value
        and bool(engine.asks_variable)
        and (first is None or version is None or version < first)
    )


def advise_on_toolkit_config(facts: ToolkitConfigFacts, modes: Iterable[str]) -> tuple[str, ...]:
    """Return advice about the owner's settings in this file that break something in these modes of
    the runtime.
    """
    return owners_settings.advise_on_owner_settings(facts.owner, facts.document.value, modes)


def keep_directory_spelling(
    facts: ToolkitConfigFacts, wanted: dict[tuple[str, ...], Any]
) -> dict[tuple[str, ...], Any]:
    """Return the wanted keys with the file's spelling of directories, if they are the wanted ones.

    The runtime reads them by the CDI library, which cleans them.
    """
    there = toml.look_up_toml(facts.document.value.data, SPEC_DIRS) if SPEC_DIRS in wanted else None
    same = (
        isinstance(there, list)
        and list(host_paths.clean_directories(map(str, there))) == wanted[SPEC_DIRS]
    )
    return {**wanted, SPEC_DIRS: there} if same else wanted


def get_spec_directories_key(
    policy: Policy, facts: ToolkitConfigFacts, record: HostDecision
) -> dict[tuple[str, ...], Any]:
    """Return the key for the directories of CDI specs, if engines' own settings lead to one that
    the runtime does not search; else {}.
    """
    if policy.cdi_spec_dirs or not record.cdi_place or record.cdi_owner != "collection":
        return {}
    directories = toml.look_up_toml(facts.document.value.data, SPEC_DIRS)
    there = (
        host_paths.clean_directories(map(str, directories))
        if isinstance(directories, list)
        else CDI_DIRS
    )
    return {} if record.cdi_place in there else {SPEC_DIRS: list(record.cdi_dirs)}


def add_earlier_runtimes(facts: ToolkitConfigFacts, runtimes: list[str]) -> list[str]:
    """Return the low-level runtimes, followed by those of earlier runs: the NVIDIA runtime takes
    the first that exists.

    A program that is not seen now may be back with the next update, and without it containers of an
    engine would not start.
    """
    there = toml.look_up_toml(facts.document.value.data, RUNTIMES)
    return list(dict.fromkeys([*runtimes, *(there if isinstance(there, list) else ())]))


def plan_keys(facts: ToolkitConfigFacts, wanted: Keys) -> Plan:
    """Plan to set these keys in the file, and leave the rest of it as it is. None takes a key out."""
    file, document = facts.file.value, facts.document.value
    wrong = {
        key: value
        for key, value in wanted.items()
        if toml.look_up_toml(document.data, key) != value
    }
    if not wrong:
        return Plan()
    without = functools.reduce(
        toml.remove_toml_key, (key for key, value in wrong.items() if value is None), document
    )
    changed = toml.set_values(
        without, [(key, value) for key, value in wrong.items() if value is not None]
    )
    before = {key: toml.look_up_toml(document.data, key) for key in wrong}
    differences = tuple(build_toolkit_difference(PATH, k, before[k], v) for k, v in wrong.items())
    return Plan(
        differences=differences,
        changes=(build_toolkit_change(file, changed),),
        expect_files={PATH: file.sha256 if file.exists else None},
        diffs=((PATH, file.content or "", changed.text),),
    )


def build_toolkit_difference(
    path: str, key: tuple[str, ...], before: Any, after: Any
) -> Difference:
    """Return the difference for one key.

    A key by which containers lose something has a cause here; lowering.py finds the other causes.
    """
    why = (
        messages.MOUNTS_REFUSED.fill()
        if (key, before, after) == (BY_MOUNT, True, False)
        else WHY.get(key, "")
    )
    return Difference(
        "file",
        path,
        toml.write_dotted_path(key),
        before,
        after,
        why,
        "safety" if get_code(why) in SAFETY else None,
    )


def may_ask_by_mounts(facts: ToolkitConfigFacts, differences: Iterable[Difference]) -> bool:
    """Tell whether containers may ask by mounts after a plan with these differences."""
    planned = [
        d.after for d in differences if (d.path, d.key) == (PATH, toml.write_dotted_path(BY_MOUNT))
    ]
    return (planned[-1] if planned else facts.read_setting(BY_MOUNT)) is True


def build_toolkit_change(file: ObservedFile, document: toml.TomlDocument) -> transaction.Change:
    if not file.exists:
        return {
            "path": file.path,
            "op": "write",
            "content": document.text,
            "mode": "0644",
            "expect": None,
        }
    return toml_file.edit(file.path, file.sha256, document)


def plan_absent(policy: Policy, facts: ToolkitConfigFacts) -> Plan:  # noqa: ARG001
    """Plan to restore the bytes from before.

    If the file was changed by others since, only our own keys get their values from before. A key
    that was not there goes, and the runtime's default holds again.
    """
    file = facts.file.value
    original = facts.earlier.originals.get(PATH)
    if not file.exists:
        return Plan(released=(PATH,) if original else ())
    if original is None and (facts.earlier.has_journal or not facts.earlier.was_here):
        return Plan()
    if original and file.sha256 == original.get("sha256_after"):
        back = owned_file.plan_owned_file_restore(
            facts.earlier,
            file,
            why=messages.TOOLKIT_RESTORED.fill(),
            own=False,
        )
        # The copy shows our own keys alone, so the file has to be shown in the same way.
        now = file_places.show_own_text(file.content or "", OWN_KEYS)
        return dc.replace(
            back,
            expect_files={PATH: file.sha256},
            diffs=((PATH, now, str(original.get("content") or "")),),
        )
    document = facts.document.value
    before = read_earlier_document(original)
    earlier = {
        key: toml.look_up_toml(before or {}, key)
        for key in WHY
        if toml.look_up_toml(document.data, key) is not None
    }
    for key, value in earlier.items():
        owned_file.require_earlier_value(PATH, toml.write_dotted_path(key), value)
    row = messages.TOOLKIT_CHANGED_SINCE if before is not None else messages.NO_ORIGINAL
    advice = (row.fill(path=PATH),)
    taken = plan_keys(facts, earlier)
    # Else a second run would put back the bytes from before over what the others wrote.
    return dc.replace(
        taken,
        changes=tuple(transaction.forget_original(c) for c in taken.changes),
        differences=tuple(dc.replace(d, why=owned_file.BACK) for d in taken.differences),
        advice=advice,
        released=(PATH,),
    )


def read_earlier_document(original: earlier_runs.Kept | None) -> Mapping[str, Any] | None:
    """Return what the file had before our first change, {} if there was no file. None if that is
    not known.
    """
    if not original or original.get("content") is None:
        return {} if original and original.get("existed") is False else None
    try:
        return toml.parse_toml(str(original["content"]), PATH).data
    except PlanError:
        return None
