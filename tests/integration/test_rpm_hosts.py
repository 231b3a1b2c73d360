# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts with dnf 4, dnf5 and zypper: packages from a repository that is signed as NVIDIA's, up and
down, and all that is refused.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    installers,
    repository,
    repository_key,
)

from tests.lab import hosts, rpmrepo
from tests.tools.onlab import Fleet, Run

pytestmark = pytest.mark.lab

DNF, DNF5, ZYPPER = "rpm-dnf", "rpm-dnf5", "rpm-zypper"
HOSTS = (DNF, DNF5, ZYPPER)
FAMILY = {
    DNF: repository.FAMILIES["fedora"],
    DNF5: repository.FAMILIES["fedora"],
    ZYPPER: repository.FAMILIES["suse"],
}
PACKAGES = rpmrepo.LAB_PACKAGES
ADDRESS = "http://10.77.0.1:8099/rpm"


# A repository that has nothing to do with the toolkit, and is out of reach; dnf has never read it,
# zypper neither.
STANZA = r"[other]\nname=other\nbaseurl=file:///root/other\nenabled=1\nautorefresh=1\ngpgcheck=0\n"
BROKEN = {
    **dict.fromkeys(
        (DNF, DNF5), f"mkdir -p /etc/yum.repos.d; printf '{STANZA}' >/etc/yum.repos.d/other.repo"
    ),
    ZYPPER: f"mkdir -p /etc/zypp/repos.d; printf '{STANZA}' >/etc/zypp/repos.d/other.repo",
}


@pytest.fixture(scope="module")
def fleet(boot) -> Fleet:  # type: ignore[no-untyped-def]
    gpus = {"gpus": 2, "driver": "ok"}
    found: Fleet = boot(
        {
            DNF: {"kind": rpmrepo.DNF, **gpus, "files": rpmrepo.files(rpmrepo.ROCKY)},
            DNF5: {"kind": rpmrepo.DNF5, **gpus, "files": rpmrepo.files(rpmrepo.FEDORA)},
            ZYPPER: {"kind": rpmrepo.ZYPPER, **gpus, "files": rpmrepo.files(rpmrepo.SLES)},
        }
    )
    for host in HOSTS:
        found.bring(host, rpmrepo.nvidia_rpms() / f"{rpmrepo.SYSTEM}.rpm", "/root/system.rpm")
        found.shell(host, rpmrepo.PROVIDE.format("/root/system.rpm"))
        found.shell(host, BROKEN[host])
    return found


def options(repository: str = rpmrepo.SIGNED, key: str = "key.asc", **more: Any) -> dict[str, Any]:
    """All four packages: legacy injection takes the hook and its tools."""
    address = f"{ADDRESS}/{repository.removesuffix('x86_64')}$basearch"
    text = Path(rpmrepo.nvidia_rpms(), key).read_text()
    return {
        "toolkit_repository": address,
        "toolkit_key": text,
        "cdi": "disabled",
        "toolkit_version": rpmrepo.OLD,
        **more,
    }


def installed(fleet: Fleet, host: str) -> dict[str, str]:
    listed = fleet.shell(
        host,
        f"rpm -q --qf '%{{NAME}} %{{VERSION}}-%{{RELEASE}}\\n' {' '.join(PACKAGES)}",
        fails=True,
    )
    return dict(line.split() for line in listed.splitlines() if "not installed" not in line)


def nothing(fleet: Fleet, host: str) -> bool:
    """Neither a file of the repository nor a package."""
    where = FAMILY[host]
    there = fleet.shell(host, f"ls {where.key_path} {where.list_path} 2>/dev/null", fails=True)
    return (there, installed(fleet, host)) == ("", {})


# ---------------------------------------------------------------- what is known where a repository
# cannot be read

BASE = "nvidia-container-toolkit-base"
MIRROR = rf"[mirror]\nname=mirror\nbaseurl={ADDRESS}/{rpmrepo.REBUILT}\nenabled=1\ngpgcheck=0\n"


def asked(fleet: Fleet, host: str, question: dict[str, Any]) -> list[str] | None:
    """What the planner takes the answer for, with the repositories of this test alone."""
    argv = [*question["argv"][:3], "--setopt=reposdir=/root/repos", *question["argv"][3:]]
    done = fleet.lab.exec(host, argv)
    return installers.parse_available_versions(
        {"rc": done.returncode, "stdout": done.stdout, "stderr": done.stderr}, BASE
    )


