# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's config.toml: our keys get their values, every other line stays."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    file_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    toolkit_config,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.builders import obs, sha
from tests.unit.records import instance, record

# As the packages leave it behind (nvidia-ctk config --in-place).
PACKAGED = """\
#accept-nvidia-visible-devices-as-volume-mounts = false
#accept-nvidia-visible-devices-envvar-when-unprivileged = true
disable-require = false
supported-driver-capabilities = "compat32,compute,display,graphics,ngx,utility,video"
#swarm-resource = "DOCKER_RESOURCE_GPU"

[nvidia-container-cli]
#debug = "/var/log/nvidia-container-toolkit.log"
environment = []
ldconfig = "@/sbin/ldconfig"
load-kmods = true

[nvidia-container-runtime]
#debug = "/var/log/nvidia-container-runtime.log"
log-level = "info"
mode = "auto"
runtimes = ["runc", "crun"]

[nvidia-container-runtime.modes]

[nvidia-container-runtime.modes.cdi]
annotation-prefixes = ["cdi.k8s.io/"]
default-kind = "nvidia.com/gpu"
spec-dirs = ["/etc/cdi", "/var/run/cdi"]

[nvidia-container-runtime.modes.csv]
mount-spec-path = "/etc/nvidia-container-runtime/host-files-for-container.d"

[nvidia-ctk]
path = "nvidia-ctk"
"""


def after(plan: Plan, before: str | None) -> str:
    (change,) = plan.changes
    if change["op"] == "write":
        assert before is None
        return str(change["content"])
    assert change["op"] == "edit"
    assert change["expect"] == sha(before or "")
    lines = (before or "").splitlines(keepends=True)
    for edit in reversed(change["edits"]):
        lines[edit["start"] : edit["end"]] = [edit["text"]]
    return "".join(lines)


def converge(policy: Policy, before: str | None, made: Any) -> str:
    files = {} if before is None else {toolkit_config.PATH: before}
    return after(
        toolkit_config.plan_toolkit_config(
            policy, toolkit_config.read_toolkit_config_facts(policy, obs(files=files)), made
        ),
        before,
    )


OLD = instance("containerd", "1.6.20", default_handler="runc")
CRIO = instance("crio", "1.34.2", default_handler="crun", low_level="/usr/libexec/crio/crun")


@pytest.mark.parametrize(
    ("case", "policy", "engine", "mode", "strict", "runtimes"),
    [
        ("native CDI", Policy(), instance(), "cdi", True, ["runc"]),
        ("no CDI in the engine", Policy(), OLD, "cdi", False, ["runc"]),
        ("no CDI wanted", Policy(cdi="disabled"), instance(), "legacy", False, ["runc"]),
        ("spec in memory", Policy(injection="jit-cdi"), instance(), "jit-cdi", False, ["runc"]),
        ("CRI-O's crun outside PATH", Policy(), CRIO, "cdi", True, ["/usr/libexec/crio/crun"]),
        ("forced isolation", Policy(isolation="compatible"), instance(), "cdi", False, ["runc"]),
    ],
)
@pytest.mark.parametrize("before", [None, PACKAGED])
def test_our_keys(
    before: str | None,
    case: str,
    policy: Policy,
    engine: Any,
    mode: str,
    strict: bool,
    runtimes: list[str],
) -> None:
    data = tomllib.loads(converge(policy, before, record(policy, engine)))
    assert data["nvidia-container-runtime"]["mode"] == mode, case
    assert data["nvidia-container-runtime"]["runtimes"] == runtimes
    assert data["nvidia-container-runtime"]["modes"]["cdi"]["annotation-prefixes"] == [
        "nvidia.cdi.k8s.io/"
    ]
    assert data["nvidia-container-runtime"]["modes"]["cdi"]["default-kind"] == "nvidia.com/gpu"
    assert data["accept-nvidia-visible-devices-envvar-when-unprivileged"] is not strict
    assert data["accept-nvidia-visible-devices-as-volume-mounts"] is False, (
        "no device plugin asks by mounts"
    )
    assert data.get("features", {}).get("ignore-imex-channel-requests", False) is strict
    if before:
        assert data["nvidia-container-cli"] == tomllib.loads(PACKAGED)["nvidia-container-cli"]


