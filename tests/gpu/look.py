# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at this machine as the collection does, and ask NVML. Standard library only, Python 3.6."""

import json
import os
import time
import zipimport

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import observe

PROBE = "ansible_collections/gpufleet/nvidia/plugins/module_utils/_host/probes/nvml.py"
QUESTIONS = "questions.json"


def read_own_text(name):
    """Return the text of a file that lies beside the code: in the zipapp, or in a folder."""
    loader = globals().get("__loader__")
    if isinstance(loader, zipimport.zipimporter):
        return loader.get_data(os.path.join(loader.archive, name)).decode("utf-8")
    with open(os.path.join(get_own_folder(), name)) as handle:
        return handle.read()


def get_own_folder():
    """Return the folder that has the same entries as the zipapp."""
    here = os.path.abspath(__file__)
    return os.path.dirname(os.path.dirname(os.path.dirname(here)))


def ask(questions, limit=60):
    """Return the observer's answer to questions of the planner."""
    return observe.run(
        {"schema": 1, "root": "/", "questions": questions, "limits": {"seconds": limit}}
    )


def answer(request):
    """Answer the questions of a request, by default those of a look at a host, with the time that
    it took.
    """
    questions = request.get("questions")
    if questions is None:
        questions = json.loads(read_own_text(QUESTIONS))[request.get("of", "driver")]
    began = time.monotonic()
    found = ask(questions, request.get("limit", 60))
    return {"answer": found, "seconds": round(time.monotonic() - began, 3)}
