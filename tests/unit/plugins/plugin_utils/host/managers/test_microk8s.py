# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""MicroK8s: our handler goes into the template that it makes containerd's configuration from, and
nothing else of it changes.
"""

from __future__ import annotations

import dataclasses as dc
import pathlib
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import projector
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import (
    queries,
    transaction,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    JOURNAL_DIR,
    Decision,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    containerd_places,
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.kubelet import (
    kubelet,
    kubelet_facts,
)

from tests.unit import bare_trees, builders
from tests.unit.seen_containerds import find_containerd, plan_containerd

ARGS = "/var/snap/microk8s/current/args"
TEMPLATE, SNAP = f"{ARGS}/containerd-template.toml", "/snap/microk8s/current/meta/snap.yaml"
FLAGS = f"{ARGS}/kubelet"
SOCKET, UNIT = (
    "/var/snap/microk8s/common/run/containerd.sock",
    "snap.microk8s.daemon-containerd.service",
)
CLASSIC, STRICT = "", "confinement: strict\n"
RUNTIME = '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes'
# The tables of MicroK8s' own template, as of 1.36.
TEXT = f"""# Use config version 2 to enable new configuration fields.
version = 2
oom_score = 0

[plugins."io.containerd.grpc.v1.cri"]
  stream_server_address = "127.0.0.1"
  sandbox_image = "registry.k8s.io/pause:3.10"

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "${{SNAPSHOTTER}}"
    no_pivot = false
    default_runtime_name = "${{RUNTIME}}"

    {RUNTIME}.runc]
      runtime_type = "${{RUNTIME_TYPE}}"

    {RUNTIME}.nvidia-container-runtime]
      runtime_type = "${{RUNTIME_TYPE}}"

      {RUNTIME}.nvidia-container-runtime.options]
        BinaryName = "nvidia-container-runtime"

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "${{SNAP_DATA}}/opt/cni/bin"
    conf_dir = "${{SNAP_DATA}}/args/cni-network"
"""
DECISION = Decision(
    instance="", engine="containerd", engine_version="", injection="native-cdi", handler="nvidia", default=False, runtime_mode="cdi",
    annotation_prefixes=("nvidia.cdi.k8s.io/",), device_list_strategy=(), plugin_annotation_prefix="", runtime_class="nvidia",
    enable_cdi=False, max_cdi_version="", hook=False, reasons=())  # fmt: skip
OURS = {
    "runtimeType": "io.containerd.runc.v2",
    "options": {"BinaryName": "/usr/bin/nvidia-container-runtime", "SystemdCgroup": False},
    "ContainerAnnotations": ["nvidia.cdi.k8s.io/*"],
}


def host(
    text: str = TEXT,
    version: str = "2.1.6",
    *,
    snap: str = CLASSIC,
    state: str = "active",
    loaded: bool = False,
    mode: str = "process",
    flags: str = "",
) -> Observation:
    """A node whose containerd was started by the path of the snap's revision; loaded: it works with
    our handler.
    """
    daemon = {
        "pid": 9,
        "exe": "/snap/microk8s/7234/bin/containerd",
        "argv": [
            "/snap/microk8s/7234/bin/containerd",
            "--config",
            "/var/snap/microk8s/7234/args/containerd.toml",
            "--address",
            SOCKET,
        ],
        "unit": UNIT,
    }
    runtimes: dict[str, Any] = {"runc": {"options": {}}, **({"nvidia": OURS} if loaded else {})}
    config = {"containerd": {"defaultRuntimeName": "runc", "runtimes": runtimes}, "enableCDI": True}
    cri = {
        f"Version:{SOCKET}": {"runtime_name": "containerd", "runtime_version": f"v{version}"},
        f"Status:{SOCKET}": {
            "runtime": {"RuntimeReady": True},
            "conditions": [],
            "handlers": [],
            "info": {"config": config},
        },
    }
    units = {
        UNIT: {"Type": "notify", "ActiveState": state, "InvocationID": "abc", "KillMode": mode},
        "snap.microk8s.daemon-kubelite.service": {"Type": "simple", "ActiveState": state},
    }
    files = {TEMPLATE: text, SNAP: snap, FLAGS: flags}
    return builders.obs(
        files=files,
        processes=[daemon] if state == "active" else [],
        cri=cri if state == "active" else {},
        units=units,
    )


def plan(seen: Observation, decision: Decision = DECISION, **options: Any) -> Plan:
    return plan_containerd(seen, decision, **options)


def edited(planned: Plan) -> str:
    """The template as this plan leaves it."""
    (change,), ((_path, _before, after),) = planned.changes, planned.diffs
    assert (change["path"], change["op"]) == (TEMPLATE, "edit")
    return after


def added(text: str) -> list[str]:
    """The lines that are new in a text in which every line of the template still stands, in its
    order.
    """
    left = TEXT.splitlines()
    new = [
        line
        for line in text.splitlines()
        if not (left and line == left[0] and left.pop(0) is not None)
    ]
    assert not left, left
    return [line.strip() for line in new if line.strip()]


@pytest.mark.parametrize("version", ["1.6.36", "1.7.28", "2.1.6", "2.3.4"])
def test_the_handler_goes_into_the_template_and_every_other_line_stays(version: str) -> None:
    planned = plan(host(version=version))
    assert added(edited(planned)) == [
        f"{RUNTIME}.nvidia]",
        'runtime_type = "io.containerd.runc.v2"',
        'container_annotations = ["nvidia.cdi.k8s.io/*"]',
        f"{RUNTIME}.nvidia.options]",
        'BinaryName = "/usr/bin/nvidia-container-runtime"',
        "SystemdCgroup = false",
    ]
    assert [(r.unit, r.action) for r in planned.restarts] == [(UNIT, "restart")]
    (check,) = planned.health
    assert check["socket"] == SOCKET
    assert planned.validate[0]["argv"] == [
        "/snap/microk8s/7234/bin/containerd",
        "-c",
        "{stage}" + TEMPLATE,
        "config",
        "dump",
    ]


def test_nothing_is_planned_where_all_is_so() -> None:
    again = plan(host(edited(plan(host())), loaded=True))
    assert (again.changes, again.restarts, again.differences) == ((), (), ())


def test_a_default_is_written_in_the_place_of_the_variable() -> None:
    decision = dc.replace(DECISION, default=True)
    text = edited(plan(host(), decision))
    assert 'default_runtime_name = "nvidia"' in text
    assert "${RUNTIME}" not in text
    assert 'runtime_type = "${RUNTIME_TYPE}"' in text  # of runc


def test_taken_back_it_is_the_template_from_before() -> None:
    written = edited(plan(host()))
    seen = host(written, loaded=True)
    kept = {
        "originals": {
            TEMPLATE: {"content": TEXT, "existed": True, "sha256_after": builders.sha(written)}
        }
    }
    seen.answers[queries.ask_for_originals(JOURNAL_DIR)["id"]] = kept
    back = detect.plan_absent(
        Policy(state="absent"),
        detect.read_facts(Policy(state="absent"), seen),
        find_containerd(seen),
    )
    assert [(c["path"], c["op"]) for c in back.changes] == [(TEMPLATE, "restore")]
    assert [r.unit for r in back.restarts] == [UNIT]


OPERATORS = f"""
    {RUNTIME}.nvidia]
      runtime_type = "io.containerd.runc.v2"
      {RUNTIME}.nvidia.options]
        BinaryName = "/usr/local/nvidia/toolkit/nvidia-container-runtime"
