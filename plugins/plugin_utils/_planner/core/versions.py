# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions of engines in the forms that engines and packages use."""

from __future__ import annotations

import dataclasses as dc
import functools
import re

_VERSION = re.compile(r"^(?:\d{1,9}:)?v?(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?(.*)$")
# Suffixes that make a version older than its numbers: 2.4.0-beta.0, 2.0.0~rc1. Not ~ds1, +unknown,
# -k3s1, which are the packager's.
_PRERELEASE = re.compile(r"^[-~.]?(alpha|beta|dev|rc)[-.]?(\d{0,9})", re.IGNORECASE)
_BANNER = re.compile(
    r"^(\S+)\s+(?:version\s+)?(?:\S+\s+)?v?(\d{1,9}\.\d{1,9}\.\d{1,9}\S*?),?(?:\s|$)", re.MULTILINE
)


@functools.total_ordering
@dc.dataclass(frozen=True)
class Version:
    """A version major.minor.patch; `suffix` is what the packager or builder added."""

    major: int
    minor: int
    patch: int = 0
    suffix: str = ""

    @property
    def release(self) -> tuple[int, int, int]:
        return self.major, self.minor, self.patch

    @property
    def series(self) -> tuple[int, int]:
        return self.major, self.minor

    @property
    def _order(self) -> tuple[tuple[int, int, int], tuple[int, str, int]]:
        match = _PRERELEASE.match(self.suffix)
        pre = (0, match.group(1).lower(), int(match.group(2) or 0)) if match else (1, "", 0)
        return self.release, pre

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._order == other._order

    def __hash__(self) -> int:
        return hash(self._order)

    def __lt__(self, other: Version) -> bool:
        return self._order < other._order

    def is_at_least(self, *numbers: int) -> bool:
        """Tell whether the release is this one or a later one; a pre-release counts as its release."""
        return self.release >= (*numbers, 0, 0)[:3]

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}{self.suffix}"


@functools.lru_cache(maxsize=1024)  # the same releases are asked for again and again
def parse_engine_version(text: str) -> Version | None:
    """Read a version such as `v1.7.34`, `1.6.20~ds1`, `2.1.9+unknown`, `5:27.5.1-1~debian` or
    `2.1`; None for any other text.
    """
    match = _VERSION.match(text.strip())
    if not match:
        return None
    return Version(
        int(match.group(1)), int(match.group(2)), int(match.group(3) or 0), match.group(4)
    )


def read_version_banner(text: str) -> str:
    """Read the version in the output of `containerd --version`, `crio --version` or `dockerd
    --version`; '' if there is none.
    """
    match = _BANNER.search(text)
    return match.group(2) if match else ""
