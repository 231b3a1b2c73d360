# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take our part out of one containerd's configuration: restore the bytes from before, or else remove key by key."""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner import decide, owned_file, take_back, transaction
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd import authorship as whose
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd import config as containerd_files
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd import (
    edit,
    plan,
    releases,
    served,
    sources,
    template,
    verify,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd.config import ConfigFile, FileSet
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd.edit import FileChange
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.engines.containerd.messages import about_adoption, about_daemons
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import NeedMore, PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.managers.manager import Place
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.managers.package import PACKAGE
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import Cdi, Difference, Evidence, Instance, Plan, Policy, merge
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.observation import Observation
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.projections import containerd_places
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.versions import Version

SOME = Version(2, 0)  # for reading the files of a containerd that reports no version: nothing is written by it
Original = Mapping[str, Any]


@dc.dataclass(frozen=True)
class Part:
    """The changes to one file: it is restored or removed as a whole, edited, or judged and left."""

    gone: tuple[transaction.Change, ...] = ()
    edited: tuple[FileChange, ...] = ()
    differences: tuple[Difference, ...] = ()
    advice: tuple[str, ...] = ()
    released: tuple[str, ...] = ()
    diffs: tuple[tuple[str, str, str], ...] = ()


def plan_absent(policy: Policy, obs: Observation, instance: Instance) -> Plan:
    """Plan the removal of our part: restore the bytes from before, or take out only the keys that this collection wrote.

    The second applies to a file that others have changed since. A refused instance gets only its
    refusal, as advice.
    """
    if instance.refusal:
        return Plan(advice=(instance.refusal.message,))
    version = served.version_of(instance) if instance.version else SOME
    with sources.named(obs, instance, version):
        files = containerd_files.load(obs, instance.config_path, version, policy.handlers)
    leaving = [f.path for f in files.files[1:] if is_own(f)]
    parts = [of_file(policy, obs, files, file, leaving, version, instance.manager) for file in files.files]
    parts.append(of_template(obs, files, instance.manager))
    parts += [of_drop_in(file, owned_file.originals(obs).get(file.real)) for file in unread_drop_ins(policy, obs, files)]
    gone = tuple(g for p in parts for g in p.gone)
    edited = [e for p in parts for e in p.edited]
    advice = tuple(a for p in parts for a in p.advice)
    released = tuple(path for p in parts for path in p.released)
    if not (gone or edited):
        return Plan(advice=advice, released=released)
    differences = tuple(d for p in parts for d in p.differences)
    asked = instance if instance.cri else dc.replace(instance, running=False)  # no CRI would answer
    result = plan.assemble(policy, obs, asked, files, edited, differences, {}, [], version, gone)
    result = result if instance.cri else dc.replace(result, advice=())
    result = dc.replace(result, diffs=(*result.diffs, *(d for p in parts for d in p.diffs)))
    done = verify.restarted_after_removal(policy, asked, result, advice)
    return merge([dc.replace(done, released=released), unproven(policy, instance)])


def unproven(policy: Policy, instance: Instance) -> Plan:
    """Return advice for a running containerd whose CRI plugin is off, else an empty plan.

    Such a containerd reports nothing of its handlers, so nothing would show whether it serves after
    a restart.
    """
    if instance.cri or not instance.running or policy.root != "/":
        return Plan()
    unit = instance.unit or "containerd"
    return Plan(advice=(about_adoption.CRI_WAS_OFF.fill(path=instance.config_path, unit=unit),))


def unread_drop_ins(policy: Policy, obs: Observation, files: FileSet) -> list[ConfigFile]:
    """Return our drop-ins that nothing imports any more, because the main file or the import in it was removed."""
    home = posixpath.dirname(files.root_path)
    paths = [path for path in marked(policy, obs) if path.startswith(f"{home}/") and not files.get(path)]
    return [containerd_files.read_alone(obs, path, files.keep) for path in paths]


def is_own(file: ConfigFile) -> bool:
    return file.doc.text.startswith(edit.FIRST_LINE)


def of_file(policy: Policy, obs: Observation, files: FileSet, file: ConfigFile, leaving: list[str], version: Version, manager: str) -> Part:
    original = owned_file.originals(obs).get(file.real)
    if original and original.get("sha256_after") == file.sha256:
        said = owned_file.back(file.path, True, bool(original.get("existed", True)), owned_file.BACK)
        return Part(gone=({"path": file.real, "op": "restore"},), differences=(said,), diffs=(_diff(file, original),))
    if file is not files.root:
        return of_drop_in(file, original) if is_own(file) else Part()
    if not known.place(manager).main_edited:
        return Part()  # its manager renders it, so nothing in it is from here
    return of_root(policy, obs, files, file, original, leaving, version)


def of_template(obs: Observation, files: FileSet, manager: str) -> Part:
    """Plan the removal of our template. The manager renders its own text again at its next start.

    Return an empty Part if no template is our own. Raise NeedMore if the templates were not looked
    up.
    """
    finds = known.place(manager).detection
    paths = template.paths(finds, files.root_path, files.schema) if finds and files.root else []
    unasked = [q for q in (template.questions(finds, files.root_path) if finds else ()) if not obs.asked(q)]
    if unasked:
        raise NeedMore(unasked)
    found = next((file for file in (obs.file(path, template.KEEP) for path in paths) if template.Template(file.path, file).own), None)
    if found is None:
        return Part()
    original = owned_file.originals(obs).get(found.place)
    unchanged = bool(original) and (original or {}).get("sha256_after") == found.sha256
    said = owned_file.back(found.path, True, False, owned_file.BACK)
    remove: transaction.Remove = {"path": found.place, "op": "remove", "expect": found.sha256, "forget": True}
    change: transaction.Change = {"path": found.place, "op": "restore"} if unchanged else remove
    return Part(gone=(change,), differences=(said,), diffs=((found.path, found.text, ""),))


def of_drop_in(file: ConfigFile, original: Original | None) -> Part:
    """Plan the removal of our drop-in, even if others have changed it: it belongs to this collection alone."""
    advice = (owned_file.changed_since(file.path, original),) if original else ()
    if original and original.get("existed"):
        said = owned_file.back(file.path, True, True, owned_file.BACK)
        change: transaction.Restore = {"path": file.real, "op": "restore", "expect": file.sha256, "changed": True}
        return Part(gone=(change,), differences=(said,), advice=advice, diffs=(_diff(file, original),))
    said = owned_file.back(file.path, True, False, owned_file.BACK)
    # The drop-in of this collection has no original.
    remove: transaction.Remove = {"path": file.real, "op": "remove", "expect": file.sha256, "forget": True}
    return Part(gone=(remove,), differences=(said,), advice=advice, diffs=(_diff(file, {}),))


def _diff(file: ConfigFile, original: Original) -> tuple[str, str, str]:
    return file.path, file.doc.text, str(original.get("content") or "")


def of_root(
    policy: Policy, obs: Observation, files: FileSet, file: ConfigFile, original: Original | None, leaving: list[str], version: Version
) -> Part:
    was = copy(original, file.path)
    doc = without_imports(files, file, leaving, was)
    kept = {} if original else whose.others(policy, obs, files, file, version)
    named = [name for name in kept if without_keys(only(policy, [name]), doc, was).text != doc.text]
    advice = tuple(about_adoption.LOOKS_LIKE_OURS.fill(path=file.path, handler=name, cause=kept[name]) for name in named)
    doc = without_keys(only(policy, [h.name for h in policy.handlers if h.name not in kept]), doc, was)
    doc = without_headers(without_version(doc, was), file.doc, original)
    refuse_other_names(doc, was)
    released = (file.real,) if original else ()
    if doc.text == file.doc.text:
        return Part(advice=advice, released=released)
    change = FileChange(file.path, file.real, file.doc, file.sha256, doc, whole=False, forget=True)
    said = owned_file.keys_out(file.path)
    kept_note = about_adoption.ONLY_KEYS_OUT.fill(path=file.path)
    return Part(edited=(change,), differences=(said,), advice=(*advice, kept_note), released=released)


def only(policy: Policy, names: list[str]) -> Policy:
    return dc.replace(policy, handlers=tuple(h for h in policy.handlers if h.name in names))


def without_imports(files: FileSet, file: ConfigFile, leaving: list[str], was: Mapping[str, Any] | None) -> toml.TomlDocument:
    """Return the file's document without the imports of the files that leave, and without a pattern that we brought.

    A missing literal import keeps the daemon from starting. A pattern stays if another file relies
    on it now.
    """
    doc = file.doc
    before = was.get("imports", []) if was is not None else None
    others = [f.path for f in files.files[1:] if f.path not in leaving]
    for pattern in containerd_files.imports(file):
        whole = containerd_files.absolute(file, pattern)
        brought = before is not None and pattern not in before and whole == posixpath.join(posixpath.dirname(whole), "*.toml")
        unused = not any(containerd_files.covers(whole, path) for path in others)
        if whole in leaving or (brought and unused):
            doc = toml.discard(doc, ("imports",), pattern)
    return doc


def copy(original: Original | None, path: str) -> Mapping[str, Any] | None:
    """Return the file's data from before our first change, {} if there was no file, None if that is not known."""
    if not original or original.get("content") is None:
        return {} if original and original.get("existed") is False else None
    try:
        return toml.parse(str(original["content"]), path).data
    except PlanError:
        return None


def without_keys(policy: Policy, doc: toml.TomlDocument, was: Mapping[str, Any] | None) -> toml.TomlDocument:
    """Return the document without our keys: each goes only if it has the value that we would write and had another one before.

    was: the file's data from before, None if it is not known. Then only our handlers go, and with
    them a default handler that names one.
    """
    handlers = {h.name: h.binary for h in policy.handlers}
    for table in containerd_places.TABLES:
        before = doc
        for name, binary in handlers.items():
            at = (*table, "containerd", "runtimes", name)
            doc = without_annotations(policy, without_handler(doc, at, binary, was), at, was)
        at = (*table, "containerd", "default_runtime_name")
        if toml.lookup(doc.data, at) in handlers and (doc is not before or was is not None):
            doc = as_it_was(doc, at, was)
        if was is None:
            continue
        if toml.lookup(doc.data, (*table, "enable_cdi")) is True:
            doc = as_it_was(doc, (*table, "enable_cdi"), was)
        if policy.cdi_spec_dirs and toml.lookup(doc.data, (*table, "cdi_spec_dirs")) == list(policy.cdi_spec_dirs):
            doc = as_it_was(doc, (*table, "cdi_spec_dirs"), was)
        doc = without_runc(doc, (*table, "containerd", "runtimes"), was)
        for empty in ((*table, "containerd", "runtimes"), (*table, "containerd"), table):
            if toml.lookup(doc.data, empty) == {} and toml.lookup(was, empty) is None:
                doc = toml.remove(doc, empty)
    return doc


def without_headers(doc: toml.TomlDocument, there: toml.TomlDocument, original: Original | None) -> toml.TomlDocument:
    """Return the document without the headers that came with our keys and have nothing left under them."""
    if not original or original.get("content") is None:
        return doc
    try:
        before = toml.own_headers(toml.parse(str(original["content"]), doc.path))
    except PlanError:
        return doc
    full = toml.own_headers(there)
    for path, any_left in toml.own_headers(doc).items():
        if full.get(path) and not any_left and path not in before:
            doc = toml.remove_header(doc, path)
    return doc


def without_version(doc: toml.TomlDocument, was: Mapping[str, Any] | None) -> toml.TomlDocument:
    """Return the document without the version that our first table brought, unless a plugin is named now, which relies on it."""
    brought = was is not None and "version" not in was and doc.data.get("version") == edit.VERSION_2[1]
    if not brought or any(doc.data.get(key) for key in containerd_files.NAMES_PLUGINS):
        return doc
    return toml.remove(doc, edit.VERSION_2[0])


def without_handler(doc: toml.TomlDocument, at: tuple[str, ...], binary: str, was: Mapping[str, Any] | None) -> toml.TomlDocument:
    program = (*at, "options", "BinaryName")
    if toml.lookup(doc.data, program) not in (binary, toml.lookup(was or {}, program) or binary):  # one that worked was kept
        return doc
    if was is None or toml.lookup(was, at) is None:
        return toml.remove(doc, at)
    for key in (("runtime_type",), ("options", "BinaryName"), ("options", "SystemdCgroup")):
        doc = as_it_was(doc, (*at, *key), was)
    return doc


def without_annotations(policy: Policy, doc: toml.TomlDocument, at: tuple[str, ...], was: Mapping[str, Any] | None) -> toml.TomlDocument:
    """Return the document without the annotations that we added to the list of a handler that was there before us.

    Annotations that others have added since stay.
    """
    here, before = toml.lookup(doc.data, (*at, edit.ANNOTATIONS)), toml.lookup(was or {}, (*at, edit.ANNOTATIONS))
    if toml.lookup(was or {}, at) is None or not isinstance(here, list):
        return doc
    added = {f"{prefix.rstrip('/')}/*" for prefix in policy.annotation_prefixes or decide.runtime_prefixes(policy)} - set(before or ())
    kept = [entry for entry in here if entry not in added]
    if kept == here:
        return doc
    path = (*at, edit.ANNOTATIONS)
    return toml.set_values(doc, [(path, kept)]) if kept or before is not None else toml.remove(doc, path)


def without_runc(doc: toml.TomlDocument, at: tuple[str, ...], was: Mapping[str, Any]) -> toml.TomlDocument:
    """Return the document without the runc entry that we wrote, if no other handler is left.

    containerd 1.x loses its built-in runc if a file names another handler, so we wrote it as well.
    Alone it is of no use.
    """
    written = {"runtime_type": releases.RUNC_TYPE, "options": {"SystemdCgroup": False}}
    found = toml.lookup(doc.data, at)
    if toml.lookup(was, (*at, "runc")) is None and isinstance(found, Mapping) and dict(found) == {"runc": written}:
        return toml.remove(doc, (*at, "runc"))
    return doc


def refuse_other_names(doc: toml.TomlDocument, was: Mapping[str, Any] | None) -> None:
    """Raise PlanError for a handler of NVIDIA's that was added after our first change and is not asked for.

    It may be this collection's, from a time when it was asked for.
    """
    for table in containerd_places.TABLES if was is not None else ():
        at = (*table, "containerd", "runtimes")
        for name, entry in (toml.lookup(doc.data, at) or {}).items():
            program = str(toml.lookup(entry, ("options", "BinaryName"), "")) if isinstance(entry, Mapping) else ""
            if posixpath.basename(program).startswith(take_back.PROGRAM) and toml.lookup(was or {}, (*at, name)) is None:
                raise take_back.other_name(name, program, doc.path, toml.line_of(doc, (*at, name)))


def as_it_was(doc: toml.TomlDocument, at: tuple[str, ...], was: Mapping[str, Any] | None) -> toml.TomlDocument:
    now, before = toml.lookup(doc.data, at), toml.lookup(was or {}, at)
    if now is None or now == before:
        return doc
    return toml.remove(doc, at) if before is None else toml.set_values(doc, [(at, before)])


# ---------------------------------------------------------------- without an engine


def homes(policy: Policy) -> list[tuple[str, Place]]:
    """List the main files that may be here, each with the place of our part next to it. The file that is meant comes first."""
    if policy.config_path:
        manager = known.of_config(policy.config_path)
        return [(policy.config_path, known.place(manager.name if manager else ""))]
    return [(releases.CONFIG, known.place("")), *((m.config, known.place(m.name)) for m in known.served() if m.config)]


def drop_ins(policy: Policy) -> list[str]:
    if policy.drop_in_path:
        return [policy.drop_in_path]
    every = [(posixpath.dirname(config), name) for config, place in homes(policy) for name in place.drop_ins]
    return [posixpath.join(directory, name, releases.DROP_IN) for directory, name in every]


def remnant(policy: Policy, obs: Observation) -> Instance | None:
    """Return an instance for the configuration of a containerd that is not here any more, None if there is none.

    Our drop-in alone counts as such a configuration as well.
    """
    keep = containerd_places.keep(policy.handlers)
    alone = tuple(posixpath.dirname(path) for path in marked(policy, obs))  # also where only our drop-in is left
    there = (
        path
        for path, _place in homes(policy)
        if obs.file(path, keep).exists or any(home.startswith(f"{posixpath.dirname(path)}/") for home in alone)
    )
    config = next(there, None)
    if config is None:
        return None
    nothing = Cdi(False, False, (), "", Evidence("files", about_daemons.NOT_INSTALLED.fill()))
    manager = known.of_config(config) or PACKAGE
    return Instance("containerd", "", "", policy.socket or releases.SOCKET, config, "", manager.name, False, nothing)


def main(policy: Policy, obs: Observation) -> str:
    return policy.config_path or releases.CONFIG


def marked(policy: Policy, obs: Observation) -> tuple[str, ...]:
    files = [obs.file(path, containerd_places.keep(policy.handlers)) for path in drop_ins(policy)]
    return tuple(file.path for file in files if file.content and file.content.startswith(edit.FIRST_LINE))


def claims(policy: Policy, obs: Observation, path: str) -> bool:
    below = tuple(posixpath.dirname(config).rstrip("/") + "/" for config, _place in homes(policy))
    return path in drop_ins(policy) or path.startswith(below)
