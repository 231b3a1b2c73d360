# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The messages of a verification to CRI, against the bytes of the protobuf library."""

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.container_test import (
    entry as container_test_entry,
)

from .conftest import CASE

SANDBOX = {
    "metadata": {"name": "n", "uid": "u", "namespace": "s"},
    "log_directory": "/run/x",
    "labels": {"gpufleet-check": "1"},
    "linux": {
        "cgroup_parent": "system.slice",
        "security_context": {"namespace_options": {"network": 2, "pid": 1}},
    },
}
# Serialised by the protobuf library from k8s.io/cri-api 0.36's api.proto, with the same values.
BYTES = [
    (
        "RunPodSandboxRequest",
        {"config": SANDBOX, "runtime_handler": "special"},
        (
            "0a400a090a016e1201751a01731a062f72756e2f7832130a0e677075666c6565742d636865636b12013142160a0c73797374656d2e736c69636512060a04080210"
            "0112077370656369616c"
        ),
    ),
    (
        "CreateContainerRequest",
        {
            "pod_sandbox_id": "s1",
            "config": container_test_entry.build_container_config(CASE, "i"),
            "sandbox_config": SANDBOX,
        },
        (
            "0a02733112a8010a070a05636865636b12070a0169920101691a072f62696e2f73681a022d631a0e6578656320736c6565702036303032060a0141120131320"
            "60a01421201323a110a022f6312092f6465762f6e756c6c18014a130a0e677075666c6565742d636865636b120131520a0a05612e622f631201645a09636865"
            "636b2e6c6f677a1e121c0a120a054d4b4e4f440a095359535f41444d494e1a04080210012a008a01070a05762f633d301a400a090a016e1201751a01731a062"
            "f72756e2f7832130a0e677075666c6565742d636865636b12013142160a0c73797374656d2e736c69636512060a0408021001"
        ),
    ),
    (
        "ExecSyncRequest",
        {"container_id": "c1", "cmd": ["sh"], "timeout": 300},
        "0a0263311202736818ac02",
    ),
    (
        "ListPodSandboxRequest",
        {"filter": {"label_selector": {"gpufleet-check": "1"}}},
        "0a151a130a0e677075666c6565742d636865636b120131",
    ),
    ("ImageStatusRequest", {"image": {"image": "i"}}, "0a030a0169"),
    ("StopContainerRequest", {"container_id": "c1", "timeout": 0}, "0a026331"),
]
ANSWERS = [
    (
        "ExecSyncResponse",
        "0a026f0a12016518ac02",
        {"stdout": b"o\n", "stderr": b"e", "exit_code": 300},
    ),
    (
        "ListPodSandboxResponse",
        "0a130a036f6c64208094ebdc032a060a01611201620a110a036e65771801208080c6ecc19183bd18",
        {
            "items": [
                {"id": "old", "state": 0, "created_at": 1000000000},
                {"id": "new", "state": 1, "created_at": 1763736000000000000},
            ]
        },
    ),
    (
        "ImageStatusResponse",
        "0a140a087368613235363a3112016920073a030a0169",
        {"image": {"id": "sha256:1"}},
    ),
    ("ImageStatusResponse", "", {"image": None}),
    ("StopContainerResponse", "", {}),
]


@pytest.mark.parametrize("name, values, expected", BYTES, ids=[row[0] for row in BYTES])
def test_requests_are_the_bytes_of_the_protobuf_library(name, values, expected):
    assert container_test_entry.encode_message(name, values).hex() == expected


@pytest.mark.parametrize("name, data, expected", ANSWERS)
def test_answers_are_read_as_the_protobuf_library_wrote_them(name, data, expected):
    assert container_test_entry.decode_message(name, bytes.fromhex(data)) == expected
