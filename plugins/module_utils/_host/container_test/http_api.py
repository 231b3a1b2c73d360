# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verify a container through an engine that speaks HTTP over its socket.

Make the container, run it to its end, read its output, remove it. The request contains what to
make, in the engine's own words. Host side: standard library only, Python 3.6.
"""

import json
import struct
import time
import urllib.parse

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import host_files
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.rpc import unix_http


class FailedCase(Exception):
    """A case that could not be carried through: the step, and the message of that step."""

    def __init__(self, step, message):
        super(FailedCase, self).__init__(message)
        self.step, self.message = step, message


def describe_container_end(code, words):
    """Return the sentence about a container that ended with this status."""
    return "the shell in the container ended with %s%s" % (code, ": " + words if words else "")


class HttpEngine(object):
    """The engine behind one socket.

    heard: a function that returns what may be shown of an engine's or a shell's output.
    """

    LONGEST = 4 * host_files.MIB  # of an answer: a container may print without an end

    def __init__(self, path, timeout, heard):
        self.path, self.timeout, self.heard = path, timeout, heard

    def call(self, step, method, target, body=None):
        """Return (status, bytes of the answer)."""
        try:
            return unix_http.ask_http(
                self.path, method, target, self.timeout, body, cap=self.LONGEST
            )
        except host_files.HostError as exc:
            raise FailedCase(step, exc.message)

    def ask(self, step, method, target, body=None):
        """Return the answer as JSON, {} for an empty one. Raise FailedCase if the engine refuses,
        or answers otherwise.
        """
        said = self.read(step, method, target, body)
        try:
            return json.loads(said.decode("utf-8", "replace") or "{}")
        except ValueError:
            raise FailedCase(step, "the answer is no JSON")

    def read(self, step, method, target, body=None):
        """Return the bytes of the answer. Raise FailedCase if the engine refuses."""
        status, said = self.call(step, method, target, body)
        self.require_accepted(step, status, said)
        return said

    def require_accepted(self, step, status, said):
        """Raise FailedCase, with what may be shown of its message, if the engine refuses."""
        if status >= 400:
            try:
                message = json.loads(said.decode("utf-8", "replace"))["message"]
            except (ValueError, TypeError, KeyError):
                message = ""
            raise FailedCase(step, self.heard(str(message)) or "status %d" % status)

    def start(self, image, create, command):
        """Return the output of the command in a container of its own, which is gone afterwards."""
        status, said = self.call(
            "image", "GET", "/images/%s/json" % urllib.parse.quote(image, safe="/:")
        )
        if status == 404:
            raise FailedCase("image", "image %s is not on this host" % image)
        self.require_accepted("image", status, said)
        made = self.ask(
            "create",
            "POST",
            "/containers/create",
            dict(create, Image=image, Entrypoint=[], Cmd=command),
        )["Id"]
        try:
            self.ask("start", "POST", "/containers/%s/start" % made)
            code = self.ask("wait", "POST", "/containers/%s/wait" % made).get("StatusCode")
            if not isinstance(code, int):
                raise FailedCase(
                    "wait", "the engine does not report how the shell in the container ended"
                )
            said = read_log_words(
                self.read("logs", "GET", "/containers/%s/logs?stdout=1&stderr=1" % made)
            )
        finally:
            self.remove(made)
        if code:
            raise FailedCase("wait", describe_container_end(code, self.heard(said)))
        return said

    def remove(self, container):
        self.ask("remove", "DELETE", "/containers/%s?force=1&v=1" % container)

    def clean_earlier(self, label, age):
        """Remove what a check left when it was killed midway."""
        filters = urllib.parse.quote(json.dumps({"label": [label]}))
        for item in self.ask("list", "GET", "/containers/json?all=1&filters=" + filters):
            if item.get("Created", 0) < time.time() - age:
                self.remove(item["Id"])


def read_log_words(stream):
    """Return what a container wrote, from the frames of its log.

    A frame has a byte for the stream, three zero bytes, four for the length, and the text.
    """
    parts, at = [], 0
    while at + 8 <= len(stream):
        size = struct.unpack(">I", stream[at + 4 : at + 8])[0]
        parts.append(stream[at + 8 : at + 8 + size])
        at += 8 + size
    return b"".join(parts).decode("utf-8", "replace")
