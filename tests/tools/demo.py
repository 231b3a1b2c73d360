# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The main job on a small fleet of real hosts, as a person would do it: plan, site, the
verifications, a second run that changes nothing, and a rollout.

In between a change goes wrong while the host cannot be reached.

    demo.py [--fleet NAME] [--cluster] [--keep]

NAME is a file of tests/lab/fleets: debian, the default, has engines as Debian packages them;
engines has more of them, whose build from source takes 20 minutes; all has every manager and
package manager besides. --cluster ends with a Kubernetes of two more hosts, which is built from
source, too. --keep leaves the hosts running afterwards.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from environments import CACHE, ROOT

for entry in (ROOT, CACHE / "collections"):
    sys.path.insert(0, str(entry))

import demo_cluster
import demo_cut
import demo_driver
import demo_repositories
import demo_rollout
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    reader,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec import version

from tests.lab import doctor, fleet, images, inventory, progress
from tests.lab.artefacts import LabError
from tests.lab.lab import Lab

PLACE = CACHE / "demo"
COUNT = PLACE / "ssh-operations"
RESULTS = PLACE / "results"
WORDS = {"cdi_owner": "written by the", "cdi_version_cap": "no newer than"}


class DemoFailed(Exception):
    """A step that did not do what it should."""


# What a user would set for their fleet: which image a verification may start. Where packages come
# from stands in the inventory.
VARIABLES = {"gpufleet_verify_image": images.PROBE}


