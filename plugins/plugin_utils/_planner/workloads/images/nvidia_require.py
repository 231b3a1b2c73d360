# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evaluate `NVIDIA_REQUIRE_*` of an image as nvidia-container-cli does before it starts a
container.

Upstream: libnvidia-container, src/cli/dsl.c (the language) and src/cli/configure.c (what is
compared with what); nvidia-container-toolkit, internal/config/image/cuda_image.go (which variables
count). In a value spaces mean `or`, commas mean `and`, and several variables must all hold. Only
the legacy mode of the NVIDIA runtime evaluates them. With CDI they are not evaluated.
"""

from __future__ import annotations

import dataclasses as dc
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    read_error_message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    dotted,
    messages,
)

PREFIX, CUDA, JETPACK = "NVIDIA_REQUIRE_", "NVIDIA_REQUIRE_CUDA", "NVIDIA_REQUIRE_JETPACK"
DISABLE, CUDA_VERSION = "NVIDIA_DISABLE_REQUIRE", "CUDA_VERSION"
TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})  # strconv.ParseBool
MOST = 32  # variables: `char *reqs[32]` in src/cli/cli.h
# UINTMAX_MAX, which strtoumax gives for all that is larger, too, and upstream takes for an error
MAXIMUM = (1 << 64) - 1
# EXPR_MAX of src/cli/dsl.c: a condition that is not met and longer than this is an invalid one
LONGEST = 128
# characters of an image's text in a sentence: CUDA's own expressions have more than a thousand
SHOWN = 100
# Masterminds/semver NewVersion, which is lenient about missing numbers and a `v`.
SEMVER = re.compile(
    r"v?(\d+)(?:\.(\d+))?(?:\.\d+)?(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?", re.ASCII
)
CONDITION = re.compile(r"([^<>=!]+)([<>=!]+)(.*)", re.DOTALL)

Compare = Callable[[Any, Any], bool]
OPERATORS: Mapping[str, Compare] = {
    "=": operator.eq,
    "!=": operator.ne,
    # upstream compares as many letters as the condition has, and `!=` is the one that begins so
    "!": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
PROPERTIES = ("cuda", "driver", "arch", "brand")


class Invalid(ValueError):
    """An error for what upstream refuses on any host: `invalid expression`."""


@dc.dataclass(frozen=True)
class Subject:
    """The values of one visible GPU that conditions are compared with.

    '' stands for a value that is not known; upstream knows all four for each GPU. brands: the
    brands that NVML may give this GPU, which depends on the driver's release.
    """

    cuda: str = ""
    driver: str = ""
    arch: str = ""
    brands: tuple[str, ...] = ()


@dc.dataclass(frozen=True)
class RequirementVerdict:
    """The result of an evaluation.

    met: None if it depends on something that is not known. why: names what is not met, or not
    known.
    """

    met: bool | None
    why: str = ""


def list_requirement_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the expressions that count, by the variable that has them."""
    if environment.get(DISABLE, "") in TRUE:
        return {}
    variables = {
        n: v for n, v in environment.items() if n.startswith(PREFIX) and not n.startswith(JETPACK)
    }
    if environment.get(CUDA_VERSION) and not environment.get(CUDA):
        variables[CUDA_VERSION] = build_legacy_requirement(environment[CUDA_VERSION])
    return variables


def build_legacy_requirement(version: str) -> str:
    """Build the expression for an image that names its CUDA and requires nothing: it needs just
    that CUDA.
    """
    match = SEMVER.fullmatch(version)
    if not match:
        raise Invalid(
            messages.REQUIREMENT_VERSION.fill(shown=cut_image_text(f"{CUDA_VERSION}={version}"))
        )
    return f"cuda>={match[1]}.{match[2] or 0}"


def judge_requirements(
    environment: Mapping[str, str], subjects: Sequence[Subject]
) -> RequirementVerdict:
    """Judge whether a container of an image would be started that sees these GPUs. Without GPUs,
    only the driver counts.

    The first refusal is the answer. The rest behind it is not read, as upstream.
    """
    worst = RequirementVerdict(True)
    try:
        expressions = list_requirement_variables(environment)
        if len(expressions) > MOST:
            raise Invalid(
                messages.REQUIREMENTS_TOO_MANY.fill(
                    count=len(expressions), prefix=PREFIX, limit=MOST
                )
            )
        for subject in dict.fromkeys(subjects) or (Subject(),):
            for name, text in sorted(expressions.items()):
                verdict = _judge_variable(name, text, subject)
                if verdict.met is False:
                    return verdict
                worst = worst if worst.met is None else verdict
    except Invalid as error:
        return RequirementVerdict(False, read_error_message(error))
    return worst


