# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Functions of our own that stand for some of the standard library: they give the same."""

import hashlib
import hmac
import urllib.parse

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import (
    journal,
    keyed,
)


@pytest.mark.parametrize(
    "path", ["/etc/a b", "/etc/ä%41+~", "/x" * 150, "/%", "/etc/containerd/config.toml"]
)
def test_the_name_of_an_original_is_as_of_the_standard_library(path):
    name = journal.quote_path(path)
    assert name == urllib.parse.quote(path, safe="~")  # before 3.7 it took "~" for a special sign
    assert journal.unquote_path(name) == path == urllib.parse.unquote(name)


def test_a_keyed_digest_is_the_hmac_of_the_standard_library():
    for data in (b"", b"x", b"y" * 1000):
        assert (
            keyed._digest_keyed(b"kind", data)
            == hmac.new(keyed._read_key(), b"kind:" + data, hashlib.sha256).hexdigest()
        )
