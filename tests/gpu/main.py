# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure this machine: look, ask NVML, make specs, enter a container of each, write a report.

Reads only, unless --change is given. Writes report.json and capture.json, both scrubbed.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import host_files, trust

from tests.gpu import capture, device_rules, nvml_sources, report, scrub, steps

PROGRAM = os.path.abspath(sys.argv[0])
DRIVER = "/proc/driver/nvidia/version"
CTK = "/usr/bin/nvidia-ctk"
PLANNER = (3, 10)
# Seconds of all steps together, and of each step.
WHOLE = 440
LIMITS = {
    "look": 60,
    "identity": 20,
    "own": 30,
    "more": 30,
    "pynvml": 30,
    "nvidia-smi": 30,
    "specs": 120,
    "isolated": 45,
}
# The containers that the program becomes in turn: the spec by its name in specs.KINDS, and the name
# of the device that the container asks for.
INSIDE = (
    ("full", "0"),
    ("full", "all"),
    ("hookless", "all"),
    ("devices", "all"),
    ("management", "all"),
)
NO_LIBRARIES = ("devices",)
REFUSED = ("EPERM", "EACCES")
GROUPS = "gpufleet-gpu-"  # what control groups are called, before process and number


class Interrupted(Exception):
    """Somebody ends the program."""


class Ended(Exception):
    """The program ends before it has a report: a code of report.STATUSES, and one sentence."""

    def __init__(self, code, sentence):
        super(Ended, self).__init__(sentence)
        self.code, self.sentence = code, sentence


# ---------------------------------------------------------------- steps, each in a child


def run_step(name):
    """Run one step: its request is on stdin, its answer is printed."""
    steps.bind_children()
    request = json.loads(sys.stdin.read() or "{}")
    sys.stdout.write(json.dumps(find_step(name)(request)) + "\n")


def find_step(name):
    """Return the function of a step. Only then is imported what it needs."""
    if name == "look":
        from tests.gpu import look

        return look.answer
    if name == "isolated":
        from tests.gpu import isolated

        return isolated.run
    if name == "specs":
        from tests.gpu import specs

        return specs.run
    return {
        "identity": lambda _request: scrub.list_secrets(),
        "own": nvml_sources.ask_own,
        "more": nvml_sources.ask_more,
        "pynvml": nvml_sources.ask_pynvml,
    }[name]


