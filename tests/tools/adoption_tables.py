# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of docs/adoption.md: configurations that others have published, and what is done with
each.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import traits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    releases as containerd_releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known
from page_table import Row, code, table

from tests.fixtures import earlier_content as earlier
from tests.fixtures import public_configurations as public


def images() -> str:
    """Return the table of node images and installers.

    Rows that differ only by the engine's release are joined into one.
    """
    found: dict[Row, tuple[list[str], list[str]]] = {}
    for row in public.EVERY:
        engines, sources = found.setdefault(
            (row.title, traits.get_traits(row.engine).title, handlers_of(row), done(row)), ([], [])
        )
        engines.extend(release for release in row.releases if release not in engines)
        sources.extend(source for source in [f"{row.source} ({row.read})"] if source not in sources)
    body = [
        [title, f"{engine} {', '.join(sorted(engines))}", there, what, "; ".join(sources)]
        for (title, engine, there, what), (engines, sources) in found.items()
    ]
    return table(["host", "engine, as tested", "handlers there", "what is done", "read from"], body)


def handlers_of(row: public.Public) -> str:
    """Return the handlers of a row's file, in words, the default one first."""
    data = toml.load_toml(row.text, row.file)
    if row.engine == "crio":
        runtimes = data["crio"]["runtime"]["runtimes"]
    else:
        plugins = data["plugins"]
        cri = plugins.get("io.containerd.cri.v1.runtime") or plugins["io.containerd.grpc.v1.cri"]
        runtimes = cri["containerd"]["runtimes"]
    return "; ".join(
        handler_of(name, runtimes[name], row)
        for name in sorted(runtimes, key=lambda n: (n != row.default, n))
    )


def handler_of(name: str, entry: Mapping[str, Any], row: public.Public) -> str:
    options = entry.get("options") or {}
    words = [f"`{name}`"]
    if name == row.default:
        words.append("default")
    kind = entry.get("runtime_type", "")
    if kind not in ("", containerd_releases.RUNC_TYPE, "oci"):
        words.append(f"`{kind}`")
    program = options.get("BinaryName") or entry.get("runtime_path")
    if program and program.rsplit("/", 1)[-1] != name:
        words.append(f"runs `{program}`")
    if "SystemdCgroup" in options:
        words.append("systemd" if options["SystemdCgroup"] else "cgroupfs")
    return ", ".join(
        words
        + [
            f"`{key}`"
            for key in entry
            if entry[key] and key not in ("runtime_type", "runtime_path", "options")
        ]
    )


def done(row: public.Public) -> str:
    manager = known.get_manager(row.home.manager)
    if manager.place is None:
        return f"left alone. {manager.refusal.next}"
    if not manager.place.main_edited and set(row.releases) == {"1.7"}:
        return f"left alone, since containerd 1.7 would replace all of it by a drop-in. {manager.place.not_imported}"
    driver = [] if row.engine == "crio" else [f"{'systemd' if row.systemd else 'cgroupfs'} driver"]
    if not manager.place.main_edited:
        return f"a drop-in next to the generated file: `nvidia` as `runc` is, {driver[0]}; `{row.default}` stays the default"
    copied = ", ".join([*driver, *(f"`{key}`" for key in row.copied)])
    return f"`nvidia` is made as `{row.base}` is: {copied}; `{row.default}` stays the default"


def by_hand() -> str:
    """Return the table of what older Ansible content, guides and blog posts left in containerd's
    main file.
    """
    body = [
        [
            row.title,
            ", ".join(row.releases),
            handlers_of(row),
            f"{kept(row)}; {row.more}",
            f"{row.source} ({row.read})",
        ]
        for row in earlier.ROWS
    ]
    return table(
        [
            "what was there before",
            "containerd, as tested",
            "handlers there",
            "what is done",
            "read from",
        ],
        body,
    )


def kept(row: public.Public) -> str:
    driver = "systemd" if row.systemd else "cgroupfs"
    if row.base == "nvidia":
        return f"`nvidia` keeps what it has, with the {driver} driver"
    return f"`nvidia` is made as `{row.base}` is, with the {driver} driver"


def of_docker() -> str:
    """Return the table of what they left in Docker's daemon.json."""
    body = [
        [row.title, f"`{json.dumps(row.data)}`", stays(row.data), f"{row.source} ({row.read})"]
        for row in earlier.DOCKERS
    ]
    return table(["what was there before", "its daemon.json", "what is done", "read from"], body)


def stays(data: Mapping[str, Any]) -> str:
    """Return in words what becomes of a daemon.json with NVIDIA's runtime, as the test of these
    rows expects it.
    """
    entry = data["runtimes"]["nvidia"]
    given = [f"`{word}`" for key in ("args", "runtimeArgs") for word in entry.get(key) or ()]
    words = [" and ".join([f"`nvidia` goes on with its program `{entry['path']}`", *given])]
    if data.get("default-runtime") == "nvidia":
        words.append("it stays the default")
    others = sorted(set(data) - {"runtimes", "default-runtime"})
    return "; ".join(
        [*words, *([f"{code(others)} {'stay' if len(others) > 1 else 'stays'}"] if others else [])]
    )
