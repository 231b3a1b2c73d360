# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts as they are in the wild, each a value: its files, the output of its programs, the answers
of its sockets.
"""

from __future__ import annotations

import copy
import dataclasses as dc
import functools
import json
import os
import pathlib
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.probes import kernel_log

from tests.unit import drivers, gpus, hardware
from tests.unit.running_host import Host, HostProcess, pods_message, status_message, version_message

V2 = 'plugins."io.containerd.grpc.v1.cri"'
SOCKETS = {
    "containerd": "/run/containerd/containerd.sock",
    "crio": "/var/run/crio/crio.sock",
    "docker": "/var/run/docker.sock",
}
PROGRAMS = {
    "containerd": "/usr/bin/containerd",
    "crio": "/usr/bin/crio",
    "docker": "/usr/bin/dockerd",
}
RUNTIMES = (
    "/usr/bin/runc",
    "/usr/bin/crun",
    "/usr/bin/nvidia-container-runtime",
    "/usr/libexec/crio/crun",
    "/usr/libexec/crio/conmon",
)
PACKAGES = {
    "containerd": ("containerd", "1.7.24-1"),
    "crio": ("cri-o", "1.31.2-1"),
    "docker": ("docker-ce", "5:28.1.1-1"),
}

CONTAINERD = f"""version = 2
imports = ["/etc/containerd/conf.d/*.toml"]
oom_score = 0

[grpc]
  address = "/run/containerd/containerd.sock"
  uid = 0

