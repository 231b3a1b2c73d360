#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name plans on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host
short_description: Configure a GPU container host in one transaction
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Finds every container engine on the host, decides how GPUs get into containers there, and configures the host for that. Engine
    configuration, NVIDIA runtime configuration, OCI hook, CDI spec and the status file change together, or not at all.
  - Missing packages are installed first, in a transaction of their own, and before them the repository that has them is added. After that
    the host is looked at again, so the packages' own files are edited like any other. The packages stay installed when what follows
    is rolled back.
  - A converged host costs one SSH operation, a changed one two, and one more if a CDI spec has to be made. A run that installs packages
    costs a few more.
  - An engine is restarted only when its effective configuration changes. If it does not serve again, the change is rolled back.

extends_documentation_fragment:
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.changes
  - gpufleet.nvidia.attributes.actiongroup_host
  - gpufleet.nvidia.common
  - gpufleet.nvidia.common.root
  - gpufleet.nvidia.common.state
  - gpufleet.nvidia.common.engine_version
  - gpufleet.nvidia.common.instance
  - gpufleet.nvidia.common.drop_in
  - gpufleet.nvidia.common.drop_in_path
  - gpufleet.nvidia.common.restart
  - gpufleet.nvidia.common.handlers
  - gpufleet.nvidia.common.cdi
  - gpufleet.nvidia.common.cdi_spec_dirs
  - gpufleet.nvidia.common.adopt
  - gpufleet.nvidia.common.decision
  - gpufleet.nvidia.kubernetes.dra
  - gpufleet.nvidia.kubernetes.operator_toolkit
  - gpufleet.nvidia.common.packages
  - gpufleet.nvidia.common.known_bad
  - gpufleet.nvidia.common.gpus
  - gpufleet.nvidia.common.persistence
  - gpufleet.nvidia.common.cdi_owner
  - gpufleet.nvidia.common.cdi_refresh
  - gpufleet.nvidia.common.driver
  - gpufleet.nvidia.common.device_nodes
  - gpufleet.nvidia.sharing
  - gpufleet.nvidia.common.metrics_dir
  - gpufleet.nvidia.cdi_devices
  - gpufleet.nvidia.cdi_fabric
  - gpufleet.nvidia.common.cdi_roots
  - gpufleet.nvidia.common.cdi_files

options:
  approved_change:
    description:
      - The digest of the change that was approved for this host, as the plan of a rollout has it, or V(none) if the host had nothing to
        do then. The playbook C(gpufleet.nvidia.rollout) sets it if its plan is bound to an approval.
      - The plan is compared with it before anything is changed, and again if the host has changed since it was looked at. What
        is left to do after packages were installed has to be part of the approved plan. Otherwise the task fails.
      - Empty means that nothing has to be approved.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Do the right thing
  gpufleet.nvidia.host:

- name: Inject the way that needs no CDI, but keep the variable from giving away every GPU
  gpufleet.nvidia.host:
    cdi: disabled
    isolation: strict

- name: Install the toolkit on hosts without a network, from an archive that gpufleet.nvidia.bundle has made
  gpufleet.nvidia.host:
    bundle_file: gpufleet-bundle.tar

- name: Let containers take turns on one GPU, and keep a second process from another one
  gpufleet.nvidia.host:
    sharing:
      "0000:17:00.0":
        time_slicing:
          interval: short
      "0000:43:00.0":
        dedicated:
          exclusive: true

- name: Take everything back
  gpufleet.nvidia.host:
    state: absent
"""

RETURN = r"""
differences:
  description: Differences between the current and the desired state, before this run; in check mode what a run would change.
  returned: success, and with C(-v) also after a failure
  type: list
  elements: dict
  sample:
    - what: file
      path: /etc/containerd/conf.d/90-gpufleet.toml
      key: plugins."io.containerd.cri.v1.runtime".containerd.runtimes.nvidia
      before: null
      after: /usr/bin/nvidia-container-runtime
      why: management containers ask for this handler by RuntimeClass
  contains:
    what:
      description: The kind of thing, V(file), V(package), V(unit), V(module) for a kernel module, V(node), or V(mode) of a GPU.
      type: str
      returned: always
    path:
      description: The file, the package, the unit, the module, the node or the link to it, the UUID of the GPU.
      type: str
      returned: always
    key:
      description: The key in the file, where there is one.
      type: str
      returned: always
    before:
      description: The value found, null where there was none.
      type: raw
      returned: always
    after:
      description: The value wanted, null where it goes.
      type: raw
      returned: always
    why:
      description: The reason, one sentence.
      type: str
      returned: always
    code:
      description: The code of the reason. It stays the same when the sentence changes.
      type: str
      returned: always
    cause:
      description:
        - Why something is less afterwards, null where nothing is taken away. A stopped or silent component is never a cause.
        - V(policy), the options ask for it. V(uninstalled), package, program and unit of a component are absent. V(hardware_gone),
          neither PCI nor a device node has the GPU any more. V(adoption), this collection takes over what another tool left, or the
          reverse. V(safety), a documented correction.
      type: str
      returned: always
