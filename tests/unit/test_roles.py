# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An option says the same as a module's, as a role's, and where a role hands it to the module;
action groups share options.
"""

from __future__ import annotations

import dataclasses as dc
import re
import subprocess
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from ansible.errors import AnsibleError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    arguments,
    role_variables,
    unreadable_variables,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import drain
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import variables
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import metrics

ROOT = Path(__file__).resolve().parents[2]
HERE = "gpufleet.nvidia."
ROLES = ("awx", "bundle", "drain", "kubernetes", "host", "toolkit", "verify")
SPEC_KEYS = ("type", "elements", "choices", "default")
GROUP: list[str] = yaml.safe_load((ROOT / "meta/runtime.yml").read_text())["action_groups"]["host"]

# A role's entry point, its module, options that carry another name in the role.
VERIFY = {
    "image": "verify_image",
    "image_environment": "verify_image_environment",
    "timeout": "verify_timeout",
    "host_result": "verify_host_result",
}
TOOLKIT = {
    "url": "toolkit_repository",
    "key": "toolkit_key",
    "key_fingerprint": "toolkit_key_fingerprint",
}
DRAIN = {
    **{
        o: f"drain_{o}"
        for o in (
            "by",
            "commands",
            "driver_changes",
            "interval",
            "method",
            "on_timeout",
            "reason",
            "timeout",
            "unknown",
        )
    },
    "policy": "drain",
    "rollout": "rollout_id",
    "kubeconfig": "kubernetes_kubeconfig",
    "context": "kubernetes_context",
}
AWX = {option: f"awx_{option}" for option in arguments.derive_argument_spec("awx")}
BUNDLE = {
    **TOOLKIT,
    **{option: f"bundle_{option}" for option in ("file", "versions", "architectures", "formats")},
}
KUBERNETES = {
    **{
        option: f"kubernetes_{option}"
        for option in arguments.derive_argument_spec("kubernetes_objects")
    },
    "fleet_policy": "fleet_policy",
}
ENTRIES = [
    *(("kubernetes", entry, "kubernetes_objects", KUBERNETES) for entry in ("main", "drift")),
    ("awx", "main", "awx", AWX),
    ("bundle", "main", "bundle", BUNDLE),
    ("host", "main", "host", {}),
    ("host", "look", "host_info", {}),
    ("verify", "main", "host_verify", VERIFY),
    ("toolkit", "main", "toolkit_packages", {}),
    *(("drain", entry, "drain", DRAIN) for entry in ("check", "drain", "undrain", "keep")),
]
# Options that a role's tasks give by themselves, and variables that are about its tasks and no
# options.
GIVEN = {"drain": {"state", "results", "drained"}, "kubernetes": {"results"}}
OF_TASKS = {"drain": {"gpufleet_drain_delegate"}, "kubernetes": {"gpufleet_kubernetes_delegate"}}
# Decided by the look of refresh_cdi, which is for a host as it is.
# the look says the first two, and a refresh takes nothing back
DECIDED = {
    "cdi_owner",
    "cdi_version",
    "state",
}


def specs(role: str) -> dict[str, Any]:
    text = (ROOT / "roles" / role / "meta/argument_specs.yml").read_text()
    return cast(dict[str, Any], yaml.safe_load(text)["argument_specs"])


def handed(role: str, entry: str, module: str) -> dict[str, str]:
    """What a role's task gives to the module: option -> its template."""
    tasks = yaml.safe_load((ROOT / "roles" / role / "tasks" / f"{entry}.yml").read_text())
    return next(dict(task[HERE + module] or {}) for task in tasks if HERE + module in task)


class OmittedValue(AnsibleError):
    """The error of ansible-core 2.19 for a template that yields `omit`."""


OmittedValue.__name__ = unreadable_variables.OMITTED


def make_action(module: str, role: str, rendered: Any = None) -> Any:
    """Make a task of a module in a role, '' for none. rendered: what each template becomes."""

    def template(_written: Any) -> Any:
        if isinstance(rendered, AnsibleError):
            raise rendered
        return rendered

    named = types.SimpleNamespace(get_name=lambda: role) if role else None
    action = type("ActionModule", (), {"__module__": f"actions.{module}"})()
    action._task = types.SimpleNamespace(_role=named, args={})
    action._templar = types.SimpleNamespace(template=template)
    return action


