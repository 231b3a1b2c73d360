# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read YAML as programs and people write it for settings, JSON included, for the places and the
values of its keys.

Known are block and flow mappings and sequences, plain, quoted and block scalars, comments, anchors,
aliases, merge keys, and the first of several documents. The rest of YAML (tags, directives, complex
keys, other line ends) is refused by the code "yaml-form". A text that is not YAML is refused by
other codes, each with a line. Every accepted text is read as libyaml reads it, and tests compare
the two. Linear in the length of the text. Host side: standard library only, Python 3.6.
"""

import re

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import (
    placeholders,
    yaml_scalars,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection.placeholders import (
    UnreadableText,
    Value,
)

MAX_DEPTH = 64
FORM = "yaml-form"  # valid YAML perhaps, and nothing that is known here
_LONGEST_KEY = 1024  # as libyaml has it

# Two rules, since re takes longer to compile the second one than to read a whole spec by the first,
# and few texts need it.
_UNPRINTABLE_ASCII = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f]")
_UNPRINTABLE = "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
_OTHER_BREAK = re.compile("\r(?!\n)|[\x85\u2028\u2029\ufeff]")
_MARKER = re.compile(r"(---|\.\.\.)(?=[ \t\r\n]|\Z)")
_CLOSING = re.compile("^" + _MARKER.pattern, re.MULTILINE)
_SPACES = re.compile(r" *")
_BLANK = re.compile(r"[ \t]*")
_COMMENT = re.compile(r"#[^\r\n]*")
_GAP = re.compile(r"[ \n]*")
_LINE_END = re.compile(r"\r?\n")
_FOLD = re.compile(r"[ \t]*(?:\r?\n[ \t]*)+")
_FOLDED = re.compile(r"[ \t]*((?:\r?\n[ \t]*)*)")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_DASH = re.compile(r"-(?=[ \t\r\n]|\Z)")
_COLON = re.compile(r"[ \t]*:(?=[ \t\r\n]|\Z)")
_FLOW_COLON = re.compile(r"[ \t]*:")
_STEPS = "{0,%d}" % placeholders.STEPS
_PART = r"(?:[^ \t\r\n:#]+|:(?=[^ \t\r\n])|#|[ \t]+(?=[^ \t\r\n#:]|:(?=[^ \t\r\n])))" + _STEPS
# as texts, here and below: rules that few files need
_MORE = r"(?:[^ \t\r\n:#]|:(?=[^ \t\r\n]))" + _PART
_PLAIN = re.compile(r"(?:[^ \t\r\n,\[\]{}#&*!|>'\"%@`?:-]|[?:-](?=[^ \t\r\n]))" + _PART)
_IN_FLOW = (
    r"(?:[^ \t\r\n,\[\]{}#&*!|>'\"%@`?:-]|-(?=[^ \t\r\n,\[\]{}?]))"
    r"(?:[^ \t\r\n:#,\[\]{}?]+|:(?=[^ \t\r\n,\[\]{}?])|#|[ \t]+(?=[^ \t\r\n#:,\[\]{}?]|:(?=[^ \t\r\n,\[\]{}?])))"
    + _STEPS
)
_DOUBLE = re.compile(r'"[^"\\]*(?:\\(?:\r\n|[^\r])[^"\\]*)%s"' % _STEPS)
_SINGLE = re.compile(r"'[^']*(?:''[^']*)%s'(?!')" % _STEPS)
_BLOCK_HEADER = r"[|>](?:[+-]([1-9])?|([1-9])[+-]?)?[ \t]*(#[^\r\n]*)?(?=\r?\n|\Z)"


def _is_ascii(text):
    try:
        text.encode("ascii")
    except UnicodeEncodeError:
        return False
    return True


class ScannedYaml(object):
    """A text that was read.

    `root`: its value, None if there is none. `comments`, `names`: spans of comments, of anchors'
    names.

    `rest`: where the second document begins, else the length of the text. A table's `inner` are
    pairs of values.
    """

    def __init__(self, text):
        self.text = text
        self.root = None
        self.comments = []
        self.names = []
        self.rest = len(text)


def scan_yaml(data):
    """Return the Document of a file's bytes.

    Raise UnreadableText for a text that is not YAML, and for forms of YAML that are not known here.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UnreadableText("utf-16", 1)
    placeholders.require_readable_size(data)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise UnreadableText("yaml-bytes", data.count(b"\n", 0, exc.start) + 1)
    return _YamlScanner(text).scan_document()


