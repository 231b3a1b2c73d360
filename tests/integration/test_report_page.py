# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report in a real browser: it renders, filters and sorts 1 000 hosts, asks nobody for
anything, and can be read on any screen.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet.page import document

from tests.integration import browser
from tests.unit import reports
from tests.unit.hostile_page import HOSTILE, hostile

ABOUT = document.About("rollout", "2026-02-01T09:15:00Z", status="done")
CLASSES = dict.fromkeys(
    reports.many(), "containerd 1.7 (package), native-cdi, H100 80GB HBM3, 550, debian 12"
)
SHOWN = (
    "[...document.querySelectorAll('#hosts tbody tr')].filter((row) => row.getClientRects().length)"
)


@pytest.fixture(scope="module")
def chromium() -> Iterator[browser.Browser]:
    with browser.installed() as window:
        yield window


def page(
    place: Path, results: dict[str, dict[str, Any]], classes: dict[str, str] | None = None
) -> Path:
    path = place / "report.html"
    path.write_text(
        reports.build_page(document.build_report(results, ABOUT, classes)), encoding="utf-8"
    )
    return path


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page(tmp_path_factory.mktemp("fleet"), reports.many(), CLASSES)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [400, 700, 1600])
def test_a_page_of_a_thousand_hosts_fits_every_screen_and_asks_nobody(
    width: int, dark: bool, chromium: browser.Browser, fleet: Path
) -> None:
    chromium.open(fleet, width, dark=dark)
    assert chromium.look("document.documentElement.scrollWidth") == width, (
        "nothing has to be scrolled sideways"
    )
    assert chromium.look(f"{SHOWN}.length") == 1000
    assert (
        chromium.look(
            "Math.min(...[...document.querySelectorAll('td,p,dd')].map((e) => parseFloat(getComputedStyle(e).fontSize)))"
        )
        >= 12
    )
    light = chromium.look("getComputedStyle(document.body).backgroundColor")
    assert (light == "rgb(17, 21, 26)") is dark
    assert chromium.complaints() == []
    assert chromium.requests() == [fleet.as_uri()]


# Hosts whose cells are long: Docker beside a containerd that is left alone, with GPUs of two kinds
# and a path in the injection.
LONG = {
    "build-server-12.rack-4.example.org": {
        "engine": "docker 26.1.5, containerd 1.7.24 (its CRI is off: Docker's)",
        "gpus": "2 x NVIDIA RTX 6000 Ada Generation, 1 x NVIDIA A100-SXM4-80GB, 570.86.15",
        "injection": "native-cdi, nvidia-runtime",
        "why": reports.WHY,
        "restarted": "-",
    }
}


@pytest.mark.parametrize("classes", [None, CLASSES["gpu0001"]])
@pytest.mark.parametrize("width", [1280, 1600])
def test_the_reason_has_room_beside_long_cells(
    width: int, classes: str | None, chromium: browser.Browser, tmp_path: Path
) -> None:
    results = {host: reports.looked(row=row) for host, row in LONG.items()}
    chromium.open(
        page(tmp_path, results, dict.fromkeys(results, classes) if classes else None), width
    )
    assert chromium.look("document.documentElement.scrollWidth") == width
    assert chromium.look(f"{SHOWN}[0].lastElementChild.getBoundingClientRect().width") >= width / 5


def search(words: str) -> str:
    return f"(() => {{ const box = document.getElementById('search'); box.value = {words!r}; box.dispatchEvent(new Event('input')); }})()"


def choose(name: str, value: str) -> str:
    box = f"document.querySelector('select[aria-label={name}]')"
    return f"(() => {{ const box = {box}; box.value = {value!r}; box.dispatchEvent(new Event('change')); }})()"


FILTERS = [
    # what a person does, how many hosts are shown, the first of them, what is said
    (search("gpu0061"), 1, "gpu0061", "1 of 1000 hosts"),
    (search("APT-GET ended"), 2, "gpu0061", "2 of 1000 hosts"),
    (search("nothing says this"), 0, None, "0 of 1000 hosts"),
    (choose("Result", "rolled back"), 1, "gpu0549", "1 of 1000 hosts"),
    (choose("Driver", "570.86.15"), 79, "gpu0921", "79 of 1000 hosts"),
    (choose("State", "drift"), 2, "gpu0305", "2 of 1000 hosts"),
]


@pytest.mark.parametrize(("deed", "number", "first", "said"), FILTERS)
def test_hosts_are_found(
    deed: str, number: int, first: str | None, said: str, chromium: browser.Browser, fleet: Path
) -> None:
    chromium.open(fleet, 1600)
    chromium.look(deed)
    assert chromium.look(f"{SHOWN}.length") == number
    assert chromium.look(f"{SHOWN}[0]?.cells[0].textContent") == first
    assert chromium.look("document.getElementById('count').value") == said
    chromium.look("document.getElementById('reset').click()")
    assert chromium.look(f"{SHOWN}.length") == 1000
    assert chromium.complaints() == []


def test_columns_are_sorted_by_a_click_and_given_back_by_the_third(
    chromium: browser.Browser, fleet: Path
) -> None:
    chromium.open(fleet, 1600)
    first = f"{SHOWN}[0].cells[0].textContent"
    found = [chromium.look(first)]
    for _click in range(3):
        chromium.look("document.querySelector('#hosts th').click()")
        found.append(chromium.look(first))
    assert found == ["gpu0061", "gpu0001", "gpu1000", "gpu0061"]


def test_without_javascript_everything_is_there(chromium: browser.Browser, fleet: Path) -> None:
    chromium.open(fleet, 1600, scripts=False)
    assert chromium.look(f"{SHOWN}.length") == 1000
    assert chromium.look("getComputedStyle(document.getElementById('tools')).display") == "none"


def test_what_hosts_say_does_not_run(chromium: browser.Browser, tmp_path: Path) -> None:
    results = {name: result for text in HOSTILE for name, result in hostile(text).items()}
    chromium.open(page(tmp_path, results), 1600)
    assert (
        chromium.look("document.querySelectorAll('script, img, iframe, svg[onload]').length") == 1
    )
    assert len(chromium.requests()) == 1
    assert chromium.complaints() == []
    # Even markup that came in would run nothing: the page's own policy refuses it.
    chromium.look(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=window.ran=1>')"
    )
    chromium.look(
        "(() => { const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s); })()"
    )
    assert chromium.look("window.ran") is None
    assert any("Content Security Policy" in text for text in chromium.complaints())
