# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The description of a system that renders a containerd's configuration.

It has the marks by which the system is recognised and, if it is served, the place of our part.
"""

from __future__ import annotations

import dataclasses as dc
from collections.abc import Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import Refusal
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
)


@dc.dataclass(frozen=True)
class Detection:
    """The way in which a manager looks for programs when it starts. It adds a handler for each that
    it finds.
    """

    programs: Mapping[str, str]  # handler -> the program that it is added for
    first: tuple[str, ...]  # directories that are looked at before those in the PATH of its service
    # files with that service's environment, {} for the unit's name; a later one counts
    environment: tuple[str, ...]
    settings: str  # its own configuration, which sets the default handler by the key `default` ...
    # ... unless this variable of its environment names another file, or --config among its
    # arguments
    variable: str
    default: str
    # the version of a rendered file -> the name of the template for such a file, next to it
    templates: Mapping[int, str]


@dc.dataclass(frozen=True)
class Confinement:
    """A file that shows whether the daemon sees the host's programs.

    line: the line of a daemon that does not see them. refusal: the refusal for such a daemon.
    """

    file: str
    line: str
    refusal: Refusal


@dc.dataclass(frozen=True)
class ManagerPlace:
    """The place of our part of a configuration, and the units that run the daemon. Defaults are
    those of a distribution's package.

    The `imports` of a release's main file show what it reads, its version never does.
    """

    units: tuple[str, ...]  # of the daemon, or of the program that starts it: what is restarted
    # directories next to the main file that are looked at; the first is made if none is read
    drop_ins: tuple[str, ...] = ("conf.d",)
    # False: the main file is rendered again at each start, so a drop-in has to be imported already
    main_edited: bool = True
    # the person's files that go into the main file, or into one that it imports, in words for a
    # person
    made_of: str = ""
    not_imported: str = ""  # the next step if that file imports no such directory
    # the file of the daemon if that is not containerd: one file with several programs, chosen by
    # name
    executable: str = ""
    # the daemon's program reads staged files and prints what it has read, before they are swapped
    dump: bool = True
    kubelet: bool = False  # a kubelet runs inside the program of `units`, on the manager's socket
    never: tuple[
        tuple[tuple[str, ...], str], ...
    ] = ()  # keys below the CRI table that are not written here, and what sets them instead
    detection: Detection | None = None  # what it does by itself if none of our files is read
    # drop-ins are watched: a change restarts the daemon without us, which is waited for
    takes_up: bool = False
    # name of a file, imported by the main one, into which a release that reads no drop-ins merges
    # them by itself
    merges: str = ""
    # of a main file that the manager renders; one without it belongs to a person
    first_line: str = ""
    # the manager does not start with a drop-in of another version than the main file's, or of
    # another one's tables
    strict: bool = False
    # the main file is a template: what the manager puts in for its values
    filled_in: Mapping[str, str] = dc.field(default_factory=dict)
    # how a release of it may be shut off from the host's programs
    confined: Confinement | None = None
    kubelet_units: tuple[str, ...] = ()  # of the kubelet, if it is not within `units`
    # of the kubelet (--root-dir), as this manager starts it; empty: the usual one
    kubelet_directory: str = ""
    # the file with the flags of a kubelet within another program, and what its variables stand for;
    # empty: it takes none from a file
    kubelet_flags: str = ""
    variables: Mapping[str, str] = dc.field(default_factory=dict)
    load_image: str = ""  # how a person brings an image there; empty: as with any containerd
    # the file that the daemon's words go to, from the directory of its main file; empty: the
    # journal of its unit
    log: str = ""


@dc.dataclass(frozen=True)
class Boot:
    """The sources from which a manager makes its configuration at each boot.

    The planner looks at them to report what the next boot brings, and never changes them.
    """

    unit: str  # the file of its unit
    directory: str  # of files that a person may put there ...
    reads: str  # ... which a release reads if its unit has this text
    elsewhere: str  # where a person sets the same in any release
    # if it is installed, `handler` is the only handler and the default one; otherwise runc is
    program: str
    handler: str
    # the keys by which such a file is decoded at all, with their values
    head: tuple[tuple[str, str], ...]
    fields: Mapping[str, frozenset[str]]  # the path of a table in it -> its keys


@dc.dataclass(frozen=True)
class OperatorToolkit:
    """The settings that the GPU Operator's toolkit needs for a manager's containerd. Defaults are
    those of a distribution's package.
    """

    config: str = ""  # the file that it may write; empty: the one that was found
    # False: the manager finds its programs by itself, so it needs no file of this containerd
    writes: bool = True
    source: str = ""  # what it reads the configuration from, if that is not the file it writes
    why: str = ""


@dc.dataclass(frozen=True)
class Manager:
    """A system that renders a configuration. Its files, its units or the operating system's id
    identify it.

    place: None if the manager is recognised and left alone. `left_alone` then says why.
    """

    name: str
    title: str
    left_alone: Message | None = None  # why it is left alone, and what to do instead
    config: str = ""
    socket: str = ""
    homes: tuple[str, ...] = ()  # a configuration or a program below one of these is its own
    # how the path of its configuration ends, wherever its data directory is; of two that fit, the
    # longer one counts
    ends: str = ""
    units: tuple[str, ...] = ()
    servers: tuple[
        str, ...
    ] = ()  # those of `units` that the cluster's API and its database run in as well
    os_ids: tuple[str, ...] = ()
    # whether one directory has all of its driver's files, which a driver root can name then
    driver_in_one_root: bool = True
    own_engine: bool = True  # brings a containerd of its own, next to which a plain one may run
    kubernetes: bool = True  # comes with Kubernetes
    cri: bool = True  # its containerd serves CRI
    # left alone, and still our part of the configuration can be separated from the rest, so it is
    # taken back
    separable: bool = False
    place: ManagerPlace | None = None
    # files of the unit that makes the usual configuration again at each boot, which show in a bare
    # tree as well that it is there
    boot_units: tuple[str, ...] = ()
    boot: Boot | None = None
    operator: OperatorToolkit = OperatorToolkit()

    @property
    def refusal(self) -> Refusal:
        """The refusal of its engines. It is empty for a manager that is served."""
        return Refusal(self.left_alone or "")

    @property
    def taken_back(self) -> bool:
        return self.separable or self.place is not None
