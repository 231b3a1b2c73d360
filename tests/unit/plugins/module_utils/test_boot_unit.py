# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the host does later by itself: its unit, the Python that it starts, and how long an undo may
take. Python 3.6.
"""

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    commands,
    host_files,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    deadline,
    health,
    rollback,
)

# What systemd makes of a word in single quotes: systemd.syntax(7), then specifiers, then variables
# (systemd.service(5), "Command lines").
ODD = [
    "/var/lib/gpufleet",
    "/a b",
    "/a%n",
    "/a$HOME",
    "/a${HOME}b",
    "/it's",
    "/back\\slash",
    '/quo"te',
    "/semi;colon",
    "/a'b\\'$%",
]


def read_by_systemd(text):
    """Return the words of a line as systemd reads them."""
    words, word, quoted, at = [], "", False, 0
    while at < len(text):
        if text[at] == "\\":
            at += 1
            word += text[at]
        elif text[at] == "'":
            quoted = not quoted
        elif text[at] == " " and not quoted:
            words, word = words + [word], ""
        else:
            word += text[at]
        at += 1
    return words + [word]


@pytest.mark.parametrize("base", ODD)
def test_the_unit_of_the_boot_names_the_journal_wherever_it_lies(host, base):
    deadline.arm_boot(base, base + "/program/x.py")
    lines = dict(
        line.split("=", 1)
        for line in (host.units / deadline.BOOT_UNIT).read_text().splitlines()
        if "=" in line
    )
    for key in ("ExecStart", "RequiresMountsFor"):
        assert "%" not in lines[key].replace("%%", ""), "no specifier"
    words = read_by_systemd(lines["ExecStart"].replace("%%", "%"))
    assert all("$" not in word.replace("$$", "") for word in words), "no variable"
    assert [word.replace("$$", "$") for word in words][-3:] == [
        base + "/program/x.py",
        "boot",
        base,
    ]
    assert read_by_systemd(lines["RequiresMountsFor"].replace("%%", "%")) == [base]


@pytest.mark.parametrize("own", ["", None])
def test_a_python_that_does_not_know_its_own_path_is_not_what_an_error_names(monkeypatch, own):
    monkeypatch.setattr(deadline.sys, "executable", own)
    monkeypatch.setattr(deadline, "PYTHONS", ("/there/is/none", "/nor/here"))
    with pytest.raises(host_files.HostError) as error:
        deadline.find_later_python()
    assert error.value.message.startswith("/there/is/none is no executable file")


def test_an_undo_that_does_not_end_at_a_boot_is_reported_with_the_limit_of_a_boot(monkeypatch):
    monkeypatch.setattr(commands, "run", lambda *_words, **_more: {"rc": None, "timed_out": True})
    for booting, limit in ((True, rollback.QUICK), (False, health.ENDS_WITHIN)):
        with pytest.raises(host_files.HostError) as error:
            rollback._undo({"argv": ["true"], "undo": ["undo"]}, {"ran": []}, booting)
        assert error.value.message == "undo: no end within %d s" % limit
