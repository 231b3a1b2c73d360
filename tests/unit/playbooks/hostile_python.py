# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python of a host that lies: it gives recorded answers in which templates stand in the place
of values, by a seed.

Run as `ansible_python_interpreter`, for both ways to a host. The environment tells what to do:
GPUFLEET_LIES is the directory with `answers.json` and the log, GPUFLEET_LIE the program whose
answer lies ('' for none), GPUFLEET_SEED what a lie is drawn by.
"""

import base64
import json
import os
import random
import re
import sys
import zlib

PLACE = os.environ.get("GPUFLEET_LIES", "")
COMMAND = f"'pipe', 'touch {os.path.join(PLACE, 'rendered')}'"
TEMPLATES = (
    f"{{{{ lookup({COMMAND}) }}}}",
    f"x {{{{ query({COMMAND}) }}}} y",
    f"{{% set x = lookup({COMMAND}) %}}",
    f"{{{{ [lookup({COMMAND})] }}}}",
)
MODULE = {
    "program": re.compile(r"(?<![\w.])program\W+(\w+)"),
    "request": re.compile(r"(?<![\w.])request\W+([A-Za-z0-9+/=]{40,})"),
}


def packed(value):
    """Pack an answer as the programs of the collection do."""
    return base64.b64encode(zlib.compress(json.dumps(value).encode())).decode()


def job_of_stdin(script):
    """Return the program, the request and the marker that came over stdin."""
    head, _newline, rest = script.partition(b"\n")
    sizes = [int(word) for word in head.split()]
    job = json.loads(zlib.decompress(rest[sum(sizes[:2]) :]).decode())
    return job["main"].split(".")[0], job["request"], job["marker"]


def job_of_module(text):
    """Return the program and the request that a module was made for."""
    found = {name: pattern.search(text).group(1) for name, pattern in MODULE.items()}
    return (
        found["program"],
        json.loads(zlib.decompress(base64.b64decode(found["request"])).decode()),
        "",
    )


def told(program, request, known):
    """Return the recorded answer: of an observer for each of its questions, of the executor for its
    one transaction.
    """
    if program != "observe":
        return dict(known["transaction"], id=request.get("id"))
    unknown = {"error": {"kind": "not-found", "message": "nothing was recorded"}}
    answers = {
        str(q.get("id", n)): known["answers"].get(question(q), unknown)
        for n, q in enumerate(request["questions"])
    }
    return {"schema": 1, "host": known["host"], "answers": answers}


def question(asked):
    """Name a question by all of it but its number."""
    return json.dumps({key: value for key, value in asked.items() if key != "id"}, sort_keys=True)


def places(value, way=()):
    """Return the way to each value, however deep."""
    found = [way] if way else []
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, one in inner:
        found += places(one, (*way, key))
    return found


def lie(answer, draw):
    """Put templates into an answer.

    In half of all cases only its texts change, so that its shape stays. Otherwise any of its places
    get values of any shape.
    """
    if draw.random() < 0.5:
        return words(answer, draw)
    for _time in range(draw.choice((1, 1, 2, 5, 20))):
        way = draw.choice(places(answer))
        inner = at(answer, way[:-1])
        was, text = inner[way[-1]], draw.choice(TEMPLATES)
        shapes = (
            text,
            text,
            f"{was}{text}",
            {text: text},
            [text],
            {"__ansible_unsafe": text},
            float("nan"),
            10**400,
        )
        more = (
            {
                "__ansible_type": "_AnsibleTaggedStr",
                "value": text,
                "tags": [{"__ansible_type": "TrustedAsTemplate"}],
            },
            None,
            text,
        )
        inner[way[-1]] = draw.choice(shapes + more)
        if isinstance(inner, dict) and draw.random() < 0.1:
            inner[text] = inner.pop(way[-1])
    return answer


def words(answer, draw):
    """Put templates behind and instead of texts. In a transaction that failed, also put them into
    the reason.
    """
    texts = [way for way in places(answer) if isinstance(at(answer, way), str)]
    for way in draw.sample(texts, min(len(texts), draw.choice((1, 2, 5)))):
        text = draw.choice(TEMPLATES)
        at(answer, way[:-1])[way[-1]] = draw.choice((text, at(answer, way) + text))
    if "rolled_back" in answer:
        answer["error"] = {
            "phase": "health",
            **dict.fromkeys(("where", "message", "next"), draw.choice(TEMPLATES)),
        }
    return answer


def at(value, way):
    """Return the value that a way leads to."""
    for key in way:
        value = value[key]
    return value


def odd(draw):
    """Return output that is not an answer, as a module's failure and as words."""
    text = draw.choice(TEMPLATES)
    failed = {
        "failed": True,
        "msg": text,
        "exception": "Trace: " + text,
        "rc": text,
        "ansible_facts": {"x": text},
    }
    return draw.choice(
        (
            json.dumps(failed),
            json.dumps({"answer": text, "warnings": [text]}),
            text,
            f"Trace: {text}",
            "",
        )
    )


def main():
    """Answer one request."""
    by_module = sys.argv[-1].endswith(".py")
    with open(sys.argv[-1]) if by_module else sys.stdin as stream:
        program, request, marker = (
            job_of_module(stream.read()) if by_module else job_of_stdin(stream.buffer.read())
        )
    with open(os.path.join(PLACE, "answers.json")) as stream:
        known = json.load(stream)[os.environ["GPUFLEET_KIND"]]
    draw, lies = (
        random.Random(os.environ.get("GPUFLEET_SEED", "")),
        program == os.environ.get("GPUFLEET_LIE"),
    )
    with open(os.path.join(PLACE, "log"), "a") as stream:
        stream.write(
            f"{program} {'module' if by_module else 'stdin'} {'lie' if lies else 'truth'}\n"
        )
    if lies and draw.random() < 0.05:
        sys.stdout.write(odd(draw))
        sys.stderr.write(draw.choice(TEMPLATES))
        return draw.choice((0, 1, 127))
    answer = told(program, request, known)
    answer = packed(lie(answer, draw) if lies else answer)
    sys.stdout.write(
        json.dumps({"changed": False, "answer": answer}) if by_module else f"\n{marker}{answer}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
