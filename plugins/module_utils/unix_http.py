# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One HTTP request over a unix socket, as the engines' own endpoints want it. Node side: standard library only, Python 3.6."""

import json
import socket

from ansible_collections.gpufleet.nvidia.plugins.module_utils import nodefs, trust


def ask(path, method, target, timeout, body=None, cap=None):
    """(status, the first `cap` bytes of the answer); NodeError when there is none. body: what is sent as JSON."""
    import http.client  # here, since few hosts need it, and it takes a tenth of a look's time to load

    client = http.client.HTTPConnection("localhost", timeout=timeout)
    try:
        client.sock = trust.connect(path, timeout)
        data = None if body is None else json.dumps(body).encode("utf-8")
        client.request(method, target, body=data, headers={"Content-Type": "application/json", "Connection": "close"})
        response = client.getresponse()
        return response.status, response.read(cap)
    except socket.timeout:
        raise nodefs.NodeError("timeout", "%s: no answer to %s %s within %g s" % (path, method, target, timeout))
    except OSError as exc:
        raise nodefs.from_os_error(exc, path)
    except http.client.HTTPException as exc:
        raise nodefs.NodeError("failed", "%s: %s %s: %s %s" % (path, method, target, type(exc).__name__, exc))
    finally:
        client.close()
