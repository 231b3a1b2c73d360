# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What validators say of a staged tree, in check mode and before a run, and what commands do."""

import os

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import executor

from .conftest import CONFIG, edit, script

# --- check mode and validators
# ----------------------------------------------------------------------------------------


def validator(host_dir, text):
    return script(host_dir.directory / "validator", "#!/bin/sh\n" + text + "\n")


def staging(host_dir, program, **more):
    stage = {
        "files": [
            {"name": "e/config.toml", "source": str(host_dir.config)},
            {"name": "e/conf.d", "source": str(host_dir.etc / "conf.d"), "tree": True},
        ],
        "substitute": [[str(host_dir.etc / "conf.d"), "{stage}/e/conf.d"]],
    }
    check = dict(
        {"argv": [program, "{stage}/e/config.toml", "{stage}/e/conf.d"], "timeout": 10}, **more
    )
    return {"stage": stage, "validate": [check]}


CAT = 'cat "$1" "$2"/* 2>/dev/null; true'


def test_check_mode_stages_validates_and_leaves_no_trace(host_dir):
    before = sorted(os.listdir(str(host_dir.directory)) + ["validator"])
    tree = host_dir.tree()
    imports = 'imports = ["%s/*"]\n' % (host_dir.etc / "conf.d")
    changes = [
        host_dir.write(host_dir.dropin, "b = 2\n"),
        edit(host_dir, [(1, 2, imports)], CONFIG.replace("# a comment\n", imports)),
    ]
    found = host_dir.run(changes, check=True, **staging(host_dir, validator(host_dir, CAT)))
    assert found["error"] is None
    assert found["changed"]
    assert found["written"] == [str(host_dir.dropin), str(host_dir.config)]
    assert found["validation"][0]["findings"] == []
    assert found["said"] is None
    assert host_dir.tree() == tree
    assert sorted(os.listdir(str(host_dir.directory))) == before


def test_check_mode_beneath_a_bare_root_leaves_no_trace(host_dir):
    (host_dir.directory / "image").mkdir()
    found = host_dir.run(
        [host_dir.write("/etc/a", "x")],
        root=str(host_dir.directory / "image"),
        journal_dir="/var/lib/gpufleet",
        check=True,
    )
    assert found["changed"]
    assert os.listdir(str(host_dir.directory / "image")) == []


def test_the_copies_name_each_other_and_the_host_keeps_its_own_names(host_dir):
    host_dir.config.write_text('imports = ["%s/*"]\n' % (host_dir.etc / "conf.d"))
    program = validator(host_dir, 'grep -q "/stage-" "$1"')
    found = host_dir.run([host_dir.write(host_dir.dropin, "b\n")], **staging(host_dir, program))
    assert found["validation"][0]["rc"] == 0
    assert "/stage-" not in host_dir.config.read_text()


@pytest.mark.parametrize(
    "program, more, finding",
    [
        ("echo 'line 3: bad key' >&2; exit 1", {}, "exit status 1"),
        (
            "echo 'level=warning msg=ignored' >&2",
            {"refuse": [{"pattern": "level=warning", "says": "it warns"}]},
            ": it warns",
        ),
        (
            "echo something",
            {"require": [{"pattern": "^nvidia$", "says": "it has no nvidia"}]},
            ": it has no nvidia",
        ),
        ("sleep 30", {"timeout": 0.2}, "it did not end within 0.2 s"),
        (
            CAT,
            {"baseline": ["cat", "CONFIG"], "allow": [], "names": ["b"]},
            "the effective configuration would gain 1 line (b)",
        ),
        (
            CAT,
            {"baseline": ["printf", "b = 1\nversion = 2\n"], "allow": ["b = .*"], "names": ["x"]},
            "would gain 3 lines (x, others)",
        ),
        (
            "sed '/version/d' $1",
            {"baseline": ["cat", "CONFIG"], "allow": ["b = .*"]},
            "would lose 1 line",
        ),
    ],
)
@pytest.mark.parametrize("check", [True, False])
def test_what_a_validator_refuses_changes_nothing(host_dir, program, more, finding, check):
    before = host_dir.tree()
    more = dict(more)
    if "baseline" in more:
        more["baseline"] = [
            str(host_dir.config) if word == "CONFIG" else word for word in more["baseline"]
        ]
    found = host_dir.run(
        [host_dir.write(host_dir.dropin, "b = 2\n")],
        check=check,
        **staging(host_dir, validator(host_dir, program), **more),
    )
    assert found["error"]["phase"] == "validate"
    assert finding in found["error"]["message"]
    assert host_dir.tree() == before
    assert not found["changed"]


