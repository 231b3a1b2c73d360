# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gRPC client: what it sends, and what it makes of answers good, odd and broken."""

import base64
import json

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.rpc import (
    cri,
    cri_queries,
    grpc_wire,
)

from .conftest import answer, frame, header, status_message

OK = status_message({})


# --- protobuf
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields, data",
    [
        ([(1, 0, 150)], "089601"),  # the example of the protobuf documentation
        ([(2, 2, "testing")], "120774657374696e67"),
        ([(3, 2, [(1, 0, 150)])], "1a03089601"),
        ([(1, 0, True), (4, 2, b"\x00\xff")], "0801220200ff"),
        ([(1, 0, -1)], "08ffffffffffffffffff01"),
        ([(16, 0, 1)], "800101"),
        ([], ""),
    ],
)
def test_encode(fields, data):
    assert grpc_wire.encode_fields(fields).hex() == data


@pytest.mark.parametrize(
    "data, fields",
    [
        ("089601", [(1, 0, 150)]),
        ("120774657374696e67", [(2, 2, b"testing")]),
        ("0d01000000", [(1, 5, 1)]),
        ("090100000000000000", [(1, 1, 1)]),
    ],
)
def test_decode(data, fields):
    assert grpc_wire.decode_fields(bytes.fromhex(data)) == fields


def test_a_number_is_no_message():
    with pytest.raises(grpc_wire.CriError) as caught:
        grpc_wire.decode_fields(7)
    assert caught.value.code == grpc_wire.INTERNAL


@pytest.mark.parametrize(
    "data", ["08", "0896", "1205aa", "0b", "0d0100", "08ffffffffffffffffffffff01"]
)
def test_decode_of_what_is_no_message(data):
    with pytest.raises(grpc_wire.CriError) as caught:
        grpc_wire.decode_fields(bytes.fromhex(data))
    assert caught.value.code == grpc_wire.INTERNAL


# --- HPACK: the examples of RFC 7541, appendix C
# ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "coded, plain",
    [
        ("f1e3c2e5f23a6ba0ab90f4ff", b"www.example.com"),
        ("a8eb10649cbf", b"no-cache"),
        ("25a849e95ba97d7f", b"custom-key"),
        ("d07abe941054d444a8200595040b8166e082a62d1bff", b"Mon, 21 Oct 2013 20:13:21 GMT"),
        ("", b""),
    ],
)
def test_huffman(coded, plain):
    assert grpc_wire.decode_huffman(bytes.fromhex(coded)) == plain


def test_responses_of_rfc_7541_c_6_with_a_table_of_256_bytes():
    table = grpc_wire.HeaderTable()
    table.limit = 256
    first = table.decode(
        bytes.fromhex(
            "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3"
        )
    )
    assert [value for name, value in first] == [
        "302",
        "private",
        "Mon, 21 Oct 2013 20:13:21 GMT",
        "https://www.example.com",
    ]
    second = table.decode(bytes.fromhex("4883640effc1c0bf"))
    assert [value for name, value in second] == [
        "307",
        "private",
        "Mon, 21 Oct 2013 20:13:21 GMT",
        "https://www.example.com",
    ]


def test_what_a_go_server_sends_for_an_unknown_service():
    block = bytes.fromhex(
        "885f8b1d75d0620d263d4c4d656440889acac8b21234da8f8208bf40899acac8b5254207317f8db6aeb51fc54a20b677310aa79f"
    )
    fields = grpc_wire.HeaderTable().decode(block)
    assert fields[0] == (":status", "200")
    assert fields[1][1] == "application/grpc"
    assert fields[2:] == [("grpc-status", "12"), ("grpc-message", "unknown service x")]


def test_an_entry_that_was_never_sent_is_an_error():
    with pytest.raises(grpc_wire.CriError):
        grpc_wire.HeaderTable().decode(b"\xff\x30")


# --- calls
# --------------------------------------------------------------------------------------------------


def test_what_a_call_sends(runtime):
    server = runtime(answer(b"\x0a\x01x"))
    assert (
        cri.call_unary(server.path, "runtime.v1.RuntimeService", "Version", b"\x08\x01", 5)
        == b"\x0a\x01x"
    )
    preface, frames = server.requests[0]
    assert preface == b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    assert [(kind, stream) for kind, flags, stream, payload in frames] == [
        (4, 0),
        (8, 0),
        (1, 1),
        (0, 1),
    ]
    assert frames[3][3] == b"\x00\x00\x00\x00\x02\x08\x01"
    fields = grpc_wire.HeaderTable().decode(frames[2][3])
    assert (":path", "/runtime.v1.RuntimeService/Version") in fields
    assert ("content-type", "application/grpc") in fields
    assert ("grpc-timeout", "5000m") in fields


