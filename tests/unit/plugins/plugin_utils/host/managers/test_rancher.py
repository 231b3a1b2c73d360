# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of k3s and RKE2 whose release reads drop-ins: what is written, where, by which unit it
comes into force, and what is refused.
"""

from __future__ import annotations

import dataclasses as dc
import pathlib
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    PlanError,
    Refusal,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Decision,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known

from tests.fixtures import public_configurations as public
from tests.unit import bare_trees, builders
from tests.unit.seen_containerds import find_containerd, plan_containerd

NVIDIA = "/usr/bin/nvidia-container-runtime"
SOCKET = "/run/k3s/containerd/containerd.sock"
V3 = next(
    row for row in public.CONTAINERDS if row.file == "k3s-v3"
).text  # with the handler that k3s adds by itself
V3_BARE = V3[: V3.index("\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.'nvidia']")]
V2_OLD = next(row for row in public.CONTAINERDS if row.file == "k3s-v2").text
V2 = V2_OLD.replace(
    "version = 2\n",
    'version = 2\nimports = ["/var/lib/rancher/k3s/agent/etc/containerd/config.toml.d/*.toml"]\n',
)
DECISION = Decision(
    instance="", engine="containerd", engine_version="", injection="native-cdi", handler="nvidia", default=False, runtime_mode="cdi",
    annotation_prefixes=("nvidia.cdi.k8s.io/",), device_list_strategy=(), plugin_annotation_prefix="", runtime_class="nvidia",
    enable_cdi=False, max_cdi_version="", hook=False, reasons=())  # fmt: skip


@dc.dataclass(frozen=True)
class Node:
    """data: the data directory. program: the file of its containerd, below it. text: the generated
    file, None before the first start.
    """

    unit: str = "k3s.service"
    data: str = "/var/lib/rancher/k3s"
    program: str = "data/5f4a/bin/k3s"
    text: str | None = V3
    version: str = "2.1.5-k3s1"
    files: tuple[tuple[str, str], ...] = ()  # below the directory of the generated file
    driver: str = "systemd"

    @property
    def home(self) -> str:
        return f"{self.data}/agent/etc/containerd"

    @property
    def config(self) -> str:
        return f"{self.home}/config.toml"

    def seen(self, **more: Any) -> Observation:
        """The host, whose containerd is a child of the service's main process."""
        moved = (self.text or "").replace("/var/lib/rancher/k3s", self.data)
        files = {f"{self.home}/{name}": text for name, text in self.files} | (
            {self.config: moved} if self.text is not None else {}
        )
        argv = [
            "containerd",
            "-c",
            self.config,
            "-a",
            SOCKET,
            "--state",
            "/run/k3s/containerd",
            "--root",
            f"{self.data}/agent/containerd",
        ]
        process = {"pid": 9, "exe": f"{self.data}/{self.program}", "argv": argv, "unit": self.unit}
        runc = {"options": {"SystemdCgroup": self.driver == "systemd"}}
        config = {
            "containerd": {"defaultRuntimeName": "runc", "runtimes": {"runc": runc}},
            "enableCDI": True,
        }
        status = {
            "runtime": {"RuntimeReady": True},
            "conditions": [],
            "handlers": [],
            "info": {"config": config},
        }
        cri = {
            f"Version:{SOCKET}": {
                "runtime_name": "containerd",
                "runtime_version": f"v{self.version}",
            },
            f"Status:{SOCKET}": status,
        }
        units = {self.unit: {"ActiveState": "active", "InvocationID": "abc", "KillMode": "process"}}
        return builders.obs(files=files, processes=[process], cri=cri, units=units, **more)


def plan(node: Node, decision: Decision = DECISION, **options: Any) -> Plan:
    return plan_containerd(node.seen(), decision, **options)


def drop_in(planned: Plan) -> tuple[str, dict[str, Any]]:
    """The path and the data of the one file that is written."""
    (change,) = planned.changes
    assert change["op"] == "write"
    return change["path"], toml.load_toml(change["content"], "")


RKE2 = {"data": "/var/lib/rancher/rke2", "program": "data/v1.35-rke2r1-ab/bin/containerd"}
# the node; its manager, and the program that reads the staged files
NODES = {
    "a server of k3s": (Node(), "k3s", "data/5f4a/bin/containerd"),
    "an agent of k3s": (Node(unit="k3s-agent.service"), "k3s", "data/5f4a/bin/containerd"),
    "a server of RKE2": (Node(unit="rke2-server.service", **RKE2), "rke2", "data/v1.35-rke2r1-ab/bin/containerd"),
    "an agent of RKE2": (Node(unit="rke2-agent.service", **RKE2), "rke2", "data/v1.35-rke2r1-ab/bin/containerd"),
    "k3s with another data directory": (Node(data="/srv/edge"), "k3s", "data/5f4a/bin/containerd"),
    "RKE2 with another data directory": (
        dc.replace(Node(unit="rke2-agent.service", **RKE2), data="/srv/rke"), "rke2", "data/v1.35-rke2r1-ab/bin/containerd"),
    "before it has found the NVIDIA runtime": (Node(text=V3_BARE), "k3s", "data/5f4a/bin/containerd"),
}  # fmt: skip


