# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which addresses modules reach: those of docs/hardening.md, and no others.

Every module runs, with a proxy that records each address and refuses it. Each Python process of
Ansible also records the addresses that it connects to by itself, and the names that it looks up, so
that a module which takes no proxy is seen as well.
"""

from __future__ import annotations

import ast
import http.server
import json
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit import repository_keys
from tests.unit.playbooks import bare

ROOT = Path(__file__).resolve().parents[3]
HOST_SIDE = ROOT / "plugins/module_utils/_host"
MODULES = {path.stem for path in (ROOT / "plugins/modules").glob("*.py")}
# What records in every Python process of Ansible. The programs of hosts run isolated, without it.
RECORDER = """import json, os, sys
def record(event, values):
    if event in ("socket.connect", "socket.sendto") and isinstance(values[1], tuple):
        note(values[1][0], values[1][1])
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        note(values[0], 0)
def note(name, port):
    with open(os.environ["RECORDED"], "a") as opened:
        opened.write(json.dumps([str(name), port]) + "\\n")
sys.addaudithook(record)
"""
MIRROR, REGISTRY, REPORTS = "mirror.example", "registry.example", "reports.example"
NVIDIA = "nvidia.github.io"
TREE = {"root": "{{ gpufleet_root }}"}
KEY = repository_keys.armor(repository_keys.OLD)
AWX = {"inventory": "gpus", "project_url": "https://git.example/gpus.git"}
IMAGE = {"schema": 1, "images": [{"name": "a", "image": f"{REGISTRY}/a:1"}]}
# Module, its options, and the addresses that it tries to reach. A failure is right: the proxy refuses.
TASKS: list[tuple[str, Mapping[str, Any], set[str]]] = [
    ("host_info", {**TREE, "engine_version": "1.7.24", "no_gpu": "prepare"}, {NVIDIA}),
    ("host", {**TREE, "engine_version": "1.7.24", "no_gpu": "prepare"}, {NVIDIA}),
    (
        "host",
        {**TREE, "engine_version": "1.7.24", "no_gpu": "prepare", "packages": "ignore"},
        set(),
    ),
    ("toolkit_repository", TREE, {NVIDIA}),
    ("toolkit_packages", TREE, {NVIDIA}),
    ("containerd_runtime", {**TREE, "engine_version": "1.7.24"}, set()),
    ("crio_runtime", {**TREE, "engine_version": "1.31.2"}, set()),
    ("docker_runtime", {**TREE, "engine_version": "28.1.1"}, set()),
    ("toolkit_config", TREE, set()),
    ("oci_hook", TREE, set()),
    ("cdi_spec", TREE, set()),
    ("cdi_spec_info", TREE, set()),
    ("device_nodes", TREE, set()),
    ("gpu_health_info", TREE, set()),
    ("gpu_diagnose", TREE, set()),
    ("host_verify", {"image": "busybox"}, set()),
    ("image_choice_info", {**TREE, "catalogue": IMAGE}, set()),
    ("image_choice_info", {**TREE, "catalogue": IMAGE, "registry": True}, {REGISTRY}),
    ("variables_check", {}, set()),
    ("failed_hosts_check", {}, set()),
    ("fleet_table", {"results": "made_host_info"}, set()),
    ("fleet_report", {"results": "made_host_info", "directory": "{{ place }}/report"}, set()),
    (
        "fleet_report",
        {
            "results": "made_host_info",
            "directory": "{{ place }}/report",
            "publish": f"https://{REPORTS}/gpu/",
        },
        {REPORTS},
    ),
    (
        "fleet_image_report",
        {"results": "made_image_choice_info", "directory": "{{ place }}/images"},
        set(),
    ),
    ("kubernetes_objects", {"results": "made_host_info", "dir": "{{ place }}/objects"}, set()),
    ("drain", {"policy": "never"}, set()),
    ("awx", {**AWX, "file": "{{ place }}/awx.yml"}, set()),
    ("bundle", {"file": "{{ place }}/bundle.tar"}, {NVIDIA}),
    (
        "bundle",
        {"file": "{{ place }}/bundle.tar", "url": f"https://{MIRROR}/apt", "key": KEY},
        {MIRROR},
    ),
]
# They are steps of other modules and playbooks, and no user calls them.
INTERNAL = {"host_program", "playbook_step"}


class RecordingProxy(http.server.BaseHTTPRequestHandler):
    """Record where a request wants to go, and refuse it."""

    wanted: list[str] = []

    def refuse(self) -> None:
        address = re.sub(r"^\w+://", "", self.path).partition("/")[0]
        self.wanted.append(address.rpartition(":")[0] or address)
        self.send_error(502)

    do_CONNECT = do_GET = do_PUT = do_POST = do_HEAD = refuse

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class names it so)
        """Keep the output of the test as it is."""


@pytest.fixture
def proxy() -> Iterator[str]:
    RecordingProxy.wanted.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), RecordingProxy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def build_play(tasks: list[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    return [
        {
            "hosts": "gpu1",
            "gather_facts": False,
            "tasks": [
                {
                    "name": f"{number} {module}",
                    f"gpufleet.nvidia.{module}": dict(options),
                    "ignore_errors": True,
                    "register": f"made_{module}",
                    # a report is published by a run that changes something
                    "check_mode": "publish" not in options,
                }
                for number, (module, options) in enumerate(tasks)
            ],
        }
    ]


def run_tasks(
    place: Path, proxy: str, tasks: list[tuple[str, Mapping[str, Any]]]
) -> tuple[set[str], set[str], str]:
    """Run tasks, and return what the proxy was asked for, what was reached beside it, and the
    output.
    """
    (place / "recorder").mkdir()
    (place / "recorder/sitecustomize.py").write_text(RECORDER)
    (place / "recorded").write_text("")
    variables = {**bare.variables(place, "gpu1"), "place": str(place)}
    release = Path(variables["gpufleet_root"]) / "etc/os-release"
    release.write_text('ID=debian\nVERSION_ID="12"\n')
    inventory = bare.written(
        place / "hosts.yml", yaml.safe_dump({"all": {"hosts": {"gpu1": variables}}})
    )
    playbook = bare.written(place / "play.yml", yaml.safe_dump(build_play(tasks)))
    names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
    _status, words = bare.run(
        place, "ansible-playbook", "-i", inventory, playbook,
        **dict.fromkeys(names, f"http://{proxy}"), no_proxy="", NO_PROXY="",
        PYTHONPATH=str(place / "recorder"), RECORDED=str(place / "recorded"),
    )  # fmt: skip
    recorded = [json.loads(line) for line in (place / "recorded").read_text().splitlines()]
    beside = {name for name, port in recorded if name != proxy.partition(":")[0]}
    return set(RecordingProxy.wanted), beside, words


def test_each_module_is_in_the_table() -> None:
    assert {module for module, _options, _reached in TASKS} == MODULES - INTERNAL


def test_modules_reach_the_documented_addresses_and_no_others(tmp_path: Path, proxy: str) -> None:
    tasks = [(module, options) for module, options, _reached in TASKS]
    wanted, beside, words = run_tasks(tmp_path, proxy, tasks)
    assert wanted == set().union(*(reached for _module, _options, reached in TASKS)), words
    assert beside == set()
    assert words.count("TASK [") == len(TASKS)
    assert re.findall(r"\[options\.[a-z-]+\]", words) == [], (
        "a task that says nothing of its module"
    )


def test_modules_that_reach_nothing_ask_for_nothing(tmp_path: Path, proxy: str) -> None:
    quiet = [(module, options) for module, options, reached in TASKS if not reached]
    wanted, beside, words = run_tasks(tmp_path, proxy, quiet)
    assert (wanted, beside) == (set(), set()), words


# The modules of Python 3.6 to 3.14 that reach other machines, or wrap a socket which does.
NETWORK = {
    *("asyncio", "ftplib", "http.client", "http.server", "imaplib", "nntplib", "poplib", "smtplib"),
    *("socketserver", "ssl", "telnetlib", "urllib.request", "xmlrpc.client", "xmlrpc.server"),
}


def find_network(text: str) -> set[str]:
    """Return what of a program can reach another machine."""
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    words = (
        r"\bAF_INET6?\b|\bcreate_connection\b|\bgetaddrinfo\b|\bgethostbyname\w*|\b(?:curl|wget)\b"
    )
    return {*re.findall(words, text), *(imported & NETWORK)}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import json\n", set()),
        ("import urllib.request\n", {"urllib.request"}),
        ("from urllib.request import urlopen\n", {"urllib.request"}),
        ("from urllib import request as r\n", {"urllib.request"}),
        ("def f():\n    from http import client\n", {"http.client"}),
        ("import urllib.parse\n", set()),
        ("socket.create_connection(a)\n", {"create_connection"}),
        ("socket.getaddrinfo(a, 1)\n", {"getaddrinfo"}),
        ("run(['curl', a])\n", {"curl"}),
    ],
)
def test_each_way_to_the_network_is_seen(text: str, found: set[str]) -> None:
    assert find_network(text) == found


def test_one_program_of_hosts_can_reach_others_and_it_asks_for_a_source_of_packages() -> None:
    found = {
        str(path.relative_to(HOST_SIDE)): find_network(path.read_text())
        for path in HOST_SIDE.rglob("*.py")
    }
    assert {name: parts for name, parts in found.items() if parts} == {
        "probes/reach.py": {"urllib.request", "ssl"},
        # spells addresses of the kernel's table, and connects to one port of this very host
        "probes/listeners.py": {"AF_INET", "AF_INET6"},
    }
    text = (HOST_SIDE / "probes/listeners.py").read_text()
    assert text.count("socket.socket(") == text.count(".connect(") == 1
    assert re.findall(r'AF_INET6?, "([^"]+)"', text) == ["127.0.0.1", "::1"]


def test_the_page_names_the_addresses() -> None:
    page = (ROOT / "docs/hardening.md").read_text().partition("## Which addresses")[2]
    assert f"`{NVIDIA}`" in page
    for option in ("toolkit_repository", "image_registry", "report_publish", "rollout_gate_check"):
        assert f"gpufleet_{option}" in page
