# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CDI specs and texts that are sound, odd or damaged, drawn by hypothesis."""

from __future__ import annotations

import copy
import json
from typing import Any

import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    releases,
)
from hypothesis import strategies as st

# --- specs
# --------------------------------------------------------------------------------------------------

BAD_TEXT = (
    "",
    " ",
    "=",
    "/",
    "a=b",
    "ä",
    "0",
    "08",
    "0x1f",
    "1e3",
    "yes",
    "~",
    "null",
    ".inf",
    "1_0",
    "0:1",
    "-",
    "a-",
    "_a",
    "a" * 70,
    "\u2028",
    "a\nb",
)
versions = st.sampled_from(
    [*releases.KNOWN, *releases.KNOWN, "v0.5.0", "vv0.5.0", "1.2.0", "0.5", 0.5, 1, None, "0.5.0 "]
)
kinds = st.sampled_from(
    ["nvidia.com/gpu"] * 6
    + [
        "a.b/c.d",
        "aa/bb",
        "nvidia.com",
        "/gpu",
        "aa/",
        "aa/bb/cc",
        "3a/bb",
        "aa-/bb",
        "a_/b",
        "aa/b_b",
        "a/bb",
        "",
    ]
)
names = st.sampled_from(
    ["gpu0", "gpu1", "all", "0", "1", "0:1", "MIG-1", "a", 7, True, 1.5, *BAD_TEXT]
)
paths = st.sampled_from(
    ["/dev/null", "/dev/zero", "/dev/gone", "/usr/lib/a", "dev/x", "", "/", "/a//b", 5]
)
words = st.sampled_from(["A=b", "A=c", "B=", "=x", "A", "NAME=v=w", "", None, 3, True])
numbers = st.sampled_from(
    [0, 1, 195, 438, -1, 4294967295, 4294967296, 1 << 63, 195.0, 0.5, 1e3, 1e30, "195", True, None]
)


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


nodes = st.fixed_dictionaries(
    {"path": paths},
    optional={
        "hostPath": paths,
        "type": st.sampled_from(["", "c", "b", "u", "p", "x", 1]),
        "major": numbers,
        "minor": numbers,
        "fileMode": numbers,
        "permissions": st.sampled_from(["rwm", "r", "", "none", "rwx"]),
        "uid": numbers,
        "gid": numbers,
        "Path": paths,
        "typo": numbers,
    },
)
mounts = some(
    hostPath=paths,
    containerPath=paths,
    options=st.lists(st.sampled_from(["ro", "bind", 1, None]), max_size=2),
    type=st.sampled_from(["", "bind"]),
)
hooks = some(
    hookName=st.sampled_from([*releases.HOOKS, *releases.HOOKS, "preStart", "", None]),
    path=paths,
    args=st.lists(words, max_size=2),
    env=st.lists(words, max_size=1),
    timeout=numbers,
)
nets = some(
    hostInterfaceName=st.sampled_from(["eth0", "eth1", ""]),
    name=st.sampled_from(["eth0", "eth1", None]),
)
rdt = some(
    closID=st.sampled_from(["a", "/", "a/b", ".", "x" * 4096]),
    enableCMT=st.booleans(),
    schemata=st.lists(words, max_size=1) | st.none(),
    enableMonitoring=st.booleans() | st.none(),
    l3CacheSchema=words,
)
edits = some(
    env=st.lists(words, max_size=2) | st.none(),
    deviceNodes=st.lists(nodes | st.none(), max_size=2),
    mounts=st.lists(mounts, max_size=2),
    hooks=st.lists(hooks, max_size=1),
    netDevices=st.lists(nets, max_size=2),
    intelRdt=rdt | st.none(),
    additionalGids=st.lists(numbers, max_size=2),
)
annotations = (
    st.dictionaries(st.sampled_from(["a", "A/b", "", 1, True, None]), words, max_size=2) | st.none()
)
devices = st.fixed_dictionaries(
    {"name": names, "containerEdits": edits | st.none()},
    optional={"annotations": annotations, "Name": names},
)
specs = st.fixed_dictionaries(
    {"cdiVersion": versions, "kind": kinds, "devices": st.lists(devices, max_size=3) | st.none()},
    optional={"containerEdits": edits, "annotations": annotations, "extra": words, "KIND": kinds},
)


