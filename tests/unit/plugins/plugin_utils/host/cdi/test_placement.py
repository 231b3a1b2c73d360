# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The directory of the host's CDI spec, where engines look into directories of their own."""

from __future__ import annotations

import dataclasses as dc
import json
import pathlib
import tomllib
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import Refusal
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    CDI_DIRS,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import placement
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.consumers import (
    Consumer,
)

from tests.unit import gpus
from tests.unit.bare_trees import Tree
from tests.unit.records import instance

ETC, RUN = CDI_DIRS
OWN = "/var/cdi/static"
Lists = dict[str, tuple[str, ...]]

# engine -> its directories; the other readers with theirs; where the spec goes ("" = nowhere, None
# = the usual place, nothing is said)
CHOSEN: dict[str, tuple[Lists, Lists, str | None]] = {
    "the usual ones": ({"containerd": CDI_DIRS}, {"podman": CDI_DIRS}, None),
    "two engines with the usual ones": ({"containerd": CDI_DIRS, "docker": CDI_DIRS}, {}, None),
    "the usual ones in other spellings": ({"containerd": ("/etc/cdi/", "/run/cdi")}, {}, None),
    "the usual ones with a second slash in front": (
        {"containerd": ("//etc/cdi", "//run/cdi")},
        {},
        None,
    ),
    "the usual ones, one of which counts in its last place": (
        {"containerd": (RUN, ETC, "/run/cdi/")},
        {},
        None,
    ),
    "only the one that a boot empties": ({"containerd": (RUN,)}, {}, RUN),
    "directories of its own": ({"containerd": (OWN, "/var/cdi/dynamic")}, {}, OWN),
    "one of its own beside the usual ones": ({"containerd": ("/usr/cdi", ETC, RUN)}, {}, ETC),
    "one of its own beside the one that a boot empties": ({"containerd": (RUN, OWN)}, {}, OWN),
    "what two engines have in common": ({"containerd": (RUN,), "docker": CDI_DIRS}, {}, RUN),
    "nothing in common": ({"containerd": (OWN,), "docker": CDI_DIRS}, {}, ""),
    "nothing in common with a Podman of the usual ones": (
        {"containerd": (OWN,)},
        {"podman": CDI_DIRS},
        "",
    ),
    "a Podman with directories of its own is told by advice": (
        {"containerd": CDI_DIRS},
        {"podman": (OWN,)},
        None,
    ),
    "a Podman that reads the first of the usual ones alone": (
        {"containerd": CDI_DIRS},
        {"podman": (ETC,)},
        ETC,
    ),
    "a Podman that reads the second of the usual ones alone": (
        {"containerd": CDI_DIRS},
        {"podman": (RUN,)},
        None,
    ),
    "nothing in common with a Podman of the spec's usual place": (
        {"containerd": (RUN,)},
        {"podman": (ETC,)},
        "",
    ),
    "what a Podman of the spec's usual place has as well": (
        {"containerd": (OWN, RUN)},
        {"podman": (ETC, RUN)},
        RUN,
    ),
    "a Podman that never found a spec in its usual place": (
        {"containerd": (RUN,)},
        {"podman": (OWN,)},
        RUN,
    ),
    "the root directory beside the usual ones": ({"containerd": (ETC, RUN, "/")}, {}, None),
    "no directory at all": ({"containerd": ()}, {}, ""),
}


def found(engines: Lists, others: Lists, **policy: Any) -> placement.Placement:
    made = [instance(name) for name in engines]
    seen = [dc.replace(one, cdi=dc.replace(one.cdi, dirs=engines[one.engine])) for one in made]
    return placement.choose_spec_directory(
        Policy(**policy), seen, [Consumer(name, "", "1.0.0", dirs) for name, dirs in others.items()]
    )


@pytest.mark.parametrize(("engines", "others", "place"), CHOSEN.values(), ids=CHOSEN)
def test_the_spec_goes_where_all_look(engines: Lists, others: Lists, place: str | None) -> None:
    where = found(engines, others)
    assert (where.usual, where.place) == (place is None, place or "")
    assert set(CDI_DIRS) <= set(where.directories), (
        "what lies in the usual directories is always looked at"
    )


def test_a_podman_that_is_the_engine_counts_once() -> None:
    assert [one.name for one in found({"podman": (ETC,)}, {"podman": (ETC,)}).readers] == [
        "Podman 2.3.7"
    ]


def test_what_the_toolkits_unit_writes_is_not_read_by_a_podman_of_the_other_directory() -> None:
    assert found({"containerd": CDI_DIRS}, {"podman": (ETC,)}).common == (ETC,)


