# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where Podman looks for CDI specs, by the files of the host, and what is said of it."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    CDI_DIRS,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.podman import (
    detect,
    directories,
)

from tests.unit.builders import obs
from tests.unit.coded import get_coded, get_codes

USUAL, OWN = directories.FILES
DROP_IN, LATER = (
    "/etc/containers/containers.conf.d/10-site.conf",
    "/etc/containers/containers.conf.d/20-site.conf",
)
ELSEWHERE = '[engine]\nruntime = "crun"\ncdi_spec_dirs = ["/srv/cdi"]\n'
NAMED = "/srv/cdi"

OF_VENDOR, OF_ROOT = (
    "/usr/share/containers/containers.conf.d",
    "/etc/containers/containers.rootful.conf.d",
)
VENDORS, ROOTS, VENDORS_FOR_ROOT = (
    f"{OF_VENDOR}/15-gpu.conf",
    f"{OF_ROOT}/12-gpu.conf",
    "/usr/share/containers/containers.rootful.conf.d/17-gpu.conf",
)
EVERY = (USUAL, OWN, DROP_IN, LATER, VENDORS, ROOTS, VENDORS_FOR_ROOT)
EARLIER = (USUAL, OWN, DROP_IN, LATER)

# files that are there, release of Podman -> the files that it reads, in order
READ = {
    "before 6.0, all": (EVERY, "5.8.3", EARLIER),
    "a release that is not known": (EVERY, "", EARLIER),
    "from 6.0 on the first file alone, and each drop-in by its name": (
        EVERY,
        "6.0.0-rc1",
        (OWN, DROP_IN, ROOTS, VENDORS, VENDORS_FOR_ROOT, LATER),
    ),
    "a package of a distribution": (
        (OWN, USUAL, DROP_IN, VENDORS),
        "5:6.1.2-1.fc45",
        (OWN, DROP_IN, VENDORS),
    ),
    "from 6.0 on the distribution's file, if it is the only one": ((USUAL,), "6.0.0", (USUAL,)),
    "drop-ins without a file": ((LATER, VENDORS), "6.0.0", (VENDORS, LATER)),
    "of one name /etc's": (
        (f"{OF_VENDOR}/10-site.conf", DROP_IN),
        "6.0.0",
        (DROP_IN,),
    ),
    "of one name root's": (
        (DROP_IN, f"{OF_ROOT}/10-site.conf"),
        "6.0.0",
        (f"{OF_ROOT}/10-site.conf",),
    ),
    "before 6.0, of one name the one of /etc": (
        (f"{OF_VENDOR}/10-site.conf", DROP_IN, f"{OF_ROOT}/10-site.conf"),
        "5.8.3",
        (DROP_IN,),
    ),
}


@pytest.mark.parametrize(("files", "version", "read"), READ.values(), ids=READ)
def test_a_release_reads_its_files(
    files: tuple[str, ...], version: str, read: tuple[str, ...]
) -> None:
    seen = directories.read_podman_facts(obs(files=dict.fromkeys(files, "")))
    assert tuple(file.path for file in directories.list_read_files(seen, version)) == read


