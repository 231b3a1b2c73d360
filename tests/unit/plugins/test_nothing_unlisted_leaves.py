# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A secret at any place of a host that is not listed: it leaves by no way that there is, and
everything is planned and done as without it.

Whole actions on whole hosts: what Ansible gets, what travels, what the table shows, what other
accounts of the host can read afterwards.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import os
import urllib.parse
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from ansible.utils.display import Display
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from tests.draws import count_examples
from tests.unit.running_host import HostProcess, start_process
from tests.unit.running_hosts import ENGINES
from tests.unit.told_stories import STORIES, Run
from tests.unit.unlisted_places import places

tails = st.sampled_from(
    ["", "", "/x", " x", "=", "%s", "$(x)", "é", "{0}", "\tx", "+/=", "'", '"', "\\"]
)
secrets = st.one_of(
    st.builds(
        lambda word, tail: f"s3cR3t{word}{tail}",
        st.text("abcXYZ019", min_size=6, max_size=12),
        tails,
    ),
    st.text("0123456789", min_size=6, max_size=9).map(lambda digits: f"91736482{digits}"),
)


@pytest.fixture(scope="module")
def process() -> Iterator[HostProcess]:
    yield from start_process()


def forms(secret: str) -> set[str]:
    """The secret as it may be written somewhere; in small letters, since case hides nothing."""
    data = secret.encode()
    aligned = {
        base64.b64encode(b"\0" * n + data + b"\0" * 3).decode()[4 if n else 0 :][: len(data)]
        for n in range(3)
    }
    found = {
        secret, secret[::-1], secret.swapcase(), json.dumps(secret)[1:-1], json.dumps(json.dumps(secret))[3:-3], repr(secret)[1:-1],
        urllib.parse.quote(secret), data.hex(), hashlib.sha256(data).hexdigest(), *aligned,
    }  # fmt: skip
    return {form.lower() for form in found}


@functools.cache
def without(
    process: HostProcess, name: str, story: str, mode: int, way: str, said: tuple[str, str, str]
) -> list[Any]:
    """said: how the host fails, and what it says then, which a known cause may be."""
    spec = ENGINES[name].copy()
    spec.fails, spec.log, spec.words = said
    return Run(process, spec, story, mode, way).told


@pytest.mark.parametrize("name", ENGINES)
def test_a_secret_at_no_listed_place(
    process: HostProcess, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ENGINES[name].devices and os.geteuid() != 0:
        pytest.skip("only root may make device nodes")
    monkeypatch.setattr(Display(), "verbosity", 3)
    printed: list[str] = []
    monkeypatch.setattr(
        Display, "display", lambda _self, msg, *_more, **_others: printed.append(str(msg))
    )

    # Nothing is gained by a shorter story: what fails names the place and the words.
    phases = [Phase.explicit, Phase.reuse, Phase.generate]

    @settings(
        deadline=None,
        max_examples=count_examples(25),
        phases=phases,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        st.data(),
        secrets,
        st.sampled_from(sorted(STORIES)),
        st.sampled_from([0o600, 0o644]),
        st.sampled_from(["stdin", "module"]),
    )
    def holds(data: st.DataObject, secret: str, story: str, mode: int, way: str) -> None:
        spec = ENGINES[name].copy()
        place = data.draw(st.sampled_from(sorted(places(spec))), label="place")
        event(place)
        drawn: list[int] = []

        def draw(choices: Sequence[Any]) -> Any:
            drawn.append(data.draw(st.integers(0, len(choices) - 1)))
            return choices[drawn[-1]]

        places(spec)[place](spec, secret, draw)
        run = Run(process, spec, story, mode, way)
        shown = (run.shown + "\n".join(printed)).lower()
        assert [form for form in forms(secret) if form in shown] == []
        digests = [
            hashlib.sha256(text.encode()).hexdigest()
            for path, text in spec.files.items()
            if text != ENGINES[name].files[path]
        ]
        assert [digest for digest in digests if digest in shown] == []
        others = {
            path
            for path, held in run.readable
            if secret.encode() in held and path not in spec.files
        }
        assert others == set() or mode == 0o644, (
            "our file that everybody may read holds what root alone could"
        )
        if place.startswith("odd"):  # that a value is there is told, and no more of it
            again, other = iter(drawn), ENGINES[name].copy()
            places(other)[place](other, "o" * len(secret), lambda choices: choices[next(again)])
            wanted = Run(process, other, story, mode, way).told
        else:
            said = (spec.fails, spec.log.replace(secret, "x"), spec.words.replace(secret, "x"))
            wanted = without(process, name, story, mode, way, said)
        assert run.told == wanted

    holds()
