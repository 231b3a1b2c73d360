# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run programs whose results depend on files alone, and neither on the caller's environment nor on
its settings of git.

A hook of git, `git rebase --exec` and a shell of another project set variables by which git works
on another repository (GIT_DIR), Python imports other modules (PYTHONPATH), and Ansible reads other
settings. A person's settings of git change files at a checkout (core.autocrlf, filters), hide files
(core.excludesFile), run programs (core.hooksPath) and fetch from elsewhere (url.*.insteadOf).
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

# Where programs, caches and indexes are, and in whose name it is done.
KEPT = re.compile(
    r"HOME|PATH|TMPDIR|USER|LOGNAME|EMAIL|XDG_(CACHE|CONFIG|DATA)_HOME|PYENV_ROOT"
    r"|GIT_(AUTHOR|COMMITTER)_(NAME|EMAIL)"
    r"|PIP_(CACHE_DIR|CERT|CONFIG_FILE|EXTRA_INDEX_URL|FIND_LINKS|INDEX_URL|PROXY|TIMEOUT|TRUSTED_HOST)"
    r"|(HTTPS?|NO|ALL)_PROXY|(https?|no|all)_proxy|SSL_CERT_(FILE|DIR)|(REQUESTS|CURL)_CA_BUNDLE"
)
# Texts are read as UTF-8, and a day ends everywhere at the same time.
OWN: Mapping[str, str] = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
# Git's words for all that could change a file, run a program or reach another place. A repository
# of another user was accepted by the caller's git before this applies.
SETTINGS = """\
[safe]
\tdirectory = *
[core]
\tattributesFile = /dev/null
\tautocrlf = false
\texcludesFile = /dev/null
\tfsmonitor = false
\thooksPath = /dev/null
[commit]
\tgpgSign = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
"""


def keep_environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return what a result may depend on of an environment."""
    return {**{name: value for name, value in given.items() if KEPT.fullmatch(name)}, **OWN}


@contextlib.contextmanager
def cleaned(**variables: str) -> Iterator[None]:
    """Leave of this process's environment what results may depend on, and files as others may read
    them, for a while.

    variables: further ones to set.
    """
    before, mask = dict(os.environ), os.umask(0o022)
    try:
        kept = keep_environment(before)
        os.environ.clear()
        os.environ.update({**kept, **variables})
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        os.umask(mask)


def build_git_environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which git works on the repository of its directory, and nowhere
    else.

    Kept are the caller's settings, among them the directories that it declared safe, and its name.
    No object stands for another one (git-replace).
    """
    kept = {
        name: value
        for name, value in given.items()
        if not name.startswith("GIT_") or KEPT.fullmatch(name)
    }
    return {**kept, "GIT_NO_REPLACE_OBJECTS": "1", "GIT_OPTIONAL_LOCKS": "0"}


@contextlib.contextmanager
def own_git_settings() -> Iterator[dict[str, str]]:
    """Yield the variables by which git reads SETTINGS, and neither the caller's nor the machine's."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-git-") as folder:
        path = Path(folder) / "config"
        path.write_text(SETTINGS)
        yield {
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": str(path),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TEMPLATE_DIR": "",
        }
