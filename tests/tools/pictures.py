# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the pictures in docs/pictures/, from the planner's own answers where it has some.

pictures.py [--write]      without --write: print which pictures are outdated
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from difflib import ndiff
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
for entry in (ROOT, ROOT / ".cache" / "collections", Path(__file__).parent):
    sys.path.insert(0, str(entry))

import decision_tables
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import waves
from drawing import (
    FILLS,
    INK,
    LINE,
    MONOSPACE,
    QUIET,
    Box,
    draw_arrow,
    draw_box,
    draw_picture,
    draw_text,
)
from page_table import ENGINE_TITLES

# By its name, since the checker of types would follow it into the host's programs.
PLANS: Any = importlib.import_module("tests.unit.containerd_plans")
PLACE = ROOT / "docs/pictures"


def list_engines_by_outcome(**options: Any) -> Mapping[tuple[str, bool], list[str]]:
    """Return the engines that get an injection, as the default handler or not."""
    found: dict[tuple[str, bool], list[str]] = {}
    for engine, releases in decision_tables.RELEASES.items():
        if engine == "podman" and options:  # Podman gets GPUs by CDI only, and refuses the rest
            continue
        for release in releases:
            one = decision_tables.decide_release(engine, release, **options).decisions[0]
            found.setdefault((one.injection, one.default), []).append(
                f"{ENGINE_TITLES[engine]} {'.'.join(release.split('.')[:2])}"
            )
    return found


def build_decision_flow() -> str:
    """Draw the questions that lead from an engine to an injection."""
    wanted = list_engines_by_outcome()
    without = list_engines_by_outcome(cdi="disabled")
    start, cdi, able = Box(330, 20, 300, 50), Box(330, 110, 300, 50), Box(330, 210, 300, 50)
    parts = [
        draw_box(start, ["A host with an engine", "found, with its release"]),
        draw_arrow([(start.middle, start.bottom), (cdi.middle, cdi.top)]),
        draw_box(cdi, ["Is CDI wanted?", "gpufleet_cdi, gpufleet_injection"], "question"),
        draw_arrow([(cdi.middle, cdi.bottom), (able.middle, able.top)], "yes (default)"),
        draw_box(
            able, ["Does the engine resolve CDI devices?", "by its release and status"], "question"
        ),
    ]
    left = 20
    parts.append(draw_text(20, 40, "On hosts without a kubelet.", fill=QUIET))
    leaves = [
        *((outcome, engines, able) for outcome, engines in wanted.items()),
        *((outcome, engines, cdi) for outcome, engines in without.items()),
    ]
    order = sorted(leaves, key=lambda leaf: (leaf[2] is cdi, leaf[0][0] != "native-cdi"))
    for (injection, default), engines, parent in order:
        box = Box(left, 340, 176, 50)
        start_x = parent.middle if parent is able else parent.right
        bend = 300 if parent is able else 135
        points = [
            (start_x, parent.bottom if parent is able else bend),
            (start_x, bend),
            (box.middle, bend),
            (box.middle, box.top),
        ]
        parts.append(draw_arrow(list(dict.fromkeys(points)), ""))
        parts.append(
            draw_text(
                box.middle + 6,
                330,
                "yes" if injection == "native-cdi" else "no",
                size=12,
                fill=QUIET,
            )
        )
        parts.append(
            draw_box(box, [injection, "default handler" if default else "not the default"], "good")
        )
        parts += [
            draw_text(
                box.middle,
                box.bottom + 22 + 17 * number,
                name,
                size=12,
                fill=QUIET,
                anchor="middle",
            )
            for number, name in enumerate(dict.fromkeys(engines))
        ]
        left += 188
    return draw_picture(
        20 + 188 * len(order) - 12 + 20, 590, "How containers get GPUs: the decision", parts
    )


