# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller itself fetches: one text, where a plan cannot be made without it. No host is asked, and no host's word goes out.

A package with one file, since ansible-test wants a module for every other file below plugins/action.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

from ansible import constants
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.model import PlanError

LONGEST = 1 << 16
LARGEST = 1 << 28  # bytes of a package
SECONDS = 20


def fetch(url: str) -> dict[str, Any]:
    """{"content"} or {"error"}. Every process of one run of Ansible shares what one of them fetched."""
    kept = _kept(url)
    with contextlib.suppress(OSError):
        return {"content": kept.read_text(encoding="utf-8")}
    from ansible.module_utils.urls import open_url  # takes a tenth of what an action's start takes, and few runs fetch

    try:
        with open_url(url, timeout=SECONDS, http_agent="gpufleet.nvidia") as answer:
            text = answer.read(LONGEST + 1).decode("utf-8", "replace")
    except Exception as error:  # every library below has exceptions of its own
        return {"error": {"kind": "fetch", "message": " ".join(str(error).split())[:200] or type(error).__name__}}
    if len(text) > LONGEST:
        return {"error": {"kind": "fetch", "message": f"it is longer than {LONGEST} bytes"}}
    with contextlib.suppress(OSError):
        _keep(kept, text)
    return {"content": text}


def download(url: str) -> bytes | None:
    """What is at an address, None where nothing is there. Any other failure is a PlanError, and never read as nothing."""
    from ansible.module_utils.urls import open_url

    step = "See that the controller reaches this address, through https_proxy where it needs a proxy"
    try:
        with open_url(url, timeout=SECONDS, http_agent="gpufleet.nvidia") as answer:
            data: bytes = answer.read(LARGEST + 1)
    except Exception as error:  # every library below has exceptions of its own
        if getattr(error, "code", 0) == 404 or isinstance(getattr(error, "reason", None), FileNotFoundError):
            return None
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise PlanError("the controller cannot fetch this", where=url, why=why, next=step) from None
    if len(data) > LARGEST:
        raise PlanError("the controller does not fetch this", where=url, why=f"it is larger than {LARGEST >> 20} MiB", next=step)
    return data


def _kept(url: str) -> Path:
    """In the folder that Ansible makes for one run, for its user alone, and removes at the end."""
    name = hashlib.sha256(url.encode("utf-8")).hexdigest()
    return Path(constants.DEFAULT_LOCAL_TMP) / f"gpufleet-{name}"


def _keep(place: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=place.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.replace(name, place)
