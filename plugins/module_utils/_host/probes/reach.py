# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Try whether this host reaches an address.

A plain program: it runs in a child that is killed when it takes too long.

It gives up a little before that, so that its answer tells so. Standard library only, Python 3.6.
Arguments are one JSON object: {"url", "proxies": [patterns of files that may name a proxy]}. Any
answer of a server counts: the asker judges whether it has what is wanted. A package manager with a
proxy of its own goes another way than this program would, so nothing is tried then. Prints
{"tried", "reached", "why"}; why is a sentence of this file.
"""

import fnmatch
import json
import os
import re
import signal
import socket
import ssl
import sys
import urllib.error
import urllib.request

SECONDS = 10  # for each part of an answer
WHOLE = 15  # for all of it: a server that gives a byte now and then begins the others again
# /etc/sysconfig/proxy of SUSE's systems, which zypper reads
ENABLED = re.compile(r"^PROXY_ENABLED=[\"']?yes", re.IGNORECASE | re.MULTILINE)
PROXY = re.compile(
    r"^[^#/\n]*\bproxy(?:-auto-detect)?\b[\s\"=:{]+[^\s;]", re.IGNORECASE | re.MULTILINE
)


def run(request):
    if request["url"].startswith("file://"):
        there = os.path.isdir(request["url"][len("file://") :])
        return build_reach_result(there, "" if there else "there is no such directory")
    if has_proxy(request.get("proxies") or []):
        return {
            "tried": False,
            "reached": False,
            "why": "the package manager has a proxy of its own",
        }
    before = signal.signal(signal.SIGALRM, raise_timeout)
    signal.alarm(WHOLE)
    try:
        urllib.request.build_opener().open(request["url"], timeout=SECONDS).close()
    except urllib.error.HTTPError as exc:
        exc.close()
    except Exception as exc:
        return build_reach_result(False, describe_unreached(getattr(exc, "reason", exc)))
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return build_reach_result(True, "")


def raise_timeout(_number, _frame):
    """Raise the error of a time limit. It handles the alarm."""
    raise socket.timeout()


def build_reach_result(reached, why):
    """Return the answer about an address that was tried."""
    return {"tried": True, "reached": reached, "why": why}


def describe_unreached(cause):
    """Return why an address could not be reached."""
    if isinstance(cause, socket.gaierror):
        return "its name is not known"
    if isinstance(cause, ssl.SSLError):
        return "its certificate is not accepted"
    if isinstance(cause, (socket.timeout, TimeoutError)):
        return "no answer in time"
    if isinstance(cause, ConnectionRefusedError):
        return "nothing listens there"
    return "no connection (%s)" % type(cause).__name__


def has_proxy(patterns):
    """Tell whether a package manager may have a proxy. A file that cannot be read may name one."""
    try:
        return any(names_proxy(path) for pattern in patterns for path in list_files(pattern))
    except OSError:
        return True


def list_files(pattern):
    """Return the paths that match a pattern whose last component may have `*`. Raise OSError if the
    directory cannot be listed: glob.glob takes that for an empty one.
    """
    directory, name = os.path.split(pattern)
    try:
        with os.scandir(directory) as listed:
            return [entry.path for entry in listed if fnmatch.fnmatchcase(entry.name, name)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def names_proxy(path):
    """Tell whether a file names a proxy. Raise OSError if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            text = stream.read(1 << 20)
    except (FileNotFoundError, IsADirectoryError):
        return False
    return bool(PROXY.search(text) or ENABLED.search(text))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(json.loads(sys.argv[1]))))
