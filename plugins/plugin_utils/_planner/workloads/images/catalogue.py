# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a catalogue of images, with the needs of each (docs/image-catalogue.schema.json).

The catalogue is judged before any host is looked at. Unknown fields, and needs that no host can
satisfy, are errors.
"""

from __future__ import annotations

import dataclasses as dc
import difflib
import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    cpu,
    dotted,
    messages,
    requires,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images.document import (
    Path,
    YamlFile,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images.requires import (
    Compute,
    GpuTarget,
    Image,
    Requires,
)

SCHEMA = 1
MOST_TAGS = 200  # that one pattern may match
TOP = ("schema", "images")
ENTRY = (
    "name",
    "image",
    "digest",
    "weight",
    "requires",
    "forward_compat",
    "environment",
    "heed_require",
    "inspected",
    "tags",
)
REQUIRES = (
    "driver",
    "cuda",
    "compute_capability",
    "cpu_arch",
    "cpu_level",
    "cpu_march",
    "memory",
    "mig",
    "glibc",
    "exact_driver",
)
COMPUTE = ("real", "ptx")
NAME = re.compile(r"[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?", re.ASCII)  # fits a Kubernetes label
# The part of a reference that may stand before the digest, by its grammar
# (https://github.com/distribution/reference).
REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,254}")
TAGS = re.compile(r"[\w.*?-]{1,128}", re.ASCII)
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
MARCH = re.compile(r"[a-z0-9][a-z0-9_.-]{0,39}", re.ASCII)


def parse_catalogue(document: YamlFile, targets: cpu.Targets) -> tuple[Image, ...]:
    """Return the images of a catalogue. Raise PlanError with file and line for the first error."""
    top = _require_table(document, (), document.data, TOP)
    if top.get("schema") != SCHEMA:
        raise document.build_error(("schema",), messages.OTHER_CATALOGUE_SCHEMA, known=SCHEMA)
    images = top.get("images")
    if not isinstance(images, list) or not images:
        raise document.build_error(("images",), messages.NOT_IMAGES)
    catalogue = tuple(
        _read_image(document, ("images", number), value) for number, value in enumerate(images)
    )
    for number, image in enumerate(catalogue):
        if image.name in {other.name for other in catalogue[:number]}:
            raise document.build_error(("images", number), messages.NAME_TWICE, name=image.name)
        march = image.requires.cpu_march
        if targets and march and march not in targets:
            near = difflib.get_close_matches(march, targets, n=1)
            path = ("images", number, "requires", "cpu_march")
            if near:
                raise document.build_error(
                    path, messages.UNKNOWN_MARCH_NEAR, name=march, near=near[0]
                )
            raise document.build_error(path, messages.UNKNOWN_MARCH, name=march)
    return catalogue


def _read_image(document: YamlFile, path: Path, value: Any) -> Image:
    table = _require_table(document, path, value, ENTRY)
    image = _require_match(document, path, table, "image", REFERENCE, messages.REFERENCE_FORM)
    reference, _at, written = image.partition("@")
    digest = (
        _require_match(document, path, table, "digest", DIGEST, messages.DIGEST_FORM) or written
    )
    if not image:
        raise document.build_error(path, messages.ENTRY_WITHOUT_IMAGE)
    name = _require_match(document, path, table, "name", NAME, messages.NAME_FORM)
    if not name:
        raise document.build_error(path, messages.ENTRY_WITHOUT_NAME)
    read = Image(
        name,
        reference,
        digest,
        _read_weight(document, path, table),
        _requires(document, (*path, "requires"), table.get("requires", {})),
        _read_compat(document, path, table),
        _read_environment(document, (*path, "environment"), table.get("environment", {})),
        _read_bool(document, path, table, "heed_require") is not False,
        _require_text(document, path, table, "inspected"),
        _require_match(document, path, table, "tags", TAGS, messages.TAGS_FORM),
    )
    _require_possible(document, path, read)
    return read


def _requires(document: YamlFile, path: Path, value: Any) -> Requires:
    table = _require_table(document, path, value, REQUIRES)
    return Requires(
        _read_driver(document, path, table),
        _read_field_version(document, path, table, "cuda"),
        _compute(document, (*path, "compute_capability"), table.get("compute_capability")),
        _read_architectures(document, path, table),
        _require_choice(document, path, table, "cpu_level", cpu.LEVELS),
        _require_match(document, path, table, "cpu_march", MARCH, messages.MARCH_FORM),
        _read_needed_memory(document, path, table),
        _read_bool(document, path, table, "mig"),
        _read_field_version(document, path, table, "glibc"),
        _read_exact(document, path, table),
    )


def _read_driver(
    document: YamlFile, path: Path, table: Mapping[str, Any]
) -> tuple[requires.Bound, ...]:
    text = _require_text(document, path, table, "driver")
    driver = requires.parse_bounds(text) if text else ()
    if driver is None:
        raise document.build_error((*path, "driver"), messages.DRIVER_RANGE, value=repr(text))
    if requires.is_impossible(driver):
        raise document.build_error((*path, "driver"), messages.DRIVER_IMPOSSIBLE, value=text)
    return driver


def _read_exact(document: YamlFile, path: Path, table: Mapping[str, Any]) -> str:
    text = _require_text(document, path, table, "exact_driver")
    if text and dotted.parse_dotted(text) is None:
        raise document.build_error((*path, "exact_driver"), messages.EXACT_DRIVER, value=repr(text))
    return text


def _read_field_version(
    document: YamlFile, path: Path, table: Mapping[str, Any], key: str
) -> dotted.Numbers | None:
    text = _require_text(document, path, table, key)
    version = dotted.parse_dotted(text)
    if text and version is None:
        raise document.build_error((*path, key), messages.NOT_A_VERSION, value=repr(text))
    return version


def _compute(document: YamlFile, path: Path, value: Any) -> Compute | None:
    if value is None:
        return None
    table = _require_table(document, path, value, COMPUTE)
    bounds = Compute(
        *(_read_targets(document, (*path, key), table.get(key, [])) for key in COMPUTE)
    )
    if not bounds.real and not bounds.ptx:
        raise document.build_error(path, messages.NO_COMPUTE)
    return bounds


def _read_targets(document: YamlFile, path: Path, value: Any) -> tuple[GpuTarget, ...]:
    targets = []
    for number, item in enumerate(_require_catalogue_list(document, path, value)):
        target = requires.parse_target(item) if isinstance(item, str) else None
        if target is None:
            raise document.build_error((*path, number), messages.NOT_COMPUTE, value=repr(item))
        targets.append(target)
    return tuple(targets)


def _read_architectures(
    document: YamlFile, path: Path, table: Mapping[str, Any]
) -> tuple[str, ...]:
    value = table.get("cpu_arch", [])
    architectures = []
    for item in (
        [value]
        if isinstance(value, str)
        else _require_catalogue_list(document, (*path, "cpu_arch"), value)
    ):
        if item not in cpu.ARCHITECTURES:
            raise document.build_error(
                (*path, "cpu_arch"),
                messages.NOT_ARCHITECTURE,
                value=repr(item),
                known=" or ".join(cpu.ARCHITECTURES),
            )
        architectures.append(cpu.ARCHITECTURES[item])
    return tuple(dict.fromkeys(architectures))


def _read_needed_memory(document: YamlFile, path: Path, table: Mapping[str, Any]) -> int:
    text = _require_text(document, path, table, "memory")
    memory = requires.parse_mebibytes(text) if text else 0
    if memory is None or (text and memory <= 0):
        raise document.build_error((*path, "memory"), messages.NOT_A_SIZE, value=repr(text))
    return memory


def _read_compat(document: YamlFile, path: Path, table: Mapping[str, Any]) -> tuple[int, ...]:
    value = _require_catalogue_list(
        document, (*path, "forward_compat"), table.get("forward_compat", [])
    )
    if any(
        not isinstance(item, int) or isinstance(item, bool) or not 1 <= item <= 9999
        for item in value
    ):
        raise document.build_error(
            (*path, "forward_compat"), messages.NOT_BRANCHES, value=repr(value)
        )
    return tuple(sorted(set(value)))


def _read_environment(document: YamlFile, path: Path, value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, Mapping):
        raise document.build_error(path, messages.NOT_VARIABLES)
    for name, text in value.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise document.build_error(
                (*path, str(name)), messages.FIELD_NOT_TEXT, value=repr(text)
            )
    return tuple(sorted(value.items()))


def _read_weight(document: YamlFile, path: Path, table: Mapping[str, Any]) -> int:
    value = table.get("weight", 0)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > 10**6:
        raise document.build_error((*path, "weight"), messages.NOT_A_WEIGHT, value=repr(value))
    return value


# where below the image, what is wrong, its values
Fault = tuple[tuple[str, ...], Sentence, dict[str, str]]


def _require_possible(document: YamlFile, path: Path, image: Image) -> None:
    """Raise PlanError for what no host can satisfy.

    It is a mistake in the catalogue, and would look like a fault of the hosts.
    """
    for below, row, values in (
        *_find_cpu_faults(image.requires),
        *_find_driver_faults(image),
        *_find_cuda_faults(image),
        *_name_faults(image),
    ):
        raise document.build_error((*path, *below), row, **values)


def _find_cpu_faults(wanted: Requires) -> Iterator[Fault]:
    if wanted.cpu_level and wanted.cpu_arch and cpu.LEVEL_ARCHITECTURE not in wanted.cpu_arch:
        values = {
            "level": wanted.cpu_level,
            "architecture": cpu.LEVEL_ARCHITECTURE,
            "wanted": ", ".join(wanted.cpu_arch),
        }
        yield ("requires", "cpu_level"), messages.LEVEL_OF_OTHER_CPU, values


def _find_driver_faults(image: Image) -> Iterator[Fault]:
    exact = dotted.parse_dotted(image.requires.exact_driver)
    if exact and not requires.is_within_bounds(exact, image.requires.driver):
        yield (
            ("requires", "exact_driver"),
            messages.EXACT_OUTSIDE,
            {"value": image.requires.exact_driver},
        )
    if exact and image.compat:
        yield ("forward_compat",), messages.OWN_DRIVER_ONLY, {}


def _find_cuda_faults(image: Image) -> Iterator[Fault]:
    wanted = image.requires
    if image.compat and not wanted.cuda:
        yield ("forward_compat",), messages.COMPAT_WITHOUT_CUDA, {}
    if wanted.compute and wanted.compute.ptx and not wanted.cuda:
        yield ("requires", "compute_capability", "ptx"), messages.PTX_WITHOUT_CUDA, {}


def _name_faults(image: Image) -> Iterator[Fault]:
    if image.tags and (
        image.digest or image.inspected or ":" in image.reference.rpartition("/")[2]
    ):
        yield ("tags",), messages.TAGS_AND_MORE, {}


# ---------------------------------------------------------------- values


def _require_table(
    document: YamlFile, path: Path, value: Any, known: tuple[str, ...]
) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise document.build_error(path, messages.FIELD_NOT_DICTIONARY, known=", ".join(known))
    for key in value:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            values = {"name": str(key), "known": ", ".join(known)}
            if near:
                raise document.build_error(
                    (*path, str(key)), messages.UNKNOWN_FIELD_NEAR, near=near[0], **values
                )
            raise document.build_error((*path, str(key)), messages.UNKNOWN_FIELD, **values)
    return value


def _require_catalogue_list(document: YamlFile, path: Path, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise document.build_error(path, messages.FIELD_NOT_LIST)
    return value


def _require_text(document: YamlFile, path: Path, table: Mapping[str, Any], key: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        raise document.build_error((*path, key), messages.FIELD_NOT_TEXT, value=repr(value))
    return value


def _require_match(
    document: YamlFile,
    path: Path,
    table: Mapping[str, Any],
    key: str,
    pattern: re.Pattern[str],
    row: Sentence,
) -> str:
    text = _require_text(document, path, table, key)
    for part, form in _split_parts(key, text, pattern):
        if not form(part):
            raise document.build_error((*path, key), row, value=repr(text))
    return text


def _split_parts(
    key: str, text: str, pattern: re.Pattern[str]
) -> list[tuple[str, Callable[[str], Any]]]:
    """Split text into parts, each with the check of its form. A reference may have its digest
    behind an @.
    """
    if not text:
        return []
    before, at, digest = text.partition("@") if key == "image" else (text, "", "")
    return [(before, pattern.fullmatch), *([(digest, DIGEST.fullmatch)] if at else [])]


def _require_choice(
    document: YamlFile, path: Path, table: Mapping[str, Any], key: str, known: Iterable[str]
) -> str:
    text = _require_text(document, path, table, key)
    if text and text not in known:
        raise document.build_error(
            (*path, key), messages.UNKNOWN_LEVEL, value=repr(text), known=", ".join(known)
        )
    return text


def _read_bool(document: YamlFile, path: Path, table: Mapping[str, Any], key: str) -> bool | None:
    value = table.get(key)
    if value is not None and not isinstance(value, bool):
        raise document.build_error((*path, key), messages.FIELD_NOT_BOOLEAN, value=repr(value))
    return value


def expand_image(image: Image, tags: Iterable[str]) -> tuple[Image, ...]:
    """Expand an entry with a pattern to one entry for each tag that matches, named by the entry and
    the tag.

    Raise PlanError if no tag or more than MOST_TAGS tags match.
    """
    fitting = [tag for tag in sorted(set(tags)) if fnmatch.fnmatchcase(tag, image.tags)]
    if not fitting:
        raise PlanError(messages.NO_TAG.fill(pattern=image.tags), where=image.reference)
    if len(fitting) > MOST_TAGS:
        many = messages.TOO_MANY_TAGS.fill(number=len(fitting), pattern=image.tags, most=MOST_TAGS)
        raise PlanError(many, where=image.reference)
    return tuple(
        dc.replace(
            image, name=_name_expanded(image, tag), reference=f"{image.reference}:{tag}", tags=""
        )
        for tag in fitting
    )


def _name_expanded(image: Image, tag: str) -> str:
    name = f"{image.name}-{tag}"
    if not NAME.fullmatch(name):
        raise PlanError(messages.NAME_TOO_LONG.fill(name=name), where=image.reference)
    return name


def require_unique_names(images: Iterable[Image]) -> None:
    """Raise PlanError if two images have one name.

    An image that a pattern stands for may have the name of another entry.
    """
    names: set[str] = set()
    for image in images:
        if image.name in names:
            raise PlanError(messages.NAME_OF_TWO.fill(name=image.name), where=image.reference)
        names.add(image.name)
