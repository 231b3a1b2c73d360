# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the image of a catalogue for a host, with what has to be set for it and the reasons
against the others.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    cpu,
    dotted,
    facts,
    fit,
    messages,
    nvidia_require,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images.requires import (
    BEST,
    Image,
)

# one image that runs on all GPUs of a host, or one for each of them
Across = Literal["all", "each"]
COMPAT_HOOK = "enable-cuda-compat"
NODES_ALONE = "cdi_class: gpu-nodes and cdi_profile: devices"  # options of a task of cdi_spec
Ranks = tuple[tuple[Sentence, Any], ...]


@dc.dataclass(frozen=True)
class ImageChoice:
    """The images for one host, or for one of its GPUs. ranked: the images that fit, best first."""

    gpus: tuple[facts.ImageGpu, ...]
    ranked: tuple[fit.Fit, ...]
    rejected: tuple[fit.Fit, ...]

    @property
    def chosen(self) -> fit.Fit | None:
        return self.ranked[0] if self.ranked else None


def choose_images(
    images: Sequence[Image], host: facts.ImageHost, across: Across, targets: cpu.Targets
) -> tuple[ImageChoice, ...]:
    """Return one choice for all GPUs of a host, or one for each.

    across: `all` or `each`.
    """
    sets = [(gpu,) for gpu in host.gpus] if across == "each" and host.gpus else [host.gpus]
    return tuple(choose_image(images, host, gpus, targets) for gpus in sets)


def choose_image(
    images: Sequence[Image],
    host: facts.ImageHost,
    gpus: Sequence[facts.ImageGpu],
    targets: cpu.Targets,
) -> ImageChoice:
    """Return the images that run on these GPUs, best first, and the rejected ones with their
    reasons.
    """
    verdicts = [fit.judge_image(image, host, gpus) for image in images]
    ranked = sorted(
        (f for f in verdicts if f.fits), key=lambda f: [value for _name, value in ranks(f, targets)]
    )
    rejected = sorted(
        (f for f in verdicts if not f.fits), key=lambda f: (len(f.reasons), f.image.name)
    )
    return ImageChoice(tuple(gpus), tuple(ranked), tuple(rejected))


def ranks(found: fit.Fit, targets: cpu.Targets) -> Ranks:
    """Return the criteria that order images that fit, the most important first. A smaller value is
    better.
    """
    wanted = found.image.requires
    newest = tuple(-n for n in (*(wanted.cuda or ()), 0, 0, 0)[:3])
    return (
        (messages.CODE_SUITS_LESS, BEST.index(found.code)),
        (
            messages.CPU_LESS_SPECIFIC,
            -cpu.weigh_code(wanted.cpu_level, wanted.cpu_march, targets),
        ),
        (messages.NEEDS_OWN_LIBCUDA, found.way == "forward"),
        (messages.RANKS_OLDER_CUDA, newest),
        (messages.WEIGHS_LESS, -found.image.weight),
        (messages.NAME_LATER, found.image.name),
    )


def explain_second_image(best: fit.Fit, other: fit.Fit, targets: cpu.Targets) -> str:
    """Explain why an image that fits is not chosen."""
    pairs = zip(ranks(best, targets), ranks(other, targets), strict=True)
    row = next(
        (row for (row, first), (_row, value) in pairs if first != value), messages.RANKS_THE_SAME
    )
    return messages.FITS_LESS.fill(best=best.image.name, criterion=row.fill())


# ---------------------------------------------------------------- results


def report_choices(
    images: Sequence[Image], host: facts.ImageHost, across: Across, targets: cpu.Targets
) -> dict[str, Any]:
    """Return the choices in the form in which a module and a filter return them."""
    choices = choose_images(images, host, across, targets)
    each = [report_choice(choice, host, targets) for choice in choices]
    return {
        "fits": all(choice.chosen for choice in choices),
        "choices": each,
        "problem": explain_choice_problem(choices),
    }


def report_choice(
    choice: ImageChoice, host: facts.ImageHost, targets: cpu.Targets
) -> dict[str, Any]:
    """Return a choice as the result has it."""
    best = choice.chosen
    engines = host.engines or (facts.ImageEngine(""),)
    rejected = [
        {
            "name": f.image.name,
            "image": f.image.reference,
            "fits": False,
            "reasons": list(f.reasons),
        }
        for f in choice.rejected
    ]
    behind = [
        {
            "name": f.image.name,
            "image": f.image.reference,
            "fits": True,
            "reasons": [explain_second_image(best, f, targets)],
        }
        for f in choice.ranked[1:]
        if best
    ]
    return {
        "gpus": [gpu.name for gpu in choice.gpus],
        "chosen": describe_image_choice(best) if best else {},
        "engines": [set_for(best, engine) for engine in engines] if best else [],
        "rejected": [*behind, *rejected],
        "nearest": {} if best else {"name": rejected[0]["name"], "reasons": rejected[0]["reasons"]},
    }


def describe_image_choice(found: fit.Fit) -> dict[str, Any]:
    """Return the chosen image as the result has it."""
    image = found.image
    cuda = dotted.write_dotted(image.requires.cuda) if image.requires.cuda else ""
    return {
        "name": image.name,
        "image": image.reference,
        "digest": image.digest,
        "reference": pin_reference(image),
        "code": found.code,
        "cuda": cuda,
        "cuda_support": found.way,
    }


def pin_reference(image: Image) -> str:
    """Return the reference by digest if there is one, without a tag, which an engine would not read
    beside a digest.
    """
    if not image.digest:
        return image.reference
    head, slash, last = image.reference.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}@{image.digest}"


def set_for(found: fit.Fit, engine: facts.ImageEngine) -> dict[str, Any]:
    """Return what a container of this image needs with this engine.

    It has the variables, how devices are handed in, and notes on what a person has to do.
    """
    legacy = engine.injection in facts.LEGACY
    environment: dict[str, str] = {}
    notes = list[str]()
    if found.overridden and (legacy or not engine.injection):
        environment[nvidia_require.DISABLE] = "true"
    if found.image.requires.exact_driver:
        environment["NVIDIA_VISIBLE_DEVICES"] = "void"
        notes.append(messages.NODES_ALONE.fill(settings=NODES_ALONE))
    if found.way == "forward":
        by_hook = messages.OWN_LIBCUDA_BY_HOOK.fill(hook=COMPAT_HOOK)
        notes.append(messages.OWN_LIBCUDA_BY_RUNTIME.fill() if legacy else by_hook)
    devices = "device-nodes" if found.image.requires.exact_driver else "driver"
    shown: Mapping[str, Any] = {"environment": environment, "inject": devices, "notes": notes}
    return {"engine": engine.name, "injection": engine.injection, **shown}


def explain_choice_problem(found: Sequence[ImageChoice]) -> str:
    """Return '' if every choice found an image.

    Else name the image nearest to fitting, for the first choice that found none.
    """
    empty = next((choice for choice in found if not choice.chosen), None)
    if empty is None:
        return ""
    nearest = empty.rejected[0]
    name, reasons = nearest.image.name, "; ".join(nearest.reasons)
    if len(found) > 1:
        return messages.NO_IMAGE_FITS_GPU.fill(gpu=str(empty.gpus[0]), name=name, reasons=reasons)
    return messages.NO_IMAGE_FITS.fill(name=name, reasons=reasons)
