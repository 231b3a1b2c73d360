# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one file that measures a machine: what is in it, how it ends, what it puts back, and that
nothing that names the machine leaves it.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    discover,
    ld_cache,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files.ld_cache import (
    Entry,
)

from tests.gpu import (
    build,
    capture,
    changing,
    device_rules,
    main,
    nvml_sources,
    report,
    scrub,
    specs,
    steps,
)
from tests.lab import recorded

SEEN = {name: node for name, node in recorded.nodes().items() if node.seen}
NODE = next(iter(SEEN.values()))
# Another account's packages, and the environment, are not there.
BARE = [sys.executable, "-I", "-S", "-B"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("gpu") / "gpufleet-gpu.pyz"
    build.write(file)
    return file


def run(command: Sequence[object], request: object = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        input=json.dumps(request or {}),
        capture_output=True,
        text=True,
        check=False,
    )


# ---------------------------------------------------------------- the file


def test_the_same_checkout_makes_the_same_bytes(program: Path, tmp_path: Path) -> None:
    build.write(tmp_path / "again.pyz")
    assert (tmp_path / "again.pyz").read_bytes() == program.read_bytes()


def test_it_needs_the_standard_library_alone(program: Path, tmp_path: Path) -> None:
    request = {"answer": {"schema": 1, **NODE.seen}, "ctk": ""}
    done = run([*BARE, program, "--step", "specs"], request)
    made = json.loads(done.stdout)["specs"]
    assert {kind: len(one["spec"]["devices"]) for kind, one in made.items()} == {
        "full": 3,
        "hookless": 3,
        "devices": 3,
        "by-model": 2,
        "management": 3,
        "imex-channels": 0,
        "nvswitches": 0,
    }


def test_a_look_runs_from_the_file(program: Path) -> None:
    done = run([*BARE, program, "--step", "look"], {"of": "driver"})
    answer = json.loads(done.stdout)["answer"]
    assert answer["schema"] == 1
    assert "file:/proc/driver/nvidia/version" in answer["answers"]


# What the planner's part is: all else runs on the look's Python.
OF_PLANNER = ("build", "changing", "spec_facts", "specs")
READ = "import sys; compile(open(sys.argv[1], encoding='utf-8').read(), sys.argv[1], 'exec')"


def find_python(release: str) -> str:
    """Return an interpreter of a release. Skip the test if none is at hand."""
    finder = Path(__file__).resolve().parents[1] / "tools" / "find-python"
    found = run([finder, release]).stdout.strip()
    if not found:
        pytest.skip(f"no Python {release} is at hand")
    return found


def test_the_look_runs_on_python_3_6(program: Path) -> None:
    python = find_python("3.6")
    done = run([python, "-I", "-S", "-B", program, "--step", "look"], {"of": "driver"})
    assert json.loads(done.stdout)["answer"]["host"]["python"][:2] == [3, 6]
    files = [f for f in Path(main.__file__).parent.glob("*.py") if f.stem not in OF_PLANNER]
    assert [f.name for f in files if run([python, "-c", READ, f]).returncode] == []


def test_specs_are_made_on_python_3_10(program: Path) -> None:
    python = find_python("3.10")
    request = {"answer": {"schema": 1, **NODE.seen}, "ctk": ""}
    done = run([python, "-I", "-S", "-B", program, "--step", "specs"], request)
    assert json.loads(done.stdout)["driver"] == NODE.inventory.version


def build_seen(gpus: str) -> str:
    """Return a capture whose answers have these GPUs."""
    answers = f'{{"probe:nvml": {{"value": {{"gpus": {gpus}}}}}, "probe:x": 5}}'
    return f'{{"schema": 2, "nodes": {{"a": {{"gpus": [5], "seen": {{"answers": {answers}}}}}}}}}'


@pytest.mark.parametrize(
    ("text", "status", "code"),
    [
        ("[]", 2, "other-schema"),
        ('{"schema": 2', 2, "truncated"),
        ('{"schema": 2, "nodes": {}}', 2, "no-node"),
        ('{"schema": 2, "nodes": {"a": []}}', 2, "no-node"),
        ('{"schema": 2, "nodes": {"\\u001b[2J": {}}}', 2, "no-node"),
        ("[" * 100_000, 2, "truncated"),
        (build_seen("[1]"), 2, "unknown-gpu"),
        (build_seen('[{"bus_id": {}}]'), 2, "unknown-gpu"),
        (build_seen('[{"bus_id": "\\u001b[2J"}]'), 2, "unknown-gpu"),
        (None, 2, "no-file"),
    ],
)
def test_a_bad_capture_ends_the_program(
    program: Path, tmp_path: Path, text: str | None, status: int, code: str
) -> None:
    file = tmp_path / "capture.json"
    if text is not None:
        file.write_text(text)
    done = run([*BARE, program, "--check", file])
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith(f"gpufleet-gpu: {code}: ")
    assert done.stderr.count("\n") == 1
    assert done.stderr.rstrip().isprintable()


@pytest.mark.parametrize("file", sorted(recorded.CAPTURES.glob("*.json")), ids=lambda f: f.stem)
def test_a_good_capture_is_read(program: Path, file: Path) -> None:
    assert run([*BARE, program, "--check", file]).returncode == 0


# ---------------------------------------------------------------- machines that are not measured


@pytest.mark.parametrize(
    ("uid", "driver", "code"), [(1000, True, "not-root"), (0, False, "no-driver")]
)
def test_a_machine_that_cannot_be_measured(
    uid: int, driver: bool, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(main, "DRIVER", str(tmp_path if driver else tmp_path / "none"))
    with pytest.raises(main.Ended) as caught:
        main.check_machine()
    assert caught.value.code == code
    assert report.STATUSES[code] > 1
    assert not list(tmp_path.iterdir())


def measured(given: Namespace | None = None) -> main.Measurement:
    return main.Measurement(given or Namespace(nvidia_ctk="", change=False), "gpufleet.nvidia 1")


def play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    """Let steps be those of a program that does this."""
    file = tmp_path / "program.py"
    file.write_text(text)
    monkeypatch.setattr(main, "PROGRAM", str(file))
    monkeypatch.setattr(main, "LIMITS", dict.fromkeys(main.LIMITS, 0.3))


HANGS = "import signal, sys\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nsignal.pause()\n"


def test_a_driver_that_hangs_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, tmp_path, HANGS)
    one = measured()
    assert one.step("NVML", "own") is None
    play(monkeypatch, tmp_path, "print('{}')\n")
    assert one.step("NVML, more", "more") is None
    assert [(c["name"], c["result"], c["code"]) for c in one.report.checks] == [
        ("NVML", "failed", "timeout"),
        ("NVML, more", "skipped", ""),
    ]
    assert report.STATUSES[one.report.get_outcome()] == 5


FAILS = {
    "no JSON": ("print('x')\n", "failed"),
    "an error": ("raise SystemExit('lost')\n", "failed"),
    "a crash": ("import os\nos.kill(os.getpid(), 11)\n", "failed"),
}


@pytest.mark.parametrize("name", FAILS)
def test_a_step_that_fails(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, code = FAILS[name]
    play(monkeypatch, tmp_path, text)
    monkeypatch.setattr(main, "LIMITS", dict.fromkeys(main.LIMITS, 30))
    one = measured()
    assert one.step("NVML", "own") is None
    assert [(c["result"], c["code"]) for c in one.report.checks] == [("failed", code)]
    assert one.report.checks[0]["sentence"].count("\n") == 0


def test_a_fault_of_the_program_leaves_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_self: object) -> None:
        raise KeyError("own")

    monkeypatch.setattr(main.Measurement, "run", fail)
    monkeypatch.setattr(main, "check_machine", lambda: None)
    monkeypatch.setattr(main, "get_tool", lambda: "gpufleet.nvidia 1")
    play(monkeypatch, tmp_path, "print('{}')\n")
    monkeypatch.setattr(main, "LIMITS", dict.fromkeys(main.LIMITS, 30))
    monkeypatch.setattr(main.signal, "signal", lambda _number, _handler: None)
    out = tmp_path / "out"
    assert main.measure(Namespace(output=str(out), nvidia_ctk="", change=False)) == "failed"
    written = json.loads((out / "report.json").read_text())
    assert [c["code"] for c in written["checks"]] == ["fault", "no-capture"]
    assert report.check_shape(written) == []


def test_a_capture_that_cannot_be_made_leaves_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(self: main.Measurement) -> None:
        """As a driver whose fabric has a state that is not known yet."""
        self.found = {"own": {**OWN, "errors": []}, "more": {**MORE, "gpus": [FABRIC]}}
        self.seen = {"host": {"machine": "x86_64"}, "answers": {}}

    monkeypatch.setattr(main.Measurement, "run", answer)
    monkeypatch.setattr(main, "check_machine", lambda: None)
    monkeypatch.setattr(main, "get_tool", lambda: "gpufleet.nvidia 1")
    play(monkeypatch, tmp_path, "print('{}')\n")
    monkeypatch.setattr(main, "LIMITS", dict.fromkeys(main.LIMITS, 30))
    monkeypatch.setattr(main.signal, "signal", lambda _number, _handler: None)
    assert main.measure(Namespace(output=str(tmp_path), nvidia_ctk="", change=False)) == "failed"
    written = json.loads((tmp_path / "report.json").read_text())
    assert [c["code"] for c in written["checks"]] == ["fault"]


MORE: dict[str, Any] = {"cuda": 13000, "refused": {}}
FABRIC = {
    "pci_id": "0x2335",
    "mib": 1,
    "fabric": {"state": 9, "status": 0, "clique": 0, "cluster": False, "health": 0},
}


def test_another_table_of_nvidia_smi_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho Unable to determine the device handle, Unknown Error\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    one = measured()
    assert one.ask_smi() is None
    assert [c["code"] for c in one.report.checks] == ["other-table"]


def test_without_an_answer_of_nvml_containers_are_entered_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, tmp_path, f"print({json.dumps(json.dumps(INSIDE))})\n")
    monkeypatch.setattr(main, "LIMITS", dict.fromkeys(main.LIMITS, 30))
    one = measured()
    document = {"devices": [{"name": "all", "containerEdits": {}}]}
    one.enter_each({"answers": {}, "specs": {kind: {"spec": document} for kind, _d in main.INSIDE}})
    assert [c["result"] for c in one.report.checks] == ["differs"] * 4


