# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files of the driver are found, and what each profile makes of them."""

from __future__ import annotations

import fnmatch
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    catalogue,
    discover,
    driver_listing,
    roots,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files.discover import (
    DriverFiles,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate import (
    profiles,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.generate.hooks import (
    HookProgram,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    DeviceNode,
    Edits,
    Mount,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit import drivers
from tests.unit.builders import obs
from tests.unit.drivers import DEBIAN, RHEL, UBUNTU

V = "550.163.01"
NEW = HookProgram("/usr/bin/nvidia-cdi-hook", (1, 20, 1))


def found(
    there: dict[str, Any],
    version: str = "",
    features: tuple[str, ...] = catalogue.FEATURES,
    machine: str = "x86_64",
    **policy: Any,
) -> DriverFiles:
    seen = obs(files=there, host={"machine": machine, "kernel": "6.1.0", "epoch": 10.0})
    return discover.find_driver_files(
        discover.read_driver_file_facts(Policy(**policy), seen), features, version
    )


def names(driver: DriverFiles) -> list[str]:
    return [lib.name for lib in driver.libraries]


LAYOUTS = [
    ("Ubuntu", drivers.compute(UBUNTU, V), (UBUNTU,)),
    ("RHEL", drivers.compute(RHEL, V), (RHEL,)),
    (
        "Debian",
        {**drivers.compute(DEBIAN, V), **drivers.through(drivers.compute(DEBIAN, V), UBUNTU)},
        (DEBIAN,),
    ),
    (
        "Debian with one beside",
        {**drivers.compute(DEBIAN, V), **drivers.library(UBUNTU, "libnvidia-pkcs11", V)},
        (UBUNTU, DEBIAN),
    ),
    ("ARM", drivers.compute("/usr/lib/aarch64-linux-gnu", V), ("/usr/lib/aarch64-linux-gnu",)),
    ("a tree of the driver only", drivers.compute("/lib64", V), ("/lib64",)),
    ("NixOS", drivers.compute("/run/opengl-driver/lib", V), ("/run/opengl-driver/lib",)),
]


@pytest.mark.parametrize(
    ("there", "folders"), [case[1:] for case in LAYOUTS], ids=[case[0] for case in LAYOUTS]
)
def test_layouts(there: dict[str, Any], folders: tuple[str, ...]) -> None:
    driver = found(there)
    assert (driver.version, driver.folders) == (V, folders)
    assert {f"libcuda.so.{V}", f"libnvidia-ml.so.{V}"} <= set(names(driver))
    cuda = next(lib for lib in driver.libraries if lib.stem == "libcuda")
    assert (cuda.soname, cuda.dot_so) == ("libcuda.so.1", "libcuda.so")


def test_the_version_of_the_kernel_module_counts_where_two_are_installed() -> None:
    both = {**drivers.compute(UBUNTU, "535.1.2"), **drivers.compute(UBUNTU, V)}
    assert {name.partition(".so.")[2] for name in names(found(both, "535.1.2"))} == {"535.1.2"}
    # where the .so.1 leads
    assert {name.partition(".so.")[2] for name in names(found(both))} == {V}


def test_an_unknown_library_of_a_new_driver_is_taken() -> None:
    there = {**drivers.compute(UBUNTU, V), **drivers.library(UBUNTU, "libnvidia-hologram", V)}
    assert f"libnvidia-hologram.so.{V}" in names(found(there, features=("compute",)))


ICDS = [f"/etc/vulkan/icd.d/nvidia_icd{cpu}.json" for cpu in ("", ".x86_64", ".aarch64")]


@pytest.mark.parametrize(
    ("machine", "inside"),
    [("x86_64", ICDS[:2]), ("aarch64", ICDS[::2]), ("riscv64", ICDS[:1]), ("", ICDS)],
)
def test_a_configuration_for_another_processor_stays_out(machine: str, inside: list[str]) -> None:
    driver = found({**drivers.compute(UBUNTU, V), **dict.fromkeys(ICDS, "")}, machine=machine)
    assert [file.path for file in driver.files] == inside


FEATURES = [
    (
        ("utility",),
        {"libnvidia-ml"},
        {"libcuda", "libnvcuvid", "libGLX_nvidia", "libnvidia-egl-gbm"},
    ),
    (
        ("compute",),
        {"libcuda"},
        {"libnvidia-ml", "libnvcuvid", "libGLX_nvidia", "libnvidia-egl-gbm"},
    ),
    (
        ("compute", "video"),
        {"libcuda", "libnvcuvid"},
        {"libnvidia-ml", "libGLX_nvidia", "libnvidia-egl-gbm"},
    ),
    (
        ("graphics",),
        {"libGLX_nvidia", "libnvidia-egl-gbm"},
        {"libcuda", "libnvidia-ml", "libnvcuvid"},
    ),
]


@pytest.mark.parametrize(("features", "inside", "outside"), FEATURES)
def test_features(features: tuple[str, ...], inside: set[str], outside: set[str]) -> None:
    there = drivers.compute(UBUNTU, V)
    for stem, version in (("libnvcuvid", V), ("libGLX_nvidia", V), ("libnvidia-egl-gbm", "1.1.1")):
        there.update(drivers.library(UBUNTU, stem, version))
    driver = found(there, features=features)
    stems = {lib.stem for lib in (*driver.libraries, *driver.platforms)}
    assert stems & (inside | outside) == inside
    left_out = {discover.get_library_stem(path.rpartition("/")[2]) for path in driver.left_out}
    assert outside <= left_out
    assert not left_out & inside


def test_what_lacks_is_told() -> None:
    assert found(
        drivers.library(UBUNTU, "libnvidia-ml", V, ".so.1"), features=("compute", "utility")
    ).missing == (
        f"libcuda.so.{V}",
        f"libnvidia-ptxjitcompiler.so.{V}",
        "nvidia-smi",
    )


def test_32_bit_libraries_only_on_request() -> None:
    there = {
        **drivers.compute(UBUNTU, V),
        **drivers.library("/usr/lib/i386-linux-gnu", "libcuda", V, ".so.1"),
    }
    assert [lib.folder for lib in found(there).libraries if lib.stem == "libcuda"] == [UBUNTU]
    both = found(there, cdi_compat32=True)
    assert [lib.folder for lib in both.libraries if lib.stem == "libcuda"] == [
        UBUNTU,
        "/usr/lib/i386-linux-gnu",
    ]
    assert both.folders == (UBUNTU,)


def test_sockets_only_on_request() -> None:
    there = {**drivers.compute(UBUNTU, V), "/run/nvidia-persistenced/socket": {"type": "socket"}}
    assert found(there).left_out == ("/run/nvidia-persistenced/socket",)
    mounted = profiles.build_common_edits(
        found(there, cdi_sockets=True), profiles.MountPlan("full", NEW)
    )
    assert (
        Mount("/run/nvidia-persistenced/socket", "/run/nvidia-persistenced/socket", profiles.SOCKET)
        in mounted.mounts
    )


@pytest.mark.parametrize(
    ("there", "mounted"),
    [
        ({"type": "dir"}, True),
        ({"type": "dir", "uid": 1001}, False),
        ({"type": "dir", "links": ["/tmp/nvidia-mps"], "real": "/root"}, False),
        ({"type": "file"}, False),
    ],
    ids=["a directory of root's", "a user's", "a user's link to root's home", "a file"],
)
def test_the_folder_of_mps_is_roots_or_no_container_gets_it(
    there: dict[str, Any], mounted: bool
) -> None:
    driver = found({**drivers.compute(UBUNTU, V), catalogue.MPS: there}, cdi_sockets=True)
    assert [f.path for f in driver.sockets] == ([catalogue.MPS] if mounted else [])


def test_firmware_of_this_kernel_and_this_driver() -> None:
    there = {
        **drivers.compute(UBUNTU, V),
        f"/lib/firmware/nvidia/{V}/gsp_ga10x.bin": "",
        "/lib/firmware/nvidia/535.1/gsp_ga10x.bin": "",
    }
    there.update(
        {f"/lib/firmware/{kernel}/nvidia/{V}/gsp_tu10x.bin": "" for kernel in ("6.1.0", "5.10.0")}
    )
    wanted = [
        f"/lib/firmware/6.1.0/nvidia/{V}/gsp_tu10x.bin",
        f"/lib/firmware/nvidia/{V}/gsp_ga10x.bin",
    ]
    assert [f.path for f in found(there).firmware] == wanted


FOLDER = "/sys/module/firmware_class/parameters/path"
FOLDERS = [
    # what the kernel says, the driver root, where firmware is found
    ("/opt/driver/firmware\n", "/", ("/opt/driver/firmware", "/lib/firmware")),
    ("/opt//driver/firmware/\n", "/", ("/opt/driver/firmware", "/lib/firmware")),
    ("/lib/firmware\n", "/", ("/lib/firmware",)),
    ("\n", "/", ("/lib/firmware",)),
    ("(null)\n", "/", ("/lib/firmware",)),
    ("/opt/*\n", "/", ("/lib/firmware",)),
    ("firmware\n", "/", ("/lib/firmware",)),
    ("/run/nvidia/driver/lib/firmware\n", "/run/nvidia/driver", ("/lib/firmware",)),
]


@pytest.mark.parametrize(("said", "root", "folders"), FOLDERS)
def test_firmware_where_the_kernel_was_told_to_look(
    said: str, root: str, folders: tuple[str, ...]
) -> None:
    everywhere = ("/opt/driver/firmware", "/lib/firmware")
    files = {f"{folder}/nvidia/{V}/gsp_ga10x.bin": "" for folder in everywhere}
    driver = found({**drivers.compute(UBUNTU, V), **files, FOLDER: said}, cdi_driver_root=root)
    assert [f.path for f in driver.firmware] == [
        f"{folder}/nvidia/{V}/gsp_ga10x.bin" for folder in folders
    ]


# ---------------------------------------------------------------- profiles


def test_full_is_what_nvidia_ctk_writes() -> None:
    made = profiles.build_common_edits(
        found(drivers.compute(UBUNTU, V)), profiles.MountPlan("full", NEW)
    )
    assert made.env == (f"NVIDIA_CTK_LIBCUDA_DIR={UBUNTU}",)
    assert {m.host_path for m in made.mounts} == {m.container_path for m in made.mounts}
    assert [h.args[1] for h in made.hooks] == [
        "create-symlinks", "enable-cuda-compat", "update-ldcache", "disable-device-node-modification", "update-application-profile",
    ]  # fmt: skip
    assert made.hooks[0].args[:4] == (
        "nvidia-cdi-hook",
        "create-symlinks",
        "--link",
        f"libcuda.so.1::{UBUNTU}/libcuda.so",
    )
    assert made.hooks[0].args[4:6] == ("--link", f"libcuda.so.{V}::{UBUNTU}/libcuda.so.1")
    assert made.hooks[2].args == ("nvidia-cdi-hook", "update-ldcache", "--folder", UBUNTU)
    assert {(h.name, h.env) for h in made.hooks} == {
        ("createContainer", ("NVIDIA_CTK_DEBUG=false",))
    }


PROGRAMS = [
    ((1, 20, 1), 5),
    ((1, 18, 0), 4),
    ((1, 17, 9), 3),
    ((1, 17, 8), 3),
    ((1, 17, 5), 3),
    ((1, 17, 0), 2),
    ((), 2),  # unknown: what every release has
]


@pytest.mark.parametrize(("version", "hooks"), PROGRAMS)
def test_an_old_program_gets_no_command_that_it_does_not_know(
    version: tuple[int, ...], hooks: int
) -> None:
    made = profiles.build_common_edits(
        found(drivers.compute(UBUNTU, V)),
        profiles.MountPlan("full", HookProgram("/usr/bin/nvidia-cdi-hook", version)),
    )
    assert len(made.hooks) == hooks


def test_nvidia_ctk_has_the_same_commands_one_word_later() -> None:
    made = profiles.build_common_edits(
        found(drivers.compute(UBUNTU, V)),
        profiles.MountPlan("full", HookProgram("/usr/bin/nvidia-ctk", (1, 16, 2))),
    )
    assert [h.args[:3] for h in made.hooks] == [
        ("nvidia-ctk", "hook", "create-symlinks"),
        ("nvidia-ctk", "hook", "update-ldcache"),
    ]


@pytest.mark.parametrize("folder", [UBUNTU, RHEL, DEBIAN])
def test_hookless_names_libraries_as_programs_load_them_for_images_of_both_families(
    folder: str,
) -> None:
    made = profiles.build_common_edits(
        found(drivers.compute(folder, V)), profiles.MountPlan("hookless")
    )
    assert (made.hooks, made.env) == ((), ())
    where = {m.container_path: m.host_path for m in made.mounts}
    for home in (UBUNTU, RHEL):
        assert (
            where[f"{home}/libcuda.so.1"]
            == where[f"{home}/libcuda.so"]
            == f"{folder}/libcuda.so.{V}"
        )
        assert where[f"{home}/libnvidia-ml.so.1"] == f"{folder}/libnvidia-ml.so.{V}"
    assert where["/usr/bin/nvidia-smi"] == "/usr/bin/nvidia-smi"


def test_hookless_knows_the_name_where_the_host_has_no_link() -> None:
    made = profiles.build_common_edits(
        found(drivers.library(RHEL, "libcuda", V)), profiles.MountPlan("hookless")
    )
    assert f"{RHEL}/libcuda.so.1" in {m.container_path for m in made.mounts}


def test_devices_has_no_files() -> None:
    assert (
        profiles.build_common_edits(
            found(drivers.compute(UBUNTU, V), cdi_profile="devices"), profiles.MountPlan("devices")
        )
        == Edits()
    )


def test_a_driver_root_stands_on_the_host_only() -> None:
    made = profiles.build_common_edits(
        found(drivers.compute(UBUNTU, V)), profiles.MountPlan("full", NEW, "/run/nvidia/driver")
    )
    cuda = next(m for m in made.mounts if "libcuda.so" in m.host_path)
    assert (cuda.host_path, cuda.container_path) == (
        f"/run/nvidia/driver{UBUNTU}/libcuda.so.{V}",
        f"{UBUNTU}/libcuda.so.{V}",
    )
    assert {h.path for h in made.hooks} == {"/usr/bin/nvidia-cdi-hook"}


def test_links_of_drm_nodes() -> None:
    links = {"/dev/dri/card1": [("../card1", "/dev/dri/by-path/pci-0000:17:00.0-card")]}
    made = profiles.build_gpu_link_edits(
        ("/dev/dri/card1", "/dev/dri/renderD129"), links, profiles.MountPlan("full", NEW)
    )
    assert [h.args[2:] for h in made.hooks] == [
        ("--link", "../card1::/dev/dri/by-path/pci-0000:17:00.0-card")
    ]
    assert (
        profiles.build_gpu_link_edits(("/dev/dri/card1",), links, profiles.MountPlan("hookless"))
        == Edits()
    )


# ---------------------------------------------------------------- roots

parts = st.text("ab-.", min_size=1, max_size=3).filter(lambda p: p not in (".", ".."))
paths = st.lists(parts, max_size=4).map(lambda p: "/" + "/".join(p))


@given(paths, paths)
def test_what_goes_into_a_root_comes_out_again(root: str, path: str) -> None:
    assert roots.get_path_inside_root(root, roots.get_path_beneath_root(root, path)) == path
    assert roots.is_within_root(root, roots.get_path_beneath_root(root, path))


@given(
    paths.filter(lambda p: p != "/"),
    paths.filter(lambda p: p != "/"),
    st.text("ab-", min_size=1, max_size=3),
)
def test_a_root_ends_at_a_component(root: str, path: str, more: str) -> None:
    beside = f"{root}{more}{path}"
    assert not roots.is_within_root(root, beside)
    assert roots.get_path_inside_root(root, beside) == beside


@pytest.mark.parametrize("root", ["/", "", "//", "/run/nvidia/driver", "/run/nvidia/driver/"])
def test_a_root_may_be_written_in_any_way(root: str) -> None:
    made = roots.place_edits_in_roots(Edits(device_nodes=(DeviceNode("/dev/nvidia0"),)), root)
    assert made.device_nodes[0].host_path in ("", "/run/nvidia/driver/dev/nvidia0")


WORDS = st.text("ab.", max_size=8)


@given(WORDS, st.text("ab.*", max_size=6))
def test_a_pattern_with_asterisks_matches_what_fnmatch_says(text: str, pattern: str) -> None:
    assert discover.matches_asterisks(text, pattern) == fnmatch.fnmatchcase(text, pattern)


def test_a_driver_in_as_many_folders_as_files_is_read() -> None:
    """A host may answer so. Read folder by folder, it took hours."""
    paths = [f"/opt/{n}/libcuda.so.550.163.01" for n in range(20_000)]
    seen = tuple(driver_listing.Match(path, path, path, "file", 0o644) for path in paths)
    folders = tuple(path.rpartition("/")[0] for path in paths)
    assert discover.list_driver_libraries(seen, folders, "550.163.01") == paths
