# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Play a Containerfile as far as ansible-builder writes one: stages on a Debian root, each with an
overlay of its own, without a container engine and without a network.

Each command has mounts of its own, which end with it.
"""

from __future__ import annotations

import dataclasses as dc
import re
import shlex
import string
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

# $1: the place of a stage, $2: what is below it, $3: a directory of wheels; then the command
INSIDE = """
set -eu
place=$1 lower=$2 wheels=$3; shift 3
mount -t overlay -o "lowerdir=$lower,upperdir=$place/upper,workdir=$place/work" image "$place/root"
mkdir -p "$place/root/wheels"
mount --bind "$wheels" "$place/root/wheels"
mount -t proc proc "$place/root/proc"
mount --bind /dev "$place/root/dev"
mount -t tmpfs -o mode=1777 shm "$place/root/dev/shm"
exec chroot "$@"
"""
# $1, $2: as above; $3: what is copied, $4: its target
COPY = """
set -eu
place=$1 lower=$2
mount -t overlay -o "lowerdir=$lower,upperdir=$place/upper,workdir=$place/work" image "$place/root"
target=$place/root$4
if [ -d "$3" ]; then mkdir -p "$target"; cp -a "$3/." "$target"
else mkdir -p "$(dirname "$target")"; cp -a "$3" "$target"; fi
"""
# The same from another stage: $3 its place, $4 what is below it, $5 the source, $6 the target
COPY_FROM = """
set -eu
mount -t overlay -o "lowerdir=$4,upperdir=$3/upper,workdir=$3/work" image "$3/root"
place=$1 lower=$2
mount -t overlay -o "lowerdir=$lower,upperdir=$place/upper,workdir=$place/work" image "$place/root"
mkdir -p "$place/root$6"
cp -a "$3/root$5/." "$place/root$6"
"""
# What only tells an engine how to start the image, or whom to name.
TOLD = ("LABEL", "ENTRYPOINT", "CMD", "USER")


@dc.dataclass
class Stage:
    """A stage. place: the directory of its overlay. lower: what is below it, uppermost first.
    environment: the variables of its commands. folder: where they run. told: the instructions in
    TOLD, by their word.
    """

    place: Path
    lower: str
    environment: dict[str, str]
    folder: str = "/"
    told: dict[str, str] = dc.field(default_factory=dict)

    @property
    def lower_of_next(self) -> str:
        return f"{self.place / 'upper'}:{self.lower}"


@dc.dataclass(frozen=True)
class Player:
    """What a build takes. place: an empty directory for all stages. context: the directory of the
    build. lower: the root that stands for the base image. wheels: a directory of wheels. settings:
    variables of each command.
    """

    place: Path
    context: Path
    lower: str
    wheels: Path
    settings: Mapping[str, str]
    stages: dict[str, Stage] = dc.field(default_factory=dict)

    def play(self, text: str, arguments: Mapping[str, str]) -> None:
        """Play all instructions. Raise subprocess.CalledProcessError, with the words of the command,
        if one fails.

        arguments: values for ARG, as --build-arg gives them.
        """
        outer: dict[str, str] = {}
        stage: Stage | None = None
        for word, rest in read_instructions(text):
            if word == "FROM":
                stage = self._begin(rest, outer)
            elif stage is None:
                outer.update(read_argument(rest, outer, arguments))
            else:
                self._do(stage, word, rest, outer)

    def _begin(self, rest: str, outer: Mapping[str, str]) -> Stage:
        base, _as, name = expand(rest, outer).split()
        below = self.stages.get(base)
        place = self.place / name
        for folder in ("upper", "work", "root"):
            (place / folder).mkdir(parents=True)
        lower = below.lower_of_next if below else self.lower
        stage = Stage(place, lower, dict(below.environment) if below else dict(self.settings))
        self.stages[name] = stage
        return stage

    def _do(self, stage: Stage, word: str, rest: str, outer: Mapping[str, str]) -> None:
        if word == "ARG":
            stage.environment.update(read_argument(rest, stage.environment, outer))
        elif word == "ENV":
            name, _equals, value = rest.partition("=")
            stage.environment[name] = expand(value.strip('"'), stage.environment)
        elif word == "WORKDIR":
            stage.folder = rest
        elif word == "COPY":
            self._copy(stage, rest)
        elif word == "RUN":
            self.run(stage, ["/bin/sh", "-c", rest])
        elif word in TOLD:
            stage.told[word] = rest
        else:
            raise AssertionError(f"{word} is not played: {rest}")

    def _copy(self, stage: Stage, rest: str) -> None:
        *options, source, target = rest.split()
        target = target if target.startswith("/") else f"{stage.folder}/{target}"
        if options:
            other = self.stages[options[0].removeprefix("--from=")]
            enter(COPY_FROM, stage.place, stage.lower, other.place, other.lower, source, target)
        else:
            enter(COPY, stage.place, stage.lower, self.context / source, target)

    def run(self, stage: Stage, command: Sequence[str], *options: str) -> str:
        """Run a command in a stage and return what it prints.

        options: of chroot.
        """
        words = [f"{name}={value}" for name, value in stage.environment.items()]
        inside = (
            f'mkdir -p {shlex.quote(stage.folder)} && cd {shlex.quote(stage.folder)} && exec "$@"'
        )
        shell = ["/usr/bin/env", "-i", *words, "/bin/sh", "-c", inside, "sh", *command]
        root = str(stage.place / "root")
        return enter(INSIDE, stage.place, stage.lower, self.wheels, *options, root, *shell)


def enter(script: str, *words: str | Path) -> str:
    """Run a script in namespaces of its own, without a network, and return what it prints."""
    command = ["unshare", "--mount", "--net", "sh", "-c", script, "sh", *map(str, words)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert not done.returncode, f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}"
    return done.stdout


def read_instructions(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a Containerfile: their words, and the rest of their lines."""
    lines = re.sub(r"\\\n", " ", text).splitlines()
    told = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2].strip()) for line in told]


def read_argument(rest: str, known: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the variable of an ARG by its name: as given, or its default; {} if it has neither."""
    name, equals, default = rest.partition("=")
    if name in given:
        return {name: given[name]}
    return {name: expand(default.strip('"'), known)} if equals else {}


def expand(text: str, variables: Mapping[str, str]) -> str:
    return string.Template(text).safe_substitute(variables)