def _judge_variable(name: str, text: str, subject: Subject) -> RequirementVerdict:
    """Judge one variable for one GPU.

    If the brands that the GPU may have give different answers, the answer is not known.
    """
    verdicts = (
        {
            evaluate_requirement(text, dc.replace(subject, brands=(brand,)))
            for brand in subject.brands
        }
        if subject.brands
        else {evaluate_requirement(text, subject)}
    )
    if verdicts == {True}:
        return RequirementVerdict(True)
    shown = cut_image_text(f"{name}={text}")
    if verdicts == {False}:
        why = messages.REQUIREMENT_UNMET.fill(shown=shown, subject=describe_subject(subject))
        return RequirementVerdict(False, why)
    why = messages.REQUIREMENT_UNKNOWN.fill(shown=shown, subject=describe_subject(subject))
    return RequirementVerdict(None, why)


def cut_image_text(text: str, most: int = SHOWN) -> str:
    """Return an image's own text, cut for a sentence."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


def describe_subject(subject: Subject) -> str:
    """Return what is known of a host, in words."""
    known = [
        (n, v)
        for n, v in (("cuda", subject.cuda), ("driver", subject.driver), ("arch", subject.arch))
        if v
    ]
    known += [("brand", " or ".join(subject.brands).lower())] if subject.brands else []
    return ", ".join(f"{name} {value}" for name, value in known) or messages.SUBJECT_UNKNOWN.fill()


def evaluate_requirement(text: str, subject: Subject) -> bool | None:
    """Evaluate one expression.

    As upstream, the first alternative that holds ends it: what stands behind is not even read.
    """
    result: bool | None = True
    unknown = False
    for alternative in filter(None, text.split(" ")):
        conditions = [condition for condition in alternative.split(",") if condition]
        # one of commas alone: upstream ends here, with what the alternative before it came to
        if not conditions:
            break
        result = _evaluate_alternative(conditions, subject)
        if result:
            return True
        unknown = unknown or result is None
    return None if unknown else result


def _evaluate_alternative(conditions: Sequence[str], subject: Subject) -> bool | None:
    result: bool | None = True
    for condition in conditions:
        verdict = _evaluate_condition(condition, subject)
        if verdict is False:
            return False
        result = None if verdict is None else result
    return result


def _evaluate_condition(text: str, subject: Subject) -> bool | None:
    match = CONDITION.fullmatch(text)
    if not match or match[2] not in OPERATORS or not match[3] or match[1].lower() not in PROPERTIES:
        raise Invalid(messages.CONDITION_INVALID.fill(condition=cut_image_text(text)))
    name, compare, value = match[1].lower(), match[2], match[3]
    met = (
        _evaluate_brand(subject, compare, value, text)
        if name == "brand"
        else _evaluate_version(getattr(subject, name), compare, value, text)
    )
    shown = f"{match[1]} {'!=' if compare == '!' else compare} {value}"
    if met is False and len(shown) >= LONGEST:
        raise Invalid(messages.CONDITION_TOO_LONG.fill(condition=cut_image_text(text)))
    return met


def _evaluate_brand(subject: Subject, compare: str, value: str, text: str) -> bool | None:
    if compare not in ("=", "!=", "!"):
        raise Invalid(messages.CONDITION_BRAND.fill(condition=cut_image_text(text)))
    return OPERATORS[compare](subject.brands[0].lower(), value.lower()) if subject.brands else None


def _evaluate_version(have: str, compare: str, value: str, text: str) -> bool | None:
    want = _numbers(value)
    if want is None:
        raise Invalid(
            messages.CONDITION_VERSION.fill(
                condition=cut_image_text(text), version=cut_image_text(value)
            )
        )
    own = _numbers(have)
    if own is None:
        return None
    if _reads_too_large(own, want):
        raise Invalid(messages.CONDITION_NUMBER.fill(condition=cut_image_text(text)))
    return OPERATORS[compare](_strip_zeros(own), _strip_zeros(want))


def _reads_too_large(own: dotted.Numbers, want: dotted.Numbers) -> bool:
    """Tell whether upstream meets a number of 2^64 - 1 or more.

    It reads both versions side by side, up to the first difference or the end of one.
    """
    for mine, theirs in zip(own, want, strict=False):
        if MAXIMUM in (mine, theirs):
            return True
        if mine != theirs:
            return False
    return False


def _numbers(text: str) -> dotted.Numbers | None:
    """Parse a version as upstream does: several dots are one. Return None for any other text."""
    parts = [part for part in text.split(".") if part]
    if (
        not parts
        or text.startswith(".")
        or not all(part.isascii() and part.isdigit() for part in parts)
    ):
        return None
    return tuple(_parse_number(part.lstrip("0")) for part in parts)


def _parse_number(digits: str) -> int:
    """Parse a number up to MAXIMUM. Python refuses to read thousands of digits, and from 21 on it
    is too large anyway.
    """
    return MAXIMUM if len(digits) > len(str(MAXIMUM)) else min(int(digits or "0"), MAXIMUM)


def _strip_zeros(numbers: dotted.Numbers) -> dotted.Numbers:
    """Return the numbers without zeros at the end, which mean nothing."""
    last = max((at for at, number in enumerate(numbers, 1) if number), default=0)
    return numbers[:last]
