# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab: a network, an apt repository and the hosts of a fleet, brought up together and taken down
without a trace.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from . import (
    artefacts,
    cgroup,
    claims,
    doctor,
    fleet,
    hosts,
    inventory,
    network,
    roots,
    rpmrepo,
    seed,
)
from .artefacts import LabError, run
from .hosts import Host
from .kinds import KINDS

DEFAULT_NAME = "gpufleet-lab"
BUILDERS = 2
INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
INOTIFY_NEEDED = 8192  # the default of 128 is used up by some twenty hosts; then their PID 1 dies
SERVICES = "services"  # beside the hosts' groups: what serves them from outside


class Lab:
    """A named lab with its own network. Labs of different names run side by side on one machine and
    share what was built.
    """

    def __init__(
        self, name: str = "", home: Path | None = None, *, kept: bool = False, client: bool = True
    ) -> None:
        self.name = name or os.environ.get("GPUFLEET_LAB_NAME") or DEFAULT_NAME
        self.home = home or artefacts.lab_dir()
        self.hosts_home = self.home / "hosts" / self.name
        self.runtime = claims.RUNTIME / self.name
        self.key = self.home / "key"
        self.skipped: dict[str, str] = {}
        self.kept = kept  # the hosts stay when this process ends
        # whether the hosts get crictl, which has to be built and tests are written with
        self.client = client
        self.claim: claims.Claim | None = None

    @classmethod
    def of_run(cls, what: str, *, client: bool = True) -> Lab:
        """Return a lab for this process alone, so that two runs never meet.

        If GPUFLEET_LAB_NAME is set, the lab's name begins with it.
        """
        return cls(
            "-".join(filter(None, (os.environ.get("GPUFLEET_LAB_NAME"), what, str(os.getpid())))),
            client=client,
        )

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.down()

    # Up and down

    def up(
        self, wanted: Mapping[str, Any] | Path | None = None, names: Sequence[str] = ()
    ) -> dict[str, Host]:
        """Bring up a fleet, or the named hosts of it, and wait until it has booted.

        Return the hosts by name. A host that is already up as wanted stays untouched. A host that
        this machine cannot carry is left out, with the reason in `skipped`. If such a host was
        named, LabError is raised.
        """
        doctor.prepare()
        take_leftovers_away()
        specs = self._carried(
            fleet.parse(
                fleet.read(wanted or fleet.DEMO) if isinstance(wanted, Path | None) else wanted
            ),
            names,
        )
        layers = self.build(sorted({spec.kind for spec in specs.values()}))
        started: list[Host] = []
        was_down = not self.hosts()
        pool = ThreadPoolExecutor(max(1, len(specs)))
        try:
            with self._locked():
                self._services()
                for spec in specs.values():
                    if not self._already(spec):
                        started.append(self._create(spec))
                        self._start(started[-1], layers[spec.kind])
                self._write_inventory()
            list(pool.map(hosts.wait, started))
            list(pool.map(hosts.require_images, started))
        except BaseException:
            with _hold_interrupts_back():
                if was_down:
                    self.down()
                else:
                    self._remove([self.hosts_home / host.spec.name for host in started])
            raise
        finally:
            pool.shutdown(cancel_futures=True)  # after the removal, which ends the waiting
        return {name: host for name, host in self.hosts().items() if name in specs}

    def down(self, names: Sequence[str] = ()) -> None:
        """Remove the named hosts. Without names, remove the whole lab, whatever is left of it."""
        if names:
            self._remove([self.hosts_home / name for name in names])
            return
        self._remove(sorted(self.hosts_home.glob("*")) if self.hosts_home.exists() else [])
        with self._locked():
            self._forget_connections("exit")
            cgroup.remove(self.name)
            network.down(self.name)
            shutil.rmtree(self.hosts_home, ignore_errors=True)
            _unmount_below(self.runtime)
            # last, since `owner` is there: what is cut short can be done again
            shutil.rmtree(self.runtime, ignore_errors=True)
            if self.claim:
                self.claim.release()
                self.claim = None
        _restore_limits()

    def _remove(self, homes: Sequence[Path]) -> None:
        with self._locked():
            self._forget_connections("stop")
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda home: hosts.destroy(self.name, home), homes))
            self._write_inventory()

    def build(self, kinds: Sequence[str] = ()) -> dict[str, list[Path]]:
        """Build what hosts of these kinds are made of, and return the layers by kind.

        Without names, take every kind that this machine can carry.
        """
        unknown = [name for name in kinds if name not in KINDS]
        if unknown:
            raise LabError(
                f"There is no kind of host named {', '.join(unknown)}; known are {', '.join(KINDS)}."
            )
        kinds = list(kinds) or [name for name, kind in KINDS.items() if not doctor.obstacle(kind)]
        with ThreadPoolExecutor(BUILDERS) as pool:
            packages = pool.submit(artefacts.nvidia_debs) if doctor.has_go() else None
            list(pool.map(roots.base_root, sorted({KINDS[name].suite for name in kinds})))
            found = list(
                pool.map(
                    lambda name: [
                        seed.build_client_layer(name, with_client=self.client),
                        *roots.layers(KINDS[name]),
                    ],
                    kinds,
                )
            )
            if packages:
                packages.result()
                if set(rpmrepo.KINDS_OF_RPM) & set(kinds):
                    rpmrepo.nvidia_rpms()
        return dict(zip(kinds, found, strict=True))

    def _carried(self, specs: dict[str, fleet.Spec], names: Sequence[str]) -> dict[str, fleet.Spec]:
        unknown = [name for name in names if name not in specs]
        if unknown:
            raise LabError(
                f"The fleet has no host named {', '.join(unknown)}; it has {', '.join(specs)}."
            )
        chosen = {name: spec for name, spec in specs.items() if not names or name in names}
        self.skipped = {
            name: why for name, spec in chosen.items() if (why := doctor.obstacle(KINDS[spec.kind]))
        }
        if self.skipped and names:
            raise LabError(
                "\n".join(
                    f"The host {name} cannot be brought up: it {why}."
                    for name, why in self.skipped.items()
                )
            )
        return {name: spec for name, spec in chosen.items() if name not in self.skipped}

    def _already(self, spec: fleet.Spec) -> bool:
        home = self.hosts_home / spec.name
        if not home.exists():
            return False
        with contextlib.suppress(OSError, ValueError, KeyError):
            host = hosts.load(self.name, home)
            if hosts.first_process(host):
                if host.spec == spec:
                    return True
                raise LabError(
                    f"The host {spec.name} is up already, but not as wanted now: 'down {spec.name}' first."
                )
        hosts.destroy(self.name, home)
        return False

    def _create(self, spec: fleet.Spec) -> Host:
        address = network.free_address(host.address for host in self.hosts().values())
        network.forget(self.name, address)
        return hosts.create(self.name, self.hosts_home / spec.name, spec, address)

    def _start(self, host: Host, lower: list[Path]) -> None:
        seed.write(host.seed, host.spec, host.kind, host.address, self._public_key(), lower)
        hosts.start(host, lower)

    # Use

    def hosts(self) -> dict[str, Host]:
        """Return the hosts of this lab by name, in the order of their addresses."""
        found = [hosts.load(self.name, path.parent) for path in self.hosts_home.glob("*/host.json")]
        return {
            host.spec.name: host
            for host in sorted(found, key=lambda host: tuple(map(int, host.address.split("."))))
        }

    def host(self, name: str) -> Host:
        try:
            return self.hosts()[name]
        except KeyError:
            raise LabError(
                f"There is no host {name} in the lab {self.name}; there are: {', '.join(self.hosts()) or 'none'}."
            ) from None

    def exec(
        self, name: str, argv: Sequence[str], stdin: str | bytes | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a host as root."""
        return hosts.execute(self.host(name), argv, stdin)

    def shell(self, name: str, script: str, *, fails: bool = False) -> str:
        """Run a shell script in a host as root, not over SSH, and return its output.

        fails: whether it may fail.
        """
        done = self.exec(name, ["sh", "-ec", script])
        assert fails or done.returncode == 0, (
            f"{name}: {script}: status {done.returncode}\n{done.stdout}{done.stderr}"
        )
        return done.stdout

    def run(self, argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command of the controller in the lab's network, with the inventory set for Ansible."""
        settings = {"text": True, "capture_output": True, "env": self.environment(), **options}
        check = bool(settings.pop("check", False))
        return subprocess.run(self.inside(argv), check=check, **settings)

    def inside(self, argv: Sequence[str]) -> list[str]:
        if not network.namespace(self.name).exists():
            raise LabError(f"The lab {self.name} is not up.")
        return network.inside(self.name, argv)

    def environment(self) -> dict[str, str]:
        listed = os.environ.get("ANSIBLE_INVENTORY") or str(self.inventory_path())
        return {**os.environ, **inventory.imitated(), "ANSIBLE_INVENTORY": listed}

    def inventory_path(self) -> Path:
        """Return the path of the Ansible inventory of the hosts that are up."""
        return self.runtime / "inventory.yml"

    def kill(self, name: str) -> None:
        """Take the power from a host."""
        hosts.kill(self.host(name))

    def boot(self, name: str) -> None:
        """Give the power back to a host, whose disk is as it was."""
        hosts.boot(self.host(name))
        self._forget_connections("stop")

    def link(self, name: str, state: str) -> None:
        """Plug (`up`) or unplug (`down`) a host's network cable."""
        network.set_link(self.name, self.host(name).machine, state)

    def fill(self, name: str, size: str) -> None:
        """Leave only `size` free on the host's disk."""
        hosts.fill(self.host(name), size)

    # What surrounds the hosts

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lab's lock meanwhile, and remove its file if no lab is left."""
        path = self.runtime.parent / f".{self.name}.lock"
        with _open_locked(path):
            try:
                yield
            finally:
                if not self.runtime.exists():
                    path.unlink(missing_ok=True)

    def _services(self) -> None:
        self.hold()
        (self.runtime / "cp").mkdir(mode=0o700, exist_ok=True)
        _raise_limits()
        network.up(self.name)
        self._ssh_wrapper()
        self._serve_repository()

    def hold(self) -> None:
        """Record the lab's owner before anything of the lab exists.

        If a living process holds the lab already, its record stays as it is.
        """
        self.runtime.mkdir(parents=True, exist_ok=True)
        self.claim = self.claim or claims.take(self.runtime)
        if self.claim:
            self.claim.write(self.kept)

    def _ssh_wrapper(self) -> None:
        wrapper = self.runtime / "ssh"
        wrapper.write_text(
            f'#!/bin/sh\nexec nsenter --net={network.namespace(self.name)} -- ssh "$@"\n'
        )
        wrapper.chmod(0o755)

    def _serve_repository(self) -> None:
        """Start the repository's server in a group of the lab, with which it ends."""
        group = cgroup.make(f"{self.name}/{SERVICES}")
        if not doctor.has_go() or (group / "cgroup.procs").read_text():
            return
        join = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', f"{group}/cgroup.procs"]
        server = network.inside(self.name, [sys.executable, "-m", "tests.lab.aptrepo"])
        with (self.runtime / "repository.log").open("wb") as log:
            process = subprocess.Popen(
                [*join, *server],
                cwd=artefacts.REPO,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        assert process.stdout
        if process.stdout.readline() != b"ready\n":
            raise LabError(
                f"The lab's apt repository does not serve: {(self.runtime / 'repository.log').read_text()}"
            )

    def _public_key(self) -> str:
        public = self.key.with_suffix(".pub")
        if not public.exists():
            self.home.mkdir(parents=True, exist_ok=True)
            self.key.unlink(missing_ok=True)
            run(
                [
                    "ssh-keygen",
                    "-q",
                    "-t",
                    "ed25519",
                    "-N",
                    "",
                    "-C",
                    "gpufleet-lab",
                    "-f",
                    str(self.key),
                ]
            )
        return public.read_text()

    def _write_inventory(self) -> None:
        if self.runtime.exists():
            text = inventory.render(
                self.hosts().values(), self.key, self.runtime / "ssh", self.runtime / "cp"
            )
            self.inventory_path().write_text(text)

    def _forget_connections(self, how: str) -> None:
        """Close the connections that Ansible keeps open for a minute.

        Without this, a host that comes back at the same address would meet an old connection.
        """
        for socket in (self.runtime / "cp").glob("*"):
            subprocess.run(
                ["ssh", "-O", how, "-o", f"ControlPath={socket}", "lab"],
                capture_output=True,
                check=False,
            )


def _open_locked(path: Path) -> TextIO:
    """Open the file, which is made if it is missing, and wait for the lock on it.

    Its holder may remove it meanwhile. Then the lock on the removed file keeps nobody out, so this
    opens the file again.
    """
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = path.open("w")
            fcntl.flock(handle, fcntl.LOCK_EX)
            if os.path.samestat(path.stat(), os.fstat(handle.fileno())):
                return handle
        except FileNotFoundError:
            continue
        handle.close()


def _unmount_below(place: Path) -> None:
    """Unmount what a test has mounted below `place`. Hosts mount in a namespace of their own."""
    mounts = [line.split(" ")[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for mount in reversed([path for path in mounts if path.startswith(f"{place}/")]):
        run(["umount", "--lazy", mount])


def take_leftovers_away() -> list[str]:
    """Remove this checkout's labs whose process is dead and that were not to be kept, and return
    their names.
    """
    gone = []
    for name, owner in claims.list_labs_of_checkout():
        claim = None if owner.kept else claims.take(claims.RUNTIME / name)
        if claim:
            try:
                Lab(name, Path(owner.home)).down()
            finally:
                claim.release()
            gone.append(name)
    return gone


def take_all_away() -> tuple[list[str], list[tuple[str, claims.Owner]]]:
    """Remove the labs of this checkout that no living process uses.

    Return the names of the removed labs, and the name and owner of each lab that is left.
    """
    gone: list[str] = []
    left: list[tuple[str, claims.Owner]] = []
    for name, owner in claims.list_labs_of_checkout():
        if claims.is_lab_in_use(name):
            left.append((name, owner))
        else:
            Lab(name, Path(owner.home)).down()
            gone.append(name)
    return gone, left


@contextlib.contextmanager
def _lock_limits() -> Iterator[Path]:
    """Lock the machine's limit, and yield the file that keeps its own value as long as there is any
    lab.

    Labs come and go side by side, so one process at a time works on the limit.
    """
    with INOTIFY.open() as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield claims.RUNTIME / ".inotify"


def _raise_limits() -> None:
    with _lock_limits() as kept:
        before = INOTIFY.read_text().strip()
        if int(before) < INOTIFY_NEEDED:
            kept.write_text(before)
            INOTIFY.write_text(str(INOTIFY_NEEDED))


def _restore_limits() -> None:
    with _lock_limits() as kept:
        if kept.exists() and not any(claims.RUNTIME.glob("*/")):
            INOTIFY.write_text(kept.read_text())
            kept.unlink()
    with contextlib.suppress(OSError):
        claims.RUNTIME.rmdir()


@contextlib.contextmanager
def _hold_interrupts_back() -> Iterator[None]:
    """Ignore interrupts meanwhile, so that a second Ctrl-C does not stop what the first one began."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