class Measurement(object):
    """The steps in their order, what each answered, and the report."""

    def __init__(self, given, tool):
        self.given, self.clock = given, steps.Clock(WHOLE)
        self.report = report.Report(tool)
        self.found, self.seen, self.hangs = {}, {}, ""

    def step(self, name, kind, request=None):
        """Run a step, and return its answer; None if it failed, which is reported. Once the driver
        has kept a step waiting beyond its limit, no other step is run.
        """
        if self.hangs:
            self.report.add(name, report.SKIPPED, "The driver hangs: see %s." % self.hangs)
            return None
        began = time.monotonic()
        try:
            seconds = self.clock.share(LIMITS[kind])
            answer = steps.call(PROGRAM, kind, seconds, request, make_environment(kind))
        except steps.Failed as exc:
            self.report.add(name, report.FAILED, exc.sentence, time.monotonic() - began, exc.code)
            self.hangs = name if exc.code == "timeout" else ""
            return None
        self.took = time.monotonic() - began
        return answer

    def run(self):
        """Measure, and return what was found."""
        looked = self.look()
        self.ask_sources()
        if not looked:
            return self.found
        if sys.version_info < PLANNER:
            told = "Specs need Python %d.%d, and this is %d.%d." % (PLANNER + sys.version_info[:2])
            self.report.add("specs", report.SKIPPED, told)
            return self.found
        ctk = self.find_ctk()
        made = self.step("specs", "specs", {"answer": looked["answer"], "ctk": ctk})
        if made:
            self.found["specs"] = {key: made[key] for key in made if key not in ("host", "answers")}
            self.seen = {key: made[key] for key in ("host", "answers")}
            self.judge_specs(made, ctk)
            self.enter_each(made)
        if self.given.change:
            self.change()
        else:
            self.tell_left_changes()
        return self.found

    def look(self):
        """Look as a run for the whole host does, and as one for a CDI spec does."""
        for name in ("host", "driver"):
            looked = self.step("look at the " + name, "look", {"of": name})
            if looked:
                count = len(looked["answer"]["answers"])
                told = "%d questions are answered." % count
                self.report.add("look at the " + name, report.SAME, told, looked["seconds"])
                self.found["look " + name] = {"questions": count, "seconds": looked["seconds"]}
        return looked

    def find_ctk(self):
        """Return the path of nvidia-ctk, "" if there is none, or none that root may run."""
        wanted = self.given.nvidia_ctk or (CTK if os.path.exists(CTK) else "")
        try:
            return steps.find_program(wanted) if wanted else ""
        except steps.Failed as exc:
            self.report.add("nvidia-ctk is run", report.FAILED, exc.sentence, 0, exc.code)
            return ""

    # ------------------------------------------------------------ NVML

    def ask_sources(self):
        own = self.step("NVML", "own")
        if own is None:
            return
        self.found["own"] = own
        if own["errors"] or not own["gpus"]:
            first = own["errors"][0] if own["errors"] else {"call": "NVML", "message": "no GPU"}
            told = "%s: %s." % (first["call"], first["message"])
            self.report.add("NVML", report.FAILED, told, self.took, "nvml")
            return
        told = "%d GPUs, driver %s." % (len(own["gpus"]), own["driver"])
        self.report.add("NVML", report.SAME, told, self.took)
        more = self.step("NVML, more", "more")
        if more:
            self.found["more"] = more
        self.compare_source("pynvml", self.step("pynvml", "pynvml"))
        self.compare_source("nvidia-smi", self.ask_smi())

    def ask_smi(self):
        began = time.monotonic()
        try:
            seconds = self.clock.share(LIMITS["nvidia-smi"])
            command = ["nvidia-smi"] + nvml_sources.SMI_QUERY
            status, table, errors = steps.run(command, seconds)
            _status, listed, _errors = steps.run(["nvidia-smi", "-L"], seconds)
            if status:
                last = ((table + errors).strip().splitlines() or ["it says nothing"])[-1]
                raise steps.Failed("failed", "nvidia-smi ended with %d: %s" % (status, last))
        except steps.Failed as exc:
            if exc.code == "not-started":
                return {"absent": "there is no nvidia-smi"}
            self.report.add(
                "nvidia-smi", report.FAILED, exc.sentence, time.monotonic() - began, exc.code
            )
            self.hangs = "nvidia-smi" if exc.code == "timeout" else ""
            return None
        self.took = time.monotonic() - began
        try:
            return nvml_sources.read_smi(table, listed)
        except ValueError:
            told = "nvidia-smi printed another table than it was asked for."
            self.report.add("nvidia-smi", report.FAILED, told, self.took, "other-table")
            return None

    def compare_source(self, name, answer):
        """Report how a source differs from our probe."""
        if answer is None:
            return
        if "absent" in answer:
            self.report.add(name, report.SKIPPED, "It is not asked: %s." % answer["absent"])
            return
        differs = nvml_sources.compare(self.found["own"], answer)
        self.found[name] = answer
        told = ", ".join("%s is %r, and %r by the probe" % (f, b, a) for f, a, b in differs)
        self.report.add(
            name,
            report.DIFFERS if differs else report.SAME,
            told + "." if told else "It tells the same as the probe.",
            self.took,
        )

    def list_gpus(self):
        return (self.found.get("own") or {}).get("gpus") or []

    def count_gpus(self):
        return len(self.list_gpus())

    # ------------------------------------------------------------ specs

    def judge_specs(self, made, ctk):
        for kind, one in sorted(made["specs"].items()):
            count = len(one["spec"]["devices"])
            told = "%d devices." % count if count else "Nothing of this kind is there."
            if one["missing"]:
                told = "Nodes are missing: %s." % ", ".join(one["missing"])
            result = report.DIFFERS if one["missing"] else report.SAME
            self.report.add("spec " + kind, result, told, one["seconds"])
        if not ctk:
            self.report.add("nvidia-ctk", report.SKIPPED, "It is not here: see --nvidia-ctk.")
        for kind, one in sorted(made["compared"].items()):
            self.judge_comparison("nvidia-ctk, " + kind, one, made["ctk"])

    def judge_comparison(self, name, one, version):
        if "failed" in one:
            self.report.add(name, report.FAILED, one["failed"], 0, "nvidia-ctk")
            return
        differs = one["differences"].get("", [])
        intended = sorted(topic for topic in one["differences"] if topic)
        told = "As %s, but for intended: %s." % (version, ", ".join(intended) or "nothing")
        if differs:
            facts = ("%s %s %s" % (side, kind, "/".join(value[:2]))
                     for side, _device, kind, value in differs[:3])  # fmt: skip
            told = "%d facts differ from %s: %s." % (len(differs), version, "; ".join(facts))
        self.report.add(name, report.DIFFERS if differs else report.SAME, told)

    # ------------------------------------------------------------ being a container

    def enter_each(self, made):
        hidden = [
            entry["path"]
            for key, answer in made["answers"].items()
            if key.startswith("paths:driver files")
            for entry in answer.get("files") or ()
        ]
        there = list_nodes(made["answers"])
        self.found["isolated"] = {}
        for number, (kind, device) in enumerate(INSIDE):
            spec = made["specs"][kind]["spec"]
            if device in [entry["name"] for entry in spec["devices"]]:
                group = "%s%d-%d" % (GROUPS, os.getpid(), number)
                request = {"spec": spec, "device": device, "hidden": hidden, "group": group}
                self.enter(kind, device, request, there)

    def enter(self, kind, device, request, there):
        name = "inside %s=%s" % (kind, device)
        mine = list_given_nodes(request["spec"], device)
        request["others"] = [entry for entry in there if entry[0] not in mine]
        try:
            inside = self.step(name, "isolated", request)
        finally:
            gone = remove_group(request["group"])
        if not inside:
            return
        if "refused" in inside:
            told = "No container is made: %s." % inside["refused"]
            self.report.add(name, report.SKIPPED, told, self.took, "no-container")
            return
        self.found["isolated"]["%s=%s" % (kind, device)] = inside
        if inside["rules"]:
            told = "Other nodes are not tried: %s." % inside["rules"]
            self.report.add(name + ", others", report.SKIPPED, told, 0, "no-device-rules")
        wrong = list(judge_inside(inside, mine, self.count_gpus(), kind))
        if not gone:
            wrong.append("the control group %s is left" % request["group"])
        told = "; ".join(wrong) + "." if wrong else describe_inside(inside, kind)
        self.report.add(name, report.DIFFERS if wrong else report.SAME, told, self.took)

    # ------------------------------------------------------------ --change

    def change(self):
        """Change modes and start MPS, and put everything back whatever happens."""
        from tests.gpu import changing

        if self.hangs:
            self.report.add("changes", report.SKIPPED, "The driver hangs: see %s." % self.hangs)
            return
        try:
            with changing.take_turn():
                left = changing.Change(steps.run, changing.read_notes(), left=True)
                if left.begun and not self.put_back(left, "put back what was left"):
                    return
                self.make_changes(changing)
        except steps.Failed as exc:
            self.report.add("changes", report.FAILED, exc.sentence, 0, exc.code)

    def tell_left_changes(self):
        """Report what a measurement that was killed has changed."""
        try:
            from tests.gpu import changing

            left = changing.read_notes()
        except (ImportError, SyntaxError):  # of a Python that is too old to change anything
            return
        except steps.Failed as exc:
            self.report.add("left changes", report.FAILED, exc.sentence, 0, exc.code)
            return
        if left:
            told = (
                "A measurement that was killed has left %d changes. --change puts them back first."
            )
            self.report.add("left changes", report.FAILED, told % len(left), 0, "not-put-back")

    def make_changes(self, changing):
        change = changing.Change(steps.run)
        folder = tempfile.mkdtemp(prefix=changing.FOLDER)
        try:
            if change.ask(changing.IN_USE).strip():
                self.report.add("changes", report.SKIPPED, "Programs use the GPUs.", 0, "in-use")
                return
            gpus = [gpu["uuid"] for gpu in self.list_gpus()]
            for name, make in changing.list_changes(change, gpus, folder):
                self.try_change(name, make)
        except steps.Failed as exc:
            self.report.add("changes", report.FAILED, exc.sentence, 0, exc.code)
        finally:
            if self.put_back(change, "put back"):  # else a daemon may still be asked there to end
                shutil.rmtree(folder, ignore_errors=True)

    def try_change(self, name, make):
        began = time.monotonic()
        try:
            told, result, code = make(), report.SAME, ""
        except steps.Failed as exc:
            told, code = exc.sentence, exc.code
            result = report.DIFFERS if code == report.DIFFERS else report.FAILED
        self.report.add(name, result, told + ".", time.monotonic() - began, code)

    def put_back(self, change, name):
        """Put everything back, and report it. Return whether that went well."""
        with EndingSignalsIgnored():
            troubles = list(change.put_back())
        told = "; ".join(troubles) if troubles else "Everything is as it was"
        self.report.add(
            name,
            report.FAILED if troubles else report.SAME,
            told + ".",
            0,
            "not-put-back" if troubles else "",
        )
        return not troubles


