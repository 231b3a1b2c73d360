# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a file leaves a host: the listed values, and placeholders of the same length for all
else, in every spelling of TOML and JSON.
"""

import json
import sys

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.projection import projector

CRI = ["plugins", "io.containerd.grpc.v1.cri"]
RUNTIME = CRI + ["containerd", "runtimes", "*"]
KEEP = {
    "format": "toml",
    "comments": ["# ours"],
    "places": [
        [["version"], "int"], [["imports"], "patterns"], [["grpc", "address"], "address"], [CRI + ["enable_cdi"], "bool"],
        [CRI + ["cdi_spec_dirs"], "paths"], [CRI + ["stream_server_address"], "key"],
        [CRI + ["containerd", "default_runtime_name"], "name"],
        [RUNTIME + ["runtime_type"], "name"], [RUNTIME + ["options", "BinaryName"], "program"],
        [RUNTIME + ["options", "Flags"], ["is", "--our own"]],
    ],
}  # fmt: skip
HEAD = '[plugins."io.containerd.grpc.v1.cri"]\n'
SECRET = "hunter2"

SPELLINGS = {
    "a key": 'password = "hunter2"\n',
    "a literal string": "password = 'hunter2'\n",
    "three quotes": 'password = """hunter2"""\n',
    "three quotes over lines": 'password = """\nhunter2\n"""\n',
    "three single quotes": "password = '''\nhunter2'''\n",
    "behind an escaped quote": 'password = "a\\"hunter2"\n',
    "behind an escaped backslash": 'password = "a\\\\" # hunter2\n',
    "a dotted key": '[plugins."io.containerd.grpc.v1.cri".registry.configs]\n"r1".auth.password = "hunter2"\n',
    "a dotted key from the top": 'plugins."io.containerd.grpc.v1.cri".registry.auth = "hunter2"\n',
    "a table of its own": '[plugins."io.containerd.grpc.v1.cri".registry.configs."r".auth]\n  password = "hunter2"\n',
    "a table's name": '[plugins."io.containerd.grpc.v1.cri".registry.hunter2]\n  a = 1\n',
    "a table's name in quotes": "[plugins.'io.containerd.grpc.v1.cri'.registry.'hunter2']\n",
    "a key's name": "hunter2 = 1\n",
    "an inline table": HEAD + 'auth = { username = "u", password = "hunter2" }\n',
    "an inline table on a listed path": HEAD
    + 'containerd = { password = "hunter2", default_runtime_name = "runc" }\n',
    "the last pair of an inline table": HEAD
    + 'containerd = { default_runtime_name = "runc", password = "hunter2" }\n',
    "lines in an inline table": HEAD
    + 'containerd = { default_runtime_name = "runc", p = ["a",\n"hunter2"] }\n',
    "an array": 'env = ["A=b", "OCICRYPT_KEY=hunter2"]\n',
    "an array over lines": 'args = [\n  "--passphrase=hunter2", # hunter2\n]\n',
    "an array of tables": '[[proxy_plugins]]\npassword = "hunter2"\n[[proxy_plugins]]\npassword = "hunter2"\n',
    "a comment": '# password = "hunter2"\n',
    "a comment behind a value": "version = 2 # hunter2\n",
    "a comment within a listed array": 'imports = ["/a", # hunter2\n]\n',
    "a proxy's address": HEAD + 'endpoint = ["https://robot:hunter2@mirror.example"]\n',
    "a listed list with an address": HEAD
    + 'cdi_spec_dirs = ["/etc/cdi", "https://robot:hunter2@mirror.example"]\n',
    "a listed value of another shape": HEAD + 'enable_cdi = "hunter2"\n',
    "a listed text of another shape": '[grpc]\naddress = "tcp://user:hunter2@host"\n',
    "a value where a table belongs": 'plugins = "hunter2"\n',
    "a table where a value belongs": '[grpc.address]\npassword = "hunter2"\n',
    "a key whose name is shown": HEAD + 'stream_server_address = "hunter2"\n',
    "another than the asker's own value": HEAD
    + 'containerd.runtimes.a.options.Flags = "hunter2"\n',
    "a header": HEAD
    + '[plugins."io.containerd.grpc.v1.cri".registry.headers]\nAuthorization = ["Bearer hunter2"]\n',
    "a token in an address": HEAD + 'endpoint = ["https://h/?token=hunter2"]\n',
    "Windows' line ends": 'password = """\r\nhunter2\r\n"""\r\n',
    "behind a byte order mark": '\ufeffpassword = "hunter2"\n',
    "behind bytes that are no ASCII": '"größe" = "ü" # hunter2\n',
    "a number": "pin = 4711\n",
}


def shown(text, keep=None):
    found = projector.project_file(text.encode("utf-8"), KEEP if keep is None else keep)
    return found, found.data.decode("utf-8")


@pytest.mark.parametrize("text", SPELLINGS.values(), ids=SPELLINGS)
def test_nothing_that_is_not_listed_is_in_the_projection(text):
    text = "version = 2\n" + text if not text.startswith(("version", "\ufeff")) else text
    found, projected = shown(text)
    assert SECRET not in projected and "4711" not in projected
    assert [len(line) for line in found.data.split(b"\n")] == [
        len(line) for line in text.encode("utf-8").split(b"\n")
    ]
    assert projected.count("\r") == text.count("\r")


def test_the_listed_part_reads_as_it_did_and_the_rest_keeps_its_place():
    _found, projected = shown(
        "# ours\n# theirs\nversion = 2\nImports = ['/etc/containerd/conf.d/*.toml']\noom_score = 0\n"
        + HEAD
        + '  enable_cdi = true # on\n  [plugins."io.containerd.grpc.v1.cri".containerd]\n'
        '    runtimes.runc = { runtime_type = "io.containerd.runc.v2", x = 1 }\n'
        '[plugins."io.containerd.grpc.v1.cri".registry]\n[[plugins.other]]\n[[plugins.other]]\n'
    )
    assert projected == (
        "# ours\n#xxxxxxx\nversion = 2\nImports = ['/etc/containerd/conf.d/*.toml']\nxxxxxxxxx = 1\n"
        + HEAD
        + '  enable_cdi = true #xxx\n  [plugins."io.containerd.grpc.v1.cri".containerd]\n'
        '    runtimes.runc = { runtime_type = "io.containerd.runc.v2", x = 1 }\n'
        '[plugins."io.containerd.grpc.v1.cri".xxxxxxxx]\n[[plugins.xxxxx]]\n[[plugins.xxxxx]]\n'
    )


def test_what_is_withheld_is_named_by_its_place_and_kind():
    found, projected = shown('[grpc]\naddress = "tcp://u:pw@h"\n')
    assert projected == '[grpc]\naddress = "            "\n'
    assert [
        {k: entry[k] for k in ("path", "kind", "line", "span")} for entry in found.withheld
    ] == [{"path": ["grpc", "address"], "kind": "string", "line": 2, "span": [17, 31]}]


@pytest.mark.parametrize(
    "text, code, line",
    [
        ('a = "hunter2', "toml-string", 1), ("a = [\n1", "toml-array", 2), ("a\n", "toml-equals", 1), ("a = hunter2\n", "toml-value", 1),
        ("\na = 1 hunter2\n", "toml-line", 2), ("a = 1\na = 2\n", "toml-twice", 2), ("[a]\n[a]\n", "toml-twice", 2),
        ("[a\n", "toml-header", 1),
        ('a = "\\q"\n', "toml-escape", 1), ("a = {b = 1,}\n", "toml-key", 1), ("a = {b = 1\n}\n", "toml-inline", 1),
        ("=1\n", "toml-key", 1),
        ("a = 2024-02-30\n", "toml-value", 1), ("\xff\xfea", "utf-16", 1), ("a = " + "[" * 100, "toml-deep", 1),
        (".".join("a" * 100) + " = 1", "toml-deep", 1),
    ],
)  # fmt: skip
def test_a_text_that_is_not_toml_is_told_by_a_code_and_a_line(text, code, line):
    with pytest.raises(projector.UnreadableText) as found:
        projector.project_file(text.encode("latin-1"), KEEP)
    assert (found.value.code, found.value.line) == (code, line)
    assert "hunter2" not in str(found.value)


JSON_KEEP = {
    "format": "json",
    "places": [
        [["runtimes", "*", "path"], "program"],
        [["features", "cdi"], "bool"],
        [["live-restore"], "bool"],
    ],
}


@pytest.mark.parametrize(
    "text, projected",
    [
        ('{"live-restore": true, "splunk-token": "x"}', '{"live-restore": true, "xxxxxxxxxxxx": " "}'),
        ('{\n "proxy":\n  "http://u:pw@h"\n}\n', '{\n "xxxxx":\n  "             "\n}\n'),
        ('{"log-opts": {"a": "b",\n "c": 1}, "x": 1}', '{"xxxxxxxx": [1        \n       ], "x": 1}'),
        ('{"runtimes": {"nvidia": {"path": "/usr/bin/n", "runtimeArgs": ["--key=x"]}}}',
         '{"runtimes": {"nvidia": {"path": "/usr/bin/n", "xxxxxxxxxxx": "         "}}}'),
        ('{"live-restore": "pass\\u0077ord"}', '{"live-restore": "             "}'),
        ('{"Live-Restore": null, "a": 1, "b": 2}', '{"Live-Restore": null, "x": 1, "a": 1}'),
        ('{"runtimes": null, "features" : null, "other": null}', '{"runtimes": null, "features" : null, "xxxxx": "  "}'),
        ("\n", "\n"),
    ],
)  # fmt: skip
def test_of_json_the_listed_members_stay_and_the_others_keep_their_commas(text, projected):
    assert shown(text, JSON_KEEP)[1] == projected
    assert not text.strip() or json.loads(projected)


@pytest.mark.parametrize(
    "text, code, line",
    [
        ('{"a": 1', "json-comma", 1), ('{"a" 1}', "json-colon", 1), ('{"a": x}', "json-value", 1), ("{a: 1}", "json-key", 1),
        ('{"a": 1,\n}', "json-key", 2), ('{"a": 1, "a": 2}', "json-twice", 1), ('{"a": [1 2]}', "json-array", 1),
        ('{} "x"', "json-more", 1),
        ("[]", "json-object", 1), ("# x\n{}", "json-comment", 1), ('{"a": "\t"}', "json-string", 1), ('{"a": ' + "[" * 99, "json-deep", 1),
    ],
)  # fmt: skip
def test_a_text_that_is_not_json_is_told_by_a_code_and_a_line(text, code, line):
    with pytest.raises(projector.UnreadableText) as found:
        projector.project_file(text.encode(), JSON_KEEP)
    assert (found.value.code, found.value.line) == (code, line)


KUBELET = [[["driver"], "name"], [["gates", "One"], "bool"]]
EVERY = [place for place, _shape in KUBELET]


@pytest.mark.parametrize(
    "text, projected, withheld",
    [
        ("driver: systemd # pw\n", "driver: systemd #xxx\n", []),
        ("driver: &a pw\n", "#xxxxxxxxxxxx\n", [["driver"]]),
        ("driver: |\n  pw\n", "#xxxxxxxx\n#xxx\n", [["driver"]]),
        ("'driver': pw\n", "#xxxxxxxxxxx\n", [["driver"]]),
        ("a:\n  driver: pw\n", "#x\n#xxxxxxxxxxx\n", []),
        (
            "gates: # pw\n  Two: true\n  One: false # pw\n",
            "gates: #xxx\n#xxxxxxxxxx\n  One: false #xxx\n",
            [],
        ),
        ("gates:\n  Two:\n    One: true\n", "gates:\n#xxxxx\n#xxxxxxxxxxxx\n", []),
        ("gates:\nb:\n  One: true\n", "gates:\n#x\n#xxxxxxxxxx\n", []),
        ("gates: {One: true}\n", "#xxxxxxxxxxxxxxxxx\n", [["gates"]]),
        ("gates:\n  One: pw\n", "gates:\n#xxxxxxxx\n", [["gates", "One"]]),
        ("driver : pw\n", "#xxxxxxxxxx\n", [["driver"]]),
        ("\ufeffdriver: pw\n", "#xxxxxxxxxxxx\n", [["driver"]]),
        ("\ufeff# pw\ndriver: systemd\n", "#xxxxxx\ndriver: systemd\n", []),
        # any key may be in these
        ("# pw\n{driver: pw,\n a: b}\n", "#xxx\n#xxxxxxxxxxx\n#xxxxx\n", EVERY),
        ("--- {driver: pw}\n", "#xxxxxxxxxxxxxxx\n", EVERY),
        ("? driver\n: pw\n? b\n: c\n", "#xxxxxxx\n#xxx\n#xx\n#xx\n", EVERY),
        ('"dri\\x76er": pw\n', "#xxxxxxxxxxxxxx\n", EVERY),
        ("a: &a\n  driver: pw\n<<: *a\n", "#xxxx\n#xxxxxxxxxxx\n#xxxxx\n", EVERY),
        ("gates:\n  {One: true}\n", "gates:\n#xxxxxxxxxxxx\n", EVERY[1:]),
        ("gates:\n  <<: *a\n", "gates:\n#xxxxxxx\n", EVERY[1:]),
        # and not in these
        ("b:\n  {driver: pw}\n  ? c\n", "#x\n#xxxxxxxxxxxxx\n#xxxx\n", []),
        ('b: [\n "c"\n]\n- d\n"e f": g\nh+: i\n', "#xxx\n#xxx\n#\n#xx\n#xxxxxxx\n#xxxx\n", []),
        # a second document
        ("%YAML 1.1\n---\n# pw\ndriver: systemd\n", "#xxxxxxxx\n#xx\n#xxx\ndriver: systemd\n", []),
        ("b: c\n---\ndriver: systemd\n", "#xxx\n#xx\n#xxxxxxxxxxxxxx\n", []),
        ("driver: systemd\n...\n{driver: pw}\n", "driver: systemd\n#xx\n#xxxxxxxxxxx\n", []),
    ],
)
def test_of_yaml_one_level_below_a_key_is_shown_and_what_is_listed_and_not_shown_is_told(
    text, projected, withheld
):
    found = projector.project_file(text.encode(), {"format": "yaml", "places": KUBELET})
    assert found.data.decode() == projected
    assert [entry["path"] for entry in found.withheld] == withheld


@pytest.mark.parametrize(
    "form, places, text, projected",
    [
        ("env", [[["OUT"], "path"]], 'A=b\nOUT="/x/y"\nOUT=pw $x\n', '#xx\nOUT="/x/y"\n#xxxxxxxx\n'),
        ("env", [[["OUT"], "path"]], "out=/x\r\n\r\n# OUT=/x", "out=/x\r\n\r\n#xxxxxxx"),
        ("flags", [[["endpoint"], "address"]], 'ARGS="--a=b --endpoint=unix:///x --token x"\n',
         "            --endpoint=unix:///x           \n"),
        ("yaml", [[["endPoint"], "address"]], "a: b\nendPoint: unix:///x\n  endPoint: /y\nendPoint: &a pw\n",
         "#xxx\nendPoint: unix:///x\n#xxxxxxxxxxxxx\n#xxxxxxxxxxxxxx\n"),
        ("yaml", [[["cdiVersion"], "version"]], '# pw\ncdiVersion: "0.5.0"\nenv:\n- A=pw\n  cdiVersion: 0.6.0\n',
         '#xxx\ncdiVersion: "0.5.0"\n#xxx\n#xxxxx\n#xxxxxxxxxxxxxxxxxx\n'),
        ("yaml", [[["cdiVersion"], "version"]], '{"cdiVersion": "0.5.0", "env": ["A=pw"]}', '{"cdiVersion": "0.5.0", "xxx": "      "}'),
        ("whole", [], "anything\n", "anything\n"),
        ("text", [], "anything\r\n\n[x]\n", "#xxxxxxx\r\n\n#xx\n"),
        ("text", [], "", ""),
    ],
)  # fmt: skip
def test_of_lines_the_listed_ones_stay(form, places, text, projected):
    assert shown(text, {"format": form, "places": places})[1] == projected


@pytest.mark.parametrize(
    "form, line",
    [("env", b"OUT=%s\n"), ("yaml", b"OUT: %s\n"), ("flags", b"--OUT=%s\n"), ("text", b"%s\n")],
)
def test_a_path_is_shown_by_its_letters_and_not_by_its_bytes(form, line):
    keep = {"format": form, "places": [[["OUT"], "path"]], "patterns": [r"^/[\w./]+$"]}
    for value, is_shown in (
        (b"/a", True),
        ("/caf\u00e9".encode(), form != "text"),
        (b"/\xff", False),
        (b"/\xaa", False),
    ):
        data = line % value
        assert (projector.project_file(data, keep).data == data) is is_shown, value


LINES = {"format": "text", "patterns": [r"^A: b$", r"^ü$", r"(?s)^BEGIN$.*?^END$"]}


@pytest.mark.parametrize(
    "text, projected",
    [
        ("A: b\nA: bc\n", "A: b\n#xxxx\n"),
        ("xA: b\r\nü\n", "#xxxx\r\nü\n"),
        ("BEGIN\npw\nEND\npw\nBEGIN\npw\n", "BEGIN\npw\nEND\n#x\n#xxxx\n#x\n"),
        ("A: b", "A: b"),
    ],
)
def test_of_a_text_what_a_pattern_matches_stays(text, projected):
    assert shown(text, LINES)[1] == projected


HANDLERS = ".".join(json.dumps(part) for part in RUNTIME[:-1])
LONG = {
    "tables": lambda n: "".join("[t%d]\nk = 1\n" % number for number in range(n)),
    "handlers": lambda n: "".join(
        "[%s.r%d]\nruntime_type = 'a'\nx = 'y'\n" % (HANDLERS, m) for m in range(n)
    ),
    "an array": lambda n: "a = [" + "1," * n + "]\n",
    "escapes": lambda n: 'a = "' + "\\\\" * n + '"\n',
    "quotes": lambda n: 'a = """' + '""\n' * n + '"""\n',
    "comments": lambda n: "# x\n" * n,
    "an inline table": lambda n: (
        "a = { " + ", ".join("k%d = 1" % number for number in range(n)) + " }\n"
    ),
}


@pytest.mark.parametrize("written", LONG.values(), ids=LONG)
def test_twice_the_text_is_twice_the_work(written):
    """Counted in calls, which say the same on every machine."""
    assert _calls(written(4000)) < 2.2 * _calls(written(2000))


def _calls(text):
    count = [0]

    def note(_frame, event, _arg):
        count[0] += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        projector.project_file(text.encode("utf-8"), KEEP)
    finally:
        sys.setprofile(None)
    return count[0]


# --- the judges: other parsers
# ----------------------------------------------------------------------------------------

hypothesis = pytest.importorskip("hypothesis")  # not on the oldest Python
tomllib = pytest.importorskip("tomllib")
tomlkit = pytest.importorskip("tomlkit")
from hypothesis import strategies as st  # noqa: E402

from tests.draws import count_examples  # noqa: E402

NAMES = st.sampled_from(
    [
        "version",
        "a",
        "b",
        "plugins",
        "io.containerd.grpc.v1.cri",
        "enable_cdi",
        "containerd",
        "runtimes",
        "k v",
        "ü",
        "",
    ],
)
SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.floats(allow_nan=False),
    st.dates(),
    st.text(st.characters(codec="utf-8", exclude_characters="\x7f"), max_size=12),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=10,
)
TREES = st.dictionaries(NAMES, VALUES, max_size=6)


def _listed(data, places, path=()):
    """What a projection shows, by the structure that an independent parser has read."""
    if isinstance(data, dict):
        found = {key: _listed(value, places, (*path, key)) for key, value in data.items()}
        return {key: value for key, value in found.items() if value is not None and value != {}}
    shape = projector.selection.get_listed_shape(places, list(path))
    return data if shape is not None and projector.fits_scanned_shape(shape, data) else None


@hypothesis.settings(deadline=None, max_examples=count_examples(300))
@hypothesis.given(TREES, st.booleans())
def test_another_parser_reads_the_listed_part_of_what_it_reads_from_the_original(tree, crlf):
    text = tomlkit.dumps(tree)
    text = text.replace("\n", "\r\n") if crlf and '"""' not in text else text
    found, projected = shown(text)
    assert _listed(tomllib.loads(projected), KEEP["places"]) == _listed(
        tomllib.loads(text), KEEP["places"]
    )
    assert projector.project_file(found.data, KEEP).data == found.data, (
        "a projection is its own projection"
    )


