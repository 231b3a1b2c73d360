# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report on files and directories for an observation. Host side: standard library only, Python 3.6."""

import os
import re
import stat

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    host_files,
    journal_queries,
    keyed,
    trust,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import (
    contents,
    placeholders,
)


def stat_fields(root, real, found):
    """Return what the file system says of a file, as an answer has it."""
    device = stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode)
    return {
        "exists": True,
        "type": host_files.name_file_type(found),
        "mode": stat.S_IMODE(found.st_mode),
        "uid": found.st_uid,
        "gid": found.st_gid,
        "owner": host_files.map_id_names(root, "passwd").get(found.st_uid, str(found.st_uid)),
        "group": host_files.map_id_names(root, "group").get(found.st_gid, str(found.st_gid)),
        "size": found.st_size,
        "mtime": found.st_mtime,
        "ctime": found.st_ctime,
        "ino": found.st_ino,
        "dev": found.st_dev,
        "nlink": found.st_nlink,
        "selinux": host_files.read_selinux_label(host_files.get_full_path(root, real)),
        "rdev": [os.major(found.st_rdev), os.minor(found.st_rdev)] if device else None,
    }


def describe_file(root, path, content=True, cap=host_files.MIB, keep=None):
    """Return the answer to a `file` question. Digest and content are given for regular files no
    larger than cap.
    """
    real, links = host_files.resolve_links(root, path)
    status = host_files.get_lstat(root, real)
    answer = {"real": real, "links": links, "sha256": None, "content": None, "encoding": "utf-8"}
    if status is None:
        link = host_files.find_dangling_link(root, path)
        if link is None:
            return {"exists": False}
        answer.update(stat_fields(root, link, host_files.get_lstat(root, link)), real=None)
        return answer
    answer.update(stat_fields(root, real, status))
    if answer["type"] == "dir":
        answer["untrusted"] = explain_untrusted_directory(root, path)
    if answer["type"] != "file" or (not content and status.st_size > cap):
        return answer
    try:
        data = host_files.read_regular(root, real, cap)
    except host_files.HostError as exc:
        if content:
            answer.update(exc.build_answer())
        return answer
    answer["sha256"] = keyed.digest_with_key(host_files.digest_bytes(data))
    if content:
        answer.update(
            contents.show_content(
                data, keep, real, whole=journal_queries.may_show_whole_file(root, path, data, keep)
            )
        )
    return answer


def explain_untrusted_directory(root, path):
    """Return why a transaction would not write to a directory, by the executor's own rule; "" if it
    would.
    """
    doubt = trust.judge_path(root, path)
    return "%s %s" % (doubt.place, doubt.why) if doubt else ""


def digest_certificates(data):
    """Return the digest of the certificates in a PEM file, whatever their order and line breaks;
    None if there are none.

    It is the plain digest, which is the same on every host: certificates are public, and no text of
    another kind is part of it.
    """
    blocks = re.findall(
        b"-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\\s]+)-----END CERTIFICATE-----", data
    )
    plain = b"\n".join(sorted(b"".join(block.split()) for block in blocks))
    return host_files.digest_bytes(plain) if blocks else None


def list_names(root, real):
    """List the names in a resolved directory, in the byte order that Go's sort.Strings gives."""
    try:
        return sorted(os.listdir(host_files.get_full_path(root, real)), key=os.fsencode)
    except OSError as exc:
        raise host_files.build_os_error(exc, real)


def list_dir(root, path):
    """Return the answer to a `dir` question."""
    real = host_files.resolve_links(root, path)[0]
    status = host_files.get_lstat(root, real)
    if status is None:
        return {"exists": False, "entries": []}
    if not stat.S_ISDIR(status.st_mode):
        raise host_files.HostError(
            "failed", "%s: is a %s, not a directory" % (path, host_files.name_file_type(status))
        )
    names = list_names(root, real)
    if len(names) > host_files.MAX_ENTRIES:  # never a part of it, taken for the whole
        raise host_files.HostError(
            "too-large", "%s: holds more than %d files" % (path, host_files.MAX_ENTRIES)
        )
    entries = []
    for name in names:
        spot = os.path.join(real, name)
        item = host_files.get_lstat(root, spot)
        if item is None:  # gone since it was listed
            continue
        fields = stat_fields(root, spot, item)
        entry = {key: fields[key] for key in ("type", "size", "mode", "rdev")}
        entry.update(
            name=name,
            target=os.readlink(host_files.get_full_path(root, spot))
            if entry["type"] == "link"
            else None,
        )
        entries.append(entry)
    return {"exists": True, "entries": entries}


class Folders(object):
    """The folders that one look at many paths has met. The real place and the names of each are
    found out once.
    """

    def __init__(self, root):
        self.root = root
        self._real, self._names = {}, {}

    def resolve_folder(self, folder):
        if folder not in self._real:
            self._real[folder] = host_files.resolve_links(self.root, folder)[0]
        return self._real[folder]

    def names(self, folder):
        """Return the names in a folder; None if it is not a folder."""
        real = self.resolve_folder(folder)
        if real not in self._names:
            self._names[real] = (
                list_names(self.root, real)
                if os.path.isdir(host_files.get_full_path(self.root, real))
                else None
            )
        return self._names[real]

    def find_spot_of(self, path):
        """Return the path with the links of its folders resolved, and its own link kept."""
        folder, name = os.path.split(path.rstrip("/"))
        return os.path.join(self.resolve_folder(folder or "/"), name)


