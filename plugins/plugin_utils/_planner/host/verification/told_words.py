# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List which words of engines, shells and runtimes may be told, and which of them mean that a case
is started again.
"""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification import (
    runtime_words,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.verification.told_paths import (
    DRIVER_FILE,
    DRIVER_NAME,
    FOLDER,
)

# Only these phrases of an engine's or a shell's words may be shown. The words around them stay on
# the host. Each repetition has an end: the host's program looks through 256 KiB of words that a
# container may have chosen, and its time grows with them and no faster.
PHRASES = (
    r"unresolvable CDI devices(?: [\w.-]{1,64}/[\w.-]{1,64}=[\w:.-]{0,128}\w)?",
    r"CDI support is explicitly disabled",
    r"could not select device driver \"cdi\"",
    r"(?i)unknown or invalid runtime name(?:: [\w.-]{1,128})?|unknown runtime specified(?: [\w.-]{1,128})?",
    r"no runtime for \"[\w.-]{0,128}\" is configured|failed to find runtime handler(?: [\w.-]{1,128})?",
    r"runtime handler \"?[\w.-]{0,128}\"? not supported",
    r"unknown service runtime\.v1\w{0,64}(?:\.\w{1,64})?",
    r"pinging container registry|failed to (?:resolve|do request|pull)|sandbox image",
    r"nvidia-container-cli(?:(?:\.real)?: (?:initialization|detection|device|requirement|ldcache|mount|nvml|container) error)?",
    r"nvidia-container-runtime-hook",
    r"(?:exec: )?\"?nvidia-container-runtime[\w.-]{0,64}\"?: (?:executable file not found|no such file or directory)",
    rf"(?:stat|exec) {FOLDER}nvidia-container-runtime[\w.-]{{0,64}}: no such file or directory",
    # runc and crun of a mount, the CDI library of a node, runtimes of a hook
    rf"(?:error mounting|cannot stat|mount) [\"`']{DRIVER_FILE}[\"`']?|(?:stat|open) {DRIVER_FILE}",
    rf"failed to stat CDI host device \"{DRIVER_FILE}\"",
    rf"(?:exec {FOLDER})?nvidia-(?:ctk|cdi-hook): no such file or directory",
    r"executable file not found",
    r"mknod: .{0,16}not found",
    r"/bin/sh: .{0,16}not found|stat /bin/sh|exec: \"/bin/sh\"|/bin/sh",
    # a file of the driver in another folder is told by its name
    rf"(?:(?<=/){DRIVER_NAME}[\"`']?: )?(?i:no such file or directory)",
    r"(?i)connection refused|permission denied|operation not permitted|no space left on device",
    r"context deadline exceeded|already exists|not found|is busy",
    *runtime_words.PHRASES,
)
# A case that ends with one of these is started again: the runtime had not read the container's
# configuration, so nothing about GPUs has been decided.
AGAIN = runtime_words.EARLY
