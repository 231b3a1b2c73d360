# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build keys of package repositories."""

from __future__ import annotations

import base64
import hashlib

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    repository_key,
)

BODY = b"\x04" + bytes(range(40))
OLD = bytes([0x98, len(BODY)]) + BODY  # old packet format, tag 6, one length byte


def armor(packet: bytes, header: str = "Comment: test\n") -> str:
    return f"{repository_key.BEGIN}\n{header}\n{base64.b64encode(packet).decode()}\n=abcd\n{repository_key.END}\n"


FINGERPRINT = hashlib.sha1(b"\x99" + len(BODY).to_bytes(2, "big") + BODY).hexdigest().upper()
