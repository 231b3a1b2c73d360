# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a program's output is told: codes of the table and values of their shape; and which part
of a log is about the failure.
"""

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import causes

TABLE = [
    {"code": "line", "pattern": r"line (?P<line>\S+)", "values": {"line": "number"}},
    {
        "code": "plugin",
        "pattern": r"plugin (?P<name>\S+)",
        "values": {"name": "name", "absent": "name"},
    },
    {"code": "full", "pattern": "no space"},
]


@pytest.mark.parametrize(
    "text, found",
    [
        ("", []),
        ("password=x", []),
        ("toml: line 7 : password=x", [("line", {"line": "7"})]),
        ("toml: line seven", [("line", {"line": "(hidden)"})]),
        (
            "no space\nline 1\nline 1\nline 2",
            [("line", {"line": "1"}), ("line", {"line": "2"}), ("full", {})],
        ),
        ("plugin io.x.v1.cri: https://u:p@h", [("plugin", {"name": "(hidden)", "absent": None})]),
        ("plugin io.x.v1.cri failed", [("plugin", {"name": "io.x.v1.cri", "absent": None})]),
        (
            "\n".join("line %d" % number for number in range(20)),
            [("line", {"line": str(number)}) for number in range(5)],
        ),
    ],
)
def test_known_causes(text, found):
    assert causes.recognise_causes(text, TABLE) == [
        {"code": code, "values": values} for code, values in found
    ]


FAILED = """containerd.service: Main process exited, code=exited, status=1/FAILURE
containerd.service: Failed with result 'exit-code'.
Failed to start containerd.service - containerd container runtime.
"""
LOGS = {
    "the last words before the end": (
        f'Starting containerd.service...\ntime="1" level=warning msg="Migrated"\ncontainerd: mkdir /dev/full: not a directory\n{FAILED}',
        'time="1" level=warning msg="Migrated"\ncontainerd: mkdir /dev/full: not a directory',
    ),
    "all of it": (
        f'Starting crio.service\ntime="1" level=fatal msg="no such runtime"\ngoroutine 1 [running]:\n{FAILED}',
        'time="1" level=fatal msg="no such runtime"\ngoroutine 1 [running]:',
    ),
    "not those of the start before": (
        f'Starting x\ncontainerd: old trouble\nStopping x\nStarting x\ntime="2" level=info msg="serving"\n{FAILED}',
        'time="2" level=info msg="serving"',
    ),
    "nothing of a unit that did not fail": (
        "Starting x\ncontainerd: odd, but well\nStarted x\n",
        None,
    ),
    "nothing of one that said nothing": (f"Starting x\n{FAILED}", ""),
    "an empty log": ("", None),
}


@pytest.mark.parametrize("case", sorted(LOGS))
def test_what_a_log_says_of_the_last_failure(case):
    log, said = LOGS[case]
    assert causes.find_last_failure(log) == said
