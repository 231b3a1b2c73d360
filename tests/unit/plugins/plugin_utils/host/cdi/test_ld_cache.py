# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loader's cache: read as it is written, told apart from everything else, and asked for only
where nothing else tells.
"""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import NeedMore
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
    read_error_message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    discover,
    driver_listing,
    ld_cache,
    manifest,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files.ld_cache import (
    Entry,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit import drivers
from tests.unit.builders import obs
from tests.unit.loader_caches import ARM, I386, X86, cache

CPUS = {X86: "x86_64", ARM: "aarch64", I386: ""}
V = "550.163.01"


ENTRIES = (
    (X86, "libcuda.so.1", "/opt/lib64/libcuda.so.1"),
    (I386, "libcuda.so.1", "/opt/lib32/libcuda.so.1"),
    (ARM, "libz.so.1", "/z"),
)


@pytest.mark.parametrize("old", [False, True])
def test_what_ldconfig_writes_is_read(old: bool) -> None:
    assert ld_cache.parse_ld_cache(cache(*ENTRIES, old=old)) == tuple(
        Entry(name, path, CPUS[kind]) for kind, name, path in ENTRIES
    )


ODD = [
    (b"", "no-cache"),
    (b"\x7fELF", "no-cache"),
    (ld_cache.NEW, "cache-cut-short"),
    (cache(*ENTRIES)[:-1], "cache-cut-short"),
    (cache(*ENTRIES)[:60], "cache-cut-short"),
    (cache(*ENTRIES, flags=3), "cache-big-endian"),
    (ld_cache.OLD + bytes(5), "cache-too-old"),
    (ld_cache.NEW + struct.pack("<I", 2**31) + bytes(40), "cache-claims"),
    (cache((X86, "n" * 256, "/z")), "cache-text-long"),
    (cache((X86, "libz.so.1", "/" * 4096)), "cache-text-long"),
]


@pytest.mark.parametrize(("data", "code"), ODD)
def test_anything_else_is_refused_with_a_code(data: bytes, code: str) -> None:
    with pytest.raises(ValueError) as refused:
        ld_cache.parse_ld_cache(data)
    assert get_code(read_error_message(refused.value)) == f"driver-files.{code}"


libraries = st.tuples(
    st.sampled_from((X86, ARM, I386)), st.text("abc.", max_size=5), st.text("/ab", max_size=5)
)


@given(st.lists(libraries, max_size=5), st.booleans())
def test_every_cache_is_read(entries: list[tuple[int, str, str]], old: bool) -> None:
    assert ld_cache.parse_ld_cache(cache(*entries, old=old)) == tuple(
        Entry(name, path, CPUS[kind]) for kind, name, path in entries
    )


@given(st.data())
def test_a_damaged_cache_is_read_or_refused(data: st.DataObject) -> None:
    whole = bytearray(cache(*ENTRIES, old=data.draw(st.booleans())))
    for _change in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        ld_cache.parse_ld_cache(bytes(whole[: data.draw(st.integers(0, len(whole)))]))


# ---------------------------------------------------------------- in the search


def elsewhere(folder: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A driver in a folder that only the cache knows: the host's files, and the answer about that
    folder.
    """
    there = drivers.compute(folder, V)
    libraries = {path: entry for path, entry in there.items() if path.startswith(folder)}
    listed = [
        {"path": p, "real": e["real"] if e else p, "type": "file", "mode": 0o644}
        for p, e in sorted(libraries.items())
    ]
    text = cache((X86, "libcuda.so.1", f"{folder}/libcuda.so.1")).decode("utf-8", "surrogateescape")
    return {"/usr/bin/nvidia-smi": "", ld_cache.PATH: text}, {
        f"paths:driver files in {folder}": {"files": listed}
    }


def test_a_driver_with_a_prefix_of_its_own_is_found() -> None:
    host, answers = elsewhere("/opt/nv/lib64")
    found = discover.find_driver_files(
        discover.read_driver_file_facts(Policy(), obs(files=host, answers=answers))
    )
    assert (found.version, found.folders) == (V, ("/opt/nv/lib64",))
    assert next(lib for lib in found.libraries if lib.stem == "libcuda").soname == "libcuda.so.1"


