#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host's programs as a module, for connections that cannot feed a program to a host over stdin.
No newer syntax than Python 3.6's.
"""

DOCUMENTATION = r"""
module: host_program
short_description: Run one of the programs by which this collection reads and changes hosts
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Internal. The actions of this collection send the same programs over the connection's stdin where they can, which is faster; where they
    cannot, or with O(gpufleet.nvidia.host#module:transport=module), they use this module. The content of a request is not part of the
    collection's interface and may change in every release.
  - Use M(gpufleet.nvidia.host_info) to look at a host, M(gpufleet.nvidia.host) to change one, and M(gpufleet.nvidia.host_verify) to verify
    one.
extends_documentation_fragment:
  - gpufleet.nvidia.attributes
attributes:
  action:
    support: none
    details:
      - The actions of other modules use this module. It has none of its own.
  check_mode:
    support: partial
    details:
      - With O(program=observe) nothing is changed in any mode.
      - With O(program=transaction) files are staged, validated and discarded.
      - With O(program=acknowledge), O(program=kept_packages) and O(program=container_check) nothing is done in check mode.
  diff_mode:
    support: none
    details:
      - The actions show differences. A request says what to write, and not what a person should read.
  idempotent:
    support: partial
    details:
      - With O(program=transaction) a request names the files as they were seen, so it is refused after it was carried out once.
options:
  program:
    description:
      - V(observe) answers queries and changes nothing.
      - V(transaction) checks that files, units and packages still are what was seen, lets a program validate the staged files, writes
        them, restarts units, waits until they serve, and rolls everything back if they do not.
      - V(acknowledge) notes that a person was told how earlier transactions ended, and removes what such ones have left beside files.
      - V(kept_packages) keeps the files of installed packages, so that a person can go back to them, and removes them again.
      - V(container_check) starts test containers through an engine and removes them again.
    type: str
    choices:
      - observe
      - transaction
      - acknowledge
      - kept_packages
      - container_check
    required: true
  request:
    description:
      - What the program is asked for, as base64 of zlib-compressed JSON. Compressed, since a module's arguments end up in logs of many
        kinds.
    type: str
    required: true
seealso:
  - module: gpufleet.nvidia.host_info
  - module: gpufleet.nvidia.host
  - module: gpufleet.nvidia.host_verify
"""

EXAMPLES = r"""
- name: Ask for one file (the actions write such requests; a person uses ansible.builtin.slurp)
  gpufleet.nvidia.host_program:
    program: observe
    # {"schema": 1,
    #  "questions": [{"id": "a", "kind": "file", "path": "/etc/hosts", "keep": {"format": "whole"}}]}
    request: eNoVijsOgCAQBe/yahJiy1WMxQaXQJSP7hoLwt3FbiYzHeIjZ4JbDK6HRVMtArd2pB0OBIMjlR9DOnlaI43TLKu3sYrKfzA3uI5Q70w66xvrnMfYxgfvVh+Z
  register: seen

- name: Try a transaction without changes
  gpufleet.nvidia.host_program:
    program: transaction
    # {"schema": 1, "id": "0123456789abcdef0123456789abcdef", "root": "/", "check": true, "changes": []}
    request: eJyrVipOzkjNTVSyUjDUUVDKTAEylAwMjYxNTM3MLSwTk5JTUtPQ+UpAlUX5+SUgtfogDtCI5Gwgr6SoNBXMTcxLTy0GCkTH1gIAFaIbPA==
"""

RETURN = r"""
answer:
  description: The program's answer, written like O(request). A transaction that failed is an answer as well.
  returned: success, except with O(program=acknowledge), O(program=kept_packages) and O(program=container_check) in check mode
  type: str
  sample: eJyrVipOzkjNTVSyUjCsBQAflQQ5
"""

import base64
import json
import zlib

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import kept_packages, observe
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.container_test import (
    entry as container_test_entry,
)
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import acknowledge
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    entry as transaction_entry,
)

PROGRAMS = {
    "observe": observe,
    "transaction": transaction_entry,
    "acknowledge": acknowledge,
    "kept_packages": kept_packages,
    "container_check": container_test_entry,
}

# In check mode: what would be done.
SKIPPED = {
    "acknowledge": "the host's journal would note who was told",
    "kept_packages": "files of packages would be kept or removed",
    "container_check": "containers would be started and removed again",
}


def main():
    module = AnsibleModule(
        argument_spec={
            "program": {
                "type": "str",
                "choices": [
                    "observe",
                    "transaction",
                    "acknowledge",
                    "kept_packages",
                    "container_check",
                ],
                "required": True,
            },
            "request": {"type": "str", "required": True, "no_log": True},
        },
        supports_check_mode=True,
    )
    name = module.params["program"]
    try:
        request = json.loads(
            zlib.decompress(base64.b64decode(module.params["request"])).decode("utf-8")
        )
    except (ValueError, zlib.error) as exc:
        module.fail_json(msg=f"the request is not base64 of zlib-compressed JSON: {exc}")
    if module.check_mode and name in SKIPPED:
        module.exit_json(changed=False, skipped=True, msg=SKIPPED[name])
    if name == "transaction":
        request = dict(request, check=module.check_mode or request.get("check", False))
    answer = PROGRAMS[name].run(request)
    packed = base64.b64encode(zlib.compress(json.dumps(answer).encode("utf-8"))).decode("ascii")
    module.exit_json(changed=name == "transaction" and answer["changed"], answer=packed)


if __name__ == "__main__":
    main()
