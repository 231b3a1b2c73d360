# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A handler whose program is gone is the first thing that is said of a host."""

from __future__ import annotations

import dataclasses as dc
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
    get_values,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Cdi,
    Evidence,
    Handler,
    Instance,
    Kubelet,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    decide,
    host_plan,
    seen_host,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import programs

from tests.unit.builders import obs

USUAL = "/usr/bin/nvidia-container-runtime"
TOOLKIT = "/usr/local/nvidia/toolkit/nvidia-container-runtime"
CDI = Cdi(
    able=True, enabled=True, dirs=("/etc/cdi",), max_version="1.0.0", evidence=Evidence("files", "")
)


def engine(default: str = "runc", **handlers: str) -> Instance:
    return Instance(
        "containerd", "2.1.4", "/usr/bin/containerd", "/run/c.sock", "/etc/containerd/config.toml", "containerd.service", "package", True,
        CDI, default_handler=default, handlers={"runc": "", **handlers})  # fmt: skip


def docker(default: str, program: str) -> Instance:
    named = {"handlers": {default: program}, "config_path": "/etc/docker/daemon.json", "cri": False}
    return dc.replace(engine(default), engine="docker", version="28.5.1", **named)


# One that cannot do CDI gets our handler as its default.
OLD_DEFAULT = dc.replace(
    engine("kata", kata="/opt/kata"),
    version="1.6.20",
    cdi=Cdi(able=False, enabled=False, dirs=(), max_version="", evidence=Evidence("files", "")),
)
FAILS = "Every pod of the handler {} fails: {} does not exist. {}"
DEFAULT = "Every pod without a handler of its own fails: the default handler, {}, runs {}, which does not exist. {}"
CONTAINER = "Every container without a runtime of its own fails: the default runtime, {}, runs {}, which does not exist. {}"
BRING_THERE = "Install the program there, or set another one in gpufleet_handlers"
TAKE_OUT = (
    "Remove the handler from the configuration of containerd:/etc/containerd/config.toml, or "
    "reinstall the program"
)
INSTALLED = "It lasts until a run has installed that program"
POINTED = "It lasts until a run has pointed the handler to a program that exists"
CASES: list[tuple[str, Instance, dict[str, Any], tuple[str, ...], tuple[str, ...]]] = [
    ("all there", engine(nvidia=USUAL), {USUAL: ""}, (), ()),
    ("other handlers are not ours to judge", engine(kata="/opt/kata"), {}, (), ()),
    ("a bare name is looked up by the engine", engine(nvidia="nvidia-container-runtime"), {}, (), ()),
    ("an operator's, whose directory was cleaned", engine(nvidia=USUAL, **{"nvidia-cdi": f"{TOOLKIT}.cdi"}), {USUAL: ""},
     (FAILS.format("nvidia-cdi", f"{TOOLKIT}.cdi", TAKE_OUT),), ()),
    ("one that this run mends", engine(nvidia=TOOLKIT), {}, (), (FAILS.format("nvidia", TOOLKIT, POINTED),)),
    ("the default one", engine("old", old=TOOLKIT), {},
     (DEFAULT.format("old", TOOLKIT, TAKE_OUT),), ()),
    ("the default one, of another's", engine("kata", kata="/opt/kata"), {}, (DEFAULT.format("kata", "/opt/kata", TAKE_OUT),), ()),
    ("the default one, which a search has met", engine("crun", crun="/usr/bin/crun"), {"/usr/bin/crun": ""}, (), ()),
    ("Docker's default one", docker("nvidia", USUAL), {}, (), (CONTAINER.format("nvidia", USUAL, INSTALLED),)),
    ("Docker's, of another's", docker("sysbox", "/opt/sysbox-runc"), {},
     (CONTAINER.format("sysbox", "/opt/sysbox-runc", TAKE_OUT.replace(engine().key, "docker:/etc/docker/daemon.json")),), ()),
    ("CRI-O does not run without it", dc.replace(engine("crun", crun="/opt/crun"), engine="crio"), {}, (), ()),
    ("a CRI-O that does not run", dc.replace(engine("crun", crun="/opt/crun"), engine="crio", running=False), {},
     (DEFAULT.format("crun", "/opt/crun", TAKE_OUT.replace("containerd:", "crio:")),), ()),
    ("one that this run replaces as the default", OLD_DEFAULT, {},
     (), (DEFAULT.format("kata", "/opt/kata", "It lasts until a run has made nvidia the default"),)),
]  # fmt: skip

