# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's container toolkit as Debian packages in a signed apt repository that is laid out as
upstream's, and its web server.

    gpgkey                     the key that signed it (wrong.asc: one that did not)
    stable/deb/amd64/          the flat repository: `deb [signed-by=...] http://10.77.0.1:8099/stable/deb/amd64 /`

The programs are upstream's own, built from source; nvidia-container-cli is a stub. The keys are
made here and thrown away.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import hashlib
import http.server
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from urllib.parse import urlsplit

from .artefacts import cached, digest, go_tool, run

SOURCES = Path(__file__).resolve().with_name("nvidia")
VERSION = "1.20.2-1"
ADDRESS, PORT = "10.77.0.1", 8099
FLAT = "stable/deb/amd64"
PACKAGES = (
    "libnvidia-container1",
    "libnvidia-container-tools",
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "nvidia-container-toolkit-operator-extensions",
)
# package -> programs that it puts into /usr/bin
PROGRAMS = {
    "nvidia-container-toolkit": ("nvidia-container-runtime-hook",),
    "nvidia-container-toolkit-base": ("nvidia-container-runtime", "nvidia-ctk", "nvidia-cdi-hook"),
    "nvidia-container-toolkit-operator-extensions": (
        "nvidia-container-runtime.cdi",
        "nvidia-container-runtime.legacy",
    ),
}


def nvidia_debs() -> Path:
    """The directory that is served: keys and the repository below it."""
    programs = go_tool("nvidia-toolkit")
    sources = [
        part
        for path in sorted(SOURCES.rglob("*"))
        if path.is_file()
        for part in (str(path.relative_to(SOURCES)), path)
    ]
    return cached(
        "repo",
        "nvidia",
        digest(programs.name, VERSION, Path(__file__), *sources),
        functools.partial(_build, programs),
    )


def _build(programs: Path, out: Path) -> None:
    home = out / FLAT
    home.mkdir(parents=True)
    debs = [_deb(package, programs, home) for package in PACKAGES]
    index = "".join(_stanza(deb) for deb in debs).encode()
    (home / "Packages").write_bytes(index)
    (home / "Packages.gz").write_bytes(gzip.compress(index, mtime=0))
    (home / "Release").write_text(_release([home / "Packages", home / "Packages.gz"]))
    with key("lab@gpufleet.invalid") as gpg:
        run([*gpg, "--clearsign", "--output", str(home / "InRelease"), str(home / "Release")])
        run(
            [
                *gpg,
                "--armor",
                "--detach-sign",
                "--output",
                str(home / "Release.gpg"),
                str(home / "Release"),
            ]
        )
        run([*gpg, "--armor", "--export", "--output", str(out / "gpgkey")])
    with key("stranger@gpufleet.invalid") as gpg:
        run([*gpg, "--armor", "--export", "--output", str(out / "wrong.asc")])
    shutil.copy2(out / "gpgkey", out / "key.asc")


def _deb(package: str, programs: Path, out: Path) -> Path:
    with tempfile.TemporaryDirectory(dir=out.parent) as staging:
        root = Path(staging, package)
        shutil.copytree(SOURCES / package, root)
        for path in root.rglob("*"):
            if path.is_file():
                text = path.read_text()
                path.write_text(
                    text.replace("@VERSION@", VERSION).replace(
                        "@UPSTREAM@", VERSION.partition("-")[0]
                    )
                )
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        for name in PROGRAMS.get(package, ()):
            (root / "usr/bin").mkdir(parents=True, exist_ok=True)
            shutil.copy2(programs / name, root / "usr/bin")
        # gzip's lowest level: the repository is read over a local network, and packing is most of
        # the build time.
        result = out / f"{package}_{VERSION}_amd64.deb"
        run(["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", str(root), str(result)])
        return result


def _stanza(deb: Path) -> str:
    """One package's entry in the index; every checksum that apt looks at is SHA-256."""
    control = run(["dpkg-deb", "--field", str(deb)]).rstrip("\n")
    data = deb.read_bytes()
    return f"{control}\nFilename: ./{deb.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n\n"


def _release(indexes: list[Path]) -> str:
    sums = "".join(
        f" {hashlib.sha256(path.read_bytes()).hexdigest()} {path.stat().st_size} {path.name}\n"
        for path in indexes
    )
    date = formatdate(usegmt=True).replace("GMT", "UTC")
    return (
        f"Origin: gpufleet-lab\nSuite: stable\nDate: {date}\nArchitectures: amd64\nSHA256:\n{sums}"
    )


@contextlib.contextmanager
def key(address: str, now: str = "", lasts: str = "never") -> Iterator[list[str]]:
    """A new key in a keyring of its own, as the beginning of a gpg command line; keyring and agent
    are gone afterwards.

    now: the time that gpg takes for now, in its own form; lasts: how long the key is valid from
    then on.
    """
    with tempfile.TemporaryDirectory(prefix="gpufleet-gpg-") as home:
        gpg = [
            "gpg",
            "--batch",
            "--quiet",
            "--yes",
            "--homedir",
            home,
            *(["--faked-system-time", now] if now else []),
        ]
        try:
            run(
                [
                    *gpg,
                    "--pinentry-mode",
                    "loopback",
                    "--passphrase",
                    "",
                    "--quick-generate-key",
                    address,
                    "rsa3072",
                    "sign",
                    lasts,
                ]
            )
            yield gpg
        finally:
            run(["gpgconf", "--homedir", home, "--kill", "all"])


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """Below /rpm/ the repositories for dnf and zypper (rpmrepo.py), which are there where a host of
    the lab needs them.

    It is a proxy as well, to whom all servers are this one.
    """

    def translate_path(self, path: str) -> str:
        path = urlsplit(path).path
        if path.startswith("/rpm/"):
            from . import rpmrepo

            return str(rpmrepo.nvidia_rpms()) + super().translate_path(
                path.removeprefix("/rpm")
            ).removeprefix(self.directory)
        return super().translate_path(path)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class names it so)
        """Nobody reads it."""


def serve(address: str, port: int) -> None:
    """Serve the repository until a SIGTERM; "ready" on standard output says that it listens."""
    handler = functools.partial(_Quiet, directory=str(nvidia_debs()))
    with http.server.ThreadingHTTPServer((address, port), handler) as server:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        print("ready", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    serve(sys.argv[1] if sys.argv[1:] else ADDRESS, int(sys.argv[2]) if sys.argv[2:] else PORT)
