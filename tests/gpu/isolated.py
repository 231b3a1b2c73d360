# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Become a container of a spec: have its device nodes and its files alone, and ask the driver there.

The container is this process in new mount and cgroup namespaces. Their mounts end with the last
process in them, so nothing is left to put back. Standard library only, Python 3.6.
"""

import contextlib
import ctypes
import errno
import os
import re
import stat
import subprocess

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.probes import nvml

from tests.gpu import device_rules

CLONE_NEWNS, CLONE_NEWCGROUP = 0x20000, 0x2000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
# What every container has in /dev, by the OCI's list.
USUAL = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9)}
PARAMS = "/proc/driver/nvidia/params"
NO_NODES = "/tmp/params"  # noqa: S108
# In the namespace, the file system of the container's root covers one of these folders. No spec
# mounts anything that is in them.
BASES = ("/dev/shm", "/tmp")  # noqa: S108
CUDA, SUCCESS = "libcuda.so.1", 0

# The errors of a kernel that allows no container, or of a container around this program.
NOT_ALLOWED = (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EROFS)


class Refused(Exception):
    """This machine allows no container: one sentence."""


@contextlib.contextmanager
def needs_kernel(what, *more):
    """Raise Refused if the kernel or its settings forbid what is done meanwhile.

    what: the sentence without the error. more: further errors that mean it.
    """
    try:
        yield
    except OSError as exc:
        if exc.errno not in NOT_ALLOWED + more:
            raise
        raise Refused("%s (%s)" % (what, exc))


def get_libc():
    return ctypes.CDLL(None, use_errno=True)


def check(code, what):
    if code:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (what, os.strerror(number)))


def unshare(flags):
    check(get_libc().unshare(flags), "unshare")


def mount(source, target, kind=None, flags=0, options=None):
    words = [None if word is None else word.encode() for word in (source, target, kind, options)]
    check(
        get_libc().mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]),
        "mount %s" % target,
    )


def select_edits(spec, device):
    """Return the edits of a spec for one of its devices, those for all first."""
    mine = [d["containerEdits"] for d in spec["devices"] if d["name"] == device]
    return [spec.get("containerEdits") or {}] + mine


def list_of(edits, key):
    return [entry for part in edits for entry in part.get(key) or ()]


def run(request):
    """Enter the container, and return what is found there; {"refused": sentence} if this machine
    allows none.
    """
    try:
        return enter(request)
    except Refused as exc:
        return {"refused": str(exc)}


def enter(request):
    """Enter the container, and return what is found there. Raise Refused if that is not allowed.

    request: `spec` and `device`; `hidden`, the driver's files on the host; `others`, nodes of the
    driver that the spec does not give, as [path, major, minor]; `group`, a name for a control group.
    """
    edits = select_edits(request["spec"], request["device"])
    found = {"device": request["device"], "namespaces": ["mnt", "cgroup"]}
    nodes = {node["path"]: find_numbers(node) for node in list_of(edits, "deviceNodes")}
    found["rules"] = limit_devices(request["group"], nodes)
    # a kernel without such namespaces does not know the flag: EINVAL
    with needs_kernel("this machine gives no namespaces for a container", errno.EINVAL):
        unshare(CLONE_NEWNS | CLONE_NEWCGROUP)
        mount(None, "/", flags=MS_REC | MS_PRIVATE)
    sources = {
        entry["hostPath"]: os.path.realpath(entry["hostPath"]) for entry in list_of(edits, "mounts")
    }
    with needs_kernel("this machine allows no mount of a root, or no device nodes"):
        found["root"] = enter_root(request.get("hidden") or [])
        make_nodes(nodes)
    for entry in list_of(edits, "mounts"):
        bind(get_host_place(sources[entry["hostPath"]]), entry["containerPath"])
    mount_kernel_files()
    os.chdir("/")
    found["hooks"] = [apply_hook(hook) for hook in list_of(edits, "hooks")]
    found["nodes"] = open_nodes(edits)
    found["before"] = list_nodes()
    found["others"] = [[path, open_other(numbers)] for path, *numbers in request.get("others", ())]
    found["nvml"] = nvml.run({})
    found["cuda"] = ask_cuda()
    found["after"] = list_nodes()
    found["libraries"] = list_loaded()
    return found


def enter_root(hidden):
    """Enter a root with the host's files but the driver's. Return how it was made: `overlay`, or
    `shared` if the kernel has no overlay. Then the host's files are there read-only, and the
    driver's stay visible.

    Links are followed in it from then on, so nothing here reaches a file of the host by its name.
    This process stays in the host's root: a path without a slash in front is one of the host.
    """
    base = next(filter(os.path.isdir, BASES))
    params = ""
    if os.path.exists(PARAMS):
        with open(PARAMS) as handle:
            params = handle.read()
    mount("gpufleet", base, "tmpfs")
    root, upper, work = (os.path.join(base, name) for name in ("root", "upper", "work"))
    for path in (root, upper, work):
        os.mkdir(path)
    how = "overlay"
    try:
        mount("gpufleet", root, "overlay", 0, "lowerdir=/,upperdir=%s,workdir=%s" % (upper, work))
    except OSError as exc:
        share_root(root)
        how = "shared: %s" % exc.strerror
    os.chdir("/")
    os.chroot(root)
    for path in hidden if how == "overlay" else ():
        try:
            os.unlink(path)
        except OSError:
            pass  # on another file system, which is not below the overlay
    os.makedirs("/tmp", exist_ok=True)  # noqa: S108
    mount("gpufleet", "/tmp", "tmpfs")
    with open(NO_NODES, "w") as handle:
        handle.write(params.replace("ModifyDeviceFiles: 1", "ModifyDeviceFiles: 0"))
    return how


def get_host_place(path):
    """Return an absolute path of the host as this process reaches it once it is in the root."""
    return path.lstrip("/") or "."


def mount_kernel_files():
    """Mount /proc and /sys. Links lead from /proc to the host's root, so they come after all that
    is written by the names of a spec's mounts.
    """
    for name in ("/proc", "/sys"):
        os.makedirs(name, exist_ok=True)
        mount(get_host_place(name), name, flags=MS_BIND | MS_REC)


def share_root(root):
    """Give a root the host's folders and all mounts in them, read-only."""
    mount("gpufleet", root, "tmpfs")
    for name in os.listdir("/"):
        path = "/" + name
        if os.path.islink(path):
            os.symlink(os.readlink(path), root + path)
        elif os.path.isdir(path) and name not in ("proc", "sys", "dev", "tmp"):
            os.mkdir(root + path)
            mount(path, root + path, flags=MS_BIND | MS_REC)
    for place in list_mounts(root + "/"):
        mount(None, place, flags=MS_BIND | MS_REMOUNT | MS_RDONLY)