ENGINES = [
    # the engine, the default handler -> how the sentence begins
    (
        "docker",
        "nvidia",
        "Every container without a runtime of its own fails: the default runtime, nvidia, runs",
    ),
    ("docker", "runc", "Every container of the runtime nvidia fails:"),
    ("crio", "runc", "Every pod of the handler nvidia fails:"),
]


@pytest.mark.parametrize(("name", "default", "begins"), ENGINES)
def test_each_engine_is_told_of_in_its_own_words(name: str, default: str, begins: str) -> None:
    instance = dc.replace(engine(default, nvidia=USUAL), engine=name)
    (said,) = programs.plan_missing_programs(
        Policy(packages="ignore"), programs.read_program_facts(obs()), (instance,), ()
    ).advice
    assert said.startswith(begins)


BRING = "Reinstall the program (gpufleet_packages: present installs NVIDIA's), or set another one in gpufleet_handlers"
OWN = "/opt/nvidia/nvidia-container-runtime"


@pytest.mark.parametrize(
    ("program", "policy", "there", "said_first", "step"),
    [
        (USUAL, Policy(), (), True, INSTALLED),
        (USUAL, Policy(packages="ignore"), (), False, BRING),
        (USUAL, Policy(single=True), (), False, BRING),
        # nothing is installed beneath another root
        (
            USUAL,
            Policy(root="/mnt/image"),
            (),
            False,
            BRING_THERE,
        ),
        # no package of NVIDIA's brings it
        (
            OWN,
            Policy(handlers=(Handler(binary=OWN),)),
            (),
            False,
            BRING,
        ),
        (TOOLKIT, Policy(packages="ignore"), (USUAL,), True, POINTED),
        (TOOLKIT, Policy(packages="ignore"), (), False, TAKE_OUT),
    ],
)
def test_a_run_promises_a_program_only_where_there_is_one_after_it(
    program: str, policy: Policy, there: tuple[str, ...], said_first: bool, step: str
) -> None:
    instance = engine(nvidia=program)
    plan = programs.plan_missing_programs(
        policy,
        programs.read_program_facts(obs(files=dict.fromkeys(there, ""))),
        (instance,),
        (decide.decide_one(policy, instance, Kubelet()),),
    )
    sentence = (FAILS.format("nvidia", program, step),)
    assert (plan.advice, plan.beforehand) == (((), sentence) if said_first else (sentence, ()))


@pytest.mark.parametrize(
    ("case", "instance", "files", "advice", "beforehand"),
    CASES,
    ids=[case for case, *_rest in CASES],
)
def test_a_handler_whose_program_is_gone_is_told(
    case: str,
    instance: Instance,
    files: dict[str, Any],
    advice: tuple[str, ...],
    beforehand: tuple[str, ...],
) -> None:
    decision = decide.decide_one(Policy(), instance, Kubelet())
    plan = programs.plan_missing_programs(
        Policy(), programs.read_program_facts(obs(files=files)), (instance,), (decision,)
    )
    assert (plan.advice, plan.beforehand) == (advice, beforehand)


BASE = "nvidia-container-toolkit-base"
# has to get a default handler
OLD = dc.replace(
    engine(),
    version="1.6.20",
    cdi=Cdi(able=False, enabled=False, dirs=(), max_version="", evidence=Evidence("files", "")),
)
WITHOUT = Policy(packages="ignore")
AGAIN = f"apt-get install --reinstall {BASE}"
GONE_AFTER: dict[str, tuple[Instance, Policy, dict[str, str | None], dict[str, Any], str]] = {
    # a name -> the engine, the policy, the packages, the programs that are there, and the step that
    # the refusal names
    "the package is recorded, and its program is gone": (
        OLD,
        Policy(),
        {BASE: "1.20.2-1"},
        {},
        AGAIN,
    ),
    "no package is wanted": (OLD, WITHOUT, {}, {}, BRING),
    "no package is wanted, and it is recorded": (OLD, WITHOUT, {BASE: "1.20.2-1"}, {}, AGAIN),
    "a program that no package brings": (
        OLD,
        Policy(handlers=(Handler(binary=OWN),)),
        {},
        {USUAL: ""},
        BRING,
    ),
    "Docker, by its option": (
        docker("runc", ""),
        Policy(packages="ignore", set_as_default="enabled"),
        {},
        {},
        BRING,
    ),
    "the package comes": (OLD, Policy(), {}, {}, ""),
    "another version of it comes": (
        OLD,
        Policy(toolkit_version="1.20.1"),
        {BASE: "1.20.2-1"},
        {},
        "",
    ),
    "the program is there": (OLD, WITHOUT, {}, {USUAL: ""}, ""),
    "an image, which gets it later": (OLD, Policy(root="/mnt/image"), {}, {}, ""),
    "the module of one engine": (OLD, Policy(single=True), {}, {}, ""),
    "the default one already": (
        dc.replace(OLD, default_handler="nvidia", handlers={"nvidia": USUAL}),
        WITHOUT,
        {},
        {},
        "",
    ),
    "a handler that keeps its program": (
        dc.replace(OLD, handlers={"nvidia": TOOLKIT}),
        WITHOUT,
        {},
        {TOOLKIT: ""},
        "",
    ),
}


