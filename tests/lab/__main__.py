# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's command line: python3 -m tests.lab VERB."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import time
from pathlib import Path

from . import claims, doctor, hosts, inventory, network, progress
from .artefacts import LabError
from .kinds import KINDS
from .lab import Lab, take_all_away, take_leftovers_away


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    # unwinds the stack, so what was begun is taken down
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return int(options.verb(Lab(), options) or 0)
    except LabError as why:
        print(f"lab: {why}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lab: stopped; what this command had started is gone", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m tests.lab", description=__doc__)
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    up = verbs.add_parser("up", help="bring up a fleet, or the named hosts of it")
    up.add_argument("--fleet", type=Path, help="fleet file (default: the demo fleet)")
    up.add_argument("hosts", nargs="*", metavar="HOST")
    up.set_defaults(verb=_up)
    down = verbs.add_parser(
        "down",
        help="remove the named hosts; without a name every lab of this checkout (GPUFLEET_LAB_NAME: that one)",
    )
    down.add_argument("hosts", nargs="*", metavar="HOST")
    down.set_defaults(verb=_down)
    build = verbs.add_parser(
        "build", help="build what hosts of these kinds (default: all) are made of"
    )
    build.add_argument("kinds", nargs="*", metavar="KIND")
    build.set_defaults(verb=_build)
    for name, verb, text in (
        ("list", _list, "the hosts that are up"),
        ("kinds", _kinds, "the kinds of host, and whether this machine can carry them"),
        ("doctor", _doctor, "what this machine lacks"),
        ("inventory", _inventory, "an Ansible inventory of the hosts that are up"),
    ):
        verbs.add_parser(name, help=text).set_defaults(verb=verb)
    for name, verb, text in (
        ("kill", lambda lab, options: lab.kill(options.host), "take the power from a host"),
        ("boot", lambda lab, options: lab.boot(options.host), "give the power back to a host"),
    ):
        one = verbs.add_parser(name, help=text)
        one.add_argument("host")
        one.set_defaults(verb=verb)
    link = verbs.add_parser("link", help="plug or unplug a host's network cable")
    link.add_argument("host")
    link.add_argument("state", choices=["up", "down"])
    link.set_defaults(verb=lambda lab, options: lab.link(options.host, options.state))
    fill = verbs.add_parser(
        "fill", help="leave only SIZE (64k, 2m, ...) free on a host's disk, or 'off'"
    )
    fill.add_argument("host")
    fill.add_argument("size")
    fill.set_defaults(verb=lambda lab, options: lab.fill(options.host, options.size))
    execute = verbs.add_parser("exec", help="run a command in a host: exec HOST -- CMD...")
    execute.add_argument("host")
    execute.add_argument("command", nargs=argparse.REMAINDER)
    execute.set_defaults(verb=_exec)
    run = verbs.add_parser(
        "run", help="run a command of this machine in the lab's network: run -- CMD..."
    )
    run.add_argument("command", nargs=argparse.REMAINDER)
    run.set_defaults(verb=_run)
    return parser


def _up(lab: Lab, options: argparse.Namespace) -> None:
    begin = time.monotonic()
    lab.kept = True
    with progress.shown():
        lab.up(options.fleet, options.hosts)
    _list(lab, options)
    for name, why in lab.skipped.items():
        print(f"{name:16} left out: {why}")
    print(f"up after {time.monotonic() - begin:.1f} s; inventory: {lab.inventory_path()}")
    for name, value in inventory.imitated().items():
        print(f"their GPUs are imitated, so Ansible needs: export {name}={shlex.quote(value)}")


def _down(lab: Lab, options: argparse.Namespace) -> int:
    if options.hosts or os.environ.get("GPUFLEET_LAB_NAME") or not claims.read(lab.runtime):
        lab.down(options.hosts)
    if options.hosts:
        return 0
    for name in take_leftovers_away():
        print(f"the lab {name}, which a process has left behind, is down")
    if os.environ.get("GPUFLEET_LAB_NAME"):
        return 0
    gone, left = take_all_away()
    for name in gone:
        print(f"the lab {name} is down")
    for name, owner in left:
        print(
            f"lab: {name} is in use by process {owner.pid} ({owner.command}): end that first, and its hosts go with it",
            file=sys.stderr,
        )
    return 1 if left else 0


def _build(lab: Lab, options: argparse.Namespace) -> None:
    doctor.prepare()
    with progress.shown():
        built = lab.build(options.kinds)
    for name, layers in built.items():
        print(f"{name:16} {' '.join(path.name for path in layers)}")


def _list(lab: Lab, options: argparse.Namespace) -> None:
    up = lab.hosts()
    ports = network.ports(lab.name) if up else {}
    for name, host in up.items():
        port = ports.get(f"vb-{host.machine}", "absent")
        gpus = host.spec.gpus
        state = f"{hosts.power(host):8} link={port.lower()}"
        print(
            f"{name:16} {host.address:12} {host.spec.kind:16} gpus={len(gpus.gpus)} driver={gpus.driver:7} {state}"
        )


def _kinds(lab: Lab, options: argparse.Namespace) -> None:
    for name, kind in KINDS.items():
        why = doctor.machine_obstacle() or doctor.obstacle(kind)
        print(f"{name:16} {kind.suite:10} {why or 'can be carried'}")


def _doctor(lab: Lab, options: argparse.Namespace) -> None:
    print("\n".join(doctor.report()))


def _inventory(lab: Lab, options: argparse.Namespace) -> None:
    if not lab.inventory_path().exists():
        raise LabError(f"The lab {lab.name} is not up, so there is no inventory.")
    print(lab.inventory_path().read_text(), end="")


def _exec(lab: Lab, options: argparse.Namespace) -> None:
    command = hosts.entry(lab.host(options.host), _command(options))
    os.execvp(command[0], command)


def _run(lab: Lab, options: argparse.Namespace) -> None:
    command = lab.inside(_command(options))
    os.execvpe(command[0], command, lab.environment())


def _command(options: argparse.Namespace) -> list[str]:
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise LabError("No command was given: write it after --.")
    return list(command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
