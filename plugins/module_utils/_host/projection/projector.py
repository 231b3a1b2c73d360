# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make what leaves a host of a file: the values at listed places, and placeholders of the same
length for everything else.

`keep` lists what may travel: {"format": FORMAT, "places": [[path, shape], ...], "comments": [text,
...]}. Paths and shapes are those of `selection`, and two more shapes: "key" (the key is shown, its
value never) and ["is", value] (this very value, which the asker knows). Formats: toml; json;
document (only read, never edited, and so known only to `contents`: `documents`); yaml (scalars at
the top level); env (lines `KEY=value`); flags (words `--name=value`); text (what `patterns` match,
in their order); whole (all of it: for files of the kernel). A listed value that does not have its
shape is withheld: its key is shown, with its kind. Host side: standard library only, Python 3.6.
"""

import bisect
import collections
import re

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import (
    json_places,
    placeholders,
    selection,
    toml_places,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection.placeholders import (
    Header,
    UnreadableText,
)

HIDE, INSIDE, WITHHOLD, SHOW = "hide", "inside", "withhold", "show"

# `data`: the projected bytes; `withheld`: values of another shape at listed places; `hidden`: spans
# that differ from the original.
Projection = collections.namedtuple("Projection", "data withheld hidden")


def project_file(data, keep):
    """Return the Projection of a file's bytes. Raise placeholders.UnreadableText for a text that
    does not have its format.
    """
    if keep.get("format") == "text":
        return _show_matches(data, keep.get("patterns") or [], keep.get("filler"))
    made = _FORMATS.get(keep.get("format"))
    if made is None:
        raise ValueError("there is no format %r of what may travel" % (keep.get("format"),))
    return made(data, keep.get("places") or [], frozenset(keep.get("comments") or ()))


def fits_scanned_shape(shape, value):
    """Tell whether a value (as a format's scanner read it) has a shape."""
    if shape == "key":
        return False
    if isinstance(shape, (list, tuple)):
        return type(value) is type(shape[1]) and value == shape[1]
    return selection.fits_listed_shape(shape, value)


def judge_place(places, path, value):
    """Decide what becomes of a value at a path: SHOW, WITHHOLD, INSIDE (a table to look into) or
    HIDE.
    """
    shape = selection.get_listed_shape(places, path)
    leads = selection.is_on_the_way(places, path)
    if value.kind == "table":
        return INSIDE if leads else WITHHOLD if shape is not None else HIDE
    if shape is not None:
        return SHOW if fits_scanned_shape(shape, value.data) else WITHHOLD
    if leads:  # nothing in place of a table (JSON's null), which tells nothing
        return SHOW if value.data is None else WITHHOLD
    return HIDE


class _FileWork(object):
    """The replacements that turn a text into its projection."""

    def __init__(self, data, places):
        self.text = data.decode("latin-1")  # one character for each byte
        self.places = places
        self.spans = []  # (start, end, text)
        self.withheld = []
        # (start, end, Names, shared): keys that get a stand-in once all names that are shown are
        # known
        self.names = []
        self.lines = [match.end() for match in re.finditer("\n", self.text)]

    def replace(self, start, end, text):
        self.spans.append((start, end, text))

    def is_on_way(self, path):
        return (
            selection.is_on_the_way(self.places, path)
            or selection.get_listed_shape(self.places, path) is not None
        )

    def show_key_parts(self, path, parts, above, depth, last):
        """Show the parts of a key that lead to a listed place, and hide the rest.

        Tell whether all of it is shown.

        `last`: whether the last part may be shown.
        """
        count = 0
        while count < len(parts) - 1 and self.is_on_way(path[: depth + count + 1]):
            count += 1
        count += count == len(parts) - 1 and last
        for index in range(count):
            above[index].show(parts[index][0])
        if count < len(parts):
            self.names.append((parts[count][1], parts[-1][2], above[count], None))
        return count == len(parts)

    def project_pair(self, path, parts, above, depth, value):
        """Show, withhold or hide a key and its value."""
        verdict = judge_place(self.places, path, value)
        if not self.show_key_parts(path, parts, above, depth, verdict != HIDE):
            verdict = HIDE
        if verdict == INSIDE:
            self.project_members(path, value)
        elif verdict == HIDE:
            self.hide(value)
        elif verdict == WITHHOLD:
            self.replace(
                value.start,
                value.end,
                placeholders.withhold_value(value.kind, self.text[value.start : value.end]),
            )
            if selection.get_listed_shape(self.places, path) != "key":
                self.note(path, value)

    def note(self, path, value):
        span = [value.start, value.end]
        self.withheld.append(
            {
                "path": path,
                "kind": value.kind,
                "line": self.get_line(value.start),
                "span": span,
                "data": value.data,
            }
        )

    def note_line(self, path, at, line):
        self.withheld.append(
            {
                "path": path,
                "kind": "string",
                "line": self.get_line(at),
                "span": [at, at + len(line)],
                "data": line,
            }
        )

    def project_members(self, path, table):
        for member in table.inner:
            names = [name for name, _start, _end in member.parts]
            self.project_pair(path + names, member.parts, member.above, len(path), member.value)

    def hide(self, value):
        self.replace(
            value.start,
            value.end,
            placeholders.make_value_placeholder(self.text[value.start : value.end]),
        )

    def get_line(self, at):
        return bisect.bisect_right(self.lines, at) + 1

    def make_stand_ins(self, quoted):
        for start, end, names, shared in self.names:
            length = end - start - (2 if quoted else 0)
            if shared is None:
                name = names.make_stand_in(length)
            else:
                name = shared[length] = shared.get(length) or names.make_stand_in(length)
            self.replace(start, end, '"%s"' % name if quoted else name)

    def finish_projection(self):
        out, at, hidden = [], 0, []
        for start, end, text in sorted(self.spans):
            if start < at:  # a comment within a value that is hidden as a whole
                continue
            out += [self.text[at:start], text]
            hidden.append((start, end))
            at = end
        out.append(self.text[at:])
        return Projection("".join(out).encode("latin-1"), self.withheld, hidden)


def _project_toml(data, places, comments):
    items, remarks = toml_places.scan_toml(data)
    work, shows = _FileWork(data, places), True
    for item in items:
        if isinstance(item, Header):
            shows = _show_header(work, item)
        elif shows:
            work.project_pair(item.path, item.parts, item.above, item.depth, item.value)
        else:
            work.names.append((item.parts[0][1], item.parts[-1][2], item.above[0], None))
            work.hide(item.value)
    work.make_stand_ins(False)
    for start, end in remarks:
        if work.text[start:end].encode("latin-1").decode("utf-8", "replace") not in comments:
            work.replace(start, end, placeholders.make_comment_placeholder(work.text[start:end]))
    return work.finish_projection()


def _show_header(work, item):
    """Show what may be shown of a header. Tell whether anything under it may be listed."""
    count = 0
    while count < len(item.parts) and work.is_on_way(item.path[: count + 1]):
        item.above[count].show(item.parts[count][0])
        count += 1
    if count < len(item.parts):
        work.names.append(
            (
                item.parts[count][1],
                item.parts[-1][2],
                item.above[count],
                item.shared if item.array else None,
            )
        )
    return count == len(item.parts)


def _project_json(data, places, _comments):
    root, work = json_places.scan_json(data), _FileWork(data, places)
    if root is not None:
        work.project_members([], root)
    work.make_stand_ins(True)
    return work.finish_projection()


def _project_yaml(data, places, comments):
    """Read a text that begins as a JSON object as JSON, as YAML's readers do too, and any other
    line by line.
    """
    return (
        _project_json(data, places, comments)
        if data.lstrip().startswith(b"{")
        else _project_yaml_lines(data, places, comments)
    )


def _show_whole(data, _places, _comments):
    return Projection(data, [], [])


def _show_matches(data, patterns, filler):
    """Show what a pattern matches, and turn all else into comments, line by line, or into as many
    fillers. ^ and $ match at each line.
    """
    work, at = _FileWork(data, []), 0
    spans = sorted(
        match.span()
        for pattern in patterns
        for match in re.finditer(_compile_bytewise(pattern), work.text, re.M | re.ASCII)
    )
    for start, end in spans + [(len(work.text), len(work.text))]:
        for line in re.finditer(r"[^\r\n]+", work.text[at:start]):
            hidden = (
                filler * len(line.group())
                if filler
                else placeholders.make_comment_placeholder(line.group())
            )
            work.replace(at + line.start(), at + line.end(), hidden)
        at = max(at, end)
    return work.finish_projection()


def _compile_bytewise(pattern):
    """Return a pattern for texts that have one character for each byte."""
    return pattern.encode("utf-8").decode("latin-1")


# --- formats that are read line by line
# -------------------------------------------------------------------------------

# As texts, which `re` compiles when a file of such a format is met for the first time: most looks
# meet none.
_YAML_LINE = (
    r"([A-Za-z_][\w.-]*):[ \t]+(?:\"([^\"\\]*)\"|'([^']*)'|([^\s\"'#&*!|>%@`{\[][^\s#]*))[ \t]*\Z"
)
_ENV_LINE = r"([A-Za-z_]\w*)=(?:\"([^\"\\$`]*)\"|'([^']*)'|([^\s\"'\\$`]*))[ \t]*\Z"
_FLAG = r"--([A-Za-z][\w-]*)(?:=|[ \t]+)([^\s\"'\\]+)(?=[\s\"']|\Z)"


def _build_line_rule(rule):
    def made(data, places, _comments):
        placeholders.require_readable_size(data)
        work, at = _FileWork(data, places), 0
        for line in re.findall(r"[^\n]*\n|[^\n]+", work.text):
            body = line.rstrip("\r\n")
            match = re.match(rule, body)
            if body and not (
                match
                and _is_listed_text(
                    places, match.group(1), match.group(2) or match.group(3) or match.group(4) or ""
                )
            ):
                work.replace(at, at + len(body), placeholders.make_comment_placeholder(body))
            at += len(line)
        return work.finish_projection()

    return made


def _is_listed_text(places, name, value):
    shape = selection.get_listed_shape(places, [name])
    return shape is not None and fits_scanned_shape(shape, _decode_value(value))


def _decode_value(value):
    """Return the text of a value that has one character for each byte. A byte that is not UTF-8
    fits no shape.
    """
    return value.encode("latin-1").decode("utf-8", "surrogateescape")


def _flags(data, places, _comments):
    """Turn everything but the listed flags into spaces: words are separated by them."""
    work, at = _FileWork(data, places), 0
    shown = [
        match.span()
        for match in re.finditer(_FLAG, work.text)
        if _is_listed_text(places, match.group(1), match.group(2))
    ]
    for start, end in shown + [(len(work.text), len(work.text))]:
        if at < start:
            work.replace(at, start, re.sub(r"[^\r\n]", " ", work.text[at:start]))
        at = end
    return work.finish_projection()


_YAML_KEY = r"[\"']?([A-Za-z_][\w.-]*)[\"']?[ \t]*:(?:[ \t]|\Z)"
_YAML_REMARK = r"[ \t]#.*\Z"
_YAML_MARKER = r"(?:---|\.\.\.)(?:[ \t]+|\Z)"
# What may hold any key: braces, a key by `?`, one with escapes, a merged or a tagged table.
_YAML_ANY_KEY = r"[{?&*!]|<<[ \t]*:|\"[^\"]*\\"
_BOM = "\xef\xbb\xbf"


def _project_yaml_lines(data, places, _comments):
    """Show listed scalars at the top level, and one level below a key under which something is
    listed.

    A listed key whose value is written in another way (an anchor, a block, braces) is withheld,
    since that value cannot be shown. So is each listed key in a place whose keys are written in
    another way. Readers take the first document, so nothing of a second one is shown.
    """
    placeholders.require_readable_size(data)
    work, at, above = _FileWork(data, places), 0, _Above(places)
    for line in re.findall(r"[^\n]*\n|[^\n]+", work.text):
        body = line.rstrip("\r\n")
        plain = re.sub(_YAML_REMARK, "", body).rstrip(" \t")
        path = above.get_path(plain)
        for lost in above.list_lost_paths(plain):
            work.note_line(lost, at, body)
        match = re.match(_YAML_LINE, plain.lstrip(" "))
        if path and (
            above.opens(path, plain) or (match and _show_listed_value(places, path, match))
        ):
            if len(plain) < len(body):
                work.replace(
                    at + len(plain),
                    at + len(body),
                    " " + placeholders.make_comment_placeholder(body[len(plain) + 1 :]),
                )
        elif body:
            work.replace(at, at + len(body), placeholders.make_comment_placeholder(body))
            if path and (
                selection.get_listed_shape(places, path) is not None
                or selection.is_on_the_way(places, path)
            ):
                work.note_line(path, at, body)
        at += len(line)
    return work.finish_projection()


class _Above(object):
    """The place of a line of YAML: at the top level, or directly below a key of it."""

    def __init__(self, places):
        self.places = places
        self.key = None
        self.indent = 0
        self.begun = self.over = False  # the first document
        self.lost = []  # listed paths that were told of

    def get_path(self, line):
        """Return the path of the key on this line; None if the line has no key that counts."""
        line = _strip_start(line)
        if re.match(_YAML_MARKER, line):
            self.over = self.over or self.begun
        elif line and line[0] not in "#%":
            self.begun = True
        if self.over:
            return None
        indent = len(line) - len(line.lstrip(" "))
        match = re.match(_YAML_KEY, line.lstrip(" "))
        if line and not indent:
            self.key, self.indent = (match.group(1) if match else None), 0
            return [self.key] if match else None
        self.indent = self.indent or indent
        return [self.key, match.group(1)] if match and self.key and indent == self.indent else None

    def list_lost_paths(self, line):
        """Return the listed paths that may be on this line, whose keys are not read. Each is told
        of once.
        """
        line = _strip_start(line)
        if not self.over and re.match(_YAML_MARKER, line):
            line = re.sub(_YAML_MARKER, "", line)
            self.begun = self.begun or bool(line)
        inner = line.lstrip(" ")
        indent = len(line) - len(inner)
        if self.over or indent not in (0, self.indent) or not re.match(_YAML_ANY_KEY, inner):
            return []
        lost = [path for path, _shape in self.places if not indent or path[0] == self.key]
        fresh = [path for path in lost if path not in self.lost]
        self.lost += fresh
        return fresh

    def opens(self, path, line):
        """Tell whether the line has only a key under which something is listed."""
        return len(path) == 1 and line.endswith(":") and selection.is_on_the_way(self.places, path)


def _strip_start(line):
    """Return a line without the mark that may begin a file of UTF-8."""
    return line[len(_BOM) :] if line.startswith(_BOM) else line


def _show_listed_value(places, path, found):
    shape = selection.get_listed_shape(places, path)
    value = found.group(2) or found.group(3) or found.group(4) or ""
    return shape is not None and fits_scanned_shape(
        shape,
        value == "true" if shape == "bool" and value in ("true", "false") else _decode_value(value),
    )


_FORMATS = {
    "toml": _project_toml,
    "json": _project_json,
    "whole": _show_whole,
    "yaml": _project_yaml,
    "env": _build_line_rule(_ENV_LINE),
    "flags": _flags,
}

__all__ = ["Projection", "UnreadableText", "fits_scanned_shape", "judge_place", "project_file"]