def variable(option: str, names: Mapping[str, str]) -> str:
    return f"gpufleet_{names.get(option, option)}"


def shape(option: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: option[key] for key in SPEC_KEYS if key in option}
    return {**found, "required": bool(option.get("required"))}


@pytest.mark.parametrize(("role", "entry", "module", "names"), ENTRIES)
def test_a_role_has_the_options_of_its_module(
    role: str, entry: str, module: str, names: Mapping[str, str]
) -> None:
    given = GIVEN.get(role, set())
    wanted = {
        variable(option, names): shape(spec)
        for option, spec in arguments.derive_argument_spec(module).items()
        if option not in given
    }
    found = {
        name: shape(spec)
        for name, spec in specs(role)[entry]["options"].items()
        if name not in OF_TASKS.get(role, set())
    }
    assert found == wanted


@pytest.mark.parametrize(
    ("role", "entry", "module", "names"),
    [row for row in ENTRIES if row[2] in arguments.BY_VARIABLES],
)
def test_a_module_reads_each_option_of_its_role_from_the_variable(
    role: str, entry: str, module: str, names: Mapping[str, str]
) -> None:
    assert handed(role, entry, module) == {}
    spec = arguments.derive_argument_spec(module)
    given = {variable(option, names): f"value of {option}" for option in spec}
    action = make_action(module, HERE + role)
    assert role_variables.read_role_options(action, spec, given) == {
        option: f"value of {option}" for option in spec
    }


VALUES = [
    # what is written, the rendered value, the option
    ("plain", None, {"cdi": "plain"}),
    (None, None, {"cdi": None}),
    (7, None, {"cdi": 7}),
    ("{{ other }}", "rendered", {"cdi": "rendered"}),
    (["{{ other }}"], ["rendered"], {"cdi": ["rendered"]}),
    # ansible-core before 2.19 renders `omit` as a text of its own
    ("{{ omit }}", "__omit__", {}),
    ("{{ omit }}", OmittedValue(), {}),
]


@pytest.mark.parametrize(("written", "rendered", "found"), VALUES)
def test_a_variable_of_a_role_is_rendered_where_it_is_a_template(
    written: Any, rendered: Any, found: Mapping[str, Any]
) -> None:
    action = make_action("host", HERE + "host", rendered)
    variables = {"gpufleet_cdi": written, "omit": "__omit__"}
    assert role_variables.read_role_options(action, {"cdi": {}}, variables) == found


@pytest.mark.parametrize("role", ["another.collection.host", ""])
def test_only_a_role_of_this_collection_has_its_options_in_variables(role: str) -> None:
    action = make_action("host", role)
    assert role_variables.read_role_options(action, {"cdi": {}}, {"gpufleet_cdi": "false"}) == {}


@pytest.mark.parametrize(
    ("role", "entry", "module", "names"),
    [row for row in ENTRIES if row[2] not in arguments.BY_VARIABLES],
)
def test_a_role_hands_each_option_on(
    role: str, entry: str, module: str, names: Mapping[str, str]
) -> None:
    required = {
        option
        for option, spec in arguments.derive_argument_spec(module).items()
        if spec.get("required")
    }
    given = handed(role, entry, module)
    assert set(given) == set(arguments.derive_argument_spec(module))
    for option, template in given.items():
        if option in GIVEN.get(role, set()):
            continue
        default = "" if option in required else " | default(omit)"
        assert template == f"{{{{ {variable(option, names)}{default} }}}}"


def test_refresh_cdi_hands_on_what_the_whole_host_is_asked_for() -> None:
    given = handed("host", "refresh_cdi", "cdi_spec")
    known = specs("host")["refresh_cdi"]["options"]
    asked = [
        option
        for option in arguments.derive_argument_spec("cdi_spec")
        if f"gpufleet_{option}" in known and option not in DECIDED
    ]
    wanted = {option: f"{{{{ gpufleet_{option} | default(omit) }}}}" for option in asked}
    assert {
        option: template for option, template in given.items() if option not in DECIDED
    } == wanted


