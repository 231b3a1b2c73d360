# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Places where a host may have a secret that is not asked for.

Each place is a function that puts a secret there, as its owner would write it.

What is listed is not such a place: the names of handlers, say, and paths of programs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tests.unit.running_hosts import V2, Spec

Draw = Callable[[Sequence[Any]], Any]  # one of these
Place = Callable[[Spec, str, Draw], None]

HEADER = re.compile(r"\s*\[.*\]\s*")
HANDLERS = "runtimes]"  # what stands in this table is a handler, whose name is listed


def quoted(secret: str, draw: Draw) -> str:
    """Return a string as TOML and JSON write it, with escapes or without them."""
    return json.dumps(secret, ensure_ascii=draw((False, True)))


def spelled(secret: str, draw: Draw) -> str:
    """Return a value of TOML that holds the secret."""
    basic = quoted(secret, draw)
    ways = [
        basic, f'"""{basic[1:-1]}"""', f'"""\n\\\n  {basic[1:-1]}\n"""', f'["A=b", {basic}]', f'[\n  {basic}, # {secret}\n]',
        f"{{ a = {basic}, b = {{ c = [{basic}] }} }}", f"[[{basic}], []]", f"{{ {basic} = 1 }}", f"{basic} # {secret}",
        f'"https://user:{basic[1:-1]}@registry.example"', f'"a\\"{basic[1:-1]}"',
    ]  # fmt: skip
    if "'" not in secret:
        ways += [f"'{secret}'", f"'''\n{secret}'''"]
    if secret.isdigit():
        ways += [secret, f"[{secret}]", f"-{secret}"]
    return str(draw(ways))


def put(text: str, at: int, line: str) -> str:
    lines = text.split("\n")
    return "\n".join([*lines[:at], line, *lines[at:]])


# --- TOML
# --------------------------------------------------------------------------------------------------


def statements(text: str) -> list[int]:
    """Return line numbers at which a key may be written into a table that has no list of names.

    These are behind each header, and at the top.
    """
    lines = text.split("\n")
    behind = [
        number + 1
        for number, line in enumerate(lines)
        if HEADER.fullmatch(line) and not line.strip().endswith(HANDLERS)
    ]
    top = [
        number
        for number, line in enumerate(lines)
        if line.startswith(("version", "disable", "server"))
    ]
    return [*top, *behind]


def toml_value(path: str) -> Place:
    def place(spec: Spec, secret: str, draw: Draw) -> None:
        at = draw(statements(spec.files[path]))
        spec.files[path] = put(spec.files[path], at, f"a_key_of_theirs = {spelled(secret, draw)}")

    return place


def toml_name(path: str) -> Place:
    def place(spec: Spec, secret: str, draw: Draw) -> None:
        at = draw(statements(spec.files[path]))
        name = quoted(secret, draw)
        line = draw([f"{name} = 1", f"theirs.{name}.x = 'y'", f"{name} = {spelled(secret, draw)}"])
        spec.files[path] = put(spec.files[path], at, line)

    return place


def toml_comment(path: str) -> Place:
    def place(spec: Spec, secret: str, draw: Draw) -> None:
        lines = spec.files[path].split("\n")
        at = draw(range(len(lines)))
        if draw((False, True)) and lines[at] and not lines[at].startswith("#"):
            lines[at] += f"  # {secret}"
        else:
            lines.insert(at, f"{draw(['#', '  # key = ', '#[', '##'])}{secret}")
        spec.files[path] = "\n".join(lines)

    return place


def toml_table(path: str) -> Place:
    def place(spec: Spec, secret: str, draw: Draw) -> None:
        name = quoted(secret, draw)
        # A drop-in of 1.7 with a table of CRI's takes the place of all that the main file has of
        # CRI.
        first = (
            'plugins."io.containerd.grpc.v1.cri".registry.configs'
            if f"[{V2}]" in spec.files[path]
            else "theirs"
        )
        headers = [
            f"[theirs.{name}]",
            f"[[{name}]]",
            f"[{first}.{name}.auth]",
            f"[[theirs.{name}]]\n[[theirs.{name}]]",
        ]
        header = draw(headers)
        spec.files[path] += f"{header}\npassword = {spelled(secret, draw)}\n"

    return place


