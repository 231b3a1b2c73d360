# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record the hosts of this controller's rollouts, so that two rollouts never work on the same host.

A rollout leaves one small file, with its hosts and its process. The kernel shows whether that
process lives. So a rollout that was killed holds nothing, and no person has to clean up. Rollouts
on other controllers show on the hosts: a host is drained by another rollout, or a transaction is at
work on it.
"""

from __future__ import annotations

import contextlib
import dataclasses as dc
import errno
import fcntl
import json
import multiprocessing
import os
import re
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible import constants
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import (
    messages,
    outside_messages,
    run_messages,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError

SCHEMA = 1


@dc.dataclass(frozen=True)
class Process:
    """A process, with more than its number, which may belong to another process later.

    space: the namespace of its numbers.
    """

    number: int
    started: str
    machine: str
    boot: str = ""
    space: str = ""


def find_process(number: int) -> Process | None:
    """Return the process with a number; None if there is none. Raise OSError if it cannot be read."""
    stat, machine = Path(f"/proc/{number}/stat"), os.uname().nodename
    if not Path("/proc/self/stat").exists():  # a controller without Linux
        shown = subprocess.run(
            ["ps", "-o", "lstart=", "-p", str(number)], capture_output=True, text=True, check=False
        )
        return Process(number, shown.stdout.strip(), machine) if shown.stdout.strip() else None
    try:
        # The name of the program stands in parentheses and may hold anything; the time of the start
        # is the 20th field after it.
        fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return (
            None
            if fields[0] in "ZX"
            else Process(number, fields[19], machine, boot, os.readlink("/proc/self/ns/pid"))
        )
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return None


def find_run_process() -> Process | None:
    """Return the process of ansible-playbook, whose child this process is; None if it is dead.

    If it is dead, this process has another parent, for example the machine's first process, which
    may live until the machine is switched off.
    """
    known, now = multiprocessing.parent_process(), os.getppid()
    return find_process(now) if known is None or known.pid == now else None


def is_process_alive(owner: Process) -> bool | None:
    """Tell whether a process lives; None if this machine cannot know.

    A home directory may be shared with other machines, and with containers.
    """
    try:
        here, there = find_process(os.getpid()), find_process(owner.number)
    except OSError:
        return None
    if (
        here is None
        or owner.machine != here.machine
        or (owner.boot == here.boot and owner.space != here.space)
    ):
        return None
    return owner == there


def get_claims_directory() -> Path:
    """Return the directory on the controller that has the records of rollouts, in the home of
    Ansible.
    """
    home = Path(constants.config.get_config_value("ANSIBLE_HOME")).expanduser()
    return home / "gpufleet" / "rollouts"


@contextlib.contextmanager
def lock_claims() -> Iterator[Path]:
    """Let one rollout at a time read the hosts of others and record its own.

    Yield the directory of the records.
    """
    with hold_named_lock("lock") as directory:
        try:
            yield directory
        except OSError as error:
            raise build_unusable_claims_error(directory, error) from None


@contextlib.contextmanager
def hold_named_lock(name: str) -> Iterator[Path]:
    """Hold the lock of this name, which one process of this controller has at a time.

    Yield the directory of the locks.
    """
    directory = get_claims_directory()
    with contextlib.ExitStack() as stack:
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            status = directory.stat()
            if status.st_uid != os.geteuid() or status.st_mode & 0o022:
                raise PermissionError(errno.EPERM, outside_messages.CLAIMS_WRITABLE.fill())
            fcntl.flock(stack.enter_context((directory / name).open("w")), fcntl.LOCK_EX)
        except OSError as error:
            raise build_unusable_claims_error(directory, error) from None
        yield directory


def build_unusable_claims_error(directory: Path, error: OSError) -> PlanError:
    """Return the error about a directory of records that cannot be used."""
    message = messages.RUN_DIRECTORY.fill(cause=error.strerror or "")
    return PlanError(message, where=str(directory))


def list_host_identities(
    host: str, result: Mapping[str, Any], variables: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return the identities by which a host is known.

    The first is the boot of its kernel, regardless of its name in an inventory. A directory tree
    has none. The second is the address at which this controller reaches the host. It stays after a
    reboot, which may be a part of the rollout that has the host. Two sites may have the same
    addresses, each behind its own gateway, so the host's own name is a part of it.
    """
    work = result.get("work") or {}
    port = f":{variables['ansible_port']}" if variables.get("ansible_port") else ""
    place = f"{variables.get('ansible_host') or host}{port} {variables.get('gpufleet_root') or '/'}"
    if not work.get("boot_id"):
        return (place,)
    return (f"{work.get('hostname')} {work['boot_id']}", f"{place} {work.get('hostname')}")


@dc.dataclass(frozen=True)
class Earlier:
    """The records of other rollouts.

    taken: identity of a host -> the rollout that has it.
    verified, unverified: the identities of the hosts of runs that died.
    """

    taken: Mapping[str, str]
    verified: frozenset[str]
    unverified: frozenset[str]

    def find_holder(self, host: Sequence[str]) -> str:
        """Return who has a host, by its identities; '' if it is free."""
        return next((self.taken[one] for one in host if one in self.taken), "")

    def is_verified(self, host: Sequence[str]) -> bool:
        """Tell whether a host is verified in its current boot."""
        return host[0] in self.verified and not self.is_unverified(host)

    def is_unverified(self, host: Sequence[str]) -> bool:
        """Tell whether a run that died has left a host unverified."""
        return any(one in self.unverified for one in host)


