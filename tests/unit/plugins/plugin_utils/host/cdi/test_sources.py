# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who tells the devices: NVML, nvidia-smi and /proc about the same host, what each knows, and what
they say when they fail.
"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices import (
    inventory,
    nvml,
    sources,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices import (
    nvidia_smi as devices_nvidia_smi,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices.inventory import (
    Hardware,
    MigDevice,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_state,
    gpus,
)

from tests.unit.builders import obs
from tests.unit.coded import read_all_coded, read_coded
from tests.unit.gpus import BUSES, UUIDS, cap_minor, host, instances, mig, mig_minors, node
from tests.unit.gpus import nvml as by_nvml

POLICY = Policy()
PAIRS = ((1, 0), (2, 0), (2, 1), (9, 0))
MIGS = [mig(index, gi, ci) for index, (gi, ci) in enumerate(PAIRS)]
MIG_HOST = {**host(2), **instances(0, *PAIRS)}
UNUSED = ("GPU-????????-????-????-????-????????????",) * 2


def look(files: dict[str, Any], **more: Any) -> Observation:
    return obs(files={path: text for path, text in files.items() if text is not None}, **more)


def seen(there: Observation, policy: Policy = POLICY) -> Hardware:
    return inventory.observe(policy, there, driver_state.read_driver(policy, there).gpus)


def told(there: Observation, policy: Policy = POLICY) -> tuple[Hardware, tuple[str, ...]]:
    facts = sources.read_source_facts(policy, there, "source")
    return sources.identify_hardware(facts, seen(there, policy))


def nvidia_smi(rows: str = "", listed: str = "", **said: Any) -> dict[str, Any]:
    """Answers of nvidia-smi, and of a Python that cannot load NVML."""
    answer = {"rc": 0, "stderr": "", **said}
    query, listing = devices_nvidia_smi.list_nvidia_smi_questions(POLICY)
    no_nvml = {"probe:nvml": {"error": {"kind": "failed", "message": "No module named '_ctypes'"}}}
    return {
        **no_nvml,
        query["id"]: {"stdout": rows, **answer},
        listing["id"]: {"stdout": listed, **answer},
    }


ROWS = "".join(
    f"{index}, {uuid}, 0000{bus.upper()}, {mode}, NVIDIA H100 80GB HBM3\n"
    for index, (uuid, bus, mode) in enumerate(
        [(UUIDS[0], BUSES[0], "Enabled"), (UUIDS[1], BUSES[1], "Disabled")]
    )
)
LISTED = f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {UUIDS[0]})\n" + "".join(
    f"  MIG 1g.10gb     Device {m['index']:>2}: (UUID: {m['uuid']})\n" for m in MIGS
) + f"GPU 1: NVIDIA H100 80GB HBM3 (UUID: {UUIDS[1]})\n"  # fmt: skip


# ---------------------------------------------------------------- they agree

WHOLE = tuple(
    MigDevice(gi, ci, index, m["uuid"], "1g.10gb")
    for (index, (gi, ci)), m in zip(enumerate(PAIRS), MIGS, strict=True)
)


def test_nvml_and_nvidia_smi_agree_about_one_host() -> None:
    first, words = told(look(MIG_HOST, answers=by_nvml(migs={0: MIGS})))
    second, more = told(look(MIG_HOST, answers=nvidia_smi(ROWS, LISTED)))
    assert first.boards == second.boards
    assert (first.source, second.source) == ("nvml", "nvidia-smi")
    assert first.boards[0].devices == WHOLE
    assert words == ()
    problem = ("devices.nvml-not-queried", {"problem": "No module named '_ctypes'"})
    assert read_all_coded(more) == [("devices.named-by-nvidia-smi", {"problem": problem})]


def test_a_library_that_is_not_roots_is_no_answer_about_gpus() -> None:
    """Nothing is asked in its place, and no GPU counts as gone: the spec is refused."""
    problem = "libnvidia-ml.so.1: /opt/nv belongs to user 1234. Run chown root on the directory"
    said = {"probe:nvml": {"error": {"kind": "untrusted", "message": problem}}}
    with pytest.raises(PlanError) as caught:
        told(look(MIG_HOST, answers=said))
    assert read_coded(caught.value.message) == ("devices.nvml-untrusted", {"problem": problem})


