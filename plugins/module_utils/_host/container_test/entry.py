# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verify what containers get: start them, and let a shell in each try to open device nodes.

A plain program. Containers are started through the runtime's own socket. The request contains what
to start, which nodes to expect and which must be refused; nothing here knows a vendor. The program
stops and removes its sandboxes in every case. Host side: Python 3.6, standard library.
"""

import glob
import os
import re
import shutil
import stat
import tempfile
import time
import uuid

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    causes,
    commands,
    failures,
    host_files,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.container_test.cri_messages import (
    MESSAGES,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.container_test.http_api import (
    FailedCase,
    HttpEngine,
    describe_container_end,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.rpc import cri, grpc_wire

RUNTIME, IMAGES = "runtime.v1.RuntimeService", "runtime.v1.ImageService"
LABEL = "gpufleet-check"
LEFT_OVER_AFTER = 900  # seconds; our sandbox older than this belongs to a check that was killed
NOT_FOUND = 5  # gRPC status code
TRIES = 3
# A kubelet stops sandboxes that it does not know each two seconds (HandlePodCleanups). It kills the
# container first, and the sandbox ends a moment later.
TAKEN_TRIES, TAKEN_SECONDS = 6, 2.0
SANDBOX_READY = 0  # api.proto: PodSandboxState

NAMESPACE_CONTAINER, NAMESPACE_NODE = 1, 2

# Runs in the container: $1 = patterns of nodes to list, then path, major, minor of every node of
# interest. A node that is not there is made, since a container that may not see a node must not be
# able to open one that it makes either. /dev, because nothing else in a container is sure to be
# mounted without `nodev`. Answers lines of kind|path|message.
SCRIPT = r"""
LC_ALL=C; export LC_ALL
for node in $1; do if [ -c "$node" ] || [ -b "$node" ]; then echo "listed|$node|"; fi; done
shift
while [ $# -ge 3 ]; do
  node=$1 kind=there
  if [ ! -e "$1" ]; then
    node=/dev/.gpufleet-check kind=made
    rm -f "$node"
    if ! said=$(mknod "$node" c "$2" "$3" 2>&1); then echo "unmade|$1|$said"; shift 3; continue; fi
  fi
  if said=$( ( : < "$node" ) 2>&1 ); then said=ok; fi
  echo "$kind|$1|$said"
  if [ $kind = made ]; then rm -f "$node"; fi
  shift 3
done
"""
# A shell's words for a failed open, in any shell: busybox, dash and bash add their own words around
# them.
ERRNOS = (
    ("no such device or address", "ENXIO"),
    ("operation not permitted", "EPERM"),
    ("permission denied", "EACCES"),
    ("input/output error", "EIO"),
    ("mknod: not found", "mknod: not found"),
    ("no such device", "ENODEV"),
    ("resource busy", "EBUSY"),
)
# The container may open the node. All but "ok" come from behind the gate: no driver answers, or it
# is busy.
OPENED = ("ok", "ENXIO", "EIO", "ENODEV", "EBUSY")


# --- messages
# --------------------------------------------------------------------------------------------------


def encode_message(name, values):
    """Return the bytes of a message from a dictionary.

    Empty and zero values are left out; an empty dictionary is an empty message.
    """
    return grpc_wire.encode_fields(_list_fields(name, values))


def _list_fields(name, values):
    fields = []
    for key, value in sorted(values.items(), key=lambda item: MESSAGES[name][item[0]][0]):
        number, kind = MESSAGES[name][key]
        if kind == "map":
            pairs = sorted(value.items())
            fields += [(number, 2, [(1, 2, part), (2, 2, word)]) for part, word in pairs]
        elif isinstance(kind, list):
            fields += [_encode_field(number, kind[0], item) for item in value]
        elif value or isinstance(value, dict):
            fields.append(_encode_field(number, kind, value))
    return fields


def _encode_field(number, kind, value):
    if kind == "number":
        return (number, 0, value)
    return (number, 2, value if kind in ("string", "bytes") else _list_fields(kind, value))


def decode_message(name, data):
    """Return a dictionary from the bytes of a message: the fields that MESSAGES names, whether they
    were sent or not.
    """
    fields = grpc_wire.decode_fields(data)
    return dict(
        (key, _read_message_field(fields, number, kind))
        for key, (number, kind) in MESSAGES[name].items()
    )


def _read_message_field(found, number, kind):
    values = grpc_wire.list_field_values(found, number)
    if isinstance(kind, list):
        return [_convert_value(kind[0], value) for value in values]
    if kind == "map":
        return dict(
            (
                grpc_wire.get_string_field(grpc_wire.decode_fields(pair), 1),
                grpc_wire.get_string_field(grpc_wire.decode_fields(pair), 2),
            )
            for pair in values
        )
    if not values:
        return {"string": "", "bytes": b"", "number": 0}.get(kind)
    return _convert_value(kind, values[-1])


def _convert_value(kind, value):
    if kind == "string":
        return value.decode("utf-8", "replace")
    return value if kind in ("number", "bytes") else decode_message(kind, value)


# --- the cases
# --------------------------------------------------------------------------------------------------


def run(request, unary=None):
    """Carry out the cases of the request, one after the other.

    A bad case does not raise: its answer contains the error.
    """
    check = _Check(request, unary or cri.call_unary)
    answer = {"schema": 1, "cases": [], "left": []}
    try:
        over_http = dict(
            (case.get("socket", ""), "create" in case)
            for case in request.get("cases") or ()
            if "run" not in case
        )
        for socket in sorted(over_http):
            check.clean_earlier(socket, over_http[socket])
        answer["cases"] = [check.run_case(case) for case in request.get("cases") or ()]
    finally:
        check.close()
    answer["left"] = check.left
    return host_files.cut_texts(answer)


class _Check(object):
    """One request while it is carried out: its limits, its log directory, and the sandboxes that
    could not be removed.
    """

    def __init__(self, request, unary):
        self.request, self.unary = request, unary
        self.timeout = float(request.get("timeout") or 30)
        self.left = []
        parent = request.get("log_parent") or "/run"
        self.logs = tempfile.mkdtemp(
            prefix="gpufleet-check-", dir=parent if os.path.isdir(parent) else None
        )

    def close(self):
        shutil.rmtree(self.logs, ignore_errors=True)

    def note_heard(self, text):
        """Return the known phrases of an output. The rest stays here: it may quote anything."""
        return causes.extract_known_phrases(text, self.request.get("phrases"))

    def call(self, socket, method, values, service=RUNTIME):
        request = encode_message(method + "Request", values)
        try:
            return decode_message(
                method + "Response", self.unary(socket, service, method, request, self.timeout)
            )
        except grpc_wire.CriError as exc:
            failed = FailedCase(method, self.note_heard(exc.said) or str(exc))
            failed.code = exc.code
            raise failed

    def clean_earlier(self, socket, over_http):
        """Remove what an earlier check left when it was killed midway."""
        try:
            if over_http:
                return HttpEngine(socket, self.timeout, self.note_heard).clean_earlier(
                    LABEL, LEFT_OVER_AFTER
                )
            listed = self.call(
                socket, "ListPodSandbox", {"filter": {"label_selector": {LABEL: "1"}}}
            )["items"]
        except FailedCase:
            return  # the cases will report the error of this socket
        for item in listed:
            if item["created_at"] / 1e9 < time.time() - LEFT_OVER_AFTER:
                self.remove(socket, item["id"])

    def stop(self, socket, container):
        """Stop a container without the grace that stopping the sandbox would give it.

        A failure is ignored: stopping the sandbox ends the container too.
        """
        try:
            self.call(socket, "StopContainer", {"container_id": container, "timeout": 0})
        except FailedCase:
            return

    def remove(self, socket, sandbox):
        for method in ("StopPodSandbox", "RemovePodSandbox"):
            try:
                self.call(socket, method, {"pod_sandbox_id": sandbox})
            except FailedCase as exc:
                if getattr(exc, "code", None) != NOT_FOUND:
                    self.left.append(
                        {
                            "socket": socket,
                            "sandbox": sandbox,
                            "message": "%s: %s" % (method, exc.message),
                        }
                    )

    def run_case(self, case):
        """Return the evidence of one case. The verdict is in "ok"."""
        started = time.monotonic()
        answer = {
            "name": case.get("name", ""),
            "ok": False,
            "expected": dict((node["path"], node["expect"]) for node in case.get("nodes") or ()),
            "found": {},
            "listed": [],
            "unexpected": [],
            "record": [],
            "problems": [],
            "again": [],
            "error": None,
        }
        try:
            nodes = [
                node for node in map(_add_numbers, case.get("nodes") or ()) if node.get("rdev")
            ]
            size = _measure_record(case.get("record"))
            said = self.tries(case, nodes, answer["again"])[: host_files.MIB]
            answer["listed"], answer["found"], answer["problems"] = judge_container_lines(
                nodes, said
            )
            answer["unexpected"] = [
                path
                for path in answer["listed"]
                if answer["expected"].get(path, "refused") == "refused"
            ]
            answer["problems"] += [
                "%s is in the container and was not requested" % path
                for path in answer["unexpected"]
            ]
            answer["record"], more = _record(case.get("record"), size)
            answer["problems"] += more
            answer["ok"] = not answer["problems"]
        except FailedCase as exc:
            answer["error"] = {"step": exc.step, "message": exc.message}
        except (KeyError, TypeError, ValueError, OSError) as exc:
            answer["error"] = {"step": "request", "message": failures.describe_fault(exc)}
        answer["seconds"] = round(time.monotonic() - started, 3)
        return answer

    def tries(self, case, nodes, again):
        """Start the case again if its failure proves nothing, and note each such failure in
        `again`.

        A node agent takes a sandbox that it does not know for an orphan. A runtime may end before it
        has read what the case asks for: the request's `again` lists the words of such an end.
        """
        words, count = self.request.get("again") or (), 0
        while True:
            count += 1
            try:
                return self.start(case, nodes)
            except FailedCase as exc:
                gone = getattr(exc, "code", None) == NOT_FOUND and exc.step not in (
                    "RunPodSandbox",
                    "ImageStatus",
                )
                taken = getattr(exc, "taken", False)
                early = any(re.search(row, exc.message) for row in words)
                if count >= (TAKEN_TRIES if taken else TRIES) or not (gone or taken or early):
                    raise
                again.append("%s: %s" % (exc.step, exc.message))

    def start(self, case, nodes):
        socket, image = case["socket"], case.get("image") or self.request["image"]
        if "run" in case:
            return self.run_once(case, image, nodes)
        if "create" in case:
            return HttpEngine(socket, self.timeout, self.note_heard).start(
                image, case["create"], _build_shell(case, nodes)
            )
        if not self.call(socket, "ImageStatus", {"image": {"image": image}}, IMAGES)["image"]:
            raise FailedCase("ImageStatus", "image %s is not on this host" % image)
        sandbox_config = self.build_sandbox_config(case)
        wanted = {"config": sandbox_config, "runtime_handler": case.get("handler", "")}
        sandbox = self.call(socket, "RunPodSandbox", wanted)["pod_sandbox_id"]
        try:
            made = {
                "pod_sandbox_id": sandbox,
                "config": build_container_config(case, image),
                "sandbox_config": sandbox_config,
            }
            container = self.call(socket, "CreateContainer", made)["container_id"]
            self.call(socket, "StartContainer", {"container_id": container})
            try:
                return self.look(socket, container, case, nodes)
            finally:
                self.stop(socket, container)
        except FailedCase as exc:
            exc.taken = self.is_sandbox_taken(socket, sandbox, exc.step)
            raise
        finally:
            self.remove(socket, sandbox)

    def is_sandbox_taken(self, socket, sandbox, step):
        """Tell whether a sandbox that a case uses has ended: this program had not stopped it yet.

        If its container ran, its end may be a moment ahead of the sandbox's.
        """
        wanted = {"filter": {"id": sandbox}}
        deadline = time.monotonic() + (0 if step == "CreateContainer" else TAKEN_SECONDS)
        while True:
            try:
                items = self.call(socket, "ListPodSandbox", wanted)["items"]
            except FailedCase:
                return False
            if not any(item["state"] == SANDBOX_READY for item in items):
                return True
            if time.monotonic() >= deadline:
                return False
            # The pause between two questions, until the deadline: a list of CRI is one answer, and
            # its stream of events (GetContainerEvents) is missing from the older engines.
            time.sleep(0.1)

    def run_once(self, case, image, nodes):
        """Run the case by the engine's own command, which ends with the container.

        Return its output.
        """
        # podman-image-exists(1): 1 if the image is not there, 125 if that could not be found out.
        if self.run_step("image", case["image_there"] + [image], (0, 1))["rc"]:
            raise FailedCase("image", "image %s is not on this host" % image)
        return self.run_step("run", case["run"] + [image] + _build_shell(case, nodes))["stdout"]

    def run_step(self, step, argv, accepts=(0,)):
        try:
            ended = commands.decode_answer(commands.run(argv, self.timeout))
        except host_files.HostError as exc:
            raise FailedCase(step, exc.message)
        if ended["timed_out"]:
            raise FailedCase(step, "%s %s: no end within %g s" % (argv[0], argv[1], self.timeout))
        if ended["rc"] not in accepts:
            raise FailedCase(
                step,
                ": ".join(
                    filter(
                        None,
                        (
                            "exit status %s" % ended["rc"],
                            self.note_heard(ended["stderr"] or ended["stdout"]),
                        ),
                    )
                ),
            )
        return ended

    def build_sandbox_config(self, case):
        uid = uuid.uuid4().hex
        # The host's network: no network plugin has to be set up for a device to be verified.
        security = {"namespace_options": {"network": NAMESPACE_NODE, "pid": NAMESPACE_CONTAINER}}
        return {
            "metadata": {
                "name": "gpufleet-check-" + uid[:8],
                "uid": uid,
                "namespace": "gpufleet-check",
            },
            "log_directory": self.logs,
            "labels": {LABEL: "1"},
            "annotations": case.get("sandbox_annotations") or {},
            "linux": {"cgroup_parent": case.get("cgroup_parent", ""), "security_context": security},
        }

    def look(self, socket, container, case, nodes):
        wanted = {
            "container_id": container,
            "cmd": _build_shell(case, nodes),
            "timeout": int(self.timeout),
        }
        answer = self.call(socket, "ExecSync", wanted)
        if answer["exit_code"]:
            said = (answer["stderr"] or answer["stdout"]).decode("utf-8", "replace")
            raise FailedCase(
                "ExecSync", describe_container_end(answer["exit_code"], self.note_heard(said))
            )
        return answer["stdout"].decode("utf-8", "replace")


def _build_shell(case, nodes):
    arguments = [
        word
        for node in nodes
        for word in (node["path"], str(node["rdev"][0]), str(node["rdev"][1]))
    ]
    return ["/bin/sh", "-c", SCRIPT, "sh", case.get("list", "")] + arguments


def build_container_config(case, image):
    """Return the container of one case.

    It sleeps, as root, and may make nodes; the case asks whether it may open them.
    """
    security = {
        "capabilities": {"add_capabilities": ["MKNOD"] + list(case.get("capabilities") or ())},
        "namespace_options": {"network": NAMESPACE_NODE, "pid": NAMESPACE_CONTAINER},
        "run_as_user": {"value": 0},
    }
    return {
        "metadata": {"name": "check"},
        # a node agent gives both, and signature policies look at the second
        "image": {
            "image": image,
            "user_specified_image": image,
        },
        "command": list(case.get("command") or ("/bin/sh", "-c", "exec sleep 600")),
        "envs": [
            {"key": key, "value": value} for key, value in sorted((case.get("env") or {}).items())
        ],
        "mounts": [
            {"host_path": source, "container_path": target, "readonly": 1}
            for source, target in case.get("mounts") or ()
        ],
        "labels": {LABEL: "1"},
        "annotations": case.get("annotations") or {},
        "log_path": "check.log",
        "linux": {"security_context": security},
        "device_names": [{"name": name} for name in case.get("devices") or ()],
    }


# --- the verdict
# --------------------------------------------------------------------------------------------------


def parse_errno(said):
    """Return ENXIO, EPERM and so on from a shell's message.

    It is "other" for an unknown message, and "no message" for an empty one.
    """
    low = said.lower()
    return next(
        (name for words, name in ERRNOS if words in low), "other" if said.strip() else "no message"
    )


def judge_container_lines(nodes, said):
    """Judge the script's lines.

    Return (nodes seen in the container, path -> what happened, sentences on what is not as
    expected).
    """
    listed, kinds, answers = [], {}, {}
    for kind, path, text in (
        line.split("|", 2) for line in said.splitlines() if line.count("|") >= 2
    ):
        if kind == "listed":
            listed.append(path)
        else:
            kinds[path] = kind
            answers[path] = "ok" if text == "ok" else parse_errno(text)
    problems = []
    for node in nodes:
        path, kind = node["path"], kinds.get(node["path"])
        problems += _find_problem(path, node["expect"], kind, answers.get(path, "no answer"))
        if kind != "there" and node["expect"] != "refused":
            answers[path] = "absent"
    return sorted(listed), answers, problems


def _find_problem(path, expect, kind, result):
    if expect == "refused":
        if kind == "unmade" and result in ("EPERM", "EACCES"):
            return []  # it may not even make the node
        if result in OPENED:
            return ["%s can be opened although it was not requested (%s)" % (path, result)]
        return (
            []
            if result == "EPERM"
            else ["%s: whether access is refused could not be determined (%s)" % (path, result)]
        )
    if kind != "there":
        return (
            [] if expect == "optional" else ["%s was requested and is not in the container" % path]
        )
    if result in ("EPERM", "EACCES"):
        return ["%s is in the container, but opening it is refused (%s)" % (path, result)]
    return [] if result in OPENED else ["%s: opening it gave %r" % (path, result)]


def _add_numbers(node):
    """Return a node with its device numbers.

    The numbers are the host's own node's, else the given ones. Without either, no container can
    open the node. Raise FailedCase if the host's own node cannot be looked at.
    """
    try:
        status = os.stat(node["path"])
        if stat.S_ISCHR(status.st_mode):
            return dict(node, rdev=[os.major(status.st_rdev), os.minor(status.st_rdev)])
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as exc:
        raise FailedCase("request", "%s: %s" % (node["path"], exc.strerror))
    return node


def _measure_record(record):
    paths = sorted(glob.glob(record["path"])) if record else []
    return dict((path, os.path.getsize(path)) for path in paths)


def _record(record, before):
    """Return (lines that were added to the file meanwhile, sentences on what they lack)."""
    if not record:
        return [], []
    lines = []
    for path in sorted(glob.glob(record["path"])):
        with open(path, "rb") as stream:
            stream.seek(before.get(path, 0))
            lines += stream.read(1 << 16).decode("utf-8", "replace").splitlines()
    # of each line what is asked for
    shown = [" ".join(re.findall(record.get("shows") or "$^", line)) for line in lines]
    if record.get("silent"):
        return shown, ["%s grew although nothing was requested" % record["path"]] if lines else []
    missing = [
        wanted
        for wanted in record.get("contains") or ()
        if not any(re.search(wanted, line) for line in lines)
    ]
    return shown, [
        "%s says nothing that matches %s" % (record["path"], wanted) for wanted in missing
    ]
