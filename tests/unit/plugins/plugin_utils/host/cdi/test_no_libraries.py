# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A loaded module without any of its libraries: containers would get GPUs that nothing in them can
use.
"""

from __future__ import annotations

import dataclasses as dc
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    driver_part,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    driver_listing,
    ld_cache,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_packages,
    driver_state,
)

from tests.gpu import specs
from tests.lab import recorded
from tests.unit import cdi_plans, drivers, gpus
from tests.unit.loader_caches import X86, cache

VERSION = "550.163.01"
# Everything that the host has of the driver's libraries.
LIBRARIES: dict[str, Any] = {**drivers.core(gpus.LIBRARIES, VERSION), **gpus.library(VERSION)}
NONE = dict.fromkeys(LIBRARIES)


def test_no_spec_is_written_and_the_message_names_the_option_for_libraries_that_lie_elsewhere() -> (
    None
):
    """NVIDIA/nvidia-container-toolkit/issues/930 and 473."""
    with pytest.raises(PlanError) as caught:
        cdi_plans.plan(cdi_plans.seen(NONE))
    assert (caught.value.code, caught.value.values["version"]) == ("cdi.no-libraries", VERSION)


# The ID of an operating system, and whether its image has the driver where no driver root fits.
SYSTEMS = {
    "talos": True,
    "bottlerocket": True,
    "cos": False,
    "rhcos": False,
    "debian": False,
    "": False,
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_on_the_host_of_an_image_the_step_is_that_of_the_image(name: str) -> None:
    there = cdi_plans.seen(NONE, host={"os_release": {"ID": name}} if name else {})
    with pytest.raises(PlanError) as caught:
        cdi_plans.plan(there)
    code = "cdi.no-libraries-of-image" if SYSTEMS[name] else "cdi.no-libraries"
    assert caught.value.code == code
    assert ("https://" in caught.value.next) == SYSTEMS[name]
    assert ("name it in gpufleet_cdi_driver_root" in caught.value.next) != SYSTEMS[name]


# What keeps libraries out that only the loader's cache can name: the cache, whether the folder is
# root's, the code of the cause.
CACHED = "/opt/nv/lib64"
WHOLE_CACHE = cache((X86, "libcuda.so.1", f"{CACHED}/libcuda.so.1"))
OUT_OF_REACH = {
    "not a cache": (b"rubbish", "", "driver-files.cache-unreadable"),
    "cut short": (WHOLE_CACHE[:60], "", "driver-files.cache-unreadable"),
    "a folder of an account": (
        WHOLE_CACHE,
        f"{CACHED} belongs to user alice. Run chown root on it",
        "driver-files.untrusted",
    ),
}


@pytest.mark.parametrize("case", OUT_OF_REACH)
def test_libraries_that_are_out_of_reach_are_not_called_missing(case: str) -> None:
    data, doubt, code = OUT_OF_REACH[case]
    name = f"{CACHED}/libcuda.so.{VERSION}"
    listed = {"path": name, "real": name, "type": "file", "mode": 0o644}
    answers = {
        f"paths:driver files in {CACHED}": {
            "files": [{**listed, "untrusted": doubt} if doubt else listed]
        }
    }
    there = {**NONE, ld_cache.PATH: data.decode("utf-8", "surrogateescape")}
    with pytest.raises(PlanError) as caught:
        cdi_plans.plan(cdi_plans.seen(there, answers=answers))
    assert caught.value.code == "cdi.libraries-out-of-reach"
    assert get_code(caught.value.values["causes"]) == code
    assert ("ldconfig" in caught.value.next) == (not doubt)
    assert doubt in caught.value.why


def test_one_library_is_enough_for_hosts_that_are_only_watched() -> None:
    ml = f"{gpus.LIBRARIES}/libnvidia-ml.so.{VERSION}"
    made = cdi_plans.plan(cdi_plans.seen({**NONE, ml: LIBRARIES[ml]}))
    assert cdi_plans.paths(made) == [("write", cdi_plans.OURS)]
    lacking = {
        text.code: text.values["missing"] for text in made.advice if isinstance(text, Message)
    }
    # a change of the driver must not lose it, and the rest is a matter of the host's packages
    assert lacking["cdi.libcuda-missing"] == f"libcuda.so.{VERSION}"
    assert "libcuda.so" not in lacking.get("cdi.libraries-missing", "")


CODES = {"libcuda": "cdi.libcuda-missing", "libnvidia-ml": "cdi.nvml-missing"}


@pytest.mark.parametrize("name", CODES)
def test_a_core_library_that_is_gone_has_a_code_of_its_own(name: str) -> None:
    gone = [path for path in LIBRARIES if f"/{name}.so" in path]
    made = cdi_plans.plan(cdi_plans.seen(dict.fromkeys(gone)))
    told = [text for text in made.advice if isinstance(text, Message)]
    missing = {text.code: text.values.get("missing") for text in told}
    assert missing.get(CODES[name]) == f"{name}.so.{VERSION}"


CUDA, ML = f"libcuda.so.{VERSION}", f"libnvidia-ml.so.{VERSION}"
GONE = {
    f"lib{name}": {p: None for p in LIBRARIES if f"/lib{name}.so" in p}
    for name in ("cuda", "nvidia-ml")
}
ASKED = str(driver_packages.QUESTION["id"])
LISTING = str(driver_listing.ask_for_driver_listing(Policy())["id"])
FAILED = {"error": {"kind": "failed", "message": "no listing"}}


def brought(*packages: str) -> dict[str, Any]:
    """Return the answer of a host with these packages of NVIDIA, each written as `name version`."""
    rows = [
        [*package.split(), "cudatools <cudatools@nvidia.com>", False, ""] for package in packages
    ]
    return {ASKED: {"manager": "dpkg", "installed": {}, "like": rows}}


REST = f"{gpus.LIBRARIES}/libnvidia-ptxjitcompiler.so.{VERSION}"
DKMS = f"nvidia-kernel-open-dkms {VERSION}-1"
OTHERS: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any], str]] = [
    # what the host is like, the changes of its files, the answer about packages, the options, the
    # libraries that are named where another program gives GPUs to containers, or none does
    ("all are there", {}, {}, {}, ""),
    ("libcuda is gone", GONE["libcuda"], {}, {}, CUDA),
    ("NVML is gone", GONE["libnvidia-ml"], {}, {}, ML),
    ("both are gone, and others are left", {**GONE["libcuda"], **GONE["libnvidia-ml"]}, {}, {}, f"{CUDA}, {ML}"),
    ("a host that is only watched says so", GONE["libcuda"], {}, {"cdi_features": ("utility",)}, ""),
    ("containers bring the libraries", GONE["libcuda"], {}, {"cdi_profile": "devices"}, ""),
    # the driver of a container or an image lies elsewhere
    ("none is here", NONE, brought(), {}, ""),
    ("none is here, and the packages are not looked at", NONE, {}, {"driver": "ignore"}, ""),
    ("only Ubuntu's built module", NONE, brought("linux-modules-nvidia-550-6.8.0-90-generic 6.8.0-90.91"), {}, ""),
    ("only a module of another release", NONE, brought("nvidia-kernel-open-dkms 535.261.03-1"), {}, ""),
    # NVIDIA/nvidia-container-toolkit/issues/930
    ("the module alone, by its package", NONE, brought(DKMS), {}, f"{CUDA}, {ML}"),
    ("Fabric Manager of its release alone", NONE, brought(f"nvidia-fabricmanager {VERSION}-1"), {}, ""),
    ("the module alone, of packages that are not looked at", NONE, brought(DKMS), {"driver": "ignore"}, ""),
    ("a link to a library that is gone", {**NONE, REST: {"type": "link"}}, {}, {}, ""),
    ("32-bit libraries alone", {**NONE, f"/usr/lib/i386-linux-gnu/{CUDA}": ""}, {}, {"cdi_compat32": True}, ""),
    ("a cause for what is missing is known", {**NONE, ld_cache.PATH: "rubbish"}, brought(DKMS), {}, ""),
    ("the packages could not be listed", NONE, {ASKED: {"error": {"kind": "failed", "message": "no rpm"}}}, {}, ""),
]  # fmt: skip


@pytest.mark.parametrize("owner", ["toolkit", "none"])
@pytest.mark.parametrize(
    ("files", "answers", "options", "missing"), [c[1:] for c in OTHERS], ids=[c[0] for c in OTHERS]
)
def test_core_libraries_count_whoever_gives_gpus_to_containers(
    owner: Any,
    files: dict[str, Any],
    answers: dict[str, Any],
    options: dict[str, Any],
    missing: str,
) -> None:
    record = dc.replace(cdi_plans.RECORD, cdi_owner=owner)
    made = cdi_plans.plan(cdi_plans.seen(files, answers=answers), record, **options)
    told = [text for text in made.advice if isinstance(text, Message)]
    named = [t.values["missing"] for t in told if t.code in CODES.values()]
    assert ", ".join(named) == missing


@pytest.mark.parametrize("owner", ["toolkit", "none"])
def test_a_listing_that_failed_stops_no_host_that_gets_no_spec(owner: Any) -> None:
    record = dc.replace(cdi_plans.RECORD, cdi_owner=owner)
    made = cdi_plans.plan(cdi_plans.seen(answers={LISTING: FAILED}), record)
    told = [text.code for text in made.advice if isinstance(text, Message)]
    assert "keeping.not-checked" in told


PACKAGES = Path(__file__).resolve().parents[5] / "fixtures/driver_packages.yml"
PACKAGED: dict[str, dict[str, Any]] = yaml.safe_load(PACKAGES.read_text())
MEASURED = {name: node for name, node in recorded.nodes().items() if node.seen}


def read_lost(seen: Observation, policy: Policy) -> tuple[str, ...]:
    driver = driver_state.read_driver(policy, seen)
    assert driver.state == "ok"
    return driver_part.read_lost_core_libraries(policy, seen, driver)


@pytest.mark.parametrize("state", ["broken", "not-loaded", "none"])
def test_a_driver_that_does_not_work_is_said_to_lack_nothing(state: Any) -> None:
    """Another sentence says what is wrong with the driver, and its libraries may be of another
    release.
    """
    seen, policy = cdi_plans.seen(GONE["libcuda"]), Policy()
    driver = driver_state.read_driver(policy, seen)
    assert driver_part.read_lost_core_libraries(policy, seen, driver) == (CUDA,)
    other = dc.replace(driver, state=state)
    assert driver_part.read_lost_core_libraries(policy, seen, other) == ()


@pytest.mark.parametrize("name", PACKAGED)
def test_no_package_of_a_driver_is_said_to_lack_them(name: str) -> None:
    package = PACKAGED[name]
    files = {
        f"/{package['folder']}/{lib}.so.{package['version']}": "" for lib in package["libraries"]
    }
    host = gpus.host(version=package["version"], user=package["version"])
    rest = {path: text for path, text in host.items() if f"{gpus.LIBRARIES}/" not in path}
    assert read_lost(cdi_plans.seen({**dict.fromkeys(LIBRARIES), **rest, **files}), Policy()) == ()


@pytest.mark.parametrize("packages", [(), ("nvidia-kernel-open-dkms 580.159.04-1",)])
@pytest.mark.parametrize("name", MEASURED)
def test_no_measured_machine_lacks_them(name: str, packages: tuple[str, ...]) -> None:
    """Their driver lies below /usr/local/nvidia."""
    told = MEASURED[name].seen
    assert (
        read_lost(
            Observation(told["host"], {**told["answers"], **brought(*packages)}),
            specs.make_policy(),
        )
        == ()
    )


def test_a_spec_that_is_there_stays_while_the_libraries_are_gone() -> None:
    (written,) = (str(c["content"]) for c in cdi_plans.plan(cdi_plans.seen()).changes)
    with pytest.raises(PlanError):
        cdi_plans.plan(cdi_plans.seen({**NONE, cdi_plans.OURS: written}))