# A measurement that has a step run, and the step, which starts a program in a session of its own.
# Both hold a pipe open: it ends when they have.
MEASUREMENT = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.gpu import steps
steps.run([sys.executable, *sys.argv[2:]], 60)
"""
STEP = """
import subprocess, sys
sys.path.insert(0, sys.argv[1])
from tests.gpu import steps
steps.bind_children()
pipe = open(sys.argv[2], "w")
begin = "exec 3>$0; echo begun >&3; exec sleep 60"
subprocess.run(["sh", "-c", begin, sys.argv[2]], start_new_session=True)
"""


def test_what_a_measurement_has_begun_dies_with_it(program: Path, tmp_path: Path) -> None:
    pipe, measurement, step = (tmp_path / name for name in ("pipe", "measurement.py", "step.py"))
    os.mkfifo(pipe)
    measurement.write_text(MEASUREMENT)
    step.write_text(STEP)
    command = [sys.executable, measurement, program, step, program, pipe]
    with subprocess.Popen(command) as parent, pipe.open() as held:
        assert held.readline() == "begun\n"
        parent.kill()
        assert held.read() == ""


def test_groups_of_a_measurement_that_was_killed_go(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    there = [f"{main.GROUPS}{gone.pid}-0", f"{main.GROUPS}{os.getpid()}-0", f"{main.GROUPS}x"]
    removed: list[str] = []
    monkeypatch.setattr(main.device_rules, "list_groups", lambda _prefix: there)
    monkeypatch.setattr(main.device_rules, "remove", removed.append)
    main.remove_left_groups()
    assert removed == there[:1]


@pytest.mark.parametrize("owner", [0, 65534])
def test_only_programs_of_root_are_run(
    owner: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("nvidia-smi", "nvidia-ctk"):
        (folder / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/run\n")
        (folder / name).chmod(0o755)
    os.chown(folder, owner, owner)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    one = measured(Namespace(nvidia_ctk=str(folder / "nvidia-ctk"), change=False))
    answer = one.ask_smi()
    assert bool(one.find_ctk()) is (owner == 0)
    assert (tmp_path / "run").exists() is (owner == 0)
    codes = [check["code"] for check in one.report.checks]
    assert not [check for check in one.report.checks if str(tmp_path) in check["sentence"]]
    assert (codes, answer is None) == (([], False) if owner == 0 else (["untrusted"] * 2, True))


# ---------------------------------------------------------------- sources of NVML

OWN = {
    "driver": "580.159.04",
    "gpus": [
        {"index": 0, "minor": 0, "uuid": "GPU-1", "bus": "0000:00:06.0", "name": "H", "mig": True,
         "migs": ["MIG-1"], "places": [[1, 0]]},
    ],
}  # fmt: skip
TABLE = "0, GPU-1, 00000000:00:06.0, H, 580.159.04, Enabled\n"
LISTED = "GPU 0: H (UUID: GPU-1)\n  MIG 1g.10gb     Device  0: (UUID: MIG-1)\n"
SOURCES = {
    "the same": (TABLE, LISTED, []),
    "another driver": (TABLE.replace("580", "570"), LISTED, ["driver"]),
    "another bus": (TABLE.replace(":06.", ":07."), LISTED, ["gpu0.bus"]),
    "MIG off": (TABLE.replace("Enabled", "Disabled"), LISTED, ["gpu0.mig"]),
    "MIG devices": (TABLE, LISTED.replace("MIG-1", "MIG-2"), ["gpu0.migs"]),
    "no GPU": ("", "", ["driver", "count"]),
}


@pytest.mark.parametrize("name", SOURCES)
def test_sources_are_compared(name: str) -> None:
    table, listed, differs = SOURCES[name]
    found = nvml_sources.compare(OWN, nvml_sources.read_smi(table, listed))
    assert [field for field, _one, _other in found] == differs


# ---------------------------------------------------------------- scrubbing

SECRETS = {
    "serial": ["1322021012345", "PF3XW9AB"],
    "PDI": ["1311768467294899695", "1234567890abcdef"],
    "UUID": ["GPU-11111111-2222-3333-4444-555555555555"],
    "MAC": ["02:fc:00:00:00:05"],
    "address": ["198.51.100.7", "2001:db8:0:1::7"],
    "host name": ["gpu-node-17.example.org", "gpu-node-17"],
    "machine id": ["0123456789abcdef0123456789abcdef"],
    "account": ["alice", "acme-hpc"],
}
TOLD = [(kind, form % text) for kind, texts in SECRETS.items() for text in texts
        for form in ("%s", "of %s.", '{"a": "%s"}', "/dev/%s/b")]  # fmt: skip


@pytest.mark.parametrize(("kind", "text"), TOLD)
def test_nothing_that_names_the_machine_is_written(kind: str, text: str, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scrub, "list_names", lambda: SECRETS["host name"])
        path = main.write(str(tmp_path), "report.json", {"found": [text], f"a:{text}": 1}, SECRETS)
    written = Path(path).read_text()
    assert scrub.find_left(written, SECRETS) == []
    assert scrub.find_left(text, SECRETS) == [kind]


@pytest.mark.parametrize("name", ["node", "cuda", "nvidia"])
def test_a_machine_with_an_ordinary_name_is_measured(name: str, tmp_path: Path) -> None:
    document = {
        "from": "node",
        "path": "/usr/local/cuda",
        "hostname": name,
        "seen": f"at {name}.example.org",
    }
    names = [f"{name}.example.org", name]
    secrets = {scrub.NAMES: scrub.list_telling(names)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scrub, "list_names", lambda: names)
        path = main.write(str(tmp_path), "report.json", document, secrets)
    assert json.loads(Path(path).read_text()) == {**document, "hostname": "host", "seen": "at host"}


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        (
            "/home/alice/lib64 belongs to user alice.",
            "/home/account/lib64 belongs to user account.",
        ),
        ("/home/of-no-list/lib64", "/home/account/lib64"),
        ("malice, alice2 and /srv/ALICE-1", "malice, alice2 and /srv/account-1"),
    ],
)
def test_no_account_is_named(text: str, sent: str) -> None:
    assert scrub.blanked([text], [], [], ["alice"]) == [sent]


def test_accounts_of_people_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A word of this program, such as the user of an image, tells nothing."""
    for name in scrub.AT_WORK:
        monkeypatch.setenv(name, "root")
    monkeypatch.setenv("SUDO_USER", "of-a-directory")
    users, groups = tmp_path / "passwd", tmp_path / "group"
    users.write_text(
        "root:x:0:0::/root:\ndaemon7:x:7:7:::\nzoltan:x:1000:1000:::\nubuntu:x:1001:1001:::\n"
        "nobody7:x:65534:65534:::\nodd\n"
    )
    groups.write_text("acme-hpc:x:40321:zoltan\n")
    found = scrub.list_accounts((str(users), str(groups), str(tmp_path / "absent")))
    assert found == ["of-a-directory", "acme-hpc", "zoltan"]