class _YamlScanner(object):
    def __init__(self, text):
        self.text = text
        self.begin = 1 if text.startswith("\ufeff") else 0
        self.stop = len(text)
        self.found = ScannedYaml(text)
        self.depth = 0

    def build_error(self, code, at):
        return UnreadableText(code, placeholders.count_line(self.text, at))

    # --- the text as a whole ---

    def scan_document(self):
        self.signs(
            _UNPRINTABLE_ASCII if _is_ascii(self.text) else re.compile(_UNPRINTABLE), "yaml-sign"
        )
        self.signs(_OTHER_BREAK, FORM)
        at = self.find_token(self.begin)
        if self.text.startswith("%", at) and self.get_column(at) == 0:
            raise self.build_error(FORM, at)
        opening = _MARKER.match(self.text, at) if self.get_column(at) == 0 else None
        if opening:
            at = opening.end()
        closing = _CLOSING.search(self.text, at)
        if closing:
            self.stop = self.found.rest = closing.start()
        if opening and not self.is_over(self.skip_blanks(at)):
            raise self.build_error(FORM, at)
        at = self.find_token(at)
        if at < self.stop:
            self.found.root, at = self.block(at, -1)
            if at < self.stop:  # no reader goes on behind the first value
                raise self.build_error(FORM, at)
        return self.found

    def signs(self, rule, code):
        match = rule.search(self.text, self.begin)
        if match:
            raise self.build_error(code, match.start())

    def get_column(self, at):
        return at - (self.text.rfind("\n", 0, at) + 1 or self.begin)

    def skip_blanks(self, at):
        return _BLANK.match(self.text, at, self.stop).end()

    def find_token(self, at, code="yaml-tab"):
        """Return the place of the next sign that is neither blank nor comment."""
        here = _GAP.match(self.text, at, self.stop).end()  # most gaps have neither comment nor tab
        if here >= self.stop or self.text[here] not in "#\t\r":
            return min(here, self.stop)
        while True:
            here = self.skip_blanks(at)
            comment = _COMMENT.match(self.text, here, self.stop)
            if comment:
                self.found.comments.append(comment.span())
                here = comment.end()
            end = _LINE_END.match(self.text, here, self.stop)
            if not end:
                break
            at = end.end()
        if here < self.stop and "\t" in self.text[at:here]:  # a line's indentation is of spaces
            raise self.build_error(code, here)
        return min(here, self.stop)

    def is_over(self, at):
        return at >= self.stop or self.text[at] in "#\r\n"

    def find_line_over(self, at, floor):
        """Return the place of the next sign, if nothing more stands on this line. Else raise
        UnreadableText.
        """
        here = self.skip_blanks(at)
        if not self.is_over(here):
            raise self.build_error("yaml-more" if floor >= 0 else FORM, here)
        return self.find_token(here, "yaml-tab" if floor >= 0 else FORM)

    # --- blocks ---

    def block(self, at, floor):
        """Return (the value at a sign, the place of the sign behind it). floor: the column that all
        of the value must be right of.
        """
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.build_error("yaml-deep", at)
        if _DASH.match(self.text, at):
            value = self.scan_sequence(at)
        elif self.text[at] != "&" and self.scan_key(at):
            value = self.scan_mapping(at)
        else:
            value = self.scan_leaf(at, floor, False)
        self.depth -= 1
        return value

    def scan_key(self, at):
        """Return (a key, the place behind its colon); None if there is no key."""
        sign = self.text[at]
        rule = _DOUBLE if sign == '"' else _SINGLE if sign == "'" else _PLAIN
        match = rule.match(self.text, at, self.stop)
        colon = match and _COLON.match(self.text, match.end(), self.stop)
        if not colon or "\n" in match.group():
            return None
        return self.name_key(match, at), colon.end()

    def name_key(self, found, at):
        if len(found.group()) > _LONGEST_KEY:
            raise self.build_error("yaml-key", at)
        return (
            self.decode_string(found)
            if found.re in (_DOUBLE, _SINGLE)
            else self.scan_plain(at, found.end(), found.group())
        )

    def scan_mapping(self, at):
        start, column, members = at, self.get_column(at), []
        while at < self.stop and self.get_column(at) == column:
            key = None if _DASH.match(self.text, at) else self.scan_key(at)
            if key is None:
                raise self.build_error(FORM if self.text[at] in "?&*!{[|>\"'" else "yaml-key", at)
            value, at = self.scan_below(key[1], column, True)
            members.append((key[0], value))
        self.require_end(at, column)
        return Value("table", start, at, None, members), at

    def scan_sequence(self, at):
        start, column, items = at, self.get_column(at), []
        while at < self.stop and self.get_column(at) == column and _DASH.match(self.text, at):
            here = _SPACES.match(self.text, at + 1).end()
            if self.text[here : here + 1] == "\t":
                raise self.build_error(FORM, here)
            item, at = (
                self.scan_below(here, column, False)
                if self.is_over(here)
                else self.block(here, column)
            )
            items.append(item)
        self.require_end(at, column)
        return Value("array", start, at, None, items), at

    def require_end(self, at, column):
        if at < self.stop and self.get_column(at) > column:
            raise self.build_error("yaml-indent", at)

    def scan_below(self, at, column, dashes):
        """Return the value behind a colon, a dash or an anchor, and the place of the sign behind
        it.

        dashes: whether those of a sequence may stand in the same column.
        """
        here = self.skip_blanks(at)
        if not self.is_over(here):
            return self.scan_leaf(here, column, dashes)
        nothing = Value("null", at, at, None, [])
        at = self.find_token(here)
        if at >= self.stop:
            return nothing, at
        if self.get_column(at) > column or (
            dashes and self.get_column(at) == column and _DASH.match(self.text, at)
        ):
            return self.block(at, column)
        return nothing, at

    def scan_leaf(self, at, floor, dashes):
        """Return a value that begins on this line, such as behind a colon, and the place of the
        sign behind it.
        """
        sign = self.text[at]
        if sign in "|>":
            return self.scan_block_lines(at, floor)
        if sign == "&":
            return self.scan_anchored(at, floor, dashes)
        if sign in "[{\"'*":
            value = self.scan_flow(at, 0)
            if _COLON.match(self.text, value.end, self.stop):
                raise self.build_error(FORM, at)
            return value, self.find_line_over(value.end, floor)
        match = _PLAIN.match(self.text, at, self.stop)
        if not match:
            raise self.build_error(FORM if sign in "!?%:" or floor < 0 else "yaml-value", at)
        end = match.end()
        while True:
            more = self.match_continued(end, floor)
            if not more:
                break
            end = more.end()
        self.require_no_tab(end)
        return self.scan_plain(
            at, end, " ".join(line.strip(" \t\r") for line in self.text[at:end].split("\n"))
        ), self.find_line_over(end, floor)

    def require_no_tab(self, at):
        """Refuse a tab in the lines behind a plain text: libyaml takes it for an error or not, by
        its place.
        """
        if "\t" in _FOLDED.match(self.text, at, self.stop).group(1):
            raise self.build_error(FORM, at)

    def match_continued(self, end, floor):
        """Return the match of the next line of a plain text that covers several; None if there is
        none.
        """
        fold = _FOLD.match(self.text, end, self.stop)
        if not fold or fold.end() >= self.stop or self.get_column(fold.end()) <= floor:
            return None
        more = re.compile(_MORE).match(self.text, fold.end(), self.stop)
        if more and "\t" in fold.group().rpartition("\n")[2]:
            raise self.build_error(FORM, fold.end())
        return more

    def scan_anchored(self, at, floor, dashes):
        end = self.note_anchor(at)
        here = self.skip_blanks(end)
        if here == end and not self.is_over(here):
            raise self.build_error(FORM, at)
        first = self.find_token(here) if self.is_over(here) else here
        if self.sign(first) in ("&", "*"):
            raise self.build_error(FORM, first)
        if not self.is_over(here) and (_DASH.match(self.text, here) or self.scan_key(here)):
            raise self.build_error(FORM, here)  # such as the anchor of a key
        return self.scan_below(end, floor, dashes)

    def note_anchor(self, at):
        """Note the name in `&name` or `*name`. Return its end."""
        match = _NAME.match(self.text, at + 1, self.stop)
        if not match:
            raise self.build_error("yaml-anchor", at)
        self.found.names.append(match.span())
        return match.end()

    def scan_block_lines(self, at, floor):
        """Return a block scalar, and the place of the sign behind it."""
        match = re.compile(_BLOCK_HEADER).match(self.text, at, self.stop)
        if not match:
            raise self.build_error("yaml-value", at)
        if match.group(3):
            self.found.comments.append(match.span(3))
        digit = match.group(1) or match.group(2)
        indent = max(floor, 0) + int(digit) if digit else None
        here, end, text = match.end(), match.end(), []
        while here < self.stop:
            line = _LINE_END.match(self.text, here).end()
            first = _SPACES.match(self.text, line, self.stop).end()
            close = self.find_line_end(first)
            if first < close:
                if self.text[first] == "\t" and (indent is None or first - line < indent):
                    raise self.build_error("yaml-tab", first)
                if indent is None:
                    indent = max([first - line, floor + 1, 1] + [len(blank) for blank in text])
                if first - line < indent:
                    break
                end = close
            text.append(self.text[line:close])
            here = close
        said = [part[indent or 0 :] for part in text]
        value = Value("string", at, end, yaml_scalars.read_block_scalar(match.group(), said), [])
        return value, self.find_token(end)

    def find_line_end(self, at):
        end = self.text.find("\n", at, self.stop)
        if end < 0:
            return self.stop
        return end - (end > at and self.text[end - 1] == "\r")

    # --- flows, and values of both blocks and flows ---

    def scan_flow(self, at, depth):
        if depth + self.depth > MAX_DEPTH:
            raise self.build_error("yaml-deep", at)
        sign = self.sign(at)
        if sign == "[":
            return self.scan_array(at, depth)
        if sign == "{":
            return self.scan_table(at, depth)
        if sign and sign in "\"'":
            return self.scan_quoted(at)
        if sign == "*":
            return Value("alias", at, self.note_anchor(at), None, [])
        if sign == "&":
            here = self.skip_gap(self.note_anchor(at))
            if self.text[here : here + 1] in ("&", "*"):
                raise self.build_error(FORM, here)
            return self.scan_flow(here, depth)
        return self.scan_flow_plain(at)

    def scan_flow_plain(self, at):
        match = re.compile(_IN_FLOW).match(self.text, at, self.stop)
        if not match:
            raise self.build_error(
                FORM if self.sign(at) in ("!", "?", "&", "*", ":", "-") else "yaml-value", at
            )
        self.require_no_tab(match.end())
        return self.scan_plain(at, match.end(), match.group())

    def sign(self, at):
        return self.text[at] if at < self.stop else ""

    def skip_gap(self, at):
        """Return the place behind blanks, line ends and comments."""
        while True:
            here = self.skip_blanks(at)
            comment = _COMMENT.match(self.text, here, self.stop)
            if comment:
                self.found.comments.append(comment.span())
                here = comment.end()
            end = _LINE_END.match(self.text, here, self.stop)
            here = end.end() if end else here
            if here == at:
                return at
            at = here

    def scan_array(self, at, depth):
        items, here = [], self.skip_gap(at + 1)
        while self.text[here : here + 1] != "]" or here >= self.stop:
            items.append(self.scan_flow(here, depth + 1))
            here = self.find_next_entry(items[-1], "]")
        return Value("array", at, here + 1, None, items)

    def find_next_entry(self, value, closing):
        """Return where the next entry begins, or where the closing bracket is."""
        here = self.skip_gap(value.end)
        sign = self.sign(here)
        if sign == ",":
            return self.skip_gap(here + 1)
        if sign != closing:
            raise self.build_error(
                FORM
                if sign and (sign in ":?" or self.text[value.start] not in "\"'[{*")
                else "yaml-flow",
                here,
            )
        return here

    def scan_table(self, at, depth):
        members, here = [], self.skip_gap(at + 1)
        while self.text[here : here + 1] != "}" or here >= self.stop:
            key = self.scan_flow_key(here)
            colon = _FLOW_COLON.match(self.text, key.end, self.stop)
            quoted = self.text[key.start] in "\"'"
            if not colon:
                raise self.build_error(
                    "yaml-flow"
                    if quoted and self.sign(self.skip_gap(key.end)) not in (",", "}")
                    else FORM,
                    key.end,
                )
            if not quoted and not self.text[colon.end() : colon.end() + 1].isspace():
                raise self.build_error(FORM, colon.end())
            first = self.skip_gap(colon.end())
            nothing = first < self.stop and self.text[first] in ",}"
            value = (
                Value("null", first, first, None, [])
                if nothing
                else self.scan_flow(first, depth + 1)
            )
            members.append((key, value))
            here = self.find_next_entry(value, "}")
        return Value("table", at, here + 1, None, members)

    def scan_flow_key(self, at):
        sign = self.sign(at)
        key = self.scan_quoted(at) if sign and sign in "\"'" else self.scan_flow_plain(at)
        if "\n" in self.text[key.start : key.end]:
            raise self.build_error(FORM, at)
        if key.end - key.start > _LONGEST_KEY:
            raise self.build_error("yaml-key", at)
        return key

    def scan_quoted(self, at):
        match = (_DOUBLE if self.text[at] == '"' else _SINGLE).match(self.text, at, self.stop)
        if not match:
            raise self.build_error("yaml-string", at)
        return self.decode_string(match)

    def decode_string(self, found):
        try:
            return Value(
                "string",
                found.start(),
                found.end(),
                yaml_scalars.read_quoted_scalar(found.group()),
                [],
            )
        except ValueError:
            raise self.build_error("yaml-escape", found.start())

    def scan_plain(self, start, end, text):
        return Value(
            yaml_scalars.get_scalar_kind(text) if text == self.text[start:end] else "string",
            start,
            end,
            text,
            [],
        )
