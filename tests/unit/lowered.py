# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges what is less afterwards, by a rule of its own over two CRI tables, and draws
configurations with differing handlers.

containerd prints the tables (`config dump`), or its files add up to them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Difference
from hypothesis import strategies as st

RUNC, V1, LINUX = "io.containerd.runc.v2", "io.containerd.runc.v1", "io.containerd.runtime.v1.linux"
NVIDIA = "/usr/bin/nvidia-container-runtime"
LISTS = ("container_annotations", "pod_annotations")
# Which program runs and by which shim is what our handler is about; a sandboxer that is not named
# is podsandbox.
ABOUT = (
    "runtime_type",
    "options.BinaryName",
    "sandboxer",
    "sandbox_mode",
    "options.Runtime",
    "options.Shim",
)
OTHERS = ("runsc", "kata-runtime", "sysbox-runc", "crun-wasm")

Table = Mapping[str, Any]


def fits(entry: Table) -> bool:
    """Tell whether a handler is one of runc's, so another one of runc's can take its place."""
    program = posixpath.basename(str((entry.get("options") or {}).get("BinaryName") or ""))
    plain = entry.get("runtime_type", "") in ("", RUNC, V1, LINUX) and entry.get(
        "sandboxer", ""
    ) in ("", "podsandbox")
    return plain and not entry.get("runtime_path") and program not in OTHERS


def values(entry: Table, *, plugin_systemd: bool = False) -> dict[str, Any]:
    """Return what a handler contains that is not empty, with lists item by item, in the words of
    runc.v2.
    """
    flat = {k: v for k, v in entry.items() if k != "options"} | {
        f"options.{k}": v for k, v in (entry.get("options") or {}).items()
    }
    if entry.get("runtime_type") == LINUX:
        flat["options.Root"] = flat.pop("options.RuntimeRoot", "")
        flat["options.SystemdCgroup"] = plugin_systemd
    found = {k: v for k, v in flat.items() if v and k not in ABOUT and k not in LISTS}
    return found | {f"{k} {item}": True for k in LISTS for item in flat.get(k) or ()}


