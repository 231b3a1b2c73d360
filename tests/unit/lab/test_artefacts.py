# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the lab's hosts are made of, as far as it can be checked without a host: no root, no
network, no compiler.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.lab import aptrepo, artefacts, images, roots
from tests.lab.fakegpu import device_nodes, host_tree, inventories, nvml_answers, tree_entries

KERNEL = "6.1.0-42-amd64"


def files(**host: object) -> dict[str, tree_entries.Entry]:
    return host_tree.tree(inventories.inventory("node1", host), KERNEL)


@pytest.mark.parametrize(
    "host, shows, hides",
    [
        pytest.param(
            {"gpus": 1},
            [
                "proc/driver/nvidia/version",
                "sys/module/nvidia/version",
                "sys/bus/pci/devices/0000:17:00.0/driver",
            ],
            [],
            id="a GPU and its driver",
        ),
        pytest.param(
            {"gpus": 1, "driver": "none"},
            ["sys/bus/pci/devices/0000:17:00.0/vendor"],
            [
                "proc/driver/nvidia/version",
                "sys/module/nvidia/version",
                "sys/bus/pci/devices/0000:17:00.0/driver",
            ],
            id="a GPU without a driver is seen on the PCI bus only",
        ),
        pytest.param(
            {},
            ["sys/bus/pci/devices/0000:00:03.0/vendor"],
            ["sys/bus/pci/devices/0000:17:00.0/vendor"],
            id="no GPU",
        ),
    ],
)
def test_what_the_kernel_shows(host: dict[str, object], shows: list[str], hides: list[str]) -> None:
    tree = files(**host)
    assert all(f"opt/fakegpu/{path}" in tree for path in shows)
    assert not any(f"opt/fakegpu/{path}" in tree for path in hides)


@pytest.mark.parametrize(
    "driver, majors", [("ok", {"nvidia": 195, "nvidia-uvm": 511}), ("none", {})]
)
def test_proc_devices(driver: str, majors: dict[str, int]) -> None:
    lines = files(gpus=2, driver=driver)["opt/fakegpu/proc/devices"].text.split("\n")
    found = {
        name: int(major)
        for major, blank, name in (line.strip().partition(" ") for line in lines)
        if name.startswith("nvidia")
    }
    assert majors.items() <= found.items()
    assert bool(found) is bool(majors)


def test_a_gpus_own_page_in_procfs() -> None:
    page = files(gpus=2)["opt/fakegpu/proc/driver/nvidia/gpus/0000:43:00.0/information"].text
    values = dict(re.split(r":\s+", line, maxsplit=1) for line in page.splitlines())
    assert values["Bus Location"] == "0000:43:00.0"
    assert values["Device Minor"] == "1"
    assert re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", values["GPU UUID"])


def test_a_broken_driver_is_one_whose_module_is_older_than_its_library() -> None:
    tree = files(gpus=1, driver="broken")
    loaded, conf = (
        tree["opt/fakegpu/sys/module/nvidia/version"].text.strip(),
        tree["etc/fake-nvml.conf"].text,
    )
    assert f"driver {loaded}\n" not in conf
    assert "error nvmlInit 18\n" in conf


def test_a_packaged_driver_is_there_after_its_module_was_loaded() -> None:
    tree = files(gpus=1, driver="packaged")
    kernel = ("proc/driver/nvidia/version", "sys/module/nvidia/version")
    for path in kernel:
        assert f"opt/fakegpu/{path}" not in tree
        assert "@VERSION@" in tree[f"opt/fakegpu/module/{path}"].text
    assert tree["opt/fakegpu/nvml.conf"].text.startswith("driver @VERSION@\n")
    assert not [path for path in tree if path.startswith("usr/lib/x86_64-linux-gnu/")]


def test_uuids_differ_between_hosts_and_survive_a_rebuild() -> None:
    one, again, other = (
        inventories.inventory(name, {"gpus": 2}).gpus for name in ("node1", "node1", "node2")
    )
    assert one == again
    assert len({gpu.uuid for gpu in one + other}) == 4


def test_the_order_of_the_bus_need_not_be_that_of_the_minors() -> None:
    swapped = inventories.inventory("node1", {"gpus": [{"minor": 1}, {"minor": 0}]})
    assert [
        line.split("|")[2:4]
        for line in nvml_answers.nvml_conf(swapped).splitlines()
        if line.startswith("gpu ")
    ] == [
        ["1", "00000000:17:00.0"],
        ["0", "00000000:43:00.0"],
    ]