def test_every_other_line_stays() -> None:
    text = converge(Policy(), PACKAGED, record())
    ours = (
        "mode =",
        "runtimes =",
        "annotation-prefixes =",
        "accept-nvidia",
        "[features]",
        "ignore-imex",
    )
    left = [x for x in text.splitlines() if x and not x.startswith(ours)]
    assert left == [x for x in PACKAGED.splitlines() if x and not x.startswith(ours)]
    assert "#accept-nvidia-visible-devices-as-volume-mounts = false\n" in text


def test_a_second_run_finds_nothing_to_do() -> None:
    for before in (None, PACKAGED):
        text = converge(Policy(), before, record())
        assert toolkit_config.plan_toolkit_config(
            Policy(),
            toolkit_config.read_toolkit_config_facts(
                Policy(), obs(files={toolkit_config.PATH: text})
            ),
            record(),
        ).empty


STRICT = Policy(isolation="strict")
BY_MOUNTS = Policy(isolation="strict", device_plugin_strategy=("volume-mounts",))
ACCEPTED = "accept-nvidia-visible-devices-as-volume-mounts"
IGNORED = "features.ignore-imex-channel-requests"
# What a policy makes of the two keys: values before, values after.
TAKEN_BACK = [
    (
        "a strict host that accepts mounts",
        STRICT,
        "true",
        {ACCEPTED: (True, False), IGNORED: (None, True)},
    ),
    ("a new host", STRICT, "false", {IGNORED: (None, True)}),
    ("a plugin that asks by mounts", BY_MOUNTS, "true", {}),
    ("a new host with such a plugin", BY_MOUNTS, "false", {ACCEPTED: (False, True)}),
    ("compatible", Policy(isolation="compatible"), "true", {ACCEPTED: (True, False)}),
]


@pytest.mark.parametrize(
    ("policy", "before", "changed"),
    [case[1:] for case in TAKEN_BACK],
    ids=[case[0] for case in TAKEN_BACK],
)
def test_mounts_and_channels_by_variable(
    policy: Policy, before: str, changed: dict[str, tuple[Any, Any]]
) -> None:
    text = f"{ACCEPTED} = {before}\n" + PACKAGED
    made = record(policy, instance(), plugin_strategies=policy.device_plugin_strategy)
    plan = toolkit_config.plan_toolkit_config(
        policy,
        toolkit_config.read_toolkit_config_facts(policy, obs(files={toolkit_config.PATH: text})),
        made,
    )
    found = {d.key: d for d in plan.differences if d.key in (ACCEPTED, IGNORED)}
    assert {key: (d.before, d.after) for key, d in found.items()} == changed
    lowered = {
        key for key, (then, now) in changed.items() if (then, now) in ((True, False), (None, True))
    }
    assert {key for key, d in found.items() if get_code(d.why) in toolkit_config.SAFETY} == lowered
    assert {key for key, d in found.items() if d.cause == "safety"} == lowered
    assert toolkit_config.may_ask_by_mounts(
        toolkit_config.read_toolkit_config_facts(Policy(), obs(files={toolkit_config.PATH: text})),
        plan.differences,
    ) is (policy is BY_MOUNTS)


def test_spec_dirs_only_when_set() -> None:
    assert "spec-dirs" not in converge(Policy(), None, record())
    policy = Policy(cdi_spec_dirs=("/opt/cdi",))
    data = tomllib.loads(converge(policy, PACKAGED, record(policy)))
    assert data["nvidia-container-runtime"]["modes"]["cdi"]["spec-dirs"] == ["/opt/cdi"]