@hypothesis.settings(deadline=None, max_examples=count_examples(500))
@hypothesis.given(
    st.text(st.sampled_from("\n\r\t \"'\\#=.,[]{}ab01_-+:TZxeuü\x00\x7f"), max_size=40),
    st.integers(0, 400),
)
def test_what_another_parser_refuses_is_refused_and_nothing_else(noise, at):
    text = SAMPLE[:at] + noise + SAMPLE[at + len(noise) :]
    try:
        wanted = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, ValueError):
        wanted = None
    try:
        projected = shown(text)[1]
    except projector.UnreadableText:
        projected = None
    assert (projected is None) == (wanted is None)
    if projected is not None:
        assert _listed(tomllib.loads(projected), KEEP["places"]) == _listed(wanted, KEEP["places"])


SAMPLE = (
    'version = 2\nimports = ["/a/*.toml", # c\n  \'/b\', ]\na.b.c = 1\na.b.d = """x\n\\\n y"""\n[x.y.z]\n[x]\ny.w = 1\n'
    "[[t]]\nb = 1\n[t.c]\nd = 1\n[[t]]\n[t.c]\nd = { e = 1, f.g = [1, 2], f.h = 0x1F }\n"
    + HEAD
    + "enable_cdi = true\n[plugins.'io.containerd.grpc.v1.cri'.containerd]\ndefault_runtime_name = \"runc\"\nruntimes.runc.options = "
    + "{ BinaryName = \"/usr/bin/runc\", Secret = 'x' }\nd = 1979-05-27T07:32:00Z\nf = -1.5e+3\ng = +inf\n"
)

from tests.unit import jsontexts  # noqa: E402


@hypothesis.settings(deadline=None, max_examples=count_examples(200))
@hypothesis.given(jsontexts.objects, jsontexts.styles)
def test_of_json_in_every_style_the_listed_part_is_read(value, style):
    text = jsontexts.written(
        {**value, "live-restore": True, "runtimes": {"nvidia": {"path": "/usr/bin/n", **value}}},
        style,
    )
    found, projected = shown(text, JSON_KEEP)
    plain = json.loads(text.lstrip("\ufeff"))
    assert _listed(json.loads(projected.lstrip("\ufeff")), JSON_KEEP["places"]) == _listed(
        plain, JSON_KEEP["places"]
    )
    assert len(found.data) == len(text.encode("utf-8"))
