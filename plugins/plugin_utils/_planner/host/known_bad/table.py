# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of known-bad combinations. A row has a range of releases, further conditions, the
failure, and the workaround.

A range begins with the first release that has the fault and ends before the first without it, as
upstream's tags have it. A row stops a run if containers lose their GPUs, or an engine does not
start, or a file that its owner counts on is not read. Other rows only give advice.
docs/known-bad.md is written from this.
"""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.known_bad.rules import (
    DRIVER,
    TOOLKIT,
    Is,
    KnownBadRow,
    ReleaseCondition,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.traits import (
    CONTAINERD,
    CRIO,
    DOCKER,
)

_TOOLKIT = "https://github.com/NVIDIA/nvidia-container-toolkit"
_REMOVED = (
    "https://github.com/containerd/containerd/blob/v2.4.2/RELEASES.md#deprecated-config-properties"
)
_UPGRADE = "Set gpufleet_toolkit_version to {} or newer"
_OWN_SPEC = "set gpufleet_cdi_owner: collection"

ROWS: tuple[KnownBadRow, ...] = (
    KnownBadRow(
        "containerd-refuses-newer-drop-in",
        "containerd does not start: it refuses a drop-in whose `version` is higher than that of the main file",
        (ReleaseCondition(CONTAINERD, "2.3.0", "2.3.5"), Is("drop-in-above-root")),
        "Upgrade containerd to 2.3.5 or newer, or give the drop-in the version of the main file (nvidia-ctk runtime configure "
        "--config-source=file does; for the GPU Operator's toolkit set RUNTIME_CONFIG_SOURCE=file)",
        (
            "https://github.com/NVIDIA/aicr/issues/1688",
            "https://github.com/containerd/containerd/pull/12891",
        ),
    ),
    KnownBadRow(
        "containerd-loses-main-file",
        "containerd starts and silently ignores the CRI settings of the main file (sandbox image, registries, cgroup driver), because a "
        "drop-in has a higher `version`",
        (ReleaseCondition(CONTAINERD, "2.0.0", "2.3.0"), Is("drop-in-above-root")),
        "Give the drop-in the version of the main file (nvidia-ctk runtime configure --config-source=file does)",
        ("https://github.com/containerd/containerd/pull/12891",),
    ),
    KnownBadRow(
        "containerd-2.4-ignores-bin-dir",
        "no pod with a network of its own starts (failed to find plugin in path): containerd ignores `bin_dir` of CNI in a file of "
        "version 3 or 4, and looks in /opt/cni/bin alone",
        (ReleaseCondition(CONTAINERD, "2.4.0"), Is("cni-bin-dir")),
        'Write bin_dirs = ["..."] in the place of bin_dir',
        (_REMOVED, "https://github.com/gardener/gardener/pull/13826"),
        stops=False,
    ),
    KnownBadRow(
        "containerd-2.4-will-ignore-bin-dir",
        "an upgrade of containerd to 2.4 leaves pods without a network: from there on containerd ignores `bin_dir` of CNI in a file of "
        "version 3 or 4",
        (ReleaseCondition(CONTAINERD, "2.0.0", "2.4.0"), Is("cni-bin-dir")),
        'Write bin_dirs = ["..."] in the place of bin_dir before you upgrade; containerd 2.1 and newer read it',
        (_REMOVED, "https://github.com/githubixx/ansible-role-containerd/pull/38"),
        stops=False,
    ),
    KnownBadRow(
        "containerd-2.4-ignores-cdi-switch",
        "`enable_cdi = false` has no effect: CDI is always on, and a container gets each device that its pod asks for by CDI",
        (ReleaseCondition(CONTAINERD, "2.4.0"), Is("cdi-switched-off")),
        "Remove enable_cdi. If containers should get no device by CDI, remove the CDI specs, or set cdi_spec_dirs = []",
        (_REMOVED,),
        stops=False,
    ),
    KnownBadRow(
        "containerd-2.4-ignores-tracing",
        "from containerd 2.4 on no traces are exported: it ignores where the files send them, and how many it keeps",
        (ReleaseCondition(CONTAINERD, "2.0.0"), Is("tracing-in-files")),
        "Set OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL, OTEL_SERVICE_NAME and OTEL_TRACES_SAMPLER in containerd's unit",
        (_REMOVED,),
        stops=False,
    ),
    KnownBadRow(
        "toolkit-1.18.0-wrong-directory",
        "nvidia-ctk runtime configure writes its drop-in to /etc/containerd/config.d, which containerd does not read, and drops the "
        "imports that the main file has",
        (ReleaseCondition(TOOLKIT, "1.18.0", "1.18.1"), ReleaseCondition(CONTAINERD)),
        _UPGRADE.format("1.18.1"),
        (f"{_TOOLKIT}/issues/1404", f"{_TOOLKIT}/pull/1382"),
    ),
    KnownBadRow(
        "toolkit-crio-wrong-directory",
        "nvidia-ctk runtime configure writes its drop-in to /etc/crio/conf.d, which CRI-O does not read",
        (ReleaseCondition(TOOLKIT, "1.18.0", "1.19.1"), ReleaseCondition(CRIO)),
        _UPGRADE.format("1.19.1")
        + ", or do not run nvidia-ctk runtime configure: this collection writes CRI-O's files itself",
        (f"{_TOOLKIT}/pull/1829",),
        stops=False,
    ),
    KnownBadRow(
        "toolkit-1.17.0-links",
        "a container does not start where its image has a library link that the CDI spec makes as well (failed to create link)",
        (ReleaseCondition(TOOLKIT, "1.17.0", "1.17.1"), Is("cdi-injection")),
        _UPGRADE.format("1.17.1"),
        (f"{_TOOLKIT}/issues/772",),
    ),
    KnownBadRow(
        "toolkit-1.17.7-direct-calls",
        "enroot, and so pyxis, starts no container with a GPU: nvidia-container-cli ends with an error where it is called directly",
        (ReleaseCondition(TOOLKIT, "1.17.7", "1.17.8"), Is("enroot")),
        _UPGRADE.format("1.17.8"),
        (f"{_TOOLKIT}/issues/1093", "https://github.com/NVIDIA/enroot/issues/232"),
    ),
    KnownBadRow(
        "toolkit-none-is-all",
        "a container with NVIDIA_VISIBLE_DEVICES=none gets all GPUs from the NVIDIA runtime",
        (ReleaseCondition(TOOLKIT, "1.18.0", "1.18.2"), Is("mode-jit-cdi")),
        _UPGRADE.format("1.18.2") + ", or leave out gpufleet_injection: jit-cdi",
        (f"{_TOOLKIT}/issues/1555", f"{_TOOLKIT}/pull/1562"),
        stops=False,
    ),
    KnownBadRow(
        "toolkit-mounts-beside-cdi",
        "a container that got its GPUs by CDI gets others as well, if the NVIDIA runtime starts it and a mount asks for them",
        (ReleaseCondition(TOOLKIT, "", "1.20.2"), Is("mounts-accepted"), Is("cdi-injection")),
        _UPGRADE.format("1.20.2")
        + ", or set the device plugin and gpufleet_device_plugin_strategy to a strategy of CDI",
        (f"{_TOOLKIT}/pull/2184",),
        stops=False,
    ),
    KnownBadRow(
        "toolkit-without-swarm",
        "a service of Docker Swarm gets other GPUs than Swarm has assigned to it, most often all",
        (ReleaseCondition(TOOLKIT, "", "1.19.0"), Is("swarm-gpus")),
        _UPGRADE.format("1.19.0") + ", or set gpufleet_injection: legacy",
        (f"{_TOOLKIT}/issues/1599", f"{_TOOLKIT}/pull/1600"),
    ),
    KnownBadRow(
        "toolkit-handler-without-type",
        "the handler in the drop-in of nvidia-ctk may have no runtime_type, and then no pod starts with it (container.Runtime.Name must be "
        "set)",
        (
            ReleaseCondition(TOOLKIT, "1.18.0", "1.20.0"),
            ReleaseCondition(CONTAINERD, "2.0.0"),
            Is("config-version-3"),
            Is("toolkit-drop-in"),
        ),
        _UPGRADE.format("1.20.0")
        + ", or let this collection take the drop-in over (gpufleet_adopt: auto)",
        (f"{_TOOLKIT}/issues/1956",),
        stops=False,
    ),
    KnownBadRow(
        "toolkit-without-config-version-3",
        "nvidia-ctk and the toolkit container end with unsupported config version: 3",
        (
            ReleaseCondition(TOOLKIT, "", "1.17.4"),
            ReleaseCondition(CONTAINERD, "2.0.0"),
            Is("config-version-3"),
        ),
        _UPGRADE.format("1.17.4"),
        (f"{_TOOLKIT}/issues/803", f"{_TOOLKIT}/pull/862"),
        stops=False,
    ),
    KnownBadRow(
        "refresh-misses-nvidia-current",
        "nvidia-cdi-refresh never writes the CDI spec again, since it does not recognise a module called nvidia-current (Debian's)",
        (
            ReleaseCondition(TOOLKIT, "1.18.0", "1.18.1"),
            Is("refresh-owns-spec"),
            Is("module-nvidia-current"),
        ),
        f"{_UPGRADE.format('1.18.1')}, or {_OWN_SPEC}",
        (f"{_TOOLKIT}/issues/1395",),
    ),
    KnownBadRow(
        "refresh-misses-compressed-modules",
        "nvidia-cdi-refresh never writes the CDI spec again, since it does not recognise a compressed module (.ko.zst, .ko.xz)",
        (
            ReleaseCondition(TOOLKIT, "1.18.1", "1.18.2"),
            Is("refresh-owns-spec"),
            Is("module-compressed"),
        ),
        f"{_UPGRADE.format('1.18.2')}, or {_OWN_SPEC}",
        (f"{_TOOLKIT}/issues/1517",),
    ),
    KnownBadRow(
        "refresh-after-the-engines",
        "at boot nvidia-cdi-refresh waits for multi-user.target, so engines start containers before there is a CDI spec",
        (ReleaseCondition(TOOLKIT, "1.19.0", "1.19.1"), Is("refresh-owns-spec")),
        f"{_UPGRADE.format('1.19.1')}, or {_OWN_SPEC}",
        (f"{_TOOLKIT}/pull/1746",),
        stops=False,
    ),
    KnownBadRow(
        "refresh-misses-mig",
        "nvidia-cdi-refresh does not notice a change of the MIG layout, so the CDI spec names devices that are gone",
        (ReleaseCondition(TOOLKIT, "1.18.0"), Is("refresh-owns-spec"), Is("mig")),
        f"Set gpufleet_cdi_refresh: watch, or {_OWN_SPEC} and run again after each change of the layout",
        (f"{_TOOLKIT}/issues/1828",),
        stops=False,
    ),
    KnownBadRow(
        "spec-too-new-for-its-reader",
        "an engine finds no GPU (unresolvable CDI devices): nvidia-cdi-refresh writes CDI 0.7.0 with additionalGids, which it cannot read",
        (ReleaseCondition(TOOLKIT, "1.19.1"), Is("refresh-owns-spec"), Is("reader-below-0.7.0")),
        f"Leave out gpufleet_cdi_owner: toolkit or {_OWN_SPEC}: this collection writes a version that every engine of the host reads",
        (f"{_TOOLKIT}/issues/1860", f"{_TOOLKIT}/issues/1940"),
    ),
    KnownBadRow(
        "docker-gpus-by-stale-spec",
        "docker run --gpus takes the devices of the CDI spec since 29.2.0, and that spec is stale: containers fail or get wrong devices",
        (ReleaseCondition(DOCKER, "29.2.0"), ReleaseCondition(TOOLKIT, "1.16.0"), Is("stale-spec")),
        f"Let the spec be written again: {_OWN_SPEC}, or fix nvidia-cdi-refresh on the host",
        ("https://github.com/moby/moby/issues/51942", "https://github.com/moby/moby/pull/52704"),
    ),
    KnownBadRow(
        "toolkit-before-driver-550.40",
        "nvidia-ctk makes no device nodes and no /dev/char links, since it looks for nvidia-frontend in /proc/devices",
        (ReleaseCondition(TOOLKIT, "", "1.14.6"), ReleaseCondition(DRIVER, "550.40")),
        _UPGRADE.format("1.14.6"),
        (f"{_TOOLKIT}/issues/324",),
        stops=False,
    ),
    KnownBadRow(
        "toolkit-escape-2024-0132",
        "a container image can get at the host's file system (CVE-2024-0132)",
        (ReleaseCondition(TOOLKIT, "", "1.16.2"),),
        _UPGRADE.format("1.17.8"),
        ("https://nvidia.custhelp.com/app/answers/detail/a_id/5582",),
        stops=False,
    ),
    KnownBadRow(
        "toolkit-escape-2025-23359",
        "a container image can get at the host's file system (CVE-2025-23359)",
        (ReleaseCondition(TOOLKIT, "1.16.2", "1.17.4"),),
        _UPGRADE.format("1.17.8"),
        ("https://github.com/advisories/GHSA-4hmh-pm5p-9j7j",),
        stops=False,
    ),
    KnownBadRow(
        "toolkit-escape-2025-23266",
        "a container image can run its own code as root on the host (CVE-2025-23266)",
        (ReleaseCondition(TOOLKIT, "1.17.4", "1.17.8"),),
        _UPGRADE.format("1.17.8")
        + ", or set features.disable-cuda-compat-lib-hook in /etc/nvidia-container-runtime/config.toml",
        ("https://nvidia.custhelp.com/app/answers/detail/a_id/5659", f"{_TOOLKIT}/issues/1208"),
        stops=False,
    ),
    KnownBadRow(
        "repository-key-with-expired-subkey",
        "the key that NVIDIA publishes for its repository has a subkey that expired on 2021-06-16, which strict checks of keys refuse",
        (Is("adds-nvidia-repository"),),
        "If a check refuses it, use a mirror that you sign: gpufleet_toolkit_repository with gpufleet_toolkit_key",
        (f"{_TOOLKIT}/issues/650", f"{_TOOLKIT}/issues/1460"),
        stops=False,
    ),
)