@pytest.mark.parametrize(
    ("root", "first", "later"),
    [
        ("/", [["libnvidia-ml.so.1"]], ["libnvidia-ml.so.1"]),
        ("/run/nvidia/driver", [], ["/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1"]),
    ],
)
def test_what_nvml_loads_is_judged_before_it_is_asked(
    root: str, first: list[list[str]], later: list[str]
) -> None:
    policy = Policy(cdi_driver_root=root)
    there = look({"/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1": ""})
    assert [question["loads"] for question in nvml.ask_nvml_where_new(policy, [])] == first
    assert nvml.ask_nvml(policy, there, "source")["loads"] == later


def test_proc_agrees_as_far_as_it_knows() -> None:
    by_proc = seen(look(MIG_HOST))
    full, _words = told(look(MIG_HOST, answers=by_nvml(migs={0: MIGS})))
    for one, other in zip(by_proc.boards, full.boards, strict=True):
        assert (one.gpu, one.drm) == (other.gpu, other.drm)
        assert [(m.gi, m.ci, m.index) for m in one.devices] == [
            (m.gi, m.ci, m.index) for m in other.devices
        ]
    # a GPU without an instance may be in MIG mode all the same
    assert [b.mig for b in by_proc.boards] == [
        True,
        None,
    ]
    assert [b.mig for b in full.boards] == [True, False]


def test_the_minors_of_capabilities_come_from_the_capabilities_or_from_the_table() -> None:
    by_file = seen(look(MIG_HOST)).caps
    table = {"/proc/driver/nvidia-caps/mig-minors": mig_minors()}
    by_table = seen(
        look({**MIG_HOST, **instances(0, *PAIRS, told=False), **table}, answers={})
    ).caps
    assert by_file["gpu0/gi2/ci1/access"] == cap_minor(0, 2, 1)
    assert by_file.items() <= by_table.items()


def test_the_table_is_read_only_where_it_is_needed() -> None:
    there = look({**MIG_HOST, **instances(0, *PAIRS, told=False)})
    strict = Observation(
        there.host, {q["id"]: there.answers[q["id"]] for q in gpus.list_questions(POLICY)}
    )
    with pytest.raises(NeedMore) as need:
        seen(strict)
    assert [q["path"] for q in need.value.questions] == ["/proc/driver/nvidia-caps/mig-minors"]
    whole = look(MIG_HOST)
    assert seen(
        Observation(
            whole.host, {q["id"]: whole.answers[q["id"]] for q in gpus.list_questions(POLICY)}
        )
    ).caps


def test_lines_of_the_table_that_are_none_are_skipped() -> None:
    text = "config 1\nmonitor  2\ngpu0/gi1/access x\n\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13 14\nother 3\n"
    assert inventory.read_mig_minors(
        POLICY, look({"/proc/driver/nvidia-caps/mig-minors": text})
    ) == {"config": 1, "gpu0/gi1/access": 12}


# ---------------------------------------------------------------- they do not

DISAGREE = [
    ("minor", by_nvml(minors=(1, 0)), "devices.minor-differs", (0, 1)),
    ("UUID", by_nvml(uuids=(UUIDS[2], UUIDS[1])), "devices.uuid-differs", (UUIDS[0], UUIDS[2])),
]


@pytest.mark.parametrize(
    ("answers", "code", "both"), [case[1:] for case in DISAGREE], ids=[case[0] for case in DISAGREE]
)
def test_a_contradiction_is_refused(
    answers: dict[str, Any], code: str, both: tuple[Any, Any]
) -> None:
    with pytest.raises(PlanError) as refused:
        told(look(host(2), answers=answers))
    assert (refused.value.code, refused.value.values) == (
        code,
        {"bus": BUSES[0], "seen": both[0], "reported": both[1]},
    )


def test_a_gpu_that_nvml_does_not_list_is_left_out_with_a_word() -> None:
    full, words = told(look(host(2), answers=by_nvml(1)))
    assert [b.gpu.bus_id for b in full.boards] == [BUSES[0]]
    assert read_all_coded(words) == [
        ("devices.gpu-not-listed", {"source": "nvml", "gpus": BUSES[1]})
    ]


