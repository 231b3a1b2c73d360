# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write what users name and read as one file, docs/contract.json, and say what a change of it
takes.

    contract.py [--write]      without --write: print what differs, each with the fragment it needs

One line of the file is one promise: its name, such as `option host.engines`, and what is promised
of it. The file of the last release is kept in tests/fixtures/releases/VERSION/contract.json. From
0.1.0 on, each difference from that file needs a changelog fragment that names it.
"""

from __future__ import annotations

import ast
import dataclasses as dc
import functools
import importlib
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
for entry in (ROOT, ROOT / ".cache" / "collections", Path(__file__).parent):
    sys.path.insert(0, str(entry))

import message_tables
import options
import semantic_versions
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import arguments
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import model
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import (
    events,
    variables,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    decision_file,
    earlier_runs,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    releases as containerd_releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    releases as crio_releases,
)

FILE = ROOT / "docs/contract.json"
HOST_SIDE = "ansible_collections.gpufleet.nvidia.plugins.module_utils._host."
RELEASES = ROOT / "tests/fixtures/releases"
FRAGMENTS = ROOT / "changelogs/fragments"
# Only our own actions and playbooks use them (docs/compatibility.md).
INTERNAL = frozenset({"host_program", "playbook_step"})
# The first release that binds: before it the file is only compared with the code.
BINDING = "0.1.0"
OPTION_KEYS = ("type", "elements", "choices", "default", "required", "aliases")
RESULT_KEYS = ("type", "elements")
BREAKING, DEPRECATED, MINOR, NONE = "breaking_changes", "deprecated_features", "minor_changes", ""
# A fragment of a stronger kind does as well: a change that breaks something may also add something.
ACCEPTED: Mapping[str, tuple[str, ...]] = {
    BREAKING: (BREAKING, "removed_features"),
    DEPRECATED: (DEPRECATED,),
    MINOR: (MINOR, "major_changes", DEPRECATED, BREAKING),
}

# The kinds of promises whose names have parts, which belong to the first part.
IN_PARTS = ("option", "result", "filter", "lookup", "schema")
# Code, in the language of the changelog.
MARKED = re.compile(r"``(.+?)``")

Promises = Mapping[str, Mapping[str, Any]]


@dc.dataclass(frozen=True)
class ContractChange:
    """A difference between two contracts. kind: the section of the fragment that it needs, '' for
    none.
    """

    promise: str
    kind: str
    says: str


# --- the contract, as the code has it
# --------------------------------------------------------------------------------------------------


def build_contract() -> Promises:
    """Return each promise by its name."""
    promises = {
        **dict(list_module_promises()),
        **dict(list_plugin_promises()),
        **dict(list_variable_promises()),
        **dict(list_playbook_promises()),
        **dict(list_host_file_promises()),
        **dict(list_schema_promises()),
        **dict(list_runtime_promises()),
        **{f"code {code}": {} for code in list_codes()},
    }
    return dict(sorted(promises.items()))


def list_modules() -> list[str]:
    """Return the modules that users call."""
    found = (path.stem for path in (ROOT / "plugins/modules").glob("*.py"))
    return sorted(name for name in found if name not in INTERNAL)


def list_module_promises() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the modules, their options and the keys of their results."""
    for module in list_modules():
        documented = options.documentation(module)
        yield f"module {module}", keep_promised(documented, ())
        yield from walk_options(f"option {module}", documented.get("options") or {})
        returned = yaml.safe_load(arguments.read_module_text(module, "RETURN")) or {}
        yield from walk_results(f"result {module}", returned)


