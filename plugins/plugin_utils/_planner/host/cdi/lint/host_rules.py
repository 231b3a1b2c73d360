# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check a CDI spec against its host: nodes and their numbers, files to be mounted, programs of
hooks.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view.schema import (
    Problem,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.lint import (
    document_rules,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import (
    stand_ins,
)

Value = Mapping[str, Any]
TYPES = {"char": "c", "block": "b", "fifo": "p"}
WHAT = {"dir": "a directory", "file": "a file", "socket": "a socket", "link": "a link"}


def ask_for_spec_path(path: str) -> queries.Question:
    """Ask about a path without its content, not even its hash."""
    return queries.ask_for_file(path, content=False, max=0)


def list_spec_host_paths(spec: Value, *, nodes: bool) -> set[str]:
    """Return the paths to look at on the host.

    nodes: false for an offline tree, which has no nodes of its own.
    """
    paths: set[str] = set()
    for _device, path, edits in document_rules.list_all_edits(spec):
        if nodes:
            paths |= {
                get_node_host_path(n)
                for _p, n in document_rules.list_edit_entries(edits, path, "deviceNodes")
            }
        paths |= {
            str(m.get("hostPath", ""))
            for _p, m in document_rules.list_edit_entries(edits, path, "mounts")
        }
        paths |= {
            str(h.get("path", ""))
            for _p, h in document_rules.list_edit_entries(edits, path, "hooks")
            if h.get("hookName") != "startContainer"
        }
    return {
        p
        for p in paths
        if p.startswith("/") and "\0" not in p and not stand_ins.is_partly_hidden(p)
    }


def get_node_host_path(node: Value) -> str:
    return str(node.get("hostPath") or node.get("path") or "")


def check_spec_on_host(
    spec: Value, obs: Observation, *, nodes: bool
) -> Iterator[tuple[str, Problem]]:
    """Yield the problems of a spec on its host, each with its device. It needs the answers for
    list_spec_host_paths().
    """
    for device, path, edits in document_rules.list_all_edits(spec):
        yield from ((device, p) for p in _report_unsent_paths(edits, path, nodes=nodes))
        if nodes:
            for place, node in document_rules.list_edit_entries(edits, path, "deviceNodes"):
                yield from (
                    (device, p)
                    for p in _check_node_on_host(
                        node, place, get_path_answer(obs, get_node_host_path(node))
                    )
                )
        for place, mount in document_rules.list_edit_entries(edits, path, "mounts"):
            yield from (
                (device, p)
                for p in _mount(mount, place, get_path_answer(obs, str(mount.get("hostPath", ""))))
            )
        for place, hook in document_rules.list_edit_entries(edits, path, "hooks"):
            if hook.get("hookName") != "startContainer":
                yield from (
                    (device, p)
                    for p in _check_hook_on_host(
                        hook, place, get_path_answer(obs, str(hook.get("path", "")))
                    )
                )


def _report_unsent_paths(edits: Value, path: str, *, nodes: bool) -> Iterator[Problem]:
    """Yield a problem for each path that was not sent, so the check could not look for it."""
    wanted = [
        (place, get_node_host_path(node))
        for place, node in document_rules.list_edit_entries(edits, path, "deviceNodes")
        if nodes
    ]
    wanted += [
        (place, str(mount.get("hostPath", "")))
        for place, mount in document_rules.list_edit_entries(edits, path, "mounts")
        if document_rules.is_bind(mount)
    ]
    hooks = document_rules.list_edit_entries(edits, path, "hooks")
    wanted += [
        (place, str(hook.get("path", "")))
        for place, hook in hooks
        if hook.get("hookName") != "startContainer"
    ]
    for place, text in wanted:
        if stand_ins.is_partly_hidden(text):
            yield Problem(
                "not-sent",
                place,
                messages.FOUND_PATH_UNSENT.fill(path=text),
            )


def get_path_answer(obs: Observation, path: str) -> Value:
    """Return the answer about a path.

    The result is {} if the path was not asked for or could not be answered, so nothing is reported
    about it.
    """
    if not path.startswith("/") or not obs.was_asked(ask_for_spec_path(path)):
        return {}
    answer = obs.get_answer_or_error(ask_for_spec_path(path))
    return {} if "error" in answer else answer


KINDS = {
    "dir": "a directory",
    "link": "a link to nothing",
    "fifo": "a named pipe",
    "socket": "a socket",
    "char": "a device",
    "block": "a device",
}


def check_spec_directory(directory: str, answer: Value) -> Iterator[Problem]:
    """Yield what keeps engines from listing a directory of specs that is there."""
    mode, kind = int(answer.get("mode") or 0), str(answer.get("type"))
    if not answer.get("exists"):
        return
    if kind != "dir":
        yield Problem("directory", "", messages.FOUND_KIND.fill(kind=KINDS.get(kind, "a file")))
        return
    if is_link(directory, answer):
        yield Problem(
            "directory-link", "", messages.FOUND_LINK.fill(target=answer.get("real") or "nothing")
        )
    if mode & 0o005 != 0o005:
        yield Problem("directory-mode", "", messages.FOUND_MODE.fill(mode=mode))


def is_link(path: str, answer: Value) -> bool:
    """Tell whether the last part of the path is a link; links above it are followed by everyone."""
    name = posixpath.basename(posixpath.normpath(path))
    return (
        any(posixpath.basename(link) == name for link in answer.get("links") or ())
        or answer.get("type") == "link"
    )


def _check_node_on_host(node: Value, path: str, answer: Value) -> Iterator[Problem]:
    """Check a node as the library does, which asks with lstat.

    The library does not ask for a node with type and major, and keeps it as it is.
    """
    where, kind, major = get_node_host_path(node), node.get("type", ""), node.get("major") or 0
    whole = bool(kind) and (major != 0 or kind == "p")
    if not answer:
        return
    if not answer.get("exists"):
        yield Problem(
            "node-absent" if whole else "node-missing",
            path,
            messages.FOUND_ABSENT.fill(path=where),
            subject=where,
        )
        return
    live = TYPES.get(str(answer.get("type")))
    if is_link(where, answer) or live is None:
        what = (
            "a link"
            if is_link(where, answer)
            else WHAT.get(str(answer.get("type")), "something else")
        )
        if not whole:
            yield Problem("no-node", path, messages.FOUND_NO_NODE.fill(path=where, kind=what))
        return
    if kind and kind != live and not whole:
        yield Problem(
            "node-kind", path, messages.FOUND_NODE_TYPE.fill(path=where, live=live, recorded=kind)
        )
    rdev = tuple(answer.get("rdev") or ())
    recorded = (major, node.get("minor") or 0)
    if major and kind != "p" and rdev and rdev != recorded:
        words = messages.FOUND_NODE_NUMBERS.fill(
            path=where, live=f"{rdev[0]}:{rdev[1]}", recorded=f"{recorded[0]}:{recorded[1]}"
        )
        yield Problem("stale-numbers", path, words)


def _mount(mount: Value, path: str, answer: Value) -> Iterator[Problem]:
    if (
        document_rules.is_bind(mount)
        and answer
        and (not answer.get("exists") or answer.get("type") == "link")
    ):
        yield Problem("mount-missing", path, messages.FOUND_ABSENT.fill(path=mount.get("hostPath")))


def _check_hook_on_host(hook: Value, path: str, answer: Value) -> Iterator[Problem]:
    program = hook.get("path")
    if answer and (not answer.get("exists") or answer.get("type") == "link"):
        yield Problem(
            "hook-missing", path, messages.FOUND_ABSENT.fill(path=program), subject=str(program)
        )
    elif answer and (answer.get("type") != "file" or not int(answer.get("mode") or 0) & 0o111):
        yield Problem("hook-mode", path, messages.FOUND_NOT_RUNNABLE.fill(program=program))
