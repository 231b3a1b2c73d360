# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change is taken back whole, or nothing is touched and the obstacle is named. Real executor,
bare trees.
"""

from __future__ import annotations

import json
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    get_code,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Handler,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import (
    decision_file,
    earlier_runs,
    restore,
    seen_host,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    oci_hook,
)

from tests.night import leave_rest
from tests.unit.bare_trees import Tree
from tests.unit.builders import obs, sha
from tests.unit.taken_back import (
    CRIO,
    CTK,
    DAEMON,
    DROP_IN,
    ENGINES,
    FOREIGN_HOOK,
    HOOK,
    JSON,
    ROOT,
    SPEC,
    V1,
    converged,
    tree,
)

# ---------------------------------------------------------------- whatever has become of the engine

# what is true of the host when it is taken back, and was not when it was converged
BY_NIGHT = pytest.mark.nightly(
    "a way back reads the journal alone; by day the engine's release changes, or it is gone"
)
SINCE: dict[str, dict[str, Any]] = {
    "nothing": {},
    "the engine is gone": {"engine_version": "", "engines": ("auto",)},
    "it is of another release": {"engine_version": "2.3.1"},
    "the options name another engine": {"engines": ("crio",), "engine_version": "1.34.0"},
    "the handlers have other names": {"handlers": ()},
    "the drop-in has another name": {"drop_in_path": "/etc/containerd/conf.d/50-other.toml"},
    "CDI specs lie elsewhere": {"cdi_spec_dirs": ("/opt/cdi",), "cdi_vendor": "example.com"},
    "GPUs are required": {"no_gpu": "fail"},
}


@pytest.mark.parametrize("since", leave_rest(BY_NIGHT, SINCE, by_day=3))
@pytest.mark.parametrize("name", ENGINES)
def test_every_byte_mode_and_owner_is_as_before(
    tmp_path: pathlib.Path, name: str, since: str
) -> None:
    engine, version, _files, _place = ENGINES[name]
    made, before = converged(tmp_path, name)
    back = made.run_host(
        **{"state": "absent", "engines": (engine,), "engine_version": version, **SINCE[since]}
    )
    assert (back["failed"], back["changed"], back.get("msg")) == (False, True, None)
    assert made.state() == before
    assert made.originals == {}
    again = made.run_host(state="absent", engines=(engine,), engine_version=version)
    assert (again["failed"], again["changed"], again["row"]["why"]) == (
        False,
        False,
        "nothing that this collection wrote is here",
    )


@pytest.mark.parametrize("gone", [False, True], ids=["installed", "removed"])
@pytest.mark.parametrize("name", ENGINES)
def test_the_single_module_takes_its_own_back(
    tmp_path: pathlib.Path, name: str, gone: bool
) -> None:
    engine, version, files, _place = ENGINES[name]
    made = tree(tmp_path, files)
    before = made.state()
    assert made.single(engine, engines=(engine,), engine_version=version)["changed"]
    back = made.single(
        engine, state="absent", engines=(engine,), engine_version="" if gone else version
    )
    assert (back["failed"], back["changed"]) == (False, True)
    assert made.state() == before
    assert made.originals == {}


def test_a_single_module_leaves_the_others_part(tmp_path: pathlib.Path) -> None:
    made, _before = converged(tmp_path, "containerd 2.1")
    back = made.single("containerd", state="absent", engine_version="2.1.9")
    assert back["actions"] == [f"restore {DROP_IN}"]
    assert sorted(made.originals) == [earlier_runs.FACT_PATH, SPEC, decision_file.DECISION_PATH]


# ---------------------------------------------------------------- someone else has written to it

FOREIGN = "# Anna was here\n"


@pytest.mark.parametrize("gone", [False, True], ids=["installed", "removed"])
@pytest.mark.parametrize(
    "name", [n for n, (_e, _v, files, place) in ENGINES.items() if place == ROOT and place in files]
)
def test_a_foreign_line_stays_and_nothing_of_this_collection(
    tmp_path: pathlib.Path, name: str, gone: bool
) -> None:
    made, before = converged(tmp_path, name)
    made.write(ROOT, made.read(ROOT) + FOREIGN, made.path(ROOT).stat().st_mode & 0o777)
    back = made.run_host(state="absent", engine_version="" if gone else ENGINES[name][1])
    assert back["failed"] is False
    assert [line for line in made.read(ROOT).splitlines(keepends=True) if line.strip()] == (
        V1 + FOREIGN
    ).splitlines(keepends=True)
    after = made.state()
    assert {path: seen[1:] for path, seen in after.items()} == {
        path: seen[1:] for path, seen in before.items()
    }
    assert made.originals == {}
    left = made.read(ROOT)
    assert made.run_host(state="absent", engine_version=ENGINES[name][1])["changed"] is False
    assert made.read(ROOT) == left, "a second run does not put the bytes from before over it"


@pytest.mark.parametrize("counts_on_it", [False, True])
def test_the_import_that_we_brought_goes_unless_another_file_counts_on_it(
    tmp_path: pathlib.Path, counts_on_it: bool
) -> None:
    made, _before = converged(tmp_path, "containerd 2.3, no imports")
    made.write(ROOT, made.read(ROOT) + FOREIGN)
    if counts_on_it:
        made.write("/etc/containerd/conf.d/50-theirs.toml", "version = 3\n")
    assert made.run_host(state="absent", engine_version="2.3.1")["failed"] is False
    assert ("imports" in made.read(ROOT)) is counts_on_it
    assert FOREIGN in made.read(ROOT)
    assert not made.path(DROP_IN).exists()


def test_a_foreign_key_in_daemon_json_stays(tmp_path: pathlib.Path) -> None:
    made, _before = converged(tmp_path, "Docker")
    made.write(JSON, made.read(JSON).replace('"debug": true', '"debug": true, "mtu": 9000'))
    assert made.run_host(state="absent")["failed"] is False
    assert json.loads(made.read(JSON)) == {**json.loads(DAEMON), "mtu": 9000}


@pytest.mark.parametrize("name", ["containerd 2.1", "containerd 2.3, no imports", "CRI-O"])
def test_a_drop_in_that_somebody_edited_goes_all_the_same(
    tmp_path: pathlib.Path, name: str
) -> None:
    place = ENGINES[name][3]
    made, before = converged(tmp_path, name)
    made.write(place, made.read(place) + FOREIGN)
    back = made.run_host(
        state="absent", engines=(ENGINES[name][0],), engine_version=ENGINES[name][1]
    )
    assert back["failed"] is False
    assert "the whole file belongs to this collection" in " ".join(back["advice"])
    assert made.state() == before


def test_the_runtimes_own_configuration_is_taken_back_key_by_key_once(
    tmp_path: pathlib.Path,
) -> None:
    made, _before = converged(tmp_path, "containerd 2.1")
    made.write(SPEC, made.read(SPEC) + FOREIGN)
    assert made.run_host(state="absent", engine_version="2.1.9")["failed"] is False
    left = made.read(SPEC)
    assert FOREIGN in left
    assert "annotation-prefixes" not in left
    assert made.run_host(state="absent", engine_version="2.1.9")["changed"] is False
    assert made.read(SPEC) == left


@pytest.mark.parametrize("name", ["containerd 2.1", "Docker", "CRI-O"])
def test_a_file_that_somebody_removed_stays_removed(tmp_path: pathlib.Path, name: str) -> None:
    made, before = converged(tmp_path, name)
    made.path(ENGINES[name][3]).unlink()
    back = made.run_host(
        state="absent", engines=(ENGINES[name][0],), engine_version=ENGINES[name][1]
    )
    assert back["failed"] is False
    assert not made.path(ENGINES[name][3]).exists()
    assert {p: s for p, s in made.state().items() if p in before and p != ENGINES[name][3]} == {
        p: s for p, s in before.items() if p != ENGINES[name][3]
    }


# ---------------------------------------------------------------- what stands in the way is named,
# and nothing is touched

# what someone did -> what the message says besides the path
IN_THE_WAY: dict[str, tuple[str, Callable[[Tree], None], str, str]] = {
    "a line that is no TOML": (
        "containerd 1.7", lambda t: t.write(ROOT, t.read(ROOT) + "half a line\n"), ROOT, "this is not valid TOML"),
    "the same, and the engine is gone": (
        "containerd 1.6", lambda t: t.write(ROOT, t.read(ROOT) + "half a line\n"), ROOT, "this is not valid TOML"),
    "an import of a file that is not there": (
        "containerd 1.7", lambda t: t.write(ROOT, 'imports = ["/etc/containerd/x.toml"]\n' + t.read(ROOT)), ROOT, "does not exist"),
    "no JSON": ("Docker", lambda t: t.write(JSON, t.read(JSON)[:-3]), JSON, "not valid JSON"),
    "a directory in its place": (
        "CRI-O", lambda t: (t.path(CRIO).unlink(), t.path(CRIO).mkdir())[0], CRIO, "is a dir, not a regular file"),
}  # fmt: skip


@pytest.mark.parametrize("case", IN_THE_WAY)
def test_what_cannot_be_given_back_fails_the_run_and_nothing_is_touched(
    tmp_path: pathlib.Path, case: str
) -> None:
    name, strike, path, said = IN_THE_WAY[case]
    made, _before = converged(tmp_path, name)
    strike(made)
    now, kept = made.state(), sorted(made.originals)
    back = made.run_host(
        state="absent",
        engine_version="" if "gone" in case else ENGINES[name][1],
        engines=(ENGINES[name][0],),
    )
    assert back["failed"], back
    assert path in back["msg"]
    assert said in back["msg"]
    assert (made.state(), sorted(made.originals)) == (now, kept)


def test_once_it_is_mended_everything_goes_back(tmp_path: pathlib.Path) -> None:
    made, before = converged(tmp_path, "containerd 1.7")
    good = made.read(ROOT)
    made.write(ROOT, good + "half a line\n", 0o600)
    assert made.run_host(state="absent", engine_version="1.7.24")["failed"]
    made.write(ROOT, good, 0o600)
    assert made.run_host(state="absent", engine_version="1.7.24")["failed"] is False
    assert made.state() == before


@pytest.mark.parametrize("content", ["", V1[:9]], ids=["emptied", "cut"])
@pytest.mark.parametrize("changed", [False, True], ids=["as written", "changed since"])
def test_a_damaged_copy_stops_the_run_before_anything_is_touched(
    tmp_path: pathlib.Path, content: str, changed: bool
) -> None:
    made, _before = converged(tmp_path, "containerd 1.7")
    if changed:
        made.write(ROOT, made.read(ROOT) + FOREIGN)
    (made.kept(ROOT) / "content").write_text(content)
    now = made.state()
    back = made.run_host(state="absent", engine_version="1.7.24")
    assert back["failed"]
    assert f"{ROOT}: the copy of the original in {made.kept(ROOT)} cannot be used" in back["msg"]
    assert made.state() == now
    shutil.rmtree(made.kept(ROOT))
    assert made.run_host(state="absent", engine_version="1.7.24")["failed"] is False, (
        "as its next step says"
    )


@pytest.mark.parametrize(("name", "place"), [("containerd 1.7", ROOT), ("Docker", JSON)])
def test_a_handler_whose_name_nobody_remembers_is_named(
    tmp_path: pathlib.Path, name: str, place: str
) -> None:
    """Someone has changed the file since, so our handlers are found by name, and the variables say
    another one now.
    """
    engine, version, files, _place = ENGINES[name]
    made = tree(tmp_path, files)
    gpu = (Handler("gpu", "/opt/nvidia-container-runtime"),)
    made.single(engine, engine_version=version, handlers=gpu)
    made.write(
        place,
        made.read(place).replace("true", "false") if place == JSON else made.read(place) + FOREIGN,
    )
    now = made.state()
    back = made.single(engine, state="absent", engine_version=version)
    assert back["failed"], back
    assert (
        "the handler gpu with the program /opt/nvidia-container-runtime did not exist before the first change of this collection"
        in back["msg"]
    )
    assert made.state() == now
    assert (
        made.single(engine, state="absent", engine_version=version, handlers=gpu)["failed"] is False
    )
    assert "gpu" not in made.read(place)


# ---------------------------------------------------------------- where nothing of this collection
# is, it is not an error

NOTHING: dict[str, dict[str, str]] = {
    "nothing at all": {},
    "CRI is switched off, as Docker's package does": {
        ROOT: 'disabled_plugins = ["cri"]\n',
        JSON: DAEMON,
    },
    "an import is missing": {ROOT: 'version = 2\nimports = ["/etc/containerd/nowhere.toml"]\n'},
    "no TOML": {ROOT: "half a line\n"},
    "no JSON": {JSON: "{"},
    "k3s": {"/var/lib/rancher/k3s/agent/etc/containerd/config.toml": V1},
    "RKE2 and a plain one": {
        "/var/lib/rancher/rke2/agent/etc/containerd/config.toml": V1,
        ROOT: V1,
    },
    "a CRI-O that would not start": {"/etc/crio/crio.conf.d/99-broken.conf": "["},
    "a version 1 file": {ROOT: "[plugins.cri]\n"},
}


@pytest.mark.parametrize("version", ["", "1.7.24"])
@pytest.mark.parametrize("case", NOTHING)
def test_a_mixed_fleet_can_be_taken_back_in_one_play(
    tmp_path: pathlib.Path, case: str, version: str
) -> None:
    made = tree(tmp_path, NOTHING[case])
    before = made.state()
    tasks = [made.run_host(state="absent", engine_version=version)]
    tasks += [
        made.single(engine, state="absent", engine_version=version)
        for engine in ("containerd", "docker")
    ]
    tasks.append(made.single("crio", state="absent"))
    assert [(t["failed"], t["changed"], t.get("msg")) for t in tasks] == [(False, False, None)] * 4
    assert made.state() == before


def test_keys_in_a_file_of_k3s_are_never_taken_for_ours(tmp_path: pathlib.Path) -> None:
    """k3s writes the very handler by itself when it finds the runtime."""
    config = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml"
    made = tree(tmp_path, {config: CTK})
    before = made.state()
    back = made.single("containerd", state="absent", config_path=config, engine_version="1.7.24")
    assert (back["changed"], made.state() == before) == (False, True)


# ---------------------------------------------------------------- a default handler whose program is
# gone

RUNTIME = "/usr/bin/nvidia-container-runtime"
BY_DEFAULT = CTK + (
    '[plugins."io.containerd.grpc.v1.cri".containerd]\n  default_runtime_name = "nvidia"\n'
)
# The file, what it was before and is now, and the default handler with its program that come back.
GIVEN_BACK: dict[str, tuple[str, str, str, tuple[str, str] | None]] = {
    "containerd": (ROOT, BY_DEFAULT, V1, ("nvidia", RUNTIME)),
    "Docker": (
        JSON,
        f'{{"default-runtime": "nvidia", "runtimes": {{"nvidia": {{"path": "{RUNTIME}"}}}}}}\n',
        "{}\n",
        ("nvidia", RUNTIME),
    ),
    "Docker, by name": (
        JSON,
        '{"default-runtime": "nvidia", "runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}\n',
        "{}\n",
        ("nvidia", "nvidia-container-runtime"),
    ),
    "CRI-O": (
        CRIO,
        f'[crio.runtime]\ndefault_runtime = "nvidia"\n[crio.runtime.runtimes.nvidia]\nruntime_path = "{RUNTIME}"\n',
        "[crio.runtime]\n",
        ("nvidia", RUNTIME),
    ),
    "no default": (
        JSON,
        '{"runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime"}}}',
        "{}\n",
        None,
    ),
    "no program": (JSON, '{"default-runtime": "runc"}\n', "{}\n", None),
}


@pytest.mark.parametrize("there", [False, True, None], ids=["gone", "there", "not known"])
@pytest.mark.parametrize("case", GIVEN_BACK)
def test_a_default_handler_whose_program_is_gone_is_said(case: str, there: bool | None) -> None:
    path, before, now, default = GIVEN_BACK[case]
    kept = {
        path: {
            "existed": True, "sha256_before": sha(before), "sha256_after": sha(now), "content": before,
        }
    }  # fmt: skip
    files = {path: now, **({RUNTIME: ""} if there else {})}
    failed = {"error": {"kind": "timeout", "message": "the time had run out"}}
    asked = [f"file:{RUNTIME}", queries.ask_for_program(["nvidia-container-runtime"])["id"]]
    found = take_back(
        obs(
            files=files,
            originals=kept,
            packages={"containerd": "1.7.24"},
            answers=dict.fromkeys(asked, failed) if there is None else {},
        )
    )
    assert [change["op"] for change in found.changes] == ["restore"]
    said = [
        (text.values["handler"], text.values["program"])
        for text in found.advice
        if get_code(text) == "restore.default-without-program"
    ]
    assert said == ([default] if default and there is False else [])


# ---------------------------------------------------------------- a running host that does not tell
# all

DAEMON_RUNS = {
    "pid": 7,
    "exe": "/usr/bin/containerd",
    "argv": ["containerd"],
    "unit": "containerd.service",
}
OFF = 'disabled_plugins = ["cri"]\n'
NVIDIA = '{"runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime"}}}'
TOO_MANY = {
    "processes:containerd": {
        "error": {"kind": "too-large", "message": "the processes exceed 16 MiB"}
    }
}
# the configuration as we left it -> what is seen of the host; the sentence about what is left to
# do; units that wait for a restart
LEFT_TO_DO: dict[str, tuple[str, str, dict[str, Any], str, tuple[str, ...]]] = {
    "stopped": (ROOT, CTK, {"files": {"/usr/bin/containerd": "elf"}}, "", ()),
    "its processes could not be looked at": (ROOT, CTK, {"answers": TOO_MANY}, "it is not known whether containerd runs", ()),
    "its CRI is off now": (
        ROOT, OFF + CTK, {"processes": [DAEMON_RUNS]}, "its CRI plugin is disabled, so nothing in this file was in use", ()),
    "EKS writes it now": (
        ROOT, CTK, {"processes": [DAEMON_RUNS], "units": {"containerd.service": {}, "nodeadm-run.service": {}}},
        "was restored, but containerd.service could not be inspected and was not restarted (EKS nodeadm", ("containerd.service",)),
    "Docker is stopped": (JSON, NVIDIA, {"files": {"/usr/bin/dockerd": "elf"}}, "", ()),
}  # fmt: skip


def take_back(seen: Observation) -> Plan:
    policy = Policy(state="absent")
    facts = restore.read_take_back_facts(seen, seen_host.read_engine_facts(policy, seen))
    return restore.plan_take_back(policy, facts, seen_host.CONFIGURED)


def test_a_configuration_in_which_somebody_switched_cri_off_loses_just_our_keys() -> None:
    text = OFF + CTK
    kept = {
        ROOT: {"existed": True, "sha256_before": sha(V1), "sha256_after": sha(CTK), "content": V1}
    }
    dead = {"error": {"kind": "not-found", "message": "nobody listens"}}
    cri = dict.fromkeys(
        ("Status:/run/containerd/containerd.sock", "Version:/run/containerd/containerd.sock"), dead
    )
    host_ = {
        "processes": [DAEMON_RUNS],
        "units": {"containerd.service": {}},
        "packages": {"containerd": "1.7.24"},
    }
    seen = obs(files={ROOT: text}, originals=kept, cri=cri, **host_)
    found = take_back(seen)
    assert [(c["op"], c["path"], c["forget"]) for c in found.changes] == [("edit", ROOT, True)]
    assert "nvidia" not in "".join(e["text"] for e in found.changes[0]["edits"])
    assert found.restarts == ()


@pytest.mark.parametrize("case", LEFT_TO_DO)
def test_a_file_is_given_back_whatever_its_engine_tells(case: str) -> None:
    path, text, seen, said, pending = LEFT_TO_DO[case]
    dead = {"error": {"kind": "not-found", "message": "nobody listens"}}
    more = {
        "commands": {
            "/usr/bin/containerd --version": "containerd x v1.7.24 y",
            "/usr/bin/dockerd --version": "Docker version 26.1.5",
        },
        "cri": dict.fromkeys(
            ("Status:/run/containerd/containerd.sock", "Version:/run/containerd/containerd.sock"),
            dead,
        ),
        "packages": {"containerd": "1.7.24"},
        "units": {"containerd.service": {}},
        "originals": {path: {"existed": False, "sha256_before": None, "sha256_after": sha(text)}},
        **{k: v for k, v in seen.items() if k != "files"},
    }
    found = take_back(obs(files={path: text, **seen.get("files", {})}, **more))
    assert [(c["op"], c["path"]) for c in found.changes] == [("restore", path)]
    assert said in " ".join(found.advice)
    assert bool([a for a in found.advice if "not running" not in a]) == bool(said)
    assert (found.restarts, found.pending) == ((), pending)


OF_NO_RESOURCE = "/etc/gpufleet/of-an-earlier-release.conf"
REMOVED_SINCE = [
    # what is in the place of a file that no resource knows; what is done with it
    ("ours", [("restore", OF_NO_RESOURCE)], []),
    (None, [], ["restore.removed-since"]),
]


@pytest.mark.parametrize(("now", "changes", "codes"), REMOVED_SINCE)
def test_a_file_that_no_resource_knows_comes_back_unless_it_was_removed_since(
    now: str | None, changes: list[tuple[str, str]], codes: list[str]
) -> None:
    kept = {"existed": True, "sha256_before": sha("before"), "sha256_after": sha("ours")}
    files = {} if now is None else {OF_NO_RESOURCE: now}
    found = take_back(obs(files=files, originals={OF_NO_RESOURCE: kept}))
    assert [(c["op"], c["path"]) for c in found.changes] == changes
    assert [code for code in map(get_code, found.advice) if code] == codes


def test_a_journal_that_cannot_be_read_is_no_journal_without_copies() -> None:
    seen = obs(
        files={ROOT: CTK},
        answers={
            "originals": {
                "error": {"kind": "denied", "message": "/var/lib/gpufleet: Permission denied"}
            }
        },
    )
    with pytest.raises(PlanError, match="Permission denied"):
        take_back(seen)


# ---------------------------------------------------------------- the hook file


@pytest.mark.parametrize("path", [HOOK, "/etc/containers/oci/hooks.d/old.json"])
def test_a_hook_file_that_was_there_comes_back(tmp_path: pathlib.Path, path: str) -> None:
    made = tree(tmp_path, {path: FOREIGN_HOOK})
    before = made.state()
    assert made.hook(path)["changed"]
    assert made.read(path) == oci_hook.render_hook_file()
    back = made.hook(path, state="absent")
    assert (back["failed"], back["changed"], made.state() == before) == (False, True, True)
    assert made.hook(path, state="absent")["changed"] is False


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            oci_hook.render_hook_file(),
            "NVIDIA's own tool writes the same file, so it is left alone",
        ),
        (FOREIGN_HOOK, ""),
        ("{", ""),
    ],
)
def test_a_hook_file_that_is_not_ours_stays(tmp_path: pathlib.Path, text: str, said: str) -> None:
    made = tree(tmp_path, {HOOK: text})
    before = made.state()
    back = made.hook(HOOK, state="absent")
    assert (back["failed"], back["changed"], made.state() == before) == (False, False, True)
    assert said in " ".join(back["advice"])


def test_a_hook_file_that_somebody_put_in_our_place_stays(tmp_path: pathlib.Path) -> None:
    made = tree(tmp_path, {})
    assert made.hook(HOOK)["changed"]
    made.write(HOOK, FOREIGN_HOOK)
    back = made.hook(HOOK, state="absent")
    assert (back["failed"], back["changed"], made.read(HOOK)) == (False, False, FOREIGN_HOOK)
    assert "has been replaced and contains nothing of this collection any more" in " ".join(
        back["advice"]
    )