# files -> release of Podman, directories that the specs are in, the file and line of what is said
# ("" = nothing is)
CASES = {
    "nothing is configured": ({}, "5.5.2", (), ""),
    "a file without the key": ({OWN: '[engine]\nruntime = "crun"\n'}, "5.5.2", (), ""),
    "another directory": ({OWN: ELSEWHERE}, "5.5.2", (), f"{OWN}:3"),
    "of the distribution": ({USUAL: ELSEWHERE}, "5.8.2", (), f"{USUAL}:3"),
    "in a drop-in": ({DROP_IN: ELSEWHERE}, "5.5.0", (), f"{DROP_IN}:3"),
    "a later file says the usual ones": (
        {DROP_IN: ELSEWHERE, LATER: '[engine]\ncdi_spec_dirs = ["/etc/cdi/"]\n'},
        "5.5.0",
        (),
        "",
    ),
    "a release that does not read the key": ({OWN: ELSEWHERE}, "5.4.2+ds1-2", (), ""),
    "a release that is not known": ({OWN: ELSEWHERE}, "", (), ""),
    "the specs are there": ({OWN: ELSEWHERE}, "5.5.2", (NAMED,), ""),
    "one of both": ({OWN: '[engine]\ncdi_spec_dirs = ["/srv/cdi", "/etc/cdi"]\n'}, "5.5.2", (), ""),
    "a list that adds to another": (
        {OWN: '[engine]\ncdi_spec_dirs = ["/srv/cdi", {append=true}]\n'},
        "5.5.2",
        (),
        "",
    ),
    "a file that is no TOML": ({OWN: "[engine\n", DROP_IN: ELSEWHERE}, "5.5.2", (), ""),
    "of the distribution, with a file of the host's own": (
        {USUAL: ELSEWHERE, OWN: '[engine]\nruntime = "crun"\n'},
        "5.8.3",
        (),
        f"{USUAL}:3",
    ),
    "of the distribution, which 6.0 does not read then": (
        {USUAL: ELSEWHERE, OWN: '[engine]\nruntime = "crun"\n'},
        "6.0.0",
        (),
        "",
    ),
    "a drop-in of the distribution": ({VENDORS: ELSEWHERE}, "6.0.0", (), f"{VENDORS}:3"),
    "a drop-in that 5.8 does not read": ({VENDORS: ELSEWHERE}, "5.8.3", (), ""),
    "a drop-in for root alone": ({ROOTS: ELSEWHERE}, "6.0.0", (), f"{ROOTS}:3"),
    "the name decides, and not the directory": (
        {ROOTS: ELSEWHERE, VENDORS: '[engine]\ncdi_spec_dirs = ["/etc/cdi"]\n'},
        "6.0.0",
        (),
        "",
    ),
}


@pytest.mark.parametrize(("files", "version", "used", "where"), CASES.values(), ids=CASES)
def test_a_podman_that_looks_elsewhere_is_named(
    files: dict[str, str], version: str, used: tuple[str, ...], where: str
) -> None:
    seen = directories.read_podman_facts(obs(files=files))
    found = directories.advise_on_podman_directories(seen, version, used or CDI_DIRS)
    said = {
        "podman.other-directories": {
            "directories": NAMED,
            "place": where,
            "used": "/etc/cdi and /var/run/cdi",
        }
    }
    assert get_coded(found) == (said if where else {})


# release of Podman -> the directories that it reads if no file of the host sets any
ETC_ALONE = CDI_DIRS[:1]
RELEASES = {
    "4.9.3": CDI_DIRS,
    "5.4.2+ds1-2": CDI_DIRS,
    "5.5.0": ETC_ALONE,
    "5:5.5.2-1.el10": ETC_ALONE,
    "5.6.0-rc1": CDI_DIRS,
    "5.6.0": CDI_DIRS,
    "5.8.2": CDI_DIRS,
    "": CDI_DIRS,
}


@pytest.mark.parametrize(
    ("version", "usual"), RELEASES.items(), ids=[version or "not known" for version in RELEASES]
)
def test_a_podman_that_nobody_has_set_up_reads_what_its_release_reads(
    version: str, usual: tuple[str, ...]
) -> None:
    seen = directories.read_podman_facts(obs(files={}))
    assert detect.looks_into(seen, version) == usual
    assert directories.advise_on_podman_directories(seen, version, CDI_DIRS) == ()
    said = {
        "podman.default-directories": {
            "version": "5.5.0",
            "directories": "/etc/cdi",
            "used": "/var/run/cdi",
        }
    }
    found = get_coded(directories.advise_on_podman_directories(seen, version, CDI_DIRS[1:]))
    assert list(found) == (list(said) if usual == ETC_ALONE else [])
    assert version != "5.5.0" or found == said


def test_the_option_for_directories_ends_the_advice() -> None:
    seen = obs(files={OWN: ELSEWHERE}, packages={"podman": "5.5.2-1"})
    assert get_codes(detect.advise_on_reading(Policy(), detect.read_facts(Policy(), seen))) == [
        "podman.other-directories"
    ]
    assert (
        detect.advise_on_reading(Policy(cdi_spec_dirs=(NAMED,)), detect.read_facts(Policy(), seen))
        == ()
    )


@pytest.mark.parametrize(("version", "looks_into"), [("5.5.2-1", (NAMED,)), ("5.4.2-1", CDI_DIRS)])
def test_a_podman_that_is_the_hosts_engine_gets_its_spec_where_it_looks(
    version: str, looks_into: tuple[str, ...]
) -> None:
    (found,) = detect.find_instances(
        Policy(),
        detect.read_facts(Policy(), obs(files={OWN: ELSEWHERE}, packages={"podman": version})),
    )
    assert found.cdi.dirs == looks_into