def list_mounts(beneath):
    """Return the mount points beneath a folder."""
    with open("/proc/self/mountinfo") as handle:
        places = [unescape(line.split()[4]) for line in handle]
    return [place for place in places if place.startswith(beneath)]


def unescape(text):
    """Return a path as the kernel knows it: its tables write space, tab, line feed and backslash in
    octal.
    """
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), text)


def find_numbers(node):
    """Return major, minor and mode of a node: those of the spec, else those of the host's node."""
    live = os.stat(node.get("hostPath") or node["path"])
    major, minor = os.major(live.st_rdev), os.minor(live.st_rdev)
    mode = node.get("fileMode", stat.S_IMODE(live.st_mode))
    return node.get("major", major), node.get("minor", minor), mode


def make_nodes(nodes):
    os.makedirs("/dev", exist_ok=True)
    mount("gpufleet", "/dev", "tmpfs", 0, "mode=755")
    os.mkdir("/dev/shm")
    mount("gpufleet", "/dev/shm", "tmpfs")
    for name, numbers in USUAL.items():
        make_node("/dev/" + name, numbers, 0o666)
    for path, (major, minor, mode) in nodes.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        make_node(path, (major, minor), mode)


def make_node(path, numbers, mode):
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(*numbers))
    os.chmod(path, mode)


