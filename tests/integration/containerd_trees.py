# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""containerd's configurations for tests: trees with one, the dump that each release makes of it,
and planner and executor in between.

No daemon runs. The binaries are the lab's: Debian's 1.6 and 1.7, and 2.1 to 2.4 built with Go, as
far as this machine can have them.
"""

from __future__ import annotations

import dataclasses as dc
import functools
import hashlib
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host import observe
from ansible_collections.gpufleet.nvidia.plugins.module_utils._host.transaction import (
    entry as transaction_entry,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._controller import base
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core import queries
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.errors import (
    NeedMore,
    Refusal,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.model import (
    Decision,
    Plan,
    Policy,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.observation import (
    Observation,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.adoption import (
    gpu_operator,
    programs,
)
from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.host.engines.containerd import (
    detect as containerd_detect,
)

from tests.fixtures.containerd_releases import PATCH as RELEASES
from tests.fixtures.containerd_releases import is_at_least
from tests.lab import artefacts, doctor, kinds, roots
from tests.unit import builders

NATURAL = {
    2: '"io.containerd.grpc.v1.cri"',
    3: '"io.containerd.cri.v1.runtime"',
    4: '"io.containerd.cri.v1.runtime"',
}


@functools.cache
def binary(release: str) -> Path:
    """Return the path of this release's containerd, which the lab keeps. Skip the test if this
    machine cannot have it.
    """
    if release.startswith("2."):
        if shutil.which("go") is None:
            pytest.skip("containerd 2.x is built with Go, and there is no Go here")
        return artefacts.go_tool(f"containerd-{release}") / "containerd"
    # elsewhere a root that cannot be built is a failure, not a reason to pass over its release
    obstacle = doctor.machine_obstacle()
    if obstacle:
        pytest.skip(f"Debian's containerd {release} comes with the lab's roots: {obstacle}")
    layers = roots.layers(kinds.KINDS[f"containerd-{release}"])
    return next(p for p in (layer / "usr/bin/containerd" for layer in layers) if p.exists())


def dump(release: str, config: Path) -> dict[str, Any]:
    done = subprocess.run(
        [binary(release), "-c", config, "config", "dump"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Ignoring unknown key" not in done.stderr, done.stderr
    return tomllib.loads(done.stdout)


def cri_of(whole: dict[str, Any]) -> dict[str, Any]:
    plugins = whole["plugins"]
    found: dict[str, Any] = (
        plugins.get("io.containerd.cri.v1.runtime") or plugins["io.containerd.grpc.v1.cri"]
    )
    return found


def rest_of(
    whole: dict[str, Any], handlers: tuple[str, ...] = ("nvidia",), keys: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return all of a dump but our keys.

    A runc option that is zero and one that is missing are the same to runc.
    """
    runtimes = cri_of(whole)["containerd"]["runtimes"]
    for name in handlers:
        runtimes.pop(name, None)
    for entry in runtimes.values():
        entry["options"] = {k: v for k, v in (entry.get("options") or {}).items() if v}
        # 1.7 takes the one for the other
        entry["sandbox_mode"] = entry.get("sandbox_mode") or "podsandbox"
    for key in keys:
        cri_of(whole)["containerd"].pop(key, None)
        cri_of(whole).pop(key, None)
    # containerd prints what it loaded, in any order (1.x), and its default (2.2 and newer)
    whole.pop("imports", None)
    return whole


@dc.dataclass
class Tree:
    """A directory with a configuration in it, and the pure planner at work on it."""

    home: Path
    release: str

    def __post_init__(self) -> None:
        self.config = self.home / "etc/containerd/config.toml"
        self.config.parent.mkdir(parents=True)

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            path = self.config.parent / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.replace("@DIR@", str(self.config.parent)).encode())

    def files(self) -> dict[str, str]:
        return {
            str(p): p.read_bytes().decode() for p in sorted(self.home.rglob("*")) if p.is_file()
        }

    def files_without_journal(self) -> dict[str, str]:
        return {path: text for path, text in self.files().items() if "/journal/" not in path}

    def plan(
        self,
        *,
        default: bool = False,
        enable_cdi: bool = False,
        absent: bool = False,
        originals: Any = None,
        **options: Any,
    ) -> Plan:
        policy = Policy(
            config_path=str(self.config),
            root="/tree",
            engine_version=RELEASES[self.release],
            single=True,
            **options,
        )
        obs = builders.obs(files=self.files(), originals=originals)
        (instance,) = containerd_detect.find_instances(
            policy, containerd_detect.read_facts(policy, obs)
        )
        if absent:
            return containerd_detect.plan_absent(
                policy, containerd_detect.read_facts(policy, obs), instance
            )
        return containerd_detect.plan_instance(
            policy,
            containerd_detect.read_facts(policy, obs),
            instance,
            decision(default, enable_cdi),
        )

    def apply(self, plan: Plan) -> None:
        for change in plan.changes:
            path = Path(change["path"])
            if change["op"] == "remove":
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            if change["op"] == "write":
                path.write_bytes(change["content"].encode())
                continue
            lines = path.read_bytes().splitlines(keepends=True)
            for edit in sorted(change["edits"], key=lambda e: e["start"], reverse=True):
                lines[edit["start"] : edit["end"]] = [edit["text"].encode()]
            path.write_bytes(b"".join(lines))
            assert hashlib.sha256(path.read_bytes()).hexdigest() == change["result"]


