# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A message quotes a value without what opens the addresses in it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import PlanError
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import sink
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host import options

ROW = Sentence("demo.value", "it is {value!r}", why="{value}", next="Change {value} there")
VALUES: list[tuple[Any, Any]] = [
    ("https://x/y", "https://x/y"),
    ("https://u:pw@x/y", "https://...@x/y"),
    ("https://u:p@w@x/y", "https://...@x/y"),
    ("see https://u:pw@x/y and http://v:pw@z", "see https://...@x/y and http://...@z"),
    ("https://x/y?sig=pw&b=1", "https://x/y?..."),
    (["https://u:pw@x", "y"], ["https://...@x", "y"]),
    ({"https://u:pw@x": ("https://v:pw@y",)}, {"https://...@x": ("https://...@y",)}),
    ("user@host", "user@host"),
    ("why? because", "why? because"),
    (5, 5),
]


@pytest.mark.parametrize(("value", "shown"), VALUES)
def test_a_message_hides_what_opens_an_address(value: Any, shown: Any) -> None:
    message = ROW.fill(value=value)
    assert message == f"it is {shown!r} ({shown}). Change {shown} there"
    assert message.name_options(lambda word: word) == message
    refused = PlanError(message, where=str(value))
    assert (str(refused), refused.where) == (f"{shown}: {message} [demo.value]", str(shown))


WRONG = [["https://u:pw@x"], "ftp://u:pw@x/", {"https://u:pw@x": 1}, ["https://x?sig=pw"]]


@pytest.mark.parametrize("value", WRONG)
def test_a_refused_address_is_quoted_without_its_password(value: Any) -> None:
    with pytest.raises(PlanError) as caught:
        sink.parse_sink("gpufleet_report_publish", value)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("name", ["toolkit_repository", "url"])
def test_a_refused_repository_is_quoted_without_its_password(name: str) -> None:
    with pytest.raises(PlanError) as caught:
        options.check_options({name: "ftp://u:pw@x/"})
    assert (caught.value.code, "pw" in str(caught.value)) == ("options.repository-address", False)
