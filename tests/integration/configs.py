# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configurations as the world writes them. Their settings are drawn from what engines know, their
form from what TOML allows.

A configuration is a tree of tables; a style turns it into text. So the same settings come with
headers, dotted keys or inline tables, with either quotes, indented by tabs or not at all, with
comments everywhere, with Windows' line ends, a byte order mark, a megabyte of it.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Iterator, Mapping
from typing import Any

from hypothesis import strategies as st

V2, V3, IMAGES = (
    "io.containerd.grpc.v1.cri",
    "io.containerd.cri.v1.runtime",
    "io.containerd.cri.v1.images",
)
RUNC = "io.containerd.runc.v2"
BARE = re.compile(r"[A-Za-z0-9_-]+")
COMMENTS = (
    "# by hand, do not touch",
    "#",
    "#[plugins]",
    '# root = "/srv"',
    "# größer",
    "#\ttab",
    "# ] } \" ' \\",
    "## [grpc] ##",
)
MEGABYTE = 1_000_000

Table = Mapping[str, Any]


@dc.dataclass(frozen=True)
class Style:
    """A style in which a tree is written."""

    end: str
    mark: bool
    indent: str
    quote: str
    comments: bool
    blank: bool
    inline: bool  # leaf tables in one line
    dotted: bool  # tables of one key as dotted keys
    last_end: bool
    size: int  # at least so many bytes, by comments
    seed: int


styles = st.builds(
    Style,
    end=st.sampled_from(["\n", "\n", "\n", "\r\n"]),
    mark=st.sampled_from([False, False, False, True]),
    indent=st.sampled_from(["", "  ", "\t"]),
    quote=st.sampled_from(['"', "'"]),
    comments=st.booleans(),
    blank=st.booleans(),
    inline=st.booleans(),
    dotted=st.booleans(),
    last_end=st.sampled_from([True, True, False]),
    size=st.sampled_from([0] * 30 + [MEGABYTE]),
    seed=st.integers(0, 999),
)


class Writer:
    """A writer of one configuration in one style."""

    def __init__(self, style: Style) -> None:
        self.style, self.drawn = style, style.seed

    def text(self, tree: Table) -> str:
        lines = list(self._table(tree, (), 0))
        size = sum(len(line) + 1 for line in lines)
        if size < self.style.size:
            lines += [
                f"# {number:06d} {'.' * 90}" for number in range((self.style.size - size) // 100)
            ]
        text = self.style.end.join(lines) + (self.style.end if self.style.last_end else "")
        return ("\ufeff" if self.style.mark else "") + text

    def _chance(self, of: int) -> int:
        """Return a pseudo-random number below `of`, which is the same for the same style."""
        self.drawn = (self.drawn * 1103515245 + 12345) % 2**31
        return self.drawn // 65536 % of

    def _table(self, tree: Table, path: tuple[str, ...], depth: int) -> Iterator[str]:
        pad = self.style.indent * depth
        for key, value in tree.items():
            if not isinstance(value, Mapping):
                yield from self._remark(pad)
                yield f"{pad}{self._name(key)} = {self._value(value)}{self._tail()}"
            elif self._fits_one_line(value):
                yield f"{pad}{self._name(key)} = {self._value(value)}{self._tail()}"
            elif self.style.dotted and path and self._leaf(value):
                yield from (
                    f"{pad}{self._name(key)}.{self._name(k)} = {self._value(v)}{self._tail()}"
                    for k, v in value.items()
                )
        for key, value in tree.items():
            if (
                isinstance(value, Mapping)
                and not self._fits_one_line(value)
                and not (self.style.dotted and path and self._leaf(value))
            ):
                inner = (*path, key)
                if self.style.blank:
                    yield ""
                yield from self._remark(pad)
                if (
                    not value
                    or any(
                        not isinstance(v, Mapping) or self._fits_one_line(v) for v in value.values()
                    )
                    or self._chance(2)
                ):
                    yield f"{pad}[{'.'.join(self._name(name) for name in inner)}]{self._tail()}"
                elif self.style.dotted:  # its tables' keys would stand in the wrong table
                    yield f"{pad}[{'.'.join(self._name(name) for name in inner)}]"
                yield from self._table(value, inner, depth + 1)

    def _leaf(self, value: Table) -> bool:
        return bool(value) and not any(isinstance(v, Mapping) for v in value.values())

    def _fits_one_line(self, value: Any) -> bool:
        return self.style.inline and isinstance(value, Mapping) and self._leaf(value)

    def _remark(self, pad: str) -> Iterator[str]:
        if self.style.comments and not self._chance(3):
            yield pad + COMMENTS[self._chance(len(COMMENTS))]

    def _tail(self) -> str:
        return (
            "  " + COMMENTS[self._chance(len(COMMENTS))]
            if self.style.comments and not self._chance(4)
            else ""
        )

    def _name(self, name: str) -> str:
        return name if BARE.fullmatch(name) else f"{self.style.quote}{name}{self.style.quote}"

    def _value(self, value: Any) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str):
            return f"{self.style.quote}{value}{self.style.quote}"
        if isinstance(value, Mapping):
            return (
                "{ "
                + ", ".join(f"{self._name(k)} = {self._value(v)}" for k, v in value.items())
                + " }"
                if value
                else "{}"
            )
        if isinstance(value, list):
            return (
                "["
                + ", ".join(self._value(item) for item in value)
                + (", ]" if value and self._chance(3) == 0 else "]")
            )
        return str(value)


