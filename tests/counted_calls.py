# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stop a program at one of its calls. Python 3.6, with the host side's tests."""


class CountedCalls:
    """Counts calls of functions, and calls `then(name, args)` before one of them. `then` may raise,
    or end the process. Calls that `then` makes are not counted.

    functions: pairs of a module and the name of a function in it. at: the number of the call, from
    1; 0 stands for none. on: `then` comes before each later call, too. counts: tells by name and
    arguments whether a call counts; without it, each does.
    """

    def __init__(self, monkeypatch, functions, at, then, on=False, counts=None):
        self.count, self.at, self.then, self.on, self.busy = 0, at, then, on, False
        self.counts = counts or (lambda name, args: True)
        for module, name in functions:
            monkeypatch.setattr(module, name, self.count_calls(getattr(module, name), name))

    def count_calls(self, function, name):
        def call(*args, **more):
            if not self.busy and self.counts(name, args):
                self.count += 1
                if self.count == self.at or (self.on and self.count > self.at):
                    self.interrupt(name, args)
            return function(*args, **more)

        return call

    def interrupt(self, name, args):
        self.busy = True
        try:
            self.then(name, args)
        finally:
            self.busy = False
