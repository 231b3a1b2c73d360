# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the journal of transactions, which the host keeps: what was changed, with the bytes from
before.

    DIR/lock                        one transaction at a time: its holder, and since when
    DIR/journal/nNUMBER-TIME-ID/    one transaction. By their numbers they are in the order in which they began: a clock may be set back
                        meta.json   what it was to do, and how everything was before
                        states      the states it went through, one slot of 512 bytes each
                        0.before    bytes of the files it touches: 0.before, 1.before, ...
                        outcome.json  why it was taken back, and by which program, with the evidence
    DIR/open/nNUMBER-TIME-ID        this transaction is not over, or its end has not been reported yet
    DIR/originals/PATH/meta.json    a file as it was before we first wrote it; next to it `content`
    DIR/said/ID.txt                 the output of a program that refused or failed: it may quote anything, and goes nowhere else
    DIR/pending.json                units that still run with the files from before: their restart was left to a person
    DIR/aside/                      files that are not true at the moment, set aside by a program that stays on the host
    DIR/kept/           files of packages that a person can go back to (kept_packages.py)
    DIR/fetched/        one of these while apt fetches it, by an account of apt's own that the directory belongs to
    DIR/waiting/UNIT                a unit whose program found the lock taken, and which its holder starts afterwards
    DIR/stage-ID/                   copies that are being validated; gone when the transaction ends
    DIR/program/, DIR/job/          the executor as a program of the host's own, and its input

All of these are root's alone (0700, 0600): files may hold credentials. DIR itself may be entered: a
status file lies there. Host side: standard library only, Python 3.6.
"""

import binascii
import collections
import errno
import json
import os
import re
import stat
import time

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    host_files,
    keyed,
    system,
    trust,
)

SCHEMA = 1
MAX_FILE = 64 * host_files.MIB
SLOT, SLOTS = 512, 16
# a directory for one file of one transaction, next to that file
BESIDE = r"\.gpufleet-([0-9a-f]{32})-[0-9a-f]{8}"
STRAY_AFTER = 3600
_NUMBERED = re.compile(r"n(\d{10})-")
# The private parts of the directory; next to them are files for every account.
PARTS = (
    "journal",
    "open",
    "originals",
    "said",
    "aside",
    "kept",
    "waiting",
    "program",
    "job",
    "lock",
    "pending.json",
)
# The keys that an original must have, and those of the file if there was one.
_KEPT = {"path", "existed", "sha256_before", "sha256_after"}
_KEPT_OF_A_FILE = {"mode", "uid", "gid", "mtime_ns"}

# A file as it is or is to be. mtime is in nanoseconds; xattrs is {name: bytes}, SELinux label and
# ACL among them.
_AS_IT_IS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~")
Snapshot = collections.namedtuple("Snapshot", "data mode uid gid mtime xattrs")


def take_snapshot(root, real):
    """Return the regular file at a resolved host path as a Snapshot; None if nothing is there."""
    status = host_files.get_lstat(root, real)
    if status is None:
        return None
    data = host_files.read_regular(root, real, MAX_FILE)
    return Snapshot(
        data,
        stat.S_IMODE(status.st_mode),
        status.st_uid,
        status.st_gid,
        status.st_mtime_ns,
        _read_xattrs(host_files.get_full_path(root, real)),
    )


def digest_snapshot(state):
    """Return the SHA-256 of a snapshot; None for an absent file."""
    return None if state is None else host_files.digest_bytes(state.data)


def report_digest(state):
    """Return the digest of a snapshot as it is reported to the controller."""
    return keyed.digest_with_key(digest_snapshot(state))


def _read_xattrs(path):
    try:
        return {
            name: os.getxattr(path, name, follow_symlinks=False)
            for name in os.listxattr(path, follow_symlinks=False)
        }
    except (
        OSError
    ) as exc:  # of any other error the file would come back without its ACL and its label
        if exc.errno in host_files.NO_ATTRIBUTE:
            return {}
        raise host_files.build_os_error(exc, path)


def restore_snapshot(meta, data):
    """Return a file's content and attributes from before; None if it did not exist."""
    if not meta["existed"]:
        return None
    xattrs = {
        name: binascii.a2b_base64(value) for name, value in (meta.get("xattrs") or {}).items()
    }
    return Snapshot(data, meta["mode"], meta["uid"], meta["gid"], meta["mtime_ns"], xattrs)


def read_bytes(path):
    """Read a journal file. Raise OSError if it cannot be read, or is not a regular file: a FIFO
    would block, a device could act.
    """
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(
            errno.EINVAL, "it is a %s, not a regular file" % host_files.name_file_type(status), path
        )
    try:
        return host_files.read_regular("", path, MAX_FILE)
    except host_files.HostError as exc:
        raise OSError(errno.EIO, exc.message, path)


def read_json(path):
    """Return the JSON in a file."""
    return json.loads(read_bytes(path).decode("utf-8"))


