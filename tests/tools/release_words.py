# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of a release's tag, and its announcement, from its entry in changelog.yaml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import semantic_versions

# What readers of an announcement have to know, in this order.
SECTIONS: Mapping[str, str] = {
    "breaking_changes": "Breaking changes",
    "security_fixes": "Security fixes",
    "major_changes": "What it does",
    "minor_changes": "What is new",
    "known_issues": "Known issues",
}
FORUM = "https://forum.ansible.com/c/help/6"


def build_tag_text(described: Mapping[str, Any], noted: Mapping[str, Any]) -> str:
    """Return the text of the annotated tag: the summary, and which archive it is about."""
    summary = fold_summary(noted)
    return (
        f"{described['namespace']}.{described['name']} {described['version']}\n\n{summary}\n\n"
        f"{described['archive']}\nsha256 {described['sha256']}\n"
    )


def fold_summary(noted: Mapping[str, Any]) -> str:
    return " ".join(str((noted.get("changes") or {}).get("release_summary", "")).split())


def build_announcement(described: Mapping[str, Any], noted: Mapping[str, Any]) -> str:
    """Return the announcement as Markdown, for the forum and for the release's page."""
    full = f"{described['namespace']}.{described['name']}"
    version = described["version"]
    candidate = semantic_versions.is_candidate(version)
    # Galaxy installs a candidate only if its version is named.
    wanted = f"{full}:=={version}" if candidate else full
    lines = [f"# {full} {version}", "", fold_summary(noted), ""]
    if candidate:
        lines += ["This is a release candidate: try it on hosts that you can do without.", ""]
    lines += ["```shell", f"ansible-galaxy collection install {wanted}"]
    lines += [f"ansible-playbook -i inventory {full}.plan", "```", ""]
    lines += ["`plan` changes nothing, and needs no variable.", ""]
    for section, title in SECTIONS.items():
        entries = (noted.get("changes") or {}).get(section) or []
        if entries:
            lines += [f"## {title}", "", *(f"- {mark_code(entry)}" for entry in entries), ""]
    lines += ["## Where to ask", ""]
    lines += [f"- Questions: [Get Help]({FORUM}) on the Ansible forum. Everyone is welcome."]
    lines += [f"- Bugs: {described['issues']}"]
    lines += [f"- Weaknesses in security, privately: {described['repository']}/security/policy", ""]
    lines += [f"`{described['archive']}`: sha256 `{described['sha256']}`", ""]
    return "\n".join(lines)


def mark_code(entry: str) -> str:
    """Turn the marks of the changelog's language into those of Markdown."""
    return re.sub(r"``([^`]+)``", r"`\1`", " ".join(entry.split()))