def test_an_option_is_told_to_the_engines_and_leaves_nothing_to_choose() -> None:
    assert found({"containerd": (OWN,), "docker": CDI_DIRS}, {}, cdi_spec_dirs=CDI_DIRS).usual


def test_an_engine_that_is_left_alone_decides_only_by_the_usual_directories() -> None:
    alone = dc.replace(instance("docker"), refusal=Refusal("it is left alone", "", "unasked"))
    elsewhere = dc.replace(alone, cdi=dc.replace(alone.cdi, dirs=(OWN,)))
    assert placement.choose_spec_directory(Policy(), [instance(), alone], []).usual
    assert placement.choose_spec_directory(Policy(), [instance(), elsewhere], []).usual
    odd = dc.replace(instance(), cdi=dc.replace(instance().cdi, dirs=(OWN,)))
    assert placement.choose_spec_directory(Policy(), [odd, alone], []).place == ""
    first = dc.replace(alone, cdi=dc.replace(alone.cdi, dirs=(ETC,)))
    assert placement.choose_spec_directory(Policy(), [instance(), first], []).usual
    assert placement.choose_spec_directory(Policy(), [odd, first], []).place == "", (
        "its containers get GPUs by the spec that would be moved"
    )


@pytest.mark.parametrize(("version", "place"), [("2.3.7", ""), ("2.4.0", "usual")])
def test_an_empty_list_is_the_usual_one_for_library_1_1_1(version: str, place: str) -> None:
    made = instance("containerd", version)
    where = placement.choose_spec_directory(
        Policy(), [dc.replace(made, cdi=dc.replace(made.cdi, dirs=()))], []
    )
    assert ("usual" if where.usual else where.place) == place


def test_an_engine_that_is_not_asked_for_any_more_keeps_its_spec() -> None:
    alone = dc.replace(instance(), refusal=Refusal("it is left alone", "", "unasked"))
    alone = dc.replace(alone, cdi=dc.replace(alone.cdi, dirs=(OWN,)))
    assert placement.choose_spec_directory(Policy(), [instance("docker"), alone], []).usual, (
        "no spec was there"
    )
    kept = placement.choose_spec_directory(Policy(), [instance("docker"), alone], [], OWN)
    assert (kept.usual, kept.place) == (False, "")
    assert placement.choose_spec_directory(Policy(), [instance("docker")], [], OWN).usual, (
        "it is gone"
    )


# what the engine reads now; what its file names for its next start (None: not known); where the
# spec goes, as in CHOSEN
NEXT_STARTS: dict[str, tuple[tuple[str, ...], tuple[str, ...] | None, str | None]] = {
    "the file is not known": (CDI_DIRS, None, None),
    "the usual ones": (CDI_DIRS, CDI_DIRS, None),
    "the usual ones in other spellings": (CDI_DIRS, ("/etc/cdi/", "/run/cdi"), None),
    "the usual ones in another order": (CDI_DIRS, (RUN, ETC), None),
    "the same one of its own": ((OWN,), (OWN,), OWN),
    "one more": (CDI_DIRS, (*CDI_DIRS, OWN), ETC),
    "one of the usual ones": (CDI_DIRS, (RUN,), RUN),
    "one of its own instead": (CDI_DIRS, (OWN,), ""),
    "one of its own and a usual one": (CDI_DIRS, (OWN, ETC), ETC),
    "the usual ones again": ((OWN,), CDI_DIRS, ""),
    "none": (CDI_DIRS, (), ""),
}


@pytest.mark.parametrize(("now", "later", "place"), NEXT_STARTS.values(), ids=NEXT_STARTS)
def test_the_spec_goes_where_an_engine_looks_now_and_after_its_next_start(
    now: tuple[str, ...], later: tuple[str, ...] | None, place: str | None
) -> None:
    made = instance("docker", "28.5.2")
    made = dc.replace(made, cdi=dc.replace(made.cdi, dirs=now, next_dirs=later))
    where = placement.choose_spec_directory(Policy(), [made], [])
    assert (where.usual, where.place) == (place is None, place or "")
    assert {d for d in (*now, *(later or ())) if d in (*CDI_DIRS, OWN)} <= set(where.directories)
    assert placement.choose_spec_directory(Policy(cdi_spec_dirs=CDI_DIRS), [made], []).usual, (
        "this run writes the list itself"
    )
    if place == "":
        refused = where.build_refusal()
        assert (refused.code, refused.values["engines"]) == (
            "cdi.no-common-directory-yet",
            placement.build_engine_reader(made).name,
        )


