# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian's Chromium without a window, told what to do over a pipe: pages opened and photographed,
and all that they asked for.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab import doctor

PROGRAMS = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
SECONDS = 120  # for one answer; a machine that is busy with other tests is slow


def program() -> str:
    """Return the path of this machine's browser, or '' if there is none (apt-get install chromium)."""
    return next((found for found in map(shutil.which, PROGRAMS) if found), "")


class Browser:
    """A page of a browser. events: all that the browser has reported of it, in order."""

    def __init__(self, to: int, from_: int) -> None:
        self.to, self.from_ = to, from_
        self.number, self.rest = 0, b""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    session = ""

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self.number += 1
        message = {
            "id": self.number,
            "method": method,
            "params": params,
            **({"sessionId": self.session} if self.session else {}),
        }
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]  # type: ignore[no-any-return]
            self.events.append(answer)

    def receive(self) -> dict[str, Any]:
        until = time.monotonic() + SECONDS
        while b"\0" not in self.rest:
            if not select.select([self.from_], [], [], max(until - time.monotonic(), 0))[0]:
                raise TimeoutError("the browser does not answer")
            got = os.read(self.from_, 1 << 16)
            if not got:
                raise EOFError("the browser has ended")
            self.rest += got
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)  # type: ignore[no-any-return]

    def look(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(json.dumps(found["exceptionDetails"])[:500])
        return found["result"].get("value")

    def open(
        self, path: Path, width: int, height: int = 1000, dark: bool = False, scripts: bool = True
    ) -> None:
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())

    def photograph(self, path: Path, height: int) -> None:
        clip = {"x": 0, "y": 0, "width": self.look("innerWidth"), "height": height, "scale": 1}
        path.write_bytes(
            base64.b64decode(
                self.call(
                    "Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True
                )["data"]
            )
        )

    def complaints(self) -> list[str]:
        """Return what stands in the console: errors of the page, and what its policy did not allow."""
        found = [
            e["params"]["entry"]["text"] for e in self.events if e.get("method") == "Log.entryAdded"
        ]
        found += [
            str(e["params"]["exceptionDetails"])
            for e in self.events
            if e.get("method") == "Runtime.exceptionThrown"
        ]
        return found + [
            str(e["params"]["args"])
            for e in self.events
            if e.get("method") == "Runtime.consoleAPICalled"
        ]

    def requests(self) -> list[str]:
        return [
            e["params"]["request"]["url"]
            for e in self.events
            if e.get("method") == "Network.requestWillBeSent"
        ]


@contextlib.contextmanager
def installed() -> Iterator[Browser]:
    """Yield a browser for tests. Debian's package is installed where it is missing, as the lab does
    with what it needs.
    """
    if not program():
        if doctor.machine_obstacle():
            pytest.skip(
                "a page is looked at in a browser, and there is none: apt-get install chromium"
            )
        doctor.install(["chromium"])
    with running() as browser:
        yield browser


@contextlib.contextmanager
def running() -> Iterator[Browser]:
    """Yield a browser with nothing of the user's, in a folder that is removed when it ends."""
    to_read, to = os.pipe()
    from_, from_write = os.pipe()
    with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as home:
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--no-first-run",
        ]
        # It reads from the descriptor 3 and writes to 4.
        shell = f"exec {program()} {' '.join(options)} --remote-debugging-pipe --user-data-dir={home} 3<&{to_read} 4>&{from_write}"
        done = subprocess.Popen(
            ["/bin/bash", "-c", shell], pass_fds=(to_read, from_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True, env={**os.environ, "HOME": home},
        )  # fmt: skip
        os.close(to_read)
        os.close(from_write)
        try:
            yield Browser(to, from_)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(done.pid, signal.SIGKILL)
            done.wait()
            os.close(to)
            os.close(from_)
