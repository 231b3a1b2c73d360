# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may leave a host: which values have which shape, which places are listed, and that nothing
else is in a selection.
"""

import json

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import selection

hypothesis = pytest.importorskip("hypothesis")  # not on the oldest Python
from hypothesis import strategies as st  # noqa: E402

NO_TEXT = [
    "two words", "KEY=value", 'a"b', "a'b", "https://user:pw@host", "https://token@host", "user:pw@host", "a\nb", "a\n", "\x1b[8m",
    "a\\b", "$(x)",
]  # fmt: skip


def test_a_list_that_is_too_long_is_hidden_as_a_whole():
    paths = ["/etc/%d" % number for number in range(selection.MANY + 1)]
    assert selection.show_value_in_shape("paths", paths[1:]) == paths[1:]
    assert selection.show_value_in_shape("paths", paths) == [selection.HIDDEN]


@pytest.mark.parametrize(
    "shape, value",
    [
        ("bool", True), ("bool", False), ("int", 0), ("int", -1), ("int", 10**9),
        ("name", "runc"), ("name", "nvidia-cdi.2"), ("name", "io.containerd.runc.v2"), ("name", ""),
        ("path", "/usr/bin/nvidia-container-runtime"), ("path", "/var/run/cdi"), ("path", "/"),
        ("path", "/opt/größe/runc"), ("path", "/a:b/c@d"),
        ("program", "runc"), ("program", "/usr/bin/runc"),
        ("address", "unix:///run/containerd/containerd.sock"), ("address", "/run/x.sock"),
        ("pattern", "/etc/containerd/conf.d/*.toml"), ("pattern", "conf.d/[0-9]?.toml"),
        ("annotation", "cdi.k8s.io/*"), ("annotation", "nvidia.cdi.k8s.io/"), ("annotation", "io.kubernetes.cri-o.Devices"),
        ("version", "v1.31.4+k3s1"), ("version", "26.1.5"), ("version", "1:2.3-4~deb12u1"),
        ("duration", "0s"), ("duration", "4h30m"),
        ("names", ["runc", "crun"]), ("paths", ["/etc/cdi", "/var/run/cdi"]), ("paths", []), ("patterns", ["/a/*.toml"]),
        ("one of auto|cdi|legacy", "cdi"), ("bool", None), ("paths", None), ("name", None),
    ],
)  # fmt: skip
def test_a_value_of_the_shape(shape, value):
    assert selection.fits_listed_shape(shape, value)


@pytest.mark.parametrize(
    "shape, value",
    [
        *[(shape, text) for shape in selection.list_shapes() for text in NO_TEXT],
        ("bool", 1), ("bool", "true"), ("int", True), ("int", "1"), ("int", 2**63), ("int", 1.5),
        ("name", "/usr/bin/runc"), ("name", "a:b"), ("name", "-x"), ("name", ["runc"]), ("name", {"a": "b"}), ("name", "a" * 129),
        ("path", "relative/path"), ("path", "//user:pw@host"), ("path", "/a b"), ("path", "/a=b"), ("path", "/" + "a" * 1024),
        ("address", "tcp://0.0.0.0:2375"), ("address", "fd://"), ("pattern", "user:pw@/x"),
        ("version", "latest"), ("version", "v"), ("duration", "secret"),
        ("paths", "/etc/cdi"), ("paths", ["/etc/cdi", "user:pw"]), ("paths", [None]), ("names", [["runc"]]),
        ("one of auto|cdi", "auto|cdi"), ("one of auto|cdi", "CDI"),
    ],
)  # fmt: skip
def test_a_value_of_another_shape(shape, value):
    assert not selection.fits_listed_shape(shape, value)


def test_a_shape_that_is_not_known_is_an_error():
    with pytest.raises(ValueError):
        selection.fits_listed_shape("anything", "text")


KEEP = [
    [["version"], "int"],
    [["plugins", "*", "containerd", "runtimes", "*", "options", "BinaryName"], "program"],
    [["proxy", "plain"], "bool"],
    [["tree", "**"], "name"],
    [["items", "[]", "Names"], "paths"],
]


@pytest.mark.parametrize(
    "path, shape",
    [
        (["version"], "int"), (["VERSION"], "int"), (["versions"], None), (["version", "x"], None), ([], None),
        (["plugins", "cri", "containerd", "runtimes", "nvidia", "options", "binaryname"], "program"),
        (["plugins", "cri", "containerd", "runtimes", "nvidia", "options"], None),
        (["plugins", "cri", "containerd", "runtimes", "user:pw@x/y", "options", "BinaryName"], None),
        (["tree"], "name"), (["tree", "a", "b"], "name"), (["tree", "two words"], None),
        (["items", "[]", "Names"], "paths"), (["items", "x", "Names"], None),
    ],
)  # fmt: skip
def test_what_is_listed(path, shape):
    assert selection.get_listed_shape(KEEP, path) == shape


@pytest.mark.parametrize(
    "path, way",
    [
        ([], True), (["plugins"], True), (["plugins", "x", "Containerd"], True), (["plugins", "x", "other"], False), (["version"], False),
        (["proxy"], True), (["proxies"], False), (["tree"], True), (["tree", "a"], True), (["items", "[]"], True), (["items", "0"], False),
        (["plugins", "a b"], False),
    ],
)  # fmt: skip
def test_what_leads_to_something_listed(path, way):
    assert selection.is_on_the_way(KEEP, path) is way


@pytest.mark.parametrize(
    "data, left",
    [
        ({"version": 2, "root": "/var/lib"}, {"version": 2}),
        ({"version": "2"}, {"version": selection.HIDDEN}),
        ({"Version": 2}, {"Version": 2}),
        ({"version": {"a": 1}}, {}),
        ({"proxy": {"plain": True, "url": "http://u:p@h"}, "auth": {"plain": True}}, {"proxy": {"plain": True}}),
        ({"plugins": {"cri": {"auth": "x", "containerd": {"runtimes": {"n": {"options": {"BinaryName": "runc", "K": "v"}}}}}}},
         {"plugins": {"cri": {"containerd": {"runtimes": {"n": {"options": {"BinaryName": "runc"}}}}}}}),
        ({"tree": {"a": {"b": "c", "d": "e f"}}}, {"tree": {"a": {"b": "c", "d": selection.HIDDEN}}}),
        ({"tree": {"two words": "c"}}, {"tree": {selection.HIDDEN: "c"}}),
        ({"plugins": {"user:pw@host": {"containerd": {}}}}, {"plugins": {selection.HIDDEN: {"containerd": {}}}}),
        ({"items": [{"Names": ["/one"], "Env": ["A=b"]}, "loose", {"Names": ["x y"]}]},
         {"items": [{"Names": ["/one"]}, None, {"Names": [selection.HIDDEN]}]}),
        ({"items": "text"}, {}),
        ("text", None),
        ([1, 2], []),
    ],
)  # fmt: skip
def test_a_selection_has_the_listed_values_and_no_others(data, left):
    assert selection.select(data, KEEP) == left


FLAGS = {
    "--config": "path",
    "-c": "path",
    "--host": "address",
    "--live-restore": "switch",
    "--add-runtime": "name=path",
    "config": "",
}


@pytest.mark.parametrize(
    "argv, shown",
    [
        (["/usr/bin/engine"], ["/usr/bin/engine"]),
        ([], []),
        (["two words"], ["(hidden)"]),
        (["e", "--config", "/etc/e.toml", "-c=/x"], ["e", "--config", "/etc/e.toml", "-c=/x"]),
        (["e", "--config", "pass word", "--host=http://u:p@h"], ["e", "--config", "(hidden)", "--host=(hidden)"]),
        (["e", "--http-proxy", "http://u:p@h"], ["e", "-(hidden)", "(hidden)"]),
        (["e", "--http-proxy=http://u:p@h", "-p"], ["e", "-(hidden)=(hidden)", "-(hidden)"]),
        (["e", "--live-restore", "secret", "--live-restore"], ["e", "--live-restore", "(hidden)", "--live-restore"]),
        (["e", "--config", "--host", "/run/e.sock"], ["e", "--config", "--host", "/run/e.sock"]),
        (["e", "config", "secret", "KEY=value"], ["e", "config", "(hidden)", "(hidden)"]),
        (["e", "--add-runtime", "nvidia=/usr/bin/n", "--add-runtime=a=b=c"],
         ["e", "--add-runtime", "nvidia=/usr/bin/n", "--add-runtime=(hidden)"]),
        (["e", "config=secret"], ["e", "(hidden)"]),
    ],
)  # fmt: skip
def test_of_a_command_line_only_listed_flags_travel(argv, shown):
    assert selection.select_arguments(argv, FLAGS) == shown


def test_of_an_environment_only_listed_names_travel():
    pairs = ["STRATEGY=cdi-cri", "MODE=a b", "API_TOKEN=x", "STRATEGYX=y", "loose"]
    names = {"STRATEGY": "name", "MODE": "name", "ABSENT": "name"}
    assert selection.select_environment(pairs, names) == {"STRATEGY": "cdi-cri", "MODE": "(hidden)"}


MARKER = "S3CR3T"
LISTED = [
    "version",
    "plugins",
    "cri",
    "containerd",
    "runtimes",
    "options",
    "BinaryName",
    "proxy",
    "plain",
    "items",
    "Names",
]
KEYS = st.sampled_from([*LISTED, "x", MARKER + " k"])
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["runc", "/usr/bin/runc"])
    | st.just("pw=" + MARKER)
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=30,
)


@hypothesis.given(TREES)
def test_nothing_that_is_not_listed_is_in_a_selection(tree):
    assert MARKER not in json.dumps(selection.select(tree, KEEP))
    assert selection.select(tree, []) in (None, {}, [])


WORDS = st.sampled_from(
    [*FLAGS, "--config=/x", "--token", "-x", "", "=", "pw=" + MARKER, "--a=" + MARKER]
)


@hypothesis.given(st.lists(WORDS))
def test_nothing_that_is_not_listed_is_in_the_arguments(argv):
    shown = selection.select_arguments(argv, FLAGS)
    assert MARKER not in json.dumps(shown)
    assert len(shown) == len(argv)


# The rule of one listed path, as it is written down in `selection`, without the tree that finds it
# fast.
def plain(part):
    return part in ("[]", selection.HIDDEN) or selection._KEY.fullmatch(part) is not None


def same(wanted, path):
    return all(
        key != "[]" and plain(key) if part == "*" else part.lower() == key.lower()
        for part, key in zip(wanted, path)  # noqa: B905
    )


def one(wanted, path):
    """(whether the path is listed by this one, whether this one goes on below it)"""
    below = wanted[-1] == "**"
    parts = wanted[:-1] if below else wanted
    if len(path) > len(parts):
        held = below and same(parts, path) and all(plain(key) for key in path[len(parts) :])
        return held, held
    if len(path) == len(parts):
        return same(parts, path), below and same(parts, path)
    return False, same(parts, path)


PARTS = st.sampled_from(["a", "A", "b", "*", "[]"])
LISTS = st.lists(
    st.lists(PARTS, min_size=1, max_size=4)
    | st.lists(PARTS, max_size=3).map(lambda parts: [*parts, "**"]),
    max_size=6,
)
PATHS = st.lists(
    st.sampled_from(["a", "A", "b", "c", "*", "**", "[]", "two words", selection.HIDDEN]),
    max_size=5,
)


@hypothesis.given(LISTS, PATHS)
def test_the_first_listed_path_that_fits_speaks(wanted, path):
    keep = [[parts, "shape %d" % number] for number, parts in enumerate(wanted)]
    told = [one(parts, path) for parts in wanted]
    first = next((keep[number][1] for number, (whole, _way) in enumerate(told) if whole), None)
    assert selection.get_listed_shape(keep, path) == first
    assert selection.is_on_the_way(keep, path) == any(way for _whole, way in told)