leftovers:
  description: Files and settings of other tools on the host, as far as they concern this module, and what becomes of each.
  returned: always
  type: list
  elements: dict
  sample:
    - tool: nvidia-ctk
      path: /etc/containerd/conf.d/99-nvidia.toml
      settings: []
      exact: true
      fate: adopted
      why: nvidia-ctk runtime configure 1.18 or newer writes just this for this configuration
      next: ""
  contains:
    tool:
      description: The tool that wrote it.
      type: str
      returned: always
    path:
      description: The file.
      type: str
      returned: always
    settings:
      description: The tool's part of the file; empty where the whole file is.
      type: list
      elements: str
      returned: always
    exact:
      description: Whether every key of it is explained by that tool's own rules and by the rest of the configuration.
      type: bool
      returned: always
    fate:
      description: V(adopted), V(kept) where someone has to decide, or V(live) where the tool still works on the host.
      type: str
      returned: always
    why:
      description: The reason, one sentence.
      type: str
      returned: always
    next:
      description: The command or the setting that ends it where it is not adopted.
      type: str
      returned: always
actions:
  description: Each file that is written and each command that is run, in order.
  returned: always
  type: list
  elements: str
  sample:
    - write /etc/containerd/conf.d/90-gpufleet.toml
    - restart containerd.service
restarted:
  description: Units that were restarted; in check mode units that would be. A reload is none.
  returned: always
  type: list
  elements: str
  sample: [containerd.service]
rolled_back:
  description: Whether the host was brought back to its state before the run because the result was not healthy.
  returned: always
  type: bool
  sample: false
planned:
  description: The change item by item, and its text for people, as equal hosts share it. Empty if nothing is to be done.
    GPUs are named by position. An approval is the digest of this value.
  returned: success, and with C(-v) also after a failure
  type: dict
  sample:
    bound:
      - {do: write, path: /etc/containerd/conf.d/90-gpufleet.toml, mode: '0644', owner: root, sha256: 9f86d081884c7d65}
    differences: []
    restarts: [containerd.service]
journal:
  description: Where the host keeps the record of this change, null when nothing changed.
  returned: always
  type: str
  sample: /var/lib/gpufleet/journal/n0000000001-20261121T120000Z-0a1b2c3d
advice:
  description: Facts that a person should know, and steps to take.
  returned: always
  type: list
  elements: str
  sample: []
evidence:
  description: Evidence from the host if something went wrong. The words of its programs stay on the host, and codes of known causes stand
    for them.
  returned: failure
  type: dict
  sample: {}
error:
  description: The failure, in parts. C(msg) is the same as one text, with the code in brackets at its end.
  returned: failure, if a message with a code explains it
  type: dict
  sample:
    code: restore.not-regular
    what: this is not a regular file but a dir
    where: /etc/example
    line: null
    why: ''
    next: Remove it, then run again
  contains:
    code:
      description: The code of the message. It stays the same when a sentence changes.
      type: str
      returned: always
    what:
      description: The problem.
      type: str
      returned: always
    where:
      description: The file or the place, empty if there is none.
      type: str
      returned: always
    line:
      description: The line in the file, null if it is not known.
      type: int
      returned: always
    why:
      description: The cause, empty if C(what) tells it.
      type: str
      returned: always
    next:
      description: The next step for a person.
      type: str
      returned: always
decision:
  description: How GPUs get into containers on this host, and why.
  returned: always
  type: dict
  sample:
    decisions:
      - instance: containerd:/etc/containerd/config.toml
        engine: containerd
        engine_version: 1.7.24
        injection: native-cdi
        default: false
        reasons:
          - what: injection
            value: native-cdi
            why: containerd 1.7.24 resolves CDI devices itself; its switch is off and is turned on
            evidence: "cri-status: enableCDI=false"
            code: decision.engine-resolves-once-on
row:
  description: The host's line in the table which the playbooks print.
  returned: always
  type: dict
  sample:
    engine: containerd 1.7.24
    injection: native-cdi
    changed: "yes"
    restarted: containerd
    why: containerd 1.7.24 resolves CDI devices itself
