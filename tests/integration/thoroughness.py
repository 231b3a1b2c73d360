# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw examples for judges whose failures are shown shrunk."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, settings

from tests.draws import count_examples


def thorough(examples: int) -> Any:
    """Draw up to so many examples; a failure is shown with the configuration that caused it,
    shrunk.
    """
    health = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
    return settings(
        max_examples=count_examples(examples),
        deadline=None,
        database=None,
        suppress_health_check=health,
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
    )
