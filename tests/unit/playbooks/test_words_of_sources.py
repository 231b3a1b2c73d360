# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller takes nothing else that it reads for a template either: registries, indexes of
packages, Kubernetes' API, Slurm, plan files, reports.
"""

from __future__ import annotations

import http.server
import json
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.draws import count_examples
from tests.unit.playbooks import bare, hostile_python
from tests.unit.playbooks.bare import written
from tests.unit.playbooks.liars import read

TRIES = count_examples(8)  # of each source
WORDS = "{{ lookup('pipe', 'touch rendered') }}"
DIGEST = "sha256:" + "a" * 64
# An answer of each source as it is when it is honest, which the lies are made of.
REGISTRY: dict[str, Any] = {
    "schemaVersion": 2,
    "mediaType": "application/vnd.oci.image.manifest.v1+json",
    "config": {
        "digest": DIGEST,
        "size": 2,
        "mediaType": "application/vnd.oci.image.config.v1+json",
    },
    "tags": ["1", "2"],
    "errors": [{"code": "DENIED", "message": "no"}],
}
NODE: dict[str, Any] = {
    "kind": "Node",
    "apiVersion": "v1",
    "metadata": {
        "name": "gpu1",
        "uid": "u1",
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "resourceVersion": "7",
    },
    "spec": {
        "taints": [{"key": "k", "effect": "NoSchedule", "value": "v"}],
        "unschedulable": False,
    },
    "status": {"conditions": [{"type": "Ready", "status": "True", "message": "fine"}]},
}
PLAN: dict[str, Any] = {
    "schema": 1,
    "made": "2026-01-01T00:00:00Z",
    "hosts": {"gpu1": {"class": "c", "state": "do", "why": ""}},
}
REPORT: dict[str, Any] = {
    "schema": 1,
    "playbook": "plan",
    "at": "2026-01-01T00:00:00Z",
    "totals": {"hosts": 1, "failed": 0},
    "hosts": [
        {
            "name": "gpu1",
            "word": "no",
            "row": {"engine": "containerd", "gpus": "8x H100", "why": "CDI"},
            "differences": [],
        }
    ],
}
# Stands for kubernetes.core: the node as each call in turn is told it, or a failure in such words.
K8S = """
import json
from ansible.module_utils.basic import AnsibleModule
NAMES = ("kubeconfig context api_version kind name namespace label_selectors field_selectors resource_definition apply "
         "server_side_apply state merge_type definition wait host api_key validate_certs").split()
module = AnsibleModule(argument_spec={name: {"type": "raw"} for name in NAMES}, supports_check_mode=True)
answers = json.load(open(FILE))
with open(FILE + ".asked", "a") as asked:
    answer = answers[asked.tell() % len(answers)]
    asked.write("x")
if isinstance(answer, str):
    module.fail_json(msg=answer, exception=answer, reason=answer)
module.exit_json(resources=[answer] if module.params["kind"] == "Node" else [], api_found=True, changed=False, result=answer)
"""
SLURM = """#!/bin/sh
printf x >> '{place}/slurm-asked'
n=$(( $(wc -c < '{place}/slurm-asked') % 4 ))
cat '{place}/slurm-'$n
cat '{place}/slurm-'$n >&2
exit $(( n / 3 ))
"""


def lies(answer: Any, draw: random.Random) -> Any:
    """Give an answer with templates in it."""
    return hostile_python.lie(json.loads(json.dumps(answer)), draw)


@pytest.fixture(autouse=True)
def templates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the templates make a file where the playbook runs."""
    monkeypatch.setattr(
        hostile_python,
        "TEMPLATES",
        (WORDS, f"x {WORDS}", "{% set x = lookup('pipe', 'touch rendered') %}"),
    )


@pytest.fixture
def server() -> Iterator[str]:
    """Answer each request as a registry or a mirror that lies: in the status, the headers and the
    body.
    """
    draw = random.Random(7)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, told = (
                draw.choice((200, 200, 200, 401, 404, 500)),
                json.dumps(lies(REGISTRY, draw)),
            )
            self.send_response(status, draw.choice((None, WORDS)))
            self.send_header("Content-Type", draw.choice(("application/json", WORDS)))
            self.send_header("WWW-Authenticate", f'Bearer realm="{WORDS}",service="{WORDS}"')
            self.end_headers()
            self.wfile.write(draw.choice((told, WORDS)).encode())

        def log_message(self, *_words: Any) -> None:
            pass

    played = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=played.serve_forever, args=(0.01,), daemon=True).start()
    yield f"127.0.0.1:{played.server_port}"
    played.shutdown()
    played.server_close()


