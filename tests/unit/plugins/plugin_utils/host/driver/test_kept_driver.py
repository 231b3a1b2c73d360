# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept of a driver before a user's change, what is released for it, and what a host has
noted of it.
"""

from __future__ import annotations

import dataclasses as dc
import json
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.modules import host, host_info
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_packages,
    hold_facts,
    kept_driver,
    package_locks,
)

from tests.unit.builders import obs

DEBIAN = "Debian NVIDIA Maintainers <pkg-nvidia-devel@lists.alioth.debian.org>"
UBUNTU = "Ubuntu Core developers <ubuntu-devel-discuss@lists.ubuntu.com>"
NOW = 1795726800.0  # 2026-11-26
KERNEL = "Debian Kernel Team <debian-kernel@lists.debian.org>"


def row(package: str, by: str = DEBIAN, held: bool = False) -> list[Any]:
    name, version = package.split(" ")
    return [name, version, by, held, ""]


ROWS = [
    row("firmware-nvidia-gsp 535.261.03-1"),
    row("libcuda1 535.261.03-1"),
    row("linux-image-amd64 6.1.148-1", KERNEL),
    row("nvidia-container-toolkit 1.17.8-1", "cudatools@nvidia.com"),
    row("nvidia-kernel-dkms 535.261.03-1"),
    row("nvidia-persistenced 535.171.04-1~deb12u1"),
    row("nvidia-settings 535.171.04-1~deb12u1"),
]
KEPT = ["firmware-nvidia-gsp", "libcuda1", "nvidia-kernel-dkms", "nvidia-persistenced"]


def needs(
    rows: list[list[Any]],
    record: str = "",
    policy: str = "hold",
    half: list[list[str]] | None = None,
) -> kept_driver.KeepingNeeds:
    seen = obs(
        files={hold_facts.RECORD: record} if record else {},
        answers={
            driver_packages.HOLD_QUESTION["id"]: {
                "manager": "dpkg",
                "installed": {},
                "like": rows,
                "half": half or [],
            },
            "package:of this test": {"manager": "dpkg", "installed": {}, "candidates": {}},
        },
        host={"epoch": NOW, "os_release": {"ID": "debian"}, "kernel": ""},
    )
    return kept_driver.read_keeping_needs(dc.replace(Policy(), driver=policy), seen)


def test_the_parts_of_a_driver_are_kept_and_what_has_its_release() -> None:
    found = needs(ROWS)
    assert list(found.packages) == KEPT
    assert (found.manager, found.release, found.others) == ("apt", (), ())


def test_a_part_that_dpkg_has_not_finished_is_asked_for_as_well() -> None:
    half = [["linux-image-amd64", "half-configured"], ["nvidia-alternative", "unpacked"]]
    half.append(["nvidia-container-toolkit", "unpacked"])
    assert list(needs(ROWS, half=half).packages) == [*KEPT, "nvidia-alternative"]


BUILT = [
    # a package of Ubuntu; whether it is kept
    ("linux-modules-nvidia-535-generic 6.8.0-90.91+1", True),
    ("linux-modules-nvidia-535-6.8.0-90-generic 6.8.0-90.91+1", True),
    ("linux-objects-nvidia-535-6.8.0-90-generic 6.8.0-90.91+1", True),
    ("linux-signatures-nvidia-6.8.0-90-generic 6.8.0-90.91+1", True),
    ("linux-image-6.8.0-90-generic 6.8.0-90.91", False),
]


@pytest.mark.parametrize(("package", "kept"), BUILT)
def test_built_modules_are_kept_with_the_version_of_their_kernel(package: str, kept: bool) -> None:
    name = package.partition(" ")[0]
    rows = [*ROWS, row(package, UBUNTU)]
    assert (name in needs(rows).packages) is kept
    assert (name in needs(ROWS, half=[[name, "unpacked"]]).packages) is kept


def as_record(names: list[str]) -> str:
    values = {"writer": "gpufleet.nvidia", "manager": "apt", "packages": names}
    return json.dumps({**values, "release": "535.261.03", "since": "2026-11-01"}, indent=1)


HELD = [
    # packages that are held, packages that this collection holds, the policy; released, of a person
    (["libcuda1"], ["libcuda1"], "hold", ["libcuda1"], []),
    (["libcuda1"], ["libcuda1"], "advise", ["libcuda1"], []),
    # it leaves a hold from before as it is, in each run
    (["libcuda1"], ["libcuda1"], "ignore", [], ["libcuda1"]),
    (["libcuda1"], [], "hold", [], ["libcuda1"]),
    (["libcuda1", "nvidia-kernel-dkms"], ["libcuda1"], "hold", ["libcuda1"], ["nvidia-kernel-dkms"]),
    ([], ["libcuda1"], "hold", [], []),
    # a kernel that is held with prebuilt modules is released with them
    (["linux-image-amd64"], ["linux-image-amd64"], "hold", ["linux-image-amd64"], []),
    (["nvidia-container-toolkit"], [], "hold", [], []),
]  # fmt: skip


@pytest.mark.parametrize(("held", "ours", "policy", "released", "others"), HELD)
def test_only_the_hold_of_this_collection_is_released_for_the_change(
    held: list[str], ours: list[str], policy: str, released: list[str], others: list[str]
) -> None:
    rows = [[*r[:3], r[0] in held, ""] for r in ROWS]
    found = needs(rows, as_record(ours) if ours else "", policy)
    commands = (("apt-mark", "unhold", *released), ("apt-mark", "hold", *released))
    assert found.release == ((commands,) if released else ())
    assert list(found.released) == released
    assert list(found.others) == others


def test_locks_that_are_not_taken_out_before_a_change_are_said() -> None:
    rows = [row("nvidia-driver-cuda 3:580.82.07-1.el9")]
    mine = {"writer": "gpufleet.nvidia", "manager": "dnf", "packages": ["nvidia-driver-cuda"]}
    seen = obs(
        files={
            hold_facts.RECORD: json.dumps({**mine, "release": "580.82.07"}),
            package_locks.VERSIONLOCK: "[main]\nlocklist = /srv/locks\n",
            "/srv": {"type": "dir"},
            "/srv/locks": {"content": "", "uid": 1000},
        },
        answers={
            driver_packages.HOLD_QUESTION["id"]: {"manager": "rpm", "installed": {}, "like": rows},
            "package:of this test": {"manager": "rpm", "installed": {}, "candidates": {}},
        },
        host={"epoch": NOW, "os_release": {"ID": "rhel"}, "kernel": ""},
    )
    found = kept_driver.read_keeping_needs(Policy(), seen)
    assert (found.release, [text.code for text in found.advice]) == ((), ["hold.locks-left"])


REQUESTS = [
    # the setting; the packages, whether the host has to keep each
    ("try", KEPT, False),
    ("require", KEPT, True),
    ("never", [], False),
]


@pytest.mark.parametrize(("keeping", "packages", "demand"), REQUESTS)
def test_the_request_has_bounds_and_notes_the_driver_of_before(
    keeping: str, packages: list[str], demand: bool
) -> None:
    driver = {"state": "ok", "version": "535.261.03", "gpus": [{}] * 8}
    owner = kept_driver.Owner("1f", "week")
    asked = kept_driver.build_keeping_request(
        needs(ROWS), keeping, driver, ["keeping.parts-differ"], owner
    )
    assert (asked["record"]["run"], asked["record"]["rollout"]) == ("1f", "week")
    assert (asked["manager"], asked["packages"], asked["demand"]) == ("dpkg", packages, demand)
    assert asked["limits"]["download"] is True
    assert 0 < asked["limits"]["bytes"] <= 4 << 30
    noted = kept_driver.parse_change({**asked["record"], "state": "changing"})
    assert noted == kept_driver.DriverChange(
        "changing", "535.261.03", "2026-11-26", 8, ("keeping.parts-differ",), driver="ok"
    )


NOTED = [
    # what stands in the record, what is read of it
    ({"state": "settled"}, ("settled", "", "", None, 0)),
    ({"state": "preparing"}, ("preparing", "", "", None, 0)),
    # another word is a change that was not judged
    ({"state": "done"}, ("changing", "", "", None, 0)),
    ({"state": ["settled"]}, ("changing", "", "", None, 0)),
    ({}, ("changing", "", "", None, 0)),
    # a number that is none is not known, and not 0
    ({"gpus": 0}, ("changing", "", "", 0, 0)),
    ({"gpus": True, "kept": True}, ("changing", "", "", None, 0)),
    ({"gpus": 8.0}, ("changing", "", "", None, 0)),
    ({"gpus": -1}, ("changing", "", "", None, 0)),
    # digits of other alphabets
    ({"release": "\u0665\u0665\u0660.\u0661", "since": "\u0662026-11-26"}, ("changing", "", "", None, 0)),
    ({"release": "1:550.1"}, ("changing", "", "", None, 0)),
    ({"state": "changing", "release": "x", "since": "x", "gpus": "8", "kept": -1, "before": "x"}, ("changing", "", "", None, 0)),
    ({"release": "550.1", "since": "2026-11-26", "gpus": 8, "kept": 41, "before": [1, "a b"]},
     ("changing", "550.1", "2026-11-26", 8, 41)),
]  # fmt: skip


@pytest.mark.parametrize(("values", "read"), NOTED)
def test_a_record_is_read_as_far_as_it_has_its_forms(
    values: dict[str, Any], read: tuple[Any, ...]
) -> None:
    found = kept_driver.parse_change(values)
    assert (found.state, found.release, found.since, found.gpus, found.kept) == read
    assert found.before == ()


CODES: list[tuple[Any, int]] = [
    # what a record has of the codes before the change; how many are read
    (["keeping.parts-differ"], 1),
    (["keeping.parts-differ", 7, None, "no code", "a.b.c"], 1),
    (["keeping." + "x" * 65], 0),
    ([f"keeping.{number}" for number in range(kept_driver.MOST_CODES + 1)], kept_driver.MOST_CODES),
    ("keeping.parts-differ", 0),
]


@pytest.mark.parametrize(("before", "read"), CODES)
def test_few_codes_of_a_record_are_read(before: Any, read: int) -> None:
    assert len(kept_driver.parse_change({"before": before}).before) == read


HOLD = [["apt-mark", "hold", "libcuda1"]]
CUT_OFF: list[tuple[dict[str, Any], list[str]]] = [
    # what stands in the record; the codes of the advice
    ({"state": "preparing"}, []),  # also that of an earlier release
    ({"state": "preparing", "releasing": []}, []),
    ({"state": "preparing", "releasing": HOLD}, ["kept.release-cut-off"]),
    ({"state": "settled", "releasing": HOLD}, ["kept.release-cut-off"]),
    ({"state": "settled", "releasing": []}, []),
    ({"state": "changing", "releasing": []}, ["kept.unjudged"]),
]


@pytest.mark.parametrize(("values", "codes"), CUT_OFF)
def test_a_look_says_that_a_hold_may_be_gone(values: dict[str, Any], codes: list[str]) -> None:
    found = kept_driver.parse_change(values)
    assert [get_code(text) for text in kept_driver.advise_on_change(found)] == codes
    # the next task has it by the result
    again = kept_driver.parse_change(kept_driver.report_change(found))
    assert [get_code(text) for text in kept_driver.advise_on_change(again)] == codes


TEXTS: list[tuple[Any, str]] = [
    ("", ""),
    ("{", "changing"),
    ("[]", "changing"),
    ('{"state": "settled"}', "settled"),
    ({"type": "dir"}, "changing"),
    ({"error": {"kind": "failed", "message": "Input/output error"}}, "changing"),
]


@pytest.mark.parametrize(("text", "state"), TEXTS)
def test_a_host_without_a_record_has_no_change(text: Any, state: str) -> None:
    path = f"{kept_driver.DIRECTORY}/record.json"
    seen = obs(files={path: text} if text else {})
    assert kept_driver.read_change_fact(Policy(), seen).value.state == state
    assert kept_driver.read_change_fact(dc.replace(Policy(), root="/tree"), seen).value.state == ""


def test_each_reason_is_said_once_with_its_packages() -> None:
    left = [
        {"name": "libcuda1", "version": "1", "why": "no-file"},
        {"name": "libnvcuvid1", "version": "1", "why": "no-file"},
        {"name": "nvidia-smi", "version": "1", "why": "no-room"},
        {"name": "nvidia-alternative", "version": "1", "why": "a word of a later release"},
        {"name": "nvidia-driver", "version": "", "why": "gone"},
    ]
    said = kept_driver.describe_left_packages(left)
    codes = ["kept.not-copied", "kept.gone", "kept.no-file", "kept.no-room"]
    assert [get_code(text) for text in said] == codes
    assert "nvidia-driver is not on this host" in said[1]
    assert "libcuda1 1, libnvcuvid1 1" in said[2]
    assert {
        get_code(row.fill(**dict.fromkeys(row.fields, "x"))) for row in kept_driver.REASONS.values()
    } >= {get_code(text) for text in said}


@pytest.mark.parametrize("module", [host, host_info])
def test_the_sample_of_a_result_has_each_key(module: Any) -> None:
    sample = yaml.safe_load(module.RETURN)["driver_change"]["sample"]
    assert sample.keys() == kept_driver.report_change(kept_driver.DriverChange()).keys()