def written(tree: Table, style: Style) -> str:
    return Writer(style).text(tree)


def _some(**keys: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=keys)


def _named(
    names: Mapping[str, str], tables: st.SearchStrategy[dict[str, Any]]
) -> st.SearchStrategy[dict[str, Any]]:
    return tables.map(lambda found: {names.get(key, key): value for key, value in found.items()})


OPTIONS = _some(
    SystemdCgroup=st.booleans(),
    BinaryName=st.just("/usr/sbin/runc"),
    Root=st.just("/run/containerd/runc"),
)


def _runtime(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"runtime_type": st.just(kind)},
        optional={
            "options": OPTIONS if kind == RUNC else st.just({}),
            "pod_annotations": st.just(["example.com/*"]),
            "privileged_without_host_devices": st.booleans(),
        },
    )


def _containerd(newer: bool) -> st.SearchStrategy[dict[str, Any]]:
    runtimes = st.fixed_dictionaries(
        {"runc": _runtime(RUNC)},
        optional={"kata": _runtime("io.containerd.kata.v2"), "crun": _runtime(RUNC)},
    )
    more = (
        {}
        if newer
        else {"snapshotter": st.just("overlayfs"), "discard_unpacked_layers": st.booleans()}
    )
    return _some(default_runtime_name=st.just("runc"), runtimes=runtimes, **more)


def containerd(release: str) -> st.SearchStrategy[dict[str, Any]]:
    """Return settings that this release knows, in a version that it reads."""
    newer = release.startswith("2.")
    opt = _some(path=st.just("/opt/containerd"))
    top = {
        "oom_score": st.integers(-1000, 1000),
        "root": st.just("/var/lib/containerd"),
        "grpc": _some(
            address=st.just("/run/containerd/containerd.sock"),
            uid=st.just(0),
            max_recv_message_size=st.integers(1, 1 << 24),
        ),
        "debug": _some(level=st.sampled_from(["info", "warn"])),
        "timeouts": _named({"load": "io.containerd.timeout.task.state"}, _some(load=st.just("2s"))),
        "disabled_plugins": st.just(["io.containerd.snapshotter.v1.zfs"]),
    }
    old_cri = _some(
        enable_selinux=st.booleans(),
        stream_server_port=st.just("10010"),
        max_container_log_line_size=st.integers(1024, 65536),
        tolerate_missing_hugetlb_controller=st.booleans(),
        cni=_some(conf_dir=st.just("/etc/cni/net.d"), max_conf_num=st.integers(0, 3)),
        registry=_some(config_path=st.just("/etc/containerd/certs.d")),
        containerd=_containerd(newer=newer),
    )
    new_cri = _some(
        enable_selinux=st.booleans(),
        max_container_log_line_size=st.integers(1024, 65536),
        cni=_some(conf_dir=st.just("/etc/cni/net.d"), max_conf_num=st.integers(0, 3)),
        containerd=_containerd(newer=True),
    )

    def schema(version: int) -> st.SearchStrategy[dict[str, Any]]:
        names = {"cri": V2 if version == 2 else V3, "opt": "io.containerd.internal.v1.opt"}
        plugins = _named(names, _some(cri=old_cri if version == 2 else new_cri, opt=opt))
        return st.fixed_dictionaries(
            {"version": st.just(version)}, optional={**top, "plugins": plugins}
        )

    return st.one_of(schema(2), schema(3)) if newer else schema(2)


def crio() -> st.SearchStrategy[dict[str, dict[str, Any]]]:
    """Return the main file and drop-ins of CRI-O, by name."""
    handler = st.fixed_dictionaries(
        {
            "runtime_path": st.just("/usr/libexec/crio/crun"),
            "monitor_path": st.just("/usr/libexec/crio/conmon"),
        },
        optional={
            "runtime_root": st.just("/run/crun"),
            "allowed_annotations": st.just(["io.containers.trace-syscall"]),
            "monitor_cgroup": st.just("pod"),
            "privileged_without_host_devices": st.booleans(),
        },
    )
    runtime = _some(
        log_level=st.sampled_from(["info", "warn", "debug"]),
        pids_limit=st.integers(1, 9999),
        conmon_cgroup=st.just("pod"),
        hooks_dir=st.just(["/usr/share/containers/oci/hooks.d"]),
        default_sysctls=st.just(["net.ipv4.ping_group_range=0 0"]),
        runtimes=st.fixed_dictionaries({"crun": handler}),
    )
    whole = st.fixed_dictionaries(
        {
            "crio": _some(
                runtime=runtime, image=_some(pause_image=st.just("registry.example/pause:3"))
            )
        }
    )
    return st.fixed_dictionaries(
        {"crio.conf": whole},
        optional={"crio.conf.d/10-crio.conf": whole, "crio.conf.d/50 site": whole},
    )
