# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of an engine's words is told: known phrases, and paths of the driver's files. No text makes
the search for them slow.
"""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import causes
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    cases,
    evidence,
    told_words,
)

from tests.unit.endless_patterns import count_endless_repeats

REPEATS = {
    "a.*b": 1,
    "(?:a+|b{2,})?": 2,
    "(?=.*a).*?b": 2,
    "[*+]a{0,9}\\*": 0,
    "(?:a{1,2}/){0,8}": 0,
}


def test_the_judge_of_patterns_counts_what_has_no_end() -> None:
    assert {pattern: count_endless_repeats(pattern) for pattern in REPEATS} == REPEATS


# what the controller looks for, what the host looks for in the words of engines, and in a record
PATTERNS = {
    *(words for row in evidence.ADVICE for words in row[0]),
    *told_words.PHRASES,
    *told_words.AGAIN,
    cases.RECORD_SHOWS,
}


@pytest.mark.parametrize("words", sorted(PATTERNS))
def test_no_text_of_a_host_or_a_container_holds_up_a_run(words: str) -> None:
    assert count_endless_repeats(words) == 0


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('rpc error: unresolvable CDI devices nvidia.com/gpu=9: https://u:pw@h', "unresolvable CDI devices nvidia.com/gpu=9"),
        ('no runtime for "nvidia" is configured, token=x', 'no runtime for "nvidia" is configured'),
        ('could not select device driver "cdi" with capabilities: []', 'could not select device driver "cdi"'),
        ("nvidia-container-cli: initialization error: nvml error: /home/x", "nvidia-container-cli: initialization error"),
        ("failed to pull image https://u:pw@h/pause", "failed to pull"),
        ("password=x", ""),
    ],
)  # fmt: skip
def test_of_what_an_engine_says_only_known_phrases_are_told(said: str, told: str) -> None:
    assert causes.extract_known_phrases(said, told_words.PHRASES) == told


CUDA = "/usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01"
# A runtime on a file that a spec names and the host lacks: its words, and the words that are told.
LACKING = {
    "runc 1.2": (
        f'runc create failed: error mounting "{CUDA}" to rootfs at "{CUDA}": mount src={CUDA}: no such file or directory',
        f'error mounting "{CUDA}"',
    ),
    "runc 1.1": (f"rootfs_linux.go:75: stat {CUDA}: no such file or directory", f"stat {CUDA}"),
    "crun": (f"crun: cannot stat `{CUDA}`: No such file or directory", f"cannot stat `{CUDA}`"),
    "the CDI library": (
        'CDI device injection failed: failed to stat CDI host device "/dev/nvidia0": no such file or directory',
        'failed to stat CDI host device "/dev/nvidia0"',
    ),
    "a driver container": (
        'error mounting "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.580.65.06" to rootfs: no such file or directory',
        'error mounting "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.580.65.06"',
    ),
    "a hook": (
        "error running createContainer hook #0: fork/exec /usr/bin/nvidia-cdi-hook: no such file or directory",
        "exec /usr/bin/nvidia-cdi-hook: no such file or directory",
    ),
}


@pytest.mark.parametrize("case", LACKING)
def test_a_file_of_the_spec_that_is_gone_is_named_with_its_path(case: str) -> None:
    said, told = LACKING[case]
    phrases = causes.extract_known_phrases(said, told_words.PHRASES)
    assert told in phrases.split("; ")
    advice = evidence.advise_on_case("containerd", "native-cdi", f"StartContainer: {phrases}")
    assert get_code(advice) == "verify.spec-file-gone"


# Paths that are not files of the driver in a folder of the system.
UNTOLD = [
    "/home/alice/libcuda.so.1",
    "/opt/site/token-a1b2",
    "/var/lib/kubelet/pods/x",
    "/etc/ssl/private/key.pem",
    "/usr/lib/../../home/alice/libcuda.so.1",
    "/opt/acme/libcuda.so.1",
    "/etc/acme/nvidia.icd",
    "/usr/lib/acme/libcuda.so.1",
    "/usr/share/nvidia/acme/nvoptix.bin",
    "/run/nvidia/acme/usr/lib64/libnvidia-ml.so.1",
    "/dev/acme/nvidia0",
]
# Folders of the driver's files. Each is told.
TOLD = [
    "/usr/lib/x86_64-linux-gnu/nvidia/tesla-470/libcuda.so.470.1.1",
    "/usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.535.1.1",
    "/lib/firmware/nvidia/580.65.06/gsp_ga10x.bin",
    "/usr/lib64/xorg/modules/drivers/nvidia_drv.so",
    "/usr/lib/x86_64-linux-gnu/vdpau/libvdpau_nvidia.so.580.65.06",
    "/usr/share/nvidia/nvoptix.bin",
    "/usr/share/vulkan/icd.d/nvidia_icd.json",
    "/etc/OpenCL/vendors/nvidia.icd",
    "/run/nvidia/driver/usr/bin/nvidia-smi",
    "/dev/nvidia-caps/nvidia-cap21",
    "/run/opengl-driver/lib/libcuda.so.580.65.06",
]


@pytest.mark.parametrize("path", TOLD)
def test_a_file_of_the_driver_is_told_with_each_folder_that_a_look_asks_for(path: str) -> None:
    said = f"stat {path}: no such file or directory"
    assert f"stat {path}" in causes.extract_known_phrases(said, told_words.PHRASES).split("; ")


@pytest.mark.parametrize("path", UNTOLD)
def test_no_other_path_is_told(path: str) -> None:
    said = f'error mounting "{path}" to rootfs at "{path}": stat {path}: no such file or directory'
    phrases = causes.extract_known_phrases(said, told_words.PHRASES)
    assert path not in phrases
    assert not any(word in phrases for word in ("acme", "alice", "token", "ssl"))
    assert "no such file or directory" in phrases


def test_a_file_of_the_driver_elsewhere_is_told_by_its_name() -> None:
    said = 'error mounting "/opt/acme/libcuda.so.1": stat /opt/acme/libcuda.so.1: no such file or directory'
    phrases = causes.extract_known_phrases(said, told_words.PHRASES)
    assert "libcuda.so.1: no such file or directory" in phrases.split("; ")
    advice = evidence.advise_on_case("containerd", "native-cdi", f"StartContainer: {phrases}")
    assert get_code(advice) == "verify.spec-file-gone"


GONE = "no such file or directory"
# A program of the toolkit that is gone: what is said, what is told, and the code of the step.
PROGRAMS = [
    (f"exec /home/alice/acme/nvidia-ctk: {GONE}", f"nvidia-ctk: {GONE}", "spec-file-gone"),
    (f"exec /usr/../acme/nvidia-cdi-hook: {GONE}", f"nvidia-cdi-hook: {GONE}", "spec-file-gone"),
    (
        f"exec /run/nvidia/driver/usr/bin/nvidia-ctk: {GONE}",
        f"exec /run/nvidia/driver/usr/bin/nvidia-ctk: {GONE}",
        "spec-file-gone",
    ),
    (
        f"stat /home/alice/acme/nvidia-container-runtime: {GONE}",
        f"nvidia-container-runtime: {GONE}",
        "no-handler-program",
    ),
    (
        f"stat /usr/local/nvidia/toolkit/nvidia-container-runtime.cdi: {GONE}",
        f"stat /usr/local/nvidia/toolkit/nvidia-container-runtime.cdi: {GONE}",
        "no-handler-program",
    ),
]


@pytest.mark.parametrize(("said", "told", "code"), PROGRAMS)
def test_a_program_that_is_gone_is_told_with_a_folder_of_the_system_alone(
    said: str, told: str, code: str
) -> None:
    phrases = causes.extract_known_phrases(said, told_words.PHRASES)
    assert told in phrases.split("; ")
    assert "acme" not in phrases
    advice = evidence.advise_on_case("containerd", "native-cdi", f"StartContainer: {phrases}")
    assert get_code(advice) == f"verify.{code}"


def test_another_trouble_with_a_file_of_the_driver_has_another_step() -> None:
    said = f'runc create failed: error mounting "{CUDA}" to rootfs at "{CUDA}": permission denied'
    phrases = causes.extract_known_phrases(said, told_words.PHRASES)
    assert CUDA in phrases
    advice = evidence.advise_on_case("containerd", "native-cdi", f"StartContainer: {phrases}")
    assert get_code(advice) == "verify.read-journal"