def test_faults_reach_the_library() -> None:
    faults = {"errors": {"nvmlDeviceGetHandleByIndex@1": 15}, "delays": {"nvmlInit": 3000}}
    conf = files(gpus=2, nvml=faults)["etc/fake-nvml.conf"].text
    assert "error nvmlDeviceGetHandleByIndex@1 15\n" in conf
    assert "delay nvmlInit 3000\n" in conf


@pytest.mark.parametrize(
    "host, expected",
    [
        (
            {"gpus": 1},
            {"/dev/nvidiactl": (195, 255), "/dev/nvidia-uvm": (511, 0), "/dev/nvidia0": (195, 0)},
        ),
        ({"gpus": [{"minor": 3}]}, {"/dev/nvidia3": (195, 3)}),
        (
            {"gpus": [{"mig": "on", "migs": 1}]},
            {
                "/dev/nvidia-caps/nvidia-cap12": (510, 12),
                "/dev/nvidia-caps/nvidia-cap13": (510, 13),
            },
        ),
    ],
)
def test_device_nodes(host: dict[str, object], expected: dict[str, tuple[int, int]]) -> None:
    found = {
        path: (major, minor)
        for path, major, minor in device_nodes.nodes(inventories.inventory("node1", host))
    }
    assert expected.items() <= found.items()


def test_mig_nodes_are_those_of_the_kernels_table() -> None:
    tree = files(gpus=[{"mig": "on", "migs": 2}])
    table = dict(
        line.split(" ")
        for line in tree["opt/fakegpu/proc/driver/nvidia-caps/mig-minors"].text.splitlines()
    )
    for path, entry in tree.items():
        match = re.fullmatch(r"opt/fakegpu/proc/driver/nvidia/capabilities/(gpu\d+)/mig/(.+)", path)
        if match:
            assert entry.text.startswith(f"DeviceFileMinor: {table['/'.join(match.groups())]}\n")


def test_an_unknown_driver_state_is_refused() -> None:
    with pytest.raises(
        ValueError, match="node1: driver is 'odd', but must be one of ok, none, broken, packaged"
    ):
        inventories.inventory("node1", {"gpus": 1, "driver": "odd"})


LAYER = b"a layer"
IMAGE = images.Image("localhost/some/image:tag", ("/bin/sh",))


