# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell which engine, toolkit or driver of a host is newer than the tables."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Driver,
    Instance,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import (
    parse_engine_version,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    currency,
    host_messages,
)


def advise_on_newer_releases(
    instances: tuple[Instance, ...], toolkit: str, driver: Driver
) -> tuple[str, ...]:
    """Return one sentence per component whose minor release the tables do not reach.

    toolkit: the installed version, '' if there is none. A driver counts by its branch, since its
    second number is that of a fix.
    """
    return tuple(
        host_messages.NEWER_THAN_KNOWN.fill(
            title=known.title, version=version, known=known.newest, checked=known.checked
        )
        for known, version, numbers in _list_components(instances, toolkit, driver)
        if is_newer_release(version, known.newest, numbers)
    )


def is_newer_release(version: str, known: str, numbers: int = 2) -> bool:
    """Tell whether a version is of a later release than the newest known one.

    numbers: how many numbers make a release: 2 for minor releases, 1 for branches. A version of an
    unknown form is not newer.
    """
    parsed, newest = parse_engine_version(version), parse_engine_version(known)
    return bool(parsed and newest and parsed.release[:numbers] > newest.release[:numbers])


def _list_components(
    instances: tuple[Instance, ...], toolkit: str, driver: Driver
) -> Iterator[tuple[currency.KnownProject, str, int]]:
    engines = dict.fromkeys((i.engine, i.version) for i in instances if not i.refusal)
    for engine, version in engines:
        if engine in currency.KNOWN:
            yield currency.KNOWN[engine], version, 2
    yield currency.KNOWN["toolkit"], toolkit, 2
    yield currency.KNOWN["driver"], driver.version, 1
