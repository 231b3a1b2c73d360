# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build bundles with keys for tests."""

from __future__ import annotations

NEVER = """\
-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEaVW5ABYJKwYBBAHaRw8BAQdAgYuNlLHb6lwpacxRfct7KfPdxzno6TvQyaIl
UcBAufa0Fm5ldmVyQGdwdWZsZWV0LmludmFsaWSIkAQTFggAOBYhBNUIRQPPKmpZ
iDc30RvlToT6s261BQJpVbkAAhsDBQsJCAcCBhUKCQgLAgQWAgMBAh4BAheAAAoJ
EBvlToT6s261hbMA/Rt1V5ky1NniiHFJ+2Vb5s7DrJUhLPY9G5yNx9rr0kYnAP9z
RQhvZM5qLa7o48pYhbeQK+bCsirwVMN8QZNIvM1pAQ==
=zekm
-----END PGP PUBLIC KEY BLOCK-----
"""
