# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A secret at any place that is not listed: it is in no answer, the plan is the same as without it,
and it stays in its file.
"""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import contents
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import edits
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import toml_file
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Cdi,
    Decision,
    Evidence,
    Instance,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    containerd_places,
    crio_places,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detect as containerd_detect,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    config as docker_config,
)
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.draws import count_examples
from tests.integration import configs
from tests.unit import builders, jsontexts

ROOT = "/etc/containerd/config.toml"
SECRET, KEY = "hunter2hunter2", "a_secret_key"
KEEP = containerd_places.keep_containerd_places(Policy().handlers)
DECISION = Decision(
    instance="", engine="containerd", engine_version="", injection="native-cdi", handler="nvidia", default=False, runtime_mode="cdi",
    annotation_prefixes=("nvidia.cdi.k8s.io/",), device_list_strategy=(), plugin_annotation_prefix="", runtime_class="nvidia",
    enable_cdi=True, max_cdi_version="", hook=False, reasons=())  # fmt: skip
# Ways in which TOML writes a secret; the style's quotes are not the file's only ones.
SPELLED = (
    f'"{SECRET}"', f"'{SECRET}'", f'"""{SECRET}"""', f"'''\n{SECRET}'''", f'"a\\"{SECRET}"', f'"https://u:{SECRET}@h"',
    f'["A=b", "KEY={SECRET}"]', f'[\n  "--key={SECRET}", # {SECRET}\n]', f'{{ a = "{SECRET}", b = {{ c = ["{SECRET}"] }} }}',
    f'"""\n\\\n   {SECRET}\n\n"""',
)  # fmt: skip


def answer(text: str) -> dict[str, Any]:
    """The file's answer as the host gives it."""
    shown = contents.show_content(text.encode(), KEEP, ROOT)
    return {**builders.file_answer(""), **shown, "keep": KEEP, "sha256": "of the bytes"}


def plan(version: str, text: str) -> Plan:
    cdi = Cdi(
        able=True, enabled=True, dirs=(), max_version="0.5.0", evidence=Evidence("version", "")
    )
    one = Instance(
        "containerd",
        version,
        "/usr/bin/containerd",
        "/s",
        ROOT,
        "containerd.service",
        "package",
        False,
        cdi,
    )
    return containerd_detect.plan_instance(
        Policy(drop_in="never"),
        containerd_detect.read_facts(
            Policy(drop_in="never"), builders.obs(files={ROOT: answer(text)})
        ),
        one,
        DECISION,
    )


