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

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    chips,
    cpu,
    cuda,
    dotted,
    messages,
    nvidia_require,
    requires,
)

# the ways in which nvidia-container-cli starts a container, and judges NVIDIA_REQUIRE_* before
LEGACY = (
    "legacy",
    "oci-hook",
)


@dc.dataclass(frozen=True)
class ImageGpu:
    """A GPU of a host. name: the name by which a person finds it. memory: MiB. mig: whether
    containers get parts of it.
    """

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
class ImageEngine:
    """A container engine of a host. injection: as decided for this engine, '' if it is not known."""

    name: str
    injection: str = ""


@dc.dataclass(frozen=True)
class ImageHost:
    """A host's facts for images. An unknown fact is empty or None, and satisfies nothing."""

    driver: str = ""
    cuda: dotted.Numbers | None = None
    gpus: tuple[ImageGpu, ...] = ()
    cpu: cpu.Cpu = cpu.Cpu()
    glibc: dotted.Numbers | None = None
    engines: tuple[ImageEngine, ...] = ()

    @property
    def release(self) -> dotted.Numbers | None:
        return dotted.parse_dotted(self.driver)

    def list_subjects(self, gpus: Sequence[ImageGpu]) -> list[nvidia_require.Subject]:
        """List what the legacy runtime compares an image's NVIDIA_REQUIRE_* with, for each GPU that
        a container sees.
        """
        brings = dotted.write_dotted(self.cuda) if self.cuda else ""
        own = [
            nvidia_require.Subject(
                brings,
                self.driver,
                dotted.write_dotted(g.capability) if g.capability else "",
                g.brands,
            )
            for g in gpus
        ]
        return own or [nvidia_require.Subject(brings, self.driver)]


