# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report what may be told of an unexpected failure: systemd's own words, or the place in a program
of this collection.

Host side: standard library only, Python 3.6.
"""

import os.path
import re

# systemd's own messages about a unit that it cannot start: names of units and its own words.
# Nothing else of its output travels.
_MANAGER_SAYS = re.compile(
    r"Job for [\w@:.\\-]+ (?:failed because (?:the control process exited with error code|a timeout was exceeded|"
    r"a fatal signal was delivered[\w ]*|the service did not take the steps required by its unit configuration|"
    r"of unavailable resources or another system error|start of the service was attempted too often)|failed|canceled|invalid)"
    r"|Unit [\w@:.\\-]+ (?:not found|could not be found|is masked)"
    r"|Failed to (?:connect to bus|start transient \w+ unit|get properties|list units|reload daemon)"
    r"|A dependency job for [\w@:.\\-]+ failed"
)


def extract_systemd_words(text):
    """Return systemd's own words from the output of systemctl or systemd-run; "" if it contains
    none that are known.
    """
    match = _MANAGER_SAYS.search(" ".join(text.split()))
    return match.group() if match else ""


def describe_fault(exc):
    """Describe an unexpected error: its kind and its place in the program. Its own words may quote
    contents of the host.
    """
    place = exc.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = (
        " at %s:%d" % (os.path.basename(place.tb_frame.f_code.co_filename), place.tb_lineno)
        if place is not None
        else ""
    )
    return "%s%s; this is a bug in the collection, please report it" % (type(exc).__name__, where)