# Mostly sound, so a fault is seen alone and not behind another one.
sound_nodes = st.fixed_dictionaries(
    {"path": st.sampled_from(["/dev/null", "/dev/zero"])},
    optional={"hostPath": st.just("/dev/full"), "type": st.just("c")},
)
sound_edits = st.fixed_dictionaries(
    {"env": st.just(["A=b"])}, optional={"deviceNodes": st.lists(sound_nodes, max_size=2)}
)
sound = st.fixed_dictionaries(
    {
        "cdiVersion": st.sampled_from(["0.5.0", "0.6.0", "1.1.0"]),
        "kind": st.just("nvidia.com/gpu"),
        "devices": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(["gpu0", "gpu1", "all"]), "containerEdits": sound_edits}
            ),
            min_size=1,
            max_size=2,
            unique_by=lambda d: str(d["name"]),
        ),
    }
)


@st.composite
def nearly_sound(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a sound spec in which one part is replaced by one that may be odd."""
    spec = copy.deepcopy(draw(sound))
    part, strategy = draw(st.sampled_from(sorted(ODD.items(), key=lambda item: item[0])))
    if part in ("cdiVersion", "kind", "annotations", "containerEdits", "devices"):
        spec[part] = draw(strategy)
    elif part == "name":
        spec["devices"][0]["name"] = draw(strategy)
    else:
        spec["devices"][0]["containerEdits"][part] = draw(strategy)
    return spec


ODD: dict[str, st.SearchStrategy[Any]] = {
    "cdiVersion": versions,
    "kind": kinds,
    "annotations": annotations,
    "containerEdits": edits,
    "devices": words,
    "name": names,
    "env": st.lists(words, max_size=2),
    "deviceNodes": st.lists(nodes | st.none(), max_size=1),
    "mounts": st.lists(mounts | st.none(), max_size=1),
    "hooks": st.lists(hooks | st.none(), max_size=1),
    "netDevices": st.lists(nets | st.none(), max_size=2),
    "intelRdt": rdt,
    "additionalGids": st.lists(numbers, max_size=2) | words,
}


@st.composite
def texts(draw: st.DrawFn, documents: st.SearchStrategy[dict[str, Any]]) -> bytes:
    """Draw a text of a spec: JSON, or YAML in one of its styles."""
    spec = draw(documents)
    if draw(st.booleans()):
        text = json.dumps({str(k): v for k, v in spec.items()}, ensure_ascii=draw(st.booleans()))
    else:
        style, flow = (
            draw(st.sampled_from([None, "'", '"'])),
            draw(st.sampled_from([None, True, False])),
        )
        text = yaml.safe_dump(
            spec,
            default_style=style,
            default_flow_style=flow,
            allow_unicode=draw(st.booleans()),
            sort_keys=False,
        )
    return text.encode("utf-8", "surrogatepass")


TOKENS = (
    "&a ",
    "*a ",
    "<<: ",
    "!!int ",
    "!!str ",
    "!!float ",
    "!!null ",
    "!!binary ",
    "! ",
    "!x ",
    "---\n",
    "...\n",
    "\t",
    '"',
    "'",
    "|\n",
    ">-\n",
    "%YAML 1.1\n",
    "\x00",
    "\ufeff",
    "\u2028",
    "\x85",
    "0x1F",
    "1_000",
    "010",
    "08",
    ".inf",
    "~",
    "? ",
    "- ",
    ": ",
    ", ",
    "{",
    "}",
    "[",
    "]",
    "#",
    " #",
    "@",
    "`",
    "\n",
    " ",
    "0",
    "y",
    "no",
    "kind: aa/bb\n",
    "\xff",
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Draw a text with pieces put in, taken out or doubled."""
    data = draw(texts(sound | nearly_sound()))
    for _turn in range(draw(st.integers(1, 3))):
        first = draw(st.integers(0, len(data)))
        last = min(len(data), first + draw(st.integers(0, 6)))
        token = draw(st.sampled_from(TOKENS)).encode(
            "latin-1" if draw(st.booleans()) else "utf-8", "replace"
        )
        data = draw(
            st.sampled_from(
                [
                    data[:first] + token + data[first:],
                    data[:first] + data[last:],
                    data[:last] + data[first:],
                    data[:first],
                ]
            )
        )
    return data