[{V2}]
  sandbox_image = "registry.example/pause:3.9"
  [{V2}.cni]
    bin_dir = "/opt/cni/bin"
  [{V2}.containerd]
    default_runtime_name = "runc"
    [{V2}.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [{V2}.containerd.runtimes.runc.options]
        SystemdCgroup = true
    [{V2}.containerd.runtimes.crun]
      runtime_type = "io.containerd.runc.v2"
  [{V2}.registry]
    config_path = "/etc/containerd/certs.d"

[timeouts]
  "io.containerd.timeout.task.state" = "2s"
"""
CONTAINERD_INLINE = f"""version = 2
{V2} = {{ sandbox_image = "registry.example/pause:3.9", containerd = {{ default_runtime_name = "runc" }} }}

[debug]
  level = 'info'

[proxy_plugins.stargz]
  type = "snapshot"
"""
PROXIES = """[proxy_plugins]
  [proxy_plugins.soci]
    type = "snapshot"
    address = "/run/soci.sock"
"""
HOSTS_TOML = """server = "https://docker.io"

[host."https://mirror.example"]
  capabilities = ["pull"]
"""
CRIO = """[crio]
log_dir = "/var/log/crio/pods"

[crio.api]
listen = "/var/run/crio/crio.sock"

[crio.runtime]
default_runtime = "crun"
default_env = ["A=b"]

[crio.runtime.runtimes.crun]
runtime_path = "/usr/libexec/crio/crun"
monitor_path = "/usr/libexec/crio/conmon"
monitor_env = ["PATH=/usr/sbin:/usr/bin"]

[crio.image]
pause_image = "registry.example/pause:3.9"
"""
CRIO_DROP_IN = """[crio.runtime]
log_level = "info"

[crio.metrics]
enable_metrics = false
"""
DAEMON: Mapping[str, Any] = {
    "log-driver": "json-file",
    "log-opts": {"max-size": "10m"},
    "insecure-registries": ["registry.example:5000"],
    "runtimes": {"crun": {"path": "/usr/bin/crun", "runtimeArgs": ["--systemd-cgroup"]}},
    "proxies": {"http-proxy": "http://proxy.example:3128"},
}
NVIDIA = """disable-require = false
#swarm-resource = "DOCKER_RESOURCE_GPU"

[nvidia-container-cli]
environment = []
ldconfig = "@/sbin/ldconfig"

[nvidia-container-runtime]
debug = "/var/log/nvidia-container-runtime.log"
mode = "auto"
runtimes = ["docker-runc", "runc", "crun"]
"""
KUBELET = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous:
    enabled: false
clusterDomain: cluster.local
"""
FLAGS = 'KUBELET_KUBEADM_ARGS="--node-ip=10.0.0.7"\n'
REFRESH = "NVIDIA_CTK_CDI_OUTPUT_FILE_PATH=/var/run/cdi/nvidia.yaml\nA=b\n"
UNIT_OF_ANOTHER = "[Service]\nExecStart=/usr/bin/true\nEnvironment=A=b\n"
REPOSITORY_OF_ANOTHER = "# by hand\ndeb https://mirror.example/nvidia stable main\n"
# What other vendors put beside our CDI spec.
SPEC = """# made by hand
cdiVersion: "0.6.0"
kind: vendor.example/nic
annotations:
  note: "plain"
devices:
- name: "0"
  containerEdits:
    env:
    - "A=b"
    deviceNodes:
    - path: /dev/vendor0
containerEdits:
  hooks:
  - hookName: createContainer
    path: /usr/bin/vendor-hook
    args: ["vendor-hook", "setup"]
"""
OTHER_SPEC: Mapping[str, Any] = {
    "cdiVersion": "0.5.0", "kind": "other.example/gpu", "annotations": {"note": "plain"},
    "devices": [{"name": "one", "containerEdits": {"env": ["A=b"], "mounts": [{"hostPath": "/opt/x.so", "containerPath": "/opt/x.so"}]}}],
}  # fmt: skip

STATUS = {
    "containerd": {
        "containerd": {"defaultRuntimeName": "runc", "runtimes": {"runc": {"runtimeType": "io.containerd.runc.v2", "options": {}}}},
        "enableCDI": False, "cdiSpecDirs": ["/etc/cdi", "/var/run/cdi"], "registry": {"configs": {}},
    },
    "crio": {
        "crio": {
            "DefaultRuntime": "crun", "HooksDir": ["/usr/share/containers/oci/hooks.d"], "CDISpecDirs": ["/etc/cdi", "/var/run/cdi"],
            "Runtimes": {"crun": {"RuntimePath": "/usr/libexec/crio/crun", "MonitorEnv": ["PATH=/usr/sbin:/usr/bin"]}}, "DefaultEnv": [],
        },
    },
}  # fmt: skip
INFO = {"ServerVersion": "28.1.1", "DefaultRuntime": "runc", "ContainersRunning": 1, "CDISpecDirs": [], "LiveRestoreEnabled": True,
        "Labels": [], "Swarm": {"LocalNodeState": "inactive"}}  # fmt: skip
FAILURE = "Starting x...\n{said}\n{unit}: Main process exited, code=exited, status=1/FAILURE\n{unit}: Failed with result 'exit-code'.\n"


@dc.dataclass
class Spec:
    """A host before it is built.

    fails: how it refuses what comes, "validator" or "restart", "" if it serves.
    """

    engine: str
    files: dict[str, str]
    argv: list[str] = dc.field(default_factory=list)
    environ: dict[str, str] = dc.field(default_factory=dict)
    said: dict[str, Any] = dc.field(default_factory=dict)  # CRI's Status, or Docker's /info
    label: str = "plain"
    log: str = "level=fatal msg=stopped"
    words: str = "level=info msg=starting"
    kubelet: list[str] = dc.field(default_factory=list)
    devices: bool = False  # whether it has a GPU
    units: dict[str, Mapping[str, str]] = dc.field(default_factory=dict)  # more of systemd's
    fails: str = ""

    @property
    def unit(self) -> str:
        return f"{self.engine}.service"

    def copy(self) -> Spec:
        return copy.deepcopy(self)


COMMON = {
    "/etc/nvidia-container-runtime/config.toml": NVIDIA,
    "/var/lib/kubelet/config.yaml": KUBELET,
    "/var/lib/kubelet/kubeadm-flags.env": FLAGS,
    "/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env": REFRESH,
    "/etc/systemd/system/nvidia-cdi-refresh.service": UNIT_OF_ANOTHER,
    "/etc/apt/sources.list.d/gpufleet-nvidia.sources": REPOSITORY_OF_ANOTHER,
}
ENGINES: Mapping[str, Spec] = {
    "containerd": Spec(
        "containerd",
        {**COMMON, "/etc/containerd/config.toml": CONTAINERD, "/etc/containerd/conf.d/10-proxies.toml": PROXIES,
         "/etc/containerd/certs.d/docker.io/hosts.toml": HOSTS_TOML},
        ["--log-level", "debug"], {"A": "b"}, STATUS["containerd"], kubelet=["--node-ip=10.0.0.7"],
    ),
    "containerd, inline": Spec(
        "containerd", {**COMMON, "/etc/containerd/config.toml": CONTAINERD_INLINE}, said=STATUS["containerd"], environ={"A": "b"},
    ),
    "containerd, GPU": Spec(
        "containerd",
        {**COMMON, "/etc/containerd/config.toml": CONTAINERD, "/etc/cdi/vendor.yaml": SPEC,
         "/var/run/cdi/other.json": json.dumps(OTHER_SPEC)},
        said=STATUS["containerd"], environ={"A": "b"}, devices=True,
    ),
    "crio": Spec(
        "crio", {**COMMON, "/etc/crio/crio.conf": CRIO, "/etc/crio/crio.conf.d/10-site.conf": CRIO_DROP_IN},
        ["--log-level", "info"], {"A": "b"}, STATUS["crio"], kubelet=["--node-ip=10.0.0.7"],
    ),
    "docker": Spec(
        "docker", {**COMMON, "/etc/docker/daemon.json": json.dumps(DAEMON, indent=2) + "\n"},
        ["-H", "unix:///var/run/docker.sock", "--label", "a=b"], {"A": "b"}, INFO,
    ),
}  # fmt: skip


def build(process: HostProcess, spec: Spec, mode: int) -> Host:
    """Build the host. mode: of all its configurations."""
    host = Host(process)
    name, version = PACKAGES[spec.engine]
    me = os.getpid()  # who answers at the sockets
    host.write("/etc/os-release", 'ID=debian\nVERSION_ID="12"\n')
    host.write("/etc/passwd", "root:x:0:0::/root:/bin/sh\n")
    host.write("/etc/group", "root:x:0:\n")
    host.write(
        "/var/lib/dpkg/status",
        f"Package: {name}\nStatus: install ok installed\nVersion: {version}\n\n",
    )
    for path in RUNTIMES:
        host.write(path, "x", 0o755)
    for path, text in spec.files.items():
        host.write(path, text, mode)
    for path, entry in {**gpus.host(1), **drivers.HOOK}.items() if spec.devices else ():
        host.put(path, entry)
    host.process(me, PROGRAMS[spec.engine], *spec.argv, unit=spec.unit, environ=spec.environ)
    active = {
        "ActiveState": "active",
        "SubState": "running",
        "UnitFileState": "enabled",
        "InvocationID": "i1",
        "KillMode": "process",
    }
    units = {spec.unit: {**active, "MainPID": str(me)}}
    if spec.kubelet:
        host.process(
            2, "/usr/bin/kubelet", *spec.kubelet, unit="kubelet.service", environ=spec.environ
        )
        units["kubelet.service"] = {**active, "MainPID": "2"}
    host.units({**units, **spec.units})
    said(host, spec)
    serve(host, spec)
    return host


NO_STATE = hardware.states(hardware.Hardware(), ())  # of a library that tells none


def answer_probe(
    nvml: str,
    argv: list[str],
    *,
    state: Mapping[str, Any] = NO_STATE,
    log: tuple[str, ...] = ("Linux version 6.1.0",),
) -> str:
    """Return what a program that a look brings answers: the search of the kernel log, the state of
    GPUs, or NVML.

    nvml: what NVML answers. state: the answer about the GPUs' state. log: the kernel's records.
    """
    if '"samples"' in argv[-1]:
        return json.dumps(state)
    if '"pattern"' not in argv[-1]:
        return nvml
    records = [f"4,{number},{number},-;{text}" for number, text in enumerate(log)]
    pattern = re.compile(json.loads(argv[-1])["pattern"])
    return json.dumps(kernel_log.search_log_lines(records, True, pattern))


def said(host: Host, spec: Spec) -> None:
    """Let the host's programs print what the spec has."""
    # NVML's answer is made here: the host is another process
    nvml = json.dumps(gpus.nvml(1)["probe:nvml"]["value"])
    host.program(f"{sys.executable} -I -S - ", functools.partial(answer_probe, nvml))
    host.program("kubelet --version", "Kubernetes v1.31.4\n")
    host.program("/usr/bin/kubelet --version", "Kubernetes v1.31.4\n")
    refused = spec.fails == "validator"
    host.program("/usr/bin/containerd -c", containerd_dump, status=int(refused), err=spec.words)
    host.program("/usr/bin/crio --config", crio_config, status=int(refused), err=spec.words)
    host.program(
        "/usr/bin/dockerd",
        "" if refused else "configuration OK\n",
        status=int(refused),
        err=spec.words,
    )
    host.program("journalctl", FAILURE.format(said=spec.log, unit=spec.unit))
    host.program("systemctl is-system-running", "running\n")
    if spec.fails == "restart":
        host.program(
            f"systemctl restart {spec.unit}",
            status=1,
            err=f"Job for {spec.unit} failed because of {spec.log}\n",
        )
    host.program("systemctl")


def containerd_dump(argv: list[str]) -> str:
    """Return the output of `containerd -c FILE config dump`."""
    return (
        "\n".join(
            lines_of(
                tomllib.loads(pathlib.Path(argv[2]).read_text(encoding="utf-8")), (), lists=False
            )
        )
        + "\n"
    )


def crio_config(argv: list[str]) -> str:
    """Return the output of `crio --config FILE --config-dir DIRECTORY config`, line by line.

    Of handlers with one name, that of the last file counts.
    """
    merged: dict[str, Any] = {}
    for place in (
        [pathlib.Path(argv[2]), *sorted(pathlib.Path(argv[4]).glob("*.conf"))] if argv[2] else ()
    ):
        laid_over(merged, tomllib.loads(place.read_text(encoding="utf-8")))
    return "\n".join(lines_of(merged, ())) + "\n"


def laid_over(below: dict[str, Any], above: Mapping[str, Any], path: tuple[str, ...] = ()) -> None:
    for key, value in above.items():
        if (
            isinstance(value, dict)
            and isinstance(below.get(key), dict)
            and path != ("crio", "runtime", "runtimes")
        ):
            laid_over(below[key], value, (*path, key))
        else:
            below[key] = value


def lines_of(
    table: Mapping[str, Any], path: tuple[str, ...], *, lists: bool = True
) -> Iterator[str]:
    """Yield the lines of a configuration as an engine prints it.

    lists: with a line for each item, as CRI-O has them.
    """
    for key, value in table.items():
        if isinstance(value, list) and lists:
            yield f"{key} = ["
            yield from (f"\t{json.dumps(item, default=str)}," for item in value)
            yield "]"
        elif not isinstance(value, dict):
            yield f"{key} = {json.dumps(value, default=str)}"
    for key, value in table.items():
        if isinstance(value, dict):
            yield f"[{'.'.join((*path, key))}]"
            yield from lines_of(value, (*path, key), lists=lists)


def serve(host: Host, spec: Spec) -> None:
    """Let the engine answer at its socket. It has in force what its files contain."""
    if spec.engine == "docker":
        host.api(SOCKETS["docker"], lambda target: docker(host, spec, target))
        return
    name, version, in_force = {
        "containerd": ("containerd", "v1.7.24", containerd),
        "crio": ("cri-o", "1.31.2", crio),
    }[spec.engine]
    replies: Mapping[str, Callable[[], bytes]] = {
        "Version": lambda: version_message(name, version),
        "Status": lambda: status_message(in_force(host, spec), ("runc", "crun", "nvidia")),
        "ListPodSandbox": lambda: pods_message(
            [{"id": "p1", "label": spec.label, "handler": "runc"}]
        ),
    }
    host.runtime(SOCKETS[spec.engine], lambda method: replies[method]())


def containerd(host: Host, spec: Spec) -> Any:
    data = tomllib.loads(host.path("/etc/containerd/config.toml").read_text(encoding="utf-8"))
    cri = (data.get("plugins") or {}).get("io.containerd.grpc.v1.cri") or {}
    runtimes = (cri.get("containerd") or {}).get("runtimes") or {}
    told = {
        name: {
            "runtimeType": table.get("runtime_type"), "options": table.get("options") or {}, "baseRuntimeSpec": "",
            "ContainerAnnotations": table.get("container_annotations"), "PodAnnotations": table.get("pod_annotations"),
        }
        for name, table in runtimes.items()
    }  # fmt: skip
    default = (cri.get("containerd") or {}).get("default_runtime_name", "runc")
    said = copy.deepcopy(spec.said)
    said["containerd"] = {
        **said["containerd"],
        "defaultRuntimeName": default,
        "runtimes": {**said["containerd"]["runtimes"], **told},
    }
    return {**said, "enableCDI": bool(cri.get("enable_cdi"))}


def crio(host: Host, spec: Spec) -> Any:
    said = copy.deepcopy(spec.said)
    ours = host.path("/etc/crio/crio.conf.d/90-gpufleet.conf")
    if ours.exists():
        runtime = tomllib.loads(ours.read_text(encoding="utf-8"))["crio"]["runtime"]
        for name, table in (runtime.get("runtimes") or {}).items():
            said["crio"]["Runtimes"][name] = {"RuntimePath": table.get("runtime_path")}
        said["crio"]["DefaultRuntime"] = runtime.get("default_runtime", "crun")
    return said


def docker(host: Host, spec: Spec, target: str) -> Any:
    if target == "/containers/json":
        return [
            {"Id": "a" * 12, "Names": ["/web"], "Labels": {"a": spec.label}, "Command": spec.label}
        ]
    if target != "/info":
        return None
    try:
        wanted = json.loads(host.path("/etc/docker/daemon.json").read_text())
    except ValueError:
        wanted = {}
    runtimes = {
        name: {"path": table.get("path", "")}
        for name, table in (wanted.get("runtimes") or {}).items()
    }
    default = wanted.get("default-runtime") or "runc"
    return {
        **spec.said,
        "DefaultRuntime": default,
        "Runtimes": {"runc": {"path": "runc"}, **runtimes},
    }