@pytest.mark.parametrize("host", [DNF, DNF5])
def test_a_mirror_that_cannot_be_read_now_is_known_by_what_it_had_and_one_that_never_was_is_not(
    fleet: Fleet, host: str
) -> None:
    first = installers.ask_for_available_versions("dnf", BASE)
    assert first
    questions = (first, *installers.list_questions_without_repository("dnf", BASE))
    fleet.shell(host, f"mkdir /root/repos; printf '{STANZA}' >/root/repos/other.repo")
    assert [asked(fleet, host, question) for question in questions] == [None, [], None]
    fleet.shell(
        host,
        f"printf '{MIRROR}' >/root/repos/mirror.repo; dnf -q --setopt=reposdir=/root/repos --disablerepo=other makecache",
    )
    assert [asked(fleet, host, question) for question in questions] == [None, [rpmrepo.NEW], None]
    fleet.shell(
        host, "rm /root/repos/other.repo; echo proxy=http://127.0.0.1:9 >>/root/repos/mirror.repo"
    )
    assert asked(fleet, host, questions[2]) == [rpmrepo.NEW]


# ---------------------------------------------------------------- what is refused, before anything
# is put in place

UNSIGNED = "a repository is not signed with the configured key"
REFUSED = {
    "another key than the one that signed": (rpmrepo.SIGNED, "wrong.asc", UNSIGNED),
    "another signer, whose key lies beside the metadata": (rpmrepo.STRANGER, "key.asc", UNSIGNED),
    "a mirror that rebuilt the metadata": (
        rpmrepo.REBUILT,
        "key.asc",
        "metadata is not signed, as on a mirror that rebuilt it",
    ),
    "a key that has expired": (rpmrepo.EXPIRED, "expired.asc", "key"),
}


SAME_SIGNATURE = pytest.mark.nightly(
    "by day one repository has a signature of another key, and one has none; `lab: first day` has apt refuse a third"
)


@pytest.mark.parametrize(
    ("repository", "key", "says"),
    [
        pytest.param(
            *row,
            id=name,
            marks=[] if row[0] in (rpmrepo.SIGNED, rpmrepo.REBUILT) else [SAME_SIGNATURE],
        )
        for name, row in REFUSED.items()
    ],
)
def test_a_repository_that_cannot_be_believed_is_refused_before_it_is_put_in_place(
    fleet: Fleet, repository: str, key: str, says: str
) -> None:
    run = fleet.task("host", HOSTS, options(repository, key)).of("host")
    for host in HOSTS:
        assert (run[host]["status"], run[host]["changed"]) == ("failed", False), run[host]
        assert says in run[host]["msg"], run[host]["msg"]
        assert nothing(fleet, host)


# ---------------------------------------------------------------- one version after another


@pytest.fixture(scope="module")
def fresh(fleet: Fleet) -> tuple[Run, Run, Run]:
    """Check mode, the run, a second run."""
    return (
        fleet.task("host", HOSTS, options(), arguments=["--check", "--diff"]),
        fleet.task("host", HOSTS, options()),
        fleet.task("host", HOSTS, options()),
    )


@pytest.mark.parametrize("host", HOSTS)
def test_the_packages_come_as_a_set_as_it_was_announced_and_a_second_run_changes_nothing(
    fleet: Fleet, fresh: tuple[Run, Run, Run], host: str
) -> None:
    check, run, again = (found.of("host")[host] for found in fresh)
    assert (check["changed"], run["changed"], again["changed"]) == (True, True, False), (
        run.get("msg"),
        run,
    )
    assert run["status"] == "ok", (
        run["msg"],
        fleet.shell(host, "tail -n 40 /var/lib/gpufleet/said/*"),
    )
    for key in ("differences", "restarted"):
        assert check[key] == run[key], key
    where = FAMILY[host]
    assert {where.key_path, where.list_path, *PACKAGES} <= {d["path"] for d in run["differences"]}
    assert installed(fleet, host) == dict.fromkeys(PACKAGES, rpmrepo.OLD)
    assert fresh[2].operations[host] == 1, (again, fresh[2].words)