def test_differences_name_key_and_reason() -> None:
    plan = toolkit_config.plan_toolkit_config(
        Policy(),
        toolkit_config.read_toolkit_config_facts(
            Policy(), obs(files={toolkit_config.PATH: PACKAGED})
        ),
        record(),
    )
    mode = next(d for d in plan.differences if d.key == "nvidia-container-runtime.mode")
    assert (mode.before, mode.after, mode.path) == ("auto", "cdi", toolkit_config.PATH)
    assert all(d.why for d in plan.differences)


RUNTIME = "nvidia-container-runtime"


@pytest.mark.parametrize(
    ("old", "new", "keys"),
    [
        ("", "", ()),  # what the packages write is nobody's choice
        ('mode = "auto"', 'mode = "legacy"', (f"{RUNTIME}.mode",)),
        # the default up to 1.17
        (
            'runtimes = ["runc", "crun"]',
            'runtimes = ["docker-runc", "runc", "crun"]',
            (),
        ),
        ('runtimes = ["runc", "crun"]', 'runtimes = ["/opt/runc"]', (f"{RUNTIME}.runtimes",)),
        ('["cdi.k8s.io/"]', '["example.org/"]', (f"{RUNTIME}.modes.cdi.annotation-prefixes",)),
        ('log-level = "info"', 'log-level = "debug"', ()),  # stays, so it is nothing to speak of
    ],
)
def test_a_value_that_somebody_set_and_that_changes_is_named(
    old: str, new: str, keys: tuple[str, ...]
) -> None:
    text = PACKAGED.replace(old, new) if old else PACKAGED
    found = toolkit_config.plan_toolkit_config(
        Policy(),
        toolkit_config.read_toolkit_config_facts(Policy(), obs(files={toolkit_config.PATH: text})),
        record(),
    ).leftovers
    assert [(left.path, left.settings, left.fate) for left in found] == (
        [(toolkit_config.PATH, keys, "adopted")] if keys else []
    )
    kept = {toolkit_config.PATH: {"existed": True, "sha256_after": "a" * 64}}
    assert (
        toolkit_config.plan_toolkit_config(
            Policy(),
            toolkit_config.read_toolkit_config_facts(
                Policy(), obs(files={toolkit_config.PATH: text}, originals=kept)
            ),
            record(),
        ).leftovers
        == ()
    )


def test_a_broken_file_is_named_with_its_line() -> None:
    with pytest.raises(PlanError, match=r"config\.toml:2"):
        toolkit_config.plan_toolkit_config(
            Policy(),
            toolkit_config.read_toolkit_config_facts(
                Policy(), obs(files={toolkit_config.PATH: "a = 1\nb = = 2\n"})
            ),
            record(),
        )


def test_a_skipped_host_is_not_touched() -> None:
    assert toolkit_config.plan_toolkit_config(
        Policy(),
        toolkit_config.read_toolkit_config_facts(Policy(), obs()),
        record(skipped="no GPU"),
    ).empty


def plan_removal(seen: Any) -> Plan:
    policy = Policy(state="absent")
    facts = toolkit_config.read_toolkit_config_facts(policy, seen)
    return toolkit_config.plan_absent(policy, facts)


def test_absent_gives_back_the_bytes_that_are_still_ours() -> None:
    text = converge(Policy(), PACKAGED, record())
    copy = file_places.show_own_text(PACKAGED, queries.ORIGINALS[0]["keep"])
    kept = {"existed": True, "sha256_after": sha(text), "content": copy}
    seen = file_places.show_own_text(text, toolkit_config.KEEP)
    files = {toolkit_config.PATH: {"content": seen, "sha256": sha(text)}}
    plan = plan_removal(obs(files=files, originals={toolkit_config.PATH: kept}))
    assert [c["op"] for c in plan.changes] == ["restore"]
    ((_path, before, back),) = plan.diffs
    gone = [line for line in before.splitlines() if line not in back.splitlines()]
    assert gone == [line for line in text.splitlines() if line not in PACKAGED.splitlines()]


