# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes what follows from the modules' documentation: the roles' argument specs and task
arguments, and the results that modules share.

    options.py [--write]      without --write: print which files are outdated

An option is written once, in a doc fragment or in its module. Each option of a role's module is a
variable of the role.
"""

from __future__ import annotations

import copy
import functools
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
for entry in (ROOT, ROOT / ".cache" / "collections"):
    sys.path.insert(0, str(entry))

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import arguments
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.variables import (
    find_variable,
)

HERE = "gpufleet.nvidia."
SPEC_KEYS = ("type", "elements", "choices", "required", "default")
# A role's entry points, each with its module. cdi_spec gets by hand what the look of refresh_cdi
# decides.
ENTRIES: Mapping[str, Mapping[str, str]] = {
    "host": {"look": "host_info", "main": "host", "refresh_cdi": "host_info"},
    "verify": {"main": "host_verify"},
    "toolkit": {"main": "toolkit_packages"},
    "drain": dict.fromkeys(("main", "check", "drain", "undrain", "keep"), "drain"),
    "awx": {"main": "awx"},
    "bundle": {"main": "bundle"},
    "kubernetes": dict.fromkeys(("main", "drift"), "kubernetes_objects"),
}
BY_HAND: Mapping[str, frozenset[str]] = {
    "cdi_spec": frozenset({"cdi_owner", "cdi_version", "state"}),
    "drain": frozenset({"drained", "results", "state"}),
    "kubernetes_objects": frozenset({"results"}),
}
# Variables of a role that are not options of its module, since they are about its tasks.
OF_TASKS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "drain": {
        "gpufleet_drain_delegate": {
            "description": [
                "The machine from which hosts are drained. Another one than the controller is a host of the inventory.",
                "It needs C(scontrol) for Slurm, the Python library C(kubernetes) for Kubernetes, and the programs of your own commands.",
            ],
            "type": "str",
            "default": "localhost",
        },
    },
    "kubernetes": {
        "gpufleet_kubernetes_delegate": {
            "description": [
                "The machine from which objects are applied. Another one than the controller is a host of the inventory.",
                "It needs the Python library C(kubernetes).",
            ],
            "type": "str",
            "default": "localhost",
        },
    },
}
MARKED = re.compile(r"\bO\((\w+)(=[^)]*)?\)")
TASK = re.compile(rf"(?m)^(  {re.escape(HERE)}(\w+):\n)((?:    .*\n)+)")
RETURN = re.compile(r'(RETURN = r"""\n)(.*?)(""")', re.DOTALL)
RESULT = re.compile(r"(?m)^(\w+):\n((?:(?:[ ].*)?\n)+)")
KEY = re.compile(r"(?m)^  (\w+):.*\n(?:   .*\n)*")
KEYS = ("description", "returned", "type", "elements", "sample", "contains")
RESULTS = Path(__file__).with_name("results.yml")


class Dumper(yaml.SafeDumper):
    """A YAML writer that indents lists, and names the anchor of what several entry points share
    `options`.
    """

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def generate_anchor(self, node: yaml.Node) -> str:
        return "options"


@functools.cache
def documentation(module: str) -> dict[str, Any]:
    """Return a module's documentation, read once, since each sentence that may name an option asks
    for it.
    """
    return arguments.read_module_documentation(module)


@functools.cache
def shared() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(RESULTS.read_text())
    return found


def variables(module: str) -> dict[str, dict[str, Any]]:
    """Return a module's options as variables of a role, in the order of their names."""
    documented = documentation(module)["options"]
    hand = BY_HAND.get(module, frozenset())
    found = {
        find_variable(module, option): of_role(module, text)
        for option, text in documented.items()
        if option not in hand
    }
    for secret in arguments.SECRETS & documented.keys():
        found[find_variable(module, secret)]["no_log"] = True
    return dict(sorted(found.items()))


def of_role(module: str, option: Mapping[str, Any]) -> dict[str, Any]:
    said = option["description"]
    text = [renamed(module, sentence) for sentence in ([said] if isinstance(said, str) else said)]
    spec = {key: option[key] for key in SPEC_KEYS if key in option}
    return copy.deepcopy({"description": text, **spec})


def renamed(module: str, sentence: str) -> str:
    """Turn a sentence about options into one about the variables of the same meaning."""
    known = documentation(module)["options"]
    return MARKED.sub(
        lambda m: f"O({find_variable(module, m[1])}{m[2] or ''})" if m[1] in known else m[0],
        sentence,
    )


def spec_file(role: str) -> Path:
    return ROOT / "roles" / role / "meta/argument_specs.yml"


def specs(role: str, text: str) -> str:
    """Return a role's argument specs with the options of its modules.

    The description of an entry point stays as it is written there.
    """
    head = text.partition("---\n")[0]
    entries = yaml.safe_load(text)["argument_specs"]
    shared: dict[str, dict[str, Any]] = {}
    for name, entry in entries.items():
        found = dict(
            sorted(
                {**variables(ENTRIES[role][name]), **copy.deepcopy(OF_TASKS.get(role, {}))}.items()
            )
        )
        entry["options"] = next((known for known in shared.values() if known == found), found)
        shared.setdefault(name, entry["options"])
    dumped = yaml.dump(
        {"argument_specs": entries}, Dumper=Dumper, sort_keys=False, width=120, allow_unicode=True
    )
    return f"{head}---\n{dumped}"


def tasks(text: str) -> str:
    """Return a role's tasks, each with all the options of its module that are variables of the
    role.
    """
    return TASK.sub(lambda found: found[1] + handed_on(found[2], found[3]), text)


def handed_on(module: str, lines: str) -> str:
    """Return the lines of one task's arguments."""
    hand = BY_HAND.get(module, frozenset())
    kept = {m[1]: m[0] for m in re.finditer(r"(?m)^    (\w+):.*\n", lines) if m[1] in hand}
    documented = documentation(module)["options"]
    everywhere = {
        name
        for entries in ENTRIES.values()
        for known in entries.values()
        for name in variables(known)
    }
    given = {
        o: argument(module, o, spec)
        for o, spec in documented.items()
        if o not in hand and find_variable(module, o) in everywhere
    }
    return "".join(line for _option, line in sorted({**given, **kept}.items()))


def argument(module: str, option: str, spec: Mapping[str, Any]) -> str:
    default = "" if spec.get("required") else " | default(omit)"
    return f'    {option}: "{{{{ {find_variable(module, option)}{default} }}}}"\n'


def results(module: str, text: str) -> str:
    """Return a module's text with the results that it shares with others.

    Samples stay as they are, and so do the keys that an entry marks as the modules' own.
    """
    return RETURN.sub(
        lambda found: (
            found[1] + RESULT.sub(lambda one: result(module, one[1], one[0]), found[2]) + found[3]
        ),
        text,
    )


def result(module: str, name: str, text: str) -> str:
    found = next((s for s in shared() if s["name"] == name and module in s["modules"]), None)
    if found is None:
        return text
    kept = {
        key: lines for key, lines in keys(text).items() if key in ("sample", *found.get("own", ()))
    }
    lines = {**keys("".join(f"  {line}\n" for line in str(found["text"]).splitlines())), **kept}
    return f"{name}:\n" + "".join(lines[key] for key in KEYS if key in lines)


def keys(text: str) -> dict[str, str]:
    """Return the keys of one result, each with its lines."""
    return {found[1]: found[0] for found in KEY.finditer(text)}


def files() -> Iterator[tuple[Path, str]]:
    """Yield every file that something is written into, with its text as it has to be."""
    for role in ENTRIES:
        yield spec_file(role), specs(role, spec_file(role).read_text())
        for path in sorted((ROOT / "roles" / role / "tasks").glob("*.yml")):
            yield path, tasks(path.read_text())
    for path in sorted((ROOT / "plugins/modules").glob("*.py")):
        yield path, results(path.stem, path.read_text())


def main(given: list[str]) -> int:
    outdated = [(path, text) for path, text in files() if text != path.read_text()]
    for path, text in outdated:
        if "--write" in given:
            path.write_text(text)
        print(
            f"{'written' if '--write' in given else 'outdated, run make docs'}: {path.relative_to(ROOT)}"
        )
    return 1 if outdated and "--write" not in given else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
