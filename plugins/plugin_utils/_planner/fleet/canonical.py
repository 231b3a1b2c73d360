# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe a host's hardware by positions, so that equal hosts get equal plans.

An approval binds files that are made from hardware, and these files name GPUs. So the planner runs
a second time. In its answers, the position of a GPU or driver replaces each identity of this host.
Identities are a GPU's UUID, its PCI address, a MIG device's UUID, and a major that the kernel
handed out. The identities are the typed values that the planner itself reads. They are replaced in
the planner's input and never in its output. A text that only looks like an identity stays as it is.
"""

from __future__ import annotations

import contextlib
import dataclasses as dc
import functools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    PlanError,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import Policy
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.whole import read_whole
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.devices import (
    names,
    nvidia_smi,
    nvml,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.spec.model import (
    Device,
    Edits,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.driver import (
    driver_state,
    gpus,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.resources import (
    device_nodes,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.sharing import (
    modes,
    wanted,
)

# Only this form counts: if a host calls its GPU `runc`, or its address `4`, no word of its plan is
# replaced.
UUID = re.compile(r"(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
# The pattern is for identities of any host. One made of a host's own names takes a step for each
# name at each character, and a host may report thousands.
IDENTITY = re.compile(
    rf"{UUID.pattern}|[0-9a-f]{{1,8}}:[0-9a-f]{{2}}:[0-9a-f]{{2}}\.[0-9a-f]", re.IGNORECASE
)
# majors that the kernel hands out (Documentation/admin-guide/devices.txt)
DYNAMIC = (
    *range(234, 255),
    *range(384, 512),
)
# no driver has it, and it has as many digits as those above, so spans of answers stay right
FIRST_MAJOR = 600
OF_DRIVER = re.compile(r"nvidia[\w-]*")
# of a device node in a CDI spec, YAML or JSON
MAJOR = re.compile(r'(?m)^([ \t]*(?:-[ \t]*)?"?major"?: )(\d{3})\b')
DEVICES = re.compile(r"(?m)^(devices:\n)((?:[ -].*\n)*)")  # of a CDI spec in YAML
DEVICE = re.compile(r"(?m)^ *- name: ")
SOUGHT = 64  # identities that are looked for one by one: eight GPUs with seven MIG devices each
SPEC_MARK = "cdiVersion"
NODE_NUMBER = re.compile(r'"rdev": \[(\d+)')  # the major of a device node, in an answer as JSON
# The parts of a file that may travel (queries.note_lists). These are most of an answer's values,
# and they are the question's own: they name no hardware of a host.
LISTED = "keep"
LINKS, LINK = queries.ask_for_directory(device_nodes.LINKS)["id"], re.compile(r"(\d{3}):(\d+)")


@dc.dataclass(frozen=True)
class Identities:
    """The names of one host's hardware.

    names: identity -> position, which has the form and the length of an identity. majors: major ->
    canonical major.
    """

    names: Mapping[str, str] = dc.field(default_factory=dict)
    majors: Mapping[int, int] = dc.field(default_factory=dict)

    def replace_in_text(self, text: str) -> str:
        """Replace the identities in a text of this host, in one pass for any number of them."""
        return IDENTITY.sub(self._replace_identity, text) if self.names else text

    def may_be_in(self, text: str) -> bool:
        """Tell whether a text may have identities of this host. It is not read for many of them."""
        folded = text.lower()
        return len(self.names) > SOUGHT or any(name in folded for name in self._folded)

    def _replace_identity(self, found: re.Match[str]) -> str:
        """Return the replacement for an identity.

        The domain of a PCI address may have more zeros than that of the name.
        """
        word = found[0].lower()
        at = next(
            (
                at
                for at in range(len(word.partition(":")[0]) if ":" in word else 1)
                if word[at:] in self._folded
            ),
            None,
        )
        return found[0] if at is None else found[0][:at] + self._folded[word[at:]]

    @functools.cached_property
    def _folded(self) -> Mapping[str, str]:
        """Map the names in lower case to their positions. Programs write PCI addresses in either
        case.
        """
        return {name.lower(): position for name, position in self.names.items()}

    def get_position(self, name: str) -> str:
        """Return the position of the hardware with a name of this host. Return any other name as it
        is.
        """
        return self._folded.get(name.lower(), name)

    def make_readable(self) -> Identities:
        """Return the positions with the words that people read for them: <GPU 0>, <GPU 0, MIG 1>."""
        return Identities({position: name_position(position) for position in self.names.values()})

    def replace_in_value(self, value: Any) -> Any:
        """Replace the identities in all texts of a plain value, keys included."""
        if isinstance(value, str):
            return self.replace_in_text(value)
        if isinstance(value, Mapping):
            return {
                self.replace_in_text(key) if isinstance(key, str) else key: (
                    of if key == LISTED else self.replace_in_value(of)
                )
                for key, of in value.items()
            }
        return (
            [self.replace_in_value(of) for of in value]
            if isinstance(value, list | tuple)
            else value
        )


NONE = Identities()
POSITION = re.compile(
    r"f*fffe:(?P<bus>[0-9a-f]{2}):00\.0|GPU-[0-]+-(?P<gpu>[0-9a-f]{12})|MIG-[0-]+-(?P<of>[0-9a-f]{4})-(?P<mig>[0-9a-f]{12})"
)


def name_position(position: str) -> str:
    """Return the words for a position, as <GPU 0>. Return any other text as it is."""
    match = POSITION.fullmatch(position)
    if not match:
        return position
    number = int(match["bus"] or match["gpu"] or match["of"], 16)
    return f"<GPU {number}, MIG {int(match['mig'], 16)}>" if match["mig"] else f"<GPU {number}>"


def collect_identities(policy: Policy, obs: Observation) -> Identities:
    """Collect what the planner has read of this host's GPUs and majors.

    Return NONE if it has not asked for them, or cannot read the answers.
    """
    if not all(obs.was_asked(question) for question in gpus.list_questions(policy)):
        return NONE
    try:
        known = map_gpu_identities(policy, obs)
        majors = gpus.map_device_majors(policy, obs)
    except (PlanError, NeedMore):
        return NONE
    identities: dict[str, str] = {}
    for at, bus in enumerate(
        sorted(filter(gpus.BUS_ID.fullmatch, known), key=gpus.get_bus_position)
    ):
        identities[bus] = f"fffe:{at:02x}:00.0".rjust(len(bus), "f")
        whole, *parts = known[bus]
        identities.update(
            {whole: f"GPU-00000000-0000-0000-0000-{at:012x}"} if UUID.fullmatch(whole) else {}
        )
        migs = (uuid for uuid in parts if UUID.fullmatch(uuid))
        identities.update(
            {uuid: f"MIG-00000000-0000-0000-{at:04x}-{n:012x}" for n, uuid in enumerate(migs)}
        )
    dynamic = sorted(
        name for name, major in majors.items() if OF_DRIVER.fullmatch(name) and major in DYNAMIC
    )
    numbers = {majors[name]: FIRST_MAJOR + at for at, name in enumerate(dynamic)}
    return Identities(identities, numbers)


def map_gpu_identities(policy: Policy, obs: Observation) -> dict[str, list[str]]:
    """Map the PCI address of each GPU to its UUID and those of its MIG devices, in the order in
    which NVML counts them.
    """
    identities: dict[str, list[str]] = {
        bus: [""] for bus in gpus.list_pci_gpus(obs, gpus.get_gpu_paths(policy))
    }
    for bus, uuid, migs in (*list_driver_rows(policy, obs), *list_reported_gpus(policy, obs)):
        row = identities.setdefault(bus, [""])
        row[0] = row[0] or uuid
        row[1:] = migs or row[1:]
    return identities


Row = tuple[str, str, list[str]]


def list_driver_rows(policy: Policy, obs: Observation) -> list[Row]:
    """Return the address and the UUID of each GPU that the driver reports."""
    return [(gpu.bus_id, gpu.uuid, []) for gpu in driver_state.read_driver(policy, obs).gpus]


def list_reported_gpus(policy: Policy, obs: Observation) -> Iterator[Row]:
    """Yield the GPUs in the answers of NVML and nvidia-smi, as far as they were asked."""
    for qid, answer in obs.answers.items():
        if qid.startswith("probe:nvml"):
            for gpu in map(nvml.read_nvml_gpu, (answer.get("value") or {}).get("gpus") or ()):
                yield gpu.bus_id, gpu.uuid, [mig.uuid for mig in gpu.devices]
    with contextlib.suppress(PlanError, NeedMore):
        for gpu in nvidia_smi.read_nvidia_smi_facts(policy, obs).gpus or ():
            yield gpu.bus_id, gpu.uuid, [mig.uuid for mig in gpu.devices]
    with contextlib.suppress(PlanError, NeedMore):
        for one in modes.read_mode_facts(obs).gpus.value:
            yield one.bus, one.uuid, []


def canonicalise_policy(policy: Policy, known: Identities) -> Policy:
    """Return the policy with this host's GPUs named by position.

    All else in it is what the user wants, and stays literal.
    """
    if not policy.sharing:
        return policy
    return dc.replace(
        policy,
        sharing={
            canonicalise_sharing_key(str(key), known): value
            for key, value in policy.sharing.items()
        },
    )


def canonicalise_sharing_key(key: str, known: Identities) -> str:
    """Return a key of the sharing policy by position. The key may be a UUID or a PCI address
    without its domain.
    """
    named = wanted.format_bus_id(key) if wanted.BUS.fullmatch(key.lower()) else key
    position = known.get_position(named)
    return key if position == named else position


def canonicalise_observation(policy: Policy, obs: Observation, known: Identities) -> Observation:
    """Return the observation with hardware named by positions."""
    return Observation(
        obs.host, Answers(obs.answers, known, f"file:{gpus.get_gpu_paths(policy).devices}")
    )


class Answers(Mapping[str, Mapping[str, Any]]):
    """The answers of a host with positions in place of its identities.

    Each one is made when it is first read, and kept: a plan reads some of a look's answers twice.
    """

    def __init__(
        self, answers: Mapping[str, Mapping[str, Any]], known: Identities, devices: str
    ) -> None:
        self._answers, self._known, self._devices = answers, known, devices
        self._back = Identities({position: name for name, position in known.names.items()})
        self._made: dict[str, Mapping[str, Any]] = {}

    def __getitem__(self, qid: str) -> Mapping[str, Any]:
        if qid not in self._made:
            self._made[qid] = self._canonicalise_answer(qid, self._answers[self._get_sent_id(qid)])
        return self._made[qid]

    def __contains__(self, qid: object) -> bool:
        return self._get_sent_id(str(qid)) in self._answers

    def __iter__(self) -> Iterator[str]:
        return (self._known.replace_in_text(qid) for qid in self._answers)

    def __len__(self) -> int:
        return len(self._answers)

    def _get_sent_id(self, qid: str) -> str:
        """Return the query id as it was sent to the host."""
        return qid if qid in self._answers else self._back.replace_in_text(qid)

    def _canonicalise_answer(self, qid: str, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        if qid not in (self._devices, LINKS) and not may_name_hardware(answer, self._known):
            return answer
        made: Mapping[str, Any] = replace_majors(self._known.replace_in_value(answer), self._known)
        if qid == self._devices:
            return {
                **made,
                "content": rewrite_device_table(str(made.get("content") or ""), self._known),
            }
        if qid == LINKS:
            return {
                **made,
                "entries": [
                    {**entry, "name": rewrite_link_name(str(entry.get("name")), self._known)}
                    for entry in made.get("entries") or ()
                ],
            }
        return made


def may_name_hardware(answer: Mapping[str, Any], known: Identities) -> bool:
    """Tell whether an answer may have an identity, a major of this host or a CDI spec in it.

    Most answers have none, and one search in their text is quicker than one in each value.
    """
    text = json.dumps(drop_lists(answer))
    return (
        known.may_be_in(text)
        or SPEC_MARK in text
        or any(int(major) in known.majors for major in NODE_NUMBER.findall(text))
    )


def drop_lists(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer without the lists of what of its files may travel."""
    return {
        key: [drop_lists(each) if isinstance(each, Mapping) else each for each in value]
        if isinstance(value, list)
        else value
        for key, value in answer.items()
        if key != LISTED
    }


