# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""More than k3s and RKE2 find by themselves, on releases without drop-ins: our own template, which
begins with their text.
"""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import projector
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Handler,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detect,
    template,
)

from tests.unit import builders
from tests.unit.rancher import DECISION, NVIDIA, Node, handler, rendered

DIR = "/var/lib/rancher/k3s/agent/etc/containerd"
V3_TEMPLATE, V2_TEMPLATE = f"{DIR}/config-v3.toml.tmpl", f"{DIR}/config.toml.tmpl"
GPU = Handler("gpu", options={"NoNewKeyring": True})
BOTH = (Handler(), GPU)
OLD = Node(version="1.7.27-k3s1", config=rendered(2), cdi=False)


def ours(version: int = 3) -> str:
    """Our template for the handler gpu, as the first run writes it."""
    node = Node() if version == 3 else OLD
    (change,) = node.plan(handlers=(GPU,)).changes
    return str(change["content"]) if change["op"] == "write" else ""


@pytest.mark.parametrize(
    ("node", "path", "table"),
    [
        (Node(), V3_TEMPLATE, "io.containerd.cri.v1.runtime"),
        (OLD, V2_TEMPLATE, "io.containerd.grpc.v1.cri"),
    ],
)
def test_another_handler_goes_into_a_template_for_the_version_that_is_rendered(
    node: Node, path: str, table: str
) -> None:
    planned = node.plan(handlers=BOTH)
    (change,) = planned.changes
    assert (change["path"], change["op"], change["mode"], change["expect"]) == (
        path,
        "write",
        "0600",
        None,
    )  # type: ignore[typeddict-item]
    assert change["content"].splitlines()[:3] == [template.MARK, '{{ template "base" . }}', ""]  # type: ignore[typeddict-item]
    said = template.toml.parse_toml(change["content"].partition(template.BASE)[2], path).data  # type: ignore[typeddict-item]
    assert said == {"plugins": {table: {"containerd": {"runtimes": {"gpu": {
        "runtime_type": "io.containerd.runc.v2", "container_annotations": ["nvidia.cdi.k8s.io/*"],
        "options": {"BinaryName": NVIDIA, "SystemdCgroup": True, "NoNewKeyring": True},
    }}}}}}  # fmt: skip
    assert [r.unit for r in planned.restarts] == ["k3s-agent.service"]
    required = [
        need["path"][-3]
        for need in planned.health[0]["require"]
        if need.get("path", [""])[-1] == "BinaryName"
    ]
    assert required == ["nvidia", "gpu"]  # what is found is proven with what is written
    assert (planned.validate, planned.expect_files[path]) == ((), None)


WITH_OURS = dc.replace(
    Node(
        served={"gpu": NVIDIA},
        config=rendered(
            3, handler(3, "gpu").replace("SystemdCgroup", "NoNewKeyring = true\n  SystemdCgroup")
        ),
    ),
    files={V3_TEMPLATE: ours()},
)


def test_a_second_run_changes_nothing() -> None:
    text = handler(3, "gpu").replace(
        'v2"\n', 'v2"\n  container_annotations = ["nvidia.cdi.k8s.io/*"]\n', 1
    )
    text = text.replace("SystemdCgroup", "NoNewKeyring = true\n  SystemdCgroup")
    node = dc.replace(WITH_OURS, config=rendered(3, text))
    seen = node.seen()
    status = dict(seen.answers[f"cri:Status:{node.instance().socket}"])
    entry = status["info"]["config"]["containerd"]["runtimes"]["gpu"]
    entry.update(
        {
            "ContainerAnnotations": ["nvidia.cdi.k8s.io/*"],
            "options": {**entry["options"], "NoNewKeyring": True},
        }
    )
    policy = Policy(handlers=(GPU,))
    planned = detect.plan_instance(
        policy,
        detect.read_facts(policy, seen),
        detect.find_instances(policy, detect.read_facts(policy, seen))[0],
        DECISION,
    )
    assert (planned.changes, planned.differences, planned.restarts) == ((), (), ())


@pytest.mark.parametrize(
    ("node", "options", "changed"),
    [
        (
            Node(),
            {"NoNewKeyring": True},
            [
                ("runtime_type", None, "io.containerd.runc.v2"),
                ("container_annotations", None, ["nvidia.cdi.k8s.io/*"]),
                ("options.BinaryName", None, NVIDIA),
                ("options.SystemdCgroup", None, True),
                ("options.NoNewKeyring", None, True),
            ],
        ),
        (
            WITH_OURS,  # its rendered file lacks the annotations
            {"NoNewKeyring": False},
            [
                ("container_annotations", None, ["nvidia.cdi.k8s.io/*"]),
                ("options.NoNewKeyring", True, False),
            ],
        ),
    ],
)
def test_of_a_template_the_keys_that_differ_from_the_rendered_ones_are_named(
    node: Node, options: dict[str, Any], changed: list[tuple[str, Any, Any]]
) -> None:
    planned = node.plan(handlers=(Handler("gpu", options=options),))
    table = 'plugins."io.containerd.cri.v1.runtime".containerd.runtimes.gpu.'
    assert [(d.key, d.before, d.after) for d in planned.differences if d.what == "file"] == [
        (f"{table}{key}", before, after) for key, before, after in changed
    ]
    assert {d.path for d in planned.differences if d.what == "file"} == {V3_TEMPLATE}


def test_our_template_goes_when_no_handler_needs_it() -> None:
    planned = WITH_OURS.plan()
    assert [(c["path"], c["op"]) for c in planned.changes] == [(V3_TEMPLATE, "remove")]
    assert [r.unit for r in planned.restarts] == ["k3s-agent.service"]


def test_our_template_of_the_old_version_stays_with_a_release_that_reads_both() -> None:
    """k3s renders version 2 from it then, so its file is of that version, whatever the release."""
    node = Node(
        config=rendered(2, handler(2, "gpu")), files={V2_TEMPLATE: ours(2)}, version="2.1.5-k3s1"
    )
    assert node.plan(handlers=(GPU,)).changes == ()


ADDED = '[plugins."io.containerd.cri.v1.images".registry.configs."r.example.org".auth]\npassword = "hunter2"\n'


def test_of_our_template_just_what_we_write_leaves_the_host() -> None:
    assert projector.project_file(ours().encode(), template.KEEP).data.decode() == ours()
    assert projector.project_file(ours(2).encode(), template.KEEP).data.decode() == ours(2)
    shown = projector.project_file((ours() + ADDED).encode(), template.KEEP).data.decode()
    assert "hunter2" not in shown
    assert shown.startswith(ours())


# ---------------------------------------------------------------- taken back

WRITTEN = {
    "as we wrote it": ({"sha256_after": builders.sha(ours())}, "restore"),
    "changed since": ({"sha256_after": "another"}, "remove"),
    "without a journal": (None, "remove"),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_our_template_is_taken_back_and_the_manager_renders_again(case: str) -> None:
    original, op = WRITTEN[case]
    originals = {V3_TEMPLATE: {"existed": False, **original}} if original else {}
    seen, policy = WITH_OURS.seen(originals=originals), Policy(state="absent", handlers=(GPU,))
    planned = detect.plan_absent(
        policy,
        detect.read_facts(policy, seen),
        detect.find_instances(policy, detect.read_facts(policy, seen))[0],
    )
    assert [(c["path"], c["op"]) for c in planned.changes] == [(V3_TEMPLATE, op)]
    assert [r.unit for r in planned.restarts] == ["k3s-agent.service"]
    assert detect.owns_file(policy, detect.read_facts(policy, seen), V3_TEMPLATE)


@pytest.mark.parametrize("files", [{}, {V3_TEMPLATE: '{{ template "base" . }}\n'}])
def test_nothing_of_others_is_taken_away(files: dict[str, str]) -> None:
    node = Node(config=rendered(3, handler(3, "nvidia")), served={"nvidia": NVIDIA}, files=files)
    policy = Policy(state="absent")
    planned = detect.plan_absent(
        policy, detect.read_facts(policy, node.seen()), node.instance(policy)
    )
    assert (planned.changes, planned.restarts) == ((), ())


# ---------------------------------------------------------------- templates of others

GONE = "/usr/local/nvidia/toolkit/nvidia-container-runtime"
FULL = (
    "# File generated by rke2. DO NOT EDIT. Use config.toml.tmpl instead.\nversion = 2\n"
    + handler(2, "nvidia")
)
PLAIN = "# full\nversion = 2\n[plugins]\n"
BASE_AND_MORE = '# mine\n{{ template "base" . }}\n\n[debug]\nlevel = "debug"\n'
RANGES = 'version = 3\n{{range $k, $v := .ExtraRuntimes}}\n[plugins."x".{{$k}}]\n{{end}}\n'

REFUSED: dict[str, tuple[Node, dict[str, Any], str, str]] = {
    "a copied configuration without the handler": (
        Node(config=rendered(2), files={V2_TEMPLATE: PLAIN}), {},
        f"{V2_TEMPLATE}:2: ", "template-replaces-own-text"),
    "a copied configuration with another program than is wanted": (
        Node(config=rendered(2, handler(2, "nvidia")), files={V2_TEMPLATE: FULL}),
        {"handlers": (Handler(binary="/opt/x/nvidia-container-runtime", chosen=True),)},
        f"{V2_TEMPLATE}: ", "copied-template-handler-lacks"),
    "a copied configuration whose program is gone": (
        Node(config=rendered(2, handler(2, "nvidia", GONE)), files={V2_TEMPLATE: FULL.replace(NVIDIA, GONE)}), {},
        f"{V2_TEMPLATE}: ", "copied-template-program-gone"),
    "somebody's template, and more is wanted": (
        Node(files={V3_TEMPLATE: BASE_AND_MORE}), {"handlers": (GPU,)},
        f"{V3_TEMPLATE}:2: ", "template-of-others"),
    "a release without a base": (
        Node(version="1.6.19-k3s1", config=rendered(2), cdi=False), {"handlers": (GPU,)},
        f"{V2_TEMPLATE}: ", "template-without-base"),
    "a name that is a statement": (
        Node(), {"handlers": (Handler("gpu", options={"Root": "/run/{{ .x }}"}),)},
        f"{V3_TEMPLATE}: ", "statement-in-handler"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_stands_in_the_way_is_named_with_its_line(case: str) -> None:
    node, options, place, code = REFUSED[case]
    with pytest.raises(PlanError) as refused:
        node.plan(**options)
    assert str(refused.value).startswith(place)
    assert refused.value.code == f"containerd.{code}"


SERVED = {
    "a copied configuration that has the handler": Node(
        config=rendered(2, handler(2, "nvidia")), files={V2_TEMPLATE: FULL}
    ),
    "a copied configuration whose program this run installs": Node(
        config=rendered(2, handler(2, "nvidia")), programs=(), files={V2_TEMPLATE: FULL}
    ),
    "somebody's template that begins with the base": Node(files={V3_TEMPLATE: BASE_AND_MORE}),
    "a full template with what k3s finds": Node(files={V3_TEMPLATE: RANGES}),
}


@pytest.mark.parametrize("case", SERVED)
def test_a_template_of_others_that_leaves_the_handler_stays_as_it_is(case: str) -> None:
    planned = SERVED[case].plan()
    assert (planned.changes, [r.unit for r in planned.restarts]) == ((), ["k3s-agent.service"])
    stale = ["containerd.template-copied"] if case.startswith("a copied") else []
    assert [get_code(text) for text in planned.advice] == stale


def test_somebodys_template_that_has_the_handler_is_enough() -> None:
    mine = BASE_AND_MORE + ours().partition(template.BASE)[2]
    text = rendered(3) + ours().partition(template.BASE)[2]
    planned = Node(config=text, files={V3_TEMPLATE: mine}).plan(handlers=(GPU,))
    assert (planned.changes, [r.unit for r in planned.restarts]) == ((), ["k3s-agent.service"])


SHOWN = [
    # a template, what of it leaves the host
    (ours(), ours()),
    ('# secret\n{{ template "base" . }}\npassword = "secret"\n', '{{ template "base" . }}'),
    ('{{template "base" .}}\n', '{{template "base" .}}'),
    ('version = 2\n[plugins."x".registry.configs."y".auth]\npassword = "secret"\n', "version = 2"),
]


@pytest.mark.parametrize(("text", "shown"), SHOWN)
def test_of_a_template_only_what_counts_leaves_the_host(text: str, shown: str) -> None:
    said = file_places.show_own_text(text, template.KEEP)
    assert (shown in said, "secret" in said) == (True, False)
    assert said.count("\n") == text.count("\n")


def test_the_mark_is_not_in_what_is_rendered() -> None:
    """Else the rendered file would pass for one of this collection."""
    assert (template.MARK[:4], template.MARK[-6:]) == ("{{/*", "*/ -}}")
    assert ours().splitlines()[1] == template.BASE
