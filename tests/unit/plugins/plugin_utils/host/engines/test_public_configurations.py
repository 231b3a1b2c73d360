# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What comes of the configurations that node images and installers write: each row of the table, by
the module alone and by `node`.
"""

from __future__ import annotations

import dataclasses as dc
import pathlib
import re
from collections.abc import Iterable
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    releases as crio_releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known

from tests.fixtures import earlier_content as earlier
from tests.fixtures import public_configurations as public
from tests.fixtures.public_configurations import CONTAINERD, Public
from tests.night import leave_unless
from tests.unit import hosts_of_queries
from tests.unit.public_trees import NVIDIA, PATCH, in_force, run, tree

KUBELET = "/var/lib/kubelet/config.yaml"
BY_NIGHT = pytest.mark.nightly(
    "both ways make the same edit; by day it is that of the module host, and `judge: public` has an engine read it"
)
WAYS = leave_unless(BY_NIGHT, ("single", "node"), "node".__eq__)


def rows(table: Iterable[Public]) -> list[Any]:
    return [
        pytest.param(row, release, id=f"{row.file} {release} {row.home.manager}".strip())
        for row in table
        for release in row.releases
    ]


TAKEN = rows(
    {
        (row.file, row.base): row for row in (*public.CONTAINERDS, *earlier.ROWS) if not row.refused
    }.values()
)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("row", "release"), TAKEN)
def test_our_handler_is_like_the_one_that_pods_run_with_and_all_others_stay(
    tmp_path: pathlib.Path, row: Public, release: str, way: str
) -> None:
    home = tree(tmp_path, CONTAINERD, row.text)
    was, bytes_before = in_force(home, release), home.state()
    result = run(home, way, row, release)
    # containerd 1.6 does not support CDI: there the NVIDIA runtime has to start every container.
    expected = "nvidia" if (way, release) == ("node", "1.6") else row.default
    if row.no_other_default and expected != row.default:
        assert row.no_other_default in result["msg"]
        assert home.state() == bytes_before
        return
    assert not result["failed"], result["msg"]
    now = in_force(home, release)
    handlers, base = now["containerd"]["runtimes"], was["containerd"]["runtimes"][row.base]
    ours = handlers.pop("nvidia")
    assert ours["options"]["SystemdCgroup"] is row.systemd
    assert ours["options"]["BinaryName"].endswith("nvidia-container-runtime")
    assert {key: ours[key] for key in row.copied} == {key: base[key] for key in row.copied}
    assert {k for k, v in base.items() if v and k not in ("options", "runtime_type")} == set(
        row.copied
    ), "the row says all that there is"
    assert handlers == {
        name: entry for name, entry in was["containerd"]["runtimes"].items() if name != "nvidia"
    }
    assert now["containerd"]["default_runtime_name"] == expected
    assert not run(home, way, row, release)["changed"]
    assert not run(home, way, row, release, state="absent")["failed"]
    assert home.state() == bytes_before


@pytest.mark.parametrize(("row", "release"), TAKEN)
def test_the_reason_names_the_handler_that_it_comes_from(
    tmp_path: pathlib.Path, row: Public, release: str
) -> None:
    differences = run(tree(tmp_path, CONTAINERD, row.text), "single", row, release)["differences"]
    whys = {d["key"].rsplit(".", 1)[-1]: d["why"] for d in differences}
    assert all(
        get_code(whys[key]) == "containerd.copied-from-handler" for key in row.copied if key in whys
    )
    assert all(whys[key].values["handler"] == row.base for key in row.copied if key in whys)
    says = toml.look_up_toml(
        toml.load_toml(row.text, ""),
        (*_names(row), "containerd", "runtimes", row.base, "options", "SystemdCgroup"),
    )
    if "SystemdCgroup" in whys and says is not None:
        assert get_code(whys["SystemdCgroup"]) == "containerd.cgroup-driver-as-handler"
        assert whys["SystemdCgroup"].values["handler"] == row.base


def _names(row: Public) -> tuple[str, str]:
    return (
        "plugins",
        "io.containerd.grpc.v1.cri"
        if "io.containerd.grpc.v1.cri" in row.text
        else "io.containerd.cri.v1.runtime",
    )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("row", "release"), rows(row for row in public.CONTAINERDS if row.refused))
def test_what_is_refused_stays_as_it_was(
    tmp_path: pathlib.Path, row: Public, release: str, way: str
) -> None:
    home = tree(tmp_path, CONTAINERD, row.text)
    before = home.state()
    result = run(home, way, row, release)
    assert result["failed"]
    assert row.refused in result["msg"]
    assert home.state() == before


# ---------------------------------------------------------------- on the hosts where such files are
# found


def left_alone(row: Public) -> bool:
    return known.get_manager(row.home.manager).place is None


def node(row: Public, release: str) -> hosts_of_queries.QueriedHost:
    """A live node of a cluster: its engine with this configuration in force, and its kubelet."""
    told = toml.look_up_toml(
        toml.load_toml(row.text, ""), (*_names(row), "containerd", "runtimes"), {}
    )
    config = {
        "defaultRuntimeName": row.default,
        "runtimes": {
            n: {"runtimeType": e.get("runtime_type", ""), "options": e.get("options", {})}
            for n, e in told.items()
        },
    }
    found = hosts_of_queries.containerd(
        PATCH[release],
        row.text,
        containerd=config,
        enableCDI=True,
        cdiSpecDirs=["/etc/cdi", "/var/run/cdi"],
    )
    daemon = {**found.processes[0], "argv": ["/usr/bin/containerd", "--config", row.home.config]}
    units = {**found.units, **({row.home.unit: hosts_of_queries.unit(3)} if row.home.unit else {})}
    kubelet = {
        **hosts_of_queries.process("/usr/bin/kubelet", "kubelet.service", 9),
        "argv": ["kubelet", f"--config={KUBELET}"],
    }
    driver = f"cgroupDriver: {'systemd' if row.systemd else 'cgroupfs'}\n"
    files = {p: t for p, t in found.files.items() if p != CONTAINERD} | {
        row.home.config: row.text,
        KUBELET: driver,
    }
    # as 1.x answers
    cri = {
        **found.cri,
        "RuntimeConfig:/run/containerd/containerd.sock": {"driver": ""},
    }
    return dc.replace(found, files=files, processes=(daemon, kubelet), units=units, cri=cri)


NEXT_BOOT = (
    "EKS nodeadm writes this containerd's configuration at each boot, and the next one has nvidia as the only handler, since "
    "/usr/bin/nvidia-container-runtime is there. Put what has to differ (spec.containerd.config) into the NodeConfig of the user data, "
    "since /etc/systemd/system/nodeadm-run.service does not name /etc/eks/nodeadm.d, and replace the node"
)


@pytest.mark.parametrize(
    ("row", "release"), rows(row for row in public.CONTAINERDS if left_alone(row))
)
def test_a_host_of_another_system_is_left_alone_and_says_what_to_do_there(
    row: Public, release: str
) -> None:
    manager = known.get_manager(row.home.manager)
    came = hosts_of_queries.planned(node(row, release), os_id=row.home.os_id)
    assert came.plan is not None, came.said
    assert (NEXT_BOOT if manager.boot else str(manager.refusal)) in came.plan.advice
    assert [c["path"] for c in came.plan.changes if "containerd" in c["path"]] == []
    assert came.plan.restarts == ()


OPEN = rows(row for row in public.CONTAINERDS if not row.home.manager)


@pytest.mark.parametrize(("row", "release"), [case for case in OPEN if case.values[1] != "1.6"])
def test_on_a_live_node_only_our_handler_comes(row: Public, release: str) -> None:
    """Nothing that pods run with is touched: neither a handler that is there, nor the default, nor
    the cgroup driver.
    """
    came = hosts_of_queries.planned(node(row, release), os_id=row.home.os_id)
    assert came.plan is not None, came.said
    keys = {d.key for d in came.plan.differences if "containerd/" in d.path}
    assert {key for key in keys if ".runtimes.nvidia." not in key} <= {"imports"}
    driver = [
        d.after
        for d in came.plan.differences
        if d.key.endswith("runtimes.nvidia.options.SystemdCgroup")
    ]
    assert driver == [row.systemd]
    assert not [d for d in came.plan.differences if d.key.endswith("default_runtime_name")]


def test_docker_on_flatcar_is_not_beside_kubernetes_by_that_alone() -> None:
    """Its containerd serves Docker there, with a configuration that nobody can write."""
    row = next(row for row in public.CONTAINERDS if row.home == public.USR)
    found = hosts_of_queries.QUERIED_HOSTS["Docker"]
    both = node(row, row.releases[0])
    files, units, packages = (
        {**both.files, **found.files},
        {**both.units, **found.units},
        {**both.packages, **found.packages},
    )
    processes = (both.processes[0], *found.processes)
    both = dc.replace(
        both, files=files, processes=processes, units=units, packages=packages, http=found.http
    )
    came = hosts_of_queries.planned(both, os_id="flatcar")
    assert came.plan is not None, came.said
    changed = {c["path"] for c in came.plan.changes}
    assert "/etc/docker/daemon.json" in changed
    assert not any("/containerd/" in path for path in changed)
    assert any(
        a.startswith("Flatcar writes this containerd's configuration") for a in came.plan.advice
    )


# ---------------------------------------------------------------- CRI-O


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("row", "release"), rows(public.CRIOS))
def test_cri_os_handler_is_a_whole_copy(
    tmp_path: pathlib.Path, row: Public, release: str, way: str
) -> None:
    home = tree(tmp_path, row.home.config, row.text)
    before = home.state()
    result = run(home, way, row, release)
    assert not result["failed"], result["msg"]
    written = toml.load_toml(home.read(f"{public.CRIO}.d/{crio_releases.DROP_IN}"), "")["crio"][
        "runtime"
    ]
    base = toml.load_toml(row.text, "")["crio"]["runtime"]["runtimes"][row.base]
    theirs = {k: v for k, v in base.items() if k not in crio_releases.NOT_COPIED}
    assert written == {
        "runtimes": {"nvidia": {"runtime_path": NVIDIA, "runtime_type": "oci", **theirs}}
    }
    assert {k for k, v in theirs.items() if v} == set(row.copied)
    assert not run(home, way, row, release)["changed"]
    assert not run(home, way, row, release, state="absent")["failed"]
    assert home.state() == before


def test_what_cri_o_fills_in_from_its_global_settings_may_come_with_our_handler() -> None:
    """`crio config` prints conmon and conmon_env in every handler, ours included. That does not
    make the change another one (TranslateMonitorFields).
    """
    row = next(row for row in public.CRIOS if row.file == "kubespray-crio")
    node = hosts_of_queries.QUERIED_HOSTS["CRI-O"]
    files = {p: t for p, t in node.files.items() if "/etc/crio" not in p}
    came = hosts_of_queries.planned(dc.replace(node, files={**files, row.home.config: row.text}))
    assert came.plan is not None, came.said
    (check,) = came.plan.validate
    lines = [
        'monitor_path = "/usr/local/bin/conmon"',
        '\t"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",',
    ]
    assert [
        line for line in lines if not any(re.fullmatch(pattern, line) for pattern in check["allow"])
    ] == []
    assert not any(
        re.fullmatch(pattern, 'monitor_path = "/opt/other"') for pattern in check["allow"]
    )


# ---------------------------------------------------------------- the table


def test_every_file_has_a_row_and_every_row_its_source() -> None:
    assert {row.file for row in public.EVERY} == {path.stem for path in public.FILES.glob("*.toml")}
    assert {row.file for row in earlier.ROWS} == {
        path.stem for path in earlier.FILES.glob("*.toml")
    }
    assert all("/" in row.source and row.read for row in (*public.EVERY, *earlier.ROWS))