def build_rollout_timeline() -> str:
    """Draw the batches of a rollout of 42 hosts of two classes, with the default waves."""
    canaries, others = 2, [f"gpu{number}" for number in range(40)]
    sizes = [
        len(wave)
        for wave in waves.cut_waves(others, waves.parse_wave_sizes("", list(waves.DEFAULT)))
    ]
    parts = [
        draw_text(
            20,
            30,
            "42 hosts that have something to do, of two hardware classes; gpufleet_rollout_waves: "
            + ", ".join(map(str, waves.DEFAULT)),
            fill=QUIET,
        )
    ]
    plan = Box(20, 60, 120, 70)
    parts.append(draw_box(plan, ["plan", "all hosts", "read-only"]))
    left, names = (
        plan.right,
        ["canaries", *(f"wave {number}" for number in range(1, len(sizes) + 1))],
    )
    for name, size in zip(names, [canaries, *sizes], strict=True):
        box = Box(left + 30, 60, 110, 70)
        parts.append(draw_arrow([(left, box.center), (box.left, box.center)]))
        parts.append(draw_box(box, [name, f"{size} {'host' if size == 1 else 'hosts'}"], "ours"))
        gate = Box(box.right + 24, 72, 56, 46)
        parts.append(draw_arrow([(box.right, box.center), (gate.left, gate.center)]))
        parts.append(draw_box(gate, ["gate"], "question"))
        parts.append(draw_arrow([(gate.middle, gate.bottom), (gate.middle, 190)], dashed=True))
        left = gate.right
    report = Box(left + 30, 60, 90, 70)
    parts.append(draw_arrow([(left, report.center), (report.left, report.center)]))
    parts.append(draw_box(report, ["report"]))
    stop = Box(164, 190, left - 164, 50)
    parts.append(
        draw_box(
            stop,
            [
                "stop: no further host is changed",
                "more hosts failed, were rolled back or lost than gpufleet_rollout_max_failed, or gpufleet_rollout_gate_check failed",
            ],
            "bad",
        )
    )
    steps = [
        "the host of a batch:",
        "plan again",
        "drain, if work would end",
        "change, in one transaction",
        "verify",
        "back into service",
        "second check (soak)",
    ]
    parts.append(draw_text(20, 288, " → ".join([f"{steps[0]} {steps[1]}", *steps[2:]]), fill=INK))
    parts.append(
        draw_text(
            20,
            312,
            "Run the same command again to resume. Hosts that are done take no place in a batch.",
            fill=QUIET,
        )
    )
    return draw_picture(report.right + 20, 335, "A rollout in time", parts)


STEPS = (
    # the state in the journal, and what is done in it; the first one is before the journal
    ("check", "nothing moved, the engine reads the staged files"),
    ("prepared", "the journal is open; packages come first"),
    ("armed", "the bytes from before are kept"),
    ("swapping", "the new files take their places"),
    ("swapped", "units restart once, the engine has to serve"),
    ("probation", "the host watches, with the lock free"),
    ("committed", "names beside the files go"),
)
UNDOERS = (
    ("a step fails", "the executor"),
    ("the executor dies", "systemd (ExecStopPost), or the caller"),
    ("the executor hangs", "the timer gpufleet-undo-ID"),
    ("the power is cut", "gpufleet-recover.service, before any engine"),
    ("all of these fail", "the next transaction"),
)


def build_transaction() -> str:
    """Draw the states of a transaction, and who takes it back from each."""
    parts, top = [], 20
    undo = Box(540, 100, 460, 50)
    for number, (state, step) in enumerate(STEPS):
        box = Box(20, top, 440, 50)
        kind = {"committed": "good", "check": "plain"}.get(state, "ours")
        parts.append(draw_box(box, [state, step], kind))
        if number < len(STEPS) - 1:
            parts.append(draw_arrow([(box.middle, box.bottom), (box.middle, box.bottom + 30)]))
            bend = [(500, box.center), (500, undo.center)] if number > 1 else []
            end = (undo.left, undo.center)
            if number:
                parts.append(draw_arrow([(box.right, box.center), *bend, end], dashed=True))
        top += 80
    parts.append(draw_text(540, 50, "A failure here changes nothing.", fill=QUIET))
    parts.append(
        draw_box(
            undo, ["undoing", "from the journal alone, under the lock, any number of times"], "bad"
        )
    )
    done = Box(540, 180, 460, 50)
    parts.append(draw_arrow([(undo.middle, undo.bottom), (undo.middle, done.top)]))
    parts.append(
        draw_box(
            done,
            ["rolled_back", "the bytes from before, the engine restarted and asked again"],
            "plain",
        )
    )
    parts.append(draw_text(540, 280, "If …", weight="bold"))
    parts.append(draw_text(720, 280, "… this takes it back", weight="bold"))
    for number, (cause, who) in enumerate(UNDOERS):
        parts.append(draw_text(540, 308 + 26 * number, cause))
        parts.append(draw_text(720, 308 + 26 * number, who, fill=QUIET))
    parts.append(
        draw_text(
            540, 490, "The connection may break at any time: the host finishes alone.", fill=QUIET
        )
    )
    parts.append(
        draw_text(
            540,
            512,
            "Wherever it is cut short, the host ends with all old or all new files.",
            fill=QUIET,
        )
    )
    return draw_picture(1020, top - 10, "One transaction, with its ways back", parts)


FILE_17 = """version = 2
# our mirror
[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "/etc/containerd/certs.d"
"""
FILE_2 = """version = 3
imports = ["/etc/containerd/conf.d/*.toml"]
# our mirror
[plugins."io.containerd.cri.v1.images".registry]
config_path = "/etc/containerd/certs.d"
"""