def test_allowed_differences_pass_whatever_their_order(host_dir):
    program = validator(
        host_dir, 'printf "  x = 1\\nb = 2\\n[plugins]\\n# a comment\\nversion = 2\\n"'
    )
    more = {"baseline": ["cat", str(host_dir.config)], "allow": ["(?i)B = .*"]}
    found = host_dir.run(
        [host_dir.write(host_dir.dropin, "b = 2\n")], **staging(host_dir, program, **more)
    )
    assert found["validation"][0]["findings"] == []


def test_a_complaint_about_the_present_configuration_too_is_not_news(host_dir):
    complain = "echo 'time=\"2026-01-01T0%s:00:00Z\" level=warning msg=old' >&2; cat "
    refuse = [{"pattern": "level=warning", "says": "it warns"}]
    more = {
        "baseline": ["sh", "-c", complain % 1 + str(host_dir.config)],
        "refuse": refuse,
        "allow": ["b"],
    }
    found = host_dir.run(
        [host_dir.write(host_dir.dropin, "b\n")],
        **staging(host_dir, validator(host_dir, complain % 2 + '"$1" "$2"/*'), **more),
    )
    assert found["error"] is None
    more["baseline"] = ["cat", str(host_dir.config)]
    found = host_dir.run(
        [host_dir.write(host_dir.dropin, "b2\n")],
        **staging(host_dir, validator(host_dir, complain % 2 + '"$1" "$2"/*'), **more),
    )
    assert found["error"]["phase"] == "validate"


@pytest.mark.parametrize(
    "present, rc, code",
    [("echo 'bad 3' >&2; exit 1", 1, "3"), ("echo 'bad 9' >&2; exit 1", 1, "3"), ("true", 0, "3")],
    ids=["the same complaint", "another one", "none"],
)
def test_a_validator_that_refuses_the_present_configuration_too_says_why_and_that(
    host_dir, present, rc, code
):
    known = [{"code": "bad", "pattern": "bad (?P<line>[0-9]+)", "values": {"line": "number"}}]
    more = {
        "baseline": ["sh", "-c", present],
        "require": [{"pattern": "^nvidia$", "says": "it has no nvidia"}],
    }
    request = staging(host_dir, validator(host_dir, "echo 'bad 3' >&2; exit 1"), **more)
    found = host_dir.run([host_dir.write(host_dir.dropin, "b\n")], causes=known, **request)
    (report,) = found["validation"]
    assert (report["findings"], report["baseline_rc"]) == (["exit status 1"], rc)
    assert report["causes"] == [{"code": "bad", "values": {"line": code}}]


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    "program, more, codes",
    [
        (CAT, {"baseline": ["true"], "allow": []}, []),
        (
            "echo 'level=fatal msg=\"line 7: password hunter2\"' >&2; exit 1",
            {},
            [{"code": "line", "values": {"line": "7"}}],
        ),
        ("echo 'line hunter2' >&2; exit 1", {}, [{"code": "line", "values": {"line": "(hidden)"}}]),
        ("echo hunter2; exit 1", {}, []),
        ("echo hunter2 >&2", {"refuse": [{"pattern": "hunter", "says": "it complains"}]}, []),
    ],
)
def test_what_a_validator_prints_stays_on_the_host(host_dir, program, more, codes, check):
    host_dir.config.write_text('password = "hunter2"\n')
    known = [{"code": "line", "pattern": "line (?P<line>\\w+)", "values": {"line": "number"}}]
    request = staging(host_dir, validator(host_dir, program), **more)
    found = host_dir.run(
        [host_dir.write(host_dir.dropin, "b\n")], check=check, causes=known, **request
    )
    assert found["error"]["phase"] == "validate"
    assert "hunter2" not in repr(found)
    assert found["validation"][0]["causes"] == codes
    kept = list((host_dir.directory / "journal").glob("said/*")) if not check else []
    assert [path.stat().st_mode & 0o777 for path in kept] == ([0o600] if found["said"] else [])
    assert bool(found["said"]) == (not check and program != "echo hunter2; exit 1")
    if found["said"]:
        assert "hunter2" in kept[0].read_text()
        assert found["said"] == str(kept[0])


def test_in_check_mode_a_validator_may_still_be_missing_when_a_package_brings_it(host_dir):
    install = [{"argv": ["false"], "why": "install"}]
    found = host_dir.run(
        [host_dir.write(host_dir.dropin, "b\n")],
        check=True,
        commands_before=install,
        **staging(host_dir, "/no/such/engine"),
    )
    assert found["error"] is None
    assert found["changed"]
    assert (
        host_dir.run(
            [host_dir.write(host_dir.dropin, "b\n")],
            check=True,
            **staging(host_dir, "/no/such/engine"),
        )["error"]["phase"]
        == "validate"
    )


# --- commands
# --------------------------------------------------------------------------------------------------


