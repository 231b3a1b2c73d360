# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask NVML on this host in which state its GPUs are.

A plain program: it runs in a child that is killed when it takes too long, since a sick GPU may
never answer. Standard library only, Python 3.6. It changes nothing. Arguments are one JSON object:
{"library": path of libnvidia-ml.so.1, or "" for the loader's choice, "samples", "pause": seconds}.
Prints one JSON object:

{"driver_version", "gpus": [{"index", "bus_id", "name", "lost", "pages_pending", "rows_pending",
"rows_failed", "links", "fabric": {"state", "status", "health"}, "slowdown", "recovery",
"unread": [{"call", "code", "message"}]}], "errors": [{"call", "code", "message", "gpu"?}]}.

A value is null where the GPU or the driver does not have it, and where a call failed for another
reason (NVML_ERROR_UNKNOWN, say), which `unread` then has. lost: the code of the error by which
NVML says that the GPU is lost or needs a reset. links: for each NVLink whether it is up. slowdown:
the reasons for lower clocks that were there in each sample, as NVML's bits.
"""

import ctypes
import json
import sys
import time

SONAME = "libnvidia-ml.so.1"
LENGTH = 96
LINKS = 36  # NVML_NVLINK_MAX_LINKS
LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND, GPU_IS_LOST, RESET_REQUIRED = 12, 13, 15, 16
INVALID_ARGUMENT, NOT_SUPPORTED = 2, 3
# By these NVML says that a GPU or the driver does not have a value. Of links and fields, the second
# as well: of a number that the GPU or the driver does not know.
WITHOUT = (NOT_SUPPORTED, FUNCTION_NOT_FOUND)
BY_NUMBER = (INVALID_ARGUMENT,)
RECOVERY_ACTION = 230  # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
FABRIC_2 = 2 << 24  # NVML_STRUCT_VERSION without the size


class NvmlFailure(Exception):
    """A call that NVML refused: its name, its code and NVML's own words."""

    def __init__(self, call, code, message):
        super(NvmlFailure, self).__init__("%s: %s" % (call, message))
        self.call, self.code, self.message = call, code, message

    def describe_error(self, gpu=None):
        error = {"call": self.call, "code": self.code, "message": self.message}
        return error if gpu is None else dict(error, gpu=gpu)


class BusAddress(ctypes.Structure):
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


class FabricInfo(ctypes.Structure):
    """nvmlGpuFabricInfo_v2_t."""

    _fields_ = [
        ("version", ctypes.c_uint),
        ("clusterUuid", ctypes.c_ubyte * 16),
        ("status", ctypes.c_uint),
        ("cliqueId", ctypes.c_uint),
        ("state", ctypes.c_ubyte),
        ("healthMask", ctypes.c_uint),
    ]


class FieldValue(ctypes.Structure):
    """nvmlFieldValue_t, whose value is a union of eight bytes."""

    _fields_ = [
        ("fieldId", ctypes.c_uint),
        ("scopeId", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latencyUsec", ctypes.c_longlong),
        ("valueType", ctypes.c_uint),
        ("nvmlReturn", ctypes.c_uint),
        ("value", ctypes.c_ulonglong),
    ]


class NvmlLibrary(object):
    """The calls of NVML through ctypes."""

    def __init__(self, path):
        try:
            self.lib = ctypes.CDLL(path or SONAME)
        except OSError as exc:
            raise NvmlFailure("dlopen", LIBRARY_NOT_FOUND, str(exc))

    def call(self, name, *arguments):
        function = getattr(self.lib, name, None)
        if function is None:
            raise NvmlFailure(name, FUNCTION_NOT_FOUND, "the library has no such function")
        code = function(*arguments)
        if code:
            raise NvmlFailure(name, code, self.get_message(code))

    def get_message(self, code):
        function = getattr(self.lib, "nvmlErrorString", None)
        if function is None:
            return "error %d" % code
        function.restype = ctypes.c_char_p
        return (function(code) or b"").decode("utf-8", "replace") or "error %d" % code

    def read_text(self, name, *arguments):
        room = ctypes.create_string_buffer(LENGTH)
        self.call(name, *(arguments + (room, ctypes.c_uint(LENGTH))))
        return room.value.decode("utf-8", "replace")

    def read_number(self, name, *arguments, **how):
        value = how.get("type", ctypes.c_uint)()
        self.call(name, *(arguments + (ctypes.byref(value),)))
        return value.value


class Gpu(object):
    """One GPU. A call that it does not have gives None; one that says that it is lost is kept, and
    so is one that failed otherwise.
    """

    def __init__(self, nvml, index):
        self.nvml, self.index, self.lost, self.handle = nvml, index, None, ctypes.c_void_p()
        self.unread = []

    def attempt(self, read, *arguments):
        """Return what a function reads, None if NVML refuses it."""
        try:
            return read(*arguments)
        except NvmlFailure as exc:
            self.keep_failure(exc)
            return None

    def keep_failure(self, failure, without=WITHOUT):
        """Keep what a refused call says of the GPU. without: the codes that say nothing of it."""
        if failure.code in (GPU_IS_LOST, RESET_REQUIRED):
            self.lost = failure.code
        elif failure.code not in without and failure.describe_error() not in self.unread:
            self.unread.append(failure.describe_error())

    def open(self):
        self.nvml.call(
            "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(self.index), ctypes.byref(self.handle)
        )

    def read_bus_id(self):
        info = BusAddress()
        self.nvml.call("nvmlDeviceGetPciInfo_v3", self.handle, ctypes.byref(info))
        return get_sysfs_name(info.busId.decode("ascii", "replace"))

    def read_rows(self):
        """Return whether rows wait to be remapped, and whether that failed."""
        numbers = [ctypes.c_uint() for _number in range(4)]
        places = [ctypes.byref(number) for number in numbers]
        self.nvml.call("nvmlDeviceGetRemappedRows", self.handle, *places)
        return bool(numbers[2].value), bool(numbers[3].value)

    def list_links(self):
        """Return for each NVLink whether it is up. The first that the GPU does not have ends the
        list; None if a call failed, since links that are not known are not links that are down.
        """
        links = []
        for link in range(LINKS):
            number = ctypes.c_uint(link)
            try:
                up = self.nvml.read_number("nvmlDeviceGetNvLinkState", self.handle, number)
            except NvmlFailure as exc:
                self.keep_failure(exc, WITHOUT + BY_NUMBER)
                return links if exc.code in WITHOUT + BY_NUMBER else None
            links.append(bool(up))
        return links

    def read_fabric(self):
        info = FabricInfo(version=ctypes.sizeof(FabricInfo) | FABRIC_2)
        self.nvml.call("nvmlDeviceGetGpuFabricInfoV", self.handle, ctypes.byref(info))
        return {"state": info.state, "status": info.status, "health": info.healthMask}

    def read_slowdown(self):
        """Return the reasons for lower clocks, by the newer or the older name of the call."""
        names = (
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetCurrentClocksThrottleReasons",
        )
        for name in names:
            try:
                return self.nvml.read_number(name, self.handle, type=ctypes.c_ulonglong)
            except NvmlFailure as exc:
                if exc.code != FUNCTION_NOT_FOUND:
                    raise
        return None

    def read_recovery(self):
        """Return the driver's recovery action; None where it has no such field."""
        field = FieldValue(fieldId=RECOVERY_ACTION)
        self.nvml.call(
            "nvmlDeviceGetFieldValues", self.handle, ctypes.c_int(1), ctypes.byref(field)
        )
        if not field.nvmlReturn:
            return field.value & 0xFFFFFFFF
        if field.nvmlReturn in WITHOUT + BY_NUMBER:
            return None
        code = field.nvmlReturn
        raise NvmlFailure("nvmlDeviceGetFieldValues", code, self.nvml.get_message(code))

    def read_state(self):
        """Return all that a healthy GPU answers, but for the slowdown."""
        handle, number = self.handle, self.nvml.read_number
        rows = self.attempt(self.read_rows) or (None, None)
        pending = self.attempt(number, "nvmlDeviceGetRetiredPagesPendingStatus", handle)
        return {
            "index": self.index,
            "bus_id": self.attempt(self.read_bus_id),
            "name": self.attempt(self.nvml.read_text, "nvmlDeviceGetName", handle) or "",
            "pages_pending": None if pending is None else bool(pending),
            "rows_pending": rows[0],
            "rows_failed": rows[1],
            "links": self.list_links(),
            "fabric": self.attempt(self.read_fabric),
            "recovery": self.attempt(self.read_recovery),
        }


def get_sysfs_name(bus_id):
    """Return the name in sysfs and procfs: 0000:17:00.0 for NVML's 00000000:17:00.0."""
    domain, _colon, rest = bus_id.lower().partition(":")
    return "%s:%s" % (domain.lstrip("0").rjust(4, "0"), rest)


def read_version(nvml):
    """Return the release of the driver, '' if NVML does not tell it."""
    try:
        return nvml.read_text("nvmlSystemGetDriverVersion")
    except NvmlFailure:
        return ""


def open_gpus(nvml, errors):
    """Return the GPUs that NVML gives a handle of."""
    opened = []
    for index in range(nvml.read_number("nvmlDeviceGetCount_v2")):
        gpu = Gpu(nvml, index)
        try:
            gpu.open()
        except NvmlFailure as exc:
            errors.append(exc.describe_error(index))
            continue
        opened.append(gpu)
    return opened


def sample_slowdowns(opened, samples, pause):
    """Return for each GPU the reasons for lower clocks that were there in each sample."""
    lasting = {}
    for number in range(samples):
        if number:
            # The pause is what is measured: a brake lasts if each of these samples has it, and NVML
            # has no event for its end.
            time.sleep(pause)
        for gpu in opened:
            now = gpu.attempt(gpu.read_slowdown)
            before = lasting.get(gpu.index, now)
            lasting[gpu.index] = None if now is None or before is None else before & now
    return lasting


def run(args):
    """Return the answer, and never raise. Calls that NVML refused are in `errors`."""
    answer = {"driver_version": "", "gpus": [], "errors": []}
    try:
        nvml = NvmlLibrary(args.get("library") or "")
        nvml.call("nvmlInit_v2")
        answer["driver_version"] = read_version(nvml)
        opened = open_gpus(nvml, answer["errors"])
        states = [gpu.read_state() for gpu in opened]
        lasting = sample_slowdowns(opened, args.get("samples", 1), args.get("pause", 0))
        answer["gpus"] = [
            dict(state, lost=gpu.lost, slowdown=lasting.get(gpu.index), unread=gpu.unread)
            for gpu, state in zip(opened, states)
        ]
    except NvmlFailure as exc:
        answer["errors"].append(exc.describe_error())
    return answer  # the process ends, and NVML with it


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(json.loads(sys.argv[1]))) + "\n")