@pytest.mark.parametrize("name", NODES)
def test_the_drop_in_goes_next_to_the_generated_file_and_the_managers_unit_restarts(
    name: str,
) -> None:
    node, manager, program = NODES[name]
    one = find_containerd(node.seen())
    assert (one.manager, str(one.refusal), one.socket, one.unit) == (manager, "", SOCKET, node.unit)
    planned = plan(node)
    path, data = drop_in(planned)
    assert path == f"{node.home}/config-v3.toml.d/90-gpufleet.toml"
    handler = data["plugins"]["io.containerd.cri.v1.runtime"]["containerd"]["runtimes"]
    assert handler == {
        "nvidia": {
            "runtime_type": "io.containerd.runc.v2",
            "container_annotations": ["nvidia.cdi.k8s.io/*"],
            "options": {"BinaryName": NVIDIA, "SystemdCgroup": True},
        }
    }
    assert [(r.unit, r.action) for r in planned.restarts] == [(node.unit, "restart")]
    assert planned.expect_units == {node.unit: "abc"}
    assert planned.validate[0]["argv"][0] == f"{node.data}/{program}"
    assert planned.leftovers == ()
    assert not [d for d in planned.differences if d.path == node.config]


# what the generated file declares, and the release of containerd -> the directory, the version, the
# table
DECLARED = {
    "version 3": (V3, "2.1.5", "config-v3.toml.d", 3, "io.containerd.cri.v1.runtime"),
    "version 3 on 2.3": (V3, "2.3.7", "config-v3.toml.d", 3, "io.containerd.cri.v1.runtime"),
    "version 2, since the user's template is one": (
        V2,
        "2.1.5",
        "config.toml.d",
        2,
        "io.containerd.grpc.v1.cri",
    ),
}


@pytest.mark.parametrize("name", DECLARED)
def test_the_drop_in_has_the_version_of_the_generated_file(name: str) -> None:
    text, version, directory, declared, table = DECLARED[name]
    node = Node(text=text, version=version)
    path, data = drop_in(plan(node))
    assert path == f"{node.home}/{directory}/90-gpufleet.toml"
    assert (data["version"], list(data["plugins"])) == (declared, [table])


def after(node: Node) -> Node:
    """The node once the plan is in force, and k3s has found the runtime at its start."""
    path, _data = drop_in(plan(node))
    (change,) = plan(node).changes
    return dc.replace(
        node,
        text=V3 if node.text == V3_BARE else node.text,
        files=(*node.files, (path.removeprefix(f"{node.home}/"), change["content"])),
    )


OTHERS = """version = 3
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
base_runtime_spec = "/etc/containerd/base.json"
"""
CONVERGED = {
    "with its own handler": Node(),
    "found only after our restart": Node(text=V3_BARE),
    "version 2": Node(text=V2),
    "somebody's drop-in says more of runc": Node(
        text=V3_BARE, files=(("config-v3.toml.d/10-runc.toml", OTHERS),)
    ),
}


@pytest.mark.parametrize("name", CONVERGED)
def test_a_second_run_writes_nothing(name: str) -> None:
    """The handler that k3s adds at the restart does not tell how this node runs pods, so ours stays
    as runc is.
    """
    assert plan(after(CONVERGED[name])).changes == ()


ANNOTATED = """version = 3
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]
container_annotations = ["nvidia.cdi.k8s.io/*"]
"""
PLAIN = dc.replace(DECISION, annotation_prefixes=())
ENOUGH = {
    "nothing is to be handed on": (Node(), PLAIN),
    "somebody's drop-in has the rest": (
        Node(files=(("config-v3.toml.d/50-gpu.toml", ANNOTATED),)),
        DECISION,
    ),
}


@pytest.mark.parametrize("name", ENOUGH)
def test_where_its_own_handler_is_right_nothing_is_written_and_the_reason_says_so(
    name: str,
) -> None:
    node, decision = ENOUGH[name]
    assert plan(node, decision).changes == ()
    why = {
        r.what: r
        for r in detect.explain_decision(
            Policy(),
            detect.read_facts(Policy(), node.seen()),
            find_containerd(node.seen()),
            decision,
        )
    }["drop_in"]
    assert (why.value, get_code(why.why)) == ("none", "containerd.rendered-completely")


LACKS = {
    "its own handler": (Node(), DECISION, "drop-in-completes-handler"),
    "no handler": (Node(text=V3_BARE), DECISION, "drop-in-adds-handler"),
}