def test_commands_run_first_and_count_as_a_change(host_dir):
    found = host_dir.run(
        [], commands_before=[{"argv": ["touch", str(host_dir.etc / "made")], "why": "install"}]
    )
    assert found["changed"]
    assert [(entry["argv"][0], entry["rc"]) for entry in found["ran"]] == [("touch", 0)]


def test_a_command_that_fails_stops_everything_and_undoes_the_ones_before(host_dir):
    made = host_dir.etc / "made"
    first = {"argv": ["touch", str(made)], "undo": ["rm", str(made)]}
    found = host_dir.run(
        [host_dir.write(host_dir.config, "x")],
        commands_before=[first, {"argv": ["sh", "-c", "echo no space >&2; exit 100"]}],
    )
    assert found["error"]["phase"] == "command"
    assert found["error"]["message"].endswith("exit 100: exit status 100")
    with open(found["said"]) as words:
        assert words.read().endswith("exit 100\nno space\n\n")
    assert not made.exists()
    assert host_dir.config.read_text() == CONFIG


def test_an_exit_status_that_a_command_may_have_is_no_failure(host_dir):
    """zypper has one that says: installed, and a repository beside it is broken."""
    assert (
        host_dir.run([], commands_before=[{"argv": ["sh", "-c", "exit 106"], "accepts": [106]}])[
            "error"
        ]
        is None
    )
    other = host_dir.run(
        [], id="2" * 32, commands_before=[{"argv": ["sh", "-c", "exit 106"], "accepts": [107]}]
    )
    assert other["error"]["phase"] == "command"


def test_a_command_that_fails_half_way_is_undone_itself_and_who_cannot_says_so(host_dir):
    made = host_dir.etc / "made"
    half = {
        "argv": ["sh", "-c", "touch %s; exit 1" % made],
        "undo": ["rm", str(made)],
        "undo_within": 60,
    }
    found = host_dir.run([], commands_before=[half])
    assert (found["error"]["phase"], found["changed"], made.exists()) == ("command", False, False)
    other = dict(
        half, argv=["false"], undo=["sh", "-c", "exit $LEFT"], env={"LEFT": "106"}, accepts=[106]
    )
    assert host_dir.run([], id="3" * 32, commands_before=[other])["error"]["phase"] == "command"
    made.touch()
    found = host_dir.run([], id="2" * 32, commands_before=[dict(half, undo=["sh", "-c", "exit 3"])])
    assert (found["error"]["phase"], found["changed"], made.exists()) == ("rollback", True, True)
    assert "sh -c exit 3: exit status 3 (while rolling back after: " in found["error"]["message"]
    assert "No file was changed" in found["error"]["next"]


@pytest.mark.parametrize(
    ("undone", "leaves", "changed"),
    [
        ("1.0", False, False),  # it did nothing, or all is back
        ("1.0", True, True),  # what a package brought and its removal leaves shows in no version
        ("1.1", False, True),  # it is not back, whatever the undo said
        ("not known", False, True),
    ],
)
def test_a_command_that_failed_has_changed_something_where_packages_are_not_as_they_were(
    host_dir, monkeypatch, undone, leaves, changed
):
    """Package managers that fail half way leave a part of what they were to install."""
    versions = iter(["1.0", undone])

    def asked(_root, names):
        now = next(versions)
        if now == "not known":
            raise OSError("the database is locked")
        return {"installed": dict.fromkeys(names, now)}

    monkeypatch.setattr(executor.system, "list_installed_packages", asked)
    half = {"argv": ["false"], "undo": ["true"], "undo_leaves": leaves}
    found = host_dir.run([], commands_before=[half], expect={"packages": {"toolkit": "1.0"}})
    assert (found["error"]["phase"], found["changed"]) == ("command", changed)


def test_the_undo_of_a_command_may_have_exit_statuses_of_its_own(host_dir):
    """zypper's remove says 104 where one of the packages is not installed."""
    half = {"argv": ["false"], "undo": ["sh", "-c", "exit 104"], "accepts": [106]}
    assert (
        host_dir.run([], commands_before=[dict(half, undo_accepts=[104])])["error"]["phase"]
        == "command"
    )
    assert host_dir.run([], id="2" * 32, commands_before=[half])["error"]["phase"] == "rollback"


def test_a_file_that_a_package_wrote_meanwhile_is_a_conflict(host_dir):
    install = [
        {
            "argv": [
                "sh",
                "-c",
                "mkdir -p %s; echo theirs > %s" % (host_dir.dropin.parent, host_dir.dropin),
            ]
        }
    ]
    found = host_dir.run(
        [host_dir.write(host_dir.dropin, "ours\n", expect=None)], commands_before=install
    )
    assert [entry["path"] for entry in found["conflict"]] == [str(host_dir.dropin)]
    assert host_dir.dropin.read_text() == "theirs\n"
    assert found["changed"]
