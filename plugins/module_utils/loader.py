# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start a program of the node's from the sources of its parts, which were sent or lie in one file on the disk.

A part is compiled when something of it is used for the first time: compiling is most of what a short program costs, and what a host
has no use for (no socket, no CDI spec) is not compiled there. Sent before everything else, so that it imports none of the parts.
Node side: standard library only, Python 3.6.
"""

import binascii
import json
import sys
import zlib

_Module, _Spec = type(sys), type(sys.__spec__)  # types and importlib.machinery take their time to import


class Unused(_Module):
    """A part that was imported and is not used yet."""

    def __getattr__(self, name):
        if name.startswith("__"):  # what the import system itself asks for
            raise AttributeError(name)
        self.__spec__.loader.run(self)
        return getattr(self, name)


class Parts(object):
    """Finds and loads the parts of a program. packed: the sources as they were sent; own: the source of this file."""

    def __init__(self, package, packed, own):
        self.packed, self.own = packed, own
        self.sources = {"%s.%s" % (package, part): (part, source) for part, source in unpack(packed)}
        self.packages = set()
        for name in self.sources:
            while "." in name:
                name = name.rpartition(".")[0]
                self.packages.add(name)

    def find_spec(self, name, _path=None, _target=None):
        if name in self.sources or name in self.packages:
            return _Spec(name, self, is_package=name in self.packages)
        return None

    def create_module(self, _spec):
        return None

    def exec_module(self, module):
        if module.__name__ in self.sources:
            module.__class__ = Unused

    def run(self, module):
        module.__class__ = _Module
        part, source = self.sources[module.__name__]
        exec(compile(source, part.replace(".", "/") + ".py", "exec"), module.__dict__)

    def get_source(self, name):
        return self.sources[name][1]


def unpack(data):
    return json.loads(zlib.decompress(data).decode("utf-8"))


def load(package, packed, own, part):
    """The module of one part. First in the way of every other finder: these names mean these sources, whatever else the host has."""
    sys.meta_path.insert(0, Parts(package, packed, own))
    sys.modules[package + ".loader"] = sys.modules[__name__]
    __import__("%s.%s" % (package, part))
    return sys.modules["%s.%s" % (package, part)]


def sent(stream, own, sizes):
    """Run what comes over stdin: the sources and the job. The answer is one line that begins with the job's marker."""
    packed, job = stream.read(sizes[0]), unpack(stream.read(sizes[1]))
    answer = load(job["package"], packed, own, job["main"]).run(job["request"])
    line = binascii.b2a_base64(zlib.compress(json.dumps(answer).encode("utf-8"))).decode("ascii")
    sys.stdout.write("\n" + job["marker"] + line)