def test_a_failing_upgrade_is_taken_back_as_a_set(
    fleet: Fleet, fresh: tuple[Run, Run, Run]
) -> None:
    """Both package managers leave a part of the set in the new version."""
    for host in HOSTS:
        fleet.shell(host, f"touch {rpmrepo.FAILS}")
    run = fleet.task("host", HOSTS, options(toolkit_version=rpmrepo.NEW)).of("host")
    for host in HOSTS:
        assert (run[host]["status"], run[host]["changed"]) == ("failed", False), run[host]
        assert "a script of a package failed" in run[host]["msg"], run[host]["msg"]
        assert installed(fleet, host) == dict.fromkeys(PACKAGES, rpmrepo.OLD)
        fleet.shell(host, f"rm {rpmrepo.FAILS}")


HOLD = {
    DNF: "dnf -q --setopt='*.skip_if_unavailable=1' versionlock add {}",
    DNF5: "dnf -q versionlock add {}",
    ZYPPER: "zypper --non-interactive addlock {}",
}
RELEASE = {
    DNF: "dnf -q --setopt='*.skip_if_unavailable=1' versionlock clear",
    DNF5: "dnf -q versionlock clear",
    ZYPPER: "zypper --non-interactive removelock {}",
}


def test_a_full_disk_leaves_the_set_as_it_was(fleet: Fleet, fresh: tuple[Run, Run, Run]) -> None:
    for host in HOSTS:
        fleet.lab.fill(host, "4m")
    run = fleet.task("host", HOSTS, options(toolkit_version=rpmrepo.NEW)).of("host")
    for host in HOSTS:
        fleet.lab.fill(host, "off")
    for host in HOSTS:
        said = fleet.shell(host, "tail -n 30 $(ls -t /var/lib/gpufleet/said/* | head -n 1)")
        assert (run[host]["status"], run[host]["changed"]) == ("failed", False), run[host]
        assert "no space is left" in run[host]["msg"], (host, said)
        assert installed(fleet, host) == dict.fromkeys(PACKAGES, rpmrepo.OLD)


# (the file with the number of who is at work, the log of who waits for him); dnf5 tells of that
# only who has started it
LOCK = {
    DNF: ("/var/lib/dnf/rpmdb_lock.pid", "/var/log/dnf.log"),
    ZYPPER: ("/run/zypp.pid", "/var/log/zypper.log"),
}
HOLDER = r"""
sleep infinity &
printf %s $! >LOCK
(tail --lines 0 --follow=name LOG 2>/dev/null & echo $! >/run/lab-tail; wait) | grep -qm1 'Waiting for process\|Waiting whether pid'
kill $(cat LOCK)
kill $(cat /run/lab-tail) || true
"""


def test_packages_that_are_held_stay_and_move_up_and_down_when_they_are_released(
    fleet: Fleet, fresh: tuple[Run, Run, Run]
) -> None:
    for host in HOSTS:
        fleet.shell(host, HOLD[host].format(" ".join(PACKAGES)))
    run = fleet.task("host", HOSTS, options(toolkit_version=rpmrepo.NEW)).of("host")
    for host in HOSTS:
        assert run[host]["status"] == "failed", run[host]
        assert "held" in run[host]["msg"], run[host]["msg"]
        fleet.shell(host, RELEASE[host].format(" ".join(PACKAGES)))
    for version in (rpmrepo.NEW, rpmrepo.OLD):
        moved = fleet.task("host", HOSTS, options(toolkit_version=version))
        assert moved.status == 0, moved.words
        for host in HOSTS:
            assert installed(fleet, host) == dict.fromkeys(PACKAGES, version)


def test_another_package_manager_at_work_is_waited_for_and_the_tasks_proxy_reaches_both(
    fleet: Fleet, fresh: tuple[Run, Run, Run]
) -> None:
    """The repository's server is one that only the proxy knows."""
    holders = []
    for host, (lock, log) in LOCK.items():
        script = HOLDER.replace("LOCK", lock).replace("LOG", log)
        holders.append(
            subprocess.Popen(
                hosts.entry(fleet.lab.host(host), ["sh", "-ec", script]), stdout=subprocess.DEVNULL
            )
        )
    known = options(toolkit_version=rpmrepo.NEW)
    known["toolkit_repository"] = known["toolkit_repository"].replace(
        ADDRESS, "http://packages.invalid/rpm"
    )
    run = fleet.task(
        "host", HOSTS, known, keywords={"environment": {"http_proxy": "http://10.77.0.1:8099"}}
    )
    assert run.status == 0, run.words
    assert [holder.wait(timeout=10) for holder in holders] == [0] * len(LOCK)
    for host in HOSTS:
        assert installed(fleet, host) == dict.fromkeys(PACKAGES, rpmrepo.NEW)


