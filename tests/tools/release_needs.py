# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the collection needs where it runs, for the SBOM of a release.

The archive has files of this project alone. Everything here is installed by the user, and a row has
the licence that its project declares.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from environments import ROOT


@dc.dataclass(frozen=True)
class Need:
    """A thing that is needed. kind: of its package URL. modules: the names by which plugins import
    it. versions: '' stands for those of meta/runtime.yml.
    """

    name: str
    kind: str
    modules: tuple[str, ...]
    versions: str
    licence: str
    optional: bool
    why: str


NEEDS = (
    Need(
        "ansible-core", "pypi", ("ansible", "ansible_collections"), "", "GPL-3.0-or-later", False,
        "Runs the collection on the controller.",
    ),
    Need(
        "pyyaml", "pypi", ("yaml",), "those that ansible-core takes", "MIT", False,
        "Comes with ansible-core, and reads YAML on the controller.",
    ),
    Need(
        "jinja2", "pypi", ("jinja2",), "those that ansible-core takes", "BSD-3-Clause", False,
        "Comes with ansible-core, and fills in the page of a report.",
    ),
    Need(
        "tomlkit", "pypi", ("tomlkit",), ">=0.12,<0.16", "MIT", True,
        "Reads TOML on a controller with Python 3.10.",
    ),
    Need(
        "jmespath", "pypi", ("jmespath",), "all", "MIT", True,
        "Reads columns of fleet_table that are JMESPath expressions.",
    ),
    Need(
        "kubernetes", "pypi", (), "those that kubernetes.core takes", "Apache-2.0", True,
        "Lets kubernetes.core reach the API of a cluster.",
    ),
    Need(
        "kubernetes.core", "generic", (), "all", "GPL-3.0-or-later", True,
        "Drains hosts from Kubernetes and applies objects there, if the inventory asks for it.",
    ),
)  # fmt: skip


def list_needs() -> list[Mapping[str, Any]]:
    """Return the rows as values of JSON, with the versions of ansible-core that are promised."""
    return [
        {**dc.asdict(need), "versions": need.versions or read_core_versions()} for need in NEEDS
    ]


def read_core_versions(root: Path = ROOT) -> str:
    runtime = yaml.safe_load((root / "meta/runtime.yml").read_text())
    return str(runtime["requires_ansible"])
