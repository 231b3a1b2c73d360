# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask NVML on this host which GPUs and MIG devices there are.

A plain program: it runs in a child that is killed when it takes too long. Standard library only,
Python 3.6. NVIDIA's own binding would be thirty times the bytes for the same calls, and its version
would be one more thing that differs between hosts. Arguments are one JSON object, as first argument
or on standard input: {"library": path of libnvidia-ml.so.1, or "" for the loader's choice}. Prints
one JSON object:

{"source", "driver_version", "gpus": [{"index", "minor", "uuid", "bus_id", "name", "mig", "migs":
[{"index", "uuid", "gi", "ci", "name"}]}], "errors": [{"call", "code", "message", "gpu"?}]}.
"""

import ctypes
import json
import sys

SONAME = "libnvidia-ml.so.1"
INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND = 2, 3, 6, 12, 13
LENGTH = 96  # NVML_DEVICE_UUID_V2_BUFFER_SIZE, the longest of its strings


class NvmlError(Exception):
    """A call that NVML refused: its name, its code and NVML's own words."""

    def __init__(self, call, code, message):
        super(NvmlError, self).__init__("%s: %s" % (call, message))
        self.call, self.code, self.message = call, code, message

    def describe_error(self, gpu=None):
        error = {"call": self.call, "code": self.code, "message": self.message}
        return error if gpu is None else dict(error, gpu=gpu)


class PciInfo(ctypes.Structure):
    """nvmlPciInfo_t, version 3."""

    _fields_ = [
        ("busIdLegacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("pciDeviceId", ctypes.c_uint),
        ("pciSubSystemId", ctypes.c_uint),
        ("busId", ctypes.c_char * 32),
    ]


class Library(object):
    """The calls of NVML through ctypes."""

    def __init__(self, path):
        try:
            self.lib = ctypes.CDLL(path or SONAME)
        except OSError as exc:
            raise NvmlError("dlopen", LIBRARY_NOT_FOUND, str(exc))

    def call(self, name, *arguments):
        try:
            function = getattr(self.lib, name)
        except AttributeError:
            raise NvmlError(name, FUNCTION_NOT_FOUND, "the library has no such function")
        code = function(*arguments)
        if code:
            raise NvmlError(name, code, self.get_message(code))

    def get_message(self, code):
        try:
            function = self.lib.nvmlErrorString
        except AttributeError:
            return "error %d" % code
        function.restype = ctypes.c_char_p
        return (function(code) or b"").decode("utf-8", "replace") or "error %d" % code

    def read_text(self, name, *arguments):
        room = ctypes.create_string_buffer(LENGTH)
        self.call(name, *(arguments + (room, ctypes.c_uint(LENGTH))))
        return room.value.decode("utf-8", "replace")

    def number(self, name, *arguments):
        value = ctypes.c_uint()
        self.call(name, *(arguments + (ctypes.byref(value),)))
        return value.value

    def handle(self, name, *arguments):
        handle = ctypes.c_void_p()
        self.call(name, *(arguments + (ctypes.byref(handle),)))
        return handle

    def read_bus_id(self, handle):
        info = PciInfo()
        self.call("nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(info))
        return info.busId.decode("ascii", "replace")

    def is_mig_on(self, handle):
        """Tell whether MIG is on; None for a GPU, or a driver, without MIG."""
        current, pending = ctypes.c_uint(), ctypes.c_uint()
        try:
            self.call("nvmlDeviceGetMigMode", handle, ctypes.byref(current), ctypes.byref(pending))
        except NvmlError as exc:
            if exc.code in (NOT_SUPPORTED, FUNCTION_NOT_FOUND):
                return None
            raise
        return bool(current.value)

    def list_migs(self, handle):
        """Yield the MIG devices of a GPU. A free place between them is not found."""
        for index in range(self.number("nvmlDeviceGetMaxMigDeviceCount", handle)):
            try:
                mig = self.handle(
                    "nvmlDeviceGetMigDeviceHandleByIndex", handle, ctypes.c_uint(index)
                )
            except NvmlError as exc:
                if exc.code in (NOT_FOUND, INVALID_ARGUMENT):
                    continue
                raise
            yield {
                "index": index,
                "uuid": self.read_text("nvmlDeviceGetUUID", mig),
                "gi": self.number("nvmlDeviceGetGpuInstanceId", mig),
                "ci": self.number("nvmlDeviceGetComputeInstanceId", mig),
                "name": self.read_text("nvmlDeviceGetName", mig),
            }


def get_sysfs_name(bus_id):
    """Return the name in sysfs and procfs: 0000:17:00.0 for NVML's 00000000:17:00.0."""
    domain, _colon, rest = bus_id.lower().partition(":")
    return "%s:%s" % (domain.lstrip("0").rjust(4, "0"), rest)


def ask_gpu(nvml, index):
    """Return what NVML says of a GPU and its MIG devices."""
    handle = nvml.handle("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index))
    mig = nvml.is_mig_on(handle)
    return {
        "index": index,
        "minor": nvml.number("nvmlDeviceGetMinorNumber", handle),
        "uuid": nvml.read_text("nvmlDeviceGetUUID", handle),
        "bus_id": get_sysfs_name(nvml.read_bus_id(handle)),
        "name": nvml.read_text("nvmlDeviceGetName", handle),
        "mig": mig,
        "migs": list(nvml.list_migs(handle)) if mig else [],
    }


def run(args):
    """Return the answer, and never raise. Calls that NVML refused are in `errors`; one failed GPU
    does not hide the others.
    """
    answer = {"source": "libnvidia-ml", "driver_version": "", "gpus": [], "errors": []}
    try:
        nvml = Library((args or {}).get("library") or "")
        nvml.call("nvmlInit_v2")
    except NvmlError as exc:
        answer["errors"].append(exc.describe_error())
        return answer
    try:
        answer["driver_version"] = nvml.read_text("nvmlSystemGetDriverVersion")
        for index in range(nvml.number("nvmlDeviceGetCount_v2")):
            try:
                answer["gpus"].append(ask_gpu(nvml, index))
            except NvmlError as exc:
                answer["errors"].append(exc.describe_error(index))
        nvml.call("nvmlShutdown")
    except NvmlError as exc:
        answer["errors"].append(exc.describe_error())
    return answer


def main():
    """Read the request from the argument or from stdin, and print the answer as JSON."""
    text = sys.argv[1] if len(sys.argv) > 1 else sys.stdin.read()
    sys.stdout.write(json.dumps(run(json.loads(text or "{}"))) + "\n")


if __name__ == "__main__":
    main()
