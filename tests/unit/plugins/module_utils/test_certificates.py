# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which certificates a file holds, as a digest that hosts of one cluster share; nothing else of the file leaves the host."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._node import file_queries, observe
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.fleet import rollout, settings, work

from tests.unit.plugins.plugin_utils.fleet.test_rollout import CHANGE, looked


def pem(*bodies: str, kind: str = "CERTIFICATE") -> bytes:
    return "".join(f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n" for body in bodies).encode()


ONE = hashlib.sha256(b"QUJD").hexdigest()
CASES = [
    (pem("QUJD"), ONE),
    (b"# the CA\n" + pem("QU\nJD").replace(b"\n", b"\r\n"), ONE),
    (pem("QUJD") + pem("c2VjcmV0", kind="PRIVATE KEY"), ONE),
    (b"password: secret\n" + pem("QUJD"), ONE),
    (b"password: secret\n", None),
    (pem("c2VjcmV0", kind="PRIVATE KEY"), None),
    (b"", None),
]


@pytest.mark.parametrize(("data", "digest"), CASES)
def test_certificates_alone_make_the_digest(data: bytes, digest: str | None) -> None:
    assert file_queries.certificates(data) == digest


def test_the_order_of_certificates_makes_no_difference_and_which_they_are_does() -> None:
    assert file_queries.certificates(pem("QUJD", "REVG")) == file_queries.certificates(pem("REVG", "QUJD"))
    assert file_queries.certificates(pem("QUJD", "REVG")) != file_queries.certificates(pem("QUJD"))


@pytest.mark.skipif(os.geteuid() != 0, reason="whose a file is counts from root on")
def test_the_first_file_that_is_there_answers_and_one_of_somebody_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "etc/kubernetes/pki/ca.crt"
    path.parent.mkdir(parents=True)
    path.write_bytes(pem("QUJD"))
    request = {"schema": 1, "root": "/", "questions": [{**work.CLUSTER, "paths": [str(tmp_path / "absent"), str(path)]}]}
    answer = observe.run(request)["answers"]["certificates:cluster"]
    assert answer == {"path": str(path), "sha256": ONE}
    os.chown(path, 1000, 1000)
    assert "error" in observe.run(request)["answers"]["certificates:cluster"]


def test_each_cluster_has_its_own_limit_and_the_name_in_the_inventory_counts_first() -> None:
    hosts = {f"g{n}": looked(CHANGE, work={"cluster": f"ca-{n % 2}"}) for n in range(4)}
    wanted = settings.of({"max_unavailable": 1, "waves": "100%", "canaries": 0})
    assert [len(b.hosts) for b in rollout.plan(rollout.Fleet(hosts), wanted).batches] == [2, 2]
    named = {name: {"gpufleet_cluster": "one"} for name in hosts}
    assert [len(b.hosts) for b in rollout.plan(rollout.Fleet(hosts, named), wanted).batches] == [1, 1, 1, 1]