def list_glob_matches(root, pattern, folders=None):
    """List the host paths that match, in the order of Go's filepath.Glob. * and ? stay within a
    component and match dot files.
    """
    folders = folders or Folders(root)
    parts = [part for part in pattern.split("/") if part]
    if not pattern.startswith("/") or not parts:
        raise host_files.HostError(
            "bad-question", "a pattern must be an absolute path, not %r" % (pattern,)
        )
    paths = [""]
    for part in parts:
        if "*" not in part and "?" not in part:
            paths = [path + "/" + part for path in paths]
            continue
        begin, fits, matched = part.split("*")[0].split("?")[0], _build_matcher(part), []
        for path in paths:
            matched.extend(
                path + "/" + name
                for name in folders.names(path or "/") or ()
                if name.startswith(begin) and fits(name)
            )
        paths = matched
        if len(paths) > host_files.MAX_ENTRIES:
            raise host_files.HostError(
                "too-large", "%s: matches more than %d files" % (pattern, host_files.MAX_ENTRIES)
            )
    if "*" in parts[-1] or "?" in parts[-1]:  # then these names are from a listing
        return paths
    return [
        path for path in paths if host_files.get_lstat(root, folders.find_spot_of(path)) is not None
    ]


def _build_matcher(part):
    """Return a function that tells whether a name matches a part of a pattern. re is slow to
    compile the hundreds of a look.
    """
    if "?" in part:
        return re.compile(
            "".join({"*": "[^/]*", "?": "[^/]"}.get(char, re.escape(char)) for char in part)
            + r"\Z",
            re.DOTALL,
        ).match
    pieces = part.split("*")

    def fits(name):
        at = len(pieces[0])
        for piece in pieces[1:-1]:
            at = name.find(piece, at)
            if at < 0:
                return False
            at += len(piece)
        return (
            name.startswith(pieces[0])
            and name.endswith(pieces[-1])
            and at + len(pieces[-1]) <= len(name)
        )

    return fits


def fulfils(root, where):
    """Tell whether a host has what a question's condition asks for: no match of the patterns in
    `absent`, one for each in `present`, and of `each` as many of the second as of the first.
    """

    def count(pattern):
        return len(list_glob_matches(root, pattern))

    few, many = where["each"]
    return (
        not any(map(count, where["absent"]))
        and all(map(count, where["present"]))
        and count(few) <= count(many)
    )


def list_paths(root, patterns):
    """List what matches many patterns and where it leads, in the order of the patterns, each place
    once.

    Nothing is read.

    `spot` is present if the path lies behind a linked folder: the same place without that link.
    """
    entries, met, folders = [], set(), Folders(root)
    for pattern in patterns:
        for path in list_glob_matches(root, pattern, folders):
            spot = folders.find_spot_of(path)
            if spot in met:
                continue
            met.add(spot)
            there = host_files.get_lstat(root, spot)
            if there is None:  # gone since it was listed
                continue
            real = host_files.resolve_links(root, spot)[0] if stat.S_ISLNK(there.st_mode) else spot
            item = there if real == spot else host_files.get_lstat(root, real)
            there = item or there
            entry = {
                "path": path,
                "real": real if item else None,
                "type": host_files.name_file_type(there),
                "mode": stat.S_IMODE(there.st_mode),
            }
            entries.append(entry if spot == path else dict(entry, spot=spot))
    return entries


def find_mentioned_paths(root, pattern, finds, cap=host_files.MIB, readable=None, keep=None):
    """Return the answer to a question of the kind `mentioned`: the absolute paths that regular files
    name, with what is there.

    Group 1 of the patterns finds the paths. No content leaves the host. Only the parts of the files
    that may travel by `keep` are searched. A path where nothing is has None. "rdev" is the numbers
    of the device node itself, "link" tells whether a link leads to it.
    """
    names = set()
    for path in list_glob_matches(root, pattern):
        try:
            if readable is not None and not readable(path):  # the glob question reports it
                continue
            data = host_files.read_regular(root, host_files.resolve_links(root, path)[0], cap)
            whole = not keep or journal_queries.may_show_whole_file(root, path, data, keep)
            text = (data if whole else contents.project_content(data, keep).data).decode(
                "utf-8", "replace"
            )
        except placeholders.UnreadableText:
            continue
        except host_files.HostError:
            # a directory, something too large: the glob question reports it
            continue
        for find in finds:
            try:
                names.update(match.group(1) for match in re.finditer(find, text, re.MULTILINE))
            except (re.error, IndexError) as exc:
                raise host_files.HostError("bad-question", "pattern %r: %s" % (find, exc))
    # A text that is longer than any path is nowhere.
    wanted = sorted(
        name
        for name in names
        if name.startswith("/") and "\0" not in name and len(name) <= host_files.CUT
    )
    if len(wanted) > host_files.MAX_ENTRIES:
        raise host_files.HostError(
            "too-large",
            "%s: these files point at more than %d paths" % (pattern, host_files.MAX_ENTRIES),
        )
    return {"paths": {name: _describe_there(root, name) for name in wanted}}


def _describe_there(root, path):
    try:
        real, links = host_files.resolve_links(root, path)
        status = host_files.get_lstat(root, real)
    except host_files.HostError:  # a loop of links, a directory that may not be entered
        return None
    if status is None:
        return None
    device = stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode)
    numbers = [os.major(status.st_rdev), os.minor(status.st_rdev)] if device else None
    return {
        "type": host_files.name_file_type(status),
        "rdev": numbers,
        "link": host_files.find_spot(root, path) in links,
    }