verification:
  description:
    - What O(gpufleet.nvidia.host_verify#module:host_result) takes from this result, null where the verification has to look at the host
      again because something was changed. Its form is an affair of the two modules.
  returned: success, and with C(-v) also after a failure
  type: dict
  sample: null
known_bad:
  description:
    - Rows of the table in C(docs/known-bad.md) that apply to the host as the run would leave it, and rows that could not be judged.
    - Empty with O(known_bad=ignore), with O(state=absent), and where nothing applies.
  returned: always
  type: list
  elements: dict
  sample:
    - id: toolkit-1.17.0-links
      applies: true
      stops: true
      what: a container does not start where its image has a library link that the CDI spec makes as well (failed to create link)
      way: Set gpufleet_toolkit_version to 1.17.1 or newer
      links: ["https://github.com/NVIDIA/nvidia-container-toolkit/issues/772"]
      unknown: []
  contains:
    id:
      description: The row.
      type: str
      returned: always
    applies:
      description: Whether it applies, null where that is not known.
      type: bool
      returned: always
    stops:
      description: Whether it stops a run with O(known_bad=stop).
      type: bool
      returned: always
    what:
      description: The fault of the combination.
      type: str
      returned: always
    way:
      description: The workaround.
      type: str
      returned: always
    links:
      description: Issues and changes upstream.
      type: list
      elements: str
      returned: always
    unknown:
      description: The facts that are missing to judge the row.
      type: list
      elements: str
      returned: always
seconds:
  description: How long this task took, as the controller saw it.
  returned: in a batch of a rollout
  type: float
  sample: 12.4
versions:
  description: Values by which hosts of a fleet are compared, besides their engines. Empty where there is none.
  returned: always
  type: dict
  sample:
    driver: 550.163.01
    driver_packages: 550.163.01
    toolkit: 1.17.8-1
  contains:
    driver:
      description: The version of NVIDIA's driver.
      type: str
      returned: always
    driver_packages:
      description: The release of the driver's packages. Empty if no package has it, or if they were not looked at.
      type: str
      returned: always
    toolkit:
      description: The version of the NVIDIA Container Toolkit, of its package or of the program that no package has brought.
      type: str
      returned: always
driver_change:
  description:
    - The change of the driver by tasks of yours in a rollout, as the host has it noted (C(/var/lib/gpufleet/kept)).
    - C(state) is V(preparing) while packages are kept for it, V(changing) from before the change until a run has judged the host,
      then V(settled) until these packages are removed, and empty without such a change.
    - C(driver), C(release) and C(gpus) are the state of the driver before it, its release, and how many GPUs it served. C(gpus) is null
      if that is not known.
    - C(releasing) is whether a run ended while it released the hold of this collection, so that some packages may not be held any more.
  returned: always
  type: dict
  sample:
    state: settled
    release: 535.261.03
    since: "2026-11-26"
    gpus: 8
    before: []
    kept: 41
    driver: ok
    releasing: false
drift:
  description:
    - Files that are not any more as this collection wrote them, before this run, by the digests in the host's journal.
    - C(state) says what became of the file.
  returned: always
  type: list
  elements: dict
  sample:
    - path: /etc/containerd/config.toml
      state: changed since
pending:
  description: Units that still ran with what was configured before, when this run began, since O(restart=never) left their restart to you.
  returned: always
  type: list
  elements: dict
  sample: []
freshness:
  description:
    - Whether the CDI specs on the host are still true, before this run, judged from the same look at the host as all else.
    - One entry for each file that is there, this collection's and that of C(nvidia-cdi-refresh).
    - A spec is judged by what it names. Facts that only the driver's own library could tell are not judged, for example whether a MIG
      instance of the same number still has the same UUID.
  returned: always
  type: list
  elements: dict
  sample:
    - path: /var/run/cdi/nvidia.yaml
      writer: toolkit
      state: stale
      version: 0.5.0
      reasons:
        - what: nodes
          recorded: "/dev/nvidia-uvm 511:0"
          found: "/dev/nvidia-uvm 510:0"
          why: records /dev/nvidia-uvm as 511:0, but it is 510:0 now
          code: cdi.node-changed
  contains:
    path:
      description: The file.
      type: str
      returned: always
    writer:
      description: Who wrote it, V(collection), V(toolkit) for its C(nvidia-cdi-refresh), or V(other).
      type: str
      returned: always
    state:
      description: V(fresh) or V(stale).
      type: str
      returned: always
    version:
      description: The version that the file says it has, empty when it cannot be read.
      type: str
      returned: always
    reasons:
      description:
        - Each entry that is not true any more, empty for a fresh spec. Every entry has C(what), C(recorded), C(found) and C(why).
        - C(what) is V(driver), V(kernel), V(gpus), V(mig), V(nodes), V(files), V(cap) (newer than the oldest reader accepts), V(toolkit),
          or V(content) for a file that is not a CDI spec.
      type: list
      elements: dict
      returned: always
"""