def test_the_file_knows_its_own_words(program: Path) -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); from tests.gpu import scrub; print(scrub.list_telling(['node', 'k3s', 'gpu1']))"
    done = run([*BARE, "-c", code, program])
    assert (done.stdout, done.stderr) == ("['gpu1']\n", "")


def test_what_cannot_be_scrubbed_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(main.Ended) as caught:
        main.write(str(tmp_path), "report.json", {"1322021012345": 1}, SECRETS)
    assert (caught.value.code, list(tmp_path.iterdir())) == ("not-scrubbed", [])
    assert "1322021012345" not in caught.value.sentence


@pytest.mark.parametrize("turned", [False, True], ids=["its file", "its folder"])
def test_root_writes_through_no_link_of_another_account(turned: bool, tmp_path: Path) -> None:
    theirs, roots = tmp_path / "theirs", tmp_path / "roots"
    for folder in (theirs, roots):
        folder.mkdir()
    (roots / "report.json").write_text("root's\n")
    (theirs / ("out" if turned else "report.json")).symlink_to(
        roots if turned else roots / "report.json"
    )
    os.chown(theirs, 65534, 65534)
    with pytest.raises(main.Ended) as caught:
        main.make_folder(str(theirs / "out" if turned else theirs))
    assert (caught.value.code, report.STATUSES[caught.value.code]) == ("untrusted", 2)
    main.write(str(theirs), "report.json", {}, {})
    assert (roots / "report.json").read_text() == "root's\n"


