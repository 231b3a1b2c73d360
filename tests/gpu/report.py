# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report of a measurement: what was checked, with which result, and how the program ends.

Standard library only, Python 3.6.
"""

SCHEMA = 1
SAME, DIFFERS, FAILED, SKIPPED = "same", "differs", "failed", "skipped"
# Exit statuses. An error that ends the program before it writes a report has a sentence of its own.
STATUSES = {
    SAME: 0,
    DIFFERS: 1,
    "usage": 2,
    "other-schema": 2,
    "truncated": 2,
    "no-node": 2,
    "unknown-gpu": 2,
    "no-file": 2,
    "untrusted": 2,
    "no-driver": 3,
    "not-root": 4,
    "timeout": 5,
    FAILED: 6,
    "not-scrubbed": 7,
    "not-put-back": 8,
    "interrupted": 9,
    "not-written": 10,
}
FIELDS = {
    "schema": int,
    "tool": str,
    "result": str,
    "machine": dict,
    "checks": list,
    "found": dict,
}
OF_CHECK = {"name": str, "result": str, "code": str, "sentence": str, "seconds": float}


def check_shape(document):
    """Return what of a report is not as its schema has it, as sentences."""
    wrong = [
        "%s is missing or no %s" % (key, kind.__name__)
        for key, kind in FIELDS.items()
        if not isinstance(document.get(key), kind)
    ]
    for check in document.get("checks") or ():
        wrong += [
            "%s of a check is missing or no %s" % (key, kind.__name__)
            for key, kind in OF_CHECK.items()
            if not isinstance(check.get(key), kind)
        ]
    return wrong


class Report(object):
    """The checks in their order."""

    def __init__(self, tool):
        self.tool, self.checks = tool, []

    def add(self, name, result, sentence, seconds=0.0, code=""):
        self.checks.append(
            {
                "name": name,
                "result": result,
                "code": code,
                "sentence": sentence,
                "seconds": round(float(seconds), 2),
            }
        )

    def get_outcome(self):
        """Return the worst of all: a code of STATUSES."""
        for code in ("not-put-back", "interrupted", "timeout"):
            if any(check["code"] == code for check in self.checks):
                return code
        results = {check["result"] for check in self.checks}
        return FAILED if FAILED in results else DIFFERS if DIFFERS in results else SAME

    def build(self, machine, found):
        return {
            "schema": SCHEMA,
            "tool": self.tool,
            "result": self.get_outcome(),
            "machine": machine,
            "checks": self.checks,
            "found": found,
        }

    def render(self, machine):
        """Return the summary for people."""
        lines = ["%s: %s" % (key, machine[key]) for key in sorted(machine) if machine[key]]
        width = max([len(check["name"]) for check in self.checks] or [0])
        lines += [""] + [
            "%-8s %-*s %6.2f s  %s"
            % (check["result"], width, check["name"], check["seconds"], check["sentence"])
            for check in self.checks
        ]
        return "\n".join(line.rstrip() for line in lines) + "\n"