def test_a_long_request_goes_in_frames_that_every_server_takes(runtime):
    server = runtime(answer(b""))
    request = grpc_wire.encode_fields([(1, 2, "x" * 40000)])
    cri.call_unary(server.path, "s", "M", request, 5)
    body = b"".join(payload for kind, flags, stream, payload in server.requests[0][1] if kind == 0)
    assert body[5:] == request
    assert all(len(payload) <= 16384 for kind, flags, stream, payload in server.requests[0][1])


ODD_ANSWERS = {
    "settings, a ping and a window update come first": frame(4, 0, 0, b"\0\x05\0\0\x40\0")
    + frame(6, 0, 0, b"12345678")
    + frame(8, 0, 0, b"\0\0\x10\0")
    + answer(OK),
    "headers in two frames": frame(1, 0, 1, b"\x88" + header("content-type", "x")[:5])
    + frame(9, 0x4, 1, header("content-type", "x")[5:])
    + answer(OK, status_block=b""),
    "padded data, headers with priority": frame(
        1, 0x4 | 0x8 | 0x20, 1, b"\x02" + b"\0\0\0\0\x10" + b"\x88" + b"\0\0"
    )
    + frame(0, 0x8, 1, b"\x03" + b"\0" + len(OK).to_bytes(4, "big") + OK + b"\0\0\0")
    + frame(1, 0x5, 1, header("grpc-status", "0")),
    "a polite goodbye after the call was taken": frame(7, 0, 0, b"\0\0\0\x01\0\0\0\0") + answer(OK),
    "frames of another stream": frame(8, 0, 3, b"\0\0\x10\0") + answer(OK),
}


@pytest.mark.parametrize("what", sorted(ODD_ANSWERS))
def test_answers_that_are_odd_and_right(runtime, what):
    assert cri.read_cri_status(runtime(ODD_ANSWERS[what]).path)["runtime"] == {"RuntimeReady": True}


def test_a_big_answer(runtime):
    config = {"filler": "x" * 300000}
    assert (
        cri.read_cri_status(runtime(answer(status_message(config))).path)["info"]["config"]
        == config
    )


BAD_ANSWERS = {
    "the server's own error": (
        answer(None, "5", "no%20such%20thing"),
        5,
        "gRPC status 5 (NOT_FOUND)",
    ),
    "an error after data": (answer(OK, "13", "late"), 13, "gRPC status 13 (INTERNAL)"),
    "no grpc-status": (frame(1, 0x5, 1, b"\x88"), cri.INTERNAL, "not a gRPC server"),
    "not found, in HTTP": (frame(1, 0x5, 1, b"\x8d"), cri.UNAVAILABLE, "HTTP status 404"),
    "closed at once": (b"", cri.UNAVAILABLE, "closed the connection"),
    "closed within a frame": (answer(OK)[:30], cri.UNAVAILABLE, "closed the connection"),
    "HTTP/1": (b"HTTP/1.1 400 Bad Request\r\n\r\n", cri.INTERNAL, "does not speak HTTP/2"),
    "reset": (frame(3, 0, 1, b"\0\0\0\x07"), cri.UNAVAILABLE, "HTTP/2 error 7"),
    "reset, cut off": (frame(3, 0, 1, b"\0\0"), cri.INTERNAL, "cut off"),
    "goaway, cut off": (frame(7, 0, 0, b"\0\0\0\0"), cri.INTERNAL, "cut off"),
    "headers, cut off": (frame(1, 0x5, 1, b"\x00\x01a"), cri.INTERNAL, "cut off"),
    "goaway": (frame(7, 0, 0, b"\0\0\0\0\0\0\0\x0b"), cri.UNAVAILABLE, "HTTP/2 error 11"),
    "compressed": (
        frame(1, 0x4, 1, b"\x88")
        + frame(0, 0, 1, b"\x01\0\0\0\x01x")
        + frame(1, 0x5, 1, header("grpc-status", "0")),
        cri.INTERNAL,
        "not one uncompressed",
    ),
}


@pytest.mark.parametrize("what", sorted(BAD_ANSWERS))
def test_answers_that_are_errors(runtime, what):
    reply, code, said = BAD_ANSWERS[what]
    with pytest.raises(cri.CriError) as caught:
        cri.call_unary(runtime(reply).path, "s", "M", b"", 5)
    assert caught.value.code == code
    assert said in caught.value.message


def test_the_servers_own_sentence_is_kept_apart(runtime):
    with pytest.raises(cri.CriError) as caught:
        cri.call_unary(runtime(answer(None, "5", "no%20such%20thing")).path, "s", "M", b"", 5)
    assert (caught.value.said, "thing" in caught.value.message) == ("no such thing", False)


def test_no_answer_ends_at_the_limit(runtime):
    with pytest.raises(cri.CriError) as caught:
        cri.call_unary(runtime(None).path, "s", "M", b"", 0.1)
    assert caught.value.code == cri.DEADLINE