def make_environment(kind):
    """Return the environment of a step. In a container of a spec the loader finds only what the
    spec gives.
    """
    if kind != "isolated":
        return None
    drop = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "LD_PRELOAD")
    return {key: value for key, value in os.environ.items() if key not in drop}


def list_nodes(answers):
    """Return the driver's nodes on the host as [path, major, minor]."""
    found = [
        [entry["path"]] + list(entry["rdev"])
        for key, answer in answers.items()
        if key.startswith("glob:/dev/nvidia")
        for entry in answer.get("files") or ()
        if entry.get("type") == "char" and entry.get("rdev")
    ]
    return sorted(found)


def list_given_nodes(spec, device):
    edits = [spec.get("containerEdits") or {}]
    edits += [entry["containerEdits"] for entry in spec["devices"] if entry["name"] == device]
    return sorted({node["path"] for part in edits for node in part.get("deviceNodes") or ()})


def judge_inside(inside, mine, gpus, kind):
    """Yield each fault of a container of a spec, in words.

    inside: the answer of isolated.run. mine: the paths of the nodes that the spec gives. gpus: how
    many GPUs NVML has to have there. kind: of the spec.
    """
    shut = ["%s (%s)" % (path, error) for path, error in inside["nodes"] if error]
    if shut:
        yield "these nodes cannot be opened: " + ", ".join(shut)
    if inside["before"] != mine:
        yield "there are %s in place of %s" % (", ".join(inside["before"]), ", ".join(mine))
    open_ = [path for path, error in inside["others"] if error not in REFUSED]
    if open_ and not inside["rules"]:
        yield "these nodes of the host can be opened: " + ", ".join(open_)
    if kind in NO_LIBRARIES:
        return
    found = inside["nvml"]
    if len(found["gpus"]) != gpus:
        errors = ", ".join("%s: %s" % (e["call"], e["message"]) for e in found["errors"])
        yield "NVML has %d GPUs in place of %d (%s)" % (len(found["gpus"]), gpus, errors or "-")
    cuda = inside["cuda"]
    if cuda.get("code") or "error" in cuda:
        yield "cuInit ends with %s" % (cuda.get("code") or cuda["error"])


