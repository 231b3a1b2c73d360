# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the handler that ours is copied from, so that its pods run as the other pods of the node
do.

They then have the same cgroup driver, root and base spec.

A handler that differs from the kubelet in SystemdCgroup breaks every pod that uses it
(nvidia-container-toolkit issue 28, k3s issue 8470). Node images declare the right value in their
default handler, which often is not `runc`: EKS and AKS name it nvidia, Bottlerocket shimpei.
"""

from __future__ import annotations

import dataclasses as dc
import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Handler
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    containerd_places,
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import low_level
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    messages as engine_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.messages import (
    about_handlers,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet.cgroup_driver import (
    InUse,
)

# containerd decodes the options of these types alike; the first release of runc.v2 replaced the two
# older ones.
RUNC_TYPES = ("", "io.containerd.runc.v1", releases.RUNC_TYPE, releases.LINUX_TYPE)
BUILTIN = "the built-in runc"
# Other names that the old linux type has (runtime/linux/runctypes/runc.proto): in its options and,
# if it has none, beside them.
_LINUX_OPTIONS = {
    "Runtime": "BinaryName",
    "RuntimeRoot": "Root",
    "SystemdCgroup": "SystemdCgroup",
    "CriuPath": "CriuPath",
}
_LINUX_KEYS = {"runtime_engine": "BinaryName", "runtime_root": "Root"}


@dc.dataclass(frozen=True)
class Base:
    """The properties that a handler is made with, and their origin.

    cgroup_why: the origin of SystemdCgroup. doubt: handlers that disagree, '' if none does.
    unsaid: whether the handler that is copied does not set its cgroup driver. by_kubelet: whether
    the kubelet reported it.
    """

    origin: str
    entry: Mapping[str, Any]
    options: Mapping[str, Any]
    cgroup_why: Message
    doubt: str = ""
    unsaid: bool = False
    by_kubelet: bool = False
    runc_declared: bool = True

    @property
    def systemd(self) -> bool:
        return bool(self.options["SystemdCgroup"])

    def settle_driver(self, known: InUse) -> Base:
        """Return a copy with the cgroup driver that a better source than a handler reports, the
        base itself if none is known.
        """
        if not known.driver:
            return self
        reason = (
            about_handlers.DRIVER_IN_SPITE_OF_DOUBT.fill(reason=known.why, doubt=self.doubt)
            if self.doubt
            else known.why
        )
        options = {**self.options, "SystemdCgroup": known.driver == "systemd"}
        return dc.replace(self, options=options, cgroup_why=reason, doubt="", unsaid=False)

    @property
    def program(self) -> str:
        return str(self.options.get("BinaryName", ""))

    @property
    def foreign(self) -> bool:
        """True if it runs a program that the NVIDIA runtime cannot hand over to: a shim of the
        node's own system.
        """
        return low_level.is_foreign_runtime(self.program)


def choose_containerd_base(
    cri: Mapping[str, Any],
    handler: Handler,
    *,
    written: bool = False,
    default_before: str = "",
    made: frozenset[str] = frozenset(),
) -> Base:
    """Choose the first handler that fits: of the same name, the default one, runc, crun, the
    built-in one.

    cri: the CRI table as the files give it; built-in values tell nothing about the node.
    written: the handler of the same name is our own work, so it shows nothing about the node.
    default_before: the default handler from before our first change, for hosts whose default is
    NVIDIA's now.
    made: handlers that are our own work under other names, which show as little.
    Raise PlanError if the handler of the same name is another owner's, or if a property to copy was
    not sent from the host.
    """
    _require_fitting(cri, handler)
    candidates = [
        (name, entry)
        for name, entry in _list_base_candidates(cri, handler.name, written, default_before, made)
        if fits_runc_entry(entry)
    ]
    origin, entry = candidates[0]
    _require_sent(origin, entry)
    says = {
        name: bool(o["SystemdCgroup"])
        for name, e in candidates
        if "SystemdCgroup" in (o := read_entry_options(cri, e))
    }
    first, systemd = next(iter(says.items()))  # the built-in one sets it
    as_it, as_other = about_handlers.DRIVER_AS_HANDLER, about_handlers.DRIVER_AS_OTHER_HANDLER
    why = (
        as_it.fill(handler=first)
        if first == origin
        else as_other.fill(handler=first, copied=origin)
    )
    others = [name for name, other in says.items() if other is not systemd and name != BUILTIN]
    differ = about_handlers.DRIVERS_DIFFER.fill(
        handler=first, value=str(systemd).lower(), others=", ".join(others)
    )
    doubt = differ if others else ""
    unsaid = first != origin or origin == BUILTIN
    declared = toml.look_up_toml(cri, ("containerd", "runtimes", "runc")) is not None
    return Base(
        origin,
        entry,
        {**read_entry_options(cri, entry), "SystemdCgroup": systemd},
        why,
        doubt,
        unsaid,
        runc_declared=declared,
    )


def _list_base_candidates(
    cri: Mapping[str, Any], name: str, written: bool, default_before: str, made: frozenset[str]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    runtimes = toml.look_up_toml(cri, ("containerd", "runtimes"), {})
    default = str(toml.look_up_toml(cri, ("containerd", "default_runtime_name"), ""))
    names = [
        *([] if written else [name]),
        default_before if written and default == name else default,
        "runc",
        "crun",
    ]
    for candidate in dict.fromkeys(names):
        entry = runtimes.get(candidate)
        if (
            isinstance(entry, Mapping)
            and candidate not in made
            and not (written and candidate == name)
        ):
            yield candidate, entry
    yield BUILTIN, releases.BUILTIN_RUNC


def find_containerd_base_program(
    cri: Mapping[str, Any],
    handler: Handler,
    *,
    written: bool = False,
    default_before: str = "",
    made: frozenset[str] = frozenset(),
) -> str:
    """Return the first low-level program, in the same order of handlers, that the NVIDIA runtime
    can hand over to, '' if there is none.

    The shim runs runc for a handler that names no program.
    """
    entries = (
        entry
        for _name, entry in _list_base_candidates(cri, handler.name, written, default_before, made)
        if fits_runc_entry(entry)
    )
    return low_level.get_first_low_level(
        str(read_entry_options(cri, entry).get("BinaryName") or "runc") for entry in entries
    )


def fits_runc_entry(entry: Mapping[str, Any]) -> bool:
    """Tell whether the properties of this handler would mean the same to runc."""
    program = posixpath.basename(str(read_entry_options({}, entry).get("BinaryName", "")))
    return (
        entry.get("runtime_type", "") in RUNC_TYPES
        and not entry.get("runtime_path")
        and entry.get("sandboxer", "") in ("", "podsandbox")
        and program not in low_level.SANDBOXED
    )


def read_entry_options(cri: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a handler under the names that runc.v2 has for them."""
    said = {
        k: v
        for k, v in (entry.get("options") or {}).items()
        if v != "" and ("options", k) in containerd_places.HANDLER
    }
    if entry.get("runtime_type") != releases.LINUX_TYPE:
        return said
    if entry.get("options") is not None:
        return {
            "SystemdCgroup": False,
            **{_LINUX_OPTIONS[k]: v for k, v in said.items() if k in _LINUX_OPTIONS},
        }
    # Without options containerd makes them of the handler's own keys, and takes the cgroup driver
    # from the plugin (generateRuntimeOptions).
    own = {_LINUX_KEYS[k]: v for k, v in entry.items() if k in _LINUX_KEYS and v}
    return {**own, "SystemdCgroup": bool(cri.get("systemd_cgroup", False))}


