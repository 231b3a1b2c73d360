# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read YAML as programs and people write it for settings, JSON included, for the places and the values of its keys.

Known are block and flow mappings and sequences, plain, quoted and block scalars, comments, anchors,
aliases, merge keys, and the first of several documents. The rest of YAML (tags, directives, complex
keys, other line ends) is refused by the code "yaml-form". A text that is not YAML is refused by
other codes, each with a line. Whatever passes is read as libyaml reads it, which tests compare.
Linear in the length of the text. Node side: standard library only, Python 3.6.
"""

import re

from ansible_collections.gpufleet.nvidia.plugins.module_utils._node.projection import placeholders, yaml_scalars
from ansible_collections.gpufleet.nvidia.plugins.module_utils._node.projection.placeholders import Unreadable, Value

MAX_DEPTH = 64
FORM = "yaml-form"  # valid YAML perhaps, and nothing that is known here
_LONGEST_KEY = 1024  # as libyaml has it

# Two rules, since re takes longer to compile the second one than to read a whole spec by the first, and few texts need it.
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
_MORE = r"(?:[^ \t\r\n:#]|:(?=[^ \t\r\n]))" + _PART  # as texts, here and below: rules that few files need
_PLAIN = re.compile(r"(?:[^ \t\r\n,\[\]{}#&*!|>'\"%@`?:-]|[?:-](?=[^ \t\r\n]))" + _PART)
_IN_FLOW = (
    r"(?:[^ \t\r\n,\[\]{}#&*!|>'\"%@`?:-]|-(?=[^ \t\r\n,\[\]{}?]))"
    r"(?:[^ \t\r\n:#,\[\]{}?]+|:(?=[^ \t\r\n,\[\]{}?])|#|[ \t]+(?=[^ \t\r\n#:,\[\]{}?]|:(?=[^ \t\r\n,\[\]{}?])))" + _STEPS
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


class Document(object):
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


def scan(data):
    """Return the Document of a file's bytes.

    Raise Unreadable for a text that is not YAML, and for forms of YAML that are not known here.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Unreadable("utf-16", 1)
    placeholders.require_few(data)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise Unreadable("yaml-bytes", data.count(b"\n", 0, exc.start) + 1)
    return _Scanner(text).document()