def less(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return [
        f"{name}: {k} was {v!r} and is {after.get(k)!r}"
        for k, v in before.items()
        if after.get(k) != v
    ]


def losses(
    before: Table, after: Table, ours: Iterable[str] = ("nvidia",), *, told: bool = False
) -> list[str]:
    """List all that is less afterwards.

    told: whether this containerd tells the kubelet its default handler's cgroup driver.
    """
    was, now = before["containerd"].get("runtimes") or {}, after["containerd"].get("runtimes") or {}
    systemd = bool(before.get("systemd_cgroup"))
    found = []
    for name, entry in was.items():
        if name not in now:
            found.append(f"{name}: is gone")
        elif name in ours:
            found += less(name, values(entry, plugin_systemd=systemd), values(now[name]))
        else:
            found += less(name, values(entry), values(now[name]))
            found += (
                []
                if _same(entry, now[name])
                else [f"{name}: was {dict(entry)} and is {dict(now[name])}"]
            )
    return [*found, *_default(was, now, before, after, told, systemd)]


def _default(
    was: Table, now: Table, before: Table, after: Table, told: bool, systemd: bool
) -> list[str]:
    old, new = (
        str(table["containerd"].get("default_runtime_name") or "runc") for table in (before, after)
    )
    then, first = was.get(old) or {"options": {}}, now.get(new) or {"options": {}}
    if told:
        said = [
            tells(table["containerd"].get("runtimes") or {}, name)
            for table, name in ((before, old), (after, new))
        ]
        # one that stays and did not say it may get systemd
        kept = said[0] is said[1] or (old == new and said[1])
        return [] if kept else [f"the kubelet is told {said[1]} instead of {said[0]}"]
    if not fits(then):
        return []
    kept = values(then, plugin_systemd=systemd)
    # A handler that was there has its own properties; of one that is made for this place none of
    # the old default's may be missing.
    count = (
        kept if new not in was else {k: v for k, v in kept.items() if k == "options.SystemdCgroup"}
    )
    return less(f"{new}, the default instead of {old}", count, values(first))


def tells(runtimes: Table, default: str) -> bool:
    """Tell whether RuntimeConfig of containerd 2.0 to 2.4 reports systemd, as its source has it.

    A table of options with nothing in it counts as none.
    """
    names = sorted(runtimes, key=lambda name: (name != default, name))
    options = (runtimes[n].get("options") for n in names if runtimes[n].get("runtime_type") == RUNC)
    return next((bool(o.get("SystemdCgroup")) for o in options if o), True)


def _same(entry: Table, other: Table) -> bool:
    """Tell whether two handlers have one type and one program.

    An empty type counts as that of runc, which 1.x does not fill in.
    """
    kinds = {str(e.get("runtime_type") or RUNC) for e in (entry, other)}
    return len(kinds) == 1 and _program(entry) == _program(other)


def _program(entry: Table) -> str:
    return str((entry.get("options") or {}).get("BinaryName") or "")


def worse(differences: Iterable[Difference]) -> list[str]:
    """List the entries of a plan by which something that was set is taken away."""
    about = ("BinaryName", "runtime_type", "default_runtime_name", "imports", "")
    counted = [d for d in differences if d.key.rpartition(".")[2] not in about and d.before]
    return [
        f"{d.key}: {d.before!r} to {d.after!r}" for d in counted if not _covers(d.before, d.after)
    ]


def _covers(before: Any, after: Any) -> bool:
    return set(before) <= set(after or ()) if isinstance(before, list) else bool(after == before)


# ---------------------------------------------------------------- configurations


def _entry(kinds: tuple[str, ...], programs: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    options = {
        "SystemdCgroup": st.booleans(), "Root": st.just("/run/own"), "NoPivotRoot": st.booleans(),
        "BinaryName": st.sampled_from(programs), "ShimCgroup": st.just("/own"),
    }  # fmt: skip
    more = {
        "base_runtime_spec": st.just("/etc/containerd/base.json"), "privileged_without_host_devices": st.booleans(),
        "pod_annotations": st.just(["a.b/*"]), "container_annotations": st.just(["c.d/*"]), "snapshotter": st.just("overlayfs"),
        "options": st.fixed_dictionaries({}, optional=options),
    }  # fmt: skip
    return st.fixed_dictionaries({"runtime_type": st.sampled_from(kinds)}, optional=more)


def configurations(release: str) -> st.SearchStrategy[dict[str, Any]]:
    """Return CRI tables with a default of every kind, and a handler of our name in most."""
    kinds = (RUNC,) if release.startswith("2.") else (RUNC, RUNC, V1)
    kata = st.fixed_dictionaries(
        {"runtime_type": st.just("io.containerd.kata.v2")},
        optional={"snapshotter": st.just("nydus")},
    )
    handlers = {
        "nvidia": _entry(kinds, (NVIDIA, "/usr/local/nvidia/toolkit/nvidia-container-runtime")),
        "runc": _entry(kinds, ("runc", "/opt/runc")),
        "crun": _entry(kinds, ("/usr/bin/crun",)), "shimpei": _entry(kinds, ("shimpei",)), "gvisor": _entry(kinds, ("/usr/bin/runsc",)),
        "gpu": _entry(kinds, (NVIDIA,)), "kata": kata,
    }  # fmt: skip

    def named(runtimes: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
        table: dict[str, Any] = {"runtimes": runtimes} if runtimes else {}
        names = st.sampled_from([*runtimes, *([] if runtimes else ["runc"])])
        return names.map(lambda name: {"containerd": {**table, "default_runtime_name": name}})

    return st.fixed_dictionaries({}, optional=handlers).flatmap(named)
