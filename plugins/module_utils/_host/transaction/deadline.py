# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Have a transaction taken back when the executor cannot: by a timer of the host's own, and by a
unit at the next boot.

Neither needs `daemon-reload`, which takes devices from containers that got them behind systemd's
back. The timer is transient, and the boot's unit is a file and a link that systemd finds when it
starts the next time. Host side: standard library only, Python 3.6.
"""

import contextlib
import os
import re
import sys

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    commands,
    failures,
    host_files,
    trust,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    health,
    journal_writer,
)

RUNNING = "/run/systemd/system"  # exists if systemd is the first process: sd_booted(3)
UNITS = "/etc/systemd/system"
BOOT_UNIT = "gpufleet-recover.service"
WANTS = "sysinit.target.wants"  # every ordinary unit starts after that target
MARGIN = 60
PYTHONS = ("/usr/bin/python3", "/usr/libexec/platform-python", "/run/current-system/sw/bin/python3")
# Runs the program only if its bytes have the digest in its name. The name comes from a unit, which
# is root's, so an account that has since got hold of the journal's directory cannot run anything.
# No %, $, backslash or single quote: this text is part of units as well.
_LOAD = (
    "import hashlib,os,sys; del sys.argv[0]; "
    'd=open(os.open(sys.argv[0],os.O_RDONLY|os.O_NOFOLLOW|os.O_NONBLOCK),"rb").read(1<<24); '
    'hashlib.sha256(d).hexdigest()+".py"==os.path.basename(sys.argv[0]) or sys.exit(sys.argv[0]+" was changed, and is not run"); '
    'exec(compile(d,sys.argv[0],"exec"))'
)
_PLAIN = re.compile(r"[\w./:@%$=+,-]+\Z")
_BOOT = """# Here only while a transaction is under way: takes it back when the host was switched off in the middle of it.
[Unit]
Description=Take back a transaction of gpufleet.nvidia that was cut short
DefaultDependencies=no
RequiresMountsFor=%(base)s
After=local-fs.target
Before=sysinit.target shutdown.target
Conflicts=shutdown.target

[Service]
Type=oneshot
TimeoutStartSec=120
ExecStart=%(command)s
"""


def has_systemd():
    """Tell whether systemd runs, which can finish a transaction alone.

    In an image that is being built nothing runs.
    """
    return os.path.isdir(RUNNING)


def find_later_python():
    """Return the interpreter for what runs later, with no caller present.

    It is ours, unless another account may change it; then the system's. Raise HostError if none can
    be trusted.
    """
    doubts = []
    for place in ([sys.executable] if sys.executable else []) + list(PYTHONS):
        doubt = trust.judge_program("", place)
        if doubt is None:
            return place
        doubts.append((place, doubt))
    raise trust.build_untrusted_error(*doubts[0])


def build_later_command(program, verb, base, *words):
    """Build the call of the program on disk. -I, -S: only the standard library is imported,
    whatever else is there.
    """
    return [find_later_python(), "-I", "-S", "-c", _LOAD, program, verb, base] + list(words)


def write_unit_command(argv):
    """Write a command as systemd reads it (systemd.service(5), "Command lines"): its quotes, its
    escapes, and no variables.
    """
    return " ".join(map(quote_word, escape_variables(argv)))


def escape_variables(argv):
    """Return the words so that systemd puts no variables in. It puts none in the path of the
    program.
    """
    return argv[:1] + [word.replace("$", "$$") for word in argv[1:]]


def quote_word(word):
    """Write a word as systemd reads it (systemd.syntax(7))."""
    if _PLAIN.match(word):
        return word
    return "'%s'" % word.replace("\\", "\\\\").replace("'", "\\'")


def compute_time_limit(request):
    """Return how long a transaction may take, there and back, if every step needs all of its time."""
    forth = sum(
        check.get("timeout", health.READS_WITHIN) * (2 if check.get("baseline") else 1)
        for check in request.get("validate") or []
    )
    forth += sum(
        entry.get("timeout", health.ENDS_WITHIN) for entry in request.get("commands_before") or []
    )
    forth += sum(
        entry.get("undo_within") or health.ENDS_WITHIN
        for entry in request.get("commands_before") or []
        if entry.get("undo")
    )
    back = sum(unit.get("timeout", health.DEFAULT_TIMEOUT) for unit in request.get("units") or [])
    back += sum(check.get("timeout", health.SERVES_WITHIN) for check in request.get("health") or [])
    back += health.DEFAULT_TIMEOUT * len(request.get("disable") or [])
    return int(forth + 2 * back + request.get("probation", 0) + MARGIN)


def arm(base, request, program):
    """Start the timer: from here on the host takes the transaction back by itself, whatever becomes
    of the executor.
    """
    timer = [
        "--unit=" + _name_timer(request["id"]),
        "--on-active=%ds" % compute_time_limit(request),
        "--timer-property=AccuracySec=1s",
    ]
    start_transient_unit(
        "the timer that rolls the change back cannot be armed",
        timer,
        build_later_command(program, "undo", base, request["id"]),
    )


def start_transient_unit(lacking, options, argv):
    """Give systemd a transient unit. Raise HostError if it does not take it.

    lacking: what the host then goes without, for the message.
    """
    try:
        answer = commands.decode_answer(
            commands.run(
                ["systemd-run", "--quiet"] + options + ["--"] + escape_variables(argv), timeout=30
            )
        )
    except host_files.HostError as exc:
        step = "Nothing was changed; install systemd-run (of the package systemd), then run again"
        raise host_files.HostError(exc.kind, "%s: %s" % (lacking, exc.message), step)
    if answer["rc"] != 0:
        said = (
            "no end within 30 s"
            if answer["timed_out"]
            else failures.extract_systemd_words(answer["stderr"]) or "exit status %s" % answer["rc"]
        )
        raise host_files.HostError("failed", "%s: systemd-run: %s" % (lacking, said))


def arm_boot(base, program):
    """Write the boot's unit: from here on the next boot takes the transaction back.

    Not sooner: scripts of packages make systemd read its units again.
    """
    written = {
        "base": quote_word(base),
        "command": write_unit_command(build_later_command(program, "boot", base)),
    }
    text = _BOOT % {name: words.replace("%", "%%") for name, words in written.items()}
    journal_writer.make_durable_dirs(os.path.join(UNITS, WANTS), 0o755)
    journal_writer.write_durably(os.path.join(UNITS, BOOT_UNIT), text.encode("utf-8"), 0o644)
    link = os.path.join(UNITS, WANTS, BOOT_UNIT)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(link)
    os.symlink(os.path.join(UNITS, BOOT_UNIT), link)
    journal_writer.sync_directory(os.path.dirname(link))


def cancel_timer(_base, meta):
    """End the watch: the transaction is over. A timer that stays armed finds nothing to do."""
    if not meta.get("guarded"):
        return
    cancel_boot_unit()
    with contextlib.suppress(host_files.HostError):
        commands.run(["systemctl", "stop", _name_timer(meta["id"]) + ".timer"], timeout=15)


def cancel_boot_unit():
    """Remove the unit that would undo the transaction at the next boot."""
    for path in (os.path.join(UNITS, WANTS, BOOT_UNIT), os.path.join(UNITS, BOOT_UNIT)):
        with contextlib.suppress(OSError):
            os.unlink(path)
            journal_writer.sync_directory(os.path.dirname(path))


def name_transaction_unit(token):
    """Name the unit that a transaction runs in."""
    return "gpufleet-%s.service" % token


def _name_timer(token):
    return "gpufleet-undo-" + token
