# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a host after a user's change of its driver, before it returns to service: whether module,
libraries, packages, the units of the machine and the next kernel fit together.

The findings are those of a look. A table says which of them keep a host out of service.
"""

from __future__ import annotations

import dataclasses as dc
import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    Sentence,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text import names
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    left_out,
    messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    messages as cdi,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    keeping_messages as keeping,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    kept_driver,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    messages as driver,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import findings
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.health import (
    messages as health_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.platform import (
    messages as platform,
)

SHOWN = 3  # findings that a sentence names
CODE = re.compile(r" \[([a-z0-9-]+\.[a-z0-9-]+)\]$")
UNKNOWN_UNITS = "moved.units-unknown"
UNKNOWN_RELEASE = "an unknown release"


@dc.dataclass(frozen=True)
class FindingRow:
    """A finding after a change. blocks: it keeps the host out of service, a unit's only where its
    verdict is `wrong`. why: the reason for that, for people. packaged: it keeps the host out, as
    advice too, where packages of the host bring the driver, since no driver container does then.
    """

    row: Sentence
    blocks: bool
    why: str
    packaged: bool = False


REFUSE = "the parts refuse one another, now or at their next start"
UNFINISHED = "the change of the packages has not ended, and its parts may be of two releases"
NEXT_BOOT = "the next boot ends with no GPU, and may come when work is on the host"
NO_SERVICE = "the module does not serve the GPU"
NO_CUDA = "CUDA does not start"
OWNERS = "it was so before, and the driver fits now; a hold is the choice of the host's owner"
ROWS: tuple[FindingRow, ...] = (
    FindingRow(keeping.PARTS_DIFFER, True, REFUSE),
    FindingRow(keeping.HALF_INSTALLED, True, UNFINISHED),
    FindingRow(keeping.TO_BE_REINSTALLED, True, UNFINISHED),
    FindingRow(keeping.TWICE_INSTALLED, True, UNFINISHED),
    FindingRow(keeping.NEXT_KERNEL_LACKS_MODULE, True, NEXT_BOOT),
    FindingRow(keeping.NEXT_KERNEL_OTHER_MODULE, True, NEXT_BOOT),
    FindingRow(keeping.HEADERS_MISSING, True, NEXT_BOOT),
    FindingRow(keeping.BUILD_FAILED, True, NEXT_BOOT),
    FindingRow(keeping.DKMS_STOPS, True, NEXT_BOOT),
    FindingRow(keeping.NOUVEAU_LOADED, True, NO_SERVICE),
    FindingRow(keeping.NOUVEAU_NOT_KEPT_OUT, True, NEXT_BOOT),
    FindingRow(keeping.MODULE_KEPT_OUT, True, NO_SERVICE),
    FindingRow(keeping.UNSIGNED_MODULE, True, NO_SERVICE),
    FindingRow(keeping.KEY_NOT_ENROLLED, True, NO_SERVICE),
    FindingRow(keeping.SIGNATURES_ENFORCED, True, NO_SERVICE),
    FindingRow(keeping.OPEN_ON_OLD_GPU, True, NO_SERVICE),
    FindingRow(keeping.PROPRIETARY_ON_NEW_GPU, True, NO_SERVICE),
    FindingRow(keeping.NO_DRIVER_FOR_OLD_GPU, True, NO_SERVICE),
    FindingRow(keeping.NOT_CHECKED, True, "an unknown match counts as no match"),
    FindingRow(
        keeping.PROPRIETARY_ON_GB10,
        False,
        "some releases serve it, and the driver's state shows which do",
    ),
    FindingRow(keeping.WILL_MOVE, False, OWNERS),
    FindingRow(keeping.PART_WILL_MOVE, False, OWNERS),
    FindingRow(keeping.MOVES_AT_BOOT, False, OWNERS),
    FindingRow(keeping.APT_UNREAD, False, OWNERS),
    FindingRow(keeping.LOCKED_ELSEWHERE, False, OWNERS),
    FindingRow(keeping.LOCKS_IDLE, False, OWNERS),
    FindingRow(keeping.PINNED_ELSEWHERE, False, OWNERS),
    FindingRow(cdi.LIBCUDA_MISSING, True, NO_CUDA),
    FindingRow(cdi.NVML_MISSING, True, "programs can't ask the driver for its GPUs"),
    FindingRow(driver.OTHER_LIBRARIES, True, "a container may get either of the two"),
    FindingRow(driver.OTHER_MODULE_AFTER_REBOOT, True, NEXT_BOOT),
    FindingRow(driver.NO_MODULE_AFTER_REBOOT, True, NEXT_BOOT),
    FindingRow(driver.GPUS_LOST, True, "the driver before it may have served them"),
    FindingRow(driver.GPUS_HELD, False, "a person keeps them from containers"),
    FindingRow(driver.GPUS_EXCLUDED, False, "a person keeps them from containers"),
    FindingRow(platform.FM_ABSENT, True, NO_CUDA),
    FindingRow(platform.FM_OTHER_VERSION, True, NO_CUDA),
    FindingRow(platform.FM_OFF, True, NO_CUDA),
    FindingRow(platform.FM_FAILED, True, NO_CUDA),
    FindingRow(platform.NVLSM_ABSENT, True, "the fabric does not come up", packaged=True),
    FindingRow(platform.IMEX_OTHER_VERSION, True, REFUSE),
    FindingRow(platform.IMEX_TWICE, True, "claims of ComputeDomains fail"),
    FindingRow(platform.DOMAINS_TOO_OLD, True, "claims of ComputeDomains fail"),
    FindingRow(
        platform.FM_ABSENT_KUBERNETES, False, "a driver container may bring its own", packaged=True
    ),
    FindingRow(platform.FM_IN_RACK, False, "the GPUs work without it"),
    FindingRow(platform.IMEX_NOT_MASKED, False, "claims work until something starts the unit"),
    FindingRow(platform.IMEX_BY_HOST, False, "a gate of the DRA driver may want it so"),
    FindingRow(platform.IMEX_FAILED, False, "jobs or the DRA driver may start IMEX"),
    FindingRow(platform.PERSISTENCE_OFF, False, "the first container waits, and works"),
)
BLOCKING: frozenset[str] = frozenset(row.row.code for row in ROWS if row.blocks)
RETURNING: frozenset[str] = frozenset(row.row.code for row in ROWS if not row.blocks)
# A change must not lose these. A host without them before has none since its owner wants it so.
LOST_BY_CHANGE: frozenset[str] = frozenset({cdi.LIBCUDA_MISSING.code})
BLOCKING_PACKAGED: frozenset[str] = frozenset(row.row.code for row in ROWS if row.packaged)
OF_PLATFORM = "platform."


@dc.dataclass(frozen=True)
class BlockingFinding:
    """A finding that keeps a host out of service."""

    code: str
    text: str


def list_blocking_findings(look: Mapping[str, Any]) -> list[BlockingFinding]:
    """List the findings of a look at a host that keep it out of service, in the order of the table."""
    advised = [
        BlockingFinding(code, text)
        for text in look.get("advice") or ()
        if (code := read_code(text))
    ]
    # Of a unit the verdict counts as well: one code may be wrong on one host and advice on another.
    units = (look.get("platform") or {}).get("needs") or ()
    told = [f for f in advised if f.code in BLOCKING and not f.code.startswith(OF_PLATFORM)]
    told += [
        BlockingFinding(str(unit.get("code")), str(unit.get("why")))
        for unit in units
        if (unit.get("verdict") == "wrong" and unit.get("code") not in RETURNING)
        or (get_installed(look) and unit.get("code") in BLOCKING_PACKAGED)
    ]
    accepted = list_accepted_codes(look.get("health") or {})
    told = [f for f in told if f.code not in accepted]
    unknown = str((look.get("platform") or {}).get("unknown") or "")
    told += (
        [BlockingFinding(UNKNOWN_UNITS, str(messages.UNITS_UNKNOWN.fill(problem=unknown)))]
        if unknown
        else []
    )
    return list({finding.code: finding for finding in told}.values())


def list_accepted_codes(health: Mapping[str, Any]) -> frozenset[str]:
    """List the findings that the owner of a host accepts (gpufleet_accepted_findings).

    A finding about one GPU has its address. That of the driver names all GPUs that it has lost, so
    each of them has to be accepted.
    """
    lost = [
        entry
        for entry in health.get("findings") or ()
        if entry.get("code") == health_messages.NOT_SERVED.code
    ]
    known = bool(lost) and all(entry.get("accepted") for entry in lost)
    of_host = frozenset(str(entry) for entry in health.get("accepted") or ())
    return of_host | ({driver.GPUS_LOST.code} if known else frozenset())


def read_code(text: Any) -> str:
    """Return the code at the end of a sentence of a result, '' if it has none."""
    match = CODE.search(str(text))
    return match[1] if match else ""


def list_codes_before(look: Mapping[str, Any]) -> list[str]:
    """List the codes that a judgement would find before the change."""
    return [finding.code for finding in list_blocking_findings(look)]


def list_other_releases(look: Mapping[str, Any], wanted: str) -> list[str]:
    """List the releases of the driver that a host has loaded or installed and that are not wanted.
    UNKNOWN_RELEASE counts as one: nothing shows that it is the wanted one. A host without a GPU has
    none to move.

    wanted: a release, or its beginning at a dot; '' if any is.
    """
    served = (look.get("driver") or {}).get("state") not in (None, "", "none")
    if not wanted or not served:
        return []
    known = [release for release in (get_loaded(look), get_installed(look)) if release]
    releases = known or [UNKNOWN_RELEASE]
    return list(dict.fromkeys(r for r in releases if not f"{r}.".startswith(f"{wanted}.")))


def get_loaded(look: Mapping[str, Any]) -> str:
    return str((look.get("driver") or {}).get("version") or "")


def get_installed(look: Mapping[str, Any]) -> str:
    """Return the release of the installed packages, '' if no package has the driver."""
    return str((look.get("versions") or {}).get("driver_packages") or "")


def explain_driver_to_move(look: Mapping[str, Any], wanted: str) -> str:
    """Explain why a host's driver has to be moved, '' if it has the wanted release."""
    others = list_other_releases(look, wanted)
    return (
        messages.DRIVER_TO_MOVE.fill(release=" and ".join(others), wanted=wanted) if others else ""
    )


