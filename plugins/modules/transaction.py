#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hands as a module, for connections that cannot feed a program to a host over stdin. No newer syntax than Python 3.6's."""

DOCUMENTATION = r"""
module: transaction
short_description: Apply file, package and unit changes as one transaction
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Plumbing of this collection. Its actions send the same program over the connection's stdin where they can, which is faster; where they
    cannot, or with O(gpufleet.nvidia.node#module:transport=module), they use this module.
    Use M(gpufleet.nvidia.node) to change a host.
  - Checks that files, units and packages still are what was seen, lets a program validate the staged files, writes them, restarts units,
    waits until they serve, and takes everything back if they do not.
extends_documentation_fragment:
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.changes
attributes:
  action:
    support: none
  diff_mode:
    support: none
    details:
      - The actions show differences; this module is told what to write and not what a person should read.
options:
  request:
    description:
      - The transaction, as base64 of zlib-compressed JSON. Compressed, since a module's arguments end up in logs of many kinds.
    type: str
    required: true
seealso:
  - module: gpufleet.nvidia.node
"""

EXAMPLES = r"""
- name: Carry out a transaction without changes (the other modules write such requests)
  gpufleet.nvidia.transaction:
    # {"schema": 1, "id": "0123456789abcdef0123456789abcdef", "root": "/", "check": true, "changes": []}
    request: eJyrVipOzkjNTVSyUjDUUVDKTAEylAwMjYxNTM3MLSwTk5JTUtPQ+UpAlUX5+SUgtfogDtCI5Gwgr6SoNBXMTcxLTy0GCkTH1gIAFaIbPA==
"""

RETURN = r"""
answer:
  description: What was done, or why not, written like O(request).
  returned: always
  type: str
  sample: eJyrVipOzkjNTVSyUjCsBQAflQQ5
"""

import base64
import json
import zlib

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.nvidia.plugins.module_utils import transaction


def main():
    module = AnsibleModule(argument_spec={"request": {"type": "str", "required": True, "no_log": True}}, supports_check_mode=True)
    try:
        request = json.loads(zlib.decompress(base64.b64decode(module.params["request"])).decode("utf-8"))
    except (ValueError, zlib.error) as exc:
        module.fail_json(msg=f"the request is not base64 of zlib-compressed JSON: {exc}")
    answer = transaction.run(dict(request, check=module.check_mode or request.get("check", False)))
    # A transaction that failed is an answer, too: the action makes the error out of it.
    packed = base64.b64encode(zlib.compress(json.dumps(answer).encode("utf-8"))).decode("ascii")
    module.exit_json(changed=answer["changed"], answer=packed)


if __name__ == "__main__":
    main()