def build_configuration() -> str:
    """Draw the files of containerd 1.7 and 2.x before and after the planner's own change."""
    columns = []
    for release, text, enable in (("1.7.29", FILE_17, True), ("2.3.7", FILE_2, False)):
        before = {PLANS.ROOT: text}
        plan = PLANS.plan(release, before, enable_cdi=enable)
        columns.append((release, before, PLANS.applied(before, plan)))
    parts, lowest, left = [], 0, 20
    for release, before, after in columns:
        top = 34
        parts.append(draw_text(left, top, f"containerd {release}", size=15, weight="bold"))
        for path, text in sorted(after.items(), key=lambda item: item[0] not in before):
            top += 28
            note = "" if path in before else " (new)"
            parts.append(draw_text(left, top, path + note, size=12, fill=QUIET, font=MONOSPACE))
            for line in ndiff(before.get(path, "").splitlines(), text.splitlines()):
                if line[0] == "?":
                    continue
                top += 17
                fill, stroke = FILLS[
                    "good" if line[0] == "+" else "bad" if line[0] == "-" else "plain"
                ]
                if line[0] != " ":
                    parts.append(
                        f'<rect x="{left - 4}" y="{top - 12}" width="620" height="17" fill="{fill}"/>'
                    )
                parts.append(
                    draw_text(
                        left,
                        top,
                        line,
                        size=11,
                        font=MONOSPACE,
                        fill=stroke if line[0] != " " else INK,
                    )
                )
        lowest, left = max(lowest, top), left + 640
    return draw_picture(left, lowest + 24, "config.toml of containerd before and after", parts)


WRITERS = (
    # who writes, what, who reads it, whether it is this collection's
    ("driver package", "/dev/nvidia*, libraries", "containers, by the CDI spec", "plain"),
    ("distribution, k3s, EKS …", "the engine's main configuration", "engine", "plain"),
    ("gpufleet: host", "drop-in 90-gpufleet, or single keys", "engine", "ours"),
    ("gpufleet: host", "NVIDIA runtime's config.toml", "NVIDIA runtime", "ours"),
    (
        "gpufleet: host, or nvidia-cdi-refresh",
        "one CDI spec, with one owner",
        "engine, NVIDIA runtime",
        "ours",
    ),
    ("gpufleet: host", "decision.json, gpufleet.fact", "other programs on the host", "ours"),
    ("gpufleet: kubernetes", "labels, ConfigMap, RuntimeClass", "device plugin, pods", "ours"),
    ("device plugin (NVIDIA's chart)", "the node's nvidia.com/gpu", "kubelet, scheduler", "plain"),
    ("GPU Operator, toolkit.enabled=false", "driver, plugin, monitoring", "cluster", "plain"),
)


def build_writers() -> str:
    """Draw who writes what on a Kubernetes node, and who reads it."""
    parts = [
        draw_text(left, 28, head, weight="bold")
        for left, head in ((20, "who writes"), (350, "what"), (680, "who reads it"))
    ]
    for number, (who, what, reader, kind) in enumerate(WRITERS):
        top = 44 + 50 * number
        boxes = [Box(left, top, 290, 36) for left in (20, 350, 680)]
        for box, words in zip(boxes, (who, what, reader), strict=True):
            parts.append(draw_box(box, [words], kind if box is not boxes[2] else "plain", size=12))
        for one, following in zip(boxes, boxes[1:], strict=False):
            parts.append(draw_arrow([(one.right, one.center), (following.left, one.center)]))
    height = 44 + 50 * len(WRITERS) + 20
    parts.append(
        draw_text(
            20,
            height - 8,
            "Blue: this collection. In a file that it shares with others, it edits its own keys alone.",
            fill=QUIET,
            size=12,
        )
    )
    parts.append(f'<line x1="0" y1="36" x2="990" y2="36" stroke="{LINE}"/>')
    return draw_picture(990, height + 8, "Who writes what on a Kubernetes node", parts)


PICTURES: Mapping[str, Callable[[], str]] = {
    "decision-flow": build_decision_flow,
    "rollout": build_rollout_timeline,
    "transaction": build_transaction,
    "configuration": build_configuration,
    "writers": build_writers,
}


def list_pictures() -> Mapping[Path, str]:
    return {PLACE / f"{name}.svg": build() for name, build in PICTURES.items()}


def main(arguments: list[str]) -> int:
    """Print which pictures are outdated, or write them."""
    outdated = {
        path: text
        for path, text in list_pictures().items()
        if not path.exists() or path.read_text() != text
    }
    for path, text in outdated.items():
        if "--write" in arguments:
            PLACE.mkdir(exist_ok=True)
            path.write_text(text)
        print(f"{'written' if '--write' in arguments else 'outdated, run make docs'}: {path.name}")
    return 1 if outdated and "--write" not in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
