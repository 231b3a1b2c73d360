# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which certificates a file holds, as a digest that hosts of one cluster share; nothing else of the
file leaves the host.
"""

import hashlib
import os

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import file_queries, observe


def pem(*bodies, kind="CERTIFICATE"):
    return "".join(
        f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n" for body in bodies
    ).encode()


QUESTION = {"id": "certificates:cluster", "kind": "certificates"}
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
def test_certificates_alone_make_the_digest(data, digest):
    assert file_queries.digest_certificates(data) == digest


def test_the_order_of_certificates_makes_no_difference_and_which_they_are_does():
    assert file_queries.digest_certificates(
        pem("QUJD", "REVG")
    ) == file_queries.digest_certificates(pem("REVG", "QUJD"))
    assert file_queries.digest_certificates(
        pem("QUJD", "REVG")
    ) != file_queries.digest_certificates(pem("QUJD"))


@pytest.mark.skipif(os.geteuid() != 0, reason="whose a file is counts from root on")
def test_the_first_file_that_is_there_answers_and_one_of_somebody_else_is_refused(tmp_path):
    path = tmp_path / "etc/kubernetes/pki/ca.crt"
    path.parent.mkdir(parents=True)
    path.write_bytes(pem("QUJD"))
    request = {
        "schema": 1,
        "root": "/",
        "questions": [{**QUESTION, "paths": [str(tmp_path / "absent"), str(path)]}],
    }
    answer = observe.run(request)["answers"]["certificates:cluster"]
    assert answer == {"path": str(path), "sha256": ONE}
    os.chown(path, 1000, 1000)
    assert "error" in observe.run(request)["answers"]["certificates:cluster"]