def test_an_engine_that_is_left_alone_counts_by_what_it_reads_now() -> None:
    alone = dc.replace(instance("docker"), refusal=Refusal("it is left alone", "", "unasked"))
    assert placement.choose_spec_directory(
        Policy(), [instance(), dc.replace(alone, cdi=dc.replace(alone.cdi, next_dirs=(OWN,)))], []
    ).usual


ORDERS = [
    # the lists of engines, all directories with the lowest priority first
    ([CDI_DIRS], CDI_DIRS),
    ([(OWN,)], (ETC, RUN, OWN)),
    ([("/usr/cdi", ETC, RUN)], ("/usr/cdi", ETC, RUN)),
    ([(ETC, OWN, RUN), (RUN, "/z")], (ETC, OWN, RUN, "/z")),
]


@pytest.mark.parametrize(("lists", "order"), ORDERS)
def test_priorities_are_those_of_the_engines(
    lists: list[tuple[str, ...]], order: tuple[str, ...]
) -> None:
    assert placement.merge_spec_directories(lists) == order


# ---------------------------------------------------------------- whole tasks

CONTAINERD, DOCKER, CRIO = (
    "/etc/containerd/config.toml",
    "/etc/docker/daemon.json",
    "/etc/crio/crio.conf",
)
NVIDIA = "/etc/nvidia-container-runtime/config.toml"


def containerd(directories: tuple[str, ...] | None) -> str:
    dirs = "" if directories is None else f"  cdi_spec_dirs = {json.dumps(directories)}\n"
    return f'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\n  enable_cdi = true\n{dirs}'


def host(where: pathlib.Path, files: dict[str, str]) -> Tree:
    home = Tree(where / "host")
    for path, text in {**gpus.host(1), **files}.items():
        if isinstance(text, str):
            home.write(path, text)
    return home


# files, the engine and its release, the spec's place
ENGINES = {
    "containerd": ({CONTAINERD: containerd((OWN,))}, ("containerd", "1.7.24"), OWN),
    "containerd 2": ({CONTAINERD: f'version = 3\n[plugins."io.containerd.cri.v1.runtime"]\ncdi_spec_dirs = ["{OWN}"]\n'},
                     ("containerd", "2.1.9"), OWN),
    "Docker": ({DOCKER: json.dumps({"cdi-spec-dirs": [OWN, RUN]})}, ("docker", "28.5.2"), OWN),
    "CRI-O": ({CRIO: f'[crio.runtime]\ncdi_spec_dirs = ["{OWN}"]\n[crio.runtime.runtimes.runc]\nruntime_path = "/usr/bin/runc"\n'},
              ("crio", "1.34.0"), OWN),
    "siderolabs, for Talos": ({CONTAINERD: containerd((RUN,))}, ("containerd", "1.7.24"), RUN),
}  # fmt: skip


@pytest.mark.parametrize(("files", "engine", "place"), ENGINES.values(), ids=ENGINES)
def test_a_host_gets_its_spec_where_the_engine_looks(
    tmp_path: pathlib.Path, files: dict[str, str], engine: tuple[str, str], place: str
) -> None:
    home = host(tmp_path, files)
    options = {"engines": engine[:1], "engine_version": engine[1]}
    before = home.state()
    made = home.run_host(**options)
    assert made["failed"] is False, made
    assert home.path(f"{place}/nvidia.yaml").exists()
    assert not home.path(f"{ETC}/nvidia.yaml").exists()
    placed = [
        text.values["place"] for text in made["advice"] if get_code(text) == "cdi.empty-after-boot"
    ]
    assert placed == ([RUN] if place == RUN else [])
    # the NVIDIA runtime, which management containers go through, would not look there by itself
    if place == OWN:
        assert (
            OWN
            in tomllib.loads(home.read(NVIDIA))["nvidia-container-runtime"]["modes"]["cdi"][
                "spec-dirs"
            ]
        )
    assert home.run_host(**options)["changed"] is False
    assert home.run_host(**options, state="absent")["failed"] is False
    assert {path for path, (data, *_rest) in home.state().items() if data is not None} == {
        path for path, (data, *_rest) in before.items() if data is not None
    }


def test_a_directory_that_the_nvidia_runtime_reads_by_another_spelling_is_not_written_again(
    tmp_path: pathlib.Path,
) -> None:
    own = f'[nvidia-container-runtime.modes.cdi]\nspec-dirs = ["/etc/cdi", "{OWN}/"]\n'
    home = host(tmp_path, {CONTAINERD: containerd((OWN,)), NVIDIA: own})
    made = home.run_host(engines=("containerd",), engine_version="1.7.24")
    assert [d["key"] for d in made["differences"] if "spec-dirs" in str(d["key"])] == []