def test_a_full_disk_leaves_the_report_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = main.write(str(tmp_path), "report.json", {"first": 1}, {})
    before = Path(path).read_text()
    full = Path("/dev/full").open("w")  # noqa: SIM115  (write() closes it)
    monkeypatch.setattr(main, "open", lambda *_a, **_k: full, raising=False)
    with pytest.raises(main.Ended) as caught:
        main.write(str(tmp_path), "report.json", {"second": 2}, {})
    assert (caught.value.code, Path(path).read_text()) == ("not-written", before)


def test_what_tells_nothing_is_no_secret() -> None:
    assert scrub.drop_empty(["", "0", "None", "Default string", "N/A", "0000000", "PF3XW9AB"]) == [
        "PF3XW9AB"
    ]


# ---------------------------------------------------------------- captures and reports


def test_a_measurement_becomes_a_capture_that_is_read() -> None:
    gpu = NODE.inventory.gpus[0]
    more = {"pci_id": gpu.pci_id, "mib": gpu.mib, "addressing": 1,
            "fabric": {"state": 3, "status": 0, "clique": 2, "health": 8, "cluster": True}}  # fmt: skip
    own = nvml_sources.normalise(NODE.seen["answers"]["probe:nvml"]["value"])
    found = {"own": own, "more": {"cuda": 13000, "gpus": [more], "refused": {}}, "specs": {}}
    document = capture.build(found, NODE.seen, "make gpu of gpufleet.nvidia 1")
    ((name, record),) = capture.read(capture.render(document))["nodes"].items()
    made = recorded.read_node(name, record).inventory
    assert (made.version, made.open, made.cuda) == ("580.159.04", True, 13000)
    assert (made.gpus[0].bus, made.gpus[0].name) == (gpu.bus, gpu.name)
    assert made.gpus[0].addressing == 1
    assert made.gpus[0].fabric is not None
    assert (made.gpus[0].fabric.state, made.gpus[0].fabric.health) == (3, 8)


