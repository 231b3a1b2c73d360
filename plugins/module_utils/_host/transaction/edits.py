# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Edit a file that the planner knows by a projection.

The same edits are made on the real bytes, with the proof that they mean the same. The planner's
text is made here again from the projection, and its digest compared. Then only the bytes that
differ are replaced in the original, so hidden text stays to the byte. The projection of the result
must be that of the planner's text. A fault of the scanner costs a refusal, never a file. Host side:
standard library only, Python 3.6.
"""

import difflib
import os.path
import re

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import host_files
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import projector

_MANY = 2000  # lines of one edit, or words of one line, that are compared one by one
_WORD = re.compile(rb'"[^"\n]*"|\w+|.', re.DOTALL)


def apply_line_edits(path, data, change):
    """Return the bytes after a change's line edits.

    Raise HostError if they are not what was planned.
    """
    keep, wanted = change.get("keep"), change.get("result")
    if not keep:
        after = _edit_by_lines(path, data, change["edits"])
        _require_digest(path, after, wanted)
        return after
    shown = _project_text(path, data, keep)
    planned = _edit_by_lines(path, shown.data, change["edits"])
    _require_digest(path, planned, wanted)
    spans = _spans(shown.data, change["edits"])
    for span in spans:
        _require_whole(path, shown, span)
    after = replace_spans(data, spans)
    require_same_projection(path, after, planned, keep)
    _require_only_known(path, data, after, keep)
    return after


def require_same_projection(path, after, planned, keep):
    """Raise HostError unless a text shows what the planner's text shows."""
    if _project_text(path, after, keep).data != _project_text(path, planned, keep).data:
        raise host_files.HostError(
            "failed",
            "%s: the edits mean something else in the file than in the part that was sent" % path,
        )


def _require_only_known(path, data, after, keep):
    """Raise HostError if the result hides a text that the original did not have in this order.

    Then a placeholder was taken for the text.
    """
    left = iter(_list_hidden(data, _project_text(path, data, keep)))
    if not all(text in left for text in _list_hidden(after, _project_text(path, after, keep))):
        raise host_files.HostError(
            "failed", "%s: the edits would lose text that was not sent to the controller" % path
        )


def _list_hidden(data, shown):
    return [data[start:end] for start, end in shown.hidden]


def _require_digest(path, data, wanted):
    if wanted and host_files.digest_bytes(data) != wanted:
        raise host_files.HostError(
            "failed", "%s: the edits give another file than was planned" % path
        )


def _project_text(path, data, keep):
    try:
        return projector.project_file(data, keep)
    except projector.UnreadableText as exc:
        raise host_files.HostError(
            "failed", "%s:%d: this could not be read (%s)" % (path, exc.line, exc.code)
        )


def _edit_by_lines(path, data, edits):
    lines = split_lines(data)
    last = len(lines)
    for edit in _sort_from_the_end(edits):
        start, end = edit["start"], edit["end"]
        if not 0 <= start <= end <= last:
            raise host_files.HostError(
                "bad-question",
                "%s: the edit of lines %s to %s overlaps another or the end" % (path, start, end),
            )
        lines[start:end] = [encode_edit(edit["text"])]
        last = start
    return b"".join(lines)


def _sort_from_the_end(edits):
    return sorted(edits, key=lambda edit: (edit["start"], edit["end"]), reverse=True)


def split_lines(data):
    """Split into lines with their ends.

    Only \\n ends a line: other ends of Python's splitlines may be part of a value.
    """
    lines = data.split(b"\n")
    return [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def encode_edit(text):
    """Return the bytes of a text, also of one that is not UTF-8."""
    return text.encode("utf-8", "surrogateescape")


def replace_spans(data, spans):
    """Return bytes with these spans replaced. They are in their order."""
    for start, end, new in reversed(spans):
        data = data[:start] + new + data[end:]
    return data


def _spans(data, edits):
    """Return the edits as [(first byte, byte behind the last, new bytes)], each as short as it can
    be.
    """
    lines, spans = split_lines(data), []
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    for edit in reversed(_sort_from_the_end(edits)):
        old, new = lines[edit["start"] : edit["end"]], split_lines(encode_edit(edit["text"]))
        for first, behind, text in _list_line_differences(old, new):
            at, before = starts[edit["start"] + first], b"".join(old[first:behind])
            spans += _list_differing_parts(at, before, text)
    return spans


def _list_differing_parts(at, old, new):
    """Return what differs within a text, word by word.

    Between two changes of one line there may be text that only the original has.
    """
    first, behind, text = _narrow_lines(at, old, new)
    words = [_WORD.findall(part) for part in (old[first - at : behind - at], text)]
    if not all(words) or len(words[0]) * len(words[1]) > _MANY * _MANY:
        return [(first, behind, text)]
    ends = [first]
    for word in words[0]:
        ends.append(ends[-1] + len(word))
    changed = [
        codes
        for codes in difflib.SequenceMatcher(None, words[0], words[1], False).get_opcodes()
        if codes[0] != "equal"
    ]
    return [(ends[a], ends[b], b"".join(words[1][c:d])) for _kind, a, b, c, d in changed]


def _list_line_differences(old, new):
    """Return [(first line, line behind the last, new text)] of the lines that differ.

    Rewritten lines are listed one by one.
    """
    if len(old) * len(new) > _MANY * _MANY:
        return [(0, len(old), b"".join(new))]
    parts = []
    # a last line may be one without an end
    bodies = [[line.rstrip(b"\n") for line in lines] for lines in (old, new)]
    for _kind, a, b, c, d in difflib.SequenceMatcher(
        None, bodies[0], bodies[1], False
    ).get_opcodes():
        if b - a == d - c:
            parts += [
                (a + n, a + n + 1, new[c + n]) for n in range(b - a) if old[a + n] != new[c + n]
            ]
        else:
            parts.append((a, b, b"".join(new[c:d])))
    return parts


def _narrow_lines(at, old, new):
    head = len(os.path.commonprefix([old, new]))
    tail = len(os.path.commonprefix([old[head:][::-1], new[head:][::-1]]))
    return at + head, at + len(old) - tail, new[head : len(new) - tail]


def _require_whole(path, seen, span):
    """Raise HostError if a new text repeats the placeholder of a hidden text that it replaces.

    The hidden text would be lost.
    """
    first, behind, new = span
    for start, end in seen.hidden:
        if start < behind and end > first and seen.data[start:end] in new:
            line = seen.data.count(b"\n", 0, start) + 1
            raise host_files.HostError(
                "failed",
                "%s:%d: a part of this line was not sent to the controller and cannot stay while the rest of the line changes. "
                "Put it on a line of its own" % (path, line),
            )