def describe_inside(inside, kind):
    told = "%d nodes open" % len(inside["nodes"])
    told += "" if inside["rules"] else ", others are refused"
    made = sorted(set(inside["after"]) - set(inside["before"]))
    if kind not in NO_LIBRARIES:
        count = len(inside["nvml"]["gpus"])
        told += "; NVML has %d GPUs, CUDA %d" % (count, inside["cuda"]["count"])
    if made:
        told += "; the driver's libraries made " + ", ".join(made)
    return told + "."


def remove_group(name):
    """Remove a control group. The kernel keeps it for a moment after its last process."""
    for _try in range(20):
        if device_rules.remove(name):
            return True
        # The pause between two tries, one second in all: rmdir(2) refuses a group at once, and
        # cgroup.events tells that it has no process, but not that the kernel has let go of it.
        time.sleep(0.05)
    return False


def remove_left_groups():
    """Remove the control groups of measurements whose process was killed."""
    for name in device_rules.list_groups(GROUPS):
        process = name[len(GROUPS) :].partition("-")[0]
        if process.isdigit() and not os.path.exists("/proc/" + process):
            device_rules.remove(name)


class EndingSignalsIgnored(object):
    """Ignore the signals that would end the program, while it puts back or writes."""

    def __enter__(self):
        self.before = {s: signal.signal(s, signal.SIG_IGN) for s in ENDING}

    def __exit__(self, *_error):
        for number, handler in self.before.items():
            signal.signal(number, handler)


ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def interrupt(number, _frame):
    raise Interrupted("Signal %d ended the measurement" % number)


# ---------------------------------------------------------------- the whole


def parse(arguments):
    parser = argparse.ArgumentParser(prog="gpufleet-gpu", description=__doc__)
    parser.add_argument("--step", help=argparse.SUPPRESS)
    parser.add_argument("--nvidia-ctk", metavar="PATH", default="", help="compare with this one")
    parser.add_argument("--output", metavar="FOLDER", default=".", help="for report and capture")
    parser.add_argument(
        "--change",
        action="store_true",
        help="on a machine of your own: try compute modes, time slices and MPS, and put them back",
    )
    parser.add_argument("--check", metavar="CAPTURE", help="only read a capture")
    return parser.parse_args(arguments)


def check_machine():
    """Raise Ended if this machine cannot be measured."""
    if os.geteuid() != 0:
        raise Ended("not-root", "Run it as root: namespaces and device nodes need that.")
    if not os.path.exists(DRIVER):
        raise Ended("no-driver", "No NVIDIA driver is loaded here: there is no %s." % DRIVER)