def holders(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Tables in which a key that nobody has listed may stand: any but that of the handlers, whose
    names are listed.
    """
    if path[-1:] != ("runtimes",):
        yield path
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from holders(value, (*path, key))


def with_key(tree: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    result: dict[str, Any] = copy.deepcopy(dict(tree))
    at = result
    for name in path:
        at = at[name]
    at[KEY] = "here"
    return result


def without_key(data: Any) -> Any:
    if isinstance(data, Mapping):
        inner = {key: without_key(value) for key, value in data.items() if key != KEY}
        return {key: value for key, value in inner.items() if value != {}}
    return [without_key(item) for item in data] if isinstance(data, list) else data


def after(text: str, found: Plan) -> str:
    for change in found.changes:
        assert change["op"] == "edit"
        text = edits.apply_line_edits(
            ROOT, text.encode(), json.loads(json.dumps(dict(change)))
        ).decode()
    return text


@pytest.mark.parametrize("release", ["1.7.24", "2.1.0"])
def test_a_secret_is_in_no_answer_the_plan_is_the_same_and_it_stays(release: str) -> None:
    @settings(
        deadline=None, max_examples=count_examples(60), suppress_health_check=list(HealthCheck)
    )
    @given(
        configs.containerd(release),
        configs.styles,
        st.data(),
        st.sampled_from(SPELLED),
        st.booleans(),
    )
    def holds(
        tree: dict[str, Any], style: configs.Style, data: st.DataObject, spelled: str, remark: bool
    ) -> None:
        assume(not style.size)
        place = data.draw(st.sampled_from(sorted(holders(tree))))
        plain = configs.written(tree, style)
        quoted = f"{style.quote}here{style.quote}"
        secret = configs.written(with_key(tree, place), style).replace(
            quoted, spelled.replace("\n", style.end)
        )
        secret += f"# {SECRET}" if remark and secret.endswith("\n") else ""
        assert SECRET in secret
        assert SECRET not in json.dumps(answer(secret))
        try:
            wanted = plan(release, plain)
        except PlanError as refused:
            with pytest.raises(
                PlanError, match=refused.what[:20].replace("(", ".").replace("[", ".")
            ):
                plan(release, secret)
            return
        found = plan(release, secret)
        assert [(d.key, d.before, d.after) for d in found.differences] == [
            (d.key, d.before, d.after) for d in wanted.differences
        ]
        assert SECRET not in repr(found)
        result = after(secret, found)
        assert result.count(SECRET) == secret.count(SECRET)
        assert without_key(tomllib.loads(result.lstrip("\ufeff"))) == without_key(
            tomllib.loads(after(plain, wanted).lstrip("\ufeff"))
        )

    holds()


@settings(deadline=None, max_examples=count_examples(150))
@given(
    jsontexts.objects, jsontexts.styles, st.sampled_from(["", "runtimes", "features", "log-opts"])
)
def test_a_secret_in_daemon_json_is_in_no_answer(
    value: dict[str, Any], style: jsontexts.Style, place: str
) -> None:
    tree = {
        **value,
        "runtimes": {"n": {"path": "/n", "runtimeArgs": [SECRET]}},
        "features": {"cdi": SECRET},
        "log-opts": {"a": SECRET},
    }
    text = jsontexts.written({**tree, "labels": [SECRET]}, style)
    assert SECRET not in json.dumps(
        contents.show_content(text.encode(), docker_config.keep_docker_values(), "/daemon.json")
    )


CRIO = f"""[crio.runtime]
default_env = ["KEY={SECRET}"]
[crio.runtime.runtimes.crun]
runtime_path = "/usr/bin/crun"
monitor_env = ["PATH=/usr/bin", "KEY={SECRET}"] # {SECRET}
default_annotations = {{ "a" = "{SECRET} x" }}
[crio.image]
global_auth_file = "/{SECRET}"
"""


def test_a_secret_of_crio_is_in_no_answer() -> None:
    shown = contents.show_content(CRIO.encode(), crio_places.keep_crio_places(), "/crio.conf")
    assert SECRET not in json.dumps(shown)
    assert [entry["path"][-1] for entry in shown["withheld"]] == ["monitor_env", "a"]


RUNTIMES = '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes]\n'


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('"S 3" = { runtime_type = "a" }', ""), ('"S 3" = {}', ""), ('"S 3" = "x"', ""), ('"S 3" = 7', ""),
        ('other = "x"', "other is a string here, but must be a table"), ("other = 7", "other is a number here, but must be a table"),
    ],
)  # fmt: skip
def test_the_type_of_what_stands_under_a_hidden_name_is_not_judged(line: str, said: str) -> None:
    text = f"version = 2\n{RUNTIMES}{line}\n"
    assert "S 3" not in answer(text)["content"]
    if not said:
        assert plan("1.7.20", text).changes
        return
    with pytest.raises(PlanError) as found:
        plan("1.7.20", text)
    assert said in str(found.value)


def test_a_value_that_a_host_withholds_of_what_an_engine_prints_is_hidden() -> None:
    text = 'a = "shown"\nb = "xxxxxx"\n'
    entry = {"path": ["b"], "kind": "string", "line": 2, "span": [16, 24], "tag": "0f" * 8}
    data = toml_file.read_printed_toml(text, {"withheld": [entry]}, "containerd config dump")
    assert (data["a"], data["b"].tag) == ("shown", entry["tag"])
