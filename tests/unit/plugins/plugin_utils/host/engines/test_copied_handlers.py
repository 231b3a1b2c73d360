# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which handler nvidia-ctk copied its own from, and by what a copy is known."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    QueryFailed,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    nvidia_ctk,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    leaves as containerd_leaves,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd.config import (
    FileSet,
)

from tests.unit.containerd_plans import instance

# What a handler is copied from, and how it looks then.
RUNC = {("runtime_type",): "io.containerd.runc.v2", ("options", "SystemdCgroup"): True}
MADE_UP = {
    ("runtime_type",): "io.containerd.runc.v2", ("runtime_root",): "", ("runtime_engine",): "", ("privileged_without_host_devices",): False,
}  # fmt: skip
COPIES: dict[str, tuple[dict[Any, Any], list[dict[Any, Any]], tuple[Any, ...]]] = {
    "runc's copy": ({**RUNC, ("options", "BinaryName"): "/x"}, [RUNC], ()),
    "a copy of crun, which has a program": (
        {**RUNC, ("options", "BinaryName"): "/x"},
        [{**RUNC, ("options", "BinaryName"): "/usr/bin/crun"}],
        (),
    ),
    "a type that was filled in (1.20)": (
        {**RUNC, ("options", "BinaryName"): "/x"},
        [{("options", "SystemdCgroup"): True}],
        (),
    ),
    "a type that was not (up to 1.19)": (
        {("options", "SystemdCgroup"): True},
        [{("options", "SystemdCgroup"): True}],
        (),
    ),
    "no candidate": ({**MADE_UP, ("options", "BinaryName"): "/x"}, [], ()),
    "what containerd prints anyway": (
        {**RUNC, ("sandboxer",): "podsandbox", ("cni_max_conf_num",): 0},
        [RUNC],
        (),
    ),
    "a key more": ({**RUNC, ("snapshotter",): "stargz"}, [RUNC], (("snapshotter",),)),
    "another value": (
        {**RUNC, ("options", "Root"): "/a"},
        [{**RUNC, ("options", "Root"): "/b"}],
        (("options", "Root"),),
    ),
    "a key less": (
        {("runtime_type",): "io.containerd.runc.v2"},
        [{**RUNC, ("options", "Root"): "/r"}],
        (("options", "SystemdCgroup"), ("options", "Root")),
    ),
    "nothing but the type, beside runc": (
        {**RUNC, ("options", "SystemdCgroup"): False},
        [RUNC],
        (("options", "SystemdCgroup"),),
    ),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_handler_is_explained_by_the_one_that_it_was_copied_from(name: str) -> None:
    entry, candidates, unexplained = COPIES[name]
    assert nvidia_ctk.list_unexplained_ctk_properties(entry, candidates) == unexplained


@pytest.mark.parametrize(
    ("program", "whose"),
    [
        ("/usr/bin/nvidia-container-runtime", True), ("nvidia-container-runtime", True), ("/opt/x/nvidia-container-runtime.cdi", True),
        ("/usr/local/nvidia/toolkit/nvidia-container-runtime", False), ("/usr/bin/runc", False), ("", False), (None, False),
    ],
)  # fmt: skip
def test_whose_handler_it_is_is_told_by_its_program(program: Any, whose: bool) -> None:
    assert nvidia_ctk.runs_nvidia(program) is whose


def test_candidates_are_in_the_tools_order_and_never_nvidias() -> None:
    assert nvidia_ctk.list_ctk_candidates("crun") == ("crun", "runc")
    assert nvidia_ctk.list_ctk_candidates("kata") == ("kata", "runc", "crun")
    assert (
        nvidia_ctk.list_ctk_candidates("nvidia-foo")
        == nvidia_ctk.list_ctk_candidates("")
        == ("runc", "crun")
    )


def test_defaults_that_are_no_toml_are_not_taken_for_none() -> None:
    """The program prints something else than a configuration, such as a warning on its standard
    output.
    """
    files = FileSet("/etc/containerd/config.toml", ())
    argv, compared = (
        ["/usr/bin/containerd", "config", "default"],
        containerd_leaves.list_compared_tables(()),
    )
    question = queries.ask_for_printed_tags(argv, compared, files.keep, containerd_leaves.MOVES)
    answer = {
        "prefixes": question["prefixes"],
        "leaves": [],
        "fault": {"code": "toml-equals", "line": 3},
    }
    with pytest.raises(QueryFailed, match=r"line 3 is not valid TOML \(toml-equals\)"):
        containerd_leaves.list_release_leaves(
            containerd_leaves.read_tag_facts(Observation({}, {question["id"]: answer}), files.keep),
            files,
            instance("2.1.9"),
        )