def list_claims_of_others(directory: Path) -> Earlier:
    """Read the records of all rollouts but this one. Return which hosts have been claimed,
    verified, or left unverified.
    """
    taken: dict[str, str] = {}
    verified: set[str] = set()
    unverified: set[str] = set()
    for path in sorted(directory.glob("*.json")):
        claim, owner = _read_record(path)
        if owner == find_run_process():
            continue
        alive = is_process_alive(owner)
        if alive is False:
            verified |= set(claim["ended"])
            unverified |= set(claim["hosts"]) - set(claim["ended"])
            continue
        about = f" ({claim['about']})" if claim["about"] else ""
        values = {"process": owner.number, "begun": claim["begun"], "about": about}
        text = (
            run_messages.CLAIMED.fill(**values)
            if alive
            else run_messages.CLAIMED_UNKNOWN.fill(**values, machine=owner.machine, path=path)
        )
        taken.update(dict.fromkeys(claim["hosts"], text))
    return Earlier(taken, frozenset(verified - unverified), frozenset(unverified))


def _read_record(path: Path) -> tuple[dict[str, Any], Process]:
    """Read a record and its process.

    Raise PlanError for a file with other content: it would not be known who has which hosts.

    A record that a dead process of another release of this collection has left is read as empty. A
    process on another machine may live, so its record has to be readable.
    """
    try:
        claim = json.loads(path.read_text(encoding="utf-8"))
        owner = Process(**claim["process"])
        if claim.get("schema") != SCHEMA and is_process_alive(owner) is False:
            return {"about": "", "begun": "", "hosts": {}, "ended": []}, owner
        hosts = {str(identity): str(name) for identity, name in claim["hosts"].items()}
        shown = {
            "about": str(claim["about"]),
            "begun": str(claim["begun"]),
            "hosts": hosts,
            "ended": list(map(str, claim["ended"])),
        }
        return shown, owner
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PlanError(messages.CLAIM.fill(cause=str(error)), where=str(path)) from None


def take(
    directory: Path,
    known: Mapping[str, Sequence[str]],
    own: Collection[str],
    begun: str,
    about: str,
) -> list[str]:
    """Record that this run has the hosts `own`, and settle the records of runs that died.

    The record counts for as long as the process of ansible-playbook lives, whose child this process
    is. Records of runs that died are settled for the hosts of this run, and kept for other hosts.
    Return the sentences, for people, about hosts of this run that could not be settled.

    known: all hosts of this run by their names in its inventory, each with its identities.
    """
    left = {
        sentence for path in sorted(directory.glob("*.json")) for sentence in _settle(path, known)
    }
    mine = find_run_process()
    if mine is not None:
        hosts = {identity: host for host in own for identity in known[host]}
        _write(
            _get_claim_file(directory, mine),
            {"hosts": hosts, "ended": [], "begun": begun, "about": about},
            mine,
        )
    return sorted(left)


def _settle(path: Path, known: Mapping[str, Sequence[str]]) -> list[str]:
    """Remove the hosts that this run has now from the record of a run that died.

    Return a sentence for each host that stays in it.

    The name and the boot are a host's own claims. Under another name and at another address they
    settle nothing. Otherwise a host would miss the verification that the dead run owes it, because
    of another host's claims.
    """
    claim, owner = _read_record(path)
    # without hosts it is of another release, which reads it when it is installed again
    if is_process_alive(owner) is not False or not claim["hosts"]:
        return []
    host_of = {identity: host for host, identities_ in known.items() for identity in identities_}
    reached = {identities_[-1] for identities_ in known.values()}
    called = {(identity, host) for host, identities_ in known.items() for identity in identities_}
    settled = {
        name for one, name in claim["hosts"].items() if one in reached or (one, name) in called
    }
    rest = {identity: name for identity, name in claim["hosts"].items() if name not in settled}
    _write(path, {**claim, "hosts": rest}, owner)
    return [
        run_messages.VERIFIED_EACH_RUN.fill(host=host_of[one], path=path, other=name)
        for one, name in rest.items()
        if one in host_of
    ]


def _get_claim_file(directory: Path, owner: Process) -> Path:
    return directory / f"{owner.number}-{re.sub('[^0-9A-Za-z]', '', owner.started)}.json"


def _write(path: Path, claim: Mapping[str, Any], owner: Process) -> None:
    """Write a record in one step. Remove the file if the record names no host."""
    if not claim["hosts"]:
        path.unlink(missing_ok=True)
        return
    whole = path.with_suffix(".new")
    with whole.open("w", encoding="utf-8") as opened:
        opened.write(json.dumps({**claim, "schema": SCHEMA, "process": dc.asdict(owner)}))
        opened.flush()
        # otherwise a power loss may leave an empty file under the new name
        os.fsync(opened.fileno())
    whole.replace(path)


def end_claims(names: Collection[str]) -> None:
    """Record that these hosts of this run came through their batch, with their verification if one
    is configured.
    """
    _change(
        lambda claim: {
            **claim,
            "ended": [*claim["ended"], *(i for i, name in claim["hosts"].items() if name in names)],
        }
    )


def give_up(begun: Collection[str]) -> None:
    """End the rollout's record.

    Keep the hosts that it has begun and did not bring through for the next rollout, which verifies
    them.
    """
    _change(
        lambda c: {
            **c,
            "hosts": {
                i: name for i, name in c["hosts"].items() if name in begun and i not in c["ended"]
            },
            "ended": [],
        }
    )


def _change(change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    mine = find_run_process()
    with lock_claims() as directory:
        path = _get_claim_file(directory, mine) if mine else None
        if mine and path and path.exists():
            _write(path, change(_read_record(path)[0]), mine)