@pytest.mark.parametrize("name", LACKS)
def test_the_reason_names_the_drop_in_and_what_the_generated_file_lacks(name: str) -> None:
    node, decision, lacks = LACKS[name]
    why = {
        r.what: r
        for r in detect.explain_decision(
            Policy(),
            detect.read_facts(Policy(), node.seen()),
            find_containerd(node.seen()),
            decision,
        )
    }["drop_in"]
    assert why.value == f"{node.home}/config-v3.toml.d/90-gpufleet.toml"
    assert get_code(why.why) == f"containerd.{lacks}"


REFUSED = {
    "it has never started": (Node(text=None), {}, "rendered-file-missing"),
    "the user's path is not imported": (
        Node(),
        {"drop_in_path": "/srv/gpu.toml"},
        "imports-without-drop-in",
    ),
    "no drop-in is wanted": (Node(), {"drop_in": "never"}, "drop-in-never"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_where_no_drop_in_is_read_the_node_is_left_alone_and_told_the_next_step(name: str) -> None:
    node, options, why = REFUSED[name]
    one = find_containerd(node.seen(), Policy(**options))
    values = one.refusal.message.values
    assert [get_code(values[name]) for name in ("cause", "step")] == [
        f"containerd.{why}",
        "manager.update-k3s-or-rke2",
    ]
    with pytest.raises(PlanError, match=r"\[containerd\.rendered-without-drop-ins\]"):
        detect.plan_instance(
            Policy(**options),
            detect.read_facts(Policy(**options), node.seen()),
            dc.replace(one, refusal=Refusal()),
            DECISION,
        )


def test_one_that_does_not_run_is_named() -> None:
    seen = builders.obs(
        files={Node().config: V3}, units={"k3s-agent.service": {"ActiveState": "failed"}}
    )
    (one,) = detect.find_instances(Policy(), detect.read_facts(Policy(), seen))
    message = one.refusal.message
    assert (message.code, message.values["engine"], message.values["unit"]) == (
        "engines.failed",
        "k3s's containerd",
        "k3s-agent.service",
    )
    assert (one.version, one.cdi.enabled, one.cdi.max_version) == ("", False, ""), (
        "no CDI spec is written for it, and none held back"
    )


def test_ours_is_taken_back_and_what_k3s_renders_stays() -> None:
    node = after(Node())
    one = find_containerd(node.seen())
    back = detect.plan_absent(
        Policy(state="absent"), detect.read_facts(Policy(state="absent"), node.seen()), one
    )
    path = f"{node.home}/config-v3.toml.d/90-gpufleet.toml"
    assert [(c["path"], c["op"]) for c in back.changes] == [(path, "remove")]
    assert detect.list_marked_files(Policy(), detect.read_facts(Policy(), node.seen())) == (path,)


# the path of a configuration -> whose it is
PATHS = {
    "/var/lib/rancher/k3s/agent/etc/containerd/config.toml": "k3s",
    "/var/lib/rancher/rke2/agent/etc/containerd/config.toml": "rke2",
    "/srv/edge/agent/etc/containerd/config.toml": "k3s",
    "/srv/rke2/agent/etc/containerd/config.toml": "rke2",
}


@pytest.mark.parametrize("path", PATHS)
def test_a_configuration_is_known_by_its_path_wherever_the_data_directory_is(path: str) -> None:
    manager = known.find_config_manager(path)
    assert (manager.name if manager else "") == PATHS[path]


def test_other_paths_are_nobodys() -> None:
    for path in (
        "/etc/containerd/config.toml",
        "/srv/etc/containerd/config.toml",
        "agent/etc/containerd/config.toml",
    ):
        assert known.find_config_manager(path) is None


@pytest.mark.parametrize("data", ["/var/lib/rancher/k3s", "/var/lib/rancher/rke2", "/srv/edge"])
def test_in_a_tree_the_files_tell_and_the_generated_one_stays(
    tmp_path: pathlib.Path, data: str
) -> None:
    """The image of a node: what k3s has rendered at its only start is there. A moved one is named
    by config_path.
    """
    home = bare_trees.Tree(tmp_path)
    config = f"{data}/agent/etc/containerd/config.toml"
    home.write(config, V3_BARE.replace("/var/lib/rancher/k3s", data), 0o600)
    home.write(NVIDIA, "", 0o755)
    before = home.state()
    options: dict[str, Any] = {
        "engine_version": "2.1.5",
        **({"config_path": config} if data == "/srv/edge" else {}),
    }
    done = home.run_host(**options)
    assert (done["failed"], done["changed"]) == (False, True), done.get("msg")
    path = f"{data}/agent/etc/containerd/config-v3.toml.d/90-gpufleet.toml"
    assert "container_annotations" in home.read(path)
    assert home.state()[config] == before[config]
    assert home.run_host(**options)["changed"] is False
    assert home.run_host(state="absent", **options)["failed"] is False
    assert home.state() == before
