# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of the house about words: a thing is called what its field calls it."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

from tests.unit.plugin_sources import ROOT, find_breaches, list_sources, read_tree

# Metaphors that a reader would have to learn first, each with the word that stands for it now.
DIALECT = {
    r"the hands|its hands|our hands|class hands|hands\.\w+": "the executor",
    r"eyes": "the observer",
    r"wish|wishes|wished": "the desired state",
    r"ledger": "the journal",
    r"truths": "the staleness guard",
    r"census": "a snapshot",
    r"anew": "again",
    r"of ours": "of this collection",
    r"for ever": "forever",
}
PROSE = [
    path
    for room in (
        "plugins",
        "roles",
        "playbooks",
        "docs",
        "tests",
        "molecule",
        "examples",
        ".github",
    )
    for path in (ROOT / room).rglob("*")
    if path.suffix in {".py", ".md", ".yml", ".yaml", ".go", ".j2"}
    # What others wrote or a program printed, what ansible-test leaves behind, and this file, which
    # names the words.
    if not path.is_relative_to(ROOT / "tests/fixtures")
    and not path.is_relative_to(ROOT / "tests/output")
    and path != Path(__file__).resolve()
]


def test_a_thing_is_called_what_its_field_calls_it() -> None:
    """Users meet these words in messages and maintainers in names: as words of their own, and as
    parts of a name.
    """
    dialect = "|".join(DIALECT).replace(" ", "[ _]")
    word = re.compile(rf"(?<![a-z])({dialect})(?![a-z])", re.IGNORECASE)
    paths = [*PROSE, ROOT / "README.md", ROOT / "ARCHITECTURE.md"]
    assert (
        find_breaches(
            paths,
            lambda path: [line for line in path.read_text().splitlines() if word.search(line)],
        )
        == {}
    )


def find_own_names(path: Path) -> list[str]:
    """Give the functions whose docstring quotes their name: a rename has changed a word there."""
    return [
        node.name
        for node in ast.walk(read_tree(path))
        if isinstance(node, ast.FunctionDef) and f"`{node.name}`" in (ast.get_docstring(node) or "")
    ]


def find_late_comments(path: Path) -> list[str]:
    """Give the comments between a value and the bracket that closes it: there, a reader takes them
    for words about the bracket.
    """
    lines = [line.strip() for line in path.read_text().splitlines()]
    return [
        line
        for line, after in zip(lines, lines[1:], strict=False)
        if line.startswith("#") and after[:1] in (")", "]")
    ]


def test_words_about_code_stand_where_they_belong() -> None:
    assert find_breaches(list_sources(), find_own_names) == {}
    assert find_breaches(list_sources(), find_late_comments) == {}


# Words that hide the actor, or what a sentence is about.
HIDDEN = {
    "nobody, somebody": re.compile(r"(?<![(.])\b(nobody|somebody)\b", re.IGNORECASE),
    # "each of which" and "of which 2 %" say what they count
    "of which": re.compile(r"(?<!each )(?<!one )(?<!all )(?<!neither )\bof which\b(?! \d)"),
    "those that": re.compile(r"\bthose that\b"),
    "goes on with": re.compile(r"\b(?:go|goes|going) on with\b"),
    "by now": re.compile(r"\bby now\b"),
    # "there is no X" is plain, and "is no longer" is another word
    "is no X": re.compile(r"(?<![Tt]here )\b(is|are|was|were) no (?!longer|more|other)\w+"),
    "What as a subject": re.compile(r"(?:^|(?<=[.:|] ))What [^?.|]*(?=[.|])", re.MULTILINE),
}
READ_BY_USERS = [
    *(path for path in sorted((ROOT / "docs").glob("*.md")) if path.name != "errors.md"),
    *(ROOT / name for name in ("README.md", "SECURITY.md", "ARCHITECTURE.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "tests/fixtures/messages").glob("*.txt")),
    *list_sources("modules"),
    *list_sources("doc_fragments"),
]


def test_sentences_name_the_actor_and_what_they_are_about() -> None:
    def find_hidden(path: Path) -> list[str]:
        text = path.read_text()
        return [found[0] for word in HIDDEN.values() for found in word.finditer(text)]

    assert find_breaches(READ_BY_USERS, find_hidden) == {}


def list_remarks(path: Path) -> list[str]:
    """Give the docstrings and comments of a file, each on one line."""
    text = path.read_text()
    remarks: list[tuple[int, str]] = []  # of comments: the line of the last one, and all together
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line, words = token.start[0], token.string.lstrip("# ")
            if remarks and remarks[-1][0] == line - 1:
                remarks[-1] = (line, f"{remarks[-1][1]} {words}")
            else:
                remarks.append((line, words))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = [
        ast.get_docstring(node) or ""
        for node in ast.walk(ast.parse(text))
        if isinstance(node, documented)
    ]
    return [
        " ".join(words.split()) for words in (*docstrings, *(words for _line, words in remarks))
    ]


def test_remarks_about_code_name_what_they_are_about() -> None:
    hidden = [
        HIDDEN[word] for word in ("of which", "those that", "goes on with", "by now", "is no X")
    ]

    def find_hidden(path: Path) -> list[str]:
        flat = re.sub(r"\s+(?:# )?", " ", path.read_text())
        return [
            words[0]
            # most files have none of these words, and it takes long to find remarks
            for remark in (list_remarks(path) if any(word.search(flat) for word in hidden) else ())
            for word in hidden
            for words in word.finditer(remark)
        ]

    sources = [path for path in PROSE if path.suffix == ".py"]
    assert find_breaches(sources, find_hidden) == {}


# Names of local values that hide what they hold. MOST_VAGUE is the number of functions and methods
# of plugins that still have one: lower it with the code, and never raise it.
VAGUE = {"found", "seen"}
MOST_VAGUE = 8


def list_vague_functions(path: Path) -> list[str]:
    """Give the functions and methods of a file that store a value under such a name."""
    tops = read_tree(path).body
    methods = [node for top in tops if isinstance(top, ast.ClassDef) for node in top.body]
    return [
        function.name
        for function in (*tops, *methods)
        if isinstance(function, ast.FunctionDef)
        and any(
            isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in VAGUE
            for node in ast.walk(function)
        )
    ]


def test_functions_with_vague_local_names_only_get_fewer() -> None:
    paths = [p for room in ("plugin_utils", "action", "module_utils") for p in list_sources(room)]
    assert sum(len(list_vague_functions(path)) for path in paths) <= MOST_VAGUE