def members(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {info.name: (tar.extractfile(info) or io.BytesIO()).read() for info in tar}


def test_every_blob_of_the_oci_archive_has_the_name_of_its_content() -> None:
    found = members(images.oci_archive(IMAGE, LAYER))
    blobs = {
        name.rsplit("/", 1)[1]: data for name, data in found.items() if name.startswith("blobs/")
    }
    assert all(hashlib.sha256(data).hexdigest() == name for name, data in blobs.items())
    (descriptor,) = json.loads(found["index.json"])["manifests"]
    assert descriptor["annotations"]["io.containerd.image.name"] == IMAGE.name
    manifest = json.loads(blobs[descriptor["digest"][7:]])
    assert blobs[manifest["layers"][0]["digest"][7:]] == LAYER
    assert json.loads(blobs[manifest["config"]["digest"][7:]])["config"]["Cmd"] == ["/bin/sh"]


def test_the_docker_archive_names_image_config_and_layer() -> None:
    found = members(images.docker_archive(IMAGE, LAYER))
    (entry,) = json.loads(found["manifest.json"])
    assert entry["RepoTags"] == [IMAGE.name]
    assert found[entry["Layers"][0]] == LAYER
    assert entry["Config"] in found


def test_both_archives_are_built_from_a_busybox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUFLEET_LAB_DIR", str(tmp_path / "lab"))
    busybox = tmp_path / "busybox"
    busybox.write_bytes(b"\x7fELF")
    oci, docker = images.archives(images.probe(), busybox)
    assert oci.is_file()
    assert docker.is_file()
    layer = members(members(docker.read_bytes())["layer.tar"])
    assert layer["bin/busybox"] == b"\x7fELF"
    assert {"bin/sh", "bin/mknod", "dev", "usr/lib"} <= set(layer)


def test_a_missing_busybox_is_named_with_its_package(tmp_path: Path) -> None:
    with pytest.raises(artefacts.LabError, match="apt-get install busybox-static"):
        images.archives(images.probe(), tmp_path / "nothing")


def test_the_cache_builds_once_and_keeps_nothing_of_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUFLEET_LAB_DIR", str(tmp_path))
    calls: list[Path] = []

    def fails(out: Path) -> None:
        (out / "half").write_text("")
        raise artefacts.LabError("no")

    with pytest.raises(artefacts.LabError):
        artefacts.cached("area", "thing", "0", fails)
    assert [path.name for path in (tmp_path / "area").iterdir()] == [".thing.lock"]
    first, second = (artefacts.cached("area", "thing", "0", calls.append) for turn in range(2))
    assert first == second
    assert len(calls) == 1


def test_a_run_that_builds_nothing_names_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small things without words of their own are made all the same; a part's time limit can carry
    them.
    """
    monkeypatch.setenv("GPUFLEET_LAB_DIR", str(tmp_path))
    monkeypatch.setenv(artefacts.BUILD, "never")
    calls: list[Path] = []
    with pytest.raises(artefacts.LabError, match="long is not built.*make build"):
        artefacts.cached("area", "long", "0", calls.append, "long: compiling it")
    artefacts.cached("area", "short", "0", calls.append)
    assert len(calls) == 1
    monkeypatch.delenv(artefacts.BUILD)
    artefacts.cached("area", "long", "0", calls.append, "long: compiling it")
    assert len(calls) == 2


# Programs of the lab's own: whose modules they are built of, in the same versions.
OWN = {
    "rancher": "",
    "device-plugin": "kubernetes-1.34",
    "mig-boards": "nvidia-toolkit",
}


def required(name: str) -> dict[str, str]:
    """The modules of one go.mod with their versions; a staging module of Kubernetes' has the one
    that it is replaced by.
    """
    text = (artefacts.HERE / "gomods" / name / "go.mod").read_text()
    return dict(re.findall(r"^(?:\t|require )([\w./-]+\.[\w./-]+) (v\S+)", text, re.MULTILINE))


def test_own_programs_are_named() -> None:
    assert set(OWN) == {
        name for name in artefacts.GO_TOOLS if any((artefacts.HERE / "gomods" / name).glob("*.go"))
    }


@pytest.mark.parametrize(("name", "lender"), OWN.items())
def test_own_programs_fetch_and_compile_nothing_new(name: str, lender: str) -> None:
    lent = required(lender) if lender else {}
    assert required(name).items() <= lent.items()
    sums = (artefacts.HERE / "gomods" / name / "go.sum").read_text()
    assert bool(sums) == bool(lender)


@pytest.mark.parametrize("name", [name for name in artefacts.GO_TOOLS if name not in OWN])
def test_go_programs_are_pinned_by_version_and_hash(name: str) -> None:
    module = artefacts.HERE / "gomods" / name
    tools = re.findall(
        r"^(?:tool |\t)([\w./-]+/cmd/[\w.-]+)$", (module / "go.mod").read_text(), re.MULTILINE
    )
    assert tools
    assert (module / "go.sum").stat().st_size > 0


def test_packages_want_each_other_as_upstreams_do() -> None:
    controls = {
        name: (aptrepo.SOURCES / name / "DEBIAN/control").read_text() for name in aptrepo.PACKAGES
    }
    assert all(
        f"Package: {name}\n" in text and "Version: @VERSION@\n" in text
        for name, text in controls.items()
    )
    assert (
        "nvidia-container-toolkit-base (= @VERSION@), libnvidia-container-tools (= @VERSION@)"
        in controls["nvidia-container-toolkit"]
    )


@pytest.mark.parametrize(
    "script",
    sorted(aptrepo.SOURCES.glob("*/DEBIAN/p*")),
    ids=lambda path: f"{path.parent.parent.name}/{path.name}",
)
def test_maintainer_scripts_parse(script: Path) -> None:
    assert subprocess.run(["sh", "-n", script], check=False).returncode == 0


def test_every_layer_of_a_single_test_is_built_before_the_tests() -> None:
    """The step before the parts builds the layers that roots.MORE_LAYERS names, and a part may
    build none.
    """
    built = [packages for sets in roots.MORE_LAYERS.values() for packages in sets]
    named = {name for name, value in vars(roots).items() if value in built}
    calls = [
        call
        for folder in ("integration", "faults")
        for path in (artefacts.REPO / "tests" / folder).rglob("*.py")
        for call in re.findall(r"package_layer\(.*, ([^)]+)\)", path.read_text())
    ]
    assert calls
    assert {call.removeprefix("roots.") for call in calls} <= named
