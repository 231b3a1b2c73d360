# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read an image's description of itself: its configuration, as a registry has it, or as tools print
it.

The formats are `skopeo inspect`, `skopeo inspect --config` and `docker image inspect` (and
podman's), and the objects of the OCI image format (https://github.com/opencontainers/image-spec).
They are told apart by their content. All of it comes from others.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images import (
    cpu,
    dotted,
    messages,
    nvidia_require,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.workloads.images.requires import (
    Image,
)

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
VERSION = re.compile(r"(\d{1,4}\.\d{1,4})(?:\.[\w.+-]*)?", re.ASCII)
LONGEST, MOST = 1 << 14, 1000  # characters of a value, number of variables


class UnreadableImage(ValueError):
    """An error with a sentence about a value that does not describe an image."""


@dc.dataclass(frozen=True)
class Inspected:
    """An image's description of itself.

    architectures and level: of all platforms for which the image is there. () and '' stand for what
    it does not state.
    """

    environment: tuple[tuple[str, str], ...] = ()
    digest: str = ""
    architectures: tuple[str, ...] = ()
    level: str = ""

    @property
    def cuda(self) -> dotted.Numbers | None:
        """The CUDA of `CUDA_VERSION=12.4.1`: 12.4. None if it is not known."""
        match = VERSION.fullmatch(dict(self.environment).get(nvidia_require.CUDA_VERSION, ""))
        return dotted.parse_dotted(match[1]) if match else None


def read_inspected(data: Any) -> Inspected:
    """Read the data of a file that a tool has printed.

    Raise UnreadableImage if it does not describe one image.
    """
    one = data[0] if isinstance(data, list) and len(data) == 1 else data
    if not isinstance(one, Mapping):
        raise UnreadableImage(messages.NO_SINGLE_IMAGE.fill())
    config = one.get("config", one.get("Config", one))
    env = config.get("Env") if isinstance(config, Mapping) else None
    if env is None and not {"architecture", "Architecture"} & set(one):
        raise UnreadableImage(messages.NO_CONFIGURATION.fill())
    digest = one.get("Digest", "")
    return Inspected(
        parse_image_environment(env or []),
        digest if isinstance(digest, str) and DIGEST.fullmatch(digest) else "",
        *list_image_platforms([read_platform(one)]),
    )


def read_platform(value: Mapping[str, Any]) -> tuple[str, str]:
    """Return architecture and variant.

    A configuration and an index write the keys in lower case; docker's begin with a capital.
    """
    pair = [
        str(value.get(key) or value.get(key.capitalize()) or "")
        for key in ("architecture", "variant")
    ]
    return pair[0], pair[1]


def list_image_platforms(found: list[tuple[str, str]]) -> tuple[tuple[str, ...], str]:
    """Return the architectures of an image, and the level that it needs on x86-64: the lowest of
    its variants.

    A variant is `v2`, for example, and none is `v1`. '' stands for `v1` or a level that is not
    known.
    """
    own = tuple(
        dict.fromkeys(
            cpu.ARCHITECTURES[name] for name, _variant in found if name in cpu.ARCHITECTURES
        )
    )
    variants = [
        variant or "v1"
        for name, variant in found
        if cpu.ARCHITECTURES.get(name) == cpu.LEVEL_ARCHITECTURE
    ]
    levels = sorted(
        level for level in (f"x86-64-{variant}" for variant in variants) if level in cpu.LEVELS
    )
    lowest = levels[0] if levels and len(levels) == len(variants) else ""
    return own, "" if lowest == "x86-64-v1" else lowest


def parse_image_environment(value: Any) -> tuple[tuple[str, str], ...]:
    """Parse a list of `NAME=value`, or a dictionary. The last value of a name counts, as in a
    process.

    Raise UnreadableImage for any other value, or too large a one.
    """
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, list) and all(isinstance(item, str) for item in value):
        pairs = [(name, text) for name, _equals, text in (item.partition("=") for item in value)]
    else:
        raise UnreadableImage(messages.ENVIRONMENT_SHAPE.fill())
    if len(pairs) > MOST or any(
        not isinstance(name, str) or not isinstance(text, str) or len(text) > LONGEST
        for name, text in pairs
    ):
        raise UnreadableImage(messages.ENVIRONMENT_VALUES.fill())
    return tuple(sorted(dict((name, text) for name, text in pairs if NAME.fullmatch(name)).items()))


def complete_image(image: Image, said: Inspected) -> Image:
    """Complete an entry of a catalogue with the image's description of itself.

    The catalogue's own values count first.
    """
    wanted = image.requires
    architectures = wanted.cpu_arch or said.architectures
    leveled = said.level and cpu.LEVEL_ARCHITECTURE in architectures and not wanted.cpu_march
    return dc.replace(
        image,
        digest=image.digest or said.digest,
        environment=tuple(sorted({**dict(said.environment), **dict(image.environment)}.items())),
        requires=dc.replace(
            wanted,
            cuda=wanted.cuda or (None if wanted.exact_driver else said.cuda),
            cpu_arch=architectures,
            cpu_level=wanted.cpu_level or (said.level if leveled else ""),
        ),
    )