def test_it_is_asked_for_only_where_the_usual_folders_have_no_driver() -> None:
    listing, cuda = (
        driver_listing.ask_for_driver_listing(Policy())["id"],
        f"/usr/lib64/libcuda.so.{V}",
    )
    usual = {
        listing: {"files": [{"path": cuda, "real": cuda, "type": "file", "mode": 0o644}]},
        f"file:{manifest.PATH}": {"exists": False},
        driver_listing.ask_for_firmware_folder(Policy())["id"]: {"exists": False},
    }
    assert (
        discover.find_driver_files(
            discover.read_driver_file_facts(Policy(), Observation({}, usual))
        ).version
        == V
    )
    with pytest.raises(NeedMore) as need:
        discover.find_driver_files(
            discover.read_driver_file_facts(Policy(), Observation({}, {listing: {"files": []}}))
        )
    assert [q["path"] for q in need.value.questions] == [ld_cache.PATH]


def find(seen: Observation, policy: Policy | None = None) -> discover.DriverFiles:
    """Find the driver's files among what a host has."""
    return discover.find_driver_files(discover.read_driver_file_facts(policy or Policy(), seen))


# Roots of the driver, the cache there, and the command that writes it again.
TREES = {
    "/": ("/etc/ld.so.cache", "ldconfig"),
    "/run/nvidia/driver/": (
        "/run/nvidia/driver/etc/ld.so.cache",
        "ldconfig -r /run/nvidia/driver",
    ),
}


@pytest.mark.parametrize("root", TREES)
def test_a_cache_that_cannot_be_read_is_an_obstacle(root: str) -> None:
    """Of a host without libraries, it says which list could have named them, and what renews it."""
    path, command = TREES[root]
    seen = obs(
        files={path: "rubbish"},
        answers={
            driver_listing.ask_for_driver_listing(Policy(cdi_driver_root=root))["id"]: {"files": []}
        },
    )
    found = find(seen, Policy(cdi_driver_root=root))
    assert found.libraries == ()
    (obstacle,) = found.obstacles
    assert obstacle.code == "driver-files.cache-unreadable"
    assert (obstacle.values["path"], obstacle.values["command"]) == (path, command)
    assert get_code(obstacle.values["problem"]) == "driver-files.no-cache"


def test_a_host_without_a_cache_has_no_obstacle() -> None:
    assert find(obs(files={})).obstacles == ()


def test_files_that_others_can_change_stay_out_and_are_said() -> None:
    """A spec is root's word: the owner of a folder that the cache names would be believed."""
    host, answers = elsewhere("/opt/nv/lib64")
    (asked,) = answers
    doubt = "/opt/nv belongs to user alice"
    mine = [f for f in answers[asked]["files"] if "libnvidia-ml" in f["path"]]
    for entry in mine:
        entry["untrusted"] = doubt
    found = find(obs(files=host, answers=answers))
    assert not [lib for lib in found.libraries if "libnvidia-ml" in lib.path]
    assert [lib for lib in found.libraries if "libcuda" in lib.path]
    (obstacle,) = found.obstacles
    assert (obstacle.code, obstacle.values["doubts"]) == ("driver-files.untrusted", doubt)
    assert f"libnvidia-ml.so.{V}" in obstacle.values["files"]


def test_files_that_no_container_would_get_are_not_said() -> None:
    """CUDA in an account's own folder has names of the driver's form."""
    host, answers = elsewhere("/opt/nv/lib64")
    (asked,) = answers
    path = "/opt/nv/lib64/libnvrtc.so.12"
    answers[asked]["files"].append(
        {
            "path": path,
            "real": path,
            "type": "file",
            "mode": 0o644,
            "untrusted": "/opt/nv/lib64/libnvrtc.so.12 belongs to user alice",
        }
    )
    assert find(obs(files=host, answers=answers)).obstacles == ()


