# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the tables in docs/ from the tables in the code that they describe.

    pages.py [--write]      without --write: print which pages are outdated

A page marks the place of a table with `<!-- table NAME -->` and `<!-- end -->`; all around it is
written by hand.
"""

from __future__ import annotations

import functools
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
for entry in (ROOT, ROOT / ".cache" / "collections", Path(__file__).parent):
    sys.path.insert(0, str(entry))

import adoption_tables
import answer_tables
import image_tables
import message_tables
import options
import parts
import report_tables
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import arguments
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.cluster import other_owners
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import decide
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import deviations
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.lint import rules
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import version
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines import (
    cdi_versions,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    releases as containerd_releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.crio import (
    releases as crio_releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    config as docker_config,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.docker import (
    plan as docker_plan,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.known_bad import (
    table as known_bad_table,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.managers import known
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    installers,
    owners_settings,
    repository,
)
from page_table import code, table

from tests.lab.kinds import KINDS, Kind

DOCS = ROOT / "docs"
BLOCK = re.compile(r"(<!-- table (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
NAMES = {
    "containerd": "containerd", "crio": "CRI-O", "docker": "Docker", "podman": "Podman", "apptainer": "Apptainer",
    "singularity": "SingularityCE",
}  # fmt: skip
SWITCHES = {
    "none": "none",
    "off": "yes, off unless `enable_cdi = true`",
    "on": "yes, on unless `enable_cdi = false`",
    "always": "yes, always on",
}
PROGRAMS = ("apt-get", "dnf", "zypper")  # of package managers
MERGES = {
    "replace": "a drop-in replaces the whole table of a plugin",
    "deep": "a drop-in adds to the table of a plugin",
}


def number(parts: Iterable[int]) -> str:
    return ".".join(map(str, parts))


def imitated(hosts: Iterable[str]) -> str:
    return f"imitated: {code(hosts)}"


# ---------------------------------------------------------------- docs/testing.md


def left_to_the_night() -> str:
    """Return the parts that `make test` leaves to `make nightly`, with the reasons."""
    return table(
        ["part", "why not in `make test`"],
        [[code([name]), reason] for name, reason in parts.NIGHTLY.items()],
    )


# ---------------------------------------------------------------- docs/cdi.md


def caps() -> str:
    """Return a table of CDI: one row per version of the specification, one column per engine.

    A cell lists the releases that read this version and no newer one.
    """
    columns = {engine: ranges(rows) for engine, rows in cdi_versions.MAX_CDI.items()}
    known = [
        newest
        for newest in ("", *version.KNOWN)
        if any(newest in column for column in columns.values())
    ]
    body = [
        [newest or "no CDI", *("; ".join(column.get(newest, ())) for column in columns.values())]
        for newest in known
    ]
    return table(["newest version read", *(NAMES[engine] for engine in columns)], body)


def ranges(rows: Sequence[tuple[tuple[int, int, int], str]]) -> Mapping[str, list[str]]:
    """Return the releases in words, by the newest version that they read.

    Releases that follow each other are joined: {"0.8.0": ["1.7.27 to before 2.0.0", "from 2.1.0"]}.
    """
    found: dict[str, list[str]] = {}
    joined = [row for index, row in enumerate(rows) if index == 0 or rows[index - 1][1] != row[1]]
    for (first, newest), following in zip(joined, (*joined[1:], None), strict=True):
        words = (
            f"from {number(first)}"
            if following is None
            else f"{number(first)} to before {number(following[0])}"
        )
        found.setdefault(newest, []).append(re.sub(r"^0\.0\.0 to before", "before", words))
    return found


def libraries() -> str:
    rows = [[NAMES[engine], number(first)] for engine, first in cdi_versions.NEWER_LIBRARY.items()]
    return table(["engine", "CDI library 1.1.1 from"], rows)


def packaged() -> str:
    rows = [
        [
            NAMES[engine],
            name,
            newest,
            cdi_versions.get_max_cdi_version(engine, name.partition("~")[0]),
        ]
        for engine, name, newest in (
            (engine, plain(pattern), newest)
            for engine, pattern, newest in cdi_versions.MAX_CDI_PACKAGED
        )
    ]
    return table(
        ["engine", "release", "newest version read", "the same release from upstream"], rows
    )


def plain(pattern: str) -> str:
    """Return the release in the pattern that recognises it: v?1\\.7\\.24~ds1.* is 1.7.24~ds1."""
    return pattern.replace("\\", "").replace("v?", "").replace(".*", "")


def needs() -> str:
    rules = [(first, what) for first, what, _applies in (*version.EDIT_RULES, *version.SPEC_RULES)]
    return table(
        ["content", "needs version"],
        [
            [what, first]
            for first, what in sorted(
                rules, key=lambda r: (version.get_spec_version_key(r[0]), r[1])
            )
        ],
    )


def differences() -> str:
    head = ["", "`nvidia-ctk cdi generate`", "this collection", "why", "what users met"]
    return table(
        head,
        [
            [d.topic, d.nvidia_ctk, d.collection, d.why, ", ".join(d.issues)]
            for d in deviations.DEVIATIONS
        ],
    )


def checks() -> str:
    order = ("error", "warning", "note")
    rows = sorted(rules.RULES.items(), key=lambda item: order.index(item[1].level))
    return table(["rule", "level", "what is right", "what an engine does otherwise", "what to do"], [
        [f"`{name}`", r.level, r.what, r.effect, r.remedy + (f". Of NVIDIA's: {r.of_nvidia}" if r.of_nvidia else "")] for name, r in rows
    ])  # fmt: skip


# ---------------------------------------------------------------- docs/support.md


def containerd() -> str:
    facts = containerd_releases.FACTS
    rows = [
        [
            span(f.first, after),
            code(f.schemas),
            str(f.new_file),
            MERGES[f.merge],
            SWITCHES[f.cdi],
            "; ".join(traps(f)),
        ]
        for f, after in zip(facts, (*(f.first for f in facts[1:]), None), strict=True)
    ]
    return table(
        ["releases", "reads config version", "our file has version", "`imports`", "CDI", "beware"],
        rows,
    )


def span(first: tuple[int, int], following: tuple[int, int] | None) -> str:
    oldest = max(first, containerd_releases.OLDEST)
    return (
        f"from {number(oldest)}"
        if following is None
        else f"{number(oldest)} to before {number(following)}"
    )


def traps(facts: containerd_releases.ContainerdRelease) -> Iterator[str]:
    if not facts.keeps_runc:
        yield "a file that names a handler loses the built-in `runc`"
    if facts.v1_lost:
        yield "the CRI part of a file without `version` is dropped without an error"
    if facts.v2_names_in_v3_lost:
        yield "table names of version 2 in a file of version 3 are ignored"


def since() -> str:
    """Return the minimum versions, by engine."""
    rows = [
        ["containerd", "configured by this collection", number(containerd_releases.OLDEST)],
        ["containerd", "CDI", first_cdi("containerd")],
        *([NAMES["crio"], what, number(first)] for what, first in CRIO_SINCE),
        ["Docker", "CDI, with `features.cdi` in `daemon.json`", number(docker_plan.CDI_SINCE)],
        ["Docker", "CDI, on unless `features.cdi` is false", number(docker_plan.CDI_ON_SINCE)],
        [
            "Docker",
            "`dockerd --validate` reads a new file before it is put in place",
            number(docker_plan.VALIDATE_SINCE),
        ],
        ["Podman", "CDI", first_cdi("podman")],
    ]
    return table(["engine", "what", "since"], rows)


CRIO_SINCE = (
    ("CDI", crio_releases.CDI_SINCE),
    ("the status says the configuration", crio_releases.STATUS_CONFIG_SINCE),
    ("CDI by the field of the CRI, not by annotations only", crio_releases.CRI_FIELD_SINCE),
    ("the status lists the handlers", crio_releases.HANDLER_LIST_SINCE),
)


def first_cdi(engine: str) -> str:
    return number(next(first for first, newest in cdi_versions.MAX_CDI[engine] if newest))


def files() -> str:
    rows = [
        [
            "containerd 1.x",
            f"edits in `{containerd_releases.CONFIG}`",
            f"`{containerd_releases.UNIT}`",
            f"`{containerd_releases.SOCKET}`",
        ],
        [
            "containerd 2.x",
            f"a drop-in `{containerd_releases.DROP_IN}`",
            f"`{containerd_releases.UNIT}`",
            f"`{containerd_releases.SOCKET}`",
        ],
        [
            "CRI-O",
            f"a drop-in `{crio_releases.DROP_IN}`",
            f"`{crio_releases.UNIT}`",
            f"`{crio_releases.SOCKET}`",
        ],
        [
            "Docker",
            f"our keys in `{docker_config.CONFIG}`",
            f"`{docker_config.UNIT}`",
            f"`{docker_config.SOCKET}`",
        ],
    ]
    return table(["engine", "what is written", "unit", "socket"], rows)


def modes() -> str:
    rows = [
        [
            f"`{way}`",
            f"`{mode}`",
            code(decide.LEGACY_PACKAGES if mode == "legacy" else decide.BASE_PACKAGES),
        ]
        for way, mode in decide.MODES.items()
    ]
    return table(["injection", "mode of NVIDIA's runtime", "packages"], rows)


def kinds() -> str:
    return table(
        ["host of the lab", "engine"], ([name, engine_of(kind)] for name, kind in KINDS.items())
    )


def engine_of(kind: Kind) -> str:
    if kind.lends:
        return f"imitated: what renders the configuration and starts containerd; that is the one of `{kind.lends}`"
    return "built from its Go module" if kind.programs else f"Debian {kind.suite}'s packages"


def managers() -> str:
    """Return the systems that render a containerd's configuration, and whether hosts of them are in
    the lab.
    """
    rows = []
    for one in (m for m in known.MANAGERS if not m.taken_back or m.homes):
        shown = code((*one.homes, *one.units, *(f"ID={name}" for name in one.os_ids)))
        hosts = code(name for name in KINDS if name.startswith(f"{one.name}-like"))
        done = one.refusal.next
        if one.place:
            after = (
                f"{one.title} restarts its containerd by itself"
                if one.place.takes_up
                else f"restart of {code(one.place.units)}"
            )
            template = f"its handler in `{one.config.rpartition('/')[2]}`, from which it makes the configuration"
            done = f"{template if one.place.filled_in else f'a drop-in in {code(one.place.drop_ins)}'}; {after}"
        if one.place and one.place.detection:
            done += f". Without drop-ins: the handlers that it finds by itself, others in {code(one.place.detection.templates.values())}"
        rows.append([one.title, shown, done, f"imitated: {hosts}" if hosts else "a table of tests"])
    return table(["system", "recognised by", "what is done, or is to be done", "tested on"], rows)


def package_managers() -> str:
    """Return the programs that install NVIDIA's packages, and the hosts of the lab on which that
    ran.
    """
    rows = []
    for name, family in repository.FAMILIES.items():
        installer = installers.INSTALLERS[family.manager]
        ids = code(known for known, of in repository.LIKE.items() if of == name)
        own = [kind for kind, value in KINDS.items() if family.manager in value.packages]
        tested = imitated(own) if own else "every other host of the lab (Debian)"
        words = {
            word: [program, word]
            for word in ("install", "remove")
            for program in installer.remove
            if program in PROGRAMS
        }
        rows.append(
            [
                family.manager,
                ids,
                f"`{family.list_path}`",
                *(f"`{' '.join(found)}`" for found in words.values()),
                tested,
            ]
        )
        if family.manager == "dnf":  # dnf5 comes under the same name, and takes the same commands
            newer = imitated(kind for kind, of in KINDS.items() if "dnf5" in of.packages)
            rows.append(["dnf5", "`fedora`, from Fedora 41 on", *rows[-1][2:-1], newer])
    head = [
        "package manager",
        "`ID` or `ID_LIKE`",
        "source",
        "installation",
        "undo of a first one that fails",
        "tested on",
    ]
    return table(head, rows)


# ---------------------------------------------------------------- docs/comparison.md


# The bench's rows, by their beginnings, and what is compared.
SPEED = {
    "`host`, converged": "`host`, converged: SSH operations per host",
    "`host`, converged, to `ansible.builtin.ping`": "`host`, converged: time, as a ratio to `ansible.builtin.ping`",
    "`host`, first convergence, to a plain playbook": "`host`, first convergence: time, as a ratio to the plain playbook",
}


def speed() -> str:
    """Return the figures of docs/bench.md that compare, as the bench has written them."""
    lines = [line for line in (DOCS / "bench.md").read_text().splitlines() if line.startswith("|")]
    return table(["", "figure"], [[title, figure(lines, row)] for row, title in SPEED.items()])


def figure(lines: Sequence[str], row: str) -> str:
    """Return the first figure of the first row that begins so."""
    for cells in ([cell.strip() for cell in line.strip("|").split("|")] for line in lines):
        if cells[0].startswith(row):
            return cells[1]
    raise SystemExit(
        f"pages.py: docs/bench.md has no row {row} any more; name another one in SPEED"
    )


# ---------------------------------------------------------------- docs/variables.md


# The page's headings in the order in which people need them, each with the beginnings of the names
# that belong there. The longest counts.
SUBJECTS: Mapping[str, tuple[str, ...]] = {
    "How containers get GPUs": (
        *(
            "engines",
            "injection",
            "isolation",
            "handlers",
            "set_as_default",
            "cdi",
            "no_gpu",
            "adopt",
            "known_bad",
            "state",
            "restart",
        ),
        *("fleet_policy", "sharing", "device_nodes"),
    ),
    "Packages": ("packages", "toolkit_"),
    "Verification": ("verify_",),
    "The CDI spec": ("cdi_",),
    "Kubernetes": ("device_plugin_", "dra", "operator_toolkit", "kubernetes_"),
    "Taking hosts out of service": ("drain", "slurm_node"),
    "Where an engine is, and the way to a host": (
        *(
            "config_path",
            "drop_in",
            "engine_version",
            "service",
            "socket",
            "root",
            "transport",
            "metrics_dir",
        ),
    ),
    "Approved changes": ("rollout_id", "approved_change"),
    "Archives of packages": ("bundle_",),
    "AWX": ("awx_",),
}


def subject(name: str) -> str:
    """Return the heading of a variable. The longest beginning counts, as `cdi` is not a setting of
    the spec.
    """
    fits = [
        (len(begin), title)
        for title, begins in SUBJECTS.items()
        for begin in begins
        if own(name).startswith(begin)
    ]
    if not fits:
        raise SystemExit(
            f"pages.py: {name} has no heading in docs/variables.md; name one in SUBJECTS"
        )
    return max(fits)[1]


def place(begins: Sequence[str], name: str) -> int:
    """Return the position of a variable among those of its subject."""
    return next(number for number, begin in enumerate(begins) if own(name).startswith(begin))


def own(name: str) -> str:
    return name.removeprefix("gpufleet_")


def variables() -> str:
    """Return every variable of the roles by subject, with its values and the beginning of its
    description.
    """
    found: dict[str, dict[str, Any]] = {}
    for entries in options.ENTRIES.values():
        for module in entries.values():
            found = {**options.variables(module), **found}
    parts = []
    for title, begins in SUBJECTS.items():
        of = sorted(name for name in found if subject(name) == title)
        of.sort(key=functools.partial(place, begins))
        rows = [
            [f"`{name}`", values(found[name]), marked(found[name]["description"][0])] for name in of
        ]
        parts.append(f"## {title}\n\n{table(['variable', 'values', 'what it says'], rows)}")
    return "\n".join(parts)


# ---------------------------------------------------------------- docs/rollout.md


def rollout_settings() -> str:
    """Return every setting of a rollout, as the variable that it is."""
    documented = arguments.read_step_documentation("rollout_settings")["options"]
    rows = [
        [f"`gpufleet_rollout_{name}`", default_of(spec), " ".join(map(marked, said(spec)))]
        for name, spec in sorted(documented.items())
    ]
    return table(["setting", "default", "what it says"], rows)


def default_of(option: Mapping[str, Any]) -> str:
    return f"`{json.dumps(option['default'])}`" if option.get("default") not in (None, "") else ""


def said(option: Mapping[str, Any]) -> list[str]:
    text = option["description"]
    return [text] if isinstance(text, str) else list(text)


def values(option: Mapping[str, Any]) -> str:
    """Return the choices with the default in bold, or else the type and the default."""
    default = option.get("default")
    first = default if isinstance(default, list) else [default]
    if "choices" in option:
        words = ", ".join(
            f"**`{choice}`**" if choice in first else f"`{choice}`" for choice in option["choices"]
        )
        return f"list of {words}" if option["type"] == "list" else words
    kind = f"list of {option['elements']}" if option["type"] == "list" else option["type"]
    return (
        kind if default in (None, "", []) else f"{kind}, **`{json.dumps(default).strip(chr(34))}`**"
    )


def marked(sentence: str) -> str:
    """Turn Ansible's markup into Markdown's."""
    return re.sub(
        r"\b[CEOV]\(((?:[^()]|\([^()]*\))*)\)|\bM\(([^)]*)\)",
        lambda m: f"`{m[1] or m[2]}`",
        sentence,
    ).replace("|", "\\|")


def other_owners_() -> str:
    """Return the marks by which a Kubernetes node is in other hands."""
    rows = [
        [
            f"{m.kind} `{m.key}`",
            ", ".join(f"`{v}`" for v in m.values) or "any",
            f"{m.owner}, {m.ends}",
        ]
        for m in other_owners.MARKS
    ]
    locked = "the node's name, while the lock's TTL runs"
    rows.append(
        [
            f"annotation `{other_owners.KURED_LOCK}` of a DaemonSet",
            locked,
            "kured, until the host has rebooted",
        ]
    )
    return table(["mark", "values", "in whose hands the host is"], rows)


# ---------------------------------------------------------------- docs/known-bad.md


def known_bad(stops: bool) -> str:
    """Return one row for each known-bad combination. A link is named by the end of its address."""
    rows = [
        [
            f"`{row.id}`",
            "; ".join(c.text for c in row.when),
            row.what,
            row.way,
            ", ".join(f"[{named(link)}]({link})" for link in row.links),
        ]
        for row in known_bad_table.ROWS
        if row.stops == stops
    ]
    return table(
        ["row", "where all of this is so", "what goes wrong", "the way round", "upstream"], rows
    )


def named(link: str) -> str:
    """Return `nvidia-container-toolkit#1404` for an issue or a change, or else the last part of an
    address.
    """
    parts = link.split("/")
    return f"{parts[-3]}#{parts[-1]}" if parts[-2] in ("issues", "pull") else parts[-1]


def settings_of_the_owner() -> str:
    """Return one row for each way in which a setting of NVIDIA's config.toml may be wrong."""

    def modes(setting: owners_settings.OwnerSetting) -> str:
        return (
            "all"
            if setting.modes >= owners_settings.EVERY
            else code(sorted(setting.modes & owners_settings.EVERY))
        )

    rows = [
        [code([s.name]), s.condition, modes(s), s.row.why, s.row.next]
        for s in owners_settings.SETTINGS
    ]
    return table(["key", "wrong if", "modes", "then", "what to do"], rows)


