# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the parts of files that may leave a host, place by place with the shape of the value. Of
everything else only the length travels.

The host applies these lists (_host/projection/projector.py explains places, shapes and formats). A
planner that needs one value more adds a line here, or next to it: containerd's places are in
containerd_places.py, CRI-O's in crio_places.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import (
    placeholders,
    projector,
    selection,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    Sentence,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Handler
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections import (
    messages,
)

Keep = Mapping[str, Any]
Path = tuple[str, ...]
Places = Mapping[Path, Any]

# Files of the kernel, programs of this collection and the like: files that contain nothing secret.
WHOLE: Keep = {"format": "whole"}
# Whether it is there.
NOTHING: Keep = {"format": "flags"}
# For a file that carries our names: all of it if it carries our mark as well, otherwise only that
# another owner has written to it.
OWN_UNIT: Keep = {"format": "text", "patterns": [r"(?s)\A# Written by gpufleet\.nvidia\.\n.*"]}
OWN_RECORD: Keep = {"format": "text", "patterns": [r'(?s)\A\{.*"writer": "gpufleet\.nvidia".*']}
# Whether there is anything in it.
EMPTY_OR_NOT: Keep = {"format": "text", "patterns": []}
# The kubelet's own: which engine it uses, and which driver of control groups.
KUBELET_CONFIG: Keep = {"format": "yaml", "places": [
    [["containerRuntimeEndpoint"], "address"], [["cgroupDriver"], "name"], [["featureGates", "KubeletCgroupDriverFromCRI"], "bool"],
    [["featureGates", "DynamicResourceAllocation"], "bool"], [["featureGates", "AllAlpha"], "bool"], [["featureGates", "AllBeta"], "bool"],
]}  # fmt: skip
KUBEADM_FLAGS: Keep = {"format": "flags", "places": [[["container-runtime-endpoint"], "address"]]}
# Flags of a kubelet within another program, whose values may begin with a variable.
KUBELET_FLAGS: Keep = {
    "format": "text",
    "patterns": [r"(?m)^--root-dir[= ](?:\$\{?[A-Z_]{1,32}\}?)?/[\w./+-]{1,999}$"],
}
# A CDI spec where only its release counts.
SPEC_VERSION: Keep = {"format": "yaml", "places": [[["cdiVersion"], "version"]]}
# nvidia-cdi-refresh: the file that it writes.
REFRESH_ENV: Keep = {"format": "env", "places": [[["NVIDIA_CTK_CDI_OUTPUT_FILE_PATH"], "path"]]}

# nvidia-imex: whether it takes commands.
IMEX_CONFIG: Keep = {"format": "env", "places": [[["IMEX_CMD_ENABLED"], ["is", "1"]]]}

# Docker's own.
DAEMON_JSON: Places = {
    ("runtimes", "*", "path"): "program", ("runtimes", "*", "runtimeType"): "name", ("default-runtime",): "name", ("features", "*"): "bool",
    # that there are none
    ("runtimes", "*", "args"): ["is", []], ("runtimes", "*", "runtimeArgs"): ["is", []],
    ("cdi-spec-dirs",): "paths", ("live-restore",): "bool", ("node-generic-resources",): "resources",
}  # fmt: skip
# Our own keys in NVIDIA's config.toml (host/resources/toolkit_config.py).
RUNTIME_CONFIG: Places = {
    ("accept-nvidia-visible-devices-envvar-when-unprivileged",): "bool",
    ("accept-nvidia-visible-devices-as-volume-mounts",): "bool", ("nvidia-container-runtime-hook", "skip-mode-detection"): "bool",
    ("features", "ignore-imex-channel-requests"): "bool", ("nvidia-container-runtime", "mode"): "name",
    ("nvidia-container-runtime", "runtimes"): "programs",
    ("nvidia-container-runtime", "modes", "cdi", "annotation-prefixes"): "annotations",
    ("nvidia-container-runtime", "modes", "cdi", "default-kind"): "annotation",
    ("nvidia-container-runtime", "modes", "cdi", "spec-dirs"): "paths",
}  # fmt: skip