def give_host_facts(host: ImageHost) -> dict[str, Any]:
    """Return the facts in the form in which a user gives them."""
    named = [
        {
            "name": gpu.name,
            "model": gpu.model,
            "compute_capability": dotted.write_dotted(gpu.capability) if gpu.capability else None,
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
        "cuda": dotted.write_dotted(host.cuda) if host.cuda else None,
        "gpus": named,
        "cpu": {
            "arch": processor.architecture or None,
            "level": processor.level or None,
            **({"flags": sorted(processor.flags)} if processor.flags is not None else {}),
            **({"march": sorted(processor.names)} if processor.names is not None else {}),
        },
        "glibc": dotted.write_dotted(host.glibc) if host.glibc else None,
        "engines": [
            {"engine": engine.name, "injection": engine.injection} for engine in host.engines
        ],
    }


TOP = frozenset({"driver", "cuda", "gpus", "cpu", "glibc", "engines"})
OF_GPU = frozenset(
    {
        "name",
        "uuid",
        "bus_id",
        "model",
        "device",
        "compute_capability",
        "memory",
        "mig",
        "brand",
        "forward_compat",
    }
)
OF_CPU = frozenset({"arch", "vendor", "level", "flags", "march"})
OF_ENGINE = frozenset({"engine", "injection"})


def parse_host_facts(given: Any, targets: cpu.Targets) -> ImageHost:
    """Parse facts that a user gives. Raise PlanError for the first one that is wrong."""
    table = _require_facts_table(given, "facts", TOP)
    driver = _require_facts_text(table, "driver", "facts")
    release = _read_fact_version(table, "driver", "facts")
    brings = _read_fact_version(table, "cuda", "facts") or (
        cuda.get_cuda_of_driver(release) if release else None
    )
    gpus = tuple(
        _read_gpu(value, n) for n, value in enumerate(_require_facts_list(table, "gpus", "facts"))
    )
    engines = tuple(
        _read_engine(value, n)
        for n, value in enumerate(_require_facts_list(table, "engines", "facts"))
    )
    return ImageHost(
        driver,
        brings,
        gpus,
        _read_cpu(table.get("cpu") or {}, targets),
        _read_fact_version(table, "glibc", "facts"),
        engines,
    )


def _read_gpu(value: Any, number: int) -> ImageGpu:
    where = f"facts.gpus[{number}]"
    table = _require_facts_table(value, where, OF_GPU)
    model, device = (
        _require_facts_text(table, "model", where),
        _require_facts_text(table, "device", where),
    )
    if device and not is_device(device):
        raise build_refused_facts_error(where, messages.FACT_NOT_DEVICE.fill(value=repr(device)))
    capability = _read_fact_version(table, "compute_capability", where) or (
        chips.compute_capability(int(device, 16)) if device else None
    )
    name = next(
        (
            named
            for key in ("name", "uuid", "bus_id")
            if (named := _require_facts_text(table, key, where))
        ),
        str(number),
    )
    brand = _require_facts_text(table, "brand", where)
    forward = _read_bool(table, "forward_compat", where)
    return ImageGpu(
        name,
        model,
        capability,
        _read_memory(table, where)
        if table.get("memory") is not None
        else chips.get_model_memory(model),
        _read_bool(table, "mig", where),
        (brand,) if brand else chips.list_gpu_brands(model),
        chips.serves_forward(model) if forward is None else forward,
    )


def _read_cpu(value: Any, targets: cpu.Targets) -> cpu.Cpu:
    where = "facts.cpu"
    table = _require_facts_table(value, where, OF_CPU)
    architecture, level = (
        _require_facts_text(table, "arch", where),
        _require_facts_text(table, "level", where),
    )
    if level and level not in cpu.LEVELS:
        raise build_refused_facts_error(
            where, messages.FACT_NOT_LEVEL.fill(value=repr(level), known=", ".join(cpu.LEVELS))
        )
    flags = (
        frozenset(map(str, _require_facts_list(table, "flags", where)))
        if "flags" in table
        else None
    )
    names = (
        frozenset(map(str, _require_facts_list(table, "march", where)))
        if "march" in table
        else None
    )
    return cpu.build_cpu(
        architecture, _require_facts_text(table, "vendor", where), flags, level, names, targets
    )


def _read_engine(value: Any, number: int) -> ImageEngine:
    where = f"facts.engines[{number}]"
    table = _require_facts_table(value, where, OF_ENGINE)
    return ImageEngine(
        _require_facts_text(table, "engine", where), _require_facts_text(table, "injection", where)
    )


def _read_memory(table: Mapping[str, Any], where: str) -> int:
    value = table["memory"]
    memory = (
        value
        if isinstance(value, int) and not isinstance(value, bool)
        else requires.parse_mebibytes(str(value))
    )
    if memory is None or memory < 0:
        raise build_refused_facts_error(where, messages.FACT_NOT_SIZE.fill(value=repr(value)))
    return memory


def is_device(text: str) -> bool:
    """Tell whether the text is a PCI device id, as sysfs writes one."""
    digits = text.lower().removeprefix("0x")
    return 0 < len(digits) <= 4 and not set(digits) - set("0123456789abcdef")


def _require_facts_table(value: Any, where: str, known: frozenset[str]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise build_refused_facts_error(where, messages.FACTS_NOT_DICTIONARY.fill())
    unknown = sorted(str(key) for key in value if key not in known)
    if unknown:
        raise build_refused_facts_error(
            where, messages.UNKNOWN_FACT.fill(name=unknown[0], known=", ".join(sorted(known)))
        )
    return value


def _require_facts_list(table: Mapping[str, Any], key: str, where: str) -> list[Any]:
    value = table.get(key, [])
    if not isinstance(value, list):
        raise build_refused_facts_error(where, messages.FACT_NOT_LIST.fill(name=key))
    return value


def _require_facts_text(table: Mapping[str, Any], key: str, where: str) -> str:
    value = table.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise build_refused_facts_error(
            where, messages.FACT_NOT_TEXT.fill(name=key, value=repr(value))
        )
    return value


def _read_fact_version(table: Mapping[str, Any], key: str, where: str) -> dotted.Numbers | None:
    text = _require_facts_text(table, key, where)
    version = dotted.parse_dotted(text)
    if text and version is None:
        raise build_refused_facts_error(
            where, messages.FACT_NOT_VERSION.fill(name=key, value=repr(text))
        )
    return version


def _read_bool(table: Mapping[str, Any], key: str, where: str) -> bool | None:
    value = table.get(key)
    if value is not None and not isinstance(value, bool):
        raise build_refused_facts_error(
            where, messages.FACT_NOT_BOOLEAN.fill(name=key, value=repr(value))
        )
    return value


def build_refused_facts_error(where: str, what: Message) -> PlanError:
    """Return the error about a field of the given facts."""
    return PlanError(what, where=where)