TABLES: Mapping[str, Callable[[], str]] = {
    "caps": caps, "packaged": packaged, "libraries": libraries, "needs": needs, "differences": differences, "checks": checks,
    "containerd": containerd, "since": since, "files": files, "modes": modes, "kinds": kinds, "images": adoption_tables.images,
    "managers": managers, "package-managers": package_managers, "cuda": image_tables.drivers,
    "by-hand": adoption_tables.by_hand, "docker-before": adoption_tables.of_docker, "speed": speed, "variables": variables,
    "rollout-settings": rollout_settings, "other-owners": other_owners_,
    "answers": answer_tables.queries, "answers-of-programs": answer_tables.others,
    "owners-settings": settings_of_the_owner,
    "known-bad-stops": lambda: known_bad(True), "known-bad-said": lambda: known_bad(False),
    "messages": message_tables.build_page_tables,
    "nightly": left_to_the_night,
    "reports": lambda: report_tables.sections(named),
}  # fmt: skip


def fill(text: str) -> str:
    """Return the page with its tables as the code has them now."""
    return BLOCK.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}{found[4]}", text)


def pages() -> Iterator[Path]:
    yield from sorted(path for path in DOCS.glob("*.md") if BLOCK.search(path.read_text()))


def main(arguments: list[str]) -> int:
    outdated = [path for path in pages() if fill(path.read_text()) != path.read_text()]
    for path in outdated:
        if "--write" in arguments:
            path.write_text(fill(path.read_text()))
        print(
            f"{'written' if '--write' in arguments else 'outdated, run make docs'}: {path.relative_to(ROOT)}"
        )
    return 1 if outdated and "--write" not in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
