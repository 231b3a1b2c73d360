# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""End the question that is being answered when the time of the whole look is over.

Host side: standard library only, Python 3.6.
"""

import contextlib
import signal
import threading
import time

from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import host_files


class Alarm(object):
    """An alarm that ends a question when the time of the whole look is over. It also works inside a
    slow pattern or a slow file system.
    """

    def __init__(self, deadline):
        self.deadline = deadline
        self.kind = None  # of the question that is being answered
        self.armed = threading.current_thread() is threading.main_thread()

    def _raise_timeout(self, _signal=None, _frame=None):
        if self.kind is not None:  # else between two questions: the next one is not begun
            raise host_files.HostError(
                "timeout",
                "the time for the whole observation had run out at this %s query" % self.kind,
            )

    @contextlib.contextmanager
    def set_at(self, kind):
        self.kind = kind
        try:
            if time.monotonic() >= self.deadline:
                self._raise_timeout()
            yield
        finally:
            self.kind = None

    def __enter__(self):
        if self.armed:
            self.before = signal.signal(signal.SIGALRM, self._raise_timeout)
            signal.setitimer(signal.ITIMER_REAL, max(self.deadline - time.monotonic(), 0.001))
        return self

    def __exit__(self, *_exc):
        if self.armed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self.before)
