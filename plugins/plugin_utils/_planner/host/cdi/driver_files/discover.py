# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the files of the driver that containers need: libraries, programs, firmware, configuration.

They are found by name in the usual folders, from one question that lists names and reads no file.
Paths are as the driver root sees them: in a driver container's tree at /run/nvidia/driver they
begin below it (roots.py puts it in front).
"""

from __future__ import annotations

import dataclasses as dc
import fnmatch
import functools
import posixpath
import re
from collections.abc import Container, Iterable, Iterator, Mapping

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import NeedMore
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Message,
    read_error_message,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.projections.file_places import (
    WHOLE,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.text.names import (
    show_few_texts,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files import (
    catalogue,
    driver_listing,
    ld_cache,
    manifest,
    messages,
    roots,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.driver_files.driver_listing import (
    Match,
)

CORE = ("libcuda", "libnvidia-ml")  # a host without either has no driver there
MOST_NAMED = 3  # files, or reasons, in a sentence
MOST_FOLDERS = 64  # a host with many releases of CUDA has some 20
VERSIONED = re.compile(r"(?P<stem>.+?)\.so\.(?P<version>\d{1,9}\.\d{1,9}(?:\.\d{1,9})?)")


@dc.dataclass(frozen=True)
class DriverLibrary:
    """A library of the driver.

    soname: the link next to it by which it is loaded. dot_so: the link that programs are linked
    with. Each is '' if the host has none.
    """

    path: str
    soname: str = ""
    dot_so: str = ""

    @functools.cached_property
    def folder(self) -> str:
        return posixpath.dirname(self.path)

    @functools.cached_property
    def name(self) -> str:
        return posixpath.basename(self.path)

    @functools.cached_property
    def stem(self) -> str:
        return get_library_stem(self.name)


@dc.dataclass(frozen=True)
class DriverFile:
    """Any other file of the driver: the path that is mounted, and its place in containers."""

    path: str
    container: str


def build_driver_file(match: Match, container: str, driver_root: str) -> DriverFile:
    """Build the file to mount for a match.

    In a driver root of its own the end of all links is mounted: an absolute link there leads
    elsewhere when the host follows it.
    """
    return DriverFile(match.path if driver_root == "/" else match.real, container)


@dc.dataclass(frozen=True)
class DriverFiles:
    """The files found for one version of the driver. missing: what should be there; left_out: what
    stays out of containers; obstacles: why some were not found, or are not mounted.
    """

    version: str = ""
    folders: tuple[str, ...] = ()  # of its libraries
    libraries: tuple[DriverLibrary, ...] = ()
    platforms: tuple[DriverLibrary, ...] = ()  # EGL's, which have versions of their own
    xorg: tuple[DriverFile, ...] = ()
    files: tuple[DriverFile, ...] = ()
    firmware: tuple[DriverFile, ...] = ()
    binaries: tuple[DriverFile, ...] = ()
    sockets: tuple[DriverFile, ...] = ()
    missing: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    obstacles: tuple[Message, ...] = ()


def get_library_stem(name: str) -> str:
    return name.partition(".so")[0]


@dc.dataclass(frozen=True)
class DriverPlace:
    """The other facts of a host and of the policy that count for what is found there."""

    driver_root: str
    machine: str
    kernel: str
    sockets: bool
    firmware: str  # the folder in which the kernel looks for firmware first, "" if none is set


@dc.dataclass(frozen=True)
class DriverFileFacts:
    """A host's facts about the driver's files: all that is in their places.

    listing: the entries of these places. manifest: the driver's own list. mps: the folder of MPS if
    containers may get it. untrusted: the entries that accounts besides root can change; no container
    gets them. obstacles: why entries could not be listed.
    """

    listing: tuple[Match, ...]
    manifest: tuple[manifest.ListedDriverFile, ...]
    mps: Match | None
    place: DriverPlace
    untrusted: tuple[Match, ...] = ()
    obstacles: tuple[Message, ...] = ()


def read_driver_file_facts(policy: Policy, obs: Observation) -> DriverFileFacts | None:
    """Return the facts; None if the policy's profile takes no file of the driver.

    Raise NeedMore if only the loader's cache can name the folders.
    """
    if not driver_listing.list_driver_file_questions(policy):
        return None
    matches = driver_listing.list_matches(policy, obs)
    more: tuple[Match, ...] = ()
    obstacles: tuple[Message, ...] = ()
    if not any(m.type == "file" and m.usual and get_library_stem(m.name) in CORE for m in matches):
        more, obstacles = find_files_elsewhere(policy, obs)
    folder = driver_listing.get_firmware_folder(policy, obs)
    if folder:
        listed = obs.get_answer(driver_listing.ask_for_firmware(policy, folder)).get("files") or ()
        more = (*more, *map(driver_listing.build_match, listed))
    place = DriverPlace(
        policy.cdi_driver_root,
        str(obs.host.get("machine") or ""),
        str(obs.host.get("kernel") or ""),
        policy.cdi_sockets,
        folder,
    )
    return DriverFileFacts(
        (*matches, *(m for m in more if not m.untrusted)),
        driver_listing.read_driver_manifest(policy, obs),
        _find_mps_folder(policy, obs, matches),
        place,
        tuple(m for m in more if m.untrusted),
        obstacles,
    )


def find_driver_files(
    facts: DriverFileFacts | None,
    features: Iterable[str] = catalogue.FEATURES,
    version: str = "",
) -> DriverFiles:
    """Find all files that belong to one version of the driver. facts: None to take no file.

    version: the one that is asked for (that of the kernel module); '' takes that of the libraries.
    """
    if facts is None:
        return DriverFiles()
    wanted = frozenset(features)
    files = select_driver_files(facts, wanted, version or get_driver_file_version(facts.listing))
    obstacles = facts.obstacles
    if facts.untrusted:
        whole = dc.replace(facts, listing=(*facts.listing, *facts.untrusted))
        lost = select_driver_files(whole, wanted, version or get_driver_file_version(whole.listing))
        mounted = list_mounted_paths(lost)
        obstacles = (*obstacles, *explain_untrusted_files(facts.untrusted, mounted))
    return dc.replace(files, obstacles=obstacles) if obstacles else files


# hosts with the same driver, distribution and kernel have the same files
@functools.lru_cache(maxsize=64)
def select_driver_files(
    facts: DriverFileFacts, wanted: frozenset[str], version: str
) -> DriverFiles:
    """Select what belongs to this version of the driver from all that is on a host."""
    listing, place, mps = facts.listing, facts.place, facts.mps
    libraries = [m for m in listing if m.type == "file" and ".so" in m.name]
    folders = tuple(
        drop_repeated_items(
            posixpath.dirname(m.real)
            for m in libraries
            if m.usual and m.name.endswith(f".so.{version}")
        )
    )
    links = map_links_by_target(listing)
    known = manifest.map_library_features(facts.manifest)
    driver = [
        build_driver_library(real, links)
        for real in list_driver_libraries(libraries, folders, version)
    ]
    platforms = [build_driver_library(real, links) for real in list_platform_libraries(libraries)]
    suits = functools.partial(is_library_wanted, features=wanted, listed=known)
    there = map_matches_by_path(listing)
    sockets = tuple(
        find_first_match(there, (f"{root}{name}" for root in catalogue.SOCKET_ROOTS))
        for name in catalogue.SOCKETS
    )
    root = roots.clean_tree_root(place.driver_root)
    selected = DriverFiles(
        version,
        folders,
        tuple(lib for lib in driver if suits(lib.stem)),
        tuple(lib for lib in platforms if suits(lib.stem)),
        tuple(
            build_driver_file(m, m.spot, root) for m in list_xorg_modules(listing, folders, version)
        )
        if "display" in wanted
        else (),
        tuple(
            build_driver_file(m, inside, root)
            for m, inside in list_driver_configs(there, wanted, place.machine)
        ),
        tuple(
            build_driver_file(m, m.path, root)
            for m in list_driver_firmware(listing, version, place)
        ),
        tuple(build_driver_file(m, m.path, root) for m in list_driver_binaries(listing, wanted)),
        tuple(build_driver_file(m, m.path, root) for m in (*sockets, mps) if m)
        if place.sockets
        else (),
    )
    outside = [m.path for m in (*sockets, mps) if m and not place.sockets]
    filtered = [lib.path for lib in (*driver, *platforms) if not suits(lib.stem)]
    unused = manifest.list_unmounted_files(facts.manifest, wanted, names_of(selected))
    lacking = drop_repeated_items(
        [
            *list_missing_driver_files(selected, wanted),
            *manifest.list_lacking_libraries(facts.manifest, wanted, (m.name for m in listing)),
        ]
    )
    left_out = sorted({*outside, *filtered, *(name for name in unused if name not in lacking)})
    return dc.replace(selected, missing=tuple(lacking), left_out=tuple(left_out))


def _find_mps_folder(policy: Policy, obs: Observation, seen: Iterable[Match]) -> Match | None:
    """Return the folder of MPS if it is a directory of root's, else None.

    Any user may put a link or a folder by this name into /tmp, and containers would get it. Without
    cdi_sockets they do not get it, so it is returned without a check.
    """
    folder = find_first_match(map_matches_by_path(seen), [catalogue.MPS])
    if not folder or not policy.cdi_sockets:
        return folder
    there = obs.get_answer(
        queries.ask_for_file(
            roots.get_path_beneath_root(policy.cdi_driver_root, folder.path), content=False
        )
    )
    roots_own = there.get("type") == "dir" and there.get("uid") == 0 and not there.get("links")
    return folder if roots_own else None


def names_of(found: DriverFiles) -> set[str]:
    """Return the names of everything that containers get, links next to libraries included."""
    others = (*found.xorg, *found.files, *found.firmware, *found.binaries, *found.sockets)
    libraries = (*found.libraries, *found.platforms)
    names = {name for lib in libraries for name in (lib.name, lib.soname, lib.dot_so)}
    return names | {posixpath.basename(path) for f in others for path in (f.path, f.container)}


def find_files_elsewhere(
    policy: Policy, obs: Observation
) -> tuple[tuple[Match, ...], tuple[Message, ...]]:
    """Find the driver's files in folders that only the loader's cache knows: its libraries, and the
    programs beside them. It takes two more looks, on few hosts (NeedMore).

    Return them, and why the cache tells nothing. An account that can change such a file would have
    it in the containers of all others by a spec of root's, so each entry says whether one can.
    """
    root = policy.cdi_driver_root
    where = roots.get_path_beneath_root(root, ld_cache.PATH)
    question = queries.ask_for_file(where, keep=WHOLE)
    if not obs.was_asked(question):
        raise NeedMore([question])
    try:
        cache = read_loader_cache(obs.get_text(where))
    except ValueError as exc:
        command = "ldconfig" if root == "/" else f"ldconfig -r {roots.clean_tree_root(root)}"
        problem = read_error_message(exc)
        row = messages.CACHE_UNREADABLE
        return (), (row.fill(path=where, problem=problem, command=command),)
    folders = list_folders_elsewhere(cache)
    if not folders:
        return (), ()
    patterns = [
        *(
            f"{folder}/{name}"
            for folder in folders
            for name in (*catalogue.LIBRARY_NAMES, f"{catalogue.VDPAU}/libvdpau_nvidia.so*")
        ),
        *(
            f"{folder}/{name}"
            for folder in list_program_folders(cache, folders)
            for name in catalogue.BINARIES
        ),
    ]
    asked = queries.ask_for_paths(
        f"driver files in {':'.join(folders)}", patterns, root, trust=True
    )
    return tuple(
        driver_listing.build_match(f) for f in obs.get_answer(asked).get("files") or ()
    ), ()


def list_mounted_paths(found: DriverFiles) -> set[str]:
    """Return the paths of the host that containers get."""
    others = (*found.xorg, *found.files, *found.firmware, *found.binaries, *found.sockets)
    libraries = (*found.libraries, *found.platforms)
    return {library.path for library in libraries} | {other.path for other in others}


def explain_untrusted_files(found: Iterable[Match], mounted: set[str]) -> tuple[Message, ...]:
    """Return why files are not mounted that users besides root can change; () for none of them.

    mounted: the paths that containers would get otherwise.
    """
    doubted = [m for m in found if m.untrusted and {m.path, m.real} & mounted]
    if not doubted:
        return ()
    files = show_few_texts([m.path for m in doubted], MOST_NAMED)
    doubts = show_few_texts(drop_repeated_items(m.untrusted for m in doubted), MOST_NAMED)
    return (messages.FILES_UNTRUSTED.fill(files=files, doubts=doubts),)


def read_loader_cache(text: str) -> tuple[ld_cache.Entry, ...]:
    """Read a loader's cache; () for an empty text, since a host need not have one.

    Raise ValueError with one sentence if it cannot be read.
    """
    return ld_cache.parse_ld_cache(text.encode("utf-8", "surrogateescape")) if text else ()


def list_folders_elsewhere(
    cache: Iterable[ld_cache.Entry], stems: Container[str] | None = None
) -> list[str]:
    """List the folders of the driver's libraries that a loader's cache names, the usual ones left
    out. stems: of these libraries alone, None for all.

    No more than MOST_FOLDERS: each is asked for with a pattern for each name.
    """
    libraries = filter(is_driver_entry, cache)
    folders = [
        f
        for f in drop_repeated_items(
            posixpath.dirname(e.path)
            for e in libraries
            if stems is None or get_library_stem(e.name) in stems
        )
        if f not in catalogue.FOLDERS and driver_listing.is_one_folder(f)
    ]
    return folders[:MOST_FOLDERS]


def is_driver_entry(entry: ld_cache.Entry) -> bool:
    """Tell whether an entry of a loader's cache has a name that the driver's libraries have."""
    return bool(entry.cpu) and any(
        fnmatch.fnmatchcase(entry.name, name) for name in catalogue.LIBRARY_NAMES
    )


def list_program_folders(cache: Iterable[ld_cache.Entry], folders: Iterable[str]) -> list[str]:
    """List the folders of the driver's programs: beside those of libcuda or NVML alone.

    CUDA and what is built with it have names of the driver's form, too. Files beside those are
    for any account to write, more often than not, and containers would get it.
    """
    core = set(list_folders_elsewhere(cache, CORE))
    return list(filter(None, map(get_programs_folder, filter(core.__contains__, folders))))


def get_programs_folder(libraries: str) -> str:
    """Return the folder of the programs that a driver with a prefix of its own has beside that of
    its libraries (bin beside lib64, as `nvidia-installer --utility-prefix` makes it); '' for none.
    """
    prefix, name = posixpath.split(libraries)
    return f"{prefix}/bin" if name in ("lib", "lib64") and prefix != "/" else ""


def get_driver_file_version(seen: Iterable[Match]) -> str:
    """Return the version of libcuda, else of NVML; '' if neither has one.

    If several are installed, the one that the loader takes counts.
    """
    for name in CORE:
        named = [
            m for m in seen if get_library_stem(m.name) == name and m.type == "file" and m.usual
        ]
        loaded = [m for m in named if m.name == f"{name}.so.1"]
        for m in (*loaded, *named):
            known = VERSIONED.fullmatch(posixpath.basename(m.real))
            if known:
                return known["version"]
    return ""


def list_driver_libraries(
    libraries: Iterable[Match], folders: tuple[str, ...], version: str
) -> list[str]:
    """List the paths of every library with the driver's version in its name, folder by folder, then
    those without a version.
    """
    libraries = list(libraries)
    places = (*folders, *(f"{folder}/{catalogue.VDPAU}" for folder in folders))
    mine = [
        m
        for m in libraries
        if m.name.endswith(f".so.{version}") and not driver_listing.is_xorg(m.path)
    ]
    by_folder: dict[str, list[str]] = {}  # a host may answer with as many folders as files
    for m in sorted(mine, key=lambda m: m.name):
        by_folder.setdefault(m.folder, []).append(m.real)
    paths = [real for folder in places for real in by_folder.get(folder, ())]
    paths += [m.real for m in sorted(mine, key=lambda m: m.path) if driver_listing.is_32(m.path)]
    old: dict[str, list[str]] = {}
    for m in libraries:
        if m.name.startswith(f"{catalogue.NVVM70}.so."):
            old.setdefault(m.folder, []).append(m.real)
    paths += [real for folder in folders for real in old.get(folder, ())]
    return drop_repeated_items(paths)


def list_platform_libraries(libraries: Iterable[Match]) -> list[str]:
    named = [
        m for m in libraries if m.name.partition(".so.")[0] in catalogue.OWN_VERSION and m.usual
    ]
    return drop_repeated_items(
        m.real
        for name in catalogue.OWN_VERSION
        for m in named
        if matches_asterisks(m.name, f"{name}.so.*.*")
    )


def map_links_by_target(seen: Iterable[Match]) -> dict[str, list[Match]]:
    """Map each real path to the links next to it, and `link <spot>` to the links at that spot."""
    links: dict[str, list[Match]] = {}
    for m in seen:
        if m.is_link:
            if posixpath.dirname(m.real) == m.folder:
                links.setdefault(m.real, []).append(m)
            links.setdefault(f"link {m.spot}", []).append(m)
    return links


def build_driver_library(real: str, links: dict[str, list[Match]]) -> DriverLibrary:
    """Build a library with the names besides that of its file, as far as the host has such links."""
    folder, name = posixpath.split(real)
    base = get_library_stem(name)
    siblings = sorted(
        (m.name for m in links.get(real, ()) if m.name.startswith(f"{base}.so.")),
        key=lambda n: (len(n), n),
    )
    known = catalogue.LIBRARIES.get(base)
    soname = known.soname if known and known.soname in siblings else (siblings or [""])[0]
    dot_so = f"{base}.so" if f"link {folder}/{base}.so" in links else ""
    return DriverLibrary(real, soname, dot_so)


def is_library_wanted(
    name: str, features: frozenset[str], listed: Mapping[str, frozenset[str]]
) -> bool:
    """Tell whether a library is for one of the wanted features.

    The driver's own list counts before the catalogue. Libraries that neither knows go everywhere: a
    new driver must not lose them.
    """
    known = catalogue.LIBRARIES.get(name)
    meant = listed.get(name) or (known.features if known else features)
    return bool(meant & features) or features == frozenset(catalogue.FEATURES)


def list_xorg_modules(
    seen: tuple[Match, ...], folders: tuple[str, ...], version: str
) -> Iterator[Match]:
    """Yield the modules of the X server, each from the place that a server on the host would search
    first.
    """
    inside = [f"{folder}/{part}" for folder in folders for part in catalogue.XORG_IN_LIBRARIES]
    outside = [f"{root}/{part}" for root in catalogue.XORG_ROOTS for part in catalogue.XORG_FOLDERS]
    by_spot = {m.spot: m for m in seen if m.type == "file" and driver_listing.is_xorg(m.path)}
    for name in (catalogue.XORG_DRIVER, f"{catalogue.XORG_SERVER}.{version}"):
        yield from [
            by_spot[path]
            for path in (f"{folder}/{name}" for folder in (*inside, *outside))
            if path in by_spot
        ][:1]


def list_driver_configs(
    there: Mapping[str, Match], features: frozenset[str], machine: str
) -> Iterator[tuple[Match, str]]:
    """Yield the configuration files, each with the path that loaders in the container look for."""
    for name, (home, feature) in catalogue.CONFIGS.items():
        cpu = next((cpu for cpu in catalogue.CPUS if f".{cpu}." in name), machine)
        if feature not in features or (machine and cpu != machine):
            continue
        roots = (*catalogue.CONFIG_ROOTS, *([""] if name.startswith("vulkan/") else []))
        match = find_first_match(there, (f"{root}/{name}" for root in roots))
        if match:
            yield match, f"{home}/{name}"


def list_driver_firmware(
    seen: tuple[Match, ...], version: str, place: DriverPlace
) -> Iterator[Match]:
    """Yield the firmware of this driver, wherever this kernel would look for it."""
    usual = [root.replace("*", place.kernel or "*") for root in catalogue.FIRMWARE_ROOTS]
    roots = [place.firmware, *usual] if place.firmware else usual
    mine = [m for m in seen if m.type == "file" and f"/nvidia/{version}/" in m.path]
    for name in catalogue.FIRMWARE_NAMES:
        for root in roots:
            for m in mine:
                if matches_asterisks(m.path, f"{root}/nvidia/{version}/{name}"):
                    yield m


def list_driver_binaries(seen: tuple[Match, ...], features: frozenset[str]) -> Iterator[Match]:
    executable = map_matches_by_path(m for m in seen if m.type == "file" and m.mode & 0o111)
    for name, feature in catalogue.BINARIES.items():
        beside = (
            m
            for m in executable.values()
            if m.name == name and m.folder not in catalogue.PROGRAM_FOLDERS
        )
        match = find_first_match(
            executable, (f"{folder}/{name}" for folder in catalogue.PROGRAM_FOLDERS)
        )
        match = match or next(beside, None)
        if match and feature in features:
            yield match


def list_missing_driver_files(found: DriverFiles, features: frozenset[str]) -> Iterator[str]:
    """Yield the names of absent files that a wanted capability cannot do without."""
    there = {lib.stem for lib in found.libraries}
    for name, known in catalogue.LIBRARIES.items():
        if known.core and known.features & features and name not in there:
            yield f"{name}.so.{found.version or '<version>'}"
    if "utility" in features and not any(
        posixpath.basename(b.container) == "nvidia-smi" for b in found.binaries
    ):
        yield "nvidia-smi"


def map_matches_by_path(seen: Iterable[Match]) -> dict[str, Match]:
    """Map paths to what is there, with links to nothing left out."""
    return {m.path: m for m in seen if m.real and m.type != "link"}


def find_first_match(there: Mapping[str, Match], paths: Iterable[str]) -> Match | None:
    return next((there[path] for path in paths if path in there), None)


def matches_asterisks(text: str, pattern: str) -> bool:
    """Tell whether a text matches a pattern with asterisks for any text. fnmatch would compile one
    for each kernel and driver.
    """
    begins, *parts = pattern.split("*")
    if not parts:
        return text == pattern
    if not text.startswith(begins):
        return False
    at = len(begins)
    for part in parts[:-1]:
        start = text.find(part, at)
        if start < 0:
            return False
        at = start + len(part)
    return text.endswith(parts[-1]) and at + len(parts[-1]) <= len(text)


def drop_repeated_items(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))
