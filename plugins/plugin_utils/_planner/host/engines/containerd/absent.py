# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take our part out of one containerd's configuration: restore the bytes from before, or else
remove key by key.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import transaction
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Cdi,
    Difference,
    Evidence,
    Instance,
    Plan,
    Policy,
    merge_plans,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    containerd_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import Version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    decide,
    owned_file,
    restore,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.earlier_runs import (
    EarlierRuns,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    authorship,
    cri_settings,
    edit,
    plan,
    releases,
    served,
    sources,
    template,
    verify,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    config as containerd_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.config import (
    ConfigFile,
    FileSet,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.edit import (
    FileChange,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.facts import (
    ContainerdFacts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_adoption,
    about_daemons,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.manager import (
    ManagerPlace,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers.package import (
    PACKAGE,
)

# for reading the files of a containerd that reports no version: nothing is written by it
SOME = Version(2, 0)
Original = Mapping[str, Any]


@dc.dataclass(frozen=True)
class RemovalPart:
    """The changes to one file: it is restored or removed as a whole, edited, or judged and left."""

    gone: tuple[transaction.Change, ...] = ()
    edited: tuple[FileChange, ...] = ()
    differences: tuple[Difference, ...] = ()
    advice: tuple[str, ...] = ()
    released: tuple[str, ...] = ()
    diffs: tuple[tuple[str, str, str], ...] = ()


def plan_containerd_removal(policy: Policy, facts: ContainerdFacts, instance: Instance) -> Plan:
    """Plan the removal of our part: restore the bytes from before, or take out only the keys that
    this collection wrote.

    The second applies to a file that others have changed since. A refused instance gets only its
    refusal, as advice.
    """
    if instance.refusal:
        return Plan(advice=(instance.refusal.message,))
    version = served.parse_containerd_version(instance) if instance.version else SOME
    with sources.name_main_file_source(facts, instance, version):
        files = containerd_config.load_containerd_files(facts.config, instance.config_path, version)
    leaving = [f.path for f in files.files[1:] if is_own_containerd_file(f)]
    parts = [
        plan_file_removal(policy, facts.earlier, files, file, leaving, version, instance.manager)
        for file in files.files
    ]
    parts.append(plan_template_removal(facts, files, instance.manager))
    parts += [
        plan_drop_in_removal(file, facts.earlier.originals.get(file.real))
        for file in find_unread_drop_ins(policy, facts, files)
    ]
    gone = tuple(g for p in parts for g in p.gone)
    edited = [e for p in parts for e in p.edited]
    advice = tuple(a for p in parts for a in p.advice)
    released = tuple(path for p in parts for path in p.released)
    if not (gone or edited):
        return Plan(advice=advice, released=released)
    differences = tuple(d for p in parts for d in p.differences)
    asked = instance if instance.cri else dc.replace(instance, running=False)  # no CRI would answer
    result = plan.assemble(
        policy, facts.serving, asked, files, edited, differences, {}, [], version, gone
    )
    result = result if instance.cri else dc.replace(result, advice=())
    result = dc.replace(result, diffs=(*result.diffs, *(d for p in parts for d in p.diffs)))
    done = verify.add_restart_after_removal(policy, asked, result, advice)
    return merge_plans([dc.replace(done, released=released), advise_without_cri(policy, instance)])


def advise_without_cri(policy: Policy, instance: Instance) -> Plan:
    """Return advice for a running containerd whose CRI plugin is off, else an empty plan.

    Such a containerd reports nothing of its handlers, so nothing would show whether it serves after
    a restart.
    """
    if instance.cri or not instance.running or policy.root != "/":
        return Plan()
    unit = instance.unit or "containerd"
    return Plan(advice=(about_adoption.CRI_WAS_OFF.fill(path=instance.config_path, unit=unit),))


def find_unread_drop_ins(
    policy: Policy, facts: ContainerdFacts, files: FileSet
) -> list[ConfigFile]:
    """Return our drop-ins that nothing imports any more, because the main file or the import in it
    was removed.
    """
    home = posixpath.dirname(files.root_path)
    paths = [
        path
        for path in list_marked_containerd_files(policy, facts)
        if path.startswith(f"{home}/") and not files.get(path)
    ]
    return [containerd_config.load_alone(facts.config, path) for path in paths]


def is_own_containerd_file(file: ConfigFile) -> bool:
    return file.doc.text.startswith(edit.FIRST_LINE)


def plan_file_removal(
    policy: Policy,
    earlier: EarlierRuns,
    files: FileSet,
    file: ConfigFile,
    leaving: list[str],
    version: Version,
    manager: str,
) -> RemovalPart:
    original = earlier.originals.get(file.real)
    if original and original.get("sha256_after") == file.sha256:
        said = owned_file.back(
            file.path, True, bool(original.get("existed", True)), owned_file.BACK
        )
        return RemovalPart(
            gone=({"path": file.real, "op": "restore"},),
            differences=(said,),
            diffs=(_diff(file, original),),
        )
    if file is not files.root:
        return (
            plan_drop_in_removal(file, original) if is_own_containerd_file(file) else RemovalPart()
        )
    if not known.get_manager_place(manager).main_edited:
        return RemovalPart()  # its manager renders it, so nothing in it is from here
    return plan_root_file_removal(policy, earlier, files, file, original, leaving, version)


def plan_template_removal(facts: ContainerdFacts, files: FileSet, manager: str) -> RemovalPart:
    """Plan the removal of our template. The manager renders its own text again at its next start.

    Return an empty Part if no template is our own. Raise NeedMore if the templates were not looked
    up.
    """
    finds = known.get_manager_place(manager).detection
    paths = (
        template.list_template_paths(finds, files.root_path, files.schema)
        if finds and files.root
        else []
    )
    if finds:
        template.require_templates(facts.templates, finds, files.root_path)
    own = next(
        (
            file
            for file in map(facts.templates.get, paths)
            if template.Template(file.path, file).own
        ),
        None,
    )
    if own is None:
        return RemovalPart()
    original = facts.earlier.originals.get(own.place)
    unchanged = bool(original) and (original or {}).get("sha256_after") == own.sha256
    said = owned_file.back(own.path, True, False, owned_file.BACK)
    remove: transaction.Remove = {
        "path": own.place,
        "op": "remove",
        "expect": own.sha256,
        "forget": True,
    }
    change: transaction.Change = {"path": own.place, "op": "restore"} if unchanged else remove
    return RemovalPart(gone=(change,), differences=(said,), diffs=((own.path, own.text, ""),))


def plan_drop_in_removal(file: ConfigFile, original: Original | None) -> RemovalPart:
    """Plan the removal of our drop-in, even if others have changed it: it belongs to this
    collection alone.
    """
    advice = (owned_file.describe_changed_since(file.path, original),) if original else ()
    if original and original.get("existed"):
        said = owned_file.back(file.path, True, True, owned_file.BACK)
        change: transaction.Restore = {
            "path": file.real,
            "op": "restore",
            "expect": file.sha256,
            "changed": True,
        }
        return RemovalPart(
            gone=(change,), differences=(said,), advice=advice, diffs=(_diff(file, original),)
        )
    said = owned_file.back(file.path, True, False, owned_file.BACK)
    # The drop-in of this collection has no original.
    remove: transaction.Remove = {
        "path": file.real,
        "op": "remove",
        "expect": file.sha256,
        "forget": True,
    }
    return RemovalPart(gone=(remove,), differences=(said,), advice=advice, diffs=(_diff(file, {}),))


def _diff(file: ConfigFile, original: Original) -> tuple[str, str, str]:
    return file.path, file.doc.text, str(original.get("content") or "")


def plan_root_file_removal(
    policy: Policy,
    earlier: EarlierRuns,
    files: FileSet,
    file: ConfigFile,
    original: Original | None,
    leaving: list[str],
    version: Version,
) -> RemovalPart:
    was = copy(original, file.path)
    doc = remove_imports(files, file, leaving, was)
    kept = (
        {} if original else authorship.find_foreign_handlers(policy, earlier, files, file, version)
    )
    named = [
        name
        for name in kept
        if remove_own_keys(keep_policy_handlers(policy, [name]), doc, was).text != doc.text
    ]
    advice = tuple(
        about_adoption.LOOKS_LIKE_OURS.fill(path=file.path, handler=name, cause=kept[name])
        for name in named
    )
    doc = remove_own_keys(
        keep_policy_handlers(policy, [h.name for h in policy.handlers if h.name not in kept]),
        doc,
        was,
    )
    doc = remove_empty_headers(remove_own_version(doc, was), file.doc, original)
    refuse_other_names(doc, was)
    released = (file.real,) if original else ()
    if doc.text == file.doc.text:
        return RemovalPart(advice=advice, released=released)
    change = FileChange(file.path, file.real, file.doc, file.sha256, doc, whole=False, forget=True)
    said = owned_file.build_keys_out_difference(file.path)
    kept_note = about_adoption.ONLY_KEYS_OUT.fill(path=file.path)
    return RemovalPart(
        edited=(change,), differences=(said,), advice=(*advice, kept_note), released=released
    )


def keep_policy_handlers(policy: Policy, names: list[str]) -> Policy:
    return dc.replace(policy, handlers=tuple(h for h in policy.handlers if h.name in names))


def remove_imports(
    files: FileSet, file: ConfigFile, leaving: list[str], was: Mapping[str, Any] | None
) -> toml.TomlDocument:
    """Return the file's document without the imports of the files that leave, and without a pattern
    that we brought.

    A missing literal import keeps the daemon from starting. A pattern stays if another file relies
    on it now.
    """
    doc = file.doc
    before = was.get("imports", []) if was is not None else None
    others = [f.path for f in files.files[1:] if f.path not in leaving]
    for pattern in containerd_config.imports(file):
        whole = containerd_config.resolve_import(file, pattern)
        brought = (
            before is not None
            and pattern not in before
            and whole == posixpath.join(posixpath.dirname(whole), "*.toml")
        )
        unused = not any(containerd_config.matches_import_glob(whole, path) for path in others)
        if whole in leaving or (brought and unused):
            doc = toml.discard(doc, ("imports",), pattern)
    return doc


def copy(original: Original | None, path: str) -> Mapping[str, Any] | None:
    """Return the file's data from before our first change, {} if there was no file, None if that is
    not known.
    """
    if not original or original.get("content") is None:
        return {} if original and original.get("existed") is False else None
    try:
        return toml.parse_toml(str(original["content"]), path).data
    except PlanError:
        return None


def remove_own_keys(
    policy: Policy, doc: toml.TomlDocument, was: Mapping[str, Any] | None
) -> toml.TomlDocument:
    """Return the document without our keys: each goes only if it has the value that we would write
    and had another one before.

    was: the file's data from before, None if it is not known. Then only our handlers go, and with
    them a default handler that names one.
    """
    handlers = {h.name: h.binary for h in policy.handlers}
    for table in containerd_places.TABLES:
        before = doc
        for name, binary in handlers.items():
            at = (*table, "containerd", "runtimes", name)
            doc = remove_own_annotations(policy, remove_own_handler(doc, at, binary, was), at, was)
        at = (*table, "containerd", "default_runtime_name")
        if toml.look_up_toml(doc.data, at) in handlers and (doc is not before or was is not None):
            doc = restore_earlier_value(doc, at, was)
        if was is None:
            continue
        if toml.look_up_toml(doc.data, (*table, "enable_cdi")) is True:
            doc = restore_earlier_value(doc, (*table, "enable_cdi"), was)
        if policy.cdi_spec_dirs and toml.look_up_toml(doc.data, (*table, "cdi_spec_dirs")) == list(
            policy.cdi_spec_dirs
        ):
            doc = restore_earlier_value(doc, (*table, "cdi_spec_dirs"), was)
        doc = remove_own_runc(doc, (*table, "containerd", "runtimes"), was)
        for empty in ((*table, "containerd", "runtimes"), (*table, "containerd"), table):
            if toml.look_up_toml(doc.data, empty) == {} and toml.look_up_toml(was, empty) is None:
                doc = toml.remove_toml_key(doc, empty)
    return doc


def remove_empty_headers(
    doc: toml.TomlDocument, there: toml.TomlDocument, original: Original | None
) -> toml.TomlDocument:
    """Return the document without the headers that came with our keys and have nothing left under
    them.
    """
    if not original or original.get("content") is None:
        return doc
    try:
        before = toml.own_headers(toml.parse_toml(str(original["content"]), doc.path))
    except PlanError:
        return doc
    full = toml.own_headers(there)
    for path, any_left in toml.own_headers(doc).items():
        if full.get(path) and not any_left and path not in before:
            doc = toml.remove_header(doc, path)
    return doc


def remove_own_version(doc: toml.TomlDocument, was: Mapping[str, Any] | None) -> toml.TomlDocument:
    """Return the document without the version that our first table brought, unless a plugin is
    named now, which relies on it.
    """
    brought = (
        was is not None and "version" not in was and doc.data.get("version") == edit.VERSION_2[1]
    )
    if not brought or any(doc.data.get(key) for key in containerd_config.NAMES_PLUGINS):
        return doc
    return toml.remove_toml_key(doc, edit.VERSION_2[0])


def remove_own_handler(
    doc: toml.TomlDocument, at: tuple[str, ...], binary: str, was: Mapping[str, Any] | None
) -> toml.TomlDocument:
    program = (*at, "options", "BinaryName")
    # one that worked was kept
    if toml.look_up_toml(doc.data, program) not in (
        binary,
        toml.look_up_toml(was or {}, program) or binary,
    ):
        return doc
    if was is None or toml.look_up_toml(was, at) is None:
        return toml.remove_toml_key(doc, at)
    for key in (("runtime_type",), ("options", "BinaryName"), ("options", "SystemdCgroup")):
        doc = restore_earlier_value(doc, (*at, *key), was)
    return doc


def remove_own_annotations(
    policy: Policy, doc: toml.TomlDocument, at: tuple[str, ...], was: Mapping[str, Any] | None
) -> toml.TomlDocument:
    """Return the document without the annotations that we added to the list of a handler that was
    there before us.

    Annotations that others have added since stay.
    """
    here, before = (
        toml.look_up_toml(doc.data, (*at, cri_settings.ANNOTATIONS)),
        toml.look_up_toml(was or {}, (*at, cri_settings.ANNOTATIONS)),
    )
    if toml.look_up_toml(was or {}, at) is None or not isinstance(here, list):
        return doc
    added = {
        f"{prefix.rstrip('/')}/*"
        for prefix in policy.annotation_prefixes or decide.list_runtime_prefixes(policy)
    } - set(before or ())
    kept = [entry for entry in here if entry not in added]
    if kept == here:
        return doc
    path = (*at, cri_settings.ANNOTATIONS)
    return (
        toml.set_values(doc, [(path, kept)])
        if kept or before is not None
        else toml.remove_toml_key(doc, path)
    )


def remove_own_runc(
    doc: toml.TomlDocument, at: tuple[str, ...], was: Mapping[str, Any]
) -> toml.TomlDocument:
    """Return the document without the runc entry that we wrote, if no other handler is left.

    containerd 1.x loses its built-in runc if a file names another handler, so we wrote it as well.
    Alone it is of no use.
    """
    written = {"runtime_type": releases.RUNC_TYPE, "options": {"SystemdCgroup": False}}
    table = toml.look_up_toml(doc.data, at)
    if (
        toml.look_up_toml(was, (*at, "runc")) is None
        and isinstance(table, Mapping)
        and dict(table) == {"runc": written}
    ):
        return toml.remove_toml_key(doc, (*at, "runc"))
    return doc


def refuse_other_names(doc: toml.TomlDocument, was: Mapping[str, Any] | None) -> None:
    """Raise PlanError for a handler of NVIDIA's that was added after our first change and is not
    asked for.

    It may be this collection's, from a time when it was asked for.
    """
    for table in containerd_places.TABLES if was is not None else ():
        at = (*table, "containerd", "runtimes")
        for name, entry in (toml.look_up_toml(doc.data, at) or {}).items():
            program = (
                str(toml.look_up_toml(entry, ("options", "BinaryName"), ""))
                if isinstance(entry, Mapping)
                else ""
            )
            if (
                posixpath.basename(program).startswith(restore.PROGRAM)
                and toml.look_up_toml(was or {}, (*at, name)) is None
            ):
                raise restore.build_other_handler_error(
                    name, program, doc.path, toml.find_key_line(doc, (*at, name))
                )


def restore_earlier_value(
    doc: toml.TomlDocument, at: tuple[str, ...], was: Mapping[str, Any] | None
) -> toml.TomlDocument:
    now, before = toml.look_up_toml(doc.data, at), toml.look_up_toml(was or {}, at)
    if now is None or now == before:
        return doc
    return toml.remove_toml_key(doc, at) if before is None else toml.set_values(doc, [(at, before)])


# ---------------------------------------------------------------- without an engine


def list_main_files(policy: Policy) -> list[tuple[str, ManagerPlace]]:
    """List the main files that may be here, each with the place of our part next to it. The file
    that is meant comes first.
    """
    if policy.config_path:
        manager = known.find_config_manager(policy.config_path)
        return [(policy.config_path, known.get_manager_place(manager.name if manager else ""))]
    return [
        (releases.CONFIG, known.get_manager_place("")),
        *(
            (m.config, known.get_manager_place(m.name))
            for m in known.list_served_managers()
            if m.config
        ),
    ]


def drop_ins(policy: Policy) -> list[str]:
    if policy.drop_in_path:
        return [policy.drop_in_path]
    every = [
        (posixpath.dirname(config), name)
        for config, place in list_main_files(policy)
        for name in place.drop_ins
    ]
    return [posixpath.join(directory, name, releases.DROP_IN) for directory, name in every]


def find_containerd_remnant(policy: Policy, facts: ContainerdFacts) -> Instance | None:
    """Return an instance for the configuration of a containerd that is not here any more, None if
    there is none.

    Our drop-in alone counts as such a configuration as well.
    """
    # also where only our drop-in is left
    alone = tuple(posixpath.dirname(path) for path in list_marked_containerd_files(policy, facts))
    there = (
        path
        for path, _place in list_main_files(policy)
        if facts.config.files.get(path).exists
        or any(home.startswith(f"{posixpath.dirname(path)}/") for home in alone)
    )
    config = next(there, None)
    if config is None:
        return None
    nothing = Cdi(
        able=False,
        enabled=False,
        dirs=(),
        max_version="",
        evidence=Evidence("files", about_daemons.NOT_INSTALLED.fill()),
    )
    manager = known.find_config_manager(config) or PACKAGE
    return Instance(
        "containerd",
        "",
        "",
        policy.socket or releases.SOCKET,
        config,
        "",
        manager.name,
        False,
        nothing,
    )


def get_main_containerd_file(policy: Policy, facts: ContainerdFacts) -> str:  # noqa: ARG001
    return policy.config_path or releases.CONFIG


def list_marked_containerd_files(policy: Policy, facts: ContainerdFacts) -> tuple[str, ...]:
    files = [facts.config.files.get(path) for path in drop_ins(policy)]
    return tuple(
        file.path for file in files if file.content and file.content.startswith(edit.FIRST_LINE)
    )


def owns_containerd_file(policy: Policy, facts: ContainerdFacts, path: str) -> bool:  # noqa: ARG001
    below = tuple(
        posixpath.dirname(config).rstrip("/") + "/" for config, _place in list_main_files(policy)
    )
    return path in drop_ins(policy) or path.startswith(below)