"""


def test_a_handler_of_its_addon_whose_operator_is_gone_is_taken_over() -> None:
    planned = plan(host(TEXT + OPERATORS))
    assert [(left.tool, left.fate, left.path) for left in planned.leftovers] == [
        ("gpu-operator", "adopted", TEMPLATE)
    ]
    assert 'BinaryName = "/usr/bin/nvidia-container-runtime"' in planned.diffs[0][2]


BAD: dict[str, tuple[str, int | None, str]] = {
    "does not parse": (TEXT.replace("no_pivot = false", "no_pivot = ="), 11, "not valid TOML"),
    "a variable without quotes": (
        TEXT.replace('"${SNAPSHOTTER}"', "${SNAPSHOTTER}"),
        10,
        "not valid TOML",
    ),
    "a table twice": (TEXT + f"{RUNTIME}.runc]\n", 26, "not valid TOML"),
    "of a release with version 1": (
        TEXT.replace("version = 2", "version = 1"),
        2,
        "[containerd.version-1-cri-dropped]",
    ),
}


@pytest.mark.parametrize("text, line, what", BAD.values(), ids=BAD)
def test_a_template_that_containerd_would_not_take_is_refused_by_its_line(
    text: str, line: int, what: str
) -> None:
    with pytest.raises(PlanError) as refused:
        plan(host(text))
    assert refused.value.where == TEMPLATE
    assert refused.value.line == line
    assert what in str(refused.value)


def test_a_snap_that_is_not_active_is_refused() -> None:
    one = find_containerd(host(state="inactive"))
    assert f"MicroK8s's containerd is installed but not running ({UNIT} is inactive)" in str(
        one.refusal
    )


@pytest.mark.parametrize("state", ["active", "inactive"])
def test_a_strictly_confined_one_is_refused_since_it_sees_no_program_of_the_host(
    state: str,
) -> None:
    one = find_containerd(host(snap=STRICT, state=state))
    assert one.refusal.message.code == "manager.microk8s-strict"


def test_a_restart_that_would_kill_containers_is_refused() -> None:
    with pytest.raises(PlanError, match=r"\[containerd\.restart-kills-containers\]"):
        plan(host(mode="control-group"))


def test_its_kubelet_is_a_unit_of_its_own_on_the_same_socket() -> None:
    assert (
        kubelet.find_kubelet(Policy(), kubelet_facts.read_kubelet_facts(host())).endpoint == SOCKET
    )
    assert not kubelet.find_kubelet(
        Policy(), kubelet_facts.read_kubelet_facts(host(state="inactive"))
    ).present


COMMON = "/var/snap/microk8s/common"
# What its args/kubelet says, and the directory of the kubelet.
ROOT_DIRS = {
    "as it comes": ("--root-dir=${SNAP_COMMON}/var/lib/kubelet", f"{COMMON}/var/lib/kubelet"),
    "no such flag": ("--fail-swap-on=false", f"{COMMON}/var/lib/kubelet"),
    "no file": ("", f"{COMMON}/var/lib/kubelet"),
    "elsewhere": ("--v=2\n--root-dir=/data/kubelet\n--fail-swap-on=false", "/data/kubelet"),
    "as two words": ("--root-dir /data//kubelet/", "/data/kubelet"),
    "the last one counts": ("--root-dir=/a\n--root-dir=/b", "/b"),
    "another variable": ("--root-dir=$SNAP_DATA/kubelet", "/var/snap/microk8s/current/kubelet"),
}


@pytest.mark.parametrize(("flags", "directory"), ROOT_DIRS.values(), ids=ROOT_DIRS)
def test_the_directory_of_its_kubelet_is_that_of_its_flags(flags: str, directory: str) -> None:
    shown = projector.project_file(flags.encode(), file_places.KUBELET_FLAGS).data.decode()
    facts = kubelet_facts.read_kubelet_facts(host(flags=shown))
    assert kubelet.find_kubelet(Policy(), facts).directory == directory
    stopped = kubelet_facts.read_kubelet_facts(host(flags=shown, state="inactive"))
    assert kubelet.find_kubelet(Policy(), stopped).directory == ""


def test_of_its_flags_only_the_directory_leaves_the_host() -> None:
    text = "--token=secret\n--root-dir=/data/kubelet\n# --root-dir=/secret\n--root-dir=a secret\n"
    shown = projector.project_file(text.encode(), file_places.KUBELET_FLAGS).data.decode()
    hidden = [line for line in shown.splitlines() if line != "--root-dir=/data/kubelet"]
    assert len(hidden) == 3
    assert not any(set(line) - {"#", "x"} for line in hidden)


def test_in_a_bare_tree_the_template_is_found_edited_and_given_back(tmp_path: pathlib.Path) -> None:
    home = bare_trees.Tree(tmp_path)
    args = home.path("/var/snap/microk8s/7234/args")
    args.mkdir(parents=True)
    (args.parent.parent / "current").symlink_to("7234")
    (args / "containerd-template.toml").write_text(TEXT)
    before = home.state()
    answer = home.run_host(engine_version="2.1.6", no_gpu="prepare")
    assert answer["changed"] is True
    added((args / "containerd-template.toml").read_text())
    assert home.run_host(engine_version="2.1.6", no_gpu="prepare")["changed"] is False
    home.run_host(engine_version="2.1.6", state="absent")
    assert home.state() == before


# ---------------------------------------------------------------- who may write there

ADMITTED = {
    TEMPLATE: ("microk8s",),
    "/var/snap/microk8s/7234/args/containerd-template.toml": ("microk8s",),
    "/var/snap/microk8s/current/args": (),  # the directory itself is judged with what is in it
    "/var/snap/microk8s/current/args/certs.d/docker.io/hosts.toml": (),
    "/var/snap/microk8s/common/run/containerd.sock": (),
    "/etc/containerd/config.toml": (),
}


@pytest.mark.parametrize("path, groups", ADMITTED.items())
def test_a_group_is_let_in_where_it_is_root_anyway_and_nowhere_else(
    path: str, groups: tuple[str, ...]
) -> None:
    assert tuple(queries.ask_for_file(path, file_places.WHOLE).get("groups", ())) == groups
    (change,) = transaction.allow_groups([{"path": path, "op": "remove"}])
    assert tuple(change.get("groups", ())) == groups


def test_the_values_of_a_template_may_travel_and_what_is_no_variable_may_not() -> None:
    shown = file_places.show_own_text(
        TEXT.replace('"${RUNTIME}"', '"${RUNTIME} secret"'),
        containerd_places.keep_containerd_places(),
    )
    assert '"${RUNTIME_TYPE}"' in shown
    assert "secret" not in shown
    assert "${SNAPSHOTTER}" not in shown