def replace_majors(value: Any, known: Identities) -> Any:
    """Replace the majors of device nodes, wherever an answer or a CDI spec in it has them."""
    if isinstance(value, Mapping):
        replaced = {
            key: of if key == LISTED else replace_majors(of, known) for key, of in value.items()
        }
        if isinstance(replaced.get("rdev"), list) and replaced["rdev"]:
            replaced["rdev"] = [
                known.majors.get(replaced["rdev"][0], replaced["rdev"][0]),
                *replaced["rdev"][1:],
            ]
        if isinstance(replaced.get("content"), str) and SPEC_MARK in replaced["content"]:
            spec = MAJOR.sub(
                lambda at: f"{at[1]}{known.majors.get(int(at[2]), int(at[2]))}", replaced["content"]
            )
            replaced["content"] = DEVICES.sub(lambda at: f"{at[1]}{sort_spec_devices(at[2])}", spec)
        return replaced
    return [replace_majors(of, known) for of in value] if isinstance(value, list) else value


def sort_spec_devices(devices: str) -> str:
    """Sort the devices of a CDI spec by their names. By UUIDs each host would have an order of its
    own.
    """
    first, *rows = DEVICE.split(devices)
    named = [Device(row.partition("\n")[0].strip("\"'"), Edits()) for row in rows]
    order = sorted(range(len(rows)), key=lambda at: names.sort_device_names(named[at]))
    mark = "".join(DEVICE.findall(devices)[:1])
    return first + "".join(mark + rows[at] for at in order)


def rewrite_device_table(text: str, known: Identities) -> str:
    """Rewrite the lines of /proc/devices that name one of the driver's majors."""
    characters, heading, blocks = text.partition("Block devices:")
    lines = []
    for line in characters.splitlines(keepends=True):
        words = line.split()
        major = read_whole(words[0]) if len(words) == 2 and OF_DRIVER.fullmatch(words[1]) else None
        lines.append(
            line.replace(words[0], str(known.majors[major]), 1)
            if major is not None and major in known.majors
            else line
        )
    return "".join(lines) + heading + blocks


def canonicalise_path(path: str, known: Identities) -> str:
    """Return a path of this host as one of the canonical host."""
    folder, _slash, name = path.rpartition("/")
    return (
        f"{folder}/{rewrite_link_name(name, known)}"
        if folder == device_nodes.LINKS
        else known.replace_in_text(path)
    )


def rewrite_link_name(name: str, known: Identities) -> str:
    """Rewrite the name of a link in /dev/char, which is a device's number."""
    match = LINK.fullmatch(name)
    return f"{known.majors.get(int(match[1]), int(match[1]))}:{match[2]}" if match else name