@pytest.mark.parametrize(
    "path",
    sorted(ROOT.glob("roles/*/tasks/*.yml")),
    ids=lambda path: f"{path.parents[1].name}-{path.stem}",
)
def test_every_entry_point_of_a_role_has_a_spec(path: Path) -> None:
    entry = specs(path.parents[1].name)[path.stem]
    assert entry["short_description"]
    assert all(option["description"] for option in entry["options"].values())


FIXED: dict[str, tuple[dict[str, str], str, bool]] = {
    # a role's task: options without a variable, where its result goes, whether it only tries
    "drain/check": (
        {"state": "checked", "drained": "gpufleet_drain_result", "results": "gpufleet_host_info"},
        "gpufleet_drain_check",
        False,
    ),
    "drain/drain": (
        {"state": "drained", "drained": "gpufleet_drain_result", "results": "gpufleet_host_info"},
        "gpufleet_drain_result",
        False,
    ),
    "drain/keep": (
        {"state": "kept", "drained": "gpufleet_drain_result", "results": "gpufleet_host_info"},
        "gpufleet_keep_result",
        False,
    ),
    "drain/undrain": (
        {
            "state": "in_service",
            "drained": "gpufleet_drain_result",
            "results": "gpufleet_host_info",
        },
        "gpufleet_undrain_result",
        False,
    ),
    "kubernetes/drift": ({"results": "gpufleet_host_info"}, "gpufleet_kubernetes_result", True),
    "kubernetes/main": ({"results": "gpufleet_host_info"}, "gpufleet_kubernetes_result", False),
}


@pytest.mark.parametrize("place", FIXED)
def test_a_task_of_a_role_does_what_its_file_is_called(place: str) -> None:
    """Whoever includes it cannot choose these: `keep` must not put a host back into service."""
    role, entry = place.split("/")
    (task,) = yaml.safe_load((ROOT / f"roles/{role}/tasks/{entry}.yml").read_text())
    options = next(value for key, value in task.items() if key.startswith(HERE))
    fixed = {key: value for key, value in options.items() if "{{" not in str(value)}
    assert (fixed, task["register"], task.get("check_mode", False)) == FIXED[place]


def test_one_variable_means_the_same_in_all_roles() -> None:
    found: dict[str, list[dict[str, Any]]] = {}
    for role in ROLES:
        for entry in specs(role).values():
            for name, option in entry["options"].items():
                found.setdefault(name, []).append(shape(option))
    assert {
        name: shapes for name, shapes in found.items() if any(item != shapes[0] for item in shapes)
    } == {}


def test_the_names_of_results_are_known() -> None:
    text = "".join(
        path.read_text()
        for path in [*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("playbooks/**/*.yml")]
    )
    assert set(re.findall(r"register: (\w+)", text)) <= variables.RESULTS


def test_variables_in_playbooks_are_known() -> None:
    text = "".join(path.read_text() for path in ROOT.glob("playbooks/**/*.yml"))
    known = {name for role in ROLES for entry in specs(role).values() for name in entry["options"]}
    assert set(re.findall(r"\bgpufleet_\w+", text)) <= {
        *known,
        *variables.RUN,
        *variables.RESULTS,
        *variables.OF_IMAGES,
        *variables.OF_HAND_OVER,
        variables.OWN,
    }


# A misspelt one as an example, a variable of the user's own as an example, and what a host tells
# node_exporter.
NO_VARIABLES = {
    "gpufleet_isolaton",
    "gpufleet_site",
    metrics.DECISION,
    metrics.STALE,
    metrics.PENDING,
    metrics.CHANGED,
    metrics.BACK,
}


