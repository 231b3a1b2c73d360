# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts as they should not be: files cut short, rubbish in place of specs, programs that hang. A
sentence or a sound spec, nothing else.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi import (
    resource,
    spec_facts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices import (
    nvidia_smi,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    releases,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.lint import run
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_state,
    outer_host,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    packages,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import count_examples
from tests.unit import builders, cdi_plans, gpus

SOURCE = "print('the probe')"
RECORD = resource.record_of_options("collection", "0.6.0")
MIGS = {0: [gpus.mig(0, 1), gpus.mig(1, 2)]}
HOST = {
    **gpus.host(),
    **gpus.instances(0, (1, 0), (2, 0)),
    "/proc/driver/nvidia-caps/mig-minors": gpus.mig_minors(),
}
TEXTS = sorted(
    path
    for path, content in HOST.items()
    if isinstance(content, str) and path.startswith(("/proc", "/sys"))
)
ETC, RUN = "/etc/cdi/other.yaml", "/var/run/cdi/nvidia.yaml"


def outcome(files: dict[str, Any], **more: Any) -> Plan | PlanError:
    """The plan or the refusal, with every question answered: a program that was not told of is not
    there.
    """
    answers = {**gpus.nvml(migs=MIGS), **(more.pop("answers", None) or {})}
    there = {path: content for path, content in {**HOST, **files}.items() if content is not None}
    wanted = Policy()
    for _look in range(4):
        seen = builders.obs(
            files=there, packages={packages.BASE: "1.20.1-1"}, answers=answers, **more
        )
        try:
            return cdi_plans.plan_specs(
                wanted,
                spec_facts.read_spec_facts(
                    wanted, seen, RECORD, driver_state.read_driver(wanted, seen), SOURCE
                ),
                RECORD,
                driver_state.read_driver(wanted, seen),
            )
        except NeedMore as need:
            missing = {"error": {"kind": "not-found", "message": "there is no such program"}}
            answers.update({q["id"]: missing for q in need.questions})
        except PlanError as error:
            return error
    raise AssertionError("it asks forever")


def sound(found: Plan | PlanError) -> bool:
    """A refusal in one sentence; or a plan whose specs every engine of the host takes."""
    if isinstance(found, PlanError):
        return bool(str(found)) and "\n" not in str(found)
    texts = [c["content"] for c in found.changes if c["op"] == "write" and "/cdi/" in c["path"]]
    return all(
        run.read_text_problems(text.encode(), releases.LIBRARIES["0.6.2"])[1] == ()
        for text in texts
    )


def test_the_host_that_is_harmed_below_is_sound() -> None:
    found = outcome({})
    assert isinstance(found, Plan)
    assert sound(found)
    assert len(TEXTS) > 10


@given(path=st.sampled_from(TEXTS), share=st.floats(0, 1))
@settings(max_examples=count_examples(60), deadline=None)
def test_a_file_of_the_kernel_cut_short(path: str, share: float) -> None:
    text = HOST[path]
    assert sound(outcome({path: text[: int(len(text) * share)]}))


RUBBISH = (
    "",
    "\n",
    "\0\0\0",
    "-1\n",
    "NaN",
    "0x",
    "GPU UUID: \t GPU-\nDevice Minor: x\n",
    "Device Minor: 99999999999999999999\n",
    "\ufffd" * 9,
    "a" * 70000,
    "195 nvidia\n" * 3,
    "gpu0/gi1/access x\n",
)


@pytest.mark.parametrize("text", RUBBISH, ids=lambda text: repr(text[:20]))
@pytest.mark.parametrize("path", TEXTS)
def test_rubbish_in_a_file_of_the_kernel(path: str, text: str) -> None:
    assert sound(outcome({path: text}))


@pytest.mark.parametrize("path", TEXTS)
@pytest.mark.parametrize("kind", ["denied", "timeout", "too-large", "failed"])
def test_a_file_of_the_kernel_that_cannot_be_read(path: str, kind: str) -> None:
    assert sound(outcome({path: {"error": {"kind": kind, "message": f"{path}: it is so"}}}))


SPEC = "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices: [{name: '0', containerEdits: {env: [A=b]}}]\n"
DIRECTORIES: dict[str, Any] = {
    "nothing": "",
    "binary": {"content": "AAECAw==", "encoding": "base64"},
    "UTF-16": {"content": "//5rAGkAbgBkAA==", "encoding": "base64"},
    "deep": "# nvidia.com/gpu\n" + "[" * 60000,
    "aliases without end": "# nvidia.com/gpu\n"
    + "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}' if i else 'x'] * 9)}]\n" for i in range(12)),
    "a merge of itself": "# nvidia.com/gpu\na: &a {<<: *a}\n",
    "a date that is none": "# nvidia.com/gpu\na: 2020-99-99\n",
    "a tag of Python's": "# nvidia.com/gpu\n!!python/object/apply:os.system [true]\n",
    "a list": "- nvidia.com/gpu\n",
    "a kind only": "kind: nvidia.com/gpu\n",
    "devices as a number": "kind: nvidia.com/gpu\ncdiVersion: 0.5.0\ndevices: 7\n",
    "a device that is null": "kind: nvidia.com/gpu\ncdiVersion: 0.5.0\ndevices: [null]\n",
    "a mount that is null": SPEC.replace("env: [A=b]", "mounts: [null]"),
    "the same device": SPEC,
    "an error page": "<!DOCTYPE html>nvidia.com/gpu",
    "a directory": {"type": "dir"},
    "a pipe": {"type": "fifo"},
    "a socket": {"type": "socket"},
    "a device": {"type": "char", "rdev": [1, 5]},
    "a link to nothing": {"type": "link", "real": None},
    "a loop": {"error": {"kind": "failed", "message": "more than 40 symbolic links"}},
    "no permission": {"error": {"kind": "denied", "message": "Permission denied"}},
    "huge": {
        "error": {"kind": "too-large", "message": "is larger than the 1048576 bytes asked for"}
    },
}


@pytest.mark.parametrize(
    "path", ["/etc/cdi/nvidia.yaml", ETC, RUN, "/var/run/cdi/other.json", "/etc/cdi/other.yml"]
)
@pytest.mark.parametrize("content", DIRECTORIES.values(), ids=DIRECTORIES)
def test_rubbish_in_a_cdi_directory(path: str, content: Any) -> None:
    found = outcome({path: content})
    assert sound(found)
    report = run.report(Policy(), builders.obs(files={path: content}), "")
    assert bool(report.findings) is not (content == SPEC and not path.endswith(".yml"))


ROWS = "".join(
    f"{i}, {gpus.UUIDS[i]}, 0000{gpus.BUSES[i].upper()}, Disabled, NVIDIA H100 80GB HBM3\n"
    for i in range(2)
)
LISTED = "".join(f"GPU {i}: NVIDIA H100 80GB HBM3 (UUID: {gpus.UUIDS[i]})\n" for i in range(2))


def said(rc: int | None = 0, stdout: str = "", **more: Any) -> dict[str, Any]:
    return {"rc": rc, "stdout": stdout, "stderr": "", **more}


HANGS = {"error": {"kind": "timeout", "message": "the probe gave no answer within 20 s"}}
NO_LIBRARY = {
    "error": {"kind": "failed", "message": "the probe ended with exit status 1: no library"}
}


def answered(code: int) -> dict[str, Any]:
    return {
        "value": {
            "gpus": [],
            "errors": [{"call": "nvmlInit", "code": code, "message": f"error {code}"}],
        }
    }


# what it is: (NVML's answer, nvidia-smi's two answers, the code of the refusal, or one in the first
# advice)
SOURCES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = {
    "NVML: driver not loaded": (answered(9), said(), said(), "nvml-not-loaded"),
    "NVML: GPU lost": (answered(15), said(), said(), "nvml-gpu-lost"),
    "NVML: versions differ": (answered(18), said(), said(), "nvml-mismatch"),
    "NVML: no permission": (answered(4), said(0, ROWS), said(0, LISTED), "named-by-nvidia-smi"),
    "NVML: an unknown error": (
        answered(999),
        said(0, ROWS),
        said(0, LISTED),
        "named-by-nvidia-smi",
    ),
    "NVML hangs": (HANGS, said(0, ROWS), said(0, LISTED), "named-from-proc"),
    "nvidia-smi: 9": (
        NO_LIBRARY,
        said(9, "NVIDIA-SMI has failed\n"),
        said(9),
        "nvidia-smi-not-loaded",
    ),
    "nvidia-smi: 15": (NO_LIBRARY, said(15), said(15), "nvidia-smi-gpu-lost"),
    "nvidia-smi: 14, infoROM": (
        NO_LIBRARY,
        said(14, ROWS + "WARNING: infoROM is corrupted at gpu 0000:17:00.0\n"),
        said(14, LISTED),
        "nvidia-smi-strange",
    ),
    "nvidia-smi: 14, and the table whole": (
        NO_LIBRARY,
        said(14, ROWS),
        said(14, LISTED),
        "named-by-nvidia-smi",
    ),
    "nvidia-smi: 127": (NO_LIBRARY, said(127), said(127), "nvidia-smi-failed"),
    "nvidia-smi never ends": (
        NO_LIBRARY,
        said(None, timed_out=True),
        said(None, timed_out=True),
        "nvidia-smi-failed",
    ),
    "nvidia-smi prints rubbish": (
        NO_LIBRARY,
        said(0, "\x00\x01 GPU?\n"),
        said(0, "\x00"),
        "nvidia-smi-strange",
    ),
    "nvidia-smi is cut short": (
        NO_LIBRARY,
        said(0, ROWS[:40]),
        said(0, LISTED[:20]),
        "nvidia-smi-strange",
    ),
    "nvidia-smi says nothing": (NO_LIBRARY, said(0, ""), said(0, ""), "nvidia-smi-silent"),
    "nvidia-smi killed": (NO_LIBRARY, said(-9), said(-9), "nvidia-smi-failed"),
    "both silent": (NO_LIBRARY, NO_LIBRARY, NO_LIBRARY, "nvidia-smi-failed"),
}


@pytest.mark.parametrize(("probe", "rows", "listed", "code"), SOURCES.values(), ids=SOURCES)
def test_who_is_asked_answers_badly(
    probe: dict[str, Any], rows: dict[str, Any], listed: dict[str, Any], code: str
) -> None:
    query, gpu_list = (q["id"] for q in nvidia_smi.list_nvidia_smi_questions(Policy()))
    plain = {path: None for path in HOST if "/mig/" in path or "nvidia-caps" in path}
    found = outcome(plain, answers={"probe:nvml": probe, query: rows, gpu_list: listed})
    assert sound(found)
    assert f"devices.{code}" in (
        [found.code] if isinstance(found, PlanError) else codes_of(found.advice[0])
    )


def codes_of(text: str) -> list[str]:
    """Return the code of a message and those of the messages among its values."""
    assert isinstance(text, Message)
    return [text.code, *(get_code(value) for value in text.values.values())]


@pytest.mark.parametrize("probe", [answered(9), NO_LIBRARY], ids=["NVML", "nvidia-smi"])
def test_in_a_container_the_driver_is_that_of_the_host_outside(probe: dict[str, Any]) -> None:
    query, gpu_list = (q["id"] for q in nvidia_smi.list_nvidia_smi_questions(Policy()))
    plain = {path: None for path in HOST if "/mig/" in path or "nvidia-caps" in path}
    inside = {**plain, outer_host.MARK: "lxc\n"}
    found = outcome(inside, answers={"probe:nvml": probe, query: said(9), gpu_list: said(9)})
    assert isinstance(found, PlanError)
    assert found.code in ("devices.nvml-not-loaded", "devices.nvidia-smi-not-loaded")
    assert (get_code(found.next), "(lxc)" in found.next) == ("", True)