def explain_bad_change(
    look: Mapping[str, Any],
    before: kept_driver.DriverChange,
    way_back: str = "",
    wanted: str = "",
) -> Message | None:
    """Explain why a host does not return to service after a change of its driver; None if it may.

    before: what is noted of the driver before the change. way_back: the command by which a person
    goes back, '' if there is none. wanted: the release that it shall have, '' for any.
    """
    back = messages.WAY_BACK.fill(command=way_back) if way_back else messages.NO_WAY_BACK.fill()
    broken = left_out.explain_broken_host(look)
    if broken:
        return messages.MOVED_BROKEN.fill(found=broken, back=back)
    driver_now = look.get("driver") or {}
    if driver_now.get("state") == "not-loaded":
        detail = left_out.get_message_detail(driver_now.get("evidence"))
        return messages.MOVED_NOT_LOADED.fill(detail=detail, back=back)
    if driver_now.get("state") == "none" and before.driver != "none":
        detail = left_out.get_message_detail(driver_now.get("evidence"))
        return messages.MOVED_NO_DRIVER.fill(detail=detail, back=back)
    if list_other_releases(look, wanted):
        unknown = "none that is known"
        return messages.MOVED_ELSEWHERE.fill(
            wanted=wanted,
            loaded=get_loaded(look) or unknown,
            installed=get_installed(look) or unknown,
            back=back,
        )
    now = len(driver_now.get("gpus") or ())
    if before.gpus is None:
        # a host with fewer than the inventory says is sick
        if (look.get("health") or {}).get("expected") is None:
            return messages.MOVED_UNCOUNTED.fill(path=kept_driver.PATH)
    elif now < before.gpus:
        return messages.MOVED_FEWER_GPUS.fill(before=before.gpus, now=now, back=back)
    new = list_new_findings(look, before)
    if new:
        said = names.show_few_texts([finding.text for finding in new], SHOWN, "; ")
        return messages.MOVED_APART.fill(found=said, back=back)
    sick = findings.list_present_findings(look.get("health") or {})
    if sick:
        said = names.show_few_texts(findings.name_findings(sick), SHOWN, "; ")
        return messages.MOVED_SICK.fill(found=said, step=str(sick[0].get("next") or ""))
    return None


def list_new_findings(
    look: Mapping[str, Any], before: kept_driver.DriverChange
) -> list[BlockingFinding]:
    """List what keeps a host out and counts after the change. If the driver has not moved, a
    finding of before is not blamed on the change. Of what a change loses, one of before never is.
    """
    moved = (look.get("driver") or {}).get("version") != before.release
    return [
        finding
        for finding in list_blocking_findings(look)
        if finding.code not in before.before or (moved and finding.code not in LOST_BY_CHANGE)
    ]


def explain_unmoved_driver(
    look: Mapping[str, Any], before: kept_driver.DriverChange, wanted: str
) -> Message | None:
    """Explain that a change has left the driver as it was; None if it has not, or if that is the
    release that the host shall have.
    """
    releases = {get_loaded(look), get_installed(look)} - {""}
    if wanted or not before.release or releases != {before.release}:
        return None
    return messages.MOVED_NOTHING.fill(release=before.release)