def test_variables_in_words_are_known() -> None:
    """A page, a fragment or a message may tell people to set a variable only if there is one of
    that name.
    """
    known = {
        name for role in ROLES for entry in specs(role).values() for name in entry["options"]
    } | NO_VARIABLES
    known |= {
        *variables.RUN,
        *variables.RESULTS,
        *variables.OF_HOSTS,
        *variables.OF_IMAGES,
        *variables.OF_HAND_OVER,
        variables.OWN,
    }
    pages = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("changelogs/fragments/*.yml"),
        *ROOT.glob("plugins/**/*.py"),
    ]
    found = {
        (path.name, name)
        for path in pages
        for name in re.findall(r"\bgpufleet_[a-z0-9_]*[a-z0-9]\b(?![.(*{_])", path.read_text())
    }
    assert {(path, name) for path, name in found if name not in known} == set()


# Options that are handed to a planner beside the policy, also one that has a field's name and means
# something else there.
BESIDE_POLICY = {
    "gpu_health_info": {"nvml"},
    "host": {"approved_change"},
    "toolkit_config": {"low_level_runtimes", "mode"},
    "oci_hook": {"path"},
    "cdi_spec": {"cdi_version"},
    "cdi_spec_info": {"cdi_version"},
    "image_choice_info": {
        "catalogue",
        "facts",
        "gpus",
        "nothing_fits",
        "registry",
        "registry_auth_file",
        "registry_plain_http",
    },
    "toolkit_repository": {"key", "key_fingerprint", "url"},
}


@pytest.mark.parametrize("module", sorted({*GROUP} - {"host_verify"}))
def test_an_option_reaches_the_policy(module: str) -> None:
    """A documented one that is not a field of it would be taken, and would do nothing."""
    fields = {field.name for field in dc.fields(Policy)}
    beside = {"transport", *BESIDE_POLICY.get(module, set())}
    assert {*arguments.derive_argument_spec(module)} - (fields - beside) == beside


def test_an_action_group_has_modules_that_share_options_only() -> None:
    for module in GROUP:
        assert "transport" in arguments.derive_argument_spec(module), module
        assert (
            "gpufleet.nvidia.attributes.actiongroup_host"
            in arguments.read_module_documentation(module)["extends_documentation_fragment"]
        ), module
    documented = {
        path.stem
        for path in (ROOT / "plugins/modules").glob("*.py")
        if "attributes.actiongroup_host" in path.read_text()
    }
    assert documented == set(GROUP)


BLOCKS = re.findall(r"```yaml\n(# \S+\.yml.*?)```", (ROOT / "docs/drain.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("text", BLOCKS)
def test_settings_that_the_page_on_drains_shows_are_accepted(text: str) -> None:
    options = specs("drain")["main"]["options"]
    settings = yaml.safe_load(text)
    assert set(settings) <= set(options)
    given = {
        option: settings.get(f"gpufleet_{DRAIN.get(option, option)}", spec.get("default"))
        for option, spec in arguments.derive_argument_spec("drain").items()
    }
    drain.check_drain_settings(given)


def test_the_page_on_drains_shows_settings() -> None:
    assert len(BLOCKS) == 6


# Plays that users copy, with our roles in them.
COPIED = sorted([*ROOT.glob("roles/*/README.md"), *ROOT.glob("examples/**/*.yml")])
OF_ROLE = re.compile(r"_role:\n(?P<words>(?: +(?:name|tasks_from|rolespec_validate): .*\n)+)")


@pytest.mark.parametrize("page", COPIED, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_copied_play_leaves_the_values_to_our_tasks(page: Path) -> None:
    """Ansible's own check prints the whole specification of a role for each host."""
    text = page.read_text()
    assert not re.search(r"- role: gpufleet\.", text)
    for words in (found["words"] for found in OF_ROLE.finditer(text)):
        assert "gpufleet.nvidia." not in words or "rolespec_validate: false" in words


OWN_PLAY = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.import_role:
        name: gpufleet.nvidia.host
        rolespec_validate: false
      vars:
        gpufleet_injection: cdi
"""


def test_a_wrong_value_in_a_play_of_ones_own_is_one_sentence(tmp_path: Path) -> None:
    book = tmp_path / "own.yml"
    book.write_text(OWN_PLAY)
    command = [Path(sys.executable).with_name("ansible-playbook"), "-i", "localhost,", book]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "[options.choice]" in done.stdout
    assert len(done.stdout + done.stderr) < 3000