# Codes by which the host reports what is wrong with a text; it never sends the text's own words.
FAULTS: Mapping[str, str] = {
    "toml-line": "this line has more than one statement",
    "toml-key": "a key is missing here, or does not have the form of a TOML key",
    "toml-equals": "a key without an equals sign",
    "toml-value": "this is not a value",
    "toml-string": "a string without an end, or with a character that has to be escaped",
    "toml-escape": "a string with an escape sequence that TOML does not know",
    "toml-array": "an array without a comma between its values, or without its end",
    "toml-inline": "an inline table without a comma between its keys, or without its end",
    "toml-header": "a table's header without its end",
    "toml-twice": "a key or table that is defined already",
    "toml-deep": "it is nested too deeply to be a configuration",
    "json-key": "a key in quotes is expected here; JSON has neither comments nor a comma before a closing brace",
    "json-colon": "a colon is expected here",
    "json-comma": "a comma or } is expected here",
    "json-array": "a comma or ] is expected here",
    "json-value": "a value is expected here",
    "json-string": "a string without an end, or with a character that has to be escaped",
    "json-number": "this number is too long",
    "json-twice": "this key occurs twice",
    "json-more": "there is text after the end of the JSON object",
    "json-object": "it is not a JSON object",
    "json-comment": "it has no comments",
    "json-deep": "it is nested too deeply to be a configuration",
    "utf-16": "it is UTF-16",
    "yaml-form": "this form of YAML is not read here (for example a tag, a directive or a complex key)",
    "yaml-bytes": "it is not UTF-8",
    "yaml-sign": "a character that YAML does not allow",
    "yaml-tab": "a tab where the indentation must consist of spaces",
    "yaml-indent": "the indentation of this line does not fit the lines around it",
    "yaml-more": "this line has more than one value",
    "yaml-key": "a key with a colon is expected here",
    "yaml-value": "a value is expected here",
    "yaml-flow": "a comma or a closing bracket is expected here",
    "yaml-string": "a quoted string without an end, or with tens of thousands of escaped characters",
    "yaml-escape": "a string with an escape sequence that YAML does not know",
    "yaml-anchor": "an anchor or an alias without a name",
    "yaml-deep": "it is nested too deeply to be a configuration",
    "too-many": f"it has more than {placeholders.MOST} lines, commas and brackets, so it is larger than any configuration",
    "names": "it has too many different names",
}


# By the name of a format: the messages for a file in UTF-16, and for one that does not have its
# format.
FORMS: Mapping[str, tuple[Sentence, Sentence]] = {
    "TOML": (messages.UTF16_TOML, messages.INVALID_TOML),
    "JSON": (messages.UTF16_JSON, messages.INVALID_JSON),
}


def keep_places(form: str, places: Places, comments: Iterable[str] = ()) -> Keep:
    """Return the list as the host reads it."""
    listed = [[list(path), shape] for path, shape in places.items()]
    return {"format": form, "places": listed, **({"comments": list(comments)} if comments else {})}


def pack_handlers(handlers: Iterable[Handler]) -> str:
    """Return handlers as a text, by which a function can remember what it has made of them: a JSON
    list of name, program and options.
    """
    return json.dumps(
        [[handler.name, handler.binary, dict(handler.options)] for handler in handlers]
    )


def add_given_values(places: Places, values: Mapping[Path, Any]) -> dict[Path, Any]:
    """Return these places, with those of values that the asker itself has given, and therefore
    knows.
    """
    plain = [(list(path), shape) for path, shape in places.items()]
    more = {
        path: ["is", value] for path, value in values.items() if not _may_travel(plain, path, value)
    }
    return {**more, **places}


def _may_travel(places: list[tuple[list[str], Any]], path: Path, value: Any) -> bool:
    shape = selection.get_listed_shape(places, list(path))
    return shape is not None and projector.fits_scanned_shape(shape, value)


def show_own_text(text: str, wanted: Keep) -> str:
    """Return our text as the host would show it."""
    return str(
        projector.project_file(text.encode("utf-8", "surrogateescape"), wanted).data,
        "utf-8",
        "surrogateescape",
    )


def is_hidden_value(value: Any) -> bool:
    """Tell whether a value of a listed place is the host's placeholder, because the real value has
    another form.
    """
    return (
        value == [1]
        if isinstance(value, list)
        else isinstance(value, str) and value != "" and not value.strip(" ")
    )


def is_stand_in(value: Any) -> bool:
    """Tell whether this stands for a whole value under a key that is not shown. Its type is not
    that of the value.
    """
    return (
        is_hidden_value(value) or value in ("", []) or (value == 1 and not isinstance(value, bool))
    )


def build_unsent_file_error(path: str, code: str, line: int, form: str) -> PlanError:
    """Make the error for a file that was not sent because it does not have its format."""
    utf16, invalid = FORMS[form]
    if code == "utf-16":
        return PlanError(utf16.fill(), where=path, line=1)
    return PlanError(invalid.fill(reason=explain_fault(code)), where=path, line=line)


def build_fault_code(fault: str) -> str:
    """Return the code of a fault's message by the code that the host reports."""
    return f"fault.{fault}"


def explain_fault(code: str) -> Message:
    """Return what is wrong with a text, by the code that the host reports."""
    if code not in FAULTS:
        return messages.NO_DETAILS.fill()
    return Message(FAULTS[code], build_fault_code(code))


def require_shown(
    path: str, withheld: Iterable[Mapping[str, Any]], without: Iterable[Path] = ()
) -> None:
    """Raise PlanError for a value that counts here and was not sent because it has another form
    than such values have.
    """
    unlisted = [(list(place), "key") for place in without]
    for entry in withheld:
        if selection.get_listed_shape(unlisted, entry["path"]) is None:
            not_sent = messages.VALUE_WITHHELD.fill(key=".".join(entry["path"]))
            raise PlanError(not_sent, where=path, line=entry["line"])