def _require_sent(origin: str, entry: Mapping[str, Any]) -> None:
    """Raise PlanError if a property to copy is not known here: the host sends none whose form is
    unusual.
    """
    for path in containerd_places.HANDLER:
        if file_places.is_hidden_value(toml.look_up_toml(entry, path)):
            raise PlanError(
                engine_messages.HANDLER_VALUE_NOT_SENT.fill(handler=origin, key=".".join(path))
            )


def _require_fitting(cri: Mapping[str, Any], handler: Handler) -> None:
    """Raise PlanError if the handler of the same name is another owner's: of another kind, or with
    a program that is not NVIDIA's.

    A program that the policy has for the handler is accepted. Any is accepted if the user named
    one.
    """
    entry = toml.look_up_toml(cri, ("containerd", "runtimes", handler.name))
    if not isinstance(entry, Mapping):
        return
    if not fits_runc_entry(entry):
        kind = (
            entry.get("runtime_path")
            or entry.get("runtime_type")
            or toml.look_up_toml(entry, ("options", "BinaryName"))
        )
        raise PlanError(about_handlers.OTHER_KIND.fill(handler=handler.name, kind=kind))
    program = str(toml.look_up_toml(entry, ("options", "BinaryName"), ""))
    if low_level.is_foreign_runtime(program) and program != handler.binary and not handler.chosen:
        raise PlanError(
            engine_messages.HANDLER_OTHER_PROGRAM.fill(handler=handler.name, program=program)
        )