def test_whose_the_folders_of_a_cache_are_is_asked() -> None:
    host, answers = elsewhere("/opt/nv/lib64")
    (asked,) = answers
    seen = Observation(
        {},
        {
            **dict.fromkeys(()),
            f"file:{ld_cache.PATH}": {
                "exists": True,
                "type": "file",
                "content": host[ld_cache.PATH],
            },
            driver_listing.ask_for_driver_listing(Policy())["id"]: {"files": []},
        },
    )
    with pytest.raises(NeedMore) as need:
        find(seen)
    assert [(q["id"], q.get("trust")) for q in need.value.questions] == [(asked, True)]
    assert driver_listing.ask_for_firmware(Policy(), "/lib/firmware")["trust"]


# What a forged cache names, and the folders that are asked for.
FORGED = [
    (["/opt/nv/*/libcuda.so.1", "/opt/n?/libcuda.so.1", "/opt/[a]/libcuda.so.1"], []),
    (["libcuda.so.1", "opt/nv/libcuda.so.1", ""], []),
    (["/opt/nv\n/libcuda.so.1", "/opt/nv/lib/libcuda.so.1"], ["/opt/nv/lib"]),
    (
        [f"/opt/{n}/libcuda.so.1" for n in range(1000)],
        [f"/opt/{n}" for n in range(discover.MOST_FOLDERS)],
    ),
]


@pytest.mark.parametrize(("paths", "folders"), FORGED)
def test_a_forged_cache_asks_for_few_folders(paths: list[str], folders: list[str]) -> None:
    text = cache(*((X86, "libcuda.so.1", path) for path in paths))
    assert discover.list_folders_elsewhere(ld_cache.parse_ld_cache(text)) == folders


def test_a_forged_cache_takes_no_more_room_than_a_true_one() -> None:
    """All entries name one text of 700 kB: 15 000 copies of it would be 10 GB."""
    count, start = 15_000, 48 + 24 * 15_000
    table = struct.pack("<iIIIQ", X86, start, start, 0, 0) * count
    head = struct.pack("<20sIIB3xI12x", ld_cache.NEW, count, 700_000, 2, 0)
    with pytest.raises(ValueError, match="more than 255"):
        ld_cache.parse_ld_cache(head + table + b"/" * 700_000 + b"\0")


# Where a driver with a prefix of its own has its programs: libraries, programs.
PROGRAMS = [
    ("/usr/local/nvidia/lib64", "/usr/local/nvidia/bin"),
    ("/opt/nv/lib", "/opt/nv/bin"),
    ("/opt/nv/lib64/550", ""),
    ("/lib64", ""),
    ("/srv/libraries", ""),
]


@pytest.mark.parametrize(("libraries", "programs"), PROGRAMS)
def test_programs_are_beside_the_libraries(libraries: str, programs: str) -> None:
    assert discover.get_programs_folder(libraries) == programs


def test_a_driver_with_a_prefix_has_its_programs() -> None:
    """As on a machine whose driver is a file system at /usr/local/nvidia."""
    home = "/usr/local/nvidia"
    host, answers = elsewhere(f"{home}/lib64")
    del host["/usr/bin/nvidia-smi"]
    smi = f"{home}/bin/nvidia-smi"
    listed = answers[f"paths:driver files in {home}/lib64"]["files"]
    listed.append({"path": smi, "real": smi, "type": "file", "mode": 0o755})
    found = discover.find_driver_files(
        discover.read_driver_file_facts(Policy(), obs(files=host, answers=answers))
    )
    assert [file.container for file in found.binaries] == [smi]
    assert "nvidia-smi" not in found.missing


def test_what_is_built_with_cuda_has_no_programs_of_the_driver() -> None:
    known = ld_cache.parse_ld_cache(
        cache(
            (X86, "libnvrtc.so.12", "/opt/conda/lib/libnvrtc.so.12"),
            (X86, "libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1"),
        )
    )
    folders = discover.list_folders_elsewhere(known)
    assert folders == ["/opt/conda/lib", "/usr/local/nvidia/lib64"]
    assert discover.list_program_folders(known, folders) == ["/usr/local/nvidia/bin"]
