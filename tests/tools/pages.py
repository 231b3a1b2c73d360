# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the tables in docs/ from the tables in the code that they describe.

    pages.py [--write]      without --write: print which pages are outdated

A page marks the place of a table with `<!-- table NAME -->` and `<!-- end -->`; all around it is
written by hand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for entry in (ROOT, ROOT / ".cache" / "collections", Path(__file__).parent):
    sys.path.insert(0, str(entry))

import adoption_tables
import answer_tables
import cdi_tables
import comparison_tables
import content_tables
import decision_tables
import drain_tables
import evidence_tables
import gpu_tables
import health_tables
import image_tables
import known_bad_tables
import message_tables
import parts
import report_tables
import support_tables
import variable_tables
import way_tables
from page_table import code, table

DOCS = ROOT / "docs"
BLOCK = re.compile(r"(<!-- table (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def build_nightly_table() -> str:
    """Return the parts that `make test` leaves to `make nightly`, with the reasons."""
    return table(
        ["part", "why not in `make test`"],
        [[code([name]), reason] for name, reason in parts.NIGHTLY.items()],
    )


TABLES: Mapping[str, Callable[[], str]] = {
    "caps": cdi_tables.build_caps_table,
    "packaged": cdi_tables.build_packaged_table,
    "libraries": cdi_tables.build_library_table,
    "needs": cdi_tables.build_needs_table,
    "differences": cdi_tables.build_difference_table,
    "checks": cdi_tables.build_check_table,
    "containerd": support_tables.build_containerd_table,
    "since": support_tables.build_since_table,
    "files": support_tables.build_file_table,
    "modes": support_tables.build_mode_table,
    "kinds": support_tables.build_kind_table,
    "managers": support_tables.build_manager_table,
    "package-managers": support_tables.build_package_manager_table,
    "owners-settings": support_tables.build_owners_settings_table,
    "gpus": gpu_tables.build_gpu_table,
    "health-steps": health_tables.build_step_table,
    "health-xids": health_tables.build_xid_table,
    "health-lines": health_tables.build_line_table,
    "machines": health_tables.build_machine_table,
    "driver-change": health_tables.build_driver_change_table,
    "machine-needs": health_tables.build_needs_table,
    "evidence-preview": evidence_tables.build_preview_table,
    "evidence-hardware": evidence_tables.build_hardware_table,
    "evidence-layouts": evidence_tables.build_layout_table,
    "evidence-drivers": evidence_tables.build_driver_table,
    "evidence-engines": evidence_tables.build_engine_table,
    "evidence-releases": evidence_tables.build_release_table,
    "evidence-unknown": evidence_tables.build_unknown_table,
    "images": adoption_tables.build_image_table,
    "images-left-alone": adoption_tables.build_left_alone_table,
    "image-sources": adoption_tables.build_image_source_table,
    "by-hand": adoption_tables.build_by_hand_table,
    "by-hand-sources": adoption_tables.build_by_hand_source_table,
    "docker-before": adoption_tables.build_docker_table,
    "cuda": image_tables.drivers,
    "speed": comparison_tables.build_speed_table,
    "decisions": decision_tables.build_engine_decision_table,
    "decisions-without-cdi": decision_tables.build_without_cdi_table,
    "decisions-kubernetes": decision_tables.build_kubernetes_decision_table,
    "modules": content_tables.build_module_table,
    "roles": content_tables.build_role_table,
    "playbooks": content_tables.build_playbook_table,
    "variables-first": variable_tables.build_first_table,
    "variables": variable_tables.build_variable_tables,
    "rollout-settings": variable_tables.build_rollout_settings_table,
    "other-owners": drain_tables.build_other_owners_table,
    "answers": answer_tables.queries,
    "answers-of-programs": answer_tables.others,
    "known-bad-stops": lambda: known_bad_tables.build_known_bad_table(stops=True),
    "known-bad-said": lambda: known_bad_tables.build_known_bad_table(stops=False),
    "messages": message_tables.build_page_tables,
    "nightly": build_nightly_table,
    "reports": report_tables.sections,
    "ways": way_tables.build_way_table,
    "host-ways": way_tables.build_host_way_table,
    "surroundings": way_tables.build_surrounding_table,
}


def fill_tables(text: str) -> str:
    """Return the page with its tables as the code has them now."""
    return BLOCK.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}{found[4]}", text)


def list_pages() -> Iterator[Path]:
    yield from sorted(path for path in DOCS.glob("*.md") if BLOCK.search(path.read_text()))


def main(arguments: list[str]) -> int:
    outdated = [path for path in list_pages() if fill_tables(path.read_text()) != path.read_text()]
    for path in outdated:
        if "--write" in arguments:
            path.write_text(fill_tables(path.read_text()))
        print(
            f"{'written' if '--write' in arguments else 'outdated, run make docs'}: {path.relative_to(ROOT)}"
        )
    return 1 if outdated and "--write" not in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
