# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks NVML on this host which GPUs there are. A plain program: it runs in a child that is killed when it takes too long.

Standard library only, Python 3.6. Uses pynvml where the host has it, else the library itself through ctypes. Arguments are one JSON
object, as first argument or on standard input: {"library": path of libnvidia-ml.so.1, or "" for the loader's choice}.
Prints one JSON object: {"source", "driver_version", "gpus": [{"index", "minor", "uuid", "bus_id", "name", "mig"}], "errors"}.
"""

import ctypes
import json
import sys

SONAME = "libnvidia-ml.so.1"
NOT_SUPPORTED, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND = 3, 12, 13
LENGTH = 96  # NVML_DEVICE_UUID_V2_BUFFER_SIZE, the longest of its strings


class NvmlError(Exception):
    """A call that NVML refused: its name, its code and NVML's own words."""

    def __init__(self, call, code, message):
        super(NvmlError, self).__init__("%s: %s" % (call, message))
        self.call, self.code, self.message = call, code, message

    def told(self, gpu=None):
        told = {"call": self.call, "code": self.code, "message": self.message}
        return told if gpu is None else dict(told, gpu=gpu)


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
    """The handful of calls through ctypes."""

    source = "libnvidia-ml"

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
            raise NvmlError(name, code, self.message(code))

    def message(self, code):
        try:
            function = self.lib.nvmlErrorString
        except AttributeError:
            return "error %d" % code
        function.restype = ctypes.c_char_p
        return (function(code) or b"").decode("utf-8", "replace") or "error %d" % code

    def text(self, name, *arguments):
        room = ctypes.create_string_buffer(LENGTH)
        self.call(name, *(arguments + (room, ctypes.c_uint(LENGTH))))
        return room.value.decode("utf-8", "replace")

    def number(self, name, *arguments):
        value = ctypes.c_uint()
        self.call(name, *(arguments + (ctypes.byref(value),)))
        return value.value

    def start(self):
        self.call("nvmlInit_v2")

    def stop(self):
        self.call("nvmlShutdown")

    def driver_version(self):
        return self.text("nvmlSystemGetDriverVersion")

    def count(self):
        return self.number("nvmlDeviceGetCount_v2")

    def handle(self, index):
        found = ctypes.c_void_p()
        self.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(found))
        return found

    def uuid(self, handle):
        return self.text("nvmlDeviceGetUUID", handle)

    def name(self, handle):
        return self.text("nvmlDeviceGetName", handle)

    def minor(self, handle):
        return self.number("nvmlDeviceGetMinorNumber", handle)

    def bus_id(self, handle):
        info = PciInfo()
        self.call("nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(info))
        return info.busId.decode("ascii", "replace")

    def mig(self, handle):
        current, pending = ctypes.c_uint(), ctypes.c_uint()
        self.call("nvmlDeviceGetMigMode", handle, ctypes.byref(current), ctypes.byref(pending))
        return current.value


class Binding(object):
    """The same calls through pynvml."""

    source = "pynvml"

    def __init__(self, module, path):
        self.module = module
        if path and hasattr(module, "nvmlLib"):
            # pynvml loads the library by its plain name only, unless it finds one here already.
            module.nvmlLib = ctypes.CDLL(path)

    def call(self, name, *arguments):
        try:
            return getattr(self.module, name)(*arguments)
        except self.module.NVMLError as exc:
            raise NvmlError(name, getattr(exc, "value", 999), str(exc))

    def text(self, name, *arguments):
        value = self.call(name, *arguments)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

    def start(self):
        self.call("nvmlInit")

    def stop(self):
        self.call("nvmlShutdown")

    def driver_version(self):
        return self.text("nvmlSystemGetDriverVersion")

    def count(self):
        return self.call("nvmlDeviceGetCount")

    def handle(self, index):
        return self.call("nvmlDeviceGetHandleByIndex", index)

    def uuid(self, handle):
        return self.text("nvmlDeviceGetUUID", handle)

    def name(self, handle):
        return self.text("nvmlDeviceGetName", handle)

    def minor(self, handle):
        return self.call("nvmlDeviceGetMinorNumber", handle)

    def bus_id(self, handle):
        bus = self.call("nvmlDeviceGetPciInfo", handle).busId
        return bus.decode("ascii", "replace") if isinstance(bus, bytes) else bus

    def mig(self, handle):
        return self.call("nvmlDeviceGetMigMode", handle)[0]


def connect(path):
    """pynvml where it is installed, else the library."""
    try:
        import pynvml
    except Exception:  # whatever is wrong with a host's own Python packages is no reason to give up
        return Library(path)
    try:
        return Binding(pynvml, path)
    except OSError as exc:
        raise NvmlError("dlopen", LIBRARY_NOT_FOUND, str(exc))


def sysfs_name(bus_id):
    """NVML writes 00000000:17:00.0, sysfs and procfs 0000:17:00.0."""
    domain, _colon, rest = bus_id.lower().partition(":")
    return "%s:%s" % (domain[-4:], rest)


def mig_mode(nvml, handle):
    """Whether MIG is on; None for a GPU, or a driver, that knows no MIG."""
    try:
        return bool(nvml.mig(handle))
    except NvmlError as exc:
        if exc.code in (NOT_SUPPORTED, FUNCTION_NOT_FOUND):
            return None
        raise


def ask_gpu(nvml, index):
    handle = nvml.handle(index)
    return {
        "index": index,
        "minor": nvml.minor(handle),
        "uuid": nvml.uuid(handle),
        "bus_id": sysfs_name(nvml.bus_id(handle)),
        "name": nvml.name(handle),
        "mig": mig_mode(nvml, handle),
    }


def run(args):
    """Never raises: what NVML refused stands in `errors`, and one sick GPU does not hide the others."""
    answer = {"source": "", "driver_version": "", "gpus": [], "errors": []}
    try:
        nvml = connect((args or {}).get("library") or "")
        answer["source"] = nvml.source
        nvml.start()
    except NvmlError as exc:
        answer["errors"].append(exc.told())
        return answer
    try:
        answer["driver_version"] = nvml.driver_version()
        for index in range(nvml.count()):
            try:
                answer["gpus"].append(ask_gpu(nvml, index))
            except NvmlError as exc:
                answer["errors"].append(exc.told(index))
        nvml.stop()
    except NvmlError as exc:
        answer["errors"].append(exc.told())
    return answer


def main():
    text = sys.argv[1] if len(sys.argv) > 1 else sys.stdin.read()
    sys.stdout.write(json.dumps(run(json.loads(text or "{}"))) + "\n")


if __name__ == "__main__":
    main()
