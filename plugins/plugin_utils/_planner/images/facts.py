# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe what one host offers to images: its driver, its GPUs, its CPU.

None, () and '' stand for what is not known, which satisfies nothing.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.images import (
    chips,
    cpu,
    cuda,
    dotted,
    messages,
    nvidia_require,
    requires,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.message_types import Message

LEGACY = ("legacy", "oci-hook")  # the ways in which nvidia-container-cli starts a container, and judges NVIDIA_REQUIRE_* before


@dc.dataclass(frozen=True)
class Gpu:
    """A GPU of a host. name: the name by which a person finds it. memory: MiB. mig: whether containers get parts of it."""

    name: str
    model: str = ""
    capability: dotted.Numbers | None = None
    memory: int | None = None
    mig: bool | None = None
    brands: tuple[str, ...] = ()
    forward: bool | None = None

    def __str__(self) -> str:
        return f"GPU {self.name} ({self.model})" if self.model else f"GPU {self.name}"


@dc.dataclass(frozen=True)
class Engine:
    """A container engine of a host. injection: as decided for this engine, '' if it is not known."""

    name: str
    injection: str = ""


@dc.dataclass(frozen=True)
class Host:
    driver: str = ""
    cuda: dotted.Numbers | None = None
    gpus: tuple[Gpu, ...] = ()
    cpu: cpu.Cpu = cpu.Cpu()
    glibc: dotted.Numbers | None = None
    engines: tuple[Engine, ...] = ()

    @property
    def release(self) -> dotted.Numbers | None:
        return dotted.parse(self.driver)

    def subjects(self, gpus: Sequence[Gpu]) -> list[nvidia_require.Subject]:
        """List what the legacy runtime compares an image's NVIDIA_REQUIRE_* with, for each GPU that a container sees."""
        brings = dotted.written(self.cuda) if self.cuda else ""
        own = [nvidia_require.Subject(brings, self.driver, dotted.written(g.capability) if g.capability else "", g.brands) for g in gpus]
        return own or [nvidia_require.Subject(brings, self.driver)]


def given(host: Host) -> dict[str, Any]:
    """Return the facts in the form in which a user gives them."""
    named = [
        {
            "name": gpu.name,
            "model": gpu.model,
            "compute_capability": dotted.written(gpu.capability) if gpu.capability else None,
            "memory": gpu.memory,
            "mig": gpu.mig,
            "brand": gpu.brands[0] if len(gpu.brands) == 1 else None,
            "forward_compat": gpu.forward,
        }
        for gpu in host.gpus
    ]
    processor = host.cpu
    return {
        "driver": host.driver or None,
        "cuda": dotted.written(host.cuda) if host.cuda else None,
        "gpus": named,
        "cpu": {
            "arch": processor.architecture or None,
            "level": processor.level or None,
            **({"flags": sorted(processor.flags)} if processor.flags is not None else {}),
            **({"march": sorted(processor.names)} if processor.names is not None else {}),
        },
        "glibc": dotted.written(host.glibc) if host.glibc else None,
        "engines": [{"engine": engine.name, "injection": engine.injection} for engine in host.engines],
    }


TOP = frozenset({"driver", "cuda", "gpus", "cpu", "glibc", "engines"})
OF_GPU = frozenset({"name", "uuid", "bus_id", "model", "device", "compute_capability", "memory", "mig", "brand", "forward_compat"})
OF_CPU = frozenset({"arch", "vendor", "level", "flags", "march"})
OF_ENGINE = frozenset({"engine", "injection"})


def parsed(given: Any, targets: cpu.Targets) -> Host:
    """Parse facts that a user gives. Raise PlanError for the first one that is wrong."""
    table = _table(given, "facts", TOP)
    driver = _text(table, "driver", "facts")
    release = _version(table, "driver", "facts")
    brings = _version(table, "cuda", "facts") or (cuda.of_driver(release) if release else None)
    gpus = tuple(_gpu(value, n) for n, value in enumerate(_list(table, "gpus", "facts")))
    engines = tuple(_engine(value, n) for n, value in enumerate(_list(table, "engines", "facts")))
    return Host(driver, brings, gpus, _cpu(table.get("cpu") or {}, targets), _version(table, "glibc", "facts"), engines)


def _gpu(value: Any, number: int) -> Gpu:
    where = f"facts.gpus[{number}]"
    table = _table(value, where, OF_GPU)
    model, device = _text(table, "model", where), _text(table, "device", where)
    if device and not is_device(device):
        raise refused(where, messages.FACT_NOT_DEVICE.fill(value=repr(device)))
    capability = _version(table, "compute_capability", where) or (chips.compute_capability(int(device, 16)) if device else None)
    name = next((found for key in ("name", "uuid", "bus_id") if (found := _text(table, key, where))), str(number))
    brand = _text(table, "brand", where)
    forward = _bool(table, "forward_compat", where)
    return Gpu(
        name,
        model,
        capability,
        _memory(table, where) if table.get("memory") is not None else chips.memory(model),
        _bool(table, "mig", where),
        (brand,) if brand else chips.brands(model),
        chips.serves_forward(model) if forward is None else forward,
    )


def _cpu(value: Any, targets: cpu.Targets) -> cpu.Cpu:
    where = "facts.cpu"
    table = _table(value, where, OF_CPU)
    architecture, level = _text(table, "arch", where), _text(table, "level", where)
    if level and level not in cpu.LEVELS:
        raise refused(where, messages.FACT_NOT_LEVEL.fill(value=repr(level), known=", ".join(cpu.LEVELS)))
    flags = frozenset(map(str, _list(table, "flags", where))) if "flags" in table else None
    names = frozenset(map(str, _list(table, "march", where))) if "march" in table else None
    return cpu.of(architecture, _text(table, "vendor", where), flags, level, names, targets)


def _engine(value: Any, number: int) -> Engine:
    where = f"facts.engines[{number}]"
    table = _table(value, where, OF_ENGINE)
    return Engine(_text(table, "engine", where), _text(table, "injection", where))


def _memory(table: Mapping[str, Any], where: str) -> int:
    value = table["memory"]
    found = value if isinstance(value, int) and not isinstance(value, bool) else requires.mebibytes(str(value))
    if found is None or found < 0:
        raise refused(where, messages.FACT_NOT_SIZE.fill(value=repr(value)))
    return found


def is_device(text: str) -> bool:
    """Tell whether the text is a PCI device id, as sysfs writes one."""
    digits = text.lower().removeprefix("0x")
    return 0 < len(digits) <= 4 and not set(digits) - set("0123456789abcdef")


def _table(value: Any, where: str, known: frozenset[str]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise refused(where, messages.FACTS_NOT_DICTIONARY.fill())
    unknown = sorted(str(key) for key in value if key not in known)
    if unknown:
        raise refused(where, messages.UNKNOWN_FACT.fill(name=unknown[0], known=", ".join(sorted(known))))
    return value


def _list(table: Mapping[str, Any], key: str, where: str) -> list[Any]:
    value = table.get(key, [])
    if not isinstance(value, list):
        raise refused(where, messages.FACT_NOT_LIST.fill(name=key))
    return value


def _text(table: Mapping[str, Any], key: str, where: str) -> str:
    value = table.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise refused(where, messages.FACT_NOT_TEXT.fill(name=key, value=repr(value)))
    return value


def _version(table: Mapping[str, Any], key: str, where: str) -> dotted.Numbers | None:
    text = _text(table, key, where)
    found = dotted.parse(text)
    if text and found is None:
        raise refused(where, messages.FACT_NOT_VERSION.fill(name=key, value=repr(text)))
    return found


def _bool(table: Mapping[str, Any], key: str, where: str) -> bool | None:
    value = table.get(key)
    if value is not None and not isinstance(value, bool):
        raise refused(where, messages.FACT_NOT_BOOLEAN.fill(name=key, value=repr(value)))
    return value


def refused(where: str, what: Message) -> PlanError:
    return PlanError(what, where=where)
