# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real registry for tests: Debian's `docker-registry`, with TLS and a password, on a port of its
own. It is not installed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGE, PROGRAM = "docker-registry", ROOT / ".cache/docker-registry/usr/bin/docker-registry"
NAME, PASSWORD = "lab", "lab-only"
# bcrypt of PASSWORD, which this registry wants
HASH = "$2b$04$iTqqpmRAl0065Eh72FQiZOHfqB3TY7NEdGmkUD2HcH10w0rjpPklW"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CERTIFICATE = [
    "-x509",
    "-newkey",
    "rsa:2048",
    "-nodes",
    "-days",
    "2",
    "-subj",
    "/CN=localhost",
    "-addext",
    "subjectAltName=DNS:localhost",
]


def fetched() -> str:
    """Fetch the program, and return '' if it is there now, or else why it cannot be had."""
    if PROGRAM.exists():
        return ""
    place = PROGRAM.parents[2]
    place.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["apt-get", "-q", "download", PACKAGE],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    for package in place.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, place], check=True)
    return (
        "" if PROGRAM.exists() else f"apt-get download {PACKAGE} fails: {done.stderr.strip()[:200]}"
    )


class Registry:
    """A registry that runs until it is closed."""

    def __init__(self, place: Path) -> None:
        with socket.socket() as spare:
            spare.bind(("127.0.0.1", 0))
            self.name = f"localhost:{spare.getsockname()[1]}"
        self.certificate, key = place / "registry.pem", place / "registry.key"
        subprocess.run(
            ["openssl", "req", *CERTIFICATE, "-keyout", key, "-out", self.certificate],
            check=True,
            capture_output=True,
        )
        (place / "users").write_text(f"{NAME}:{HASH}\n")
        settings = {
            "version": 0.1,
            "log": {"level": "error"},
            "storage": {"filesystem": {"rootdirectory": str(place / "storage")}},
            "http": {
                "addr": f"127.0.0.1:{self.name.rpartition(':')[2]}",
                "tls": {"certificate": str(self.certificate), "key": str(key)},
            },
            "auth": {"htpasswd": {"realm": "lab", "path": str(place / "users")}},
        }
        (place / "config.yml").write_text(json.dumps(settings))
        self.auth = place / "auth.json"
        pair = base64.b64encode(f"{NAME}:{PASSWORD}".encode()).decode()
        self.auth.write_text(json.dumps({"auths": {self.name: {"auth": pair}}}))
        self.headers = {"Authorization": f"Basic {pair}"}
        self.trust = ssl.create_default_context(cafile=str(self.certificate))
        self.process = subprocess.Popen(
            [PROGRAM, "serve", place / "config.yml"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._wait()

    def _wait(self) -> None:
        """Wait until the registry answers.

        A connection that is refused is tried again. RuntimeError if the process has ended.
        """
        while self.process.poll() is None:
            try:
                self.ask("GET", "/v2/")
            except urllib.error.HTTPError as error:  # it answers, and will not answer anything else
                raise RuntimeError(f"{PROGRAM}: {error}") from error
            except urllib.error.URLError:
                continue
            return
        raise RuntimeError(f"{PROGRAM} ended with {self.process.returncode}")

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        kind: str = "application/octet-stream",
    ) -> Any:
        address = path if path.startswith("https:") else f"https://{self.name}{path}"
        request = urllib.request.Request(
            address, body, {**self.headers, "Content-Type": kind}, method=method
        )
        with urllib.request.urlopen(request, timeout=10, context=self.trust) as answer:
            return answer.headers

    def blob(self, repository: str, body: bytes) -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        place = self.ask("POST", f"/v2/{repository}/blobs/uploads/", b"")["Location"]
        self.ask(
            "PUT",
            f"{place}{'&' if '?' in place else '?'}{urllib.parse.urlencode({'digest': digest})}",
            body,
        )
        return {"digest": digest, "size": len(body)}

    def image(
        self, repository: str, tag: str, architectures: tuple[str, ...], env: list[str]
    ) -> str:
        """Push an index with an image without layers for each architecture, and return the index's
        digest.
        """
        entries = []
        for architecture in architectures:
            config = {
                "architecture": architecture,
                "os": "linux",
                "config": {"Env": env},
                "rootfs": {"type": "layers", "diff_ids": []},
            }
            blob = {
                "mediaType": "application/vnd.oci.image.config.v1+json",
                **self.blob(repository, json.dumps(config).encode()),
            }
            body = json.dumps(
                {"schemaVersion": 2, "mediaType": MANIFEST, "config": blob, "layers": []}
            ).encode()
            digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
            self.ask("PUT", f"/v2/{repository}/manifests/{digest}", body, MANIFEST)
            own = {"architecture": architecture, "os": "linux"}
            entries.append(
                {"mediaType": MANIFEST, "digest": digest, "size": len(body), "platform": own}
            )
        index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}).encode()
        self.ask("PUT", f"/v2/{repository}/manifests/{tag}", index, INDEX)
        return f"sha256:{hashlib.sha256(index).hexdigest()}"

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(10)
