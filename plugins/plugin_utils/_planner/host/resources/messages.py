# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about packages, their repository, and other resources of a host."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

# the repository of packages
MIRROR = (
    "Name a mirror in gpufleet_toolkit_repository, bring the packages in an archive (gpufleet_bundle_file, docs/air-gap.md), "
    "or set gpufleet_toolkit_repository to '' if they are installed in another way"
)
ONE_KEY = "Pass the text of an .asc file with one key and nothing else, as gpg --armor --export FINGERPRINT writes it"
FETCH_AGAIN = "Fetch it again; it may be truncated"
SEVERAL_KEYS = "the repository key is more than one key"

FROM_REPOSITORY = Sentence(
    "repository.packages-from-here", "the toolkit's packages come from this repository"
)
WITHDRAWN = Sentence(
    "repository.withdrawn", "state: absent removes the repository of this collection"
)
UNKNOWN_DISTRIBUTION = Sentence(
    "repository.unknown-distribution",
    "unknown distribution {name}",
    why="known are {known}",
    next="Install the packages yourself and set gpufleet_packages: ignore",
)
NOT_AN_ADDRESS = Sentence(
    "repository.not-an-address",
    "{url} is not the address of a repository",
    next="Give an http, https or file address",
)
OUT_OF_REACH = Sentence(
    "repository.out-of-reach",
    "the repository of the toolkit's packages cannot be reached",
    why="from this host: {problem}",
    next=MIRROR,
)
KEY_NOT_FETCHED = Sentence(
    "repository.key-not-fetched",
    "the controller cannot fetch the key of NVIDIA's repository",
    why="{problem}",
    next=f"Give the key's text in gpufleet_toolkit_key. {MIRROR}",
)
PACKAGES_FROM_DEFAULT = Sentence(
    "repository.packages-from-default",
    f"The packages come from {{url}}. {MIRROR}",
)
PACKAGES_FROM_OPTION = Sentence(
    "repository.packages-from-option",
    "The packages come from {url}, as gpufleet_toolkit_repository says",
)
LOOKS_OTHER = Sentence(
    "repository.looks-other",
    "gpufleet_toolkit_repository is {url}, which looks like packages of the kind {kind}, and {manager} of this host cannot read these",
    next="Set it to the other address for the group of these hosts",
)
CHECKED_FIRST = Sentence(
    "repository.checked-first", "the package manager reads the repository before it is put in place"
)
KEY_EXPIRED = Sentence(
    "repository.key-expired",
    "the key of the repository has expired: give the renewed one in gpufleet_toolkit_key",
)
RPM_TRUSTS = Sentence(
    "repository.rpm-trusts", "zypper reads the repository with the keys that rpm trusts"
)
RPM_DISTRUSTS = Sentence(
    "repository.rpm-distrusts", "zypper does not need the repository's key any more"
)
NOT_ARMORED = Sentence(
    "repository.key-not-armored",
    "the repository key is not an armored OpenPGP public key",
    why="no {begin}",
    next="Pass the text of the .asc file",
)
KEY_UNREADABLE = Sentence(
    "repository.key-unreadable",
    "the repository key cannot be read",
    why="{problem}",
    next=FETCH_AGAIN,
)
KEY_ENDS_EARLY = Sentence("repository.key-ends-early", "it ends too early")
KEY_WITHOUT_END = Sentence("repository.key-without-end", "no {end}")
ODD_KEY_LINE = Sentence(
    "repository.odd-key-line", "a line of its armored block is neither a header nor base64"
)
FIRST_PACKET = Sentence(
    "repository.first-packet", "its first packet is not a complete version 4 public key"
)
NOT_A_PACKET = Sentence("repository.not-a-packet", "it contains bytes that are not a packet")
PACKET_WITHOUT_LENGTH = Sentence(
    "repository.packet-without-length", "it contains a packet without a length"
)
PACKET_TRUNCATED = Sentence("repository.packet-truncated", "one of its packets is truncated")
PACKET_IN_PARTS = Sentence("repository.packet-in-parts", "it contains a packet in parts")
KEY_LINES_CHANGED = Sentence(
    "repository.key-lines-changed",
    "the repository key cannot be read",
    why="its lines are indented, or joined to one",
    next="Read it from the .asc file by lookup('ansible.builtin.file', ...), or write its lines below a `|`, which keeps them as they are",
)
TEXT_BESIDE_KEY = Sentence(
    "repository.text-beside-key",
    SEVERAL_KEYS,
    why="it holds text outside the armored block",
    next=ONE_KEY,
)
SECOND_BLOCK = Sentence(
    "repository.second-block", SEVERAL_KEYS, why="it holds a second armored block", next=ONE_KEY
)
STRANGE_PACKET = Sentence(
    "repository.strange-packet",
    SEVERAL_KEYS,
    why="it holds a packet of type {kind}, which does not belong in a public key",
    next=ONE_KEY,
)
PRIMARY_KEYS = Sentence(
    "repository.primary-keys",
    SEVERAL_KEYS,
    why="it holds {number} primary keys, and only one fingerprint is compared",
    next=ONE_KEY,
)
NOT_A_FINGERPRINT = Sentence(
    "repository.not-a-fingerprint",
    "{given} is not the fingerprint of a key",
    why="a fingerprint has 40 hexadecimal digits; with fewer, a key of someone else could be made to match",
    next="Give all of them in gpufleet_toolkit_key_fingerprint, as gpg --show-keys prints them",
)
ANOTHER_KEY = Sentence(
    "repository.other-key",
    "the key of the package repository is not the expected one",
    why="its fingerprint is {found}, but {expected} is expected",
    next="Ask the operator of the repository for the fingerprint of its key. If it is this one, "
    "set gpufleet_toolkit_key_fingerprint; if not, install nothing",
)
# other sources of packages
SAME_REPOSITORY = Sentence(
    "apt.same-repository",
    "it names the same repository, which this collection's own source names from now on; apt stops where two differ in their key",
)
APT_STOPS = (
    "apt stops if two sources of one repository differ in their key, and this one is not taken over"
)
SOURCE_BESIDE = "a source of apt names the same repository as gpufleet_toolkit_repository"
REMOVE_ENTRY = "Remove its entry there, or leave gpufleet_toolkit_repository at its default, which adds nothing beside it"
CORRECT_LINE = (
    "Correct the line or remove it (a web page in a list is a download that failed), and run again"
)
APT_READS_NOTHING = (
    "apt does not know what this line is, and reads no source at all while it stands there"
)
SOURCE_TO_KEEP = Sentence(
    "apt.source-to-keep",
    SOURCE_BESIDE,
    why=f"{APT_STOPS}: gpufleet_adopt is never",
    next=REMOVE_ENTRY,
)
SOURCE_WITH_MORE = Sentence(
    "apt.source-with-more",
    SOURCE_BESIDE,
    why=f"{APT_STOPS}: the file has other sources, too, or one with fields that are unknown here",
    next=REMOVE_ENTRY,
)
UNKNOWN_TYPE = Sentence(
    "apt.unknown-type",
    APT_READS_NOTHING,
    why="it begins with {first} and not with deb or deb-src",
    next=CORRECT_LINE,
)
LINE_CUT_SHORT = Sentence(
    "apt.line-cut-short",
    APT_READS_NOTHING,
    why="it ends before the suite, or before a component of the suite",
    next=CORRECT_LINE,
)
SOURCE_UNREADABLE = Sentence(
    "apt.source-unreadable",
    "a source of apt could not be read",
    why="{problem}; if it names the repository of gpufleet_toolkit_repository too, apt stops",
    next="Correct that, or remove the file, and run again",
)
SOURCE_RETURNED = Sentence(
    "apt.source-returned", "state: absent restores the source that this collection took over"
)
SOURCE_UNCHECKED = Sentence(
    "rpm.source-unchecked",
    "{path} has the repository of gpufleet_toolkit_repository, too, and checks no signature, "
    "so {manager} may install its packages unchecked. Remove the entry there, or set repo_gpgcheck=1 in it",
)
# packages
BASE_PACKAGE = Sentence("packages.base", "the NVIDIA runtime and its tools; CDI needs nothing else")
HOOK_PACKAGE = Sentence("packages.hook", "the prestart hook, which legacy injection runs")
TOOLS_PACKAGE = Sentence("packages.tools", "nvidia-container-cli, which the hook runs")
LIBRARY_PACKAGE = Sentence("packages.library", "the library of nvidia-container-cli")
INSTALL = Sentence("packages.install", "install {packages}")
INSTALL_VERSION = Sentence("packages.install-version", "install {packages} in version {version}")
REFRESH_LISTS = Sentence(
    "packages.refresh-lists", "the lists on the host do not have the packages yet"
)
NO_MANAGER = Sentence(
    "packages.no-manager",
    "no supported package manager found; install {packages} by hand",
)
OFFER_FAILED = Sentence(
    "packages.offer-unknown",
    "whether a repository of this host has the toolkit's packages is not known",
    why="`{command}`: {problem}",
    next="Run that on the host and correct what it reports. "
    "Or set gpufleet_toolkit_repository to a repository that has them: it is added without that question. "
    "Or set gpufleet_packages: ignore, and install them by hand",
)
MANAGER_FAILED = Sentence("packages.command-failed", "it did not work")
STAYS_MISSING = Sentence(
    "packages.stays-missing",
    "{packages} is not installed and stays so (gpufleet_packages: ignore), but {program} is needed",
)
STAYS_MISSING_BENEATH_ROOT = Sentence(
    "packages.stays-missing-beneath-root",
    "{packages} is not installed and stays so (packages are not installed in another root directory), but {program} is needed",
)
MIXED_VERSIONS = Sentence(
    "packages.mixed-versions",
    "the packages of the NVIDIA Container Toolkit have different versions: {versions}. Set gpufleet_toolkit_version to one of them",
)
MIXED_VERSIONS_KEPT = Sentence(
    "packages.mixed-versions-kept",
    "the packages of the NVIDIA Container Toolkit have different versions: {versions}. Bring them to one version with the package manager",
)
SYSTEMD_RELOADS = Sentence(
    "packages.systemd-reloads",
    "the packages' scripts make systemd reload its units: running containers that got GPUs by the legacy hook lose them "
    "(Failed to initialize NVML: Unknown Error); drain such containers first",
)
NOT_LISTED_YET = Sentence(
    "packages.not-listed-yet",
    "no package list of this host has {package} yet; gpufleet_toolkit_repository says where it comes from",
)
IMAGE_HOST_OSTREE = Sentence(
    "packages.image-host-ostree",
    "{packages} cannot be installed on a host that runs",
    why="the packages of this system come with its image, and /usr is read-only",
    next="Add NVIDIA's repository (gpufleet.nvidia.toolkit_repository), put them into the image, "
    "or layer them (rpm-ostree install {packages}), reboot and run again",
)
IMAGE_HOST_SNAPSHOT = Sentence(
    "packages.image-host-snapshot",
    "{packages} cannot be installed on a host that runs",
    why="the packages of this system come with its image, and /usr is read-only",
    next="Add NVIDIA's repository (gpufleet.nvidia.toolkit_repository), run "
    "transactional-update pkg install {packages}, reboot and run again",
)
# device nodes
NODES_AT_BOOT = Sentence(
    "device-nodes.needed-at-boot",
    "the driver's device nodes have to exist before containers start, with the device numbers of this boot",
)
NODES_WITHDRAWN = Sentence(
    "device-nodes.withdrawn", "state: absent removes the unit that makes device nodes"
)
MODULE_NOT_LOADED = Sentence("device-nodes.module-not-loaded", "/proc/devices has no {device}")
NODE_LACKING = Sentence(
    "device-nodes.node-missing",
    "containers with a GPU need it; {driver} reports its number",
)
NOT_A_NODE = Sentence("device-nodes.not-a-node", "this is not a device node")
OTHER_NUMBER = Sentence(
    "device-nodes.other-number",
    "the kernel has {driver} as {major} now; with other numbers it leads to another device or to none",
)
NUMBER_NOT_KNOWN = Sentence(
    "device-nodes.driver-not-loaded",
    "{driver} is not loaded; with other numbers it leads to another device or to none",
)
OTHER_MODE = Sentence(
    "device-nodes.other-mode",
    "the module's parameters say so (/proc/driver/nvidia/params)",
)
LINK_MISSING = Sentence(
    "device-nodes.link-missing",
    "systemd identifies devices by it; without it a daemon-reload takes them away from containers (runc issue 3708)",
)
NODES_REFUSED = Sentence(
    "device-nodes.cannot-be-created",
    "device nodes cannot be created: {problem}",
    next="Nothing was changed",
)
NODES_LEFT_ALONE = Sentence("device-nodes.left-alone", "Device nodes are left alone: {problem}")
IN_CONTAINER = Sentence(
    "device-nodes.in-container", "this is a container ({mark}), which gets its nodes from its host"
)
DRIVER_CONTAINER = Sentence(
    "device-nodes.in-driver-container",
    "they lie beneath {path}, where the driver's own container creates them",
)
# metrics
METRICS_WANTED = Sentence(
    "metrics.wanted", "node_exporter reads how containers get GPUs here, and when that changed"
)
METRICS_MOVED = Sentence("metrics.moved", "gpufleet_metrics_dir names another directory, or none")
METRICS_WITHDRAWN = Sentence("metrics.withdrawn", "state: absent removes the file of metrics")
METRICS_UNTRUSTED = Sentence(
    "metrics.directory-untrusted",
    "gpufleet_metrics_dir is not used: {path}: {problem}, so no metrics are written. "
    "Name a directory that root alone can change, and have node_exporter read that one (--collector.textfile.directory)",
)
NO_METRICS_DIRECTORY = Sentence(
    "metrics.no-directory",
    "gpufleet_metrics_dir is not used",
    why="this host has no such directory",
    next="Name the directory that node_exporter reads (--collector.textfile.directory), or make it",
)
METRICS_NOT_A_DIRECTORY = Sentence(
    "metrics.not-a-directory",
    "gpufleet_metrics_dir is not used",
    why="it is not a directory",
    next="Name the directory that node_exporter reads (--collector.textfile.directory), or make it",
)
METRICS_OF_OTHERS = Sentence(
    "metrics.file-of-others",
    "this file does not belong to this collection",
    why="gpufleet_metrics_dir has it",
    next="Move it away, or name another directory",
)
# the OCI hook
NO_HOOK_DIRECTORY = Sentence(
    "oci-hook.no-directory",
    "CRI-O reads no directory of OCI hooks",
    why="its setting hooks_dir is empty, and containers would run without GPUs",
    next='Set hooks_dir = ["{directory}"] there, or leave gpufleet_cdi at auto',
)
STRANGE_HOOK = Sentence(
    "oci-hook.strange-file",
    "{path} is not a hook file that this collection or NVIDIA's tool writes, so it is left alone: check what it injects",
)
HOOK_NOT_NEEDED = Sentence(
    "oci-hook.not-needed",
    "GPUs are injected in another way here, and an additional hook would inject them twice",
)
HOOK_NEEDED = Sentence("oci-hook.needed", "CRI-O runs this hook before every container")
HOOK_NOT_IN_JOURNAL = Sentence(
    "oci-hook.not-in-journal",
    "{path} is not in the journal of this host: NVIDIA's own tool writes the same file, so it is left alone",
)
HOOK_WITHDRAWN = Sentence("oci-hook.withdrawn", "state: absent removes what this collection wrote")
NO_HOOK_PROGRAM = Sentence(
    "oci-hook.no-program",
    "the program of the OCI hook does not exist",
    why="CRI-O silently skips such a hook, and containers would run without GPUs",
    next="Install nvidia-container-toolkit first (gpufleet_packages: present does), or correct the path",
)
# Docker Swarm
SWARM_NOT_A_UUID = Sentence(
    "swarm.not-a-uuid",
    "{place}: Docker Swarm offers {gpus}, which is not the UUID of a GPU of this host",
    next="Write the whole UUIDs that `nvidia-smi -L` prints",
)
SWARM_WITHOUT_UUIDS = Sentence(
    "swarm.spec-without-uuids",
    "{place}: Docker Swarm offers GPUs by UUID, and the CDI spec has no such names",
    next="Add uuid to gpufleet_cdi_device_names",
)
READ_FROM_1_19 = (
    "GPUs to services, which the NVIDIA runtime reads in the mode {mode} from toolkit 1.19 on"
)
KEEP_LEGACY = "If an older one stays on this host, set gpufleet_injection: legacy"
SWARM_ASSIGNS = Sentence(
    "swarm.assigns", f"{{place}}: Docker Swarm assigns {READ_FROM_1_19}", next=KEEP_LEGACY
)
SWARM_MAY_ASSIGN = Sentence(
    "swarm.may-assign", f"{{place}}: Docker Swarm may assign {READ_FROM_1_19}", next=KEEP_LEGACY
)
# the toolkit's configuration
RUNTIME_MODE = Sentence("toolkit.mode", "this is how the NVIDIA runtime injects on this host")
ANNOTATION_PREFIXES = Sentence(
    "toolkit.annotation-prefixes",
    "cdi.k8s.io/ is the engine's own prefix; the NVIDIA runtime must not handle it too",
)
DEFAULT_KIND = Sentence("toolkit.default-kind", "a device name without a kind refers to this one")
SPEC_DIRS = Sentence(
    "toolkit.spec-dirs",
    "the CDI specs of this host are here, by gpufleet_cdi_spec_dirs or by the settings of its engines",
)
LOW_LEVEL_RUNTIMES = Sentence(
    "toolkit.low-level-runtimes",
    "these are the low-level runtimes of this host, by full path if they are not on PATH",
)
ASKS_BY_VARIABLE = Sentence(
    "toolkit.asks-by-variable",
    "isolation: whether an unprivileged container may ask for GPUs by NVIDIA_VISIBLE_DEVICES",
)
ASKS_BY_MOUNTS = Sentence(
    "toolkit.asks-by-mounts",
    "whether a container may ask for GPUs by mounts, as pods of a device plugin with the strategy volume-mounts do",
)
CHANNELS_IGNORED = Sentence(
    "toolkit.channels-ignored",
    "safety-correction: otherwise the variable NVIDIA_IMEX_CHANNELS grants a channel that no device of this host names",
)
MODE_DETECTION = Sentence(
    "toolkit.mode-detection-skipped",
    "docker run --gpus calls the hook directly, which works in legacy mode only unless this is true",
)
MOUNTS_REFUSED = Sentence(
    "toolkit.mounts-refused",
    "safety-correction: no device plugin asks by mounts here, and up to toolkit 1.20.1 a mount adds GPUs to the ones "
    "that a container got by CDI",
)
TOOLKIT_RESTORED = Sentence("toolkit.restored", "state: absent restores the original file")
TOOLKIT_CHANGED_SINCE = Sentence(
    "toolkit.changed-since",
    "{path} was changed after this collection had written it: only the keys of this collection get their values from before. "
    "For a key that the file did not have, the runtime's default applies",
)
NO_ORIGINAL = Sentence(
    "toolkit.no-original",
    "{path} has no copy of the original, since the journal is gone: only the keys of this collection are removed, "
    "so the runtime's defaults apply",
)
# the owner's settings in it: `why` is what they break
NO_START = "no container with a GPU starts"
REMOVE = "Remove the line"
NO_CGROUPS = Sentence(
    "toolkit.no-cgroups",
    "{place}: nvidia-container-cli.no-cgroups is true",
    why="containers that get GPUs by the prestart hook may not open them (Failed to initialize NVML: Unknown Error)",
    next=f"{REMOVE}, unless a rootless engine reads this file",
)
LDCONFIG_OF_CONTAINER = Sentence(
    "toolkit.ldconfig-of-container",
    "{place}: nvidia-container-cli.ldconfig is {value}, without an @ in front",
    why="no container starts with NVIDIA's runtime or hook from toolkit 1.17.3 on",
    next='Write "@/sbin/ldconfig", the program of the host',
)
NO_LDCONFIG = Sentence(
    "toolkit.no-ldconfig",
    "{place}: nvidia-container-cli.ldconfig names {value}, which does not exist",
    why=NO_START,
    next='Write "@" and the path of ldconfig on this host',
)
NO_CLI = Sentence(
    "toolkit.no-cli",
    "{place}: nvidia-container-cli.path is {value}, which is not the full path of a program that exists",
    why=NO_START,
    next=f"{REMOVE}, and the hook looks for the program in PATH",
)
NO_DRIVER_ROOT = Sentence(
    "toolkit.no-driver-root",
    "{place}: nvidia-container-cli.root names {value}, which does not exist",
    why=f"the driver is not found and {NO_START}",
    next=f"{REMOVE} if the driver is installed on the host itself",
)
NO_LDCACHE = Sentence(
    "toolkit.no-ldcache",
    "{place}: nvidia-container-cli.ldcache names {value}, which does not exist",
    why=NO_START,
    next=REMOVE,
)
NO_RUNTIME_HOOK = Sentence(
    "toolkit.no-runtime-hook",
    "{place}: nvidia-container-runtime-hook.path names {value}, which does not exist",
    why=NO_START,
    next=REMOVE,
)
NO_CTK = Sentence(
    "toolkit.no-ctk",
    "{place}: nvidia-ctk.path names {value}, which does not exist",
    why="hooks of containers fail, so a container with a GPU may not start",
    next=REMOVE,
)
UNKNOWN_CAPABILITY = Sentence(
    "toolkit.unknown-capability",
    "{place}: supported-driver-capabilities has {value}, which the toolkit does not know",
    why=NO_START,
    next=f"{REMOVE}, or take the word out",
)
REQUIREMENTS_OFF = Sentence(
    "toolkit.requirements-off",
    "{place}: disable-require is true",
    why="an image starts on a driver that is too old for it, and fails when it first uses a GPU",
    next=f"{REMOVE}, unless that is wanted",
)
NO_LOG_DIRECTORY = Sentence(
    "toolkit.no-log-directory",
    "{place}: nvidia-container-cli.debug names a file in {value}, which does not exist",
    why="nvidia-container-cli writes no log",
    next="Make the directory, or remove the line",
)

# ---------------------------------------------------------------- nvidia-persistenced

PERSISTENCE_WANTED = Sentence(
    "persistence.wanted",
    "nvidia-persistenced keeps the GPUs initialised, and starts before the engines",
)
PERSISTENCE_WITHDRAWN = Sentence(
    "persistence.withdrawn", "nvidia-persistenced starts as its package says from the next boot on"
)
PERSISTENCE_ABSENT = Sentence(
    "persistence.absent",
    "gpufleet_persistence is enabled, and {unit} is not installed",
    next="Install the package of the driver that has it, or leave gpufleet_persistence at advise",
)
PERSISTENCE_WITHOUT_DRIVER = Sentence(
    "persistence.no-driver",
    "gpufleet_persistence is enabled, and this host gets no {unit}: {evidence}",
)
PERSISTENCE_MASKED = Sentence(
    "persistence.masked",
    "gpufleet_persistence is enabled, and {unit} is masked",
    why="a person or another tool wants it off",
    next="Unmask it, or leave gpufleet_persistence at advise",
)
