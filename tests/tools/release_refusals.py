# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a release is not made: one sentence for each code, with what to do."""

from __future__ import annotations

from collections.abc import Mapping

REFUSALS: Mapping[str, str] = {
    "release.version-form": "`{version}` is not a version of semver.org. Run make release VERSION=0.1.0-rc.1, for example",
    "release.dirty": "the checkout differs from its last commit ({files}). Commit that, or put it aside",
    "release.newest": "GPUFLEET_NEWEST is set, so no lock file decides which programs make the release. Unset it",
    "release.running": "another release is being made in this checkout. Wait for its end",
    "release.stopped": "it was stopped, and nothing of it is left. Run the command again",
    "release.system": "this machine fails ({cause}). Correct that, and run the command again",
    "release.yaml": "{file} is not YAML with a mapping ({cause}). Correct it",
    "release.name": "{path} has a character that cannot be printed. Rename that file",
    "release.submodule": "{path} is a submodule, of which an archive has an empty directory. Commit its files in its place",
    "release.frozen": "{path} differs from that of the tag {tag}, with which this release is compared. Restore it from the tag",
    "release.link": "{path} is a symbolic link. Commit the file itself in its place: a release follows no link",
    "release.exists": "version {version} exists already, as {where}. Name a newer one: Galaxy replaces no version",
    "release.not-newer": "{version} is older than {last}, the last release. Name a newer one",
    "release.no-fragment": "{version} has no summary. Write release_summary into {wanted}",
    "release.contract": "docs/contract.json is not as it has to be ({cause}). Run make docs, and write the fragments that it names",
    "release.galaxy": "galaxy.yml has not just one line that begins with version. Correct it",
    "release.changelog": "antsibull-changelog {command} failed ({cause}). Correct the fragments",
    "release.git": "git {command} failed ({cause}). Correct that, and run the command again",
    "release.environment": "the environment {group} cannot be made ({cause}). Correct that, and run the command again",
    "release.build": "ansible-galaxy cannot build the archive ({cause}). Correct that, and run the command again",
    "release.other-bytes": "{archive} has other bytes when it is built again. Find what depends on the place or the time",
    "release.sbom": "the SBOM could not be made ({cause}). See whether make lock has a release of its tool that works",
    "release.importer": "galaxy-importer refuses the archive ({cause}). Run make archive for all that it says",
    "release.importer-time": "ansible-lint took longer than galaxy-importer lets it, so nothing is judged. Run it again on an idle machine",
    "release.no-commands": "README's first block of commands does not begin with ansible-galaxy. Put the commands of a new user there",
    "release.trial": "`{command}` fails with the archive ({cause}). Correct what it says",
}


class ReleaseRefused(Exception):
    """A release is not made. code: its row in REFUSALS."""

    def __init__(self, code: str, **values: str) -> None:
        super().__init__(f"{REFUSALS[code].format(**values)} [{code}]")
        self.code = code
