# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Project a document in YAML or JSON that is only read: listed values, and stand-ins for all
others, with the lines of the file.

A stand-in is `(hidden TAG BYTES)`. Equal values of a host have equal tags, so a comparison finds
the same as in the file. BYTES is the length of the value. A stand-in keeps the signs "=" and "/" at
its end if the value has them. It contains `no-text` if a number or a truth value without quotes
would be read as another text than is written. Comments go, except listed ones.

Besides the shapes of `selection`, a place may have:

- "number": a number without quotes.
- ["split", SIGN, SHAPE, {NAME: SHAPE}]: a text that is judged on both sides of the first SIGN, the
  right side by its name or by the name "*".
- ["arguments", {FLAG: SHAPE}, KEY, {PROGRAM: N}]: a list, the words of a program whose path is the
  value of KEY next to it. Word N of a listed program is shown too, if it has the shape "command".
- ["hidden", SHAPE, [DOMAIN]]: never shown. A key that has the shape keeps it, and is shown if it
  belongs to one of the domains.

Host side: standard library only, Python 3.6.
"""

import posixpath
import re

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import (
    selection,
    yaml_scalars,
    yaml_scan,
)

_FOLD = {0x17F: "s", 0x212A: "k"}  # letters that Go takes for these when it compares keys
_PATH_PART = re.compile(r"[\w.+@%,:~-]{0,255}")
_TRAILING = re.compile(r"[ \t]+(?=[\r\n#]|\Z)")
_MORE = re.compile(r"^(?!\.\.\.(?:\s|\Z))[ \t]*[^\s#]|^ *\t", re.MULTILINE)
_SIMPLE = re.compile(r"[^\x00-\x1f\x7f\"\\]{1,255}")  # may stand in double quotes as it is
_ROOTED = re.compile(r"/(?!/)[^\n]{0,4095}")


def project_document(data, keep, tag):
    """Return (projected bytes, [], replaced spans) of a document. tag: text -> its tag.

    keep: "places", "comments", and "known", the names in paths that the asker knows already. The
    second value is empty: a document has no withheld values.
    """
    comments = keep.get("comments") or ()
    scanned = yaml_scan.scan_yaml(data)
    work = _DocumentWork(scanned.text, tag, frozenset(keep.get("known") or ()))
    if scanned.root is not None:
        work.walk(scanned.root, _build_tree(keep.get("places") or ()), {})
    work.number_anchors(scanned.names)
    for start, end in scanned.comments:
        if scanned.text[start:end] not in comments:
            work.spans.append((start, end, "#"))
    work.hide_rest(scanned.rest)
    return work.finish_projection()


def get_listed_first_comment(data, comments):
    """Return the listed comment that is the first line of a text; None if that line is another."""
    line = data.split(b"\n", 1)[0].rstrip(b"\r")
    return next((text for text in comments if text.encode("utf-8") == line), None)


class _Place(object):
    """A part of a listed path: the shape of the value there, and what is listed below it."""

    __slots__ = ("shape", "below")

    def __init__(self):
        self.shape = None
        self.below = {}


_NOTHING = _Place()


def _build_tree(places):
    root = _Place()
    for path, shape in places:
        place = root
        for part in path:
            place = place.below.setdefault(part.lower(), _Place())
        place.shape = shape
    return root


def _get_text(value):
    """Return a scalar as text; None for any other value."""
    return value.data if value.kind in ("string", "number", "boolean") else None


class _DocumentWork(object):
    def __init__(self, text, tag, known):
        self.text = text
        self.known = known
        self.tag = tag
        self.tags = {}
        self.spans = []

    # --- what becomes of a value ---

    def walk(self, value, place, siblings):
        """Replace a value, and what it contains, as its place demands.

        siblings: the texts under the keys of the table that this value is in.
        """
        if value.kind == "table":
            self.project_table(value, place)
        elif value.kind == "array":
            self.project_array(value, place, siblings)
        elif value.kind in ("string", "number", "boolean"):
            self.replace(value, self.show_scalar(value, place.shape))

    def project_table(self, value, place):
        siblings = {self.name(key): item.data for key, item in value.inner if item.kind == "string"}
        for key, item in value.inner:
            if key.kind == "string" and key.data == "<<" and self.text[key.start] == "<":
                self.merge(item, place)
                continue
            name = self.name(key)
            below = place.below.get(name) if name != "*" and name != "[]" else None
            if below is None and key.kind != "null":
                below = place.below.get("*", _NOTHING)
                self.replace(key, self.project_key(key, below.shape))
            self.walk(item, below or _NOTHING, siblings)

    @staticmethod
    def name(key):
        return key.data.translate(_FOLD).lower() if key.kind == "string" else None

    def merge(self, item, place):
        """Judge what is merged into a table as if it were written there."""
        for part in item.inner if item.kind == "array" else [item]:
            self.walk(part, place, {})

    def project_key(self, key, shape):
        text = str(key.data)
        if (
            isinstance(shape, list)
            and shape[0] == "hidden"
            and key.kind == "string"
            and text
            and selection.fits_listed_shape(shape[1], text)
        ):
            domain = "." + text.rpartition("/")[0]
            if any(domain.endswith("." + known) for known in shape[2]):
                return text
            return "hidden-%s-%d" % (
                self.tag_text(text),
                len(text.encode("utf-8", "surrogatepass")),
            )
        return self.replace_value(key)

    def project_array(self, value, place, siblings):
        if isinstance(place.shape, list) and place.shape[0] == "arguments":
            return self.project_arguments(value, place.shape, siblings)
        below = place.below.get("[]", _NOTHING)
        for item in value.inner:
            self.walk(item, below, siblings)

    def project_arguments(self, value, shape, siblings):
        texts = [_get_text(item) for item in value.inner]
        words = [text or "" for text in texts]
        program = posixpath.basename(siblings.get(shape[2].lower()) or "")
        arguments = selection.select_arguments(["-"] + words[1:], shape[1])
        command = shape[3].get(program, 0)
        if 0 < command < len(words) and selection.fits_listed_shape("command", words[command]):
            arguments[command] = words[command]
        for number, item in enumerate(value.inner):
            if texts[number] is None:
                self.walk(item, _NOTHING, {})
            elif number == 0:
                own = program and posixpath.basename(words[0]) == program
                self.replace(
                    item,
                    self.show_scalar(
                        item, "path" if own and "/" in words[0] else ["part"] if own else None
                    ),
                )
            else:
                self.replace(
                    item,
                    words[number]
                    if arguments[number] == words[number]
                    else self.project_argument(item, arguments[number]),
                )

    def project_argument(self, item, found):
        """Return the text in place of a word that is not shown. The name of a listed flag stays."""
        name, equals, _value = item.data.partition("=")
        if equals and found.startswith(name + equals):
            return name + equals + self.make_stand_in(item.data[len(name) + 1 :])
        return self.replace_value(item)

    def show_scalar(self, value, shape):
        """Return what is shown of a scalar: all of it, parts of it or nothing."""
        text = value.data
        if isinstance(shape, list):
            return self.project_list(value, shape)
        if shape in ("number", "bool"):
            return (
                text
                if value.kind == {"number": "number", "bool": "boolean"}[shape]
                else self.replace_value(value)
            )
        if shape is None or not selection.fits_listed_shape(shape, text):
            return (
                self.project_path(text)
                if shape in ("path", "program") and _ROOTED.fullmatch(text)
                else self.replace_value(value)
                if text
                else ""
            )
        return text

    def project_list(self, value, shape):
        text = value.data
        if shape[0] == "part":
            return self.project_part(text)
        if shape[0] != "split":
            return self.replace_value(value) if text else ""
        left, sign, right = text.partition(shape[1])
        if not sign or not left:
            return self.replace_value(value) if text else ""
        wanted = shape[3].get(left, shape[3].get("*"))
        first = left if selection.fits_listed_shape(shape[2], left) else self.make_stand_in(left)
        return (
            first
            + sign
            + (
                right
                if not right or (wanted and selection.fits_listed_shape(wanted, right))
                else self.make_stand_in(right)
            )
        )

    def project_path(self, text):
        """Judge the parts of a path one by one: an odd name in it hides only that name."""
        return "/".join(self.project_part(part) for part in text.split("/"))

    def project_part(self, text):
        return (
            text
            if _PATH_PART.fullmatch(text) or (text in self.known and _SIMPLE.fullmatch(text))
            else self.make_stand_in(text)
        )

    # --- stand-ins ---

    def replace_value(self, value):
        text = str(value.data)
        changed = value.kind in ("number", "boolean") and not yaml_scalars.is_read_otherwise(text)
        return self.make_stand_in(text, " no-text" if changed else "")

    def make_stand_in(self, text, more=""):
        signs = ("=" if "=" in text[1:] else "") + ("/" if "/" in text or "\n" in text else "")
        size = len(text.encode("utf-8", "surrogatepass"))
        return "(hidden %s %d%s)%s" % (self.tag_text(text), size, more, signs)

    def tag_text(self, text):
        if text not in self.tags:
            self.tags[text] = self.tag(text)[:16]
        return self.tags[text]

    # --- the text ---

    def replace(self, value, shown):
        """Put this text in a scalar's place, in quotes, on as many lines.

        A scalar of one line that already has this text stays as it is.
        """
        raw = self.text[value.start : value.end]
        if shown == value.data and "\n" not in raw:
            return
        lines = "".join(re.sub(r"[^\r\n]", " ", line) for line in re.findall(r"\r?\n[^\r\n]*", raw))
        # a tab there would be an indentation then
        blanks = _TRAILING.match(self.text, value.end) if lines else None
        self.spans.append(
            (value.start, blanks.end() if blanks else value.end, '"%s"%s' % (shown, lines))
        )

    def number_anchors(self, spans):
        """Replace the names of anchors by numbers."""
        names = {}
        for start, end in spans:
            number = names.setdefault(self.text[start:end], len(names) + 1)
            self.spans.append((start, end, "a%d" % number))

    def hide_rest(self, rest):
        """Show of a second document only that there is one."""
        left = self.text[rest:]
        if left:
            opened = left.startswith("---") or _MORE.search(left[3:])
            ends = "".join(re.findall(r"\r?\n", left))
            self.spans.append((rest, len(self.text), ("---" if opened else "...") + ends))

    def finish_projection(self):
        out, at, spans = [], 0, sorted(self.spans)
        for start, end, text in spans:
            if start < at:  # a comment within a value that is replaced as a whole
                continue
            out += [self.text[at:start], text]
            at = end
        out.append(self.text[at:])
        return "".join(out).encode("utf-8"), [], [(start, end) for start, end, _text in spans]