def odd(path: str) -> Place:
    """Return a place: a listed value of the handler that ours is copied from, in a form that such
    values do not have.
    """

    def place(spec: Spec, secret: str, draw: Draw) -> None:
        variable, annotation = quoted(f"KEY={secret}", draw), quoted(f"{secret} x", draw)
        made = [
            f'monitor_env = ["PATH=/usr/bin", {variable}]',
            f"default_annotations = {{ a = {annotation} }}",
        ]
        text = "\n".join(
            line for line in spec.files[path].split("\n") if not line.startswith("monitor_env")
        )
        header = "[crio.runtime.runtimes.crun]\n"
        spec.files[path] = text.replace(header, header + draw(made) + "\n")

    return place


def inline(path: str) -> Place:
    """Return a place: a pair in an inline table that leads to a listed value."""

    def place(spec: Spec, secret: str, draw: Draw) -> None:
        text = spec.files[path]
        at = draw([found.end() for found in re.finditer(r"= \{ ", text)])
        name = draw(["a_key_of_theirs", quoted(secret, draw)])
        spec.files[path] = f"{text[:at]}{name} = {quoted(secret, draw)}, {text[at:]}"

    return place


# --- CDI specs
# --------------------------------------------------------------------------------------------------


def spec_of_another(path: str) -> Place:
    """Return a place in a CDI spec.

    It is a value of a variable, of an annotation or of a hook's argument, an unknown field, or a
    comment.
    """

    def place(spec: Spec, secret: str, draw: Draw) -> None:
        text, words = spec.files[path], [('"A=b"', f"A={secret}"), ('"plain"', secret)]
        if path.endswith(".yaml"):
            words += [('"setup"', f"--token={secret}"), ('"setup"', secret), ("", "")]
        old, new = draw(words)
        if old:
            spec.files[path] = text.replace(old, quoted(new, draw))
            return
        unknown = f"theirs: {quoted(secret, draw)}\n"
        remarks = [
            text.replace("# made by hand", f"# {secret}"),
            f"{text}# {secret}\n",
            text.replace(":\n", f": # {secret}\n"),
        ]
        spec.files[path] = draw([*remarks, text + unknown])

    return place


# --- JSON
# --------------------------------------------------------------------------------------------------

NAMED = ("runtimes", "features")  # whose keys are listed


