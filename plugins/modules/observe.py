#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The eyes as a module, for connections that cannot feed a program to a host over stdin. No newer syntax than Python 3.6's."""

DOCUMENTATION = r"""
module: observe
short_description: Answer a list of questions about a host
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Plumbing of this collection. Its actions send the same program over the connection's stdin where they can, which is faster; where they
    cannot, or with O(gpufleet.nvidia.node#module:transport=module), they use this module.
    Use M(gpufleet.nvidia.node_info) to look at a host.
  - Reads files, directories, packages, processes, units and sockets, and runs the commands that the questions name. A question that fails
    has an error for an answer.
extends_documentation_fragment:
  - gpufleet.nvidia.attributes
attributes:
  action:
    support: none
  check_mode:
    support: partial
    details:
      - With O(program=observe) nothing is changed in any mode. With O(program=container_check) containers are started and removed again, so
        nothing is done in check mode.
  diff_mode:
    support: N/A
    details:
      - This action does not modify state.
  idempotent:
    support: full
options:
  request:
    description:
      - The questions, as base64 of zlib-compressed JSON. Compressed, since a module's arguments end up in logs of many kinds.
    type: str
    required: true
  program:
    description:
      - V(observe) answers questions.
      - V(container_check) starts test containers through an engine and takes them away again; not in check mode.
    type: str
    choices:
      - observe
      - container_check
    default: observe
seealso:
  - module: gpufleet.nvidia.node_info
  - module: gpufleet.nvidia.node_check
"""

EXAMPLES = r"""
- name: Ask for one file (the other modules write such requests; a person uses ansible.builtin.slurp)
  gpufleet.nvidia.observe:
    # {"schema": 1,
    #  "questions": [{"id": "a", "kind": "file", "path": "/etc/hosts", "keep": {"format": "whole"}}]}
    request: eNoVijsOgCAQBe/yahJiy1WMxQaXQJSP7hoLwt3FbiYzHeIjZ4JbDK6HRVMtArd2pB0OBIMjlR9DOnlaI43TLKu3sYrKfzA3uI5Q70w66xvrnMfYxgfvVh+Z
  register: seen
"""

RETURN = r"""
answer:
  description: The answers, written like O(request).
  returned: success, except with O(program=container_check) in check mode
  type: str
  sample: eJyrVipOzkjNTVSyUjCsBQAflQQ5
"""

import base64
import json
import zlib

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.nvidia.plugins.module_utils import container_check, observe


def main():
    module = AnsibleModule(
        argument_spec={
            "request": {"type": "str", "required": True, "no_log": True},
            "program": {"type": "str", "choices": ["observe", "container_check"], "default": "observe"},
        },
        supports_check_mode=True,
    )
    try:
        request = json.loads(zlib.decompress(base64.b64decode(module.params["request"])).decode("utf-8"))
    except (ValueError, zlib.error) as exc:
        module.fail_json(msg=f"the request is not base64 of zlib-compressed JSON: {exc}")
    if module.check_mode and module.params["program"] == "container_check":
        module.exit_json(changed=False, skipped=True, msg="containers would be started and removed again")
    program = {"observe": observe, "container_check": container_check}[module.params["program"]]
    answer = json.dumps(program.run(request)).encode("utf-8")
    module.exit_json(changed=False, answer=base64.b64encode(zlib.compress(answer)).decode("ascii"))


if __name__ == "__main__":
    main()
