# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A capture: a machine with GPUs as one scrubbed document, which tests/lab/recorded.py reads.

It is a file of recorded nodes, with one node, and beside the record what the machine answered:
`seen`, the answers to the collection's look, and `nvidia_ctk`, the specs that nvidia-ctk made there.
Standard library only, Python 3.6.
"""

import json

from tests.gpu import scrub

SCHEMA = 2
ADDRESSING = {0: "none", 1: "HMM", 2: "ATS"}
STATES = {0: "Not Supported", 1: "Not Started", 2: "In Progress", 3: "Completed"}
# What a look says of this moment or of this machine alone, with the value that a capture has.
TIMES = {"epoch": 0, "boot_id": "", "hostname": "host"}
NUMBERS = ("mtime", "ino", "dev")  # of a file; 0 in a capture
DIGEST = "sha256"  # of the text before it was scrubbed, so a capture has none
NAMED_BY = {"owner": "uid", "group": "gid"}
DOUBT = "another account can change it"
# What tells one distribution from another (os-release(5)). An image may have any other key.
DISTRIBUTION = (
    *("ID", "ID_LIKE", "NAME", "PLATFORM_ID", "PRETTY_NAME", "UBUNTU_CODENAME", "VARIANT_ID"),
    *("VERSION", "VERSION_CODENAME", "VERSION_ID"),
)


class BadCapture(ValueError):
    """A file that is not a capture: a code, and one sentence."""

    def __init__(self, code, sentence):
        super(BadCapture, self).__init__(sentence)
        self.code, self.sentence = code, sentence


def read(text, name="the capture"):
    """Return the document of a capture. Raise BadCapture if it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise BadCapture("truncated", "%s is no whole JSON document: %s." % (name, exc))
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        schema = found.get("schema") if isinstance(found, dict) else None
        raise BadCapture(
            "other-schema", "%s is of schema %r, and this reads schema %d." % (name, schema, SCHEMA)
        )
    nodes = found.get("nodes")
    if not isinstance(nodes, dict) or len(nodes) != 1:
        raise BadCapture("no-node", "%s has no node." % name)
    for of, record in nodes.items():
        if not isinstance(record, dict) or not of.isprintable():
            raise BadCapture("no-node", "%s has no node: its record or its name is none." % name)
        check_gpus(record, name)
    return found


def take(found, key, kind):
    """Return what a document has at a key, and an empty value if it is of another kind."""
    value = found.get(key) if isinstance(found, dict) else None
    return value if isinstance(value, kind) else kind()


def check_gpus(record, name):
    """Raise BadCapture if the answers name a GPU that the record does not have."""
    known = {take(gpu, "bus", str) for gpu in take(record, "gpus", list)} - {""}
    answers = take(take(record, "seen", dict), "answers", dict)
    probed = [take(answers[key], "value", dict) for key in answers if key.startswith("probe:")]
    named = {take(gpu, "bus_id", str) for value in probed for gpu in take(value, "gpus", list)}
    if named - known:
        raise BadCapture(
            "unknown-gpu",
            "%s has answers of a GPU at %s, which its record does not have."
            % (name, ", ".join(map(ascii, sorted(named - known)))),
        )


def build(found, seen, source):
    """Return the capture of a measurement, not scrubbed yet. Raise BadCapture if what was found does
    not make one. seen: the host and the answers of the look by which specs were made.
    """
    own, more, specs = (found.get(name) or {} for name in ("own", "more", "specs"))
    if not own.get("gpus") or not more.get("gpus") or not seen:
        raise BadCapture(
            "no-capture",
            "A capture is made of NVML's answers and of the specs, and one of them is missing.",
        )
    host, answers = dict(seen["host"], **TIMES), drop_times(seen["answers"])
    release = host.get("os_release") or {}
    host["os_release"] = {key: release[key] for key in DISTRIBUTION if key in release}
    gpus = [build_gpu(*pair) for pair in zip(own["gpus"], more["gpus"])]
    record = {
        "source": source,
        "from": "node",
        "cpu": host["machine"],
        "modules": "open" if is_open(answers) else "proprietary",
        "driver": own["driver"],
        "cuda": "%d.%d" % (more["cuda"] // 1000, more["cuda"] % 1000 // 10),
        "errors": more["refused"],
        "gpus": gpus,
        "seen": {"host": host, "answers": answers},
    }
    theirs = {
        mode: one["theirs"] for mode, one in specs.get("compared", {}).items() if "theirs" in one
    }
    if theirs:
        record["nvidia_ctk"] = dict(theirs, version=specs["ctk"])
    return {"schema": SCHEMA, "nodes": {name_node(record): record}}


def drop_times(found):
    """Return answers without what differs from boot to boot and from file to file, and without
    names of accounts.
    """
    if isinstance(found, dict):
        kept = {key: 0 if key in NUMBERS else drop_times(found[key]) for key in found}
        kept.update((DIGEST, None) for key in found if key == DIGEST)
        kept.update((key, DOUBT) for key in found if key == "untrusted" and found[key])
        kept.update(
            (name, scrub.ACCOUNTS)
            for name, number in NAMED_BY.items()
            if name in found and take(found, number, int) >= scrub.PEOPLE
        )
        return kept
    return [drop_times(one) for one in found] if isinstance(found, list) else found


def build_gpu(own, more):
    gpu = {
        "bus": own["bus"],
        "minor": own["minor"],
        "model": own["name"],
        "pci_id": more["pci_id"],
        "mib": more["mib"],
        "mig": {True: "on", False: "off"}.get(own["mig"], "-"),
        "addressing": ADDRESSING.get(more.get("addressing", 0), "none"),
    }
    if own["places"]:
        gpu["migs"] = own["places"]
    fabric = more.get("fabric") or {}
    if fabric.get("state"):
        gpu["fabric"] = {
            "state": STATES[fabric["state"]],
            "status": fabric["status"],
            "clique": fabric["clique"],
            "cluster": int(fabric["cluster"]),
            "mask": fabric["health"],
        }
    return gpu


def is_open(answers):
    version = answers.get("file:/proc/driver/nvidia/version") or {}
    return "Open Kernel Module" in (version.get("content") or "")


def name_node(record):
    """Return a name for the machine: its first GPU's model, and the driver."""
    model = record["gpus"][0]["model"].lower().replace("nvidia ", "").replace(" ", "-")
    return "%s-%s" % (model, record["driver"])


def render(document):
    return json.dumps(document, indent=1, sort_keys=True) + "\n"