def test_absent_takes_the_repository_away_and_leaves_the_packages(
    fleet: Fleet, fresh: tuple[Run, Run, Run]
) -> None:
    gone = fleet.task("host", HOSTS, options(state="absent"))
    assert gone.status == 0, gone.words
    for host in HOSTS:
        where = FAMILY[host]
        assert (
            fleet.shell(host, f"ls {where.key_path} {where.list_path} 2>/dev/null", fails=True)
            == ""
        )
        assert installed(fleet, host) == dict.fromkeys(PACKAGES, rpmrepo.NEW)
    assert fleet.shell(ZYPPER, "rpm -qa 'gpg-pubkey*'") == ""


@pytest.mark.nightly(
    "by day `test_bundle.py` installs from an archive by apt, and this file from repositories by dnf and zypper"
)
def test_packages_come_from_an_archive_where_no_repository_is_reached(
    fleet: Fleet, fresh: tuple[Run, Run, Run], tmp_path: Path
) -> None:
    """zypper keeps hard links to the indexes of a local repository, which go all the same."""
    archive, key = tmp_path / "bundle.tar", Path(rpmrepo.nvidia_rpms(), "key.asc").read_text()
    address = f"file://{rpmrepo.nvidia_rpms()}/{rpmrepo.SIGNED}"
    make = {
        "file": str(archive),
        "url": address,
        "key": key,
        "formats": ["rpm"],
        "versions": [rpmrepo.OLD, rpmrepo.NEW],
    }
    made = fleet.play(
        [{"hosts": "localhost", "gather_facts": False, "tasks": [{"gpufleet.nvidia.bundle": make}]}]
    )
    assert {p["licences"][0] for p in made.of("bundle")["localhost"]["packages"]} == {"Apache-2.0"}
    own = {
        "bundle_file": str(archive),
        "toolkit_key_fingerprint": repository_key.compute_key_fingerprint(key),
        "cdi": "disabled",
    }
    (version,) = {rpmrepo.OLD, rpmrepo.NEW} - set(installed(fleet, DNF).values())
    moved = fleet.task("host", HOSTS, {**own, "toolkit_version": version})
    assert moved.status == 0, moved.words
    again = fleet.task("host", HOSTS, own)
    assert (again.changed, again.operations) == ({}, dict.fromkeys(HOSTS, 1)), again.words
    for host in HOSTS:
        assert installed(fleet, host) == dict.fromkeys(PACKAGES, version)
        assert "file:///var/lib/gpufleet/bundle/rpm" in fleet.text(host, FAMILY[host].list_path)
    gone = fleet.task("host", HOSTS, options(state="absent"))
    assert gone.status == 0, gone.words
    for host in HOSTS:
        assert (
            fleet.shell(
                host,
                f"ls -d /var/lib/gpufleet/bundle {FAMILY[host].list_path} 2>/dev/null",
                fails=True,
            )
            == ""
        )


def test_a_first_installation_that_fails_half_way_takes_away_what_it_brought(
    fleet: Fleet, fresh: tuple[Run, Run, Run]
) -> None:
    """dnf continues with three of the four packages, zypper stops after the first."""
    for host in HOSTS:
        fleet.shell(host, f"rpm --erase {' '.join(installed(fleet, host))}; touch {rpmrepo.FAILS}")
    run = fleet.task("host", HOSTS, options(toolkit_version=rpmrepo.NEW)).of("host")
    for host in HOSTS:
        assert (run[host]["status"], run[host]["changed"]) == ("failed", True), run[host]
        assert "a script of a package failed" in run[host]["msg"], run[host]["msg"]
        assert installed(fleet, host) == {}
        fleet.shell(host, f"rm {rpmrepo.FAILS}")
    moved = fleet.task("host", HOSTS, options(toolkit_version=rpmrepo.NEW))
    assert moved.status == 0, moved.words
    for host in HOSTS:
        assert installed(fleet, host) == dict.fromkeys(PACKAGES, rpmrepo.NEW)