OWN = """accept-nvidia-visible-devices-as-volume-mounts = true
[nvidia-container-runtime]
log-level = "info"
mode = "legacy"
runtimes = ["/opt/runc"]
"""
# what the journal has of the file -> our keys in what is left of one that others have changed since
CHANGED_SINCE: dict[str, tuple[dict[str, Any], str, dict[str, Any], str]] = {
    "it had these keys": (
        {"existed": True, "content": OWN}, OWN,
        {"accept-nvidia-visible-devices-as-volume-mounts": True, "mode": "legacy", "runtimes": ["/opt/runc"]}, "toolkit.changed-since"),
    "it had none": ({"existed": True, "content": "[nvidia-container-runtime]\n"}, OWN, {}, "toolkit.changed-since"),
    "there was no file": ({"existed": False}, OWN, {}, "toolkit.changed-since"),
    "a copy that is not TOML": ({"existed": True, "content": "a = = 1"}, OWN, {}, "toolkit.no-original"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kept", "text", "left", "said"), CHANGED_SINCE.values(), ids=CHANGED_SINCE
)
def test_absent_gives_our_keys_the_values_from_before_where_others_changed_the_file(
    kept: dict[str, Any], text: str, left: dict[str, Any], said: str
) -> None:
    ours = converge(Policy(), text, record())
    now = ours.replace('log-level = "info"', 'log-level = "debug"')
    originals = {toolkit_config.PATH: {**kept, "sha256_after": sha(ours)}}
    plan = plan_removal(obs(files={toolkit_config.PATH: now}, originals=originals))
    assert [c["op"] for c in plan.changes] == ["edit"]
    found = tomllib.loads(after(plan, now))
    runtime = found.pop("nvidia-container-runtime")
    assert runtime.pop("log-level") == "debug"
    runtime.pop("modes", None)
    found.pop("features", None)
    assert {**found, **runtime} == left
    assert [get_code(text) for text in plan.advice] == [said]
    assert {get_code(d.why) for d in plan.differences} == {"restore.back-before"}


def test_absent_writes_no_earlier_value_that_the_host_does_not_send() -> None:
    text = '[nvidia-container-runtime]\nmode = "cdi"\n'
    kept = {"existed": True, "content": text.replace("cdi", "   "), "sha256_after": "another"}
    with pytest.raises(PlanError) as refused:
        plan_removal(obs(files={toolkit_config.PATH: text}, originals={toolkit_config.PATH: kept}))
    assert refused.value.code == "restore.earlier-value-not-sent"


def test_absent_leaves_a_file_alone_that_was_never_written_here() -> None:
    assert toolkit_config.plan_absent(
        Policy(state="absent"),
        toolkit_config.read_toolkit_config_facts(
            Policy(state="absent"), obs(files={toolkit_config.PATH: PACKAGED})
        ),
    ).empty


VALUES = st.one_of(
    st.booleans(),
    st.integers(-9, 9),
    st.text("abc /:.", max_size=8),
    st.lists(st.text("ab", max_size=3), max_size=2),
)
FOREIGN = st.dictionaries(
    st.sampled_from(["debug", "swarm-resource", "disable-require", "x"]), VALUES, max_size=4
)


@given(top=FOREIGN, cli=FOREIGN)
def test_whatever_else_is_in_the_file_survives(top: dict[str, Any], cli: dict[str, Any]) -> None:
    def lines(table: dict[str, Any]) -> str:
        return "".join(
            f"{k} = {toolkit_config.toml.dump_toml_value(v)}\n" for k, v in table.items()
        )

    before = f"# note\n{lines(top)}\n[nvidia-container-cli]\n{lines(cli)}"
    data = tomllib.loads(converge(Policy(), before, record()))
    assert {k: v for k, v in data.items() if k in top} == top
    assert data["nvidia-container-cli"] == cli