@pytest.mark.parametrize(
    ("instance", "policy", "installed", "files", "step"), GONE_AFTER.values(), ids=[*GONE_AFTER]
)
def test_no_handler_without_its_program_becomes_the_default(
    instance: Instance,
    policy: Policy,
    installed: dict[str, str | None],
    files: dict[str, Any],
    step: str,
) -> None:
    """Else no container of the host starts any more, and the engine itself answers as before."""
    decision = decide.decide_one(policy, instance, Kubelet())
    seen = obs(files=files, packages=installed)
    if not step:
        programs.require_default(
            policy, programs.read_program_facts(seen), (instance,), (decision,)
        )
        return
    with pytest.raises(PlanError) as error:
        programs.require_default(
            policy, programs.read_program_facts(seen), (instance,), (decision,)
        )
    assert step in error.value.next


def test_a_run_does_not_promise_a_program_of_a_package_that_is_there() -> None:
    instance = engine(nvidia=USUAL)
    plan = programs.plan_missing_programs(
        Policy(),
        programs.read_program_facts(obs(packages={BASE: "1.20.2-1"})),
        (instance,),
        (decide.decide_one(Policy(), instance, Kubelet()),),
    )
    assert not plan.beforehand
    assert AGAIN in plan.advice[0]


@pytest.mark.parametrize(
    ("policy", "installed", "step"),
    [
        (Policy(), {BASE: "1.20.2-1"}, AGAIN),
        (WITHOUT, {}, f"Install {BASE} first"),
        (Policy(single=True), {}, f"Install {BASE} first"),
        (Policy(), {}, ""),
        (Policy(root="/mnt/image"), {}, ""),
        # a bare name is looked up by the engine
        (
            Policy(handlers=(Handler(binary="nvidia-container-runtime"),)),
            {},
            "",
        ),
    ],
)
def test_an_engine_that_minds_gets_no_handler_without_its_program(
    policy: Policy, installed: dict[str, str | None], step: str
) -> None:
    decision = decide.decide_one(policy, docker("nvidia", USUAL), Kubelet())
    seen = obs(packages=installed)
    if not step:
        programs.require_handler_programs(
            policy, programs.read_program_facts(seen), decision, "why"
        )
        return
    with pytest.raises(PlanError) as error:
        programs.require_handler_programs(
            policy, programs.read_program_facts(seen), decision, "why"
        )
    assert step in error.value.next


def test_the_programs_of_all_handlers_are_looked_for_at_once() -> None:
    """Each look is a call of the host: a GPU Operator's toolkit alone has three."""
    instances = (
        engine(nvidia=TOOLKIT, cdi=f"{TOOLKIT}.cdi"),
        engine(legacy=f"{TOOLKIT}.legacy", again=TOOLKIT),
    )
    with pytest.raises(NeedMore) as need:
        programs.find_missing_programs(programs.read_program_facts(Observation({}, {})), instances)
    assert sorted(q["path"] for q in need.value.questions) == [
        TOOLKIT,
        f"{TOOLKIT}.cdi",
        f"{TOOLKIT}.legacy",
    ]


def test_the_module_of_one_engine_looks_for_the_kubelet_before_it_says_that_there_is_none() -> None:
    """Its own look is at containerd's processes only, and a kubelet that nobody looked for is not a
    host without one.
    """
    seen = obs(
        files={"/usr/local/nvidia/toolkit": ""},
        processes=[{"pid": 7, "exe": "/usr/bin/containerd"}],
    )
    with pytest.raises(NeedMore) as more:
        host_plan.plan_left_by_others(
            Policy(),
            seen_host.read_foreign_facts(Policy(), seen),
            {},
            (engine(nvidia=TOOLKIT),),
            (),
        )
    assert "processes:kubelet" in [q["id"] for q in more.value.questions]