def containers(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of objects and arrays of a document in which no list names what stands there."""
    if path[-1:] != ("cdi-spec-dirs",) and (not path or path[-1] not in NAMED):
        yield path
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        if isinstance(value, (dict, list)):
            yield from containers(value, (*path, key))


def planted(data: Any, secret: str, draw: Draw, *, without: tuple[str, ...] = ()) -> None:
    """Put the secret somewhere into a document."""
    path = draw([p for p in containers(data) if not set(p) & set(without)])
    at = data
    for key in path:
        at = at[key]
    values = [
        secret,
        [secret],
        {"a": secret},
        {secret: {"b": [secret]}},
        f"https://user:{secret}@host",
        f"--key={secret}",
    ]
    value = draw(values)
    if isinstance(at, list):
        at.append(value)
    else:
        at[draw(["theirs", secret, f"a {secret}"])] = value


def json_file(path: str) -> Place:
    def place(spec: Spec, secret: str, draw: Draw) -> None:
        data = json.loads(spec.files[path])
        planted(data, secret, draw)
        layout: Mapping[str, Any] = draw(
            [{"indent": 2}, {"indent": "\t"}, {"separators": (",", ":")}, {}]
        )
        spec.files[path] = json.dumps(data, ensure_ascii=draw((False, True)), **layout) + "\n"

    return place


# --- lines
# --------------------------------------------------------------------------------------------------


def line(path: str, *forms: str) -> Place:
    """Return a place: a line of a file. In a form, $ is the secret."""

    def place(spec: Spec, secret: str, draw: Draw) -> None:
        text = spec.files[path]
        at = draw(range(text.count("\n") + 1))
        spec.files[path] = put(text, at, draw(forms).replace("$", secret))

    return place


def kubelet_flags(spec: Spec, secret: str, draw: Draw) -> None:
    form = draw([" --token $", " --token=$", " --node-labels=a=$", " --$"])
    path = "/var/lib/kubelet/kubeadm-flags.env"
    spec.files[path] = spec.files[path].replace('"\n', form.replace("$", secret) + '"\n')


# --- processes, sockets, logs
# ---------------------------------------------------------------------------------------------


def arguments(spec: Spec, secret: str, draw: Draw) -> None:
    proxies = [["--http-proxy=http://u:$@h"], ["--http-proxy", "http://u:$@h"]]
    forms = [*proxies, ["--label", "token=$"], ["--$"], ["--$=x"], ["-x$"], ["--key=$"]]
    words = spec.kubelet if spec.kubelet and draw((False, True)) else spec.argv
    at = draw([0, len(words)])
    words[at:at] = [word.replace("$", secret) for word in draw(forms)]


def environment(spec: Spec, secret: str, draw: Draw) -> None:
    name = draw(["HTTPS_PROXY", "TOKEN", "path", secret])
    spec.environ[name] = draw([secret, f"http://user:{secret}@proxy:3128", f"A={secret}"])


def answer(spec: Spec, secret: str, draw: Draw) -> None:
    planted(
        spec.said,
        secret,
        draw,
        without=("HooksDir", "CDISpecDirs", "cdiSpecDirs", "Runtimes", "runtimes"),
    )


def label(spec: Spec, secret: str, draw: Draw) -> None:
    spec.label = draw([secret, f"token={secret}"])


SAID = (
    'level=fatal msg="$"', "$", "Bearer $", "panic: $", 'error: invalid value "$"', "Error: unknown flag: --$", "level=error $", "a:$:1: $",
)  # fmt: skip


def log(spec: Spec, secret: str, draw: Draw) -> None:
    spec.log = draw(SAID).replace("$", secret)
    spec.fails = draw(["", "restart"])


def words(spec: Spec, secret: str, draw: Draw) -> None:
    spec.words = draw(SAID).replace("$", secret)
    spec.fails = draw(["", "validator"])


def places(spec: Spec) -> dict[str, Place]:
    """Return all places of a host, by what a person calls them."""
    found: dict[str, Place] = {
        "argument": arguments, "environment": environment, "engine's answer": answer, "container label": label, "log": log,
        "validator's words": words,
        "kubelet config": line("/var/lib/kubelet/config.yaml", "theirs: $", "# $", "  theirs: [$]", "$: 1", "containerRuntimeEndpointX: $"),
        "kubelet flags": kubelet_flags,
        "refresh env": line("/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env", "TOKEN=$", "# $", "HTTPS_PROXY=http://u:$@h", "$=1"),
        "unit of another": line("/etc/systemd/system/nvidia-cdi-refresh.service", "Environment=A=$", "# $", "[X-$]"),
        "repository of another": line("/etc/apt/sources.list.d/gpufleet-nvidia.sources", "# $", "URIs: https://u:$@mirror.example"),
    }  # fmt: skip
    for path in spec.files:
        if path.endswith((".toml", ".conf")):
            name = path.rpartition("/")[2]
            made = {
                "value": toml_value,
                "name": toml_name,
                "comment": toml_comment,
                "table": toml_table,
            }
            found.update({f"{kind} in {name}": make(path) for kind, make in made.items()})
        if "monitor_env" in spec.files[path]:
            found[f"odd value in {path.rpartition('/')[2]}"] = odd(path)
        if "= { " in spec.files[path]:
            found[f"pair in {path.rpartition('/')[2]}"] = inline(path)
        if "/cdi/" in path:
            found[f"odd value in CDI spec {path.rpartition('/')[2]}"] = spec_of_another(path)
        elif path.endswith(".json"):
            found[f"member of {path.rpartition('/')[2]}"] = json_file(path)
    return found