HOOK = "/srv/hooks/oci-nvidia-hook.json"
HOOKED = '[engine]\nhooks_dir = ["/usr/share/containers/oci/hooks.d", "/srv/hooks/"]\n'
# files of the host, whether NVIDIA's hook file is in that directory -> the place of the setting
# that is named ("" = nothing is said)
HOOKS = {
    "the hook is there": ({OWN: HOOKED}, True, f"{OWN}:2"),
    "no hook is there": ({OWN: HOOKED}, False, ""),
    "a later file names the usual ones alone": (
        {OWN: HOOKED, DROP_IN: '[engine]\nhooks_dir = ["/etc/containers/oci/hooks.d"]\n'},
        True,
        "",
    ),
    "a list that adds to another": (
        {OWN: '[engine]\nhooks_dir = ["/srv/hooks", {append=true}]\n'},
        True,
        "",
    ),
    "nothing is configured": ({}, True, ""),
}


@pytest.mark.parametrize(("files", "there", "where"), HOOKS.values(), ids=HOOKS)
def test_a_hook_that_podmans_own_setting_names_is_named(
    files: dict[str, str], there: bool, where: str
) -> None:
    seen = obs(files={**files, **({HOOK: "{}"} if there else {})}, packages={"podman": "5.4.2-1"})
    said = {"podman.hook-beside-cdi": {"path": HOOK, "place": where}}
    assert get_coded(detect.advise_on_reading(Policy(), detect.read_facts(Policy(), seen))) == (
        said if where else {}
    )
    assert (
        detect.advise_on_reading(Policy(cdi="disabled"), detect.read_facts(Policy(), seen)) == ()
    ), "CRI-O beside it may get GPUs by that file"


# files of the host -> the place that is named ("" = nothing is said)
DEFAULTS = {
    "a name that nothing defines": (
        {OWN: '[engine]\n# for the media server\nruntime = "nvidia"\n'},
        f"{OWN}:3",
    ),
    "another file defines it": (
        {
            OWN: '[engine]\nruntime = "nvidia"\n',
            DROP_IN: '[engine.runtimes]\nnvidia = ["/usr/bin/nvidia-container-runtime"]\n',
        },
        "",
    ),
    "a built-in one": ({OWN: '[engine]\nruntime = "crun"\n'}, ""),
    "a path": ({OWN: '[engine]\nruntime = "/usr/bin/nvidia-container-runtime"\n'}, ""),
    "a later file names another": (
        {OWN: '[engine]\nruntime = "nvidia"\n', LATER: '[engine]\nruntime = "runc"\n'},
        "",
    ),
    "a later file is the one": (
        {USUAL: '[engine]\nruntime = "runc"\n', LATER: '[engine]\nruntime = "nvidia"\n'},
        f"{LATER}:2",
    ),
    "an empty name": ({OWN: '[engine]\nruntime = ""\n'}, ""),
    "a file that is no TOML": ({OWN: '[engine]\nruntime = "nvidia"\n', LATER: "[engine\n"}, ""),
    "no file": ({}, ""),
}


@pytest.mark.parametrize(("files", "where"), DEFAULTS.values(), ids=DEFAULTS)
def test_a_default_runtime_that_nothing_defines_is_named(files: dict[str, str], where: str) -> None:
    seen = obs(files=files, packages={"podman": "5.4.2-1"})
    found = detect.advise_on_reading(Policy(), detect.read_facts(Policy(), seen))
    said = {"podman.runtime-undefined": {"name": "nvidia", "place": where}}
    assert get_coded(found) == (said if where else {})


# release of Podman -> the findings in two files for root alone, which no Podman before 6.0 reads
OF_RELEASES = {
    "5.8.3-1": [],
    "6.0.0-1": ["podman.hook-beside-cdi", "podman.runtime-undefined"],
}


@pytest.mark.parametrize(("version", "codes"), OF_RELEASES.items(), ids=OF_RELEASES)
def test_all_that_is_said_of_the_files_goes_by_the_release(version: str, codes: list[str]) -> None:
    files = {ROOTS: HOOKED, VENDORS_FOR_ROOT: '[engine]\nruntime = "nvidia"\n', HOOK: "{}"}
    seen = obs(files=files, packages={"podman": version})
    assert get_codes(detect.advise_on_reading(Policy(), detect.read_facts(Policy(), seen))) == codes
