# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start a program of the host's from the sources of its parts, which were sent or lie in one file
on the disk.

A part is compiled when something of it is used for the first time. Compiling is most of what a
short program costs. Parts that a host does not need (it has no socket, no CDI spec) are not
compiled there. If root keeps the compiled form of these very sources (`Compiled`), that runs
instead. This file is sent before everything else, so it imports none of the parts. Host side:
standard library only, Python 3.6.
"""

import binascii
import gc
import json
import marshal
import os
import stat
import sys
import zlib

# hashlib brings OpenSSL, which takes longer to load than all else that a look imports. This is what
# hashlib itself falls back on.
try:
    from _sha2 import sha256  # from 3.12 on
except ImportError:
    try:
        from _sha256 import sha256
    except ImportError:
        from hashlib import sha256

# types and importlib.machinery take their time to import
_Module, _Spec = (
    type(sys),
    type(sys.__spec__),
)
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LARGEST = 1 << 23  # bytes of a compiled form
KEPT = (
    6  # compiled forms: of looks, changes and verifications, of this release and of the one before
)


class Compiled(object):
    """The compiled form of one program, in a directory of root's alone: `base`/compiled.

    A form that is not as it must be counts as absent. Its name is the digest of the compressed
    sources, and everything else that the form depends on (the interpreter's tag, its magic number,
    -O). Its content is the digest of name and body, and the body. It is reached by descriptors from
    the root directory on. Each is judged once it is open: a link is refused, and so is a file or a
    directory that another account owns or may write to. The form is read once, and what was judged
    is what runs.
    """

    def __init__(self, base, packed):
        self.path = [part for part in base.split("/") if part] + ["compiled"]
        magic = binascii.b2a_hex(sys.modules["_frozen_importlib_external"].MAGIC_NUMBER).decode(
            "ascii"
        )
        digest = sha256(packed).hexdigest()
        self.name = "%s.%s.%s.O%d" % (
            digest,
            sys.implementation.cache_tag,
            magic,
            sys.flags.optimize,
        )

    def read(self):
        """Return {part: its marshalled code}; {} if there is no such form."""
        try:
            folder = self._open_folder()
            try:
                data = self._open_file(folder)
            finally:
                os.close(folder)
            return marshal.loads(data[32:]) if data[:32] == self._digest(data[32:]) else {}
        except (OSError, ValueError, EOFError, TypeError):
            return {}

    def _open_file(self, folder):
        fd = os.open(
            self.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
        )
        with os.fdopen(fd, "rb") as stream:
            status = os.fstat(fd)
            _require(status)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_size > LARGEST:
                raise ValueError("not as it was written")
            return stream.read(LARGEST)

    def write(self, codes):
        """Keep the form for the next time. A failure is ignored. The directory that it lies in is
        made, the one above never.
        """
        body, spare = marshal.dumps(codes), ".%d" % os.getpid()
        try:
            folder = self._open_folder(make=True)
        except (OSError, ValueError):
            return
        try:
            fd = os.open(
                spare,
                os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
                0o600,
                dir_fd=folder,
            )
            with os.fdopen(fd, "wb") as stream:
                stream.write(self._digest(body) + body)
            os.rename(spare, self.name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            pass
        finally:
            _tidy(folder, spare)
            os.close(folder)

    def _digest(self, body):
        return sha256(self.name.encode("ascii") + b"\0" + body).digest()

    def _open_folder(self, make=False):
        """Return a descriptor of the directory. Raise OSError or ValueError unless it, and each
        above it, is root's alone.
        """
        here = os.open("/", _DIRECTORY)
        try:
            for part in self.path:
                _require(os.fstat(here), passed=True)
                if make and part is self.path[-1]:
                    _make(part, here)
                above, here = here, os.open(part, _DIRECTORY, dir_fd=here)
                os.close(above)
            _require(os.fstat(here))
            return here
        except Exception:
            os.close(here)
            raise


def _is_owned_by_root(found):
    """Tell whether only root can change a file; without root's privileges, the account itself
    counts as well.
    """
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & 0o022


def _require(found, passed=False):
    """Raise ValueError unless a file is root's alone.

    passed: a directory on the way. In a sticky one, no other account can rename a directory of
    root's.
    """
    if not _is_owned_by_root(found) and not (
        passed and found.st_mode & stat.S_ISVTX and found.st_uid == 0
    ):
        raise ValueError("not root's alone")


def _make(name, folder):
    try:
        os.mkdir(name, 0o700, dir_fd=folder)
    except FileExistsError:
        pass


def _tidy(folder, spare):
    """Remove what a write has left, and all but the KEPT newest forms: a form that is still used is
    compiled again.
    """
    try:
        ages = {
            name: os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime
            for name in os.listdir(folder)
        }
        old = sorted(ages, key=ages.get)[:-KEPT]
        for name in ages:
            if name in old or name == spare:
                os.unlink(name, dir_fd=folder)
    except OSError:  # another process tidies up at this moment
        pass


class Unused(_Module):
    """A part that was imported and is not used yet."""

    def __getattr__(self, name):
        if name.startswith("__"):  # the import system itself asks for it
            raise AttributeError(name)
        self.__spec__.loader.run(self)
        return getattr(self, name)


class Parts(object):
    """A finder and loader of the parts of a program.

    own: the source of this file. kept: a Compiled, or None. packed: the parts as they were sent,
    each its name and its source, separated by zeros, compressed together.
    """

    def __init__(self, package, packed, own, kept=None):
        self.package, self.packed, self.own, self.kept = package, packed, own, kept
        self.read = kept.read() if kept else {}
        self.codes, self._sources = {}, {}
        self.names = {"%s.%s" % (package, part): part for part in self.read or self.read_sources()}
        self.packages = set()
        for name in self.names:
            while "." in name:
                name = name.rpartition(".")[0]
                self.packages.add(name)

    def read_sources(self):
        if not self._sources:
            text = zlib.decompressobj(zdict=self.own.encode("utf-8")).decompress(self.packed)
            words = text.decode("utf-8").split("\0")
            self._sources = {words[at]: words[at + 1] for at in range(0, len(words), 2)}
        return self._sources

    def find_spec(self, name, _path=None, _target=None):
        if name in self.names or name in self.packages:
            return _Spec(name, self, is_package=name in self.packages)
        return None

    def create_module(self, _spec):
        return None

    def exec_module(self, module):
        if module.__name__ in self.names:
            module.__class__ = Unused

    def run(self, module):
        module.__class__ = _Module
        exec(self.compile_part(self.names[module.__name__]), module.__dict__)

    def compile_part(self, part):
        if part in self.read:
            return marshal.loads(self.read[part])
        if part not in self.codes:
            self.codes[part] = compile(
                self.read_sources()[part], part.replace(".", "/") + ".py", "exec"
            )
        return self.codes[part]

    def get_source(self, name):
        return self.read_sources()[self.names[name]]

    def keep(self):
        """Write the compiled form, so that the next start need not compile."""
        if self.kept and not self.read:
            self.read = {
                part: marshal.dumps(self.compile_part(part)) for part in self.read_sources()
            }
            self.kept.write(self.read)


def unpack_job(data):
    """Return the job that was sent, from compressed JSON."""
    return json.loads(zlib.decompress(data).decode("utf-8"))


def load_part(package, packed, own, part, base=None):
    """Return the module of one part.

    Its finder comes before every other: these names mean these sources, whatever else the host has.

    base: the directory below which a compiled form may lie; None to run plain sources.
    """
    sys.meta_path.insert(0, Parts(package, packed, own, Compiled(base, packed) if base else None))
    sys.modules[package + ".loader"] = sys.modules[__name__]
    __import__("%s.%s" % (package, part))
    return sys.modules["%s.%s" % (package, part)]


def run_sent_program(stream, own, sizes):
    """Run what comes over stdin: the sources and the job. The answer is one line that begins with
    the job's marker.
    """
    gc.disable()  # a look is over before there is much to collect
    packed, job = stream.read(sizes[0]), unpack_job(stream.read(sizes[1]))
    answer = load_part(job["package"], packed, own, job["main"], job["base"]).run(job["request"])
    line = binascii.b2a_base64(zlib.compress(json.dumps(answer).encode("utf-8"))).decode("ascii")
    sys.stdout.write("\n" + job["marker"] + line)
    sys.stdout.flush()
    if job["keep"]:
        sys.meta_path[0].keep()
    os._exit(0)  # all is written; taking the interpreter down piece by piece has no use
