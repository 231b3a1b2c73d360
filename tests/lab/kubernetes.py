# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Kubernetes of lab hosts: etcd, API server, controllers and scheduler beside them in the
lab's network, a kubelet on each.

cluster = Cluster(lab, place)
lab.up({"hosts": {"w1": {"kind": "containerd-2.3", "files": cluster.files("w1")}}})
cluster.start(["w1"])
"""

from __future__ import annotations

import base64
import json
import secrets
import shutil
import subprocess
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import cgroup, hosts, network
from .artefacts import LabError, go_tool, run
from .lab import Lab

PROGRAMS, NEWEST = "kubernetes-1.34", "kubernetes-1.37"
# The controllers that do not run, by release: 1.37 has those of clouds no more, and refuses names
# that it does not know.
CONTROLLERS = {
    PROGRAMS: "*,-nodeipam,-service-lb-controller,-node-route-controller",
    NEWEST: "*,-nodeipam",
}
TREE = Path(__file__).with_name("tree") / "kubelet"
GROUP = "kubernetes"  # of processes, beside the groups of the hosts
API = f"https://{network.GATEWAY}:6443"
ETCD = "http://127.0.0.1:2379"
STORE, SERVER = "server", "kube-apiserver"  # the first is etcd, by the name of its package
NOT_READY = "node.kubernetes.io/not-ready"
PATIENCE = 120
PAUSE = 0.2  # kubectl takes about as long itself
CONTAINERD, CRIO = "/run/containerd/containerd.sock", "/var/run/crio/crio.sock"
# Name in the API, group, by the file that its kubeconfig has.
ACCOUNTS = {
    "admin": ("admin", "system:masters"),
    "controllers": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
}


class Cluster:
    """A cluster whose certificates, tokens and data lie in `place`. Its processes end with the lab.

    programs: a release of Kubernetes, by its name in artefacts.GO_TOOLS.
    """

    def __init__(self, lab: Lab, place: Path, programs: str = PROGRAMS) -> None:
        self.lab = lab
        self.place = place
        self.programs, self.controllers = go_tool(programs), CONTROLLERS[programs]
        self.spawned: dict[str, subprocess.Popen[bytes]] = {}
        self.tokens: dict[str, tuple[str, str, str]] = {
            name: (secrets.token_hex(16), *who) for name, who in ACCOUNTS.items()
        }
        _make_certificates(place)
        for name in ACCOUNTS:
            self._kubeconfig(name)

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the user that has every right."""
        return self.place / "admin.kubeconfig"

    def files(self, name: str, socket: str = CONTAINERD) -> dict[str, str]:
        """Return the files that make a host of the lab the node of this name, for its entry in the
        fleet.

        Its kubelet uses the engine at this socket.
        """
        self.tokens[name] = (secrets.token_hex(16), f"system:node:{name}", "system:nodes")
        found = {
            f"/{path.relative_to(TREE)}": path.read_text().replace(CONTAINERD, socket)
            for path in TREE.rglob("*")
            if path.is_file()
        }
        kubeconfig = self._kubeconfig(name).read_text()
        return {
            **found,
            "/etc/kubernetes/kubelet.kubeconfig": kubeconfig,
            "/etc/kubernetes/ca.crt": (self.place / "ca.crt").read_text(),
        }

    def start(self, nodes: Sequence[str]) -> None:
        """Start the control plane and the nodes' kubelets, and return when pods can run there."""
        lines = [
            ",".join([token, user, name, f'"{group}"'])
            for name, (token, user, group) in self.tokens.items()
        ]
        (self.place / "tokens.csv").write_text("\n".join(lines) + "\n")
        processes = self._processes()
        for name in (STORE, SERVER):
            self._spawn(name, processes.pop(name))
        self.until("the API server to be ready", ["get", "--raw", "/readyz"])
        # The controllers end by themselves if the API is not healthy 10 s after their start.
        for name, arguments in processes.items():
            self._spawn(name, arguments)
        for name in nodes:
            self._join(name)
        self.ready(nodes)
        # Without these two no pod is admitted, and the controllers make them some seconds after
        # their start.
        self.until(
            "the account of pods", ["get", "serviceaccount/default", "configmap/kube-root-ca.crt"]
        )

    def ready(self, nodes: Iterable[str]) -> None:
        """Return when these nodes are Ready and the cluster lets pods go there.

        The cluster's controller removes its taint some seconds after a node is Ready.
        """
        for name in nodes:
            self.until(
                f"the node {name}",
                ["wait", "--for=condition=Ready", f"node/{name}", "--timeout=1s"],
            )
            for _turn in cgroup.until(
                f"the taint {NOT_READY} to leave the node {name}. The logs are in {self.place}",
                PATIENCE,
                PAUSE,
            ):
                taints = self.get(f"node/{name}")["spec"].get("taints", [])
                if NOT_READY not in [taint["key"] for taint in taints]:
                    break
                self._require_processes()

    def until(self, what: str, arguments: Sequence[str]) -> str:
        """Return what kubectl prints once the command succeeds. LabError if it does not in time."""
        for _turn in cgroup.until(f"{what}. The logs are in {self.place}", PATIENCE, PAUSE):
            done = self._kubectl(arguments)
            if done.returncode == 0:
                return done.stdout
            self._require_processes()
        raise AssertionError("until() ends by itself")

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        done = self._kubectl(arguments, stdin)
        if done.returncode:
            raise LabError(
                f"kubectl {' '.join(arguments)} ended with status {done.returncode}: {done.stderr.strip()}"
            )
        return done.stdout

    def get(self, *what: str) -> Any:
        return json.loads(self.kubectl("get", *what, "--output=json"))

    def apply(self, *objects: Mapping[str, Any]) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": objects}
        self.kubectl("apply", "--filename=-", stdin=json.dumps(listed))

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of kubectl with every right."""
        return self.lab.inside(
            [str(self.programs / "kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments]
        )

    def _kubectl(
        self, arguments: Sequence[str], stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments), input=stdin, capture_output=True, text=True, check=False
        )

    def _join(self, name: str) -> None:
        host = self.lab.host(name)
        shutil.copy2(
            self.programs / "kubelet",
            Path(f"/proc/{hosts.first_process(host)}/root/usr/local/bin/kubelet"),
        )
        done = self.lab.exec(
            name,
            [
                "sh",
                "-ec",
                "chmod 755 /usr/local/sbin/lab-kernel-files; systemctl enable --now kubelet.service",
            ],
        )
        if done.returncode:
            raise LabError(f"The kubelet of {name} does not start: {done.stderr.strip()}")

    def _spawn(self, name: str, arguments: Sequence[str]) -> None:
        group = cgroup.make(f"{self.lab.name}/{GROUP}")
        join = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', f"{group}/cgroup.procs"]
        with (self.place / f"{name}.log").open("wb") as log:
            command = [*join, *self.lab.inside([str(self.programs / name), *arguments])]
            self.spawned[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self.place,
            )

    def _require_processes(self) -> None:
        """Raise LabError, with the last words of its log, if a process of the cluster has ended:
        what it was to do is waited for in vain.
        """
        for name, process in self.spawned.items():
            if process.poll() is not None:
                words = (self.place / f"{name}.log").read_text(errors="replace")[-2000:]
                raise LabError(f"{name} ended with status {process.returncode}: {words}")

    def _processes(self) -> dict[str, list[str]]:
        """Return programs with their flags, in the order of their start."""
        place = self.place
        signing = str(place / "service-accounts.key")
        return {
            # Its data is never needed after a loss of this machine's power.
            STORE: [
                "--data-dir",
                str(place / "etcd"),
                "--unsafe-no-fsync",
                "--log-level",
                "warn",
            ],
            SERVER: [
                *(
                    "--etcd-servers",
                    ETCD,
                    "--bind-address",
                    network.GATEWAY,
                    "--advertise-address",
                    network.GATEWAY,
                ),
                *(
                    "--tls-cert-file",
                    str(place / "server.crt"),
                    "--tls-private-key-file",
                    str(place / "server.key"),
                ),
                *(
                    "--client-ca-file",
                    str(place / "ca.crt"),
                    "--token-auth-file",
                    str(place / "tokens.csv"),
                ),
                *(
                    "--kubelet-client-certificate",
                    str(place / "client.crt"),
                    "--kubelet-client-key",
                    str(place / "client.key"),
                ),
                *(
                    "--service-account-issuer",
                    API,
                    "--service-account-key-file",
                    str(place / "service-accounts.pub"),
                ),
                *(
                    "--service-account-signing-key-file",
                    signing,
                    "--service-cluster-ip-range",
                    "10.96.0.0/16",
                ),
                *(
                    "--authorization-mode",
                    "Node,RBAC",
                    "--enable-admission-plugins",
                    "NodeRestriction",
                ),
                *(
                    "--kubelet-preferred-address-types",
                    "InternalIP",
                    "--allow-privileged=true",
                    "--profiling=false",
                ),
            ],
            "kube-controller-manager": [
                *(
                    "--kubeconfig",
                    str(place / "controllers.kubeconfig"),
                    "--leader-elect=false",
                    "--use-service-account-credentials=true",
                ),
                *(
                    "--service-account-private-key-file",
                    signing,
                    "--root-ca-file",
                    str(place / "ca.crt"),
                ),
                *(
                    "--node-monitor-grace-period",
                    "20s",
                    "--controllers",
                    self.controllers,
                ),
            ],
            "kube-scheduler": [
                "--kubeconfig",
                str(place / "scheduler.kubeconfig"),
                "--leader-elect=false",
            ],
        }

    def _kubeconfig(self, name: str) -> Path:
        authority = base64.b64encode((self.place / "ca.crt").read_bytes()).decode()
        text = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "lab", "cluster": {"server": API, "certificate-authority-data": authority}}
            ],
            "users": [{"name": name, "user": {"token": self.tokens[name][0]}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": name}}],
            "current-context": "lab",
        }
        path = self.place / f"{name}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(text))
        return path


def _make_certificates(place: Path) -> None:
    """Make an authority, and the certificates that it signs.

    Python's TLS wants the key usage in an authority, and the identity of the signer in a
    certificate.
    """
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    usage = ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    run(
        [
            "openssl",
            "req",
            "-x509",
            *key,
            "-keyout",
            "ca.key",
            "-out",
            "ca.crt",
            "-days",
            "30",
            "-subj",
            "/CN=lab",
            *usage,
        ],
        cwd=place,
    )
    signed = {
        "server": (
            "/CN=kube-apiserver",
            f"subjectAltName=IP:{network.GATEWAY}\nextendedKeyUsage=serverAuth",
        ),
        "client": ("/O=system:masters/CN=kube-apiserver", "extendedKeyUsage=clientAuth"),
    }
    for name, (subject, usages) in signed.items():
        (place / f"{name}.ext").write_text(
            textwrap.dedent(
                f"{usages}\nauthorityKeyIdentifier=keyid\nkeyUsage=critical,digitalSignature\n"
            )
        )
        run(
            [
                "openssl",
                "req",
                *key,
                "-keyout",
                f"{name}.key",
                "-out",
                f"{name}.csr",
                "-subj",
                subject,
            ],
            cwd=place,
        )
        authority = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30"]
        run(
            [
                "openssl",
                "x509",
                "-req",
                "-in",
                f"{name}.csr",
                *authority,
                "-extfile",
                f"{name}.ext",
                "-out",
                f"{name}.crt",
            ],
            cwd=place,
        )
    run(["openssl", "genrsa", "-out", "service-accounts.key", "2048"], cwd=place)
    run(
        [
            "openssl",
            "rsa",
            "-in",
            "service-accounts.key",
            "-pubout",
            "-out",
            "service-accounts.pub",
        ],
        cwd=place,
    )