def check_capture(path):
    try:
        with open(path, encoding="utf-8") as handle:
            found = capture.read(handle.read(), path)
    except (OSError, UnicodeDecodeError) as exc:
        raise Ended("no-file", "%s cannot be read: %s." % (path, exc))
    except capture.BadCapture as exc:
        raise Ended(exc.code, exc.sentence)
    return "%s is a capture of %s.\n" % (path, ", ".join(found["nodes"]))


def get_tool():
    from tests.gpu import look

    return json.loads(look.read_own_text("version.json"))["tool"]


def describe_machine(found):
    own = found.get("own") or {}
    gpus = own.get("gpus") or []
    return {
        "kernel": os.uname()[2],
        "python": "%d.%d.%d" % sys.version_info[:3],
        "driver": own.get("driver", ""),
        "gpus": "%d x %s" % (len(gpus), gpus[0]["name"]) if gpus else "",
    }


def write(folder, name, document, secrets):
    """Write a document, scrubbed. Raise Ended if it still has what only this machine has."""
    names = scrub.list_names()
    words = (scrub.NAMES, scrub.ACCOUNTS)
    others = [t for kind, texts in secrets.items() if kind not in words for t in texts]
    accounts = secrets.get(scrub.ACCOUNTS) or ()
    text = capture.render(scrub.blanked(document, names, others, accounts))
    left = scrub.find_left(text, secrets)
    if left:
        told = "%s is not written: it still has a %s of this machine." % (name, ", a ".join(left))
        raise Ended("not-scrubbed", told)
    path = os.path.join(folder, name)
    spare = path + ".new"
    try:
        with open(spare, "w", encoding="utf-8") as handle:
            handle.write(text)
        os.rename(spare, path)
    except OSError as exc:
        raise Ended("not-written", "%s cannot be written: %s." % (path, exc.strerror))
    return path


def make_folder(folder):
    """Make the folder of report and capture. Raise Ended if another account could have led us to
    it, or could put links into it: root would write where they lead.
    """
    try:
        os.makedirs(folder, exist_ok=True)
        doubt = trust.judge_path("", os.path.abspath(folder))
    except OSError as exc:
        raise Ended("not-written", "%s cannot be made: %s." % (folder, exc.strerror))
    except host_files.HostError as exc:
        raise Ended("untrusted", "%s." % exc.message)
    if doubt:
        raise Ended("untrusted", "%s %s. %s." % (doubt.place, doubt.why, doubt.remedy))


def measure(given):
    """Measure, write, print, and return the code of the outcome."""
    check_machine()
    make_folder(given.output)
    remove_left_groups()
    measured = Measurement(given, get_tool())
    secrets = measured.step("identity", "identity") or scrub.list_secrets_without_driver()
    for number in ENDING:
        signal.signal(number, interrupt)
    try:
        measured.run()
    except Interrupted as exc:
        measured.report.add("measurement", report.FAILED, "%s." % exc, 0, "interrupted")
    except Exception as exc:  # what was found until then is worth a report
        told = "This program failed: %s: %s." % (type(exc).__name__, exc)
        measured.report.add("measurement", report.FAILED, told, 0, "fault")
    with EndingSignalsIgnored():
        machine = describe_machine(measured.found)
        written = []
        try:
            document = capture.build(
                measured.found, measured.seen, "make gpu of " + measured.report.tool
            )
            written.append(write(given.output, "capture.json", document, secrets))
        except capture.BadCapture as exc:
            measured.report.add("capture", report.SKIPPED, exc.sentence, 0, exc.code)
        except (KeyError, TypeError, ValueError) as exc:  # of a driver that answers in another way
            told = "No capture was made: %s: %s." % (type(exc).__name__, exc)
            measured.report.add("capture", report.FAILED, told, 0, "fault")
        document = measured.report.build(machine, measured.found)
        written.append(write(given.output, "report.json", document, secrets))
    sys.stdout.write(measured.report.render(machine) + "\n" + "".join(p + "\n" for p in written))
    return measured.report.get_outcome()


def main(arguments):
    given = parse(arguments)
    if given.step:
        run_step(given.step)
        return 0
    try:
        if given.check:
            sys.stdout.write(check_capture(given.check))
            return 0
        return report.STATUSES[measure(given)]
    except Ended as exc:
        sys.stderr.write("gpufleet-gpu: %s: %s\n" % (exc.code, exc.sentence))
        return report.STATUSES[exc.code]
