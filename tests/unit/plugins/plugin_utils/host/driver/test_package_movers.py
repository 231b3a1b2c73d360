# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that upgrade by themselves: how their configuration is read, and which packages it names."""

from __future__ import annotations

import fnmatch
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import contents
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_packages,
    package_locks,
    package_movers,
)

from tests.unit.driver_hosts import (
    BY_DEBIAN,
    HEALTHY,
    NVIDIA,
    OF_DEBIAN,
    ON,
    PATTERN,
    PIN,
    advise,
    apt,
    dnf,
    rows,
)


def test_a_spelling_that_is_not_read_is_said() -> None:
    text = 'Unattended-Upgrade {\n  Mail "somebody";\n  Origins-Pattern { "o=Debian"; };\n};\n'
    shown = contents.show_content(text.encode(), package_movers.APT_KEEP, "/x")["content"]
    assert "somebody" not in shown
    path = "/etc/apt/apt.conf.d/50unattended-upgrades"
    assert advise({**HEALTHY, **apt(shown)}, OF_DEBIAN) == [("keeping.apt-unread", {"path": path})]


UNREAD: dict[str, Any] = {"error": {"kind": "too-large", "message": "it is larger than that"}}


def test_a_file_that_cannot_be_read_is_said() -> None:
    path = "/etc/apt/apt.conf.d/99of-others"
    told = advise({**HEALTHY, **apt(BY_DEBIAN), path: UNREAD}, OF_DEBIAN)
    assert ("keeping.apt-unread", {"path": path}) in told
    assert "keeping.will-move" in [code for code, _values in told]


def test_preferences_that_cannot_be_read_keep_nothing() -> None:
    pin = PIN % ("lib* nvidia-*", "535.261.03-1", 1001)
    files = {**HEALTHY, **apt(BY_DEBIAN), "/etc/apt/preferences.d/nvidia": pin}
    assert advise(files, OF_DEBIAN) == []
    told = advise({**files, "/etc/apt/preferences.d/others": UNREAD}, OF_DEBIAN)
    assert [code for code, _values in told] == ["keeping.will-move"]


INCLUDES = [
    '#include "/etc/apt/ours.conf";\n',
    f"{BY_DEBIAN}#include /etc/apt/ours.d/;\n{ON}",
]


@pytest.mark.parametrize("text", INCLUDES)
def test_a_file_that_includes_another_is_not_read_as_a_whole(text: str) -> None:
    shown = contents.show_content(text.encode(), package_movers.APT_KEEP, "/x")["content"]
    assert "ours" not in shown
    path = "/etc/apt/apt.conf.d/50unattended-upgrades"
    assert advise({**HEALTHY, **apt(shown)}, OF_DEBIAN) == [("keeping.apt-unread", {"path": path})]


SECRET = "a-password"


TRAVELS = f"""
// comment {SECRET}
Acquire::http::Proxy "http://user:{SECRET}@proxy:3128";
APT {{ Authentication {{ TrustCDROM "{SECRET}"; }}; }};
DPkg::Post-Invoke {{ "rm -f /var/*/{SECRET}*/x || true"; }};
Unattended-Upgrade::Mail "{SECRET}@example.org";
  Unattended-Upgrade::Package-Blacklist {{
    "nvidia-driver$";
  }}
APT::Periodic {{ Enable "1"; Unattended-Upgrade "1"; }};
"""


def test_only_what_decides_about_upgrades_leaves_a_host() -> None:
    shown = contents.show_content(TRAVELS.encode(), package_movers.APT_KEEP, "/x")["content"]
    assert SECRET not in shown
    conf = package_movers.apt_conf.read_apt_conf([shown])
    assert conf.values == (
        ("unattended-upgrade::package-blacklist::", "nvidia-driver$"),
        ("apt::periodic::enable", "1"),
        ("apt::periodic::unattended-upgrade", "1"),
    )