def decision(default: bool, enable_cdi: bool) -> Decision:
    return Decision(
        instance="",
        engine="containerd",
        engine_version="",
        injection="native-cdi",
        handler="nvidia",
        default=default,
        runtime_mode="cdi",
        annotation_prefixes=("nvidia.cdi.k8s.io/",),
        device_list_strategy=(),
        plugin_annotation_prefix="",
        runtime_class="nvidia",
        enable_cdi=enable_cdi,
        max_cdi_version="",
        hook=False,
        reasons=(),
    )


# A name, and the files; @CRI@ is the release's own CRI table, @V@ the version that goes with it.
DEBIAN = """version = @V@

[plugins]
  [plugins.@CRI@]
    [plugins.@CRI@.cni]
      bin_dir = "/usr/lib/cni"
      conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.internal.v1.opt"]
    path = "/var/lib/containerd"
"""
KUBEADM = """# by hand, do not touch: ask Anna
version = @V@ # keep
oom_score = -999

[plugins.@CRI@]
\tsandbox_image = "registry.example/pause:3.9" # mirror
\t[plugins.@CRI@.containerd]
\t\tsnapshotter = "overlayfs"
\t\t[plugins.@CRI@.containerd.runtimes.runc]
\t\t\truntime_type = "io.containerd.runc.v2"
\t\t\t[plugins.@CRI@.containerd.runtimes.runc.options]
\t\t\t\tSystemdCgroup = true
\t\t\t\t# BinaryName = "/opt/runc"

[debug]
level = "info"
"""
DOTTED = """version = @V@
plugins.@CRI@.containerd.runtimes.runc = { runtime_type = "io.containerd.runc.v2", options = { SystemdCgroup = true } }
"""
BARE = "version = @V@\n"
COMMENTS = "# written by an image's build; nothing is configured\n"


def shapes(release: str) -> dict[str, dict[str, str]]:
    newer = release.startswith("2.")
    found: dict[str, dict[str, str]] = {
        "no file": {},
        "empty": {"config.toml": ""},
        "comments": {"config.toml": COMMENTS},
    }
    for schema in (2, 3) if newer else (2,):
        crlf = KUBEADM.replace("\n", "\r\n")
        for name, template in {
            "bare": BARE,
            "debian": DEBIAN,
            "kubeadm": KUBEADM,
            "dotted": DOTTED,
            "crlf": crlf,
        }.items():
            text = template.replace("@V@", str(schema)).replace("@CRI@", NATURAL[schema])
            if schema == 3:
                # 2.4 knows only bin_dirs
                text = text.replace('bin_dir = "/usr/lib/cni"', "max_conf_num = 1")
                text = text.replace(
                    '\tsandbox_image = "registry.example/pause:3.9" # mirror\n',
                    "\tenable_selinux = false # no\n",
                )
                for line in (
                    '\tsandbox_image = "registry.example/pause:3.9" # mirror\r\n',
                    '\t\tsnapshotter = "overlayfs"\n',
                ):
                    text = text.replace(line, "")
                text = text.replace('\t\tsnapshotter = "overlayfs"\r\n', "")
            found[f"{name} v{schema}"] = {"config.toml": text}
    if newer:
        imported = 'version = 2\nimports = ["@DIR@/conf.d/*.toml"]\n' + KUBEADM.partition(
            "oom_score"
        )[2].join(["oom_score", ""])
        found["imports"] = {"config.toml": imported.replace("@CRI@", NATURAL[2])}
        aks = KUBEADM.replace("@V@", "2").replace("@CRI@", NATURAL[3])
        for line in (
            '\tsandbox_image = "registry.example/pause:3.9" # mirror\n',
            '\t\tsnapshotter = "overlayfs"\n',
        ):
            aks = aks.replace(line, "")
        found["version 2 with the names of 3"] = {"config.toml": aks}
    else:
        found["version 1"] = {"config.toml": '[plugins.cri]\n  stream_server_port = "10010"\n'}
    if newer:
        found["no version"] = {"config.toml": "oom_score = -1\n"}
    if is_at_least(release, "2.3"):
        newer_file = f"version = 3\n[plugins.{NATURAL[3]}]\n  enable_selinux = false\n"
        found["imports of a newer version"] = {
            **found["imports"],
            "conf.d/10-site.toml": newer_file,
        }
        found["version 1 that is migrated"] = {
            "config.toml": "[plugins.cri]\n  enable_selinux = false\n"
        }
    return found