def get_journal_directory(root, directory):
    """Return the journal's directory as this process sees it.

    Raise HostError if another account could lead us there, or could write to what it holds. This is
    judged before anything in it is read, written or run: its contents are given back to files, and
    run as root.
    """
    real, links = host_files.resolve_links(root, directory)
    for spot in links + [real]:
        doubt = trust.judge_spot(root, spot, whole=False)
        if doubt:
            raise host_files.HostError(
                "denied",
                "%s %s, and is part of the path to the journal" % (doubt.place, doubt.why),
                doubt.remedy,
            )
    base = host_files.get_full_path(root, real)
    require_own(base)
    return base


def require_own(base):
    """Raise HostError unless everything in the journal's directory belongs to us and no other
    account may write to it.
    """
    if not os.path.isdir(base):
        return
    _require_root_only(base)
    for top in [os.path.join(base, part) for part in PARTS]:
        _require_root_only(top)
        for directory, subdirs, names_ in os.walk(top, onerror=host_files.raise_unless_gone):
            for name in subdirs + names_:
                _require_root_only(os.path.join(directory, name))


def _require_root_only(path):
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if (
        stat.S_ISLNK(status.st_mode)
        or status.st_uid not in (0, os.geteuid())
        or status.st_mode & 0o022
    ):
        _refuse(path, status)


def _refuse(path, found):
    why = "may be written to by others (mode %04o)" % stat.S_IMODE(found.st_mode)
    if found.st_uid not in (0, os.geteuid()):
        why = "belongs to user %d" % found.st_uid
    elif stat.S_ISLNK(found.st_mode):
        why = "is a symbolic link"
    following = (
        "Nothing was written or run. If only root has written there, run chown root and chmod go-w on it; "
        "otherwise inspect what it contains and move it away. Then run again"
    )
    raise host_files.HostError(
        "denied",
        "%s: %s, and only root may be able to write to the journal" % (path, why),
        following,
    )


# --- transactions
# --------------------------------------------------------------------------------------------------


def list_entry_states(entry):
    """List the states of a transaction, oldest first; [] if they cannot be read. A slot that a
    power loss tore does not count.
    """
    try:
        data = read_bytes(os.path.join(entry, "states"))[: SLOT * SLOTS]
    except OSError:
        return []
    states = []
    for start in range(0, len(data), SLOT):
        try:
            states.append(json.loads(data[start : start + SLOT].decode("ascii")))
        except ValueError:
            continue
    return sorted(states, key=lambda state: state["n"])


def read_transaction(base, name):
    """Return one transaction; None if there is none of that name. It is its meta.json with "entry",
    "state", "states" and "closed".
    """
    entry = os.path.join(base, "journal", name)
    if not os.path.isdir(entry):
        return None
    try:
        meta = read_json(os.path.join(entry, "meta.json"))
    except (OSError, ValueError):
        meta = {"id": name.rpartition("-")[2]}
    passed = list_entry_states(entry)
    last = passed[-1] if passed else {"state": "unreadable"}
    return dict(
        meta,
        entry=entry,
        name=name,
        states=passed,
        state=last["state"],
        closed=bool(last.get("closed")),
    )


def list_transaction_names(base, place_="journal"):
    """Return the names of entries of the journal, in the order of their numbers."""
    directory = os.path.join(base, place_)
    return (
        sorted(name for name in os.listdir(directory) if not name.startswith("."))
        if os.path.isdir(directory)
        else []
    )


def list_transactions(base):
    """List all transactions, oldest first. One without readable states has the state "unreadable"."""
    entries = (read_transaction(base, name) for name in list_transaction_names(base))
    return [meta for meta in entries if meta]


def make_next_name(base, id_):
    """Return the name of a transaction that begins now. The caller holds the lock."""
    numbers = [
        _NUMBERED.match(name)
        for name in list_transaction_names(base) + list_transaction_names(base, "open")
    ]
    last = max([int(match.group(1)) for match in numbers if match] or [0])
    return "n%010d-%s-%s" % (last + 1, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()), id_)


def report_outcome(meta):
    """Report to people how a transaction ended: which program took it back, why, on what evidence;
    {} if unknown.
    """
    try:
        return read_json(os.path.join(meta["entry"], "outcome.json"))
    except (OSError, ValueError):
        said = [state for state in meta["states"] if state.get("why")]
        return {key: said[-1].get(key) for key in ("why", "by")} if said else {}


# --- originals: each file as it was before we first wrote it
# ----------------------------------------------------------


def quote_path(path):
    """Write a path as a name, as urllib.parse.quote() does. Importing that takes longer than
    writing it again.
    """
    return "".join(
        chr(byte) if chr(byte) in _AS_IT_IS else "%%%02X" % byte
        for byte in bytearray(host_files.encode_host_path(path))
    )


def unquote_path(name):
    """Return the path that the name of a directory of the journal stands for."""
    plain = re.sub(
        b"%([0-9A-F]{2})", lambda found: binascii.a2b_hex(found.group(1)), name.encode("utf-8")
    )
    return plain.decode("utf-8", "surrogateescape")


def get_original_directory(base, path):
    """Return the directory that keeps a file's original content."""
    name = quote_path(path)
    if len(name) > 200:
        name = name[:120] + "-" + host_files.digest_bytes(host_files.encode_host_path(path))
    return os.path.join(base, "originals", name)


