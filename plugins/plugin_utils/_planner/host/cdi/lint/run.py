# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check everything in a host's CDI directories, of any writer, and report what engines resolve
there.

The check never fails because of what it finds. It takes one look for the directories, and a second
one for the paths that the specs in them name.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import NeedMore
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    CDI_DIRS,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    roots,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    lookup,
    releases,
    schema,
    yaml,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view.lookup import (
    Loaded,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view.schema import (
    SpecDocument,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.lint import (
    document_rules,
    host_rules,
    messages,
    projection,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.lint.rules import (
    LintFinding,
    sort_findings,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import (
    stand_ins,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import gpus

# An ending in another spelling, or with something behind it, such as a package manager's copy. The
# content of such a file is not asked for.
SPEC_NAME = re.compile(r"\.(?:ya?ml|json)(?:[.~-].*)?\Z", re.IGNORECASE)
FAILED = {"too-large": "not-looked-at", "timeout": "not-looked-at", "outside": "outside"}


@dc.dataclass(frozen=True)
class Report:
    """The result of the check.

    devices: sorted qualified names that an engine with the newest library resolves.
    """

    devices: tuple[str, ...]
    findings: tuple[LintFinding, ...]

    def list_facts(self) -> dict[str, Any]:
        return {
            "devices": list(self.devices),
            "findings": [f.convert_finding() for f in self.findings],
        }


def list_lint_directories(policy: Policy) -> tuple[str, ...]:
    """Return the CDI directories, lowest priority first."""
    return policy.cdi_spec_dirs or CDI_DIRS


def ask_for_lint_files(directory: str, policy: Policy) -> queries.Question:
    return projection.ask_for_specs(
        directory, list_lint_directories(policy), roots.list_named_roots(policy)
    )


def list_lint_questions(policy: Policy) -> list[queries.Question]:
    return [
        *(
            q
            for d in list_lint_directories(policy)
            for q in (host_rules.ask_for_spec_path(d), ask_for_lint_files(d, policy))
        ),
        *_ask_for_tree_nodes(policy),
    ]


def read_text_problems(
    data: bytes, release: releases.LibraryRelease = releases.NEWEST
) -> tuple[SpecDocument | None, tuple[schema.Problem, ...]]:
    """Read a file's bytes as the library does.

    Return the document, None if the bytes are not one, and the reasons why the library drops it, ()
    if it takes it.
    """
    try:
        text = yaml.read_yaml_document(data)
    except yaml.UnreadableYaml as error:
        return None, (schema.Problem(error.rule, "", error.message, error.line),)
    document = schema.fit_spec_document(text)
    return document, releases.list_spec_problems(document, release)


def report(policy: Policy, obs: Observation, cap: str) -> Report:
    """Run the whole check. Raise NeedMore for what is to be looked at on the host."""
    findings: list[LintFinding] = []
    loaded: list[Loaded] = []
    stopped = False
    for priority, directory in enumerate(list_lint_directories(policy)):
        problems = list(_check_directory(directory, policy, obs))
        findings += problems
        # a directory that cannot be listed ends the library's search
        stopped = stopped or any(p.rule == "directory" for p in problems)
        for path, answer in _list_answers(directory, policy, obs):
            findings += _check_file(path, answer)
            mistakes, document = _read_spec(path, answer, cap)
            findings += mistakes
            loaded += [Loaded(path, priority, document)] if document and not stopped else []
    findings += _check_on_host(policy, obs, loaded)
    resolved = lookup.resolve_spec_devices(loaded)
    findings += _report_resolved_devices(resolved)
    shown = (
        dc.replace(
            f,
            message=stand_ins.describe_without_tags(f.message),
            device=stand_ins.describe_without_tags(f.device),
        )
        for f in findings
    )
    return Report(tuple(sorted(resolved.devices)), sort_findings(shown))


def _list_answers(
    directory: str, policy: Policy, obs: Observation
) -> list[tuple[str, Mapping[str, Any]]]:
    # _check_directory() reports a directory that cannot be listed
    files = obs.get_answer_or_error(ask_for_lint_files(directory, policy)).get("files") or ()
    return [(str(f["path"]), f) for f in files]


def _check_directory(directory: str, policy: Policy, obs: Observation) -> Iterator[LintFinding]:
    answer = obs.get_answer_or_error(host_rules.ask_for_spec_path(directory))
    listing = obs.get_answer_or_error(ask_for_lint_files(directory, policy))
    if "error" in answer or "error" in listing:
        message = str((answer.get("error") or listing["error"]).get("message"))
        yield LintFinding("not-looked-at", directory, message)
        return
    yield from (
        LintFinding(p.rule, directory, p.message)
        for p in host_rules.check_spec_directory(directory, answer)
    )
    if not answer.get("exists"):
        return
    yield from _check_writable(directory, answer)


def _check_writable(path: str, answer: Mapping[str, Any]) -> Iterator[LintFinding]:
    mode, uid, gid = (int(answer.get(k) or 0) for k in ("mode", "uid", "gid"))
    if uid:
        yield LintFinding("writable", path, messages.FOUND_OWNER.fill(owner=answer.get("owner")))
    if mode & 0o002 and not mode & 0o1000:
        yield LintFinding("writable", path, messages.FOUND_WRITABLE_BY_ALL.fill(mode=mode))
    elif mode & 0o020 and gid:
        yield LintFinding(
            "writable",
            path,
            messages.FOUND_WRITABLE_BY_GROUP.fill(mode=mode, group=answer.get("group")),
        )


def _check_file(path: str, answer: Mapping[str, Any]) -> Iterator[LintFinding]:
    """Yield what is wrong with the name, the kind and the mode of a file."""
    name, kind = posixpath.basename(path), answer.get("type")
    if not lookup.is_read(path):
        yield from _report_unread_file(path, name, answer)
        return
    if kind == "dir" and not host_rules.is_link(path, answer):
        yield LintFinding("sub-directory", path, messages.FOUND_DIRECTORY.fill())
    elif kind in ("fifo", "char"):
        yield LintFinding("hangs", path, messages.FOUND_KIND.fill(kind=host_rules.KINDS[kind]))
    elif kind != "file" and "error" not in answer:
        yield LintFinding(
            "unreadable",
            path,
            messages.FOUND_KIND.fill(kind=host_rules.KINDS.get(str(kind), "no file")),
        )
    if kind == "file":
        mode = int(answer.get("mode") or 0)
        if not mode & 0o004:
            yield LintFinding("mode", path, messages.FOUND_MODE.fill(mode=mode))
        yield from _check_writable(path, answer)


def _report_unread_file(path: str, name: str, answer: Mapping[str, Any]) -> Iterator[LintFinding]:
    if answer.get("type") == "dir":
        yield LintFinding("sub-directory", path, messages.FOUND_DIRECTORY.fill())
    elif name.startswith("spec.") and name.endswith(".tmp"):
        yield LintFinding("left-over", path, messages.FOUND_LEFT_OVER.fill())
    elif SPEC_NAME.search(name):
        yield LintFinding(
            "never-read",
            path,
            messages.FOUND_ENDING.fill(ending=posixpath.splitext(name)[1] or name),
        )


def _read_spec(
    path: str, answer: Mapping[str, Any], cap: str
) -> tuple[list[LintFinding], SpecDocument | None]:
    """Return the findings about a file's text, and the document if the newest library takes it."""
    if not lookup.is_read(path) or answer.get("type", "file") != "file":
        return [], None
    if "error" in answer:
        rule = FAILED.get(str(answer["error"].get("kind")), "unreadable")
        said = answer["error"].get("message")
        message = (
            messages.FOUND_UNREADABLE.fill()
            if said is None
            else str(said).removeprefix(f"{path}: ")
        )
        return [LintFinding(rule, path, message)], None
    if answer.get("fault"):
        code, line = str(answer["fault"].get("code")), answer["fault"].get("line")
        return [
            LintFinding(
                "not-read" if code in stand_ins.FORMS else "yaml",
                path,
                stand_ins.explain_unsent_file(answer["fault"]),
                line,
            )
        ], None
    data = decode_content(answer)
    document, problems = read_text_problems(data)
    findings = [
        LintFinding(p.rule, path, p.message, p.line, _name_device(p.path, document))
        for p in problems
    ]
    if document is None:
        return findings, None
    findings += [
        LintFinding(p.rule, path, p.message, p.line)
        for p in document.problems
        if p.rule in releases.NEWEST.harmless
    ]
    if document.value is not None:
        broken_rules = document_rules.check_spec_document(document.value, cap)
        findings += [
            LintFinding(p.rule, path, p.message, document.find_line(p.path), device)
            for device, p in broken_rules
        ]
    if yaml.read_yaml_document(data).more:
        findings.append(LintFinding("second-document", path, messages.FOUND_SECOND_DOCUMENT.fill()))
    return findings, None if problems else document


def decode_content(answer: Mapping[str, Any]) -> bytes:
    from_text = Observation({}, {"file:": answer}).get_file("").content or ""
    return from_text.encode("utf-8", "surrogateescape")


def _name_device(path: str, document: SpecDocument | None) -> str:
    """Return the qualified name of the device that a place belongs to, '' if it has none."""
    index = path.removeprefix("devices[").partition("]")[0]
    if document is None or not path.startswith("devices[") or not index.isdigit():
        return ""
    device = (document.value.get("devices") or [])[int(index)]
    return f"{document.value.get('kind', '')}={device.get('name', '')}"


def _check_on_host(policy: Policy, obs: Observation, loaded: list[Loaded]) -> list[LintFinding]:
    nodes = policy.root == "/" or _shows_nodes(policy, obs)
    wanted = sorted(
        {
            p
            for file in loaded
            for p in host_rules.list_spec_host_paths(file.document.value, nodes=nodes)
        }
    )
    more = [q for q in map(host_rules.ask_for_spec_path, wanted) if not obs.was_asked(q)]
    if more:
        raise NeedMore(more)
    return [
        LintFinding(
            problem.rule,
            file.path,
            problem.message,
            file.document.find_line(problem.path),
            device,
            problem.subject,
        )
        for file in loaded
        for device, problem in host_rules.check_spec_on_host(file.document.value, obs, nodes=nodes)
    ]


def _ask_for_tree_nodes(policy: Policy) -> list[queries.Question]:
    """Ask a tree for the driver's device nodes. A host that runs has its own."""
    return (
        []
        if policy.root == "/"
        else [
            queries.ask_for_glob(pattern, content=False)
            for pattern in gpus.list_dev_globs(gpus.get_dev_root(policy))
        ]
    )


def _shows_nodes(policy: Policy, obs: Observation) -> bool:
    """Tell whether a tree has nodes of the driver: then its /dev is judged like a host's.

    An image has none.
    """
    return any(
        path.startswith("/dev/nvidia")
        for path in gpus.map_device_files(obs, gpus.get_dev_root(policy))
    )


def _report_resolved_devices(resolved: lookup.Resolved) -> Iterator[LintFinding]:
    for name, files in resolved.conflicts.items():
        for file in files:
            others = ", ".join(f.path for f in files if f is not file)
            yield LintFinding(
                "conflict",
                file.path,
                messages.FOUND_ELSEWHERE.fill(others=others),
                _find_line(file, name),
                name,
            )
    for name, loser, winner in resolved.hidden:
        same = loser.map_devices()[name][1] == winner.map_devices()[name][1]
        row = messages.FOUND_HIDDEN_EQUAL if same else messages.FOUND_HIDDEN
        yield LintFinding(
            "hidden",
            loser.path,
            row.fill(winner=winner.path),
            _find_line(loser, name),
            name,
        )


def _find_line(file: Loaded, name: str) -> int | None:
    return file.document.find_line(f"devices[{file.map_devices()[name][0]}]")