@pytest.mark.parametrize(
    ("kubelet", "directories", "said"),
    [(True, (OWN,), True), (True, (OWN, RUN), False), (False, (OWN,), False)],
)
def test_specs_of_the_device_plugin_that_no_engine_reads_are_told(
    tmp_path: pathlib.Path, kubelet: bool, directories: tuple[str, ...], said: bool
) -> None:
    files = {CONTAINERD: containerd(directories), **({"/usr/bin/kubelet": ""} if kubelet else {})}
    made = host(tmp_path, files).run_host(engines=("containerd",), engine_version="1.7.24")
    assert made["failed"] is False
    unread = [
        text.values["place"] for text in made["advice"] if get_code(text) == "cdi.plugin-not-read"
    ]
    assert unread == ([RUN] if said else [])


NOWHERE = {
    "engines with nothing in common": (
        {CONTAINERD: containerd((OWN,)), DOCKER: "{}"}, {"engines": ("containerd", "docker"), "engine_version": "28.5.2"},
    ),
    "an engine that reads the root directory": ({CONTAINERD: containerd(("/",))}, {"engines": ("containerd",), "engine_version": "1.7.24"}),
    "an engine without a directory": ({CONTAINERD: containerd(())}, {"engines": ("containerd",), "engine_version": "1.7.24"}),
    "a CRI-O without a directory": (
        {CRIO: "[crio.runtime]\ncdi_spec_dirs = []\n[crio.runtime.runtimes.runc]\n"}, {"engines": ("crio",), "engine_version": "1.34.0"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("files", "options"), NOWHERE.values(), ids=NOWHERE)
def test_a_host_on_which_no_directory_serves_is_refused(
    tmp_path: pathlib.Path, files: dict[str, str], options: dict[str, Any]
) -> None:
    home = host(tmp_path, files)
    before = home.state()
    made = home.run_host(**options)
    assert made["failed"], made
    assert "[cdi.no-common-directory]" in made["msg"]
    assert home.state() == before
    assert home.run_host(**options, cdi_spec_dirs=CDI_DIRS)["failed"] is False
    assert home.path(f"{ETC}/nvidia.yaml").exists()


def test_a_spec_moves_with_the_directories_of_the_engine(tmp_path: pathlib.Path) -> None:
    home = host(tmp_path, {CONTAINERD: containerd(None)})
    options: dict[str, Any] = {"engines": ("containerd",), "engine_version": "1.7.24"}
    assert home.run_host(**options)["failed"] is False
    assert home.path(f"{ETC}/nvidia.yaml").exists()
    home.write(
        CONTAINERD,
        home.read(CONTAINERD).replace(
            "  enable_cdi = true\n", f'  enable_cdi = true\n  cdi_spec_dirs = ["{OWN}"]\n'
        ),
    )
    assert home.run_host(**options)["failed"] is False
    assert not home.path(f"{ETC}/nvidia.yaml").exists()
    assert home.path(f"{OWN}/nvidia.yaml").exists()


@pytest.mark.parametrize("option", [(), CDI_DIRS])
def test_no_spec_stays_in_a_directory_that_no_run_looks_into(
    tmp_path: pathlib.Path, option: tuple[str, ...]
) -> None:
    home = host(tmp_path, {CONTAINERD: containerd((OWN,))})
    options: dict[str, Any] = {"engines": ("containerd",), "engine_version": "1.7.24"}
    assert home.run_host(**options)["failed"] is False
    assert home.path(f"{OWN}/nvidia.yaml").exists()
    if not option:
        home.write(CONTAINERD, home.read(CONTAINERD).replace(f'  cdi_spec_dirs = ["{OWN}"]\n', ""))
    assert home.run_host(**options, cdi_spec_dirs=option)["failed"] is False
    assert home.path(f"{ETC}/nvidia.yaml").exists()
    assert not home.path(f"{OWN}/nvidia.yaml").exists(), "the NVIDIA runtime reads this one first"
    assert home.run_host(**options, cdi_spec_dirs=option)["changed"] is False


def test_a_spec_in_a_directory_of_its_own_goes_without_a_journal(tmp_path: pathlib.Path) -> None:
    home = host(tmp_path, {CONTAINERD: containerd((OWN,))})
    options: dict[str, Any] = {"engines": ("containerd",), "engine_version": "1.7.24"}
    record = home.run_host(**options) and home.read("/etc/ansible/facts.d/gpufleet.fact")
    assert json.loads(record)["cdi"]["place"] == OWN
    home.forget_journal()
    assert home.run_host(**options, state="absent")["failed"] is False
    assert not home.path(f"{OWN}/nvidia.yaml").exists()


# The directories of containerd, and the link: where it is, and where it leads.
LINKED = {
    "the second usual one": (None, RUN, ETC),
    "the first usual one": (None, ETC, RUN),
    "a second one of the engine's own": ((ETC, OWN), OWN, ETC),
    "the only one of the engine": ((OWN,), OWN, ETC),
}


@pytest.mark.parametrize("later", [False, True], ids=["from the start", "once the spec is there"])
@pytest.mark.parametrize(("directories", "link", "target"), LINKED.values(), ids=LINKED)
def test_a_spec_that_is_seen_by_a_second_path_stays(
    tmp_path: pathlib.Path, directories: tuple[str, ...] | None, link: str, target: str, later: bool
) -> None:
    home = host(tmp_path, {CONTAINERD: containerd(None if later else directories)})
    options: dict[str, Any] = {"engines": ("containerd",), "engine_version": "1.7.24"}
    home.path(target).mkdir(parents=True)
    if not (later and link == ETC):
        home.path(link).parent.mkdir(parents=True, exist_ok=True)
        home.path(link).symlink_to(target)
    assert home.run_host(**options)["failed"] is False
    if later and directories:
        told = f"  enable_cdi = true\n  cdi_spec_dirs = {json.dumps(directories)}\n"
        home.write(CONTAINERD, home.read(CONTAINERD).replace("  enable_cdi = true\n", told))
    for _run in range(3):
        made = home.run_host(**options)
        assert made["failed"] is False
        assert home.path(f"{target}/nvidia.yaml").exists() or (later and link == ETC)
    assert made["changed"] is False
    assert home.run_host(**options, state="absent")["failed"] is False
    assert not home.path(f"{target}/nvidia.yaml").exists()


def test_a_link_beside_the_spec_is_a_second_spec(tmp_path: pathlib.Path) -> None:
    home = host(tmp_path, {CONTAINERD: containerd(None)})
    options: dict[str, Any] = {"engines": ("containerd",), "engine_version": "1.7.24"}
    assert home.run_host(**options)["failed"] is False
    home.path(f"{ETC}/other.yaml").symlink_to("/etc/cdi/nvidia.yaml")
    msg = home.run_host(**options)["msg"]
    assert (msg.startswith("/etc/cdi/other.yaml: "), msg.endswith("[cdi.device-dropped]")) == (
        True,
        True,
    )
    assert home.path(f"{ETC}/nvidia.yaml").is_file()


OF_CTK = """---
cdiVersion: 0.5.0
containerEdits:
  env:
  - NVIDIA_VISIBLE_DEVICES=void
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: "0"
kind: nvidia.com/gpu
"""


def test_a_spec_that_moves_brings_none_back_that_was_taken_over(tmp_path: pathlib.Path) -> None:
    home = host(tmp_path, {CONTAINERD: containerd(None), f"{ETC}/nvidia.yaml": OF_CTK})
    options: dict[str, Any] = {"engines": ("containerd",), "engine_version": "1.7.24"}
    assert home.run_host(**options)["failed"] is False
    home.write(
        CONTAINERD,
        home.read(CONTAINERD).replace(
            "  enable_cdi = true\n", f'  enable_cdi = true\n  cdi_spec_dirs = ["{OWN}"]\n'
        ),
    )
    assert home.run_host(**options)["failed"] is False
    assert not home.path(f"{ETC}/nvidia.yaml").exists()
    assert home.run_host(**options)["changed"] is False
    assert home.run_host(**options, state="absent")["failed"] is False
    assert home.read(f"{ETC}/nvidia.yaml") == OF_CTK


@pytest.mark.parametrize("place", ["/", "//", "/etc/*", "/etc/cdi/", 5, "relative"])
def test_a_place_that_no_run_has_recorded_is_passed_over(
    tmp_path: pathlib.Path, place: Any
) -> None:
    home = host(tmp_path, {CONTAINERD: containerd(None)})
    options: dict[str, Any] = {"engines": ("containerd",), "engine_version": "1.7.24"}
    assert home.run_host(**options)["failed"] is False
    fact = "/etc/ansible/facts.d/gpufleet.fact"
    record = json.loads(home.read(fact))
    home.write(fact, json.dumps({**record, "cdi": {**record["cdi"], "place": place}}))
    assert home.run_host(**options)["failed"] is False
    assert home.path(f"{ETC}/nvidia.yaml").exists()