def test_nobody_listens(tmp_path):
    with pytest.raises(cri.CriError) as caught:
        cri.call_unary(str(tmp_path / "none.sock"), "s", "M")
    assert caught.value.code == cri.UNAVAILABLE
    assert "none.sock" in caught.value.message


# --- the two questions
# --------------------------------------------------------------------------------------------------


def test_status(runtime):
    config = {
        "enableCDI": True,
        "registry": {"configs": {"r": {"auth": {"password": "hunter2"}}}},
        "cdiSpecDirs": ["/etc/cdi", "a b"],
    }
    found = cri.read_cri_status(runtime(answer(status_message(config, ["", "nvidia"]))).path)
    assert found["service"] == "runtime.v1.RuntimeService"
    assert found["handlers"] == ["", "nvidia"]
    assert found["info"]["config"]["enableCDI"] is True


def test_of_a_status_only_what_is_listed_leaves_the_host(runtime):
    config = {
        "enableCDI": True,
        "registry": {"configs": {"r": {"auth": {"password": "hunter2"}}}},
        "cdiSpecDirs": ["/etc/cdi", "a b"],
    }
    keep = [[["config", "enableCDI"], "bool"], [["config", "cdiSpecDirs"], "paths"]]
    found = cri_queries.select_status(
        cri.read_cri_status(
            runtime(answer(status_message(config, ["", "nvidia", "user:pw@host"]))).path
        ),
        keep,
    )
    assert found["info"] == {"config": {"enableCDI": True, "cdiSpecDirs": ["/etc/cdi", "(hidden)"]}}
    assert found["handlers"] == ["", "nvidia", "(hidden)"]
    assert found["conditions"] == [{"type": "RuntimeReady", "status": True, "reason": ""}]
    assert found["runtime"] == {"RuntimeReady": True}
    said = {
        "conditions": [{"type": "at user:pw@host", "status": True, "reason": "a b"}],
        "handlers": [],
        "info": {},
    }
    quoting = cri_queries.select_status(said, keep)
    assert (quoting["conditions"], quoting["runtime"]) == (
        [{"type": "(hidden)", "status": True, "reason": "(hidden)"}], {"(hidden)": True},
    )  # fmt: skip


def test_an_old_runtime_is_asked_by_the_old_name(runtime):
    server = runtime(answer(None, "12", "unknown service runtime.v1.RuntimeService"), answer(OK))
    assert cri.read_cri_status(server.path)["service"] == "runtime.v1alpha2.RuntimeService"


def test_a_runtime_without_cri_says_so(runtime):
    with pytest.raises(cri.CriError) as caught:
        cri.read_cri_status(runtime(answer(None, "12", "unknown service")).path)
    assert caught.value.code == cri.UNIMPLEMENTED


def test_info_that_is_no_json_stays_text(runtime):
    message = grpc_wire.encode_fields(
        [
            (2, 2, [(1, 2, "golang"), (2, 2, "go1.22")]),
            (2, 2, [(1, 2, "n"), (2, 2, base64.b64encode(b"x"))]),
        ]
    )
    assert cri.read_cri_status(runtime(answer(message)).path)["info"]["golang"] == "go1.22"


def test_version(runtime):
    message = grpc_wire.encode_fields([(1, 2, "0.1.0"), (2, 2, "containerd"), (3, 2, "v2.3.4")])
    found = cri.read_cri_version(runtime(answer(message)).path)
    assert (found["runtime_name"], found["runtime_version"]) == ("containerd", "v2.3.4")


def pod(namespace, name, handler, state=0):
    metadata = [(1, 2, name), (2, 2, "uid"), (3, 2, namespace)]
    return (
        1,
        2,
        [(1, 2, "f00"), (2, 2, metadata)] + ([(3, 0, state)] if state else []) + [(7, 2, handler)],
    )


def test_pods_of_a_handler_and_of_no_other(runtime):
    message = grpc_wire.encode_fields(
        [
            pod("ml", "train-0", "nvidia"),
            pod("default", "secret-project", ""),
            pod("ml", "done", "nvidia", state=1),
            pod("kube-system", "a b\x1b[2J", "nvidia"),
        ]
    )
    assert cri_queries.list_ready_pods(runtime(answer(message)).path, ["nvidia"]) == {
        "pods": ["kube-system/(hidden)", "ml/train-0"]
    }


def noted(info):
    return answer(
        grpc_wire.encode_fields(
            [(1, 2, [(1, 2, "f00")]), (2, 2, [(1, 2, "info"), (2, 2, json.dumps(info))])]
        )
    )