def bind(source, place):
    """Mount a host's file or folder at its place in the container."""
    if os.path.isdir(source):
        os.makedirs(place, exist_ok=True)
    elif not os.path.exists(place):
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if os.path.islink(place):
            os.unlink(place)
        with open(place, "w"):
            pass
    mount(source, place, flags=MS_BIND | MS_REC)


def apply_hook(hook):
    """Do what a hook of NVIDIA's does in a container. Return its name, and whether that was done: a
    root that is shared with the host cannot be written to.
    """
    command, words = hook["args"][1], hook["args"][2:]
    try:
        return [command, do_hook(command, words)]
    except OSError as exc:
        if exc.errno != errno.EROFS:
            raise
        return [command, False]


def do_hook(command, words):
    """Do what a hook does. Return whether it is known here."""
    if command == "create-symlinks":
        for link in words[1::2]:
            target, _colons, path = link.partition("::")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if os.path.lexists(path):
                os.unlink(path)
            os.symlink(target, path)
    elif command == "update-ldcache":
        update_cache(words[1::2])
    elif command == "disable-device-node-modification":
        # NVML makes nodes that are missing, if root asks
        mount(NO_NODES, PARAMS, flags=MS_BIND)
    else:
        return False
    return True


def update_cache(folders):
    """Write the loader's cache with the folders first."""
    os.makedirs("/etc/ld.so.conf.d", exist_ok=True)
    with open("/etc/ld.so.conf.d/00-gpufleet-gpu.conf", "w") as handle:
        handle.write("".join(folder + "\n" for folder in folders))
    subprocess.check_call(["/sbin/ldconfig"], stderr=subprocess.DEVNULL)


def open_nodes(edits):
    """Open each node of the spec. Return [path, "" or the error's name] of each."""
    return [
        [path, try_open(path)]
        for path in sorted({node["path"] for node in list_of(edits, "deviceNodes")})
    ]


def open_other(numbers):
    """Make a node that the spec does not give, and open it. Return "", or the error's name."""
    path = "/dev/other"
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(*numbers))
    try:
        return try_open(path)
    finally:
        os.unlink(path)


def try_open(path):
    """Open a node as a program would. Return "", or the error's name."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError as exc:
        return errno.errorcode.get(exc.errno, str(exc.errno))
    return ""


def limit_devices(group, nodes):
    """Allow this process the nodes of the spec, and the nodes that all containers have. Return "",
    or why the kernel has no such rules for it.
    """
    allowed = list(USUAL.values()) + [(major, minor) for major, minor, _mode in nodes.values()]
    try:
        device_rules.enter(group, allowed)
    except OSError as exc:
        return str(exc)
    return ""


def list_nodes():
    """Return the device nodes below /dev that not every container has."""
    usual = {"/dev/" + name for name in USUAL}
    return sorted(
        os.path.join(folder, name)
        for folder, _folders, names in os.walk("/dev")
        for name in names
        if os.path.join(folder, name) not in usual
    )


def list_loaded():
    """Return the driver's libraries that this process has loaded, by their paths in the container."""
    with open("/proc/self/maps") as handle:
        paths = {line.split(None, 5)[5].strip() for line in handle if len(line.split(None, 5)) > 5}
    return sorted(
        path for path in paths if os.path.basename(path).startswith(("libcuda", "libnvidia"))
    )


def ask_cuda():
    """Return {"code", "count"} of cuInit and cuDeviceGetCount, or {"error"}."""
    try:
        library = ctypes.CDLL(CUDA)
    except OSError as exc:
        return {"error": str(exc)}
    code, count = library.cuInit(0), ctypes.c_int(-1)
    if code == SUCCESS:
        code = library.cuDeviceGetCount(ctypes.byref(count))
    return {"code": code, "count": count.value}
