# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan for a containerd whose manager renders its configuration and reads no drop-in: k3s and RKE2
until February 2026.

The handlers that the manager adds by itself at its start need the toolkit's package and one
restart. More than that needs a template of this collection, which begins with the manager's own
text. The default handler is a setting of the manager's.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import transaction
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Decision,
    Difference,
    Handler,
    Instance,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.containerd_places import (
    Path,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import Version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    decide,
    low_level,
    owned_file,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import programs
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    restarts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    base as containerd_base,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    cgroup_choice,
    config,
    cri_settings,
    detected,
    releases,
    served,
    sources,
    template,
    verify,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    plan as containerd_plan,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.config import (
    FileSet,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.cri_settings import (
    CriSetting,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.facts import (
    ContainerdFacts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_files,
    about_rendered,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.template import (
    Template,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known

RUNC: Path = (*releases.RUNTIMES, "runc", "options", "SystemdCgroup")


@dc.dataclass(frozen=True)
class ManagerLook:
    """The files and facts of one such containerd. cri: the CRI table as it is rendered now."""

    policy: Policy
    facts: ContainerdFacts
    instance: Instance
    decision: Decision
    files: FileSet
    version: Version
    template: Template

    @property
    def cri(self) -> Mapping[str, Any]:
        return config.build_effective_cri_table(self.files, self.version)

    @property
    def title(self) -> str:
        return known.get_manager(self.instance.manager).title


def plan_by_manager(
    policy: Policy, facts: ContainerdFacts, instance: Instance, decision: Decision
) -> Plan:
    """Plan for a containerd whose manager finds the NVIDIA runtime by itself, and for any other one
    with files of this collection.

    May raise NeedMore or PlanError.
    """
    if instance.refusal or not instance.detects:
        return containerd_plan.plan_containerd(policy, facts, instance, decision)
    version = served.parse_containerd_version(instance)
    with sources.name_main_file_source(facts, instance, version):
        files = config.load_containerd_files(facts.config, instance.config_path, version)
        served.check_containerd_files(files, version)
    finds = detected.get_runtime_detection(instance)
    handlers = policy.handlers if decision.handler else ()
    template.require_templates(facts.templates, finds, files.root_path)
    look = ManagerLook(
        policy,
        facts,
        instance,
        decision,
        files,
        version,
        template.find_counting_template(facts.templates, finds, files),
    )
    if not is_manager_settled(look, handlers):
        detected.require_detection(facts.detection, instance)
    by_itself = [
        s for h in handlers if h.name in finds.programs for s in list_detection_settings(look, h)
    ]
    written = list_template_settings(look, [h for h in handlers if h.name not in finds.programs])
    default = list_default_settings(look)
    text = template.render_containerd_template(
        written, config.get_cri_table_path(files, version), look.template.path
    )
    require_base(look, text)
    return assemble_manager_plan(look, [*by_itself, *written], default, text)


def is_manager_settled(look: ManagerLook, handlers: tuple[Handler, ...]) -> bool:
    """Tell whether all that is wanted of the manager is rendered, so its next start need not be
    predicted.
    """
    finds = detected.get_runtime_detection(look.instance).programs
    return is_rendered_default_wanted(look) and all(
        find_rendered_program(look, handler) for handler in handlers if handler.name in finds
    )


def is_rendered_default_wanted(look: ManagerLook) -> bool:
    """Tell whether the rendered default handler is the one that is wanted.

    If no default is decided, one that a person has set is respected. If gpufleet_set_as_default is
    disabled, return False: the default after the next start has to be known then.
    """
    if look.decision.default:
        return bool(toml.look_up_toml(look.cri, releases.DEFAULT) == look.decision.handler)
    # the default after the next start has to be known then
    return look.policy.set_as_default != "disabled"


def find_rendered_program(look: ManagerLook, handler: Handler) -> str:
    """Return the program of a handler that the manager renders now, '' if it is not on the host.

    Return '' as well for a handler that the manager does not add.
    """
    known_to_it = handler.name in detected.get_runtime_detection(look.instance).programs
    program = (
        get_rendered_program(toml.look_up_toml(look.cri, (*releases.RUNTIMES, handler.name)))
        if known_to_it
        else ""
    )
    return program if program and look.facts.programs.is_there.get(program) else ""


# ---------------------------------------------------------------- what the manager adds


def list_detection_settings(look: ManagerLook, handler: Handler) -> list[CriSetting]:
    """Return settings for the handler as the manager's next start will have it. Raise PlanError if
    another one is wanted.
    """
    entry = toml.look_up_toml(look.cri, (*releases.RUNTIMES, handler.name))
    program = find_rendered_program(look, handler) or find_later_program(
        look, handler, get_rendered_program(entry)
    )
    if not program:
        path = detected.search_path(look.facts.detection, look.instance)
        program = detected.find_detected_programs(
            look.policy, look.facts.detection, look.instance, path
        ).get(handler.name, "")
        if not program:
            raise build_rendered_program_error(look, handler, path)
    if not look.template.complete and not get_rendered_program(entry):
        raise template.replaces(look.template, look.title, handler.name)
    systemd = toml.look_up_toml(look.cri, RUNC)
    require_enough(look, handler, program, systemd)
    require_same_driver(look, handler, entry, systemd)
    at: Path = (*releases.RUNTIMES, handler.name)
    why = about_rendered.FOUND_AT_START.fill(title=look.title, program=program)
    settings = [
        CriSetting((*at, "runtime_type"), releases.RUNC_TYPE, why),
        CriSetting((*at, "options", "BinaryName"), program, why),
    ]
    return (
        settings
        if systemd is None
        else [*settings, CriSetting((*at, "options", "SystemdCgroup"), systemd, why)]
    )


def get_rendered_program(entry: Any) -> str:
    program = (
        toml.look_up_toml(entry, ("options", "BinaryName"), "")
        if isinstance(entry, Mapping)
        else ""
    )
    return str(program) if low_level.is_nvidia_runtime(program) else ""


def find_later_program(look: ManagerLook, handler: Handler, program: str) -> str:
    """Return a rendered program that is not there yet if it comes and stays rendered, '' if the
    manager looks for another one.

    Beneath another root, the packages' own may come after the configuration. No start renders
    another one from a copied template. So raise PlanError if the program of such a template does
    not come.
    """
    if program and look.policy.root != "/" and program == handler.binary:
        return program
    if not program or look.template.complete:
        return ""
    if programs.is_program_there_after_run(look.policy, look.facts.programs, program):
        return program
    message = about_rendered.COPIED_PROGRAM_GONE.fill(
        title=look.title, handler=handler.name, program=program
    )
    raise locate_template_error(
        look,
        PlanError(message, where=look.files.root_path, line=find_handler_table_line(look, handler)),
    )


def build_rendered_program_error(
    look: ManagerLook, handler: Handler, path: detected.SearchPath
) -> PlanError:
    program = detected.get_runtime_detection(look.instance).programs[handler.name]
    usual = f"{detected.PACKAGED}/{program}"
    elsewhere = next(
        (
            p
            for p in (handler.binary, usual)
            if p.endswith(f"/{program}")
            and programs.is_program_there_after_run(look.policy, look.facts.programs, p)
        ),
        "",
    )
    return detected.build_detected_program_error(look.instance, program, path, elsewhere)


def require_enough(look: ManagerLook, handler: Handler, program: str, systemd: Any) -> None:
    """Raise PlanError if the policy wants more of a handler than the manager renders: its table
    cannot be written a second time.
    """
    options = {
        key: value
        for key, value in handler.options.items()
        if (key, value) != ("SystemdCgroup", systemd)
    }
    more = [f"options.{key}" for key in options]
    more += [f"binary {handler.binary}"] if handler.chosen and handler.binary != program else []
    if more:
        row = (
            about_rendered.COPIED_HANDLER_LACKS
            if look.template.copied
            else about_rendered.HANDLER_LACKS
        )
        message = row.fill(title=look.title, handler=handler.name, keys=", ".join(more))
        raise locate_template_error(
            look,
            PlanError(
                message, where=look.files.root_path, line=find_handler_table_line(look, handler)
            ),
        )


def require_same_driver(look: ManagerLook, handler: Handler, entry: Any, systemd: Any) -> None:
    """Raise PlanError if the manager renders the handler with another cgroup driver than runc.

    Before k3s v1.28.3 and its like of October 2023, the handler had no cgroup driver of its own
    (k3s issue 8470).
    """
    if not isinstance(entry, Mapping) or bool(
        toml.look_up_toml(entry, ("options", "SystemdCgroup"), False)
    ) is bool(systemd):
        return
    row = (
        about_rendered.COPIED_OTHER_DRIVER if look.template.copied else about_rendered.OTHER_DRIVER
    )
    message = row.fill(title=look.title, handler=handler.name)
    raise locate_template_error(
        look,
        PlanError(message, where=look.files.root_path, line=find_handler_table_line(look, handler)),
    )


def find_handler_table_line(look: ManagerLook, handler: Handler) -> int | None:
    return toml.find_key_line(
        look.files.files[0].doc,
        (*config.get_cri_table_path(look.files, look.version), *releases.RUNTIMES, handler.name),
    )


def locate_template_error(look: ManagerLook, error: PlanError) -> PlanError:
    """Name the template in an error about the main file if a person's text stands in the place of
    the manager's own.
    """
    return (
        sources.MainFileSource(look.title, look.files.root_path, look.template.path).name_in_error(
            error
        )
        if look.template.copied
        else error
    )


# ---------------------------------------------------------------- the default handler


def list_default_settings(look: ManagerLook) -> list[CriSetting]:
    """Return the default handler as the manager's own configuration will have it, in a list of at
    most one setting.

    Raise PlanError with the line to write or remove if another one is wanted.
    """
    if not look.decision.handler:
        return []
    now = str(toml.look_up_toml(look.cri, releases.DEFAULT) or "")
    if is_rendered_default_wanted(look):
        return (
            [CriSetting(releases.DEFAULT, now, about_rendered.DEFAULT_RENDERED.fill())]
            if look.decision.default
            else []
        )
    said = detected.get_manager_default(look.facts.detection, look.instance)
    coming = said.handler or now
    key = detected.get_runtime_detection(look.instance).default
    if look.decision.default and coming != look.decision.handler:
        row = about_rendered.WRITE_DEFAULT if said.handler else about_rendered.ADD_DEFAULT
        raise build_default_elsewhere_error(
            look, said, row.fill(key=key, handler=look.decision.handler, path=said.where)
        )
    if not look.decision.default and coming in [h.name for h in look.policy.handlers]:
        step = about_rendered.REMOVE_DEFAULT_FLAG.fill(key=key, unit=look.instance.unit)
        if said.handler:
            step = about_rendered.REMOVE_DEFAULT.fill(key=key, handler=coming, path=said.where)
        raise build_default_elsewhere_error(look, said, step)
    return (
        [CriSetting(releases.DEFAULT, coming, about_rendered.DEFAULT_SAID.fill(path=said.where))]
        if coming
        else []
    )


def build_default_elsewhere_error(
    look: ManagerLook, said: detected.Default, step: Message
) -> PlanError:
    message = about_rendered.DEFAULT_OF_MANAGER.fill(
        title=look.title, path=look.files.root_path, step=step
    )
    return PlanError(message, where=said.where, line=said.line)


# ---------------------------------------------------------------- the template


def list_template_settings(look: ManagerLook, handlers: list[Handler]) -> list[CriSetting]:
    """Return settings for the handlers that the manager does not add, complete, as a drop-in of
    this collection would have them.
    """
    if not handlers:
        return []
    policy = dc.replace(look.policy, handlers=tuple(handlers))
    mine = frozenset(h.name for h in handlers) if look.template.own else frozenset[str]()
    declared = config.build_effective_cri_table(look.files, look.version, built_in=False)
    plain = cgroup_choice.remove_own_handlers_from_table(look.cri, mine, "")
    bases = {
        h.name: containerd_base.choose_containerd_base(declared, h, written=h.name in mine)
        for h in handlers
    }
    bases = cgroup_choice.settle_cgroup_drivers(
        policy, look.facts.kubelet, look.instance, look.decision, plain, look.version, bases
    )
    prefixes = policy.annotation_prefixes or (decide.RUNTIME_PREFIX,)
    decision = dc.replace(
        look.decision, default=False, enable_cdi=False, annotation_prefixes=prefixes
    )
    every = cri_settings.derive_containerd_settings(
        policy, decision, look.files, plain, look.version, "", bases
    )
    return [s for s in every if s.path[:3] in {(*releases.RUNTIMES, h.name) for h in handlers}]


def require_base(look: ManagerLook, text: str) -> None:
    """Raise PlanError if a template of this collection cannot be there, or would not mean what it
    contains.

    Another owner's template may be in its place, or the release may have no base for it.
    """
    if not text:
        return
    if look.template.foreign and not has_template_content(look, text):
        raise template.build_foreign_template_error(look.template, text)
    if not look.version.is_at_least(*template.SINCE):
        since = ".".join(map(str, template.SINCE))
        message = about_rendered.NO_BASE.fill(
            title=look.title, version=str(look.version), since=since
        )
        raise PlanError(message, where=look.template.path)


def has_template_content(look: ManagerLook, text: str) -> bool:
    """Tell whether the rendered configuration already has all that our template would add."""
    wanted = toml.parse_toml(text.partition(template.BASE)[2], look.template.path).data
    return (
        config.merge_cri_tables(
            dict(toml.copy_toml_value(dict(look.files.files[0].doc.data))), wanted
        )
        == look.files.files[0].doc.data
    )


# ---------------------------------------------------------------- the transaction


def assemble_manager_plan(
    look: ManagerLook, wanted: list[CriSetting], default: list[CriSetting], text: str
) -> Plan:
    change, shown, diffs = build_template_change(look, wanted, text)
    instance, policy = look.instance, look.policy
    goal = [*wanted, *default]
    stale = (
        instance.running
        and policy.root == "/"
        and (
            bool(change)
            or not verify.is_containerd_status_current(look.facts.serving, instance, goal)
        )
    )
    taken_up = plan_manager_restart(look, goal) if stale else Plan()
    differences = (*shown, *(list_restart_differences(look, goal) if stale and not change else ()))
    expect: dict[str, str | None] = {f.real: f.sha256 for f in look.files.files} if change else {}
    expect.update(
        {str(c["path"]): look.template.file.sha256 if look.template.file else None for c in change}
    )
    return Plan(
        differences=differences,
        changes=change,
        expect_files=expect,
        expect_units=taken_up.expect_units,
        restarts=taken_up.restarts,
        health=taken_up.health,
        pending=taken_up.pending,
        advice=(
            *taken_up.advice,
            *advise_on_template(look),
            *advise_on_operator_programs(look, wanted),
        ),
        diffs=diffs,
    )


def plan_manager_restart(look: ManagerLook, goal: list[CriSetting]) -> Plan:
    """Return the restart by which the manager renders the file again, or that a person restarts it."""
    instance, path = look.instance, look.instance.config_path
    by_hand = about_rendered.RESTART_YOURSELF.fill(path=path, title=look.title)
    left = about_rendered.RESTART_LEFT.fill(path=path, title=look.title, unit=instance.unit)
    done = restarts.plan_engine_restart(
        look.policy,
        instance,
        known.restart(instance.unit, about_rendered.RESTART_RENDERS.fill(title=look.title)),
        (verify.build_containerd_health_check(instance, goal, look.version),),
        left=left if instance.unit else by_hand,
        outside=by_hand,
    )
    if not done.restarts:
        return done
    verify.refuse_deadly_restart(look.facts.serving, instance)
    said = verify.advise_on_server_restart(look.facts.serving, instance.unit)
    return dc.replace(done, advice=tuple(said))


def build_template_change(
    look: ManagerLook, wanted: list[CriSetting], text: str
) -> tuple[
    tuple[transaction.Change, ...], tuple[Difference, ...], tuple[tuple[str, str, str], ...]
]:
    """Return the change of our template, and its differences and texts for a person. All are () if
    nothing changes.
    """
    there, path = look.template, look.template.path
    if there.foreign or there.text == text:
        return (), (), ()
    if not text:
        said = owned_file.back(path, True, False, about_rendered.ONLY_FOUND_WANTED.fill(), "policy")
        gone: transaction.Remove = {
            "path": path,
            "op": "remove",
            "expect": there.file.sha256 if there.file else None,
            "forget": True,
        }
        return (gone,), (said,), ((path, there.text, ""),)
    write: transaction.Write = {
        "path": path,
        "op": "write",
        "content": text,
        "expect": there.file.sha256 if there.file else None,
    }
    if there.file is None:
        write["mode"] = "0600"  # as the manager writes what it renders from it
    names = config.get_cri_table_path(look.files, look.version)
    in_template = [
        s for s in wanted if s.path[2] not in detected.get_runtime_detection(look.instance).programs
    ]
    now = [(s, toml.look_up_toml(look.cri, s.path)) for s in in_template]
    shown = [
        Difference("file", path, toml.write_dotted_path((*names, *s.path)), was, s.value, s.why)
        for s, was in now
        if was != s.value
    ]
    was = owned_file.name_content(there.text) if there.file else None
    shown = shown or [
        Difference("file", path, "", was, owned_file.name_content(text), about_files.OWNED.fill())
    ]
    return (write,), tuple(shown), ((path, there.text, text),)


def list_restart_differences(look: ManagerLook, goal: list[CriSetting]) -> tuple[Difference, ...]:
    """Return the differences that a restart brings, one for each handler and the default: no file
    of this collection changes.
    """
    unit, differences = look.instance.unit, []
    for setting in goal:
        was = (
            look.instance.handlers.get(setting.path[2])
            if len(setting.path) > 2
            else look.instance.default_handler
        )
        if setting.path[-1] in ("BinaryName", releases.DEFAULT[-1]) and was != setting.value:
            key = f"handler {setting.path[2]}" if len(setting.path) > 2 else "default handler"
            differences.append(Difference("unit", unit, key, was, setting.value, setting.why))
    return tuple(differences) or (verify.build_unloaded_difference(look.instance),)


def advise_on_template(look: ManagerLook) -> tuple[str, ...]:
    """Return advice about a copied configuration, even if the handlers are in it: the next release
    may not start with it.
    """
    return () if look.template.complete else (template.copy_template(look.template, look.title),)


def advise_on_operator_programs(look: ManagerLook, wanted: list[CriSetting]) -> tuple[str, ...]:
    """Return advice for each program of a GPU Operator that the manager takes before that of a
    package.

    Such a program reads another configuration.
    """
    places = tuple(f"{place}/" for place in detected.get_runtime_detection(look.instance).first)
    taken = [
        s.value for s in wanted if s.path[-1] == "BinaryName" and str(s.value).startswith(places)
    ]
    usual = f"{detected.PACKAGED}/{low_level.PROGRAM}"
    return tuple(
        about_rendered.LEFT_BY_OPERATOR.fill(program=program, title=look.title, usual=usual)
        for program in taken
    )