def test_a_handler_that_the_list_of_pods_does_not_tell_is_looked_up_pod_by_pod(runtime):
    listed = answer(
        grpc_wire.encode_fields(
            [pod("ml", "a", ""), pod("ml", "b", ""), pod("ml", "c", ""), pod("ml", "d", "runc")]
        )
    )
    told = [{"runtimeSpec": {"annotations": {"handler": name}}} for name in ("nvidia", "")]
    server = runtime(listed, noted(told[0]), noted(told[1]), noted({"runtimeSpec": None}))
    assert cri_queries.list_ready_pods(server.path, ["nvidia"], "handler") == {"pods": ["ml/a"]}


def test_of_pods_that_are_counted_only_numbers_are_told_stopped_ones_too(runtime):
    message = grpc_wire.encode_fields(
        [
            pod("ml", "train-0", "nvidia"),
            pod("ml", "done", "nvidia", state=1),
            pod("default", "secret-project", ""),
            pod("gpu-operator", "nvidia-container-toolkit-daemonset-x7k2p", "", state=1),
            pod("ml", "sandboxed", "kata"),
        ]
    )
    found = cri_queries.count_sandboxes(
        runtime(answer(message), in_namespace(HOSTS)).path,
        ["nvidia", "nvidia-cdi"],
        ["nvidia-container-toolkit-daemonset"],
    )
    assert found == {
        "handlers": {"": 2, "nvidia": 2, "nvidia-cdi": 0},
        "named": {"nvidia-container-toolkit-daemonset": 1},
        "own_pids": {},
    }


# NamespaceMode of api.proto
OWN, HOSTS = 1, 2


def in_namespace(mode):
    """The status of a pod with this mode of its PID namespace; without one, a pod's is zero."""
    options = [(2, 0, mode)] if mode else [(1, 0, HOSTS)]
    return answer(grpc_wire.encode_fields([(1, 2, [(6, 2, [(1, 2, [(2, 2, options)])])])]))


@pytest.mark.parametrize(
    ("status", "named", "own"),
    [
        (in_namespace(HOSTS), 1, 0),
        (in_namespace(OWN), 0, 1),
        (in_namespace(0), 0, 1),
        (answer(b""), 1, 0),  # a runtime that says nothing of namespaces
        (answer(None, "5", "not%20found"), 1, 0),
    ],
)
def test_a_name_counts_only_for_a_pod_that_may_be_in_the_hosts_pids(runtime, status, named, own):
    listed = answer(grpc_wire.encode_fields([pod("ml", "toolkit-x", "runc")]))
    found = cri_queries.count_sandboxes(
        runtime(listed, status).path, ["runc"], ["toolkit"], uids=["uid", "other"]
    )
    assert found == {
        "handlers": {"": 0, "runc": 1},
        "named": {"toolkit": named},
        "own_pids": {"uid": own, "other": 0},
    }


def test_pods_are_counted_by_their_own_word_where_the_list_does_not_tell_their_handler(runtime):
    listed = answer(grpc_wire.encode_fields([pod("ml", "a", "", state=1), pod("ml", "b", "")]))
    told = [{"runtimeSpec": {"annotations": {"handler": name}}} for name in ("nvidia-cdi", "")]
    found = cri_queries.count_sandboxes(
        runtime(listed, noted(told[0]), noted(told[1])).path, ["nvidia-cdi"], (), "handler"
    )
    assert found == {"handlers": {"": 1, "nvidia-cdi": 1}, "named": {}, "own_pids": {}}


def test_a_pod_that_is_removed_between_the_list_and_its_status_uses_no_handler(runtime):
    listed = answer(grpc_wire.encode_fields([pod("ml", "a", ""), pod("ml", "b", "")]))
    other = noted({"runtimeSpec": {"annotations": {"handler": "nvidia"}}})
    gone = answer(None, "5", "not%20found")
    found = cri_queries.count_sandboxes(
        runtime(listed, gone, other, in_namespace(HOSTS)).path, ["nvidia"], ["a", "b"], "handler"
    )
    assert found == {"handlers": {"": 0, "nvidia": 1}, "named": {"a": 0, "b": 1}, "own_pids": {}}
    assert cri_queries.list_ready_pods(
        runtime(listed, gone, other).path, ["nvidia"], "handler"
    ) == {"pods": ["ml/b"]}


def test_a_status_of_a_pod_that_fails_otherwise_is_an_error(runtime):
    listed = answer(grpc_wire.encode_fields([pod("ml", "a", "")]))
    with pytest.raises(cri.CriError):
        cri_queries.count_sandboxes(
            runtime(listed, answer(None, "13", "late")).path, ["nvidia"], (), "handler"
        )


def test_info_that_is_nested_too_deep_is_an_error_of_the_call(runtime):
    message = grpc_wire.encode_fields([(2, 2, [(1, 2, "config"), (2, 2, "[" * 200000)])])
    with pytest.raises(cri.CriError) as caught:
        cri.read_cri_status(runtime(answer(message)).path)
    assert caught.value.code == cri.INTERNAL
