# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""k3s and RKE2 whose release reads no drop-ins: what they find by themselves, in which PATH, and
what is refused by the line to write.
"""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Handler,
    Kubelet,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import decide
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detected,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import (
    known,
    rancher,
)

from tests.unit.rancher import DECISION, NVIDIA, SYSTEMD_PATH, Node, handler, rendered

K3S_ENV, TOOLKIT = (
    "/etc/systemd/system/k3s-agent.service.env",
    "/usr/local/nvidia/toolkit/nvidia-container-runtime",
)
V3_TEMPLATE = "/var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.tmpl"
RANGES = 'version = 3\n{{range $k, $v := .ExtraRuntimes}}\n[plugins."x".{{$k}}]\n{{end}}\n'
K3S_YAML = "/etc/rancher/k3s/config.yaml"
RKE2 = Node("rke2", "rke2-server.service", config=rendered(3, manager="rke2"))
OLD = Node(version="1.7.27-k3s1", config=rendered(2), cdi=False)


# ---------------------------------------------------------------- one restart, and nothing else

RESTARTED = {
    "k3s, containerd 2": (Node(), "k3s-agent.service", NVIDIA),
    "k3s, containerd 1.7": (OLD, "k3s-agent.service", NVIDIA),
    "a server of k3s": (Node(unit="k3s.service"), "k3s.service", NVIDIA),
    "RKE2": (RKE2, "rke2-server.service", NVIDIA),
    "the package comes in this run": (Node(programs=()), "k3s-agent.service", NVIDIA),
    "a GPU Operator's goes before the package's": (Node(programs=(NVIDIA, TOOLKIT)), "k3s-agent.service", TOOLKIT),
    "PATH of its unit": (Node(path="/opt/bin", programs=("/opt/bin/nvidia-container-runtime",)), "k3s-agent.service",
                         "/opt/bin/nvidia-container-runtime"),
    "PATH of its file, which goes before": (
        Node(files={K3S_ENV: f"K3S_TOKEN=secret\nPATH=/opt/bin:{SYSTEMD_PATH}\n"}, programs=(NVIDIA, "/opt/bin/nvidia-container-runtime")),
        "k3s-agent.service", "/opt/bin/nvidia-container-runtime"),
    "rendered already, and not in force": (Node(config=rendered(3, handler(3, "nvidia"))), "k3s-agent.service", NVIDIA),
    "rendered with a program that is gone": (
        Node(config=rendered(3, handler(3, "nvidia", TOOLKIT)), served={"nvidia": TOOLKIT}), "k3s-agent.service", NVIDIA),
}  # fmt: skip


@pytest.mark.parametrize("case", RESTARTED)
def test_where_the_manager_finds_the_runtime_by_itself_its_unit_restarts_and_no_file_is_written(
    case: str,
) -> None:
    node, unit, program = RESTARTED[case]
    assert str(node.instance().refusal) == ""
    planned = node.plan()
    assert (planned.changes, planned.first, planned.validate) == ((), (), ())
    assert [(r.unit, r.action) for r in planned.restarts] == [(unit, "restart")]
    assert planned.restarts[0].timeout == (
        600 if unit in ("k3s.service", "rke2-server.service") else 120
    )
    assert planned.expect_units == {unit: "abc"}
    said = [(d.what, d.path, d.key, d.after) for d in planned.differences]
    assert (
        said == [("unit", unit, "handler nvidia", program)]
        or case == "rendered already, and not in force"
    )
    (proof,) = planned.health
    required = {
        tuple(need["path"])[-1]: need["equals"] for need in proof["require"] if "path" in need
    }
    assert required["BinaryName"] == program
    assert required["SystemdCgroup"] is True
    assert ({"handler": "nvidia"} in proof["require"]) is not node.version.startswith("1.7")


def test_nothing_is_to_be_done_where_it_is_in_force() -> None:
    planned = Node(config=rendered(3, handler(3, "nvidia")), served={"nvidia": NVIDIA}).plan()
    assert (planned.empty, planned.restarts, planned.advice) == (True, (), ())
    assert planned.pending == ()


def test_the_restart_may_be_left_to_a_person() -> None:
    planned = Node().plan(restart="never")
    assert (planned.restarts, planned.health) == ((), ())
    assert planned.pending == ("k3s-agent.service",)
    assert [get_code(a) for a in planned.advice] == [
        "containerd.rendered-at-next-start-restart-never"
    ]


KINDS = [
    # unit, its Type, whether the end of its restart tells nothing of the API
    ("k3s.service", "notify", False),
    ("k3s.service", "notify-reload", False),
    ("k3s.service", "exec", True),
    ("k3s-agent.service", "exec", False),
]
IMPORTS = (
    'version = 3\nimports = ["/var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.d/*.toml"]\n'
)


@pytest.mark.parametrize(("unit", "kind", "named"), KINDS)
@pytest.mark.parametrize(
    "text",
    [rendered(3), rendered(3).replace("version = 3\n", IMPORTS)],
    ids=["no drop-ins", "drop-ins"],
)
def test_a_server_whose_unit_does_not_wait_for_its_api_is_named(
    unit: str, kind: str, named: bool, text: str
) -> None:
    said = [
        line
        for line in Node(unit=unit, kind=kind, config=text).plan().advice
        if get_code(line) == "containerd.restart-ends-early"
    ]
    assert bool(said) is named


DEADLY = {
    "all pods would end": ({"KillMode": "control-group"}, "restart-kills-containers"),
    "masked": ({"LoadState": "masked"}, "unit-masked"),
}


@pytest.mark.parametrize("case", DEADLY)
def test_a_restart_that_pods_would_not_live_through_is_refused(case: str) -> None:
    properties, code = DEADLY[case]
    with pytest.raises(PlanError) as caught:
        Node(properties=properties).plan()
    assert (caught.value.where, caught.value.code) == ("k3s-agent.service", f"containerd.{code}")
    left = Node(properties=properties).plan(restart="never")
    assert (left.restarts, left.pending) == ((), ("k3s-agent.service",))


def test_a_runtime_that_an_operator_left_is_named() -> None:
    (said,) = Node(programs=(NVIDIA, TOOLKIT)).plan().advice
    assert get_code(said) == "containerd.program-left-by-operator"
    assert getattr(said, "values", {}) == {"program": TOOLKIT, "title": "k3s", "usual": NVIDIA}


# ---------------------------------------------------------------- refused, with what to write


# case: a node, options, the decision; how the error begins, its code, and the code of its step if
# that is a row of its own
REFUSED: dict[str, tuple[Node, dict[str, Any], Any, str, str, str]] = {
    "not on the PATH of its unit": (
        Node(path="/usr/local/bin:/opt/bin", files={K3S_ENV: ""}), {}, DECISION,
        f"{K3S_ENV}: ", "program-not-in-path", "containerd.add-path-line"),
    "not on the PATH that a file says": (
        Node(files={K3S_ENV: "K3S_TOKEN=secret\nPATH=/opt/bin\n"}), {}, DECISION,
        f"{K3S_ENV}:2: ", "program-not-in-path", "containerd.write-path-line"),
    "not on RKE2's": (
        dc.replace(RKE2, files={"/etc/default/rke2-server": "PATH=/opt/bin\n"}), {}, DECISION,
        "/etc/default/rke2-server:1: ", "program-not-in-path", "containerd.write-path-line"),
    "not installed, and not to be": (
        Node(programs=()), {"packages": "ignore"}, DECISION,
        "", "program-not-installed", ""),
    "rendered with a program that is gone, and nothing comes in its place": (
        Node(config=rendered(3, handler(3, "nvidia", TOOLKIT)), programs=()), {"packages": "ignore"}, DECISION,
        "", "program-not-installed", ""),
    "rendered by a template with what it finds, and nothing is found": (
        Node(config=rendered(3, handler(3, "nvidia", TOOLKIT)), programs=(), files={V3_TEMPLATE: RANGES}), {"packages": "ignore"}, DECISION,
        "", "program-not-installed", ""),
    "options for what it renders": (
        Node(), {"handlers": (Handler(options={"NoNewKeyring": True}),)}, DECISION,
        "", "rendered-handler-lacks", ""),
    "another program for what it renders": (
        Node(), {"handlers": (Handler(binary="/opt/x/nvidia-container-runtime", chosen=True),)}, DECISION,
        "", "rendered-handler-lacks", ""),
    "a release before k3s issue 8470": (
        dc.replace(OLD, config=rendered(2, handler(2, "nvidia", systemd=None))), {}, DECISION,
        "/var/lib/rancher/k3s/agent/etc/containerd/config.toml:12: ", "rendered-handler-other-cgroup-driver", ""),
    "default wanted": (
        Node(), {}, dc.replace(DECISION, default=True),
        f"{K3S_YAML}: ", "default-of-manager", "containerd.add-default-line"),
    "default wanted, and another one there": (
        Node(files={K3S_YAML: "node-label: a\ndefault-runtime: crun\n"}), {}, dc.replace(DECISION, default=True),
        f"{K3S_YAML}:2: ", "default-of-manager", "containerd.write-default-line"),
    "default not wanted, and there": (
        Node(files={f"{K3S_YAML}.d/10-gpu.yaml": 'default-runtime: "nvidia"\n'}), {"set_as_default": "disabled"}, DECISION,
        f"{K3S_YAML}.d/10-gpu.yaml:1: ", "default-of-manager", "containerd.remove-default-line"),
    "default not wanted, and among its arguments": (
        Node(config=rendered(3, handler(3, "nvidia"), default="nvidia")), {"set_as_default": "disabled"}, DECISION,
        "", "default-of-manager", "containerd.remove-default-flag"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_person_has_to_write_is_said_with_its_file_and_line(case: str) -> None:
    node, options, decision, place, code, step = REFUSED[case]
    with pytest.raises(PlanError) as refused:
        node.plan(decision, **options)
    assert str(refused.value).startswith(place)
    assert (refused.value.code, get_code(refused.value.values.get("step", ""))) == (
        f"containerd.{code}",
        step,
    )
    assert "secret" not in str(refused.value)


def test_a_variable_in_the_path_is_named_since_systemd_puts_nothing_in_its_place() -> None:
    """The node withholds such a value, and says that there is one."""
    text = "K3S_TOKEN=secret\nPATH=$PATH:/opt/nvidia\n"
    withheld = [{"path": ["PATH"], "kind": "string", "line": 2, "span": [17, 39]}]
    node = Node(
        files={
            K3S_ENV: {
                "content": file_places.show_own_text(text, detected.OF_SERVICE),
                "withheld": withheld,
            }
        }
    )
    assert "$" not in file_places.show_own_text(text, detected.OF_SERVICE)
    with pytest.raises(PlanError) as caught:
        node.plan()
    assert (caught.value.where, caught.value.line, caught.value.code) == (
        K3S_ENV,
        2,
        "containerd.service-path-not-plain",
    )


def test_of_files_with_tokens_and_of_settings_nothing_else_leaves_the_host() -> None:
    assert (
        file_places.show_own_text(
            "K3S_TOKEN=secret\nPATH=/opt/bin:/usr/bin\n", detected.OF_SERVICE
        ).splitlines()[1]
        == "PATH=/opt/bin:/usr/bin"
    )
    assert "secret" not in file_places.show_own_text(
        "K3S_TOKEN=secret\nPATH=/opt/bin\n", detected.OF_SERVICE
    )
    shown = file_places.show_own_text(
        "token: secret\ndefault-runtime: nvidia\n",
        detected.keep_manager_settings("default-runtime"),
    )
    assert ("secret" in shown, "default-runtime: nvidia" in shown) == (False, True)


# ---------------------------------------------------------------- the default handler that is there

AS_DEFAULT = Node(
    default="nvidia",
    served={"nvidia": NVIDIA},
    config=rendered(3, handler(3, "nvidia"), default="nvidia"),
)
IN_YAML = {K3S_YAML: "default-runtime: nvidia\n"}
SAID = {
    "in config.yaml, and rendered": (dc.replace(AS_DEFAULT, files=IN_YAML), 0),
    "in config.yaml, wanted by nobody": (
        Node(files=IN_YAML, served={"nvidia": NVIDIA}, config=rendered(3, handler(3, "nvidia"))),
        1,
    ),
    "in its arguments": (AS_DEFAULT, 0),
}


@pytest.mark.parametrize("default", [False, True])
@pytest.mark.parametrize("case", SAID)
def test_a_default_that_a_person_has_set_is_respected(case: str, default: bool) -> None:
    node, restarts = SAID[case]
    restarts = restarts if default else 0
    planned = node.plan(dc.replace(DECISION, default=default))
    assert (len(planned.restarts), planned.changes) == (restarts, ())


def test_a_later_file_of_its_settings_counts() -> None:
    files = {
        K3S_YAML: "default-runtime: crun\n",
        f"{K3S_YAML}.d/50.yaml": "default-runtime: nvidia\n",
        f"{K3S_YAML}.d/10.yaml": "default-runtime: a\n",
    }
    node = Node(files=files)
    assert detected.get_manager_default(
        detected.read_detection_facts(node.seen()), node.instance()
    ) == detected.Default("nvidia", f"{K3S_YAML}.d/50.yaml", 1)


@pytest.mark.parametrize(
    ("name", "counts"),
    [("50.yml", True), ("50.YAML", True), ("50.yaml.old", False), ("README", False)],
)
def test_the_settings_have_either_ending(name: str, counts: bool) -> None:
    node = Node(
        files={
            K3S_YAML: "default-runtime: crun\n",
            f"{K3S_YAML}.d/{name}": "default-runtime: nvidia\n",
        }
    )
    assert detected.get_manager_default(
        detected.read_detection_facts(node.seen()), node.instance()
    ).handler == ("nvidia" if counts else "crun")


# Where its settings are, by what its service says; a variable counts before an argument, and a
# drop-in of the unit before the unit.
UNIT, TUNED = (
    "/etc/systemd/system/k3s-agent.service",
    "/etc/systemd/system/k3s-agent.service.d/10.conf",
)
INSTALLED = "ExecStart=/usr/local/bin/k3s \\\n    agent \\\n\t'--token' \\\n\t'secret' \\\n\t'--config' \\\n\t'/etc/edge.yaml' \\\n"
ELSEWHERE = {
    "as its installation has them": ({UNIT: "ExecStart=/usr/local/bin/k3s agent\n"}, K3S_YAML),
    "an argument, as the installer writes it": ({UNIT: INSTALLED}, "/etc/edge.yaml"),
    "an argument on one line": (
        {UNIT: "ExecStart=/usr/local/bin/k3s agent --config=/etc/edge.yaml --debug\n"},
        "/etc/edge.yaml",
    ),
    "an argument by its short name": (
        {UNIT: "ExecStart=/usr/local/bin/k3s agent -c /etc/edge.yaml\n"},
        "/etc/edge.yaml",
    ),
    "an argument for the kubelet": (
        {
            UNIT: "ExecStart=/usr/local/bin/k3s \\\n agent \\\n\t'--kubelet-arg' \\\n\t'--config=/etc/kubelet.yaml' \\\n"
        },
        K3S_YAML,
    ),
    "a drop-in without it": (
        {UNIT: INSTALLED, TUNED: "[Service]\nExecStart=\nExecStart=/usr/local/bin/k3s agent\n"},
        K3S_YAML,
    ),
    "a drop-in about something else": (
        {UNIT: INSTALLED, TUNED: "[Service]\nNice=5\n"},
        "/etc/edge.yaml",
    ),
    "a variable": (
        {UNIT: INSTALLED, K3S_ENV: "K3S_CONFIG_FILE='/etc/first.yaml'\n"},
        "/etc/first.yaml",
    ),
}


@pytest.mark.parametrize(("files", "settings"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_its_settings_are_read_where_its_service_says(files: dict[str, str], settings: str) -> None:
    keeps = {UNIT: detected.ARGUMENTS, TUNED: detected.ARGUMENTS, K3S_ENV: detected.OF_SERVICE}
    shown = {path: file_places.show_own_text(text, keeps[path]) for path, text in files.items()}
    node = Node(files={**shown, settings: "default-runtime: nvidia\n"})
    seen = node.seen()
    seen.answers[f"glob:{settings}.d/*"] = {"files": []}
    seen.answers["units:of this test"]["units"]["k3s-agent.service"].update(
        FragmentPath=UNIT, DropInPaths=TUNED if TUNED in files else ""
    )
    assert detected.get_manager_default(
        detected.read_detection_facts(seen), node.instance()
    ) == detected.Default("nvidia", settings, 1)
    assert "secret" not in "".join(shown.values())


UNREAD: dict[str, tuple[str, Any, str]] = {
    "its settings": (
        K3S_YAML,
        {"error": {"kind": "untrusted", "message": "others may write to it"}},
        "others may write to it",
    ),
    "a file of its settings": (
        f"{K3S_YAML}.d/5.yml",
        {"error": {"kind": "untrusted", "message": "others may write"}},
        "others may write",
    ),
    "its environment": (
        K3S_ENV,
        {"error": {"kind": "untrusted", "message": "others may write to it"}},
        "others may write to it",
    ),
    "a value in another form": (
        K3S_YAML,
        {
            "content": "#xxxx\n#xxxx\n",
            "withheld": [
                {"path": ["default-runtime"], "kind": "string", "line": 2, "span": [6, 11]}
            ],
        },
        rf"^{K3S_YAML}:2: .*\[containerd\.manager-default-not-plain\]",
    ),
}


@pytest.mark.parametrize("case", UNREAD)
def test_what_could_not_be_read_does_not_count_as_saying_nothing(case: str) -> None:
    """Else a restart is planned, and what it brings is another default than the one that is wanted."""
    path, answer, sentence = UNREAD[case]
    with pytest.raises(PlanError, match=sentence):
        Node(files={path: answer}).plan(set_as_default="disabled")


# ---------------------------------------------------------------- the decision

DECIDED = {
    "containerd 2": (Node(), {}, ("native-cdi", False, ("cdi-cri",))),
    "containerd 1.7, whose switch cannot be set": (OLD, {}, ("nvidia-runtime", False, ("envvar",))),
    "containerd 1.7 with CDI on": (dc.replace(OLD, cdi=True), {}, ("native-cdi", False, ("cdi-cri",))),
    "nvidia is the default": (Node(default="nvidia"), {}, ("native-cdi", True, ("cdi-cri",))),
    "nvidia is the default, and the plugin uses CDI": (
        Node(default="nvidia"), {"device_plugin_strategy": ("cdi-cri",)}, ("native-cdi", True, ("cdi-cri",))),
    "a default is wanted": (Node(), {"set_as_default": "enabled"}, ("native-cdi", True, ("cdi-cri",))),
}  # fmt: skip


@pytest.mark.parametrize("case", DECIDED)
def test_the_decision_asks_for_nothing_that_the_manager_does_not_render(case: str) -> None:
    node, options, expected = DECIDED[case]
    found = decide.decide_one(Policy(**options), node.instance(), Kubelet(present=True))
    assert (found.injection, found.default, found.device_list_strategy) == expected
    assert (found.annotation_prefixes, found.enable_cdi) == ((), False)


def test_cdi_that_cannot_be_switched_on_is_refused_with_its_reason() -> None:
    with pytest.raises(PlanError, match="enableCDI = false"):
        decide.decide_one(Policy(injection="native-cdi"), OLD.instance(), Kubelet())


# ---------------------------------------------------------------- whose place it is


def test_the_places_are_those_of_the_two() -> None:
    finds = {
        name: (known.get_manager_place(name).detection or rancher.describe_detection(""))
        for name in ("k3s", "rke2")
    }
    assert {name: one.settings for name, one in finds.items()} == {
        "k3s": "/etc/rancher/k3s/config.yaml",
        "rke2": "/etc/rancher/rke2/config.yaml",
    }
    assert finds["k3s"].environment == (
        "/etc/default/{}",
        "/etc/sysconfig/{}",
        "/etc/systemd/system/{}.service.env",
    )
    assert finds["rke2"].environment == (
        "/etc/default/{}",
        "/etc/sysconfig/{}",
        "/usr/local/lib/systemd/system/{}.env",
    )


@pytest.mark.parametrize("options", [{"drop_in": "never"}, {"drop_in_path": "/srv/gpu.toml"}])
def test_where_a_file_of_our_own_is_wanted_the_host_is_left_alone_and_told_so(
    options: dict[str, Any],
) -> None:
    assert (
        Node().instance(Policy(**options)).refusal.message.code
        == "containerd.rendered-without-drop-ins"
    )