class _Scanner(object):
    def __init__(self, text):
        self.text = text
        self.begin = 1 if text.startswith("\ufeff") else 0
        self.stop = len(text)
        self.found = Document(text)
        self.depth = 0

    def wrong(self, code, at):
        return Unreadable(code, placeholders.line_of(self.text, at))

    # --- the text as a whole ---

    def document(self):
        self.signs(_UNPRINTABLE_ASCII if _is_ascii(self.text) else re.compile(_UNPRINTABLE), "yaml-sign")
        self.signs(_OTHER_BREAK, FORM)
        at = self.token(self.begin)
        if self.text.startswith("%", at) and self.column(at) == 0:
            raise self.wrong(FORM, at)
        opening = _MARKER.match(self.text, at) if self.column(at) == 0 else None
        if opening:
            at = opening.end()
        closing = _CLOSING.search(self.text, at)
        if closing:
            self.stop = self.found.rest = closing.start()
        if opening and not self.is_over(self.blank(at)):
            raise self.wrong(FORM, at)
        at = self.token(at)
        if at < self.stop:
            self.found.root, at = self.block(at, -1)
            if at < self.stop:  # no reader goes on behind the first value
                raise self.wrong(FORM, at)
        return self.found

    def signs(self, rule, code):
        found = rule.search(self.text, self.begin)
        if found:
            raise self.wrong(code, found.start())

    def column(self, at):
        return at - (self.text.rfind("\n", 0, at) + 1 or self.begin)

    def blank(self, at):
        return _BLANK.match(self.text, at, self.stop).end()

    def token(self, at, code="yaml-tab"):
        """Return the place of the next sign that is neither blank nor comment."""
        here = _GAP.match(self.text, at, self.stop).end()  # most gaps have neither comment nor tab
        if here >= self.stop or self.text[here] not in "#\t\r":
            return min(here, self.stop)
        while True:
            here = self.blank(at)
            comment = _COMMENT.match(self.text, here, self.stop)
            if comment:
                self.found.comments.append(comment.span())
                here = comment.end()
            end = _LINE_END.match(self.text, here, self.stop)
            if not end:
                break
            at = end.end()
        if here < self.stop and "\t" in self.text[at:here]:  # a line's indentation is of spaces
            raise self.wrong(code, here)
        return min(here, self.stop)

    def is_over(self, at):
        return at >= self.stop or self.text[at] in "#\r\n"

    def over(self, at, floor):
        """Return the place of the next sign, if nothing more stands on this line. Else raise Unreadable."""
        here = self.blank(at)
        if not self.is_over(here):
            raise self.wrong("yaml-more" if floor >= 0 else FORM, here)
        return self.token(here, "yaml-tab" if floor >= 0 else FORM)

    # --- blocks ---

    def block(self, at, floor):
        """Return (the value at a sign, the place of the sign behind it). floor: the column that all of the value must be right of."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.wrong("yaml-deep", at)
        if _DASH.match(self.text, at):
            found = self.sequence(at)
        elif self.text[at] != "&" and self.key(at):
            found = self.mapping(at)
        else:
            found = self.leaf(at, floor, False)
        self.depth -= 1
        return found

    def key(self, at):
        """Return (a key, the place behind its colon); None if there is no key."""
        sign = self.text[at]
        rule = _DOUBLE if sign == '"' else _SINGLE if sign == "'" else _PLAIN
        found = rule.match(self.text, at, self.stop)
        colon = found and _COLON.match(self.text, found.end(), self.stop)
        if not colon or "\n" in found.group():
            return None
        return self.named(found, at), colon.end()

    def named(self, found, at):
        if len(found.group()) > _LONGEST_KEY:
            raise self.wrong("yaml-key", at)
        return self.said(found) if found.re in (_DOUBLE, _SINGLE) else self.plain(at, found.end(), found.group())

    def mapping(self, at):
        start, column, members = at, self.column(at), []
        while at < self.stop and self.column(at) == column:
            found = None if _DASH.match(self.text, at) else self.key(at)
            if found is None:
                raise self.wrong(FORM if self.text[at] in "?&*!{[|>\"'" else "yaml-key", at)
            value, at = self.below(found[1], column, True)
            members.append((found[0], value))
        self.require_end(at, column)
        return Value("table", start, at, None, members), at

    def sequence(self, at):
        start, column, items = at, self.column(at), []
        while at < self.stop and self.column(at) == column and _DASH.match(self.text, at):
            here = _SPACES.match(self.text, at + 1).end()
            if self.text[here : here + 1] == "\t":
                raise self.wrong(FORM, here)
            item, at = self.below(here, column, False) if self.is_over(here) else self.block(here, column)
            items.append(item)
        self.require_end(at, column)
        return Value("array", start, at, None, items), at

    def require_end(self, at, column):
        if at < self.stop and self.column(at) > column:
            raise self.wrong("yaml-indent", at)

    def below(self, at, column, dashes):
        """Return the value behind a colon, a dash or an anchor, and the place of the sign behind it.

        dashes: whether those of a sequence may stand in the same column.
        """
        here = self.blank(at)
        if not self.is_over(here):
            return self.leaf(here, column, dashes)
        nothing = Value("null", at, at, None, [])
        at = self.token(here)
        if at >= self.stop:
            return nothing, at
        if self.column(at) > column or (dashes and self.column(at) == column and _DASH.match(self.text, at)):
            return self.block(at, column)
        return nothing, at

    def leaf(self, at, floor, dashes):
        """Return a value that begins on this line, such as behind a colon, and the place of the sign behind it."""
        sign = self.text[at]
        if sign in "|>":
            return self.lines(at, floor)
        if sign == "&":
            return self.anchored(at, floor, dashes)
        if sign in "[{\"'*":
            value = self.flow(at, 0)
            if _COLON.match(self.text, value.end, self.stop):
                raise self.wrong(FORM, at)
            return value, self.over(value.end, floor)
        found = _PLAIN.match(self.text, at, self.stop)
        if not found:
            raise self.wrong(FORM if sign in "!?%:" or floor < 0 else "yaml-value", at)
        end = found.end()
        while True:
            more = self.continued(end, floor)
            if not more:
                break
            end = more.end()
        self.require_no_tab(end)
        return self.plain(at, end, " ".join(line.strip(" \t\r") for line in self.text[at:end].split("\n"))), self.over(end, floor)

    def require_no_tab(self, at):
        """Refuse a tab in the lines behind a plain text: libyaml takes it for an error or not, by its place."""
        if "\t" in _FOLDED.match(self.text, at, self.stop).group(1):
            raise self.wrong(FORM, at)

    def continued(self, end, floor):
        """Return the match of the next line of a plain text that covers several; None if there is none."""
        fold = _FOLD.match(self.text, end, self.stop)
        if not fold or fold.end() >= self.stop or self.column(fold.end()) <= floor:
            return None
        more = re.compile(_MORE).match(self.text, fold.end(), self.stop)
        if more and "\t" in fold.group().rpartition("\n")[2]:
            raise self.wrong(FORM, fold.end())
        return more

    def anchored(self, at, floor, dashes):
        end = self.anchor(at)
        here = self.blank(end)
        if here == end and not self.is_over(here):
            raise self.wrong(FORM, at)
        first = self.token(here) if self.is_over(here) else here
        if self.sign(first) in ("&", "*"):
            raise self.wrong(FORM, first)
        if not self.is_over(here) and (_DASH.match(self.text, here) or self.key(here)):
            raise self.wrong(FORM, here)  # such as the anchor of a key
        return self.below(end, floor, dashes)

    def anchor(self, at):
        """Note the name in `&name` or `*name`. Return its end."""
        found = _NAME.match(self.text, at + 1, self.stop)
        if not found:
            raise self.wrong("yaml-anchor", at)
        self.found.names.append(found.span())
        return found.end()

    def lines(self, at, floor):
        """Return a block scalar, and the place of the sign behind it."""
        found = re.compile(_BLOCK_HEADER).match(self.text, at, self.stop)
        if not found:
            raise self.wrong("yaml-value", at)
        if found.group(3):
            self.found.comments.append(found.span(3))
        digit = found.group(1) or found.group(2)
        indent = max(floor, 0) + int(digit) if digit else None
        here, end, text = found.end(), found.end(), []
        while here < self.stop:
            line = _LINE_END.match(self.text, here).end()
            first = _SPACES.match(self.text, line, self.stop).end()
            close = self.line_end(first)
            if first < close:
                if self.text[first] == "\t" and (indent is None or first - line < indent):
                    raise self.wrong("yaml-tab", first)
                if indent is None:
                    indent = max([first - line, floor + 1, 1] + [len(blank) for blank in text])
                if first - line < indent:
                    break
                end = close
            text.append(self.text[line:close])
            here = close
        said = [part[indent or 0 :] for part in text]
        value = Value("string", at, end, yaml_scalars.block(found.group(), said), [])
        return value, self.token(end)

    def line_end(self, at):
        end = self.text.find("\n", at, self.stop)
        if end < 0:
            return self.stop
        return end - (end > at and self.text[end - 1] == "\r")

    # --- flows, and values of both blocks and flows ---

    def flow(self, at, depth):
        if depth + self.depth > MAX_DEPTH:
            raise self.wrong("yaml-deep", at)
        sign = self.sign(at)
        if sign == "[":
            return self.array(at, depth)
        if sign == "{":
            return self.table(at, depth)
        if sign and sign in "\"'":
            return self.quoted(at)
        if sign == "*":
            return Value("alias", at, self.anchor(at), None, [])
        if sign == "&":
            here = self.gap(self.anchor(at))
            if self.text[here : here + 1] in ("&", "*"):
                raise self.wrong(FORM, here)
            return self.flow(here, depth)
        return self.flow_plain(at)

    def flow_plain(self, at):
        found = re.compile(_IN_FLOW).match(self.text, at, self.stop)
        if not found:
            raise self.wrong(FORM if self.sign(at) in ("!", "?", "&", "*", ":", "-") else "yaml-value", at)
        self.require_no_tab(found.end())
        return self.plain(at, found.end(), found.group())

    def sign(self, at):
        return self.text[at] if at < self.stop else ""

    def gap(self, at):
        """Return the place behind blanks, line ends and comments."""
        while True:
            here = self.blank(at)
            comment = _COMMENT.match(self.text, here, self.stop)
            if comment:
                self.found.comments.append(comment.span())
                here = comment.end()
            end = _LINE_END.match(self.text, here, self.stop)
            here = end.end() if end else here
            if here == at:
                return at
            at = here

    def array(self, at, depth):
        items, here = [], self.gap(at + 1)
        while self.text[here : here + 1] != "]" or here >= self.stop:
            items.append(self.flow(here, depth + 1))
            here = self.behind(items[-1], "]")
        return Value("array", at, here + 1, None, items)

    def behind(self, value, closing):
        """Return where the next entry begins, or where the closing bracket is."""
        here = self.gap(value.end)
        sign = self.sign(here)
        if sign == ",":
            return self.gap(here + 1)
        if sign != closing:
            raise self.wrong(FORM if sign and (sign in ":?" or self.text[value.start] not in "\"'[{*") else "yaml-flow", here)
        return here

    def table(self, at, depth):
        members, here = [], self.gap(at + 1)
        while self.text[here : here + 1] != "}" or here >= self.stop:
            key = self.flow_key(here)
            colon = _FLOW_COLON.match(self.text, key.end, self.stop)
            quoted = self.text[key.start] in "\"'"
            if not colon:
                raise self.wrong("yaml-flow" if quoted and self.sign(self.gap(key.end)) not in (",", "}") else FORM, key.end)
            if not quoted and not self.text[colon.end() : colon.end() + 1].isspace():
                raise self.wrong(FORM, colon.end())
            first = self.gap(colon.end())
            nothing = first < self.stop and self.text[first] in ",}"
            value = Value("null", first, first, None, []) if nothing else self.flow(first, depth + 1)
            members.append((key, value))
            here = self.behind(value, "}")
        return Value("table", at, here + 1, None, members)

    def flow_key(self, at):
        sign = self.sign(at)
        key = self.quoted(at) if sign and sign in "\"'" else self.flow_plain(at)
        if "\n" in self.text[key.start : key.end]:
            raise self.wrong(FORM, at)
        if key.end - key.start > _LONGEST_KEY:
            raise self.wrong("yaml-key", at)
        return key

    def quoted(self, at):
        found = (_DOUBLE if self.text[at] == '"' else _SINGLE).match(self.text, at, self.stop)
        if not found:
            raise self.wrong("yaml-string", at)
        return self.said(found)

    def said(self, found):
        try:
            return Value("string", found.start(), found.end(), yaml_scalars.quoted(found.group()), [])
        except ValueError:
            raise self.wrong("yaml-escape", found.start())

    def plain(self, start, end, text):
        return Value(yaml_scalars.kind(text) if text == self.text[start:end] else "string", start, end, text, [])
