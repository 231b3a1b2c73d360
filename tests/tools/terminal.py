# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a command and draw what it printed as a picture of a terminal, in SVG.

    terminal.py docs/plan.svg --prompt 'ansible-playbook ...' --show '^HOST ' '^$' --show '^  /etc/' '^  restart' -- COMMAND...

Every line is the command's own. --show keeps the lines from the first that matches FROM to the one
before the line that matches TO; three dots stand for what lies between. --prompt is what a reader
would type, if the command itself has more, such as a lab around it. README's picture is of three
hosts of the lab. Its k3s is imitated:

    COLUMNS=108 terminal.py docs/plan.svg --prompt 'ansible-playbook -i inventory gpufleet.nvidia.plan' \\
        --show '^HOST ' '^  /' --show '^  /etc/containerd/config.toml' container_annotations --show default_runtime_name '^  /' \\
        --show '^  restart' '^  /' --show '^  /var/lib/rancher' container_annotations --show '^  restart' '^$' \\
        -- python -m tests.lab run -- ansible-playbook -i inventory gpufleet.nvidia.plan
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

ADVANCE, LINE, MARGIN, BAR, SIZE = 8.4, 19, 16, 30, 14
GROUND, BAR_GROUND, TEXT, FAINT, PROMPT = "#1e1e24", "#33333c", "#e6e6e6", "#8f8f9d", "#76b900"
LIGHTS = ("#ff5f57", "#febc2e", "#28c840")
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
CUT = "  ..."


def shown(lines: Sequence[str], parts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the wanted parts of an output, with dots between parts that do not follow each other."""
    end = -1
    for first, last in parts:
        start = next(
            (n for n in range(max(end, 0), len(lines)) if re.search(first, lines[n])), None
        )
        if start is None:
            raise SystemExit(f"terminal.py: no line matches {first!r}")
        if end not in (-1, start):
            yield CUT
        end = next(
            (n for n in range(start + 1, len(lines)) if re.search(last, lines[n])), len(lines)
        )
        yield from lines[start:end]


def plain(text: str) -> list[str]:
    """Return the lines without colours, and without blanks at their ends."""
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()]


def row(number: int, line: str, colour: str) -> str:
    """Draw one line; its length is fixed, so columns stay columns in every font."""
    if not line.strip():
        return ""
    indent = len(line) - len(line.lstrip())
    x, y, width = (
        MARGIN + indent * ADVANCE,
        BAR + MARGIN + number * LINE + SIZE,
        len(line.lstrip()) * ADVANCE,
    )
    # plain blanks in a row count as one
    words = escape(line.lstrip(), quote=False).replace(" ", "\u00a0")
    return f'<text x="{x:.1f}" y="{y}" textLength="{width:.1f}" fill="{colour}">{words}</text>\n'


def draw(prompt: str, lines: Sequence[str]) -> str:
    """Draw a terminal with a prompt and what was printed."""
    every = [f"$ {prompt}", "", *lines]
    colours = [PROMPT if n == 0 else FAINT if line == CUT else TEXT for n, line in enumerate(every)]
    width = round(max(map(len, every)) * ADVANCE + 2 * MARGIN)
    height = BAR + 2 * MARGIN + len(every) * LINE
    lights = "".join(
        f'<circle cx="{20 + 20 * n}" cy="{BAR // 2}" r="6" fill="{colour}"/>'
        for n, colour in enumerate(LIGHTS)
    )
    body = "".join(
        row(n, line, colour) for n, (line, colour) in enumerate(zip(every, colours, strict=True))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">\n'
        f"<title>{escape(prompt, quote=False)}</title>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="{GROUND}"/>\n'
        f'<path d="M0 {BAR}V8a8 8 0 0 1 8-8h{width - 16}a8 8 0 0 1 8 8v{BAR - 8}z" fill="{BAR_GROUND}"/>{lights}\n'
        f'<g font-family="{FONTS}" font-size="{SIZE}">\n{body}</g>\n</svg>\n'
    )


def main(arguments: list[str]) -> int:
    """Run, choose, draw."""
    parser = argparse.ArgumentParser(prog="terminal.py")
    parser.add_argument("picture", type=Path)
    parser.add_argument("--prompt", default="")
    parser.add_argument("--show", nargs=2, action="append", metavar=("FROM", "TO"))
    options, command = parser.parse_known_args(arguments)
    command = command[1:] if command[:1] == ["--"] else command
    if not command:
        parser.error("give a command after --")
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        print(done.stdout, end="")
        return done.returncode
    lines = plain(done.stdout)
    chosen = list(shown(lines, options.show)) if options.show else lines
    while chosen and not chosen[-1]:
        chosen.pop()
    options.picture.write_text(draw(options.prompt or " ".join(command), chosen))
    print(f"{options.picture}: {len(chosen)} of {len(lines)} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