def test_the_count_is_nvmls() -> None:
    answers = by_nvml(2)
    first, second = answers["probe:nvml"]["value"]["gpus"]
    first["index"], second["index"] = 1, 0
    assert [
        (b.gpu.index, b.gpu.bus_id) for b in told(look(host(2), answers=answers))[0].boards
    ] == [(0, BUSES[1]), (1, BUSES[0])]


def test_mig_mode_without_an_instance_is_known_to_nvml() -> None:
    full, _words = told(look(host(2), answers=by_nvml(migs={1: []})))
    assert [b.gpu.index for b in inventory.list_offered_boards(full)] == [0]
    assert [b.gpu.index for b in inventory.drop_mig_instances(full)] == [1]


def test_the_gpu_of_a_screen_is_offered_to_nobody() -> None:
    files = host(2)
    path = f"/proc/driver/nvidia/gpus/{BUSES[1]}/information"
    files[path] = files[path].replace("NVIDIA H100 80GB HBM3", "NVIDIA DGX Display")
    assert [b.gpu.index for b in inventory.list_offered_boards(seen(look(files)))] == [0]


def test_an_instance_that_came_in_between_waits_for_the_next_run() -> None:
    listed = LISTED.replace(LISTED.splitlines()[1] + "\n", "")
    full, _words = told(look(MIG_HOST, answers=nvidia_smi(ROWS, listed)))
    assert [m.uuid for m in full.boards[0].devices] == ["", "", "", ""]


# ---------------------------------------------------------------- nvidia-smi's words

SMI_FAILED = "devices.nvidia-smi-failed"
BAD_ANSWERS = [
    # what it is, the two outputs, how it ended, the code of the trouble, a word in it
    ("rubbish", "hello\n", "", {}, "devices.nvidia-smi-strange", "hello"),
    (
        "an unknown field",
        'Field "mig.mode.current" is not a valid field to query.\n',
        "",
        {"rc": 2},
        "devices.nvidia-smi-failed",
        "not a valid field to query",
    ),
    ("never ends", "", "", {"rc": None, "timed_out": True}, SMI_FAILED, "timed out"),
    ("not there", "", "", {"rc": 127, "stderr": "No such file"}, SMI_FAILED, "No such file"),
]


@pytest.mark.parametrize(
    ("rows", "listed", "said", "code", "word"),
    [case[1:] for case in BAD_ANSWERS],
    ids=[case[0] for case in BAD_ANSWERS],
)
def test_answers_that_are_none(
    rows: str, listed: str, said: dict[str, Any], code: str, word: str
) -> None:
    full, words = told(look(host(2, uuids=UNUSED), answers=nvidia_smi(rows, listed, **said)))
    assert full.source == "procfs"
    whole, values = read_coded(words[0])
    assert (whole, values["other"][0]) == ("devices.named-without-both", code)
    assert any(word in str(value) for value in values["other"][1].values())
    assert [b.gpu.uuid for b in full.boards] == ["", ""]


@pytest.mark.parametrize(("rc", "code"), [(9, "not-loaded"), (15, "gpu-lost"), (18, "mismatch")])
def test_a_sick_driver_is_refused(rc: int, code: str) -> None:
    with pytest.raises(PlanError) as refused:
        told(look(host(2), answers=nvidia_smi("NVIDIA-SMI has failed\n", rc=rc)))
    values = {"status": rc, "problem": "NVIDIA-SMI has failed"}
    assert (refused.value.code, refused.value.values) == (f"devices.nvidia-smi-{code}", values)


def test_a_damaged_inforom_is_no_reason_not_to_listen() -> None:
    assert told(look(MIG_HOST, answers=nvidia_smi(ROWS, LISTED, rc=14)))[0].source == "nvidia-smi"


def test_gpus_that_know_no_mig() -> None:
    rows = ROWS.replace("Enabled", "[N/A]").replace("Disabled", "[Not Supported]")
    full, _words = told(look(host(2), answers=nvidia_smi(rows, LISTED.splitlines()[0] + "\n")))
    assert [(b.gpu.uuid, b.mig, b.devices) for b in full.boards] == [
        (UUIDS[0], None, ()),
        (UUIDS[1], None, ()),
    ]


