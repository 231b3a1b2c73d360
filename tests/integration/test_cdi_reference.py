# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our reading of CDI specs against the reference library itself, in seven releases: generated and
broken specs, and what is injected.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.formats import yaml_text
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.engine_view import (
    lookup,
    releases,
    schema,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.cdi.lint import run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import reference
from tests.draws import count_examples
from tests.integration.cdi_texts import damaged, nearly_sound, some, sound, specs, texts
from tests.unit import cdi_inject as inject

pytestmark = pytest.mark.skipif(bool(reference.obstacle()), reason=reference.obstacle() or "-")
many = settings(
    max_examples=count_examples(60),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
)

# Where we and the library may differ, with the reason and the releases. Everything else is our
# fault.
NEW = frozenset({"1.1.1"})
EVERY = frozenset(reference.RELEASES)
BEFORE = EVERY - NEW
DIFFERENCES: tuple[tuple[str, frozenset[str], Callable[[tuple[schema.Problem, ...]], bool]], ...] = (
    (
        "a field in two spellings: Go's JSON reader merges lists and mappings of both into one value; we take the last one, and warn",
        BEFORE,
        lambda problems: any(p.rule == "field-twice" for p in problems),
    ),
    (
        "text without quotes that is a number or a truth value becomes another text; we take what is written, as 1.1.1, and warn",
        BEFORE,
        lambda problems: any(p.rule == "changed-text" for p in problems),
    ),
    ("tags, which no node sends; we do not read them", EVERY, lambda problems: any(p.rule == "not-read" for p in problems)),
    ("aliases without end, which have bounds of their own", EVERY, lambda problems: any("aliases repeat" in p.message for p in problems)),
    (
        "of several devices only the last one's need of a version counts in these, which are built with Go's former loop variables",
        BEFORE,
        lambda problems: any(p.rule == "version-too-low" for p in problems),
    ),
    (
        "an entry that is nothing in a list of texts is left out; we take it for an empty text",
        NEW,
        lambda problems: any(p.rule == "env" and "'' is not" in p.message for p in problems),
    ),
    (
        "a key that is nothing: we read it in no release",
        NEW,
        lambda problems: any("cannot be a key" in p.message for p in problems),
    ),
    (
        "a fraction where a whole number belongs is cut off",
        NEW,
        lambda problems: any(p.rule == "wrong-type" and "must be a whole number" in p.message for p in problems),
    ),
)  # fmt: skip
# A null pointer in every release, and a slice out of bounds in those up to 1.1.0.
CRASHES = {"null-entry", "short-name"}

Files = list[dict[str, bytes]]
Judges = Mapping[str, reference.Judge]


@pytest.fixture(scope="module")
def judges() -> Iterator[Judges]:
    found = {release: reference.Judge(release) for release in reference.RELEASES}
    yield found
    for judge in found.values():
        judge.close()


def loaded(
    files: Files, release: str
) -> tuple[list[lookup.Loaded], dict[str, tuple[schema.Problem, ...]], bool]:
    """The files that we take, the others with their reasons, and whether this is one of the written
    differences.
    """
    taken, refused, differs = [], {}, False
    for priority, folder in enumerate(files):
        for name in sorted(folder, key=os.fsencode):
            document, problems = run.read_text_problems(folder[name], releases.LIBRARIES[release])
            if problems or document is None:
                refused[f"{priority}/{name}"] = problems
            else:
                taken.append(lookup.Loaded(f"{priority}/{name}", priority, document))
            differs = differs or (release in NEW and is_broken_behind(folder[name]))
            every = (*problems, *(document.problems if document else ()))
            differs = differs or any(
                release in of and applies(every) for _reason, of, applies in DIFFERENCES
            )
    return taken, refused, differs


def is_broken_behind(data: bytes) -> bool:
    """Tell whether the text after the document is not YAML: release 1.1.1 reads some of it, as much
    as its scanner needs.
    """
    ended = False
    try:
        for event in yaml.parse(data, Loader=yaml_text.LOADER):
            ended = ended or isinstance(event, yaml.DocumentEndEvent)
    except (yaml.YAMLError, UnicodeError):
        return ended
    return False


def agree(judges: Judges, files: Files) -> None:
    """Every release and we take the same files, resolve the same devices, and see the same
    conflicts.
    """
    for release, judge in judges.items():
        taken, refused, differs = loaded(files, release)
        if differs:
            continue
        told = judge.load(files)
        if told.get("panic"):
            assert {p.rule for problems in refused.values() for p in problems} & CRASHES, (
                release,
                told,
            )
            continue
        lost = {
            path: words
            for path, words in told["errors"].items()
            if any(w.startswith("failed to load") for w in words)
        }
        assert sorted(lost) == sorted(refused), (release, told["errors"], refused)
        resolved = lookup.resolve_spec_devices(taken)
        assert sorted(resolved.devices) == (told["devices"] or []), release
        assert {f.path for files_ in resolved.conflicts.values() for f in files_} == set(
            told["errors"]
        ) - set(lost), release


@given(text=texts(nearly_sound()))
@many
def test_specs_with_one_odd_part(judges: Judges, text: bytes) -> None:
    agree(judges, [{"x.yaml": text}])


@given(text=texts(specs))
@many
def test_odd_specs(judges: Judges, text: bytes) -> None:
    agree(judges, [{"x.json": text}])


@given(text=damaged())
@many
def test_damaged_texts(judges: Judges, text: bytes) -> None:
    agree(judges, [{"x.yaml": text}])


SCALARS = st.text("0123456789+-._eExXoObByYnNtrufalsTRUEFALSinfNUL~:<", min_size=0, max_size=8)


@given(
    scalar=SCALARS,
    tag=st.sampled_from(
        ["", "", "", "!!int ", "!!float ", "!!str ", "!!bool ", "!!null ", "!!timestamp ", "!x "]
    ),
)
@many
def test_what_a_word_without_quotes_is(judges: Judges, scalar: str, tag: str) -> None:
    """As a name, where all is text, and as a number."""
    for place in (
        f"name: {tag}{scalar}\n  containerEdits: {{env: [A=b]}}",
        f"name: a\n  containerEdits:\n    deviceNodes:\n    - path: /a\n      major: {tag}{scalar}",
    ):
        agree(
            judges, [{"x.yaml": f"cdiVersion: 0.5.0\nkind: aa/bb\ndevices:\n- {place}\n".encode()}]
        )


folders = st.dictionaries(
    st.sampled_from(["a.yaml", "b.yaml", "c.json", ".yaml", "d.yml", "e.YAML", "f"]),
    texts(sound),
    max_size=3,
)


@given(files=st.lists(folders, min_size=1, max_size=3))
@many
def test_directories(judges: Judges, files: Files) -> None:
    agree(
        judges,
        [{name: text for name, text in folder.items() if lookup.is_read(name)} for folder in files],
    )
    for release, judge in judges.items():
        told = judge.load(files)
        read = [
            {name: text for name, text in folder.items() if lookup.is_read(name)}
            for folder in files
        ]
        assert (told["devices"], told["errors"]) == (judge.load(read)["devices"], told["errors"]), (
            release
        )


# --- injection
# --------------------------------------------------------------------------------------------------

HOST = "@"  # stands for a directory with nodes in the paths below


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("host")
    os.mkfifo(place / "fifo", 0o640)
    (place / "file").write_text("")
    (place / "link").symlink_to("/dev/null")
    return place


inject_paths = st.sampled_from(
    [
        "/dev/null",
        "/dev/zero",
        "/dev/full",
        f"{HOST}/fifo",
        f"{HOST}/file",
        f"{HOST}/link",
        "/dev/gone",
    ]
)
inject_nodes = st.fixed_dictionaries(
    {"path": inject_paths},
    optional={
        "hostPath": inject_paths,
        "type": st.sampled_from(["c", "b", "p", "u"]),
        "major": st.sampled_from([0, 1, 195]),
        "minor": st.sampled_from([0, 3, 9]),
        "fileMode": st.sampled_from([0, 438]),
        "permissions": st.sampled_from(["r", "rw"]),
        "uid": st.just(7),
        "gid": st.sampled_from([0, 8]),
    },
)
places = st.sampled_from(["/a", "/a/b", "/b", "/a/b/c", "//c", "/a/../d", "/"])
inject_mounts = st.fixed_dictionaries(
    {"hostPath": st.sampled_from(["/x", "/y"]), "containerPath": places},
    optional={
        "options": st.sampled_from([["ro", "bind"], ["rbind"], ["ridmap", "bind"]]),
        "type": st.just("bind"),
    },
)
inject_hooks = st.fixed_dictionaries(
    {"hookName": st.sampled_from(releases.HOOKS), "path": st.just("/h")},
    optional={"args": st.just(["h", "x"]), "env": st.just(["A=b"]), "timeout": st.just(3)},
)
inject_env = st.lists(
    st.sampled_from(["A=1", "A=2", "B=1", "PATH=/x", "NVIDIA_VISIBLE_DEVICES=void"]), max_size=3
)
base_edits = {
    "env": inject_env,
    "deviceNodes": st.lists(inject_nodes, max_size=2),
    "mounts": st.lists(inject_mounts, max_size=3),
    "hooks": st.lists(inject_hooks, max_size=2),
}
newer_edits = {
    **base_edits,
    "additionalGids": st.lists(st.sampled_from([0, 44, 45]), max_size=3),
    "intelRdt": st.sampled_from([{"closID": "a"}, {}]),
    "netDevices": st.lists(
        st.sampled_from([{"hostInterfaceName": "e1", "name": "e0"}]), max_size=1
    ),
}


def injectable(fields: dict[str, Any], version: str) -> st.SearchStrategy[dict[str, Any]]:
    device = some(**fields).map(lambda e: {**e, "env": e.get("env") or ["D=d"]})
    both = st.tuples(device, device).map(
        lambda pair: [{"name": f"gpu{i}", "containerEdits": e} for i, e in enumerate(pair)]
    )
    return st.fixed_dictionaries(
        {"cdiVersion": st.just(version), "kind": st.just("aa/bb"), "devices": both},
        optional={"containerEdits": some(**fields)},
    )


containers = st.fixed_dictionaries(
    {"ociVersion": st.just("1.1.0")},
    optional={
        "process": st.fixed_dictionaries(
            {
                "cwd": st.just("/"),
                "user": st.fixed_dictionaries(
                    {"uid": st.sampled_from([0, 1000]), "gid": st.sampled_from([0, 1000])},
                    optional={"additionalGids": st.just([44])},
                ),
            },
            optional={
                "env": st.lists(
                    st.sampled_from(["PATH=/bin", "A=0", "A", "NVIDIA_VISIBLE_DEVICES=all"]),
                    max_size=3,
                )
            },
        ),
        "mounts": st.lists(
            st.fixed_dictionaries({"destination": places, "source": st.just("/s")}), max_size=3
        ),
        "linux": some(
            namespaces=st.sampled_from([[{"type": "user"}], [{"type": "pid"}]]),
            devices=st.lists(
                st.fixed_dictionaries(
                    {
                        "path": inject_paths,
                        "type": st.just("c"),
                        "major": st.just(9),
                        "minor": st.just(9),
                    }
                ),
                max_size=2,
            ),
        ),
        "hooks": st.just({"prestart": [{"path": "/old"}]}),
    },
)


def bare(value: Any) -> Any:
    """Without what is empty, which Go writes and we do not."""
    if isinstance(value, dict):
        found = {key: bare(item) for key, item in value.items()}
        return {
            key: item
            for key, item in found.items()
            if item not in ("", 0, None, [], {}) or item is False
        }
    return [bare(item) for item in value] if isinstance(value, list) else value


def seen(paths: list[str]) -> dict[str, inject.HostNode]:
    """What lstat says, as the look at a host would."""
    kinds = {stat.S_IFCHR: "c", stat.S_IFBLK: "b", stat.S_IFIFO: "p"}
    found = {}
    for path in paths:
        try:
            told = os.lstat(path)
        except OSError:
            continue
        kind = kinds.get(stat.S_IFMT(told.st_mode), "")
        found[path] = inject.HostNode(
            kind, os.major(told.st_rdev), os.minor(told.st_rdev), stat.S_IMODE(told.st_mode)
        )
    return found


def same_containers(
    judges: Judges, host: Path, spec: dict[str, Any], container: dict[str, Any], asked: list[str]
) -> None:
    spec, container = (
        json.loads(json.dumps(value).replace(HOST, str(host))) for value in (spec, container)
    )
    files: Files = [{"x.json": json.dumps(spec).encode()}]
    live = seen(["/dev/null", "/dev/zero", "/dev/full", *map(str, host.iterdir())])
    for release, judge in judges.items():
        if releases.version.get_spec_version_key(
            spec["cdiVersion"]
        ) > releases.version.get_spec_version_key(releases.LIBRARIES[release].highest):
            continue
        (told,) = judge.load(files, [{"container": container, "devices": asked}])["injected"]
        given = lookup.resolve_spec_devices(loaded(files, release)[0]).devices
        ours, error = injected(container, asked, given, live, release)
        assert bool(error) == ("error" in told), (release, error, told)
        if isinstance(error, inject.Unresolvable):
            assert list(error.names) == told["unresolved"], release
        elif not error:
            assert bare(ours) == bare(told["container"]), release


def injected(
    container: dict[str, Any],
    asked: list[str],
    given: Mapping[str, lookup.Loaded],
    live: dict[str, inject.HostNode],
    release: str,
) -> tuple[dict[str, Any], inject.CannotInject | None]:
    try:
        return inject.inject(container, asked, given, live, releases.LIBRARIES[release]), None
    except inject.CannotInject as error:
        return {}, error


ASKED = st.lists(st.sampled_from(["aa/bb=gpu0", "aa/bb=gpu1"]), min_size=1, max_size=3) | st.just(
    ["aa/bb=gpu0", "aa/bb=none", "cc/dd=x"]
)


@given(spec=injectable(base_edits, "0.5.0"), container=containers, asked=ASKED)
@many
def test_injection(
    judges: Judges, host: Path, spec: dict[str, Any], container: dict[str, Any], asked: list[str]
) -> None:
    same_containers(judges, host, spec, container, asked)


@given(spec=injectable(newer_edits, "1.1.0"), container=containers, asked=ASKED)
@many
def test_injection_of_what_is_newer(
    judges: Judges, host: Path, spec: dict[str, Any], container: dict[str, Any], asked: list[str]
) -> None:
    same_containers(judges, host, spec, container, asked)


# --- by name
# --------------------------------------------------------------------------------------------------

SPEC = b"cdiVersion: 0.5.0\nkind: aa/bb\ndevices: [{name: gpu0, containerEdits: {env: [A=b]}}]\n"
BOMB = b"".join(
    b"a%d: &a%d [%s]\n" % (i, i, b",".join([b"*a%d" % (i - 1) if i else b"x"] * 9))
    for i in range(9)
)
# What hypothesis would take long to find.
NAMED: dict[str, bytes] = {
    "nothing": b"",
    "a line": b"\n",
    "a byte order mark": b"\xef\xbb\xbf" + SPEC,
    "UTF-16": SPEC.decode().encode("utf-16"),
    "Latin-1": SPEC + b"# gr\xfcn\n",
    "a NUL": SPEC + b"\0",
    "a second document": SPEC + b"---\n]]]\n",
    "an end mark": SPEC + b"...\n",
    "a comment": b"# x\n" + SPEC,
    "line ends of Windows": SPEC.replace(b"\n", b"\r\n"),
    "a tab": SPEC.replace(b" ", b"\t"),
    "aliases without end": BOMB + SPEC,
    "an anchor in itself": b"a: &a [*a]\n",
    "an alias of nothing": b"kind: *a\n",
    "a merge": SPEC.replace(b"{name: gpu0, ", b"{<<: {name: gpu0}, "),
    "a merge and the same key": SPEC.replace(b"{name: gpu0, ", b"{<<: {name: gpu0}, name: gpu1, "),
    "a merge of a list": SPEC.replace(
        b"{name: gpu0, ", b"{<<: [{name: gpu0}, {annotations: null}], "
    ),
    "a merge of nothing": SPEC.replace(b"{name: gpu0, ", b"{<<: null, name: gpu0, "),
    "an anchor and its alias": SPEC.replace(b"[A=b]", b"&e [A=b]") + b"containerEdits: {env: *e}\n",
    "a key that is a list": b"? [a]\n: b\n",
    "a key that is nothing": b"~: b\n",
    "a key of letters from elsewhere": SPEC.replace(b"kind", "\u212aind".encode()),
    "a key of a long s": SPEC.replace(b"containerEdits", "containerEdit\u017f".encode()),
    "capitals": SPEC.replace(b"devices", b"DEVICES"),
    "deep": b"[" * 200,
    "deeper than any": b"a: " + b"[" * 20000,
    "binary": bytes(range(256)) * 4,
    "a tagged mapping": SPEC.replace(b"[{name", b"[!!map {name"),
    "base64": SPEC.replace(b"gpu0", b"!!binary Z3B1MA=="),
    "no base64": SPEC.replace(b"gpu0", b"!!binary %%"),
    "a date": SPEC.replace(b"gpu0", b"2020-01-01"),
    "a number as long as a line": SPEC.replace(b"gpu0", b"9" * 40),
    "a fraction": SPEC.replace(b"gpu0", b"16777217.0"),
    "much": SPEC.replace(b"gpu0", b"1e300"),
    "little": SPEC.replace(b"gpu0", b"1e-7"),
    "a quoted number": SPEC.replace(b"gpu0", b"'08'"),
    "folded": SPEC.replace(b"gpu0", b'"gp\\\n  u0"'),
    "a scalar": b"hello\n",
    "a list": b"- a\n",
    "JSON's null": b"null",
}


@pytest.mark.parametrize("text", NAMED.values(), ids=NAMED)
def test_texts_by_name(judges: Judges, text: bytes) -> None:
    agree(judges, [{"x.yaml": text}])


def test_directories_as_they_lie_on_a_disk(judges: Judges, tmp_path: Path) -> None:
    """A link in place of a directory is followed from 1.1.1 on; one above it always, and one in
    place of a file as well.

    A directory that cannot be listed counts as empty up to 1.1.0, and ends the search in 1.1.1.
    """
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.yaml").write_bytes(SPEC)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "above").symlink_to(".")
    for name, target in (
        ("b.yaml", "real/a.yaml"),
        ("dangling.yaml", "nowhere"),
        ("loop.yaml", "loop.yaml"),
        ("dir.yaml", "real"),
    ):
        (tmp_path / name).symlink_to(target)
    (tmp_path / "sub.yaml").mkdir()
    (tmp_path / "sub.yaml" / "x.yaml").write_bytes(SPEC.replace(b"gpu0", b"gpu1"))
    (tmp_path / "file").write_bytes(SPEC)
    for release, judge in judges.items():
        told = {
            where: judge.ask({"dirs": [str(tmp_path / where)]})
            for where in ("link", "above/real", "nowhere", "file", "")
        }
        assert {where: answer["devices"] for where, answer in told.items()} == {
            "link": ["aa/bb=gpu0"] if release in NEW else None,
            "above/real": ["aa/bb=gpu0"],
            "nowhere": None,
            "file": None,
            "": ["aa/bb=gpu0"],
        }, release
        behind = judge.ask({"dirs": [str(tmp_path / "file"), str(tmp_path / "real")]})
        assert behind["devices"] == (None if release in NEW else ["aa/bb=gpu0"]), release
        usual = judge.ask({"dirs": [str(tmp_path / "nowhere"), str(tmp_path / "real")]})
        assert usual["devices"] == ["aa/bb=gpu0"], release
        assert {Path(path).name for path in told[""]["errors"]} == {
            "dangling.yaml",
            "loop.yaml",
            "dir.yaml",
        }, release


@pytest.mark.skipif(
    os.geteuid() != 0,
    reason="the test becomes another account, and the kernel lets only root do that",
)
def test_what_a_rootless_engine_sees(tmp_path: Path) -> None:
    """A directory that it may not list is passed over without a word, and ends the search in 1.1.1.

    A file that it may not read is lost alone.
    """
    for folder, mode in (("closed", 0o700), ("open", 0o755)):
        (tmp_path / folder).mkdir()
        for name, device in (("a.yaml", folder.encode()), ("b.yaml", b"secret")):
            (tmp_path / folder / name).write_bytes(SPEC.replace(b"gpu0", device))
        (tmp_path / folder / "b.yaml").chmod(0o600)
        (tmp_path / folder).chmod(mode)
    for place in (tmp_path, *list(tmp_path.parents)[:-2]):
        place.chmod(place.stat().st_mode | 0o011)
    for release, devices, errors in (("1.1.0", ["aa/bb=open"], {"b.yaml"}), ("1.1.1", None, set())):
        judge = reference.Judge(
            release, ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        )
        told = judge.ask({"dirs": [str(tmp_path / "closed"), str(tmp_path / "open")]})
        judge.close()
        assert told["devices"] == devices, release
        assert {Path(path).name for path in told["errors"]} == errors, release