CACHE = (
    Entry("libcuda.so.1", "/opt/nv/lib64/libcuda.so.1", "x86_64"),
    Entry("libours.so.1", "/srv/private/libours.so.1", "x86_64"),
)


def test_a_capture_has_nothing_of_an_image_or_an_account() -> None:
    """An image may have any key in its os-release, and an account may be called by any word."""
    host = {**NODE.seen["host"], "os_release": {"ID": "debian", "IMAGE_ID": "acme-42"}}
    gpu = {"bus": "0000:17:00.0", "minor": 0, "name": "NVIDIA L4", "mig": None, "places": []}
    own = {"driver": "580.159.04", "gpus": [gpu]}
    more = {"cuda": 13000, "gpus": [{"pci_id": "0x27b8", "mib": 1}], "refused": {}}
    found = {"own": own, "more": more}
    node = {"path": "/dev/nvidia0", "owner": "root", "uid": 0, "group": "mark", "gid": 1000}
    file = {"path": "/srv/libcuda.so.1", "untrusted": "/srv belongs to user mark", "trusted": ""}
    answers = {"glob:/dev/nvidia*": {"files": [node]}, "paths:driver files": {"files": [file]}}
    document = capture.build(found, {"host": host, "answers": answers}, "make gpu of a test")
    (record,) = document["nodes"].values()
    assert record["seen"]["host"]["os_release"] == {"ID": "debian"}
    assert record["seen"]["answers"] == {
        "glob:/dev/nvidia*": {"files": [{**node, "group": "account"}]},
        "paths:driver files": {"files": [{**file, "untrusted": capture.DOUBT}]},
    }