class Stage:
    """A fleet, and the way to run Ansible against it with every SSH operation counted."""

    def __init__(self, lab: Lab, repositories: Path | None = None) -> None:
        self.lab = lab
        self.addresses = {host.address: name for name, host in lab.hosts().items()}
        self.environment = {
            **os.environ,
            **inventory.imitated(),
            "ANSIBLE_INVENTORY": ",".join(
                str(path) for path in (lab.inventory_path(), repositories) if path
            ),
            "ANSIBLE_FORCE_COLOR": "1" if sys.stdout.isatty() else "0",
            "ANSIBLE_DISPLAY_SKIPPED_HOSTS": "0",
            "ANSIBLE_FORKS": "9",
            "ANSIBLE_RETRY_FILES_ENABLED": "0",
            "COUNT_SSH_LOG": str(COUNT),
            "COUNT_SSH_PROGRAM": str(lab.runtime / "ssh"),
            "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "tests/tools/callbacks"),
            "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1",  # also for a single task
            "GPUFLEET_RESULTS": str(RESULTS),
        }

    def run(self, *command: str, quiet: bool = False, status: int = 0) -> str:
        """Run one Ansible command, show its output, and return it.

        quiet: show the output only if the command fails. status: the exit status that is expected.
        """
        COUNT.write_text("")
        arguments = [*command, "-e", f"ansible_ssh_executable={ROOT}/tests/tools/count-ssh"]
        if not quiet:
            print(f"$ {' '.join(command)}\n", flush=True)
        process = subprocess.Popen(
            arguments,
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        words = []
        for line in process.stdout or ():
            words.append(line)
            if not quiet:
                print(line, end="", flush=True)
        if process.wait() != status:
            raise DemoFailed(
                f"{' '.join(command)} ended with status {process.returncode}"
                + ("\n" + "".join(words) if quiet else "")
            )
        return "".join(words)

    def task(self, module: str) -> dict[str, dict[str, Any]]:
        """Run one task of this collection on every host, and give what it answered."""
        RESULTS.write_text("")
        self.run("ansible", "gpu_hosts", "-m", f"gpufleet.nvidia.{module}", quiet=True)
        return {
            entry["host"]: entry["result"]
            for entry in map(json.loads, RESULTS.read_text().splitlines())
        }

    def start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Begin an Ansible command in a process group of its own, and leave it to the caller."""
        silent = subprocess.DEVNULL
        # who is killed leaves files there
        environment = {
            **self.environment,
            "ANSIBLE_LOCAL_TEMP": str(PLACE),
        }
        return subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=silent, stdout=silent, stderr=silent, start_new_session=True
        )  # fmt: skip

    def operations(self) -> str:
        """Tell how many SSH operations each host took in the last run."""
        counted = Counter(self.addresses.get(line, line) for line in COUNT.read_text().split())
        return ", ".join(f"{name} {counted[name]}" for name in sorted(counted)) or "none"


def heading(text: str) -> None:
    """Print a step's name so that it is found again when scrolling back."""
    print(f"\n\n{'=' * 100}\n{text}\n{'=' * 100}\n", flush=True)


def changed(recap: str) -> Mapping[str, int]:
    """Read from a run's recap how many tasks changed something on each host."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", recap)
    return {
        host: int(count)
        for host, count in re.findall(r"^(\S+)\s*: .*?changed=(\d+)", plain, re.MULTILINE)
    }


def plan(stage: Stage, *settings: str) -> None:
    """Show the first thing that a user would run.

    It has the variables of the run that follows, so that both report the same.
    """
    heading("1. plan: what is there, what would change, and why (reads only)")
    stage.run("ansible-playbook", "gpufleet.nvidia.plan", *settings)


def specs(stage: Stage) -> None:
    """Show the CDI spec of each host: its file, its version, and why it is that one."""
    heading("4. the CDI specs: whose file, which version, and why that one")
    answers = stage.task("host_info")
    for host in sorted(answers):
        print(f"{host}:")
        found = answers[host].get("freshness") or []
        for verdict in found:
            print(
                f"  {verdict['path']} ({verdict['writer']}, {verdict['state']}), "
                + reasons(stage, host, verdict["path"])
            )
        if not found:
            print(
                "  none: "
                + (
                    answers[host]["decision"].get("skipped")
                    or "nothing here reads one that this collection takes care of"
                )
            )
        for reason in answers[host]["decision"]["reasons"]:
            if reason["what"] in WORDS and found:
                print(f"    {WORDS[reason['what']]} {reason['value']}: {reason['why']}")


def reasons(stage: Stage, host: str, path: str) -> str:
    """Return what in a spec needs its version."""
    spec = reader.parse_spec(stage.lab.exec(host, ["cat", path]).stdout)
    needed = [what for first, what in version.list_version_needs(spec) if first == spec.version]
    names = ", ".join(device.name for device in spec.devices)
    return f"CDI {spec.version}, the lowest version that allows {' and '.join(needed) or 'what is in it'}: {names}"


def show_plan_only(stage: Stage) -> int:
    """Show what can be shown without Go."""
    plan(stage)
    print(
        "There is no Go (1.26 or newer) on this machine. NVIDIA's packages are built with it, and so are some releases of engines: site,"
    )
    print(
        "verifications and the second run are not shown, and hosts with those releases are left out. Put `go` in PATH and run this again."
    )
    return 0


def show(stage: Stage, settings: Path) -> int:
    """Show everything, in the order in which a user would do it."""
    plan(stage, "-e", f"@{settings.relative_to(ROOT)}")
    heading("2. site: look, decide, install, converge, verify")
    stage.run("ansible-playbook", "gpufleet.nvidia.site", "-e", f"@{settings.relative_to(ROOT)}")
    print(f"SSH operations: {stage.operations()}")
    cut_off(stage, settings)
    specs(stage)
    heading("5. the verifications: containers started through the engines themselves")
    stage.run("ansible-playbook", "gpufleet.nvidia.verify", "-e", f"@{settings.relative_to(ROOT)}")
    heading("6. the same again")
    again = changed(
        stage.run(
            "ansible-playbook", "gpufleet.nvidia.site", "-e", f"@{settings.relative_to(ROOT)}"
        )
    )
    whole_site = stage.operations()
    stage.task("host")
    print(f"second run: {sum(again.values())} changed")
    print(f"SSH operations of the second site, with the verifications: {whole_site}")
    print(f"SSH operations of a converged node: {stage.operations()}")
    heading("7. a rollout: canaries, a gate that stops it, and on")
    demo_rollout.show(stage.run, settings.relative_to(ROOT), PLACE)
    heading("8. one more host, whose driver an unattended upgrade moves: what the plan says")
    demo_driver.boot(stage.lab)
    demo_driver.show(stage.lab, stage.run)
    return 1 if sum(again.values()) else 0


def show_cluster(lab: Lab, settings: Path, repositories: Path) -> None:
    """Show what a Kubernetes of two kinds of host needs to know, and a pod on each.

    Its hosts are in the inventory from then on.
    """
    heading("9. a cluster of two kinds of host: what is rendered for it, and a pod on each")
    print(
        "Kubernetes is built from source the first time, which takes ten minutes on two cores.",
        flush=True,
    )
    with progress.shown():
        cluster = demo_cluster.boot(lab, PLACE / "cluster")
    stage = Stage(lab, repositories)
    demo_cluster.show(
        cluster, stage.run, settings.relative_to(ROOT), (PLACE / "rendered").relative_to(ROOT)
    )


def cut_off(stage: Stage, settings: Path) -> None:
    """Cut the link to a host in the middle of a change that its engine does not live with, and see
    it come back by itself.
    """
    host = next((name for name in demo_cut.HOSTS if name in stage.lab.hosts()), "")
    if not host:
        return
    heading(
        f"3. the link to {host} is cut in the middle of a change, and its containerd does not come up with that change"
    )
    site = (
        "ansible-playbook",
        "gpufleet.nvidia.site",
        "-e",
        f"@{settings.relative_to(ROOT)}",
        "--limit",
        host,
    )
    demo_cut.cut(stage.lab, host, stage.start, (*site, "-e", demo_cut.CHANGE))
    print("\nThe next run says so:\n")
    said = stage.run(*site)
    times = times_said(said, host)
    if times != 1:
        raise DemoFailed(
            f"the next run said {times} times instead of once that {host} had rolled back"
        )


def times_said(said: str, host: str) -> int:
    """Count the paragraphs of the table that report the host's rollback, at whatever width their
    lines were broken.
    """
    paragraphs = re.findall(rf"^{host}: .*(?:\n  .*)*", said, re.MULTILINE)
    return sum(
        bool(re.search(r"was rolled back.*because", " ".join(text.split()))) for text in paragraphs
    )


def prepared(lab: Lab, wanted: Path) -> None:
    """Boot the fleet and announce what that takes: packages for this machine first, then what hosts
    are made of.
    """
    heading(f"0. a fleet to show it on: {', '.join(fleet.read(wanted)['hosts'])}")
    print(
        "Hosts are booted on this machine (systemd-nspawn), with GPUs that are imitated. What they are made of is built the first time:"
    )
    print(
        f"Debian's own packages, and NVIDIA's container tools with Go. It is kept in {lab.home}.",
        flush=True,
    )
    if wanted in (fleet.ENGINES, fleet.ALL):
        print(
            f"The fleet `{wanted.stem}` has engines that are built from source, too: that takes 20 minutes on two cores.",
            flush=True,
        )
    begin = time.monotonic()
    with progress.shown():
        lab.up(wanted)
    print(f"{len(lab.hosts())} hosts are up after {time.monotonic() - begin:.0f} s", flush=True)
    for name, why in lab.skipped.items():
        print(f"left out: {name}, {why}")


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="demo.py", description=(__doc__ or "").partition("\n")[0])
    names = sorted(path.stem for path in fleet.FLEETS.glob("*.json"))
    parser.add_argument(
        "--fleet", choices=names, default=fleet.DEMO.stem, help="a file of tests/lab/fleets"
    )
    parser.add_argument(
        "--cluster", action="store_true", help="show a Kubernetes of two more hosts, too"
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="leave the hosts running afterwards; `make lab-down` removes them",
    )
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Boot the demo's fleet, show, and take it down again."""
    options = parsed(arguments)
    obstacle = doctor.machine_obstacle()
    if obstacle:
        print(
            f"make demo needs hosts of its own: {obstacle}. Without them, `make check` runs what can be run."
        )
        return 1
    PLACE.mkdir(parents=True, exist_ok=True)
    # unwinds the stack, so the hosts are taken down
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    lab = Lab.of_run("demo", client=False)
    lab.kept = options.keep
    try:
        prepared(lab, fleet.FLEETS / f"{options.fleet}.json")
        if not doctor.has_go():
            return show_plan_only(Stage(lab))
        settings = PLACE / "settings.json"
        settings.write_text(json.dumps(VARIABLES, indent=2))
        repositories = demo_repositories.write(lab, PLACE)
        status = show(Stage(lab, repositories), settings)
        if options.cluster:
            show_cluster(lab, settings, repositories)
        return status
    except (
        DemoFailed,
        demo_cut.CutFailed,
        demo_driver.MoveFailed,
        demo_rollout.RolloutFailed,
        demo_cluster.ClusterFailed,
        LabError,
    ) as error:
        print(f"\nmake demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nmake demo: stopped; its hosts are taken down", file=sys.stderr)
        return 130
    finally:
        if not options.keep:
            lab.down()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