def test_the_programs_that_a_playbook_names_are_looked_at_with_everything_else() -> None:
    policy = Policy(
        handlers=(
            Handler(binary="/opt/nvidia/nvidia-container-runtime"),
            Handler("bare", "nvidia-container-runtime"),
        )
    )
    assert [q["path"] for q in programs.list_questions(policy)] == [
        *programs.PACKAGED,
        "/opt/nvidia/nvidia-container-runtime",
    ]


RETIRED: list[tuple[str, tuple[tuple[str, str, str], ...], tuple[str, ...], tuple[str, ...]]] = [
    # what goes -> the handlers for a person to remove, and the ones that the run removes
    ("nothing", (), ("nvidia-cdi", "nvidia-legacy"), ()),
    ("one of two", ((engine().key, "nvidia-cdi", "/a.toml"),), ("nvidia-legacy",), ("nvidia-cdi",)),
    ("one of that name in another engine", (("crio:/etc/crio/crio.conf", "nvidia-cdi", "/a.toml"),), ("nvidia-cdi", "nvidia-legacy"), ()),
    ("one of that name in another containerd", (("containerd:/k3s.toml", "nvidia-cdi", "/a.toml"),), ("nvidia-cdi", "nvidia-legacy"), ()),
]  # fmt: skip


@pytest.mark.parametrize(
    ("what", "retired", "stay", "go"), RETIRED, ids=[row[0] for row in RETIRED]
)
def test_a_handler_that_goes_in_this_run_asks_nothing_of_a_person(
    what: str,
    retired: tuple[tuple[str, str, str], ...],
    stay: tuple[str, ...],
    go: tuple[str, ...],
) -> None:
    modes = {"nvidia-cdi": f"{TOOLKIT}.cdi", "nvidia-legacy": f"{TOOLKIT}.legacy"}
    plan = programs.plan_missing_programs(
        Policy(), programs.read_program_facts(obs()), (engine(**modes),), ()
    )
    told = programs.explain_retired_handlers(dc.replace(plan, retired=retired))
    assert [(get_code(said), name_failing_handler(said)) for said in told.advice] == [
        ("adoption.handler-lost", name) for name in stay
    ]
    assert [(get_code(said), name_failing_handler(said)) for said in told.beforehand] == [
        ("adoption.handler-retired", name) for name in go
    ]


K3S = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml"
# main file -> the code, the templates that may have the handler
LOST = [
    ("/etc/containerd/config.toml", "adoption.handler-lost", None),
    (K3S, "adoption.rendered-handler-lost", "config-v3.toml.tmpl, config.toml.tmpl"),
    ("/srv/k3s/agent/etc/containerd/config.toml", "adoption.rendered-handler-lost", "config-v3.toml.tmpl, config.toml.tmpl"),
    ("/etc/k0s/containerd.toml", "adoption.handler-lost", None),
    ("/var/snap/microk8s/current/args/containerd.toml", "adoption.handler-lost", None),
]  # fmt: skip


@pytest.mark.parametrize(("config", "code", "templates"), LOST)
def test_a_lost_handler_of_a_rendered_file_is_removed_from_its_template(
    config: str, code: str, templates: str | None
) -> None:
    lost = dc.replace(engine(**{"nvidia-cdi": f"{TOOLKIT}.cdi"}), config_path=config)
    facts = programs.read_program_facts(obs())
    (told,) = programs.plan_missing_programs(Policy(), facts, (lost,), ()).advice
    assert (get_code(told), get_values(told).get("templates")) == (code, templates)


def test_the_same_handler_of_a_second_containerd_is_told_of_beside_the_one_that_goes() -> None:
    here, there = engine(**{"nvidia-cdi": TOOLKIT}), "/var/lib/rancher/k3s/config.toml"
    both = (here, dc.replace(here, config_path=there))
    plan = programs.plan_missing_programs(Policy(), programs.read_program_facts(obs()), both, ())
    gone = dc.replace(plan, retired=((here.key, "nvidia-cdi", "/a.toml"),))
    told = programs.explain_retired_handlers(gone)
    assert [get_values(said)["instance"] for said in told.advice] == [f"containerd:{there}"]
    assert [get_code(said) for said in told.beforehand] == ["adoption.handler-retired"]


def name_failing_handler(said: str) -> str:
    return str(get_values(get_values(said)["failure"])["handler"])
