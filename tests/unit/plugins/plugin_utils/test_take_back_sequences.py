# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever happened to a host between our first change and the last: taking back ends with every
byte as before, or touches nothing.
"""

from __future__ import annotations

import json
import pathlib
import tempfile
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Handler
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.draws import count_examples
from tests.unit.bare_trees import Tree

ROOT, DROP_IN, JSON = (
    "/etc/containerd/config.toml",
    "/etc/containerd/conf.d/90-gpufleet.toml",
    "/etc/docker/daemon.json",
)
CRIO, RUNTIME = (
    "/etc/crio/crio.conf.d/90-gpufleet.conf",
    "/etc/nvidia-container-runtime/config.toml",
)
BEFORE = {
    ROOT: 'version = 2\n# ours since 2019\n[plugins."io.containerd.grpc.v1.cri"]\n  sandbox_image = "pause:3.9"\n',
    JSON: '{"debug": true}\n',
    RUNTIME: "[nvidia-container-cli]\nload-kmods = true\n",
}
OURS_ALONE = (DROP_IN, CRIO)
PROGRAM = "nvidia-container-runtime"
OLD, NEW, GONE = {"engine_version": "1.7.24"}, {"engine_version": "2.3.1"}, {"engine_version": ""}
CONVERGE: dict[str, dict[str, Any]] = {
    "containerd 1.7": {"engines": ("containerd",), **OLD},
    "containerd 2.3": {"engines": ("containerd",), **NEW},
    "containerd 1.7, no CDI": {"engines": ("containerd",), "cdi": "disabled", **OLD},
    "another handler": {
        "engines": ("containerd",),
        "handlers": (Handler("gpu", "/opt/nvidia-container-runtime"),),
        **OLD,
    },
    "Docker": {"engines": ("docker",), "engine_version": "26.1.5"},
    "CRI-O": {"engines": ("crio",), "engine_version": "1.34.0"},
}
# all that were ever asked for
HANDLERS = (
    Handler(),
    Handler("gpu", "/opt/nvidia-container-runtime"),
)
EVENT = st.one_of(
    st.tuples(st.just("converge"), st.sampled_from(sorted(CONVERGE))),
    st.tuples(st.just("comment"), st.sampled_from([ROOT, DROP_IN, CRIO, RUNTIME])),
    st.tuples(st.just("key"), st.just(JSON)),
    st.tuples(st.just("remove"), st.sampled_from([ROOT, DROP_IN, CRIO, RUNTIME, JSON])),
    st.tuples(st.just("break and mend"), st.sampled_from([ROOT, JSON, RUNTIME])),
    st.tuples(st.just("take back"), st.sampled_from(["old", "new", "gone"])),
)


def happens(host: Tree, kind: str, what: str) -> None:
    """What someone else does to a file."""
    if kind == "comment":
        host.write(what, host.read(what) + "# theirs\n", mode(host, what))
    elif kind == "key":
        host.write(what, json.dumps({**json.loads(host.read(what)), "mtu": 9000}), mode(host, what))
    else:
        host.path(what).unlink()


def mode(host: Tree, name: str) -> int:
    return host.path(name).stat().st_mode & 0o7777


def taken_back(host: Tree, **options: Any) -> bool:
    """Whether it went; where it did not, nothing was touched and the files are named."""
    state, kept = host.state(), sorted(host.originals)
    options = {"handlers": HANDLERS, **options}
    found = host.run_host(state="absent", **options)
    if found["failed"]:
        assert (host.state(), sorted(host.originals)) == (state, kept)
        assert any(path in found["msg"] for path in kept), found["msg"]
        return False
    again = host.state()
    assert host.run_host(state="absent", **options)["changed"] is False
    assert host.state() == again
    return True


@given(st.lists(EVENT, min_size=1, max_size=7))
@example([("remove", JSON), ("converge", "Docker"), ("key", JSON)])
@example([("converge", "containerd 2.3"), ("comment", DROP_IN), ("remove", ROOT)])
@example([("converge", "containerd 2.3"), ("remove", ROOT)])
@settings(max_examples=count_examples(40), deadline=None)
def test_nothing_of_this_collection_is_left_and_nothing_else_is_touched(
    events: list[tuple[str, str]],
) -> None:
    with tempfile.TemporaryDirectory() as place:
        host = Tree(pathlib.Path(place, "host"))
        for name, text in BEFORE.items():
            host.write(name, text, 0o640)
        first, touched, removed = host.state(), set(), set()
        for kind, what in events:
            if kind == "converge":
                host.run_host(**CONVERGE[what])  # it may be refused, by what someone did to a file
            elif kind == "take back":
                assert taken_back(host, **{"old": OLD, "new": NEW, "gone": GONE}[what])
            elif host.path(what).exists():
                if kind == "break and mend":
                    broken(host, what)
                else:
                    happens(host, kind, what)
                    touched.add(what)
                    removed |= {what} if kind == "remove" else set()
        assert taken_back(host, **OLD)
        judge(host, first, touched, removed)


def broken(host: Tree, name: str) -> None:
    """While a file cannot be read, taking back gives it back as a whole, or stops; it never takes
    it for one without our part.
    """
    text, kept = host.read(name), host.originals
    host.write(name, text + "half a line\n", mode(host, name))
    if name in kept:
        assert not taken_back(host, **OLD)
    host.write(name, text, mode(host, name))


def judge(host: Tree, first: dict[str, Any], touched: set[str], removed: set[str]) -> None:
    # A directory that we made stays where someone has removed our file from it: it may be theirs
    # now.
    about = touched | {
        str(parent) for path in touched for parent in pathlib.PurePosixPath(path).parents
    }
    last = host.state()
    assert {path: seen for path, seen in last.items() if path not in about} == {
        p: s for p, s in first.items() if p not in about
    }
    for path in touched & set(last):
        assert path not in OURS_ALONE
        text = host.read(path)
        assert PROGRAM not in text.replace(f"[{PROGRAM}", ""), text
        # One that someone had removed, and that we made again, is a new file.
        assert path in removed or last[path][1:] == first[path][1:]
    assert set(host.originals) <= touched - set(last), (
        "copies are kept of files only that somebody has removed"
    )
