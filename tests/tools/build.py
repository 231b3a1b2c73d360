# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build what the tests need, before they run: environments, Debian roots, and the programs that are
compiled with Go.

    build.py            builds what is missing, with a line per thing, and prints how long each took
    build.py --fast     builds the environments that `make check` needs
    build.py --night    builds also what only `make nightly` needs

On a machine with nothing built this takes a good part of the whole run, most of it for Kubernetes.
It is a step of its own, so no test waits for it and no part's time limit counts it: with
GPUFLEET_LAB_BUILD=never, as `make test` sets it for its parts, a test that needs something unbuilt
fails at once and names it.
"""

from __future__ import annotations

import contextlib
import functools
import subprocess
import sys
import time
from collections.abc import Callable, Container, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import awx_collection
import environments
import foreign_collections
import kubernetes_core
import sanity

sys.path.insert(0, str(environments.ROOT))

from tests import reference  # noqa: E402
from tests.integration import browser  # noqa: E402
from tests.lab import (  # noqa: E402
    artefacts,
    doctor,
    driverrpms,
    kinds,
    progress,
    roots,
    userland,
    wheels,
)
from tests.lab.lab import Lab  # noqa: E402

# What no part of `make test` runs: the targets of the Makefile that need one build it themselves.
ON_DEMAND = ("nodeadm",)
# What `make nightly` alone runs.
BY_NIGHT = ("containerd-2.0", "kubernetes-1.37")
# The environments of `make check`, beside the one that it runs in.
FAST = ("docs", "host-3-6", sanity.group(sanity.CORES[-1]))
# What a test installs itself, in a root of its own.
WHEELS_ALONE = ("image",)
Build = Callable[[], object]


def list_compiled(left_out: Container[str]) -> Iterator[tuple[str, Build]]:
    """Yield the name and the build of each program that is compiled with Go, the longest first.

    One after another: the compiler keeps every processor busy by itself.
    """
    names = sorted(artefacts.GO_TOOLS, key=lambda name: (not name.startswith("kubernetes"), name))
    for name in names:
        if name not in left_out:
            yield name, functools.partial(artefacts.go_tool, name)
    for release in reference.RELEASES:
        yield f"cdi-{release}", functools.partial(reference.program, release)


def list_environments(groups: Iterable[str]) -> Iterator[tuple[str, Build]]:
    """Yield the name and the build of each environment, also if ansible-test makes it itself."""
    for group in groups:
        yield f"environment {group}", functools.partial(ensure_environment, group)
    yield "environments of ansible-test", prepare_sanity


def list_downloaded() -> Iterator[tuple[str, Build]]:
    """Yield the name and the build of what is mostly downloaded and unpacked."""
    groups = (group for group in environments.INTERPRETERS if group not in WHEELS_ALONE)
    yield from list_environments(groups)
    for group in WHEELS_ALONE:
        yield f"wheels of {group}", functools.partial(bring_wheels, group)
    yield "kubernetes.core", kubernetes_core.ensure
    yield "awx.awx", awx_collection.ensure
    yield "collections of other projects", foreign_collections.ensure


def list_on_lab(left_out: Container[str]) -> Iterator[tuple[str, Build]]:
    """Yield what hosts are made of, and a browser for the pages; some of it needs the programs, so
    it comes last.

    left_out: names of programs that are not compiled.
    """
    if not browser.program():
        yield "chromium", lambda: doctor.install(["chromium"])
    carried = [
        name
        for name, kind in kinds.KINDS.items()
        if kind.programs not in left_out and not doctor.obstacle(kind)
    ]
    yield "hosts", lambda: Lab().build(carried)
    for suite, sets in roots.MORE_LAYERS.items():
        for packages in sets:
            yield f"{packages[0]} on {suite}", functools.partial(build_layer, suite, packages)
    for suite in userland.SUITES:
        yield f"driver of {suite}", functools.partial(userland.layers, suite)
    yield "packages of a driver that moves", functools.partial(userland.debs, userland.MOVING)
    yield "packages of two branches of a driver", userland.branches
    yield "packages of two branches for rpm", driverrpms.build_repository


def build_layer(suite: str, packages: tuple[str, ...]) -> None:
    """Build the layer of packages that a single test puts on the root of a suite."""
    roots.package_layer(roots.base_root(suite), packages)


def ensure_environment(group: str) -> None:
    """Make an environment if an interpreter for it is at hand.

    Otherwise the part that needs the environment reports it.
    """
    try:
        environments.ensure(group)
    except environments.NoInterpreter as error:
        progress.say(f"  environment {group}: not made, {error}")


def bring_wheels(group: str) -> None:
    """Download the wheels of a group if an interpreter for it is at hand."""
    with contextlib.suppress(environments.NoInterpreter):
        wheels.find_wheels(group, environments.interpreter(group))


def prepare_sanity() -> None:
    """Make the environments of the newest ansible-test if an interpreter for it is at hand."""
    with contextlib.suppress(environments.NoInterpreter):
        sanity.prepare()


def build_each(things: Iterator[tuple[str, Build]]) -> list[tuple[str, float]]:
    """Build one thing after another and return the seconds that each took."""
    taken = []
    for name, build in things:
        begin = time.monotonic()
        build()
        taken.append((name, time.monotonic() - begin))
    return taken


def build_all(left_out: Container[str]) -> list[tuple[str, float]]:
    """Build all that this machine can carry and return the seconds that each took.

    left_out: names of programs that are not compiled.
    """
    obstacle = doctor.machine_obstacle()
    if obstacle:
        progress.say(f"  without the lab: {obstacle}")
        return build_each(list_downloaded())
    doctor.prepare()
    with ThreadPoolExecutor(2) as pool, progress.shown():
        ways = [list_downloaded(), *([list_compiled(left_out)] if doctor.has_go() else [])]
        running: list[Future[list[tuple[str, float]]]] = [
            pool.submit(build_each, way) for way in ways
        ]
        taken = [pair for one in running for pair in one.result()]
        return [*taken, *build_each(list_on_lab(left_out))]


def main(arguments: list[str]) -> int:
    """Build all, or what `make check` needs, and print what took longer than a second."""
    begin = time.monotonic()
    try:
        left_out = ON_DEMAND if "--night" in arguments else (*ON_DEMAND, *BY_NIGHT)
        fast = "--fast" in arguments
        taken = build_each(list_environments(FAST)) if fast else build_all(left_out)
    except (artefacts.LabError, subprocess.CalledProcessError) as error:
        print(f"build.py: {error}", file=sys.stderr)
        return 1
    long = sorted((pair for pair in taken if pair[1] >= 1), key=lambda pair: -pair[1])
    for name, seconds in long:
        print(f"  {name:24} {seconds:6.0f} s")
    print(
        f"built in {time.monotonic() - begin:.0f} s; a thing that was built before costs nothing",
        flush=True,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
