# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put a file's content into the answer to a question. Host side: standard library only, Python 3.6."""

import binascii
import collections

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import keyed
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import (
    documents,
    projector,
)


def show_content(data, keep, path, whole=False):
    """Return the keys of an answer that carry what may travel of a file's bytes.

    Bytes that are not UTF-8 travel as base64.

    whole: all of it may travel. fault: the error of a text that does not have its format, by code
    and line. Nothing of such a text travels, except a listed comment that it begins with. withheld:
    the values at listed places that are not shown, each with a tag that equal values share.
    foreign_bytes: the first line that is not UTF-8, None if there is none. Raise ValueError without
    `keep`.
    """
    if not keep:
        raise ValueError(
            "%s: its content was queried without `keep`, the list of what may be sent" % path
        )
    answer = {
        "content": None,
        "encoding": "utf-8",
        "fault": None,
        "withheld": [],
        "foreign_bytes": _has_foreign_bytes(data),
    }
    try:
        shown = projector.Projection(data, [], []) if whole else project_content(data, keep)
    except projector.UnreadableText as exc:
        begins = documents.get_listed_first_comment(data, keep.get("comments") or ())
        return dict(
            answer,
            fault=dict(
                {"code": exc.code, "line": exc.line}, **({"begins": begins} if begins else {})
            ),
        )
    answer["withheld"] = [_withhold_entry(entry) for entry in shown.withheld]
    try:
        return dict(answer, content=shown.data.decode("utf-8"))
    except UnicodeDecodeError:
        return dict(
            answer,
            content=binascii.b2a_base64(shown.data, newline=False).decode("ascii"),
            encoding="base64",
        )


# (list, bytes, Projection): a look may ask for a file by its name, by a pattern and for its paths.
_latest = collections.deque(maxlen=8)


def project_content(data, keep):
    """Return the Projection of a file's bytes. In a document, the tags are keyed."""
    for known, of, projected in _latest:
        if known == keep and of == data:
            return projected
    if keep.get("format") == "document":
        projected = projector.Projection(*documents.project_document(data, keep, keyed.tag))
    else:
        projected = projector.project_file(data, keep)
    _latest.append((keep, data, projected))
    return projected


def _withhold_entry(entry):
    shown = {key: entry[key] for key in ("path", "kind", "line", "span")}
    return dict(shown, tag=keyed.tag(entry["data"]))


def _has_foreign_bytes(data):
    try:
        data.decode("utf-8")
        return None
    except UnicodeDecodeError as exc:
        return data.count(b"\n", 0, exc.start) + 1
