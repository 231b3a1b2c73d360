# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which variable of a host cannot be read, and why; hosts with an answer are not looked at."""

from __future__ import annotations

import importlib
import types
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from ansible.errors import AnsibleError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    omitted_options,
    unanswered_hosts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from jinja2 import UndefinedError

KEY = "gpufleet_toolkit_key"


class Rendered(Mapping[str, Any]):
    """Variables as Ansible gives them: an error is raised when its variable is read."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values_, self.read = values, list[str]()

    def __getitem__(self, name: str) -> Any:
        self.read.append(name)
        if isinstance(self.values_[name], Exception):
            raise self.values_[name]
        return self.values_[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_)

    def __len__(self) -> int:
        return len(self.values_)


class Hosts(dict[str, Any]):
    """The variables of all hosts, which Ansible also gives as they are written."""

    def raw_get(self, _host: str) -> dict[str, Any]:
        return {KEY: "{{ lookup('url', 'https://example.org') }}"}


class Hidden:
    """A text in a vault whose password is missing."""

    def __str__(self) -> str:
        raise AnsibleError("no vault secrets found")


CONSTANTS = [
    ("a", True),
    ("a { b } # c", True),
    ("{{ a }}", False),
    ("a{% if b %}c{% endif %}", False),
    ("a{# a comment of Jinja #}", False),
    (None, True),
    (1.5, True),
    (["a"], False),
]


@pytest.mark.parametrize(("value", "constant"), CONSTANTS)
def test_a_value_without_a_template_is_taken_as_it_is(value: Any, constant: bool) -> None:
    """Ansible renders every other value, a comment alone included."""
    assert arguments.is_constant(value) is constant


CASES: list[tuple[Any, Any, str]] = [
    # as it is written, as it is read, what is said
    ("a key", "a key", ""),
    (["a", 1, None], ["a", 1, None], ""),
    ("{{ site_key }}", "rendered", ""),
    ("{{ lookup('file', 'x') }}", AnsibleError("file not found"), "file not found"),
    ("{{ a.b }}", UndefinedError("'a' has no attribute 'b'"), "'a' has no attribute 'b'"),
    ("{{ of_the_site }}", "{{ of_the_site }}", "of_the_site is undefined"),
    (
        "x {{ lookup('env', of_the_site) }}",
        "x {{ lookup('env', of_the_site) }}",
        "of_the_site is undefined",
    ),
    ("{{ known.deeper }}", "{{ known.deeper }}", "something in {{ known.deeper }} is undefined"),
    (
        "half of a password {{ known.deeper }} {{ known.b }}",
        "half of a password {{ known.deeper }} {{ known.b }}",
        "something in {{ known.deeper }} {{ known.b }} is undefined",
    ),
    ({"a": ["{{ of_the_site }}"]}, {"a": ["{{ of_the_site }}"]}, "of_the_site is undefined"),
    # a value, and no template of the user's
    (
        "{{ words_of_a_host }}",
        "{{ lookup('pipe', 'id') }}",
        "",
    ),
    (Hidden(), Hidden(), "no vault secrets found"),
    ({"a": Hidden()}, {"a": Hidden()}, "no vault secrets found"),
]


@pytest.mark.parametrize(("written", "read", "said"), CASES)
def test_a_variable_that_cannot_be_read_is_named_with_the_message(
    written: Any, read: Any, said: str
) -> None:
    found = unanswered_hosts.explain_unread_variable(
        Rendered({KEY: read}), {KEY: written, "known": {}}
    )
    assert found == (f"{KEY} cannot be read: {said}" if said else "")


def test_what_is_constant_or_read_by_no_role_and_no_connection_is_left_alone() -> None:
    written = {
        KEY: "a key",
        "own": "{{ x }}",
        "gpufleet_host_info": {"msg": "{{ x }}"},
        "ansible_user": "{{ x }}",
    }
    variables = Rendered(written)
    assert (
        unanswered_hosts.explain_unread_variable(variables, written)
        == "ansible_user cannot be read: x is undefined"
    )
    assert variables.read == ["ansible_user"]


# A host's result, and whether its variables are read: only where no action has answered.
ANSWERS: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    (
        {
            "failed": True,
            "msg": "Finalization of task args failed",
            "exception": "(traceback unavailable)",
        },
        True,
    ),
    ({"changed": True}, False),
    ({"failed": True, "error": {"code": "query.failed"}}, False),
    ({"failed": True, "row": {"engine": "containerd"}}, False),
    ({"failed": True, "timedout": {"period": 1}}, False),
    ({"unreachable": True}, False),
    ({"failed": False}, False),
]


@pytest.mark.parametrize(("result", "reads"), ANSWERS)
def test_only_hosts_without_an_answer_are_looked_at(result: dict[str, Any], reads: bool) -> None:
    hostvars = {"gpu1": Rendered({KEY: "{{ of_the_site }}"}), "gpu2": Rendered({KEY: "a key"})}
    found = unanswered_hosts.fail_unread_hosts({"gpu1": result, "gpu2": {}}, hostvars)
    named = {"failed": True, "msg": f"{KEY} cannot be read: of_the_site is undefined"}
    assert found == {"gpu1": named if reads else result, "gpu2": {}}
    assert bool(hostvars["gpu1"].read) is reads


class AnsibleValueOmittedError(AnsibleError):
    """What ansible-core raises since 2.19 if a template yields `omit`."""


def render(value: Any) -> Any:
    """Render as Ansible does: values by name, and an error for what is undefined."""
    known: dict[str, Any] = {"{{ known }}": "rendered", "{{ omit }}": AnsibleValueOmittedError("")}
    found = known.get(value, AnsibleError("of_the_site is undefined"))
    if isinstance(found, Exception):
        raise found
    return found


def action_of(module: str, path: str, **given: str) -> Any:
    """Return an action of one of this collection's modules, for a task with these options in a
    file.
    """
    task = types.SimpleNamespace(args=given, get_path=lambda: path)
    whole = f"ansible_collections.gpufleet.nvidia.plugins.action.{module}"
    cls = type("ActionModule", (), {"__module__": importlib.import_module(whole).__name__})
    found: Any = cls()
    found._task, found._templar = task, types.SimpleNamespace(template=render)
    return found


OWN = f"{arguments.OWN_TASKS[0]}host/tasks/look.yml:5"
# The action, the file of its task, the option that the task has, a variable as it is written, the
# variable that is named.
OMITTED: list[tuple[str, str, dict[str, str], dict[str, Any], str]] = [
    ("host_info", OWN, {}, {"gpufleet_root": "{{ of_the_site }}"}, "gpufleet_root"),
    # Ansible has rendered it
    (
        "host_info",
        OWN,
        {"root": "/"},
        {"gpufleet_root": "{{ of_the_site }}"},
        "",
    ),
    ("host_info", OWN, {}, {"gpufleet_root": "{{ known }}"}, ""),
    ("host_info", OWN, {}, {"gpufleet_root": "{{ omit }}"}, ""),
    # no option of this module
    (
        "host_info",
        OWN,
        {},
        {"gpufleet_root": "/", "gpufleet_drain": "{{ of_the_site }}"},
        "",
    ),
    # a user's task
    (
        "host_info",
        "/etc/site.yml:3",
        {},
        {"gpufleet_root": "{{ of_the_site }}"},
        "",
    ),
    ("host_verify", OWN, {}, {"gpufleet_root": "{{ of_the_site }}"}, "gpufleet_root"),
    ("drain", OWN, {}, {"gpufleet_drain": "{{ of_the_site }}"}, "gpufleet_drain"),
    ("drain", OWN, {}, {"gpufleet_drain_delegate": "{{ of_the_site }}"}, "gpufleet_drain_delegate"),
    (
        "playbook_step",
        OWN,
        {"step": "rollout_cluster"},
        {"gpufleet_kubernetes_delegate": "{{ of_the_site }}"},
        "gpufleet_kubernetes_delegate",
    ),
    ("image_choice_info", OWN, {}, {"gpufleet_root": "{{ of_the_site }}"}, "gpufleet_root"),
]


@pytest.mark.parametrize(("module", "path", "given", "written", "named"), OMITTED)
def test_no_option_is_left_out_for_an_undefined_value(
    module: str, path: str, given: dict[str, str], written: dict[str, Any], named: str
) -> None:
    ran: list[Any] = []
    begun = omitted_options.read_variables_first(
        lambda _action, _tmp, task_vars: ran.append(task_vars) or {}
    )
    if not named:
        assert begun(action_of(module, path, **given), None, written) == {}
        assert ran == [written]
        return
    with pytest.raises(PlanError) as caught:
        begun(action_of(module, path, **given), task_vars=written)
    assert (caught.value.code, str(caught.value).split()[0], ran) == (
        "action.unreadable-variable",
        named,
        [],
    )


def test_lookups_that_do_not_answer_hold_up_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0, 0, unanswered_hosts.SECONDS + 1])
    monkeypatch.setattr(
        unanswered_hosts, "time", types.SimpleNamespace(monotonic=lambda: next(times))
    )
    hostvars = Hosts(
        {host: Rendered({KEY: AnsibleError("timed out")}) for host in ("gpu1", "gpu2")}
    )
    found = unanswered_hosts.fail_unread_hosts(dict.fromkeys(hostvars, {}), hostvars)
    assert {host: bool(result) for host, result in found.items()} == {"gpu1": True, "gpu2": False}


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("ansible_host", True),
        ("ansible_become_exe", True),
        ("ansible_ssh_private_key_file", True),
        ("ansible_facts", False),
    ],
)
def test_which_variables_of_ansible_a_connection_needs(name: str, asked: bool) -> None:
    assert list(unanswered_hosts.list_asked_variables({name: "{{ x }}"})) == (
        [name] if asked else []
    )