def test_a_capture_has_nothing_of_other_libraries() -> None:
    key = f"file:{ld_cache.PATH}"
    text = specs.render_loader_cache(CACHE).decode("utf-8", "surrogateescape")
    kept = specs.narrow_loader_cache({key: {"content": text, "size": len(text)}, "a": 1})
    content = kept[key]["content"]
    assert ld_cache.parse_ld_cache(content.encode("utf-8", "surrogateescape")) == CACHE[:1]
    folders = [
        discover.list_folders_elsewhere(discover.read_loader_cache(t)) for t in (content, text)
    ]
    assert folders == [["/opt/nv/lib64"]] * 2
    assert (kept[key]["size"], kept["a"]) == (len(content), 1)
    assert ld_cache.parse_ld_cache(specs.render_loader_cache(CACHE)) == CACHE


@pytest.mark.parametrize("content", ["", "rubbish"])
def test_a_cache_that_is_none_has_no_library(content: str) -> None:
    kept = specs.narrow_loader_cache({f"file:{ld_cache.PATH}": {"content": content}})
    assert discover.read_loader_cache(kept[f"file:{ld_cache.PATH}"]["content"]) == ()
    assert "rubbish" not in kept[f"file:{ld_cache.PATH}"]["content"]


@pytest.mark.parametrize("lacks", ["own", "more", "seen"])
def test_a_measurement_that_failed_makes_no_capture(lacks: str) -> None:
    own = nvml_sources.normalise(NODE.seen["answers"]["probe:nvml"]["value"])
    found = {"own": own, "more": {"gpus": [{}]}}
    found.pop(lacks, None)
    with pytest.raises(capture.BadCapture) as caught:
        capture.build(found, {} if lacks == "seen" else NODE.seen, "make gpu of a 1")
    assert caught.value.code == "no-capture"


OUTCOMES = [
    ([("same", "")], 0),
    ([("same", ""), ("skipped", "")], 0),
    ([("differs", ""), ("same", "")], 1),
    ([("differs", ""), ("failed", "nvml")], 6),
    ([("failed", "timeout"), ("differs", "")], 5),
    ([("failed", "timeout"), ("failed", "not-put-back")], 8),
    ([("failed", "interrupted")], 9),
]


@pytest.mark.parametrize(("checks", "status"), OUTCOMES)
def test_the_exit_status_is_that_of_the_worst(checks: list[tuple[str, str]], status: int) -> None:
    one = report.Report("gpufleet.nvidia 1")
    for result, code in checks:
        one.add("a", result, "A.", 0, code)
    assert report.STATUSES[one.get_outcome()] == status
    assert report.check_shape(one.build({}, {})) == []
    assert one.render({"driver": "1"}).count("\n") == len(checks) + 2


def test_a_report_of_another_form_is_told() -> None:
    assert report.check_shape({"schema": "1", "checks": [{}]})


# ---------------------------------------------------------------- --change

MODES = {"compute mode": "Default", "time slice": "Default"}
SETTERS = {"-c": "compute mode", "--set-timeslice": "time slice"}
SLICES = ("Default", "Short", "Medium", "Long")


class Machine:
    """A GPU's modes and the daemon of MPS, behind the commands that change them.

    fails: the command, counted from 0, that ends with an error or raises.
    """

    def __init__(self, fails: int = -1, error: BaseException | None = None) -> None:
        self.modes, self.daemon = dict(MODES), False
        self.asked, self.fails, self.error = 0, fails, error

    def run(
        self, argv: list[str], _seconds: float, stdin: bytes = b"", environment: Any = None
    ) -> tuple[int, str, str]:
        self.asked += 1
        if argv == [changing.CONTROL, "-d"]:
            Path(environment["CUDA_MPS_PIPE_DIRECTORY"], "control").touch()
        if self.asked - 1 == self.fails:
            if self.error:
                self.act(argv, stdin)  # it was done, and its end is not known
                raise self.error
            return 1, "", "lost\n"
        return 0, self.act(argv, stdin), ""

    def act(self, argv: list[str], stdin: bytes) -> str:
        if argv[0] == changing.CONTROL:
            self.daemon = stdin != b"quit\n"
            return "100.0\n"
        for word, mode in SETTERS.items():
            if word in argv:
                value = argv[argv.index(word) + 1]
                self.modes[mode] = SLICES[int(value)] if value.isdigit() else value.title()
                return ""
        if argv == changing.IN_USE:
            return ""
        if "compute-policy" in argv:
            return f"|   0     Timeslice        {self.modes['time slice']}   |\n"
        return self.modes["compute mode"] + "\n"


@pytest.fixture(autouse=True)
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(changing, "NOTES", tmp_path / "notes")
    return tmp_path / "notes"