def test_drivers_before_r470_name_mig_devices_by_their_instances() -> None:
    pairs = enumerate([("3g.20gb", 2), ("1g.5gb+me", 9)])
    migs = (
        f"  MIG {profile} Device {index}: (UUID: MIG-{UUIDS[0]}/{gi}/0)\n"
        for index, (profile, gi) in pairs
    )
    listed = f"GPU 0: A100 (UUID: {UUIDS[0]})\n{''.join(migs)}"
    assert [
        (m.gi, m.ci, m.index, m.profile)
        for m in devices_nvidia_smi.map_nvidia_smi_mig_devices(listed)[0]
    ] == [
        (2, 0, 0, "3g.20gb"),
        (9, 0, 1, "1g.5gb+me"),
    ]


def test_a_driver_container_is_asked_by_its_own_library_and_program() -> None:
    policy = Policy(cdi_driver_root="/run/nvidia/driver")
    library = "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
    there = look({library: {"real": library}})
    assert nvml.ask_nvml(policy, there, "source")["args"] == {"library": library}
    assert nvml.ask_nvml(POLICY, there, "source")["args"] == {"library": ""}
    asked = devices_nvidia_smi.list_nvidia_smi_questions(policy)
    assert [(q["argv"][:3], q["base"], q["loads"]) for q in asked] == [
        (
            ["chroot", "/run/nvidia/driver", "nvidia-smi"],
            "/run/nvidia/driver",
            ["/usr/bin/nvidia-smi"],
        )
    ] * 2


# ---------------------------------------------------------------- nodes of other drivers and places


def test_drm_nodes_belong_to_the_gpu_at_their_bus() -> None:
    home = "/sys/bus/pci/devices"
    files = {
        **host(2),
        f"{home}/{BUSES[0]}/drm/card1": {"type": "dir"},
        f"{home}/{BUSES[0]}/drm/renderD128": {"type": "dir"},
        f"{home}/{BUSES[1]}/drm/card2": {"type": "dir"},
        f"{home}/{BUSES[1]}/drm/controlD66": {"type": "dir"},
        f"{home}/0000:00:02.0/drm/card0": {"type": "dir"},
        **{
            f"/dev/dri/{name}": node(226, minor)
            for name, minor in (("card0", 0), ("card1", 1), ("renderD128", 128), ("controlD66", 66))
        },
    }
    # card2 has no node
    assert [b.drm for b in seen(look(files)).boards] == [
        ("/dev/dri/card1", "/dev/dri/renderD128"),
        (),
    ]


def test_nodes_beneath_another_root_are_named_as_in_a_container() -> None:
    policy = Policy(cdi_driver_root="/run/nvidia/driver")
    files = {
        (f"/run/nvidia/driver{path}" if path.startswith("/dev") else path): text
        for path, text in host(1).items()
    }
    found = gpus.map_device_files(look(files), gpus.get_dev_root(policy))
    assert (found["/dev/nvidia0"].path, found["/dev/nvidia0"].host) == (
        "/dev/nvidia0",
        "/run/nvidia/driver/dev/nvidia0",
    )
    assert gpus.get_dev_root(Policy(cdi_driver_root="/run/nvidia/driver", cdi_dev_root="/")) == "/"


def test_the_fabrics_nodes() -> None:
    files = {
        f"/dev/{name}": node(234, minor)
        for minor, name in enumerate(("nvidia-nvswitchctl", "nvidia-nvswitch1", "nvidia-nvswitch0"))
    }
    channels = {
        f"/dev/nvidia-caps-imex-channels/channel{number}": node(509, number) for number in (10, 2)
    }
    found = seen(look({**host(1), **files, **channels}))
    assert found.switches == (
        "/dev/nvidia-nvswitch0",
        "/dev/nvidia-nvswitch1",
        "/dev/nvidia-nvswitchctl",
    )
    assert found.channels == tuple(
        f"/dev/nvidia-caps-imex-channels/channel{number}" for number in (2, 10)
    )