CASES = [(release, name) for release in RELEASES for name in shapes(release)]


def prepared(tmp_path: Path, release: str, shape: str) -> Tree:
    binary(release)
    tree = Tree(tmp_path, release)
    tree.write(shapes(release)[shape])
    return tree


def before(tree: Tree) -> dict[str, Any]:
    """Return the dump of what is there.

    Without a root file, that is the dump of an empty one, since 1.x dumps nothing then.
    """
    if tree.config.exists():
        return dump(tree.release, tree.config)
    empty = tree.home / "empty.toml"
    empty.write_text(f"version = {3 if tree.release.startswith('2.') else 2}\n")
    whole = dump(tree.release, empty)
    empty.unlink()
    return whole


class TreeHost:
    """A host on which everything but the connection is real.

    The real observer and executor work on this machine's own files, with the planner between them.
    """

    def __init__(self, tree: Tree, *, default: bool = True, enable_cdi: bool | None = None) -> None:
        """Take a tree. enable_cdi: what is decided. None decides it as the module `host` does."""
        self.tree, self.journal, self.default, self.enable_cdi = (
            tree,
            tree.home / "journal",
            default,
            enable_cdi,
        )
        self.policy = Policy(config_path=str(tree.config), single=True)

    def see(self, questions: list[dict[str, Any]]) -> dict[str, Any]:
        answer: dict[str, Any] = observe.run({"schema": 1, "root": "/", "questions": questions})
        queries.note_lists(answer["answers"], questions)
        # no systemd is asked here
        answer["answers"].update(
            {qid: {"units": {}} for qid in answer["answers"] if qid.startswith("units:")}
        )
        answer["answers"].pop("units:containerd.service", None)
        # Nor what runs on this machine: the containerds of the lab's hosts are in its process
        # table, and are none of this tree's.
        answer["answers"].update(
            {qid: {"processes": []} for qid in answer["answers"] if qid.startswith("processes:")}
        )
        answer["answers"]["which:containerd"] = {
            "found": {"containerd": str(binary(self.tree.release))}
        }
        return answer

    def plan(self, state: str) -> Plan:
        # of the module of one engine (host.single_questions)
        rooms = (
            containerd_detect,
            gpu_operator,
            programs,
        )
        answer = self.see(
            [
                *(q for room in rooms for q in room.list_questions(self.policy)),
                queries.ask_for_originals(str(self.journal)),
            ]
        )
        self.seen = obs = Observation(answer["host"], answer["answers"])
        # one of them for the version, which a daemon that runs tells in the first
        for _look in range(5):
            try:
                (stopped,) = containerd_detect.find_instances(
                    self.policy, containerd_detect.read_facts(self.policy, obs)
                )
                # nothing runs here; a stopped one has a test of its own
                instance = dc.replace(stopped, refusal=Refusal())
                if state == "absent":
                    return containerd_detect.plan_absent(
                        self.policy, containerd_detect.read_facts(self.policy, obs), instance
                    )
                usual = instance.cdi.able and not instance.cdi.enabled
                wanted = decision(
                    default=self.default,
                    enable_cdi=usual if self.enable_cdi is None else self.enable_cdi,
                )
                return containerd_detect.plan_instance(
                    self.policy, containerd_detect.read_facts(self.policy, obs), instance, wanted
                )
            except NeedMore as more:
                obs = obs.add_answers(self.see(more.questions))
        raise AssertionError("more than five looks")

    def apply(self, plan: Plan, *, check: bool = False) -> dict[str, Any]:
        request = base.build_transaction_request(
            plan, self.policy, self.seen, check=check, reason="test", pending=[]
        )
        # in this process: what outlives it has tests on hosts
        here = {
            "journal_dir": str(self.journal),
            "alone": False,
        }
        answer: dict[str, Any] = transaction_entry.run({**request, **here})
        assert not answer["error"], answer
        assert not answer["conflict"], answer
        return answer