def change(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> main.Measurement:
    monkeypatch.setattr(steps, "run", machine.run)
    one = measured(Namespace(nvidia_ctk="", change=True))
    one.found["own"] = OWN
    try:
        one.change()
    except main.Interrupted:
        one.report.add("measurement", report.FAILED, "A.", 0, "interrupted")
    return one


def test_every_change_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    one = change(machine, monkeypatch)
    assert [c["result"] for c in one.report.checks] == ["same"] * 4
    assert (machine.modes, machine.daemon) == (MODES, False)


LAST = 9  # commands of a whole change, before anything is put back
ERRORS = {
    "fails": None,
    "hangs": steps.Failed("timeout", "It hangs."),
    "is ended": main.Interrupted("A signal"),
}


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("at", range(LAST))
def test_whatever_happens_is_put_back(at: int, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(at, ERRORS[error])
    one = change(machine, monkeypatch)
    assert (machine.modes, machine.daemon) == (MODES, False)
    assert report.STATUSES[one.report.get_outcome()] > 1


class Killed(BaseException):
    """SIGKILL, after which nothing of the program is done."""


@pytest.mark.parametrize("at", range(LAST))
def test_what_a_killed_measurement_has_left_is_put_back_by_the_next(
    at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(at, Killed())
    with monkeypatch.context() as dying:
        dying.setattr(main.Measurement, "put_back", lambda *_more: None)
        with pytest.raises(Killed):
            change(machine, dying)
    begun = len(changing.read_notes())
    told = measured()
    told.tell_left_changes()
    assert [c["code"] for c in told.report.checks] == ["not-put-back"] * bool(begun)
    machine.fails, left = -1, dict(machine.modes)
    monkeypatch.setattr(main.Measurement, "make_changes", lambda *_more: None)
    one = change(machine, monkeypatch)
    assert (machine.modes, machine.daemon) == (MODES, False), left
    assert [c["name"] for c in one.report.checks] == ["put back what was left"] * bool(begun)
    assert changing.read_notes() == []


def test_what_is_another_since_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    gpu = OWN["gpus"][0]["uuid"]
    begun = changing.Begun(gpu, "compute mode", "DEFAULT", "EXCLUSIVE_PROCESS")
    changing.NOTES.mkdir()
    changing.write_notes([begun])
    machine.modes["compute mode"] = "Prohibited"
    monkeypatch.setattr(main.Measurement, "make_changes", lambda *_more: None)
    change(machine, monkeypatch)
    assert machine.modes["compute mode"] == "Prohibited"
    assert changing.read_notes() == []


def test_what_cannot_be_put_back_stays_noted_and_nothing_else_is_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(LAST)
    change(machine, monkeypatch)
    (left,) = changing.read_notes()
    machine.fails = machine.asked
    assert [c["name"] for c in change(machine, monkeypatch).report.checks] == [
        "put back what was left"
    ]
    assert changing.read_notes() == [left]
    machine.fails = -1
    assert change(machine, monkeypatch).report.get_outcome() == "same"
    assert (machine.modes, machine.daemon) == (MODES, False)


def test_two_measurements_do_not_change_a_machine_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    with changing.take_turn():
        one = change(machine, monkeypatch)
    assert [(c["name"], c["result"]) for c in one.report.checks] == [("changes", "failed")]
    assert machine.asked == 0


def test_notes_that_cannot_be_read_stop_every_change(
    notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes.mkdir()
    (notes / "begun").write_text("[{")
    machine = Machine()
    assert change(machine, monkeypatch).report.get_outcome() == "failed"
    assert machine.asked == 0


def test_what_cannot_be_put_back_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(LAST)
    one = change(machine, monkeypatch)
    assert one.report.get_outcome() == "not-put-back"


def test_gpus_in_use_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    monkeypatch.setattr(machine, "act", lambda _argv, _stdin: "4711\n")
    one = change(machine, monkeypatch)
    assert [(c["name"], c["code"]) for c in one.report.checks] == [("changes", "in-use"), ("put back", "")]  # fmt: skip
    assert machine.asked == 1


# ---------------------------------------------------------------- in a container of a spec

INSIDE: dict[str, Any] = {
    "nodes": [["/dev/nvidia0", ""], ["/dev/nvidiactl", ""]],
    "before": ["/dev/nvidia0", "/dev/nvidiactl"],
    "after": ["/dev/nvidia0", "/dev/nvidiactl"],
    "others": [["/dev/nvidia1", "EPERM"]],
    "rules": "",
    "nvml": {"gpus": [{}], "errors": []},
    "cuda": {"code": 0, "count": 1},
}
WRONG = {
    "nothing": ({}, "full", 0),
    "a node that stays shut": ({"nodes": [["/dev/nvidia0", "EPERM"]]}, "full", 1),
    "a node too many": ({"before": ["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl"]}, "full", 1),
    "another node that opens": ({"others": [["/dev/nvidia1", ""]]}, "full", 1),
    "the same without rules": ({"others": [["/dev/nvidia1", ""]], "rules": "no"}, "full", 0),
    "no GPU for NVML": ({"nvml": {"gpus": [], "errors": []}}, "full", 1),
    "no libcuda": ({"cuda": {"error": "gone"}}, "full", 1),
    "cuInit fails": ({"cuda": {"code": 100, "count": -1}}, "full", 1),
    "no library, by the spec": ({"cuda": {"error": "gone"}}, "devices", 0),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_inside_is_told(name: str) -> None:
    more, kind, count = WRONG[name]
    mine = ["/dev/nvidia0", "/dev/nvidiactl"]
    assert len(list(main.judge_inside({**INSIDE, **more}, mine, 1, kind))) == count


# What a step found, and the checks of the report: name without its beginning, result, code.
WITHOUT_KERNEL = {
    "no container": ({"refused": "no namespaces (EPERM)"}, [("", "skipped", "no-container")]),
    "no device rules": (
        {**INSIDE, "rules": "no cgroup2 is mounted", "others": [["/dev/nvidia1", ""]]},
        [(", others", "skipped", "no-device-rules"), ("", "same", "")],
    ),
    "all": (INSIDE, [("", "same", "")]),
}


@pytest.mark.parametrize("name", WITHOUT_KERNEL)
def test_a_machine_that_lets_nobody_be_a_container_is_no_failure(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, checks = WITHOUT_KERNEL[name]
    play(monkeypatch, tmp_path, f"print({json.dumps(json.dumps(found))})\n")
    monkeypatch.setattr(main, "LIMITS", dict.fromkeys(main.LIMITS, 30))
    monkeypatch.setattr(main.Measurement, "count_gpus", lambda _self: 1)
    one = measured()
    one.found["isolated"] = {}
    nodes = [{"path": path} for path in INSIDE["before"]]
    spec = {"devices": [{"name": "all", "containerEdits": {"deviceNodes": nodes}}]}
    one.enter("full", "all", {"spec": spec, "group": "gpufleet-gpu-none"}, [])
    told = [
        (c["name"].removeprefix("inside full=all"), c["result"], c["code"])
        for c in one.report.checks
    ]
    assert told == checks
    assert all(c["sentence"] for c in one.report.checks)
    assert one.report.get_outcome() == "same"


# ---------------------------------------------------------------- rules for devices


def run_device_rules(program: bytes, access: int, major: int, minor: int) -> int:
    """Run such a program as the kernel does for one access, and return what it returns.

    access: the kind of node in the low half, the operation in the high one (linux/bpf.h,
    bpf_cgroup_dev_ctx).
    """
    context = {0: access, 4: major, 8: minor}
    registers = dict.fromkeys(range(5), 0)
    at = 0
    while True:
        operation, both, offset, value = struct.unpack_from("<BBhi", program, 8 * at)
        register = both & 15
        at += 1
        if operation == device_rules.LOAD_WORD:
            registers[register] = context[offset]
        elif operation == device_rules.SHIFT_RIGHT:
            registers[register] >>= value
        elif operation == device_rules.SET:
            registers[register] = value
        elif operation == device_rules.JUMP_NOT_EQUAL:
            at += offset if registers[register] != value else 0
        else:
            assert operation == device_rules.EXIT
            return registers[device_rules.RESULT]


OPEN, MAKE = 0x60002, 0x10002  # to read and write a character device; to make one


@pytest.mark.parametrize(
    ("access", "major", "minor", "allowed"),
    [
        (OPEN, 195, 0, 1),
        (OPEN, 195, 255, 1),
        (OPEN, 10, 1, 1),
        (OPEN, 195, 1, 0),
        (OPEN, 10, 255, 0),
        (OPEN, 194, 0, 0),
        (OPEN, 0, 0, 0),
        (MAKE, 195, 1, 1),
        (MAKE | OPEN, 195, 1, 0),
    ],
)
def test_a_container_opens_its_own_devices_and_makes_any(
    access: int, major: int, minor: int, allowed: int
) -> None:
    program = device_rules.write_program([(195, 0), (195, 255), (10, 1)])
    assert run_device_rules(program, access, major, minor) == allowed
