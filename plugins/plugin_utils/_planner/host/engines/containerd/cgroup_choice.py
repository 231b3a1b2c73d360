# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the cgroup driver of our handlers if the handlers of a node do not agree on one, or none
sets it.

From 2.0 on containerd reports to the kubelet (CRI's RuntimeConfig) what its default handler has,
else the first other one by name that has options of runc.v2
(internal/cri/server/runtime_config_linux.go, the same from 2.0 to 2.4). So a new default can move a
whole node to another driver at the kubelet's next start, and is only made if it does not.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Decision,
    Instance,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.versions import Version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    base as containerd_base,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.base import (
    Base,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_handlers,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    cgroup_driver,
    kubelet_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet.cgroup_driver import (
    UNKNOWN,
    InUse,
)

ASKED_SINCE = (2, 0)  # RuntimeConfig is Unimplemented before


def settle_cgroup_drivers(
    policy: Policy,
    kubelet: kubelet_facts.KubeletFacts,
    instance: Instance,
    decision: Decision,
    cri: Mapping[str, Any],
    version: Version,
    bases: Mapping[str, Base],
) -> dict[str, Base]:
    """Return the bases, each one in doubt with the kubelet's driver, else with that of the default
    handler if our handler replaces it.

    cri: the CRI table in force without what we wrote.
    """
    default = _get_default_driver(decision, cri, version, bases.get(decision.handler))
    unsure = {
        name
        for name, base in bases.items()
        if base.doubt
        or base.unsaid
        or (name == decision.handler and _is_different_driver(default, base))
    }
    if not unsure:
        return dict(bases)
    known = (
        cgroup_driver.get_known_cgroup_driver(kubelet, instance) if policy.root == "/" else UNKNOWN
    )
    return {
        name: _settle_base_driver(base, known, default if name == decision.handler else UNKNOWN)
        if name in unsure
        else base
        for name, base in bases.items()
    }


def _settle_base_driver(base: Base, kubelet: InUse, default: InUse) -> Base:
    return (
        dc.replace(base.settle_driver(kubelet), by_kubelet=True)
        if kubelet.driver
        else base.settle_driver(default)
    )


def remove_own_handlers_from_table(
    cri: Mapping[str, Any], written: frozenset[str], reset_to: str
) -> Mapping[str, Any]:
    """Return the CRI table without our handlers that stand in the file itself, and with the default
    from before them.
    """
    table = dict(cri.get("containerd") or {})
    table["runtimes"] = {
        name: entry for name, entry in (table.get("runtimes") or {}).items() if name not in written
    }
    if table.get("default_runtime_name") in written:
        table["default_runtime_name"] = reset_to or "runc"
    return {**cri, "containerd": table}


def _get_default_driver(
    decision: Decision, cri: Mapping[str, Any], version: Version, base: Base | None
) -> InUse:
    """Return the driver of the default handler that our handler replaces, UNKNOWN if that does not
    count.

    1.x reports nothing to the kubelet, so return only systemd there, to avoid a fall to cgroupfs.
    A handler of our name that sets systemd is not lowered: then the default stays, or the kubelet
    knows better.
    """
    now = str(toml.look_up_toml(cri, releases.DEFAULT) or "runc")
    said = base is not None and base.origin == decision.handler and base.systemd and not base.unsaid
    # without options it sets no driver, and containerd reports that of another handler
    stays = now == decision.handler
    if (
        not decision.handler
        or said
        or not (decision.default or stays)
        or (stays and not (version.series >= ASKED_SINCE and reports_systemd(cri)))
    ):
        return UNKNOWN
    if version.series >= ASKED_SINCE:
        driver: cgroup_driver.Driver = "systemd" if reports_systemd(cri) else "cgroupfs"
        return InUse(driver, about_handlers.DRIVER_STILL_REPORTED.fill(driver=driver, handler=now))
    return (
        InUse("systemd", about_handlers.DRIVER_OF_REPLACED.fill(handler=now))
        if _uses_systemd_cgroup(cri, now)
        else UNKNOWN
    )


def _is_different_driver(default: InUse, base: Base) -> bool:
    return bool(default.driver) and (default.driver == "systemd") is not base.systemd


def reports_systemd(cri: Mapping[str, Any]) -> bool:
    """Tell whether containerd reports to the kubelet that it works with systemd."""
    runtimes = toml.look_up_toml(cri, releases.RUNTIMES, {})
    default = toml.look_up_toml(cri, releases.DEFAULT)
    for name in sorted(runtimes, key=lambda name: (name != default, name)):
        entry = runtimes[name]
        # A table of options with nothing in it does not survive containerd's own decoding (go-toml
        # writes no empty map).
        if entry.get("runtime_type") == releases.RUNC_TYPE and entry.get("options"):
            return bool(entry["options"].get("SystemdCgroup", False))
    # containerd then looks whether systemd runs, and this collection works only with systemd
    return True


def _uses_systemd_cgroup(cri: Mapping[str, Any], name: str) -> bool:
    entry = toml.look_up_toml(cri, (*releases.RUNTIMES, name), {})
    return containerd_base.fits_runc_entry(entry) and bool(
        containerd_base.read_entry_options(cri, entry).get("SystemdCgroup", False)
    )


def require_kept(
    policy: Policy,
    where: str,
    cri: Mapping[str, Any],
    after: Mapping[str, Any],
    version: Version,
    bases: Mapping[str, Base],
) -> None:
    """Refuse a new default that changes the driver that the kubelet learns, or (1.x) that drops the
    systemd of the previous default.

    A default handler that stays and sets no driver gets one as any other: that of the kubelet, else
    that of the next handler that sets one.
    """
    if any("SystemdCgroup" in handler.options for handler in policy.handlers):
        return  # the user has set it
    old, new = (str(toml.look_up_toml(table, releases.DEFAULT) or "runc") for table in (cri, after))
    asked = version.series >= ASKED_SINCE
    before, then = (
        (reports_systemd(cri), reports_systemd(after))
        if asked
        else (_uses_systemd_cgroup(cri, old), _uses_systemd_cgroup(after, new))
    )
    # then neither a change to systemd nor one to the kubelet's own driver moves a pod
    free = old == new or not asked
    if before is then or (
        free
        and (
            then
            or any(base.by_kubelet for name, base in bases.items() if old == new or name == new)
        )
    ):
        return
    names = {True: "systemd", False: "cgroupfs"}
    step = _suggest_cgroup_step(cri, [old, new] if asked else [], before, new)
    if new == old:
        row = (
            about_handlers.HANDLERS_CHANGE_DRIVER if asked else about_handlers.HANDLERS_DROP_DRIVER
        )
        raise PlanError(row.fill(then=names[then], before=names[before], step=step), where=where)
    row = about_handlers.DEFAULT_CHANGES_DRIVER if asked else about_handlers.DEFAULT_DROPS_DRIVER
    raise PlanError(
        row.fill(new=new, old=old, then=names[then], before=names[before], step=step), where=where
    )


def _suggest_cgroup_step(
    cri: Mapping[str, Any], reporting: list[str], before: bool, new: str
) -> Message:
    """Return the next step. If the handler has that value already, its type is the obstacle, since
    containerd reports nothing of it.

    reporting: the handlers whose driver should reach the kubelet.
    """
    said = toml.look_up_toml(cri, (*releases.RUNTIMES, new, "options", "SystemdCgroup"))
    for name in reporting if said is before else ():
        if (
            toml.look_up_toml(cri, (*releases.RUNTIMES, name, "runtime_type"), "")
            != releases.RUNC_TYPE
        ):
            return about_handlers.SET_TYPE.fill(type=releases.RUNC_TYPE, handler=name)
    return about_handlers.SET_DRIVER.fill(value=str(before).lower(), handler=new)