def read_original(base, path):
    """Return (meta, Snapshot or None) of the kept original; None if none of this path is kept.
    Raise HostError if it is damaged.
    """
    meta = read_original_meta(base, path)
    if meta is None:
        return None
    data = b""
    if meta["existed"]:
        place_ = os.path.join(get_original_directory(base, path), "content")
        data = read_kept(place_, meta["sha256_before"], get_original_directory(base, path), path)
    return meta, restore_snapshot(meta, data)


def read_original_meta(base, path):
    """Return the meta.json of the kept original; None if none of this path is kept. Raise HostError
    if that is not known.
    """
    directory = get_original_directory(base, path)
    return read_original_meta_in(directory, path) if os.path.lexists(directory) else None


def read_original_meta_in(directory, path):
    """Return what is kept of a file's original. Raise the error of a damaged copy if it cannot be
    used.
    """
    try:
        meta = read_json(os.path.join(directory, "meta.json"))
    except OSError as exc:
        raise build_damaged_original_error(
            directory, path, "its meta.json cannot be read: %s" % exc.strerror
        )
    except ValueError:
        raise build_damaged_original_error(directory, path, "its meta.json is not JSON")
    schema = meta.get("schema") if isinstance(meta, dict) else None
    if schema != SCHEMA:
        raise build_damaged_original_error(
            directory,
            path,
            "it was written by another release (schema %r, known is %d)" % (schema, SCHEMA),
            "Restore the host with that release" if isinstance(schema, int) else "",
        )
    missing = sorted(_KEPT - set(meta))
    if meta.get("existed"):
        missing += sorted(key for key in _KEPT_OF_A_FILE if not isinstance(meta.get(key), int))
    elif meta.get("sha256_before") is not None:
        missing.append("whether the file was there")
    if missing:
        raise build_damaged_original_error(
            directory, path, "its meta.json does not say %s" % ", ".join(missing)
        )
    return meta


def read_kept(kept, digest_, directory, path):
    """Return bytes that the journal keeps, verified before they are written anywhere.

    Raise HostError if they cannot be read or have changed. The repair of a file system may have
    emptied or cut the file.
    """
    try:
        data = read_bytes(kept)
    except OSError as exc:
        raise build_damaged_original_error(directory, path, "%s: %s" % (kept, exc.strerror))
    if host_files.digest_bytes(data) != digest_:
        raise build_damaged_original_error(
            directory,
            path,
            "%s has %d bytes, and other bytes were kept (SHA-256 differs)" % (kept, len(data)),
        )
    return data


def build_damaged_original_error(directory, path, why, step=""):
    """Build the error for a kept original that must not be used. step: '' for a damaged one."""
    by_hand = "Bring the file into the intended state by hand, then remove that directory"
    values = (path, directory, why, step or by_hand)
    return host_files.HostError(
        "damaged", "%s: the copy of the original in %s cannot be used: %s. %s" % values
    )


def is_stray(base, path):
    """Tell whether a place has such a name (BESIDE), and is old enough that no transaction uses it:
    an entry may have gone just now.
    """
    name = os.path.basename(path)
    named = re.match(BESIDE + r"\Z", name) if name.startswith(".gpufleet-") else None
    if not named:  # before lstat: nearly all names in a directory are not ours
        return False
    try:
        state = os.lstat(path)
    except OSError:
        return False
    if (
        not stat.S_ISDIR(state.st_mode)
        or state.st_uid != os.geteuid()
        or state.st_mtime > time.time() - STRAY_AFTER
    ):
        return False
    token = named.group(1)
    return not any(
        name.endswith("-" + token) for name in list_transaction_names(base, "open")
    ) and not is_transaction_at_work(base, token)


def is_transaction_at_work(base, token):
    """Tell whether a living process holds the lock for this transaction. The lock is read, not
    taken: a look must not block any.
    """
    try:
        held = read_json(os.path.join(base, "lock"))
        return held["id"] in (token, "") and system.get_process_start(held["pid"]) == held["start"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def list_unrestarted_units(base, offline=False):
    """List the units that were not restarted since their files changed.

    Raise HostError if the list cannot be read.

    offline: do not ask systemd which of them were restarted since.
    """
    kept = read_pending(base)
    if kept and not offline:
        units = system.list_units(sorted(kept), ["InvocationID"])
        kept = {
            name: entry
            for name, entry in kept.items()
            if units[name].get("InvocationID", "") == entry["invocation"]
        }
    return [dict(kept[name], unit=name) for name in sorted(kept)]


def read_pending(base):
    """Return unit -> what is kept of its restart that was left out. Raise HostError if that cannot
    be read.
    """
    path = os.path.join(base, "pending.json")
    try:
        kept = read_json(path)
        if isinstance(kept, dict):
            return kept
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        pass
    step = "Restart the units that have not been restarted since the last change at a convenient time, then remove that file"
    raise host_files.HostError(
        "damaged",
        "%s: the list of units that still have to be restarted cannot be read. %s" % (path, step),
    )