RULES: list[tuple[str, str, bool]] = [
    # what the rule of a blacklist is like, the rule, whether libnvidia-cfg1 fits
    ("a beginning", "libnvidia", True),
    ("signs of a shell", "libnvidia-*", True),
    ("anything before", ".*nvidia", True),
    ("an end", "libnvidia-cfg1$", True),
    ("another end", "libnvidia$", False),
    ("one of two", "nouveau|^libnvidia", True),
    ("characters", "lib[a-z]vidia-cfg[0-9]", True),
    ("a sign that is meant", r"libnvidia\-cfg1", True),
    ("Python refuses it", "*libnvidia", False),
    # what takes long for a name that its host may choose
    ("repeated groups", "(l?i?b?)+nvidia", False),
    ("many that repeat", ".*n.*v.*i.*d", False),
    ("a rule longer than names", "lib[nvidia]" * 20, False),
]


@pytest.mark.parametrize(("rule", "fits"), [c[1:] for c in RULES], ids=[c[0] for c in RULES])
def test_a_rule_of_the_blacklist(rule: str, fits: bool) -> None:
    rules = package_movers.compile_rules([rule])
    assert package_movers.fits_beginning(rules, "libnvidia-cfg1") is fits


WHOLE: list[tuple[str, dict[str, Any], str, bool]] = [
    # the line, what may travel of its file, a name that is excluded by it, whether it is known
    ("exclude=*nvidia*", package_movers.DNF_KEEP, "*nvidia*", True),
    ("excludepkgs = nvidia-[a-k]*, foo", package_movers.DNF_KEEP, "nvidia-[a-k]*", True),
    ("exclude=*/nvidia.rpm", package_movers.DNF_KEEP, "", False),
    ("exclude=nvidia*{a}", package_movers.DNF_KEEP, "", False),
]


@pytest.mark.parametrize(("line", "keep", "name", "known"), WHOLE)
def test_a_pattern_is_known_as_a_whole(
    line: str, keep: dict[str, Any], name: str, known: bool
) -> None:
    shown = contents.show_content(f"[main]\n{line}\n".encode(), keep, "/x")["content"]
    assert (package_movers.parse_excluded(shown, "main") != ()) is known
    assert not known or name in package_movers.parse_excluded(shown, "main")


def test_a_rule_that_would_never_end_is_not_compared() -> None:
    """The name fits none of its beginnings, in two to the power of hundred ways."""
    rules = package_movers.compile_rules(["(n+)+$", "(n|n)*$", "n?" * 64 + "n" * 64])
    assert not package_movers.fits_beginning(rules, "n" * 100 + "x")


def test_a_host_with_thousands_of_packages_is_compared() -> None:
    """A host may say so: each package is looked at a few times, whatever the others are."""
    every = tuple(
        driver_packages.DriverPackage(f"nvidia-{n}", f"{500 + n % 90}.{n}", "driver", "nvidia")
        for n in range(1 << 10)
    )
    found = driver_packages.DriverSet(every, "dpkg")
    assert found.release == "500.0"
    assert len(found.list_odd_packages()) == len(every) - 1


def count_translations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the patterns that are made to be compared, as they are."""
    made: list[str] = []
    translate = fnmatch.translate

    def count(pattern: str) -> str:
        made.append(pattern)
        return translate(pattern)

    monkeypatch.setattr(fnmatch, "translate", count)
    return made


def test_very_many_excluded_names_are_not_all_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    made = count_translations(monkeypatch)
    names = " ".join(f"{n}*" for n in range(1 << 14))
    files = dnf(f"[commands]\napply_updates = yes\n[base]\nexclude = nvidia-driver-cuda {names}\n")
    like = rows(NVIDIA, *(f"nvidia-driver-cuda{n or ''} 3:580.82.07-1" for n in range(64)))
    ((code, values),) = advise({**HEALTHY, **files}, like, "rpm")
    assert (code, values["packages"].split(", ")[0]) == ("keeping.will-move", "nvidia-driver-cuda1")
    assert len(made) <= package_locks.MOST_PATTERNS


def test_patterns_of_origins_that_are_too_many_or_too_long_may_let_a_driver_move() -> None:
    known = ",".join(["origin=*Debian*"] * package_movers.LONGEST_ORIGIN)
    for patterns in (
        '"origin=another";\n' * (package_movers.MOST_ORIGINS + 1),
        f'"{known},origin=another";',
    ):
        told = advise({**HEALTHY, **apt(PATTERN % patterns)}, OF_DEBIAN)
        assert [code for code, _values in told] == ["keeping.will-move"]