def sources(place: Path, address: str) -> dict[str, dict[str, Any]]:
    """Give a task of this collection for each source; `item` numbers the tries."""
    draw = random.Random(3)
    for number in range(TRIES):
        for name, honest in (("plan", PLAN), ("report", REPORT)):
            text = json.dumps(lies(honest, draw)) if number else WORDS
            written(place / f"{name}-{number}.json", text)
    stub = place / "stub/ansible_collections/kubernetes/core/plugins/modules"
    stub.mkdir(parents=True)
    written(place / "nodes.json", json.dumps([WORDS, *(lies(NODE, draw) for _n in range(TRIES))]))
    for name in ("k8s", "k8s_info"):
        written(stub / f"{name}.py", K8S.replace("FILE", repr(str(place / "nodes.json"))))
    for number in range(4):
        written(
            place / f"slurm-{number}",
            f"NodeName={('gpu1', WORDS)[number % 2]} State=IDLE{WORDS} Reason={WORDS} {WORDS}=1\n{WORDS}\n",
        )
    (place / "bin").mkdir()
    written(place / "bin/scontrol", SLURM.replace("{place}", str(place))).chmod(0o755)
    image = f"{address}/team/app"
    catalogue = {
        "schema": 1,
        "images": [
            {"name": "app", "image": f"{image}:1"},
            {"name": "tags", "image": f"{image}:1", "requires": {}},
        ],
    }
    written(
        place / "facts.json",
        json.dumps({"driver": "550.54.14", "gpus": [{"model": WORDS, "device": "0x20b2"}]}),
    )
    # of a file: what stands in a playbook is the user's own
    facts = f"{{{{ lookup('file', '{place}/facts.json') | from_json }}}}"
    drain = {
        "policy": "always",
        "kubernetes_node": "gpu1",
        "slurm_node": "gpu1",
        "interval": 1,
        "timeout": 1,
        "state": "checked",
    }
    return {
        "plan": {
            "playbook_step": {
                "step": "rollout_settings",
                "approved": f"{place}/plan-{{{{ item }}}}.json",
            }
        },
        "report": {
            "fleet_report": {
                "sources": [f"{place}/report-{{{{ item }}}}.json"],
                "directory": str(place / "out"),
            }
        },
        "registry": {
            "image_choice_info": {
                "catalogue": catalogue,
                "facts": facts,
                "registry": True,
                "registry_plain_http": [address],
                "nothing_fits": "report",
            }
        },
        "facts": {
            "image_choice_info": {
                "catalogue": {**catalogue, "images": [{"name": "a", "image": "r.example.org/a:1"}]},
                "facts": facts,
            }
        },
        "packages": {
            "bundle": {
                "file": str(place / "bundle.tar"),
                "url": f"http://{address}",
                "key": "no key",
            }
        },
        "kubernetes": {"drain": {**drain, "by": ["kubernetes"]}},
        "slurm": {"drain": {**drain, "by": ["slurm"]}},
    }


def test_no_word_of_a_source_is_rendered(server: str, tmp_path: Path) -> None:
    tasks: list[dict[str, Any]] = []
    found = sources(tmp_path, server)
    for name, given in found.items():
        ((module, options),) = given.items()
        common = {"loop": "{{ range(%d) | list }}" % TRIES, "ignore_errors": True, "no_log": True}  # noqa: UP031
        tasks += [{f"gpufleet.nvidia.{module}": options, "register": name, **common}, *read(name)]
        tasks.append(
            {
                "debug": {
                    "msg": f"{name}: {{{{ {name}.results | length }}}} {{{{ {name} | to_json is search('touch rendered') }}}}"
                }
            }
        )
    play = {"hosts": "gpu1", "gather_facts": False, "tasks": tasks}
    book = written(tmp_path / "play.yml", yaml.safe_dump([play]))
    inventory = written(
        tmp_path / "hosts.yml",
        yaml.safe_dump({"all": {"hosts": {"gpu1": bare.variables(tmp_path, "gpu1")}}}),
    )
    paths = {
        "ANSIBLE_COLLECTIONS_PATH": f"{tmp_path / 'stub'}:{os.environ['ANSIBLE_COLLECTIONS_PATH']}",
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
    }
    status, words = bare.run(tmp_path, "ansible-playbook", "-i", inventory, book, **paths)
    assert not (tmp_path / "rendered").exists(), words
    assert status == 0, words
    assert [name for name in found if f"{name}: {TRIES} " not in words] == [], words
    assert [
        name for name in ("kubernetes", "slurm") if f"{name}: {TRIES} True" not in words
    ] == [], "those that quote words"
