# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why engines and package managers fail: their own lines, as they write them, and the words that
they get.
"""

from __future__ import annotations

import re

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import causes as node_causes
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import selection
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import causes

from tests.unit.endless_patterns import count_endless_repeats

CRI = "io.containerd.grpc.v1.cri"
LOCKED = "another package manager is running, and did not end while this run waited; run again when it has ended"
LINES = {
    "containerd: failed to load TOML: /etc/containerd/config.toml: (12, 5): was expecting token =": "the TOML is invalid at line 12",
    "containerd: failed to load TOML from /etc/containerd/config.toml: toml: line 3: expected": "the TOML is invalid at line 3",
    "containerd: failed to unmarshal TOML: strict mode: fields in the document are missing": "the TOML cannot be read",
    "containerd: expected containerd config version equal to or less than `3`, got `4`":
        "it reads configurations up to version 3, but this one declares version 4",
    f'msg="failed to load plugin {CRI}" error="invalid plugin config: `mirrors` cannot be set when `config_path` is provided"':
        "registry mirrors and config_path exclude one another",
    'containerd: failed to load TOML from /etc/containerd/config.toml: invalid plugin key URI "cri" expect io.containerd.x.vx':
        "a plugin has a name of configuration version 1 in a configuration of version 2",
    "containerd: failed to load TOML from /etc/containerd/config.toml: unsupported config version `3`":
        "it does not support this configuration version",
    'containerd: invalid disabled plugin URI "cri" expect io.containerd.x.vx':
        "a plugin has a name of configuration version 1 in a configuration of version 2",
    "containerd: required plugin [io.containerd.internal.v1.restart] not included":
        "a required plugin is disabled, or it has none of that name",
    'error="invalid plugin config: `systemd_cgroup` only works for runtime io.containerd.runtime.v1.linux"':
        "systemd_cgroup needs a handler of type io.containerd.runtime.v1.linux",
    'error="invalid plugin config: `default_runtime_name` is empty"': "default_runtime_name is empty",
    'error="invalid plugin config: invalid `drain_exec_sync_io_timeout`: time: missing unit in duration \\"5\\""':
        "a timeout in its configuration is not a duration such as 30s",
    'error="failed to create CRI service: failed to load base OCI spec from file: /x.json: open /x.json: no such file or directory"':
        "the file that a handler names in base_runtime_spec cannot be loaded",
    'error="failed to create CRI service: failed to find snapshotter \\"nope\\""':
        "the snapshotter that the configuration names does not exist",
    f'level=warning msg="failed to load plugin {CRI}" error="password=x"': f"its plugin {CRI} did not load",
    'error="invalid plugin config: no corresponding runtime configured in `containerd.runtimes` for `default_runtime_name = \\"x\\"`"':
        "the default handler is not among the handlers",
    f'level=warning msg="failed to load plugin" error="x: no such file or directory" id={CRI} type=io.containerd.grpc.v1':
        f"its plugin {CRI} did not load",
    "containerd: mkdir /dev/full: not a directory": "a component of a path that it needs is not a directory",
    "level=fatal msg=\"validating runtime config: invalid runtime_path for runtime 'nvidia': \\\"stat /x: no such file or directory\\\"\"":
        "the program of the handler nvidia does not exist",
    "with file /etc/docker/daemon.json: the following directives don't match any configuration option: splunk-token":
        "the file has an unknown key",
    "the following directives are specified both as a flag and in the configuration file: hosts: (from flag: [fd://], from file: [x])":
        "hosts is set both by a flag and in the file",
    "with file /etc/docker/daemon.json: invalid character '}' looking for beginning of object key string":
        "the JSON cannot be read",
    "json: cannot unmarshal string into Go struct field Runtime.runtimes of type []string":
        "a value in the JSON is a string, but another type is expected",
    "failed to load listeners: listen unix /run/x.sock: bind: address already in use": "another process already listens on its socket",
    "panic: runtime error: index out of range": "it panicked",
    "E: Unable to locate package nvidia-container-toolkit": "no repository on this host has the package nvidia-container-toolkit",
    "Error: Unable to find a match: x\nNo match for argument: nvidia-container-toolkit":
        "no repository on this host has the package nvidia-container-toolkit",
    "E: Version '1.99-1' for 'libnvidia-container1' was not found": "no repository on this host has version 1.99-1 of libnvidia-container1",
    "E: Failed to fetch https://user:pw@mirror/dists/InRelease  401  Unauthorized": "a repository cannot be reached",
    "E: Could not get lock /var/lib/dpkg/lock-frontend": LOCKED,
    "All matches were filtered out by exclude filtering for argument: libnvidia-container1-1.20.1":
        "the package libnvidia-container1-1.20.1 is excluded on this host, or held at another version (dnf versionlock list, exclude= in "
        "dnf.conf); release it, or set gpufleet_toolkit_version to what it is held at",
    "Argument 'libnvidia-container1-1.20.1-1' matches only packages excluded by versionlock.":
        "the package libnvidia-container1-1.20.1-1 is excluded on this host, or held at another version (dnf versionlock list, exclude= in "
        "dnf.conf); release it, or set gpufleet_toolkit_version to what it is held at",
    "Argument 'nvidia-container-toolkit-base' matches only excluded packages.":
        "the package nvidia-container-toolkit-base is excluded on this host, or held at another version (dnf versionlock list, exclude= in "
        "dnf.conf); release it, or set gpufleet_toolkit_version to what it is held at",
    "Argument 'nvidia-container-toolkit-base' matches only source packages.": "",
    "Failed to obtain rpm transaction lock. Another transaction is in progress.": LOCKED,
    "E: Held packages were changed and -y was used without --allow-change-held-packages.":
        "a package is held on this host (apt-mark showhold, zypper locks); release it, or set gpufleet_toolkit_version "
        "to the version that it has",
    "  remove lock to allow installation of libnvidia-container1-1.20.1-1.x86_64[x]":
        "a package is held on this host (apt-mark showhold, zypper locks); release it, or set gpufleet_toolkit_version "
        "to the version that it has",
    "No provider of 'libnvidia-container1=1.99.0' found.": "no repository on this host has the package libnvidia-container1",
    "File 'repomd.xml' from repository 'NVIDIA' is unsigned, continue? [yes/no] (no): no":
        "the repository's metadata is not signed, as on a mirror that rebuilt it, and NVIDIA's packages carry no signature of their "
        "own. Mirror the metadata as it is (with repomd.xml.asc), or sign it and set gpufleet_toolkit_key",
    "Error: Failed to download metadata for repo 'x': repomd.xml GPG signature verification error: Bad GPG signature":
        "a repository is not signed with the configured key; for gpufleet_toolkit_repository that is gpufleet_toolkit_key",
    "[MIRROR] x.rpm: Curl error (23): Failed writing received data to disk/application [Failure writing output to destination]":
        "no space is left for the packages",
    "  At least 12MB more space needed on the / filesystem.": "no space is left for the packages",
    "error: %prein(nvidia-container-toolkit-base-1.20.1-1.x86_64) scriptlet failed, exit status 1": "a script of a package failed",
    # Of another package that is half configured, whose script dpkg runs again whatever is
    # installed.
    " installed brokenpkg package post-installation script subprocess returned error exit status 1":
        "a script of the package brokenpkg failed, which dpkg tries again in every run; fix it (dpkg --configure -a) or remove it",
    " subprocess installed post-installation script returned error exit status 1": "a script of a package failed",
    "E: Package 'nvidia-container-toolkit-base' has no installation candidate":
        "apt has no version of nvidia-container-toolkit-base to install: no repository has it, or a pin excludes it (apt-cache policy "
        "nvidia-container-toolkit-base)",
    "System management is locked by the application with pid 716 (zypper).": LOCKED,
    "open /x: no space left on device": "no space is left on a file system",
    "GPU-11111111-0000-5000-8000-000000000001: compute mode: EXCLUSIVE_PROCESS was set, and DEFAULT is read back":
        "GPU GPU-11111111-0000-5000-8000-000000000001 has DEFAULT after EXCLUSIVE_PROCESS was set",
    "GPU-11111111-0000-5000-8000-000000000001: compute mode: nvidia-smi -c DEFAULT: exit status 3: password=x":
        "nvidia-smi ends with exit status 3 for GPU GPU-11111111-0000-5000-8000-000000000001",
    "GPU-11111111-0000-5000-8000-000000000001: nvidia-smi -i GPU-11111111-0000-5000-8000-000000000001 -c DEFAULT: exit status 4: x":
        "nvidia-smi ends with exit status 4 for GPU GPU-11111111-0000-5000-8000-000000000001",
    "GPU-11111111-0000-5000-8000-000000000001: nvidia-cuda-mps-control -d: exit status 1: hunter2":
        "nvidia-cuda-mps-control ends with exit status 1 for GPU GPU-11111111-0000-5000-8000-000000000001",
    "GPU-11111111-0000-5000-8000-000000000001: time slice: nvidia-smi compute-policy says nothing of it":
        "what nvidia-smi prints of GPU GPU-11111111-0000-5000-8000-000000000001 is not understood",
    "GPU-11111111-0000-5000-8000-000000000001: compute mode: nvidia-smi -i GPU-11111111-0000-5000-8000-000000000001: no end within 20 s":
        "GPU GPU-11111111-0000-5000-8000-000000000001 does not answer in time",
    "/usr/bin/nvidia-smi is not run: /usr/bin may be written to by others (mode 0777)":
        "a program that it needs could be changed by others than root, and is not run",
    'level=fatal msg="login failed: password=hunter2"': "",
}  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_what_a_line_means(line: str) -> None:
    assert (
        causes.describe_causes(node_causes.recognise_causes(line, causes.build_cause_table()))
        == LINES[line]
    )


def test_every_group_has_a_shape_and_every_sentence_its_groups() -> None:
    for cause in causes.CAUSES:
        assert set(re.compile(cause.pattern).groupindex) == set(cause.values), cause.code
        assert set(re.findall(r"\{(\w+)\}", cause.says)) <= set(cause.values), cause.code
        assert set(cause.values.values()) <= set(selection.list_shapes()), cause.code
    codes = [cause.code for cause in causes.CAUSES]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize(
    "found", [{}, {"code": "of a later release", "values": {"name": "x"}}, {"code": "plugin"}]
)
def test_what_this_release_does_not_know_is_left_out(found: dict[str, str]) -> None:
    assert causes.describe_cause(found) in ("", "its plugin ... did not load")


@pytest.mark.parametrize("cause", causes.CAUSES, ids=lambda cause: cause.code)
def test_no_output_holds_up_the_host(cause: causes.Cause) -> None:
    assert count_endless_repeats(cause.pattern) == 0


@pytest.mark.parametrize(
    ("length", "name"), [(128, "a" * 128), (129, selection.HIDDEN), (9000, selection.HIDDEN)]
)
def test_a_value_that_is_too_long_is_not_shown_in_part(length: int, name: str) -> None:
    found = node_causes.recognise_causes(
        f"No match for argument: {'a' * length}", causes.build_cause_table()
    )
    assert [one["values"] for one in found] == [{"name": name}]


def test_an_output_with_thousands_of_causes_is_read_as_far_as_they_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = []

    def show(_shape: str, value: str) -> str:
        shown.append(value)
        return value

    monkeypatch.setattr(selection, "show_value_in_shape", show)
    text = "\n".join(f"toml: line {number}" for number in range(1000))
    found = node_causes.recognise_causes(text, causes.build_cause_table())
    assert [one["values"]["line"] for one in found] == shown == ["0", "1", "2", "3", "4"]


def test_a_text_with_thousands_of_phrases_is_read_as_far_as_they_are_shown() -> None:
    patterns = iter(["a[0-9]{1,4}", "b"])
    text = " ".join(f"a{number}" for number in range(1000))
    assert node_causes.extract_known_phrases(text, patterns) == "a0; a1; a2; a3; a4"
    assert list(patterns) == ["b"]
