# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images of a real registry for a real host: what the registry says, what the host offers, and what
becomes of both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration import registry
from tests.tools.onlab import Fleet

pytestmark = pytest.mark.lab

HOST = "images1"
REQUIRE = "NVIDIA_REQUIRE_CUDA=cuda>={}"


@pytest.fixture(scope="module")
def fleet(boot: Any) -> Fleet:
    found: Fleet = boot({HOST: {"kind": "containerd-1.7", "gpus": 1, "driver": "ok"}})
    return found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[registry.Registry]:
    missing = registry.fetched()
    if missing:
        pytest.skip(missing)
    made = registry.Registry(tmp_path_factory.mktemp("registry"))
    yield made
    made.close()


def played(
    fleet: Fleet, served: registry.Registry, place: Path, images: list[dict[str, Any]], **more: Any
) -> Any:
    (place / "images.yml").write_text(yaml.safe_dump({"schema": 1, "images": images}))
    wanted = {
        "gpufleet_image_catalogue": str(place / "images.yml"),
        "gpufleet_image_registry": True,
        "gpufleet_hosts": HOST,
    }
    access = {"SSL_CERT_FILE": str(served.certificate), "REGISTRY_AUTH_FILE": str(served.auth)}
    return fleet.play("images", variables={**wanted, **more}, environment=access)


def test_a_host_gets_the_image_that_the_registry_and_the_host_agree_on(
    fleet: Fleet, served: registry.Registry, tmp_path: Path
) -> None:
    wanted = served.image(
        "team/app", "old", ("amd64", "arm64"), ["CUDA_VERSION=11.8.0", REQUIRE.format("11.8")]
    )
    served.image(
        "team/app", "new", ("amd64", "arm64"), ["CUDA_VERSION=99.0.0", REQUIRE.format("99.0")]
    )
    served.image("team/app", "arm", ("arm64",), [])
    images = [{"name": "app", "image": f"{served.name}/team/app", "tags": "*"}]
    done = played(fleet, served, tmp_path, images, gpufleet_image_dir=str(tmp_path / "out"))
    assert done.status == 0, done.words
    assert done.operations[HOST] == 1, "the look; the controller asks the registry"
    found = json.loads((tmp_path / "out/images.json").read_text())["hosts"][HOST]
    (choice,) = found["choices"]
    assert choice["chosen"]["reference"] == f"{served.name}/team/app@{wanted}"
    reasons = {entry["name"]: " ".join(entry["reasons"]) for entry in choice["rejected"]}
    assert "NVIDIA_REQUIRE_CUDA=cuda>=99.0 is not met by" in reasons["app-new"]
    assert "it is for aarch64" in reasons["app-arm"]
    offered = found["facts"]
    assert offered["gpus"][0]["compute_capability"]
    assert offered["cpu"]["level"].startswith("x86-64-v")
    assert f"glibc {offered['glibc']}" == fleet.shell(HOST, "getconf GNU_LIBC_VERSION").strip()


def test_what_a_registry_refuses_is_said_before_the_host_is_looked_at(
    fleet: Fleet, served: registry.Registry, tmp_path: Path
) -> None:
    (tmp_path / "none.json").write_text("{}")
    for image, more, said in (
        (
            "team/app:old",
            {"gpufleet_image_registry_auth_file": str(tmp_path / "none.json")},
            "it wants credentials that it accepts (HTTP 401)",
        ),
        ("team/nowhere:1", {}, "it has no such image (HTTP 404)"),
    ):
        done = played(
            fleet, served, tmp_path, [{"name": "a", "image": f"{served.name}/{image}"}], **more
        )
        assert said in done.words
        assert done.operations.get(HOST, 0) == 0
        assert registry.PASSWORD not in done.words


def test_an_image_that_a_host_cannot_run_is_said_before_a_container_is_started(
    fleet: Fleet,
) -> None:
    wanted = {"image": "probe", "image_environment": [REQUIRE.format("99.0")]}
    done = fleet.task("host_verify", [HOST], wanted)
    assert "NVIDIA_REQUIRE_CUDA=cuda>=99.0 is not met by cuda" in done.failed[HOST]
    assert done.of("host_verify")[HOST]["checks"] == []
    known = fleet.task(
        "host_verify",
        [HOST],
        {**wanted, "image_environment": [REQUIRE.format("11.0")]},
        arguments=["--check"],
    )
    assert known.of("host_verify")[HOST]["requirements"]["met"] is True