def walk_options(
    prefix: str, documented: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield options with those within them, as `option host.handlers.binary`."""
    for name, spec in documented.items():
        yield f"{prefix}.{name}", keep_promised(spec, OPTION_KEYS)
        yield from walk_options(f"{prefix}.{name}", spec.get("suboptions") or {})


def walk_results(
    prefix: str, documented: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, spec in documented.items():
        yield f"{prefix}.{name}", keep_promised(spec, RESULT_KEYS)
        yield from walk_results(f"{prefix}.{name}", spec.get("contains") or {})


def keep_promised(spec: Mapping[str, Any], keys: Sequence[str]) -> Mapping[str, Any]:
    """Return the keys of a documentation that are promised, and that it is deprecated."""
    kept = {key: spec[key] for key in keys if key in spec}
    return {**kept, **({"deprecated": True} if spec.get("deprecated") else {})}


def list_plugin_promises() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the filters and lookups with their options."""
    for kind in ("filter", "lookup"):
        for path in sorted((ROOT / "plugins" / kind).glob("*.py")):
            if path.stem == "__init__":
                continue
            documented = read_documentation(path)
            if "internal" in str(documented.get("short_description", "")).lower():
                continue
            yield f"{kind} {path.stem}", keep_promised(documented, ())
            yield from walk_options(f"{kind} {path.stem}", documented.get("options") or {})


def read_documentation(path: Path) -> Mapping[str, Any]:
    """Return the DOCUMENTATION of a plugin."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "DOCUMENTATION":
            found: Mapping[str, Any] = yaml.safe_load(ast.literal_eval(node.value))
            return found
    return {}


def list_variable_promises() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the roles with their entry points, and all variables that users set."""
    for role, entries in options.ENTRIES.items():
        yield f"role {role}", {"entry_points": sorted(entries)}
        for module in entries.values():
            for name, option in options.variables(module).items():
                yield f"variable {name}", keep_promised(option, OPTION_KEYS)
        for name, spec in options.OF_TASKS.get(role, {}).items():
            yield f"variable {name}", keep_promised(spec, OPTION_KEYS)
    for name in {
        *variables.RUN,
        *variables.OF_HOSTS,
        *variables.OF_IMAGES,
        *variables.OF_HAND_OVER,
    }:
        yield f"variable {name}", {}
    for name, spec in arguments.read_step_documentation("rollout_settings")["options"].items():
        yield f"variable gpufleet_rollout_{name}", keep_promised(spec, OPTION_KEYS)


def list_playbook_promises() -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path in sorted((ROOT / "playbooks").glob("*.yml")):
        yield f"playbook {path.stem}", {}


def list_host_file_promises() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the files on hosts that others read, the names in an engine's configuration, and the
    schema of the journal.
    """
    for path in (earlier_runs.FACT_PATH, decision_file.DECISION_PATH):
        yield f"host file {path}", {"schema": decision_file.SCHEMA}
    record = decision_file.build_public_record(make_decided_host(), make_driver())
    for place in sorted(set(list_places(record))):
        yield f"key of the decision {place}", {}
    for engine, releases in (("containerd", containerd_releases), ("crio", crio_releases)):
        yield f"drop-in {engine}", {"name": releases.DROP_IN}
    yield "handler", {"name": model.Handler.name}
    # by its name, since the host's side has no types
    journal = importlib.import_module(HOST_SIDE + "journal")
    yield "journal", {"schema": journal.SCHEMA, "parts": list(journal.PARTS)}


def make_decided_host() -> model.HostDecision:
    """Make a decision that has a value in each field which the record shows."""
    reason = model.Reason("", "", Message("", ""))
    filled = {field.name: "" for field in dc.fields(model.Decision)}
    engine = model.Decision(**{**filled, "reasons": (reason,)})  # type: ignore[arg-type]
    host = {field.name: "" for field in dc.fields(model.HostDecision)}
    shown = {"decisions": (engine,), "refused": (("", ""),), "reasons": (reason,)}
    placed = {"cdi_owner": "collection", "cdi_place": "/etc/cdi"}
    return model.HostDecision(**{**host, **shown, **placed})  # type: ignore[arg-type]


def make_driver() -> model.Driver:
    gpu = {field.name: None for field in dc.fields(model.SeenGpu)}
    return model.Driver("ok", "", (model.SeenGpu(**gpu),), "")  # type: ignore[arg-type]


def list_places(value: Any, prefix: str = "") -> Iterator[str]:
    """Yield the dotted place of each key in a JSON value."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"{prefix}{key}"
            yield from list_places(item, f"{prefix}{key}.")
    elif isinstance(value, list | tuple):
        for item in value:
            yield from list_places(item, prefix)


def list_schema_promises() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the properties of each JSON Schema in docs/, and the events of a rollout."""
    for path in sorted((ROOT / "docs").glob("*.schema.json")):
        name = path.name.removesuffix(".schema.json")
        yield from walk_schema(f"schema {name}", json.loads(path.read_text()))
    for event in (events.START, events.BATCH, events.GATE, events.STOP, events.END):
        yield f"event {event}", {"schema": events.SCHEMA}


def walk_schema(prefix: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield a part of a JSON Schema with the parts within it."""
    kept = {key: schema[key] for key in ("type", "const", "enum", "required") if key in schema}
    yield prefix, {key: sorted(v) if key == "required" else v for key, v in kept.items()}
    for name, part in (schema.get("properties") or {}).items():
        yield from walk_schema(f"{prefix}.{name}", part)
    for key, mark in (("additionalProperties", "*"), ("items", "[]")):
        if isinstance(schema.get(key), dict):
            yield from walk_schema(f"{prefix}.{mark}", schema[key])


def list_runtime_promises() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the releases of ansible-core, and the groups that users set defaults for."""
    runtime = yaml.safe_load((ROOT / "meta/runtime.yml").read_text())
    yield "ansible-core", {"requires": runtime["requires_ansible"]}
    for name, members in runtime["action_groups"].items():
        yield f"action group {name}", {"members": sorted(members)}


def list_codes() -> list[str]:
    """Return the code of each message."""
    tables = (
        message_tables.read_rows(path).values() for path in message_tables.find_tables().values()
    )
    by_id = (rows() for rows in message_tables.TABLES_BY_ID.values())
    return sorted(row.code for rows in (*tables, *by_id) for row in rows)


def render_contract(promises: Promises) -> str:
    """Return the text of the file, one promise a line."""
    lines = (
        f"  {json.dumps(name)}: {json.dumps(said, sort_keys=True)}"
        for name, said in sorted(promises.items())
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


# --- what differs, and what it takes
# --------------------------------------------------------------------------------------------------


def compare_contracts(old: Promises, new: Promises) -> list[ContractChange]:
    """List what differs, by the names of the promises."""
    found = [judge_promise(name, old.get(name), new.get(name)) for name in sorted({*old, *new})]
    return [change for change in found if change is not None]


def judge_promise(
    name: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None
) -> ContractChange | None:
    """Return what one promise takes; None if it stays."""
    if old == new:
        return None
    if new is None:
        return ContractChange(name, BREAKING, "is gone")
    if old is None:
        # A correction may bring a code, so a new one needs no fragment.
        kind = NONE if name.startswith("code ") else judge_addition(name, new)
        return ContractChange(name, kind, "is new")
    changed = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
    if changed == ["deprecated"]:
        return ContractChange(name, DEPRECATED, "is deprecated")
    said = ", ".join(f"{key}: {old.get(key)!r} -> {new.get(key)!r}" for key in changed)
    kept = all(is_widened(key, old.get(key), new.get(key)) for key in changed)
    return ContractChange(name, MINOR if kept else BREAKING, said)


def judge_addition(name: str, new: Mapping[str, Any]) -> str:
    """Return what an addition takes. An option of a task that has to be given breaks tasks."""
    return BREAKING if name.startswith("option ") and new.get("required") is True else MINOR


def is_widened(key: str, old: Any, new: Any) -> bool:
    """Return whether everything that was right before still is, with the same meaning."""
    if key in ("choices", "aliases", "enum", "entry_points", "members", "parts"):
        return set(map(str, old or [])) <= set(map(str, new or [])) and bool(
            old or key == "aliases"
        )
    return key == "deprecated" or (key == "required" and old is True and not new)


def find_base(releases: Path = RELEASES) -> tuple[str, Promises]:
    """Return the newest release that binds, with its contract; ('', {}) if there is none."""
    kept = [path.parent.name for path in releases.glob("*/contract.json")]
    binding = [
        v
        for v in kept
        if semantic_versions.read_version(v) >= semantic_versions.read_version(BINDING)
    ]
    newest = max(binding, key=semantic_versions.read_version, default="")
    return newest, json.loads((releases / newest / "contract.json").read_text()) if newest else {}


def read_fragments(folder: Path = FRAGMENTS) -> Mapping[str, str]:
    """Return the entries of all fragments by their sections, one a line."""
    found: dict[str, str] = {}
    for path in sorted((*folder.glob("*.yml"), *folder.glob("*.yaml"))):
        for section, entries in (yaml.safe_load(path.read_text()) or {}).items():
            lines = entries if isinstance(entries, list) else [entries]
            text = "\n".join(" ".join(str(line).split()) for line in lines)
            found[section] = f"{found.get(section, '')}\n{text}"
    return found


def list_unexplained(
    changes: Sequence[ContractChange], fragments: Mapping[str, str]
) -> list[ContractChange]:
    """List the changes that no fragment of their kind names."""
    return [change for change in changes if change.kind and not is_explained(change, fragments)]


def is_explained(change: ContractChange, fragments: Mapping[str, str]) -> bool:
    """Return whether an entry of a fragment of its kind names a promise."""
    entries = (
        entry for kind in ACCEPTED[change.kind] for entry in fragments.get(kind, "").splitlines()
    )
    return any(names_promise(entry, change.promise) for entry in entries)


def names_promise(entry: str, promise: str) -> bool:
    """Return whether an entry names a promise so that it can mean no other.

    All of the name does, and so does a name that is a word of English if it is marked as code or
    has its kind before it. The last part of an option or a result does if it is marked as code, and
    what it belongs to is named, too: `gone`, `start` and `binary` are in many an entry.
    """
    kind, _, whole = promise.rpartition(" ")
    marked = " ".join(MARKED.findall(entry))
    if has_word(entry, promise if kind else "") or has_word(marked, whole):
        return True
    if re.search(r"[._/]", whole) and has_word(entry, whole):
        return True
    owner, last = whole.partition(".")[0], whole.rpartition(".")[2]
    return kind in IN_PARTS and has_word(entry, owner) and has_word(marked, last)


def has_word(text: str, word: str) -> bool:
    """Return whether a text has a name, and not as a part of another name."""
    return bool(word and re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w-]|\.\w)", text))


def describe_change(change: ContractChange) -> str:
    whole = change.promise.rpartition(" ")[2]
    takes = (
        f"needs a fragment under {change.kind} with ``{whole}``" if change.kind else "needs none"
    )
    return f"{change.promise}: {change.says} ({takes})"


@functools.cache
def read_file() -> Promises:
    """Return the contract as the file has it; {} if there is none."""
    found: Promises = json.loads(FILE.read_text()) if FILE.exists() else {}
    return found


def main(given: Sequence[str]) -> int:
    """Print or write. Return 1 if the file is outdated, or if a change lacks its fragment."""
    now = build_contract()
    text = render_contract(now)
    outdated = not FILE.exists() or FILE.read_text() != text
    base, promised = find_base()
    missing = list_unexplained(compare_contracts(promised, now), read_fragments()) if base else []
    for change in missing:
        print(f"since {base}: {describe_change(change)}")
    if outdated and "--write" in given:
        FILE.write_text(text)
        print(f"written: {FILE.relative_to(ROOT)}")
    elif outdated:
        for change in compare_contracts(read_file(), now):
            print(describe_change(change))
        print(f"outdated, run make docs: {FILE.relative_to(ROOT)}")
    return 1 if missing or (outdated and "--write" not in given) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
