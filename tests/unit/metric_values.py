# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a file of metrics."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families


def values(text: str) -> dict[str, float]:
    """By the parser of Prometheus' own library: name with labels -> value."""
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.type == "gauge"
        assert family.documentation
        for sample in family.samples:
            found["".join([sample.name, *(f" {k}={v}" for k, v in sample.labels.items())])] = (
                sample.value
            )
    return found
