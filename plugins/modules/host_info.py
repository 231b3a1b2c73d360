#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name plans on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_info
short_description: Look at a GPU container host and report what would be decided and changed
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Reads only, and changes nothing. Returns which container engines there are, whether they support CDI and on which evidence, the GPUs and
    their driver, who else writes these files, and what M(gpufleet.nvidia.host) would change.
  - If files would change, the host judges their places, as it does before a change. That costs one more SSH operation. A place that
    the run would refuse makes the plan refused, with the same code.

extends_documentation_fragment:
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.info
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
seealso:
  - module: gpufleet.nvidia.host
"""

EXAMPLES = r"""
- name: Look
  gpufleet.nvidia.host_info:
  register: seen

- name: Show the decision
  ansible.builtin.debug:
    var: seen.decision
"""

RETURN = r"""
platform:
  description: The kind of machine, and the units and packages that it needs besides the driver. The page C(docs/platform.md) has the table.
  returned: success
  type: dict
  sample:
    kind: nvswitch
    why: GPUs behind NVSwitches (0000:05:00.0)
    unknown: ""
    needs:
      - unit: nvidia-fabricmanager.service
        state: failed
        version: 580.126.09
        verdict: wrong
        why: nvidia-fabricmanager.service has the version 580.126.09, and the driver has 580.95.05 [platform.fabric-manager-version]
        code: platform.fabric-manager-version
        source: https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/
  contains:
    kind:
      description:
        - V(pcie), V(nvswitch), V(nvlink5) (eight B200 or B300), V(rack) (GB200 or GB300), or V(none) for a host without a GPU.
        - V(vgpu-guest), V(vgpu-manager), V(passthrough), V(confidential) and V(integrated) (Jetson, WSL) are left alone.
        - V(unknown) is a host whose files that show the kind could not be read.
      type: str
      returned: always
    why:
      description: The sign by which the kind was found.
      type: str
      returned: always
    unknown:
      description: Why the units are not known, V("") if they are.
      type: str
      returned: always
    needs:
      description:
        - Each unit or package, its state, the driver's version that it is of, and a verdict with its cause and the next step.
          The verdict is V(well), V(advise), or V(wrong) where CUDA or claims do not work.
        - Empty for a machine that is left alone, and where the driver does not serve its GPUs.
      type: list
      elements: dict
      returned: always
health:
  description: The health of the GPUs, as a look shows it. The page C(docs/gpu-health.md) has each finding.
  returned: success
  type: dict
  sample:
    expected: 8
    served: 7
    on_bus: 8
    log: {known: true, why: "", code: ""}
    accepted: []
    findings:
      - code: gpu-health.not-served
        what: the GPU 0000:b3:00.0 is on the PCI bus, and the driver that serves others does not serve it
        gpu: "0000:b3:00.0"
        step: reset
        next: stop what uses the GPU and reset it (nvidia-smi --gpu-reset -i ADDRESS), or reboot the host
        source: files
        stops: true
        accepted: false
  contains:
    expected:
      description: The number of O(gpus), null if it is not set.
      type: int
      returned: always
    served:
      description: How many GPUs the driver serves.
      type: int
      returned: always
    on_bus:
      description: How many NVIDIA GPUs are on the PCI bus.
      type: int
      returned: always
    log:
      description: Whether the kernel log was read, and if not, why, with a code.
      type: dict
      returned: always
    nvml:
      description: Whether NVML has answered, and if not, why, with a code. Only a verification that looks at the host asks it.
      type: dict
      returned: when NVML was asked
    findings:
      description:
        - Each thing that is wrong. C(gpu) is the PCI address of the device, V("") for the host as a whole. C(source) is V(files) for
          procfs and sysfs as they are now, V(log) for the kernel log of this boot, and V(nvml) for an answer of the driver.
        - C(step) is V(driver), V(fabric), V(update), V(reset), V(reboot), V(replace) or V(support), and C(next) says it in words.
          This collection takes none of these steps. With C(stops) a rollout leaves the host out.
      type: list
      elements: dict
      returned: always
instances:
  description: The container engines on the host.
  returned: always
  type: list
  elements: dict
  sample:
    - key: containerd:/etc/containerd/config.toml
      engine: containerd
      version: 1.7.24
      config_path: /etc/containerd/config.toml
      socket: /run/containerd/containerd.sock
      unit: containerd.service
      manager: package
      running: true
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
os:
  description: The operating system's C(id) and C(version), as F(/etc/os-release) names them.
  returned: success
  type: dict
  sample:
    id: debian
    version: '12'
driver:
  description: The NVIDIA driver and the GPUs as procfs and sysfs tell.
  returned: always
  type: dict
  sample:
    state: ok
    version: 550.163.01
operator_toolkit:
  description: The parts of the GPU Operator's toolkit container on this host.
  returned: success
  type: dict
  sample:
    fate: live
    why: its process nvidia-toolkit runs
    handlers: {nvidia: /usr/local/nvidia/toolkit/nvidia-container-runtime}
    installed: true
    cleaned: false
  contains:
    fate:
      description: V(absent) where there is no trace of it, V(live) where it works, V(dead) where it is proven to be gone, V(unknown) else.
      type: str
      returned: always
    why:
      description: The evidence.
      type: str
      returned: always
    handlers:
      description: Handlers in the engines' configuration that run its programs.
      type: dict
      returned: always
    installed:
      description: Whether it works, and engines have its handlers.
      type: bool
      returned: always
    cleaned:
      description: Whether it is gone, and no engine has its handlers.
      type: bool
      returned: always
dra:
  description: The needs of NVIDIA's DRA driver on this host, as a run would leave it.
  returned: success
  type: dict
  sample:
    wanted: true
    why: gpufleet_dra is true
    ready: true
    needs:
      - what: an engine that resolves CDI devices
        met: true
        why: "containerd 2.1.5 does (cri-status: enableCDI=true)"
        next: ""
  contains:
    wanted:
      description: Whether O(dra=true), or the driver has registered with the kubelet.
      type: bool
      returned: always
    why:
      description: Which of the two it is.
      type: str
      returned: always
    ready:
      description: Whether all needs are met, null where that depends on something that is not known, or where it is not wanted.
      type: bool
      returned: always
    needs:
      description: Each thing that it needs, whether the host has it (C(met), null where that is not known), why, and the next step.
      type: list
      elements: dict
      returned: always
differences:
  description: The differences that a run of M(gpufleet.nvidia.host) with the same options would correct. See there for the keys.
  returned: always
  type: list
  elements: dict
  sample: []
leftovers:
  description: Files and settings of other tools on the host, and what a run with the same options would do about each.
    See M(gpufleet.nvidia.host) for the keys.
  returned: always
  type: list
  elements: dict
  sample: []
would_restart:
  description: Units that such a run would restart.
  returned: always
  type: list
  elements: str
  sample: [containerd.service]
work:
  description: The facts that M(gpufleet.nvidia.drain) reads, the host as those see it who give it work.
  returned: always
  type: dict
  sample:
    hostname: gpu1
    boot_id: 7b3ad1cf-53c2-4a9e-9c0e-0f6a3f5a4f0b
    orchestrators: [kubernetes]
    ends: []
    gpu_processes: []
    at_work: ''
    cluster: ca-3f9a1c2b4d5e
  contains:
    at_work:
      description: The transaction that is changing the host while it is looked at, empty where there is none.
      type: str
      returned: always
    hostname:
      description: The host's own name.
      type: str
      returned: always
    cluster:
      description:
        - The Kubernetes cluster, by the digest of the CA that the kubelet trusts. Empty where no kubelet runs, and where that file is not
          in a usual place.
      type: str
      returned: always
    boot_id:
      description: The kernel's number of this boot, by which a Kubernetes node is compared with the host.
      type: str
      returned: always
    orchestrators:
      description: V(kubernetes) where a kubelet runs, V(slurm) where C(slurmd) does.
      type: list
      elements: str
      returned: always
    ends:
      description: Containers that end by a restart which is planned, or which waits for them to end.
      type: list
      elements: str
      returned: always
    gpu_processes:
      description:
        - Numbers of the processes that hold device nodes of GPUs, without the services that only watch them.
        - An entry that begins with C(unknown:) says of how many processes that is not known, and why.
      type: list
      elements: str
      returned: always
sharing:
  description: The GPUs that O(sharing) names, and who uses them now. Empty where the option is not set, or is refused.
  returned: success
  type: list
  elements: dict
  sample:
    - gpu: GPU-11111111-0000-5000-8000-000000000001
      bus: "0000:17:00.0"
      policy: dedicated (exclusive)
      compute_mode: EXCLUSIVE_PROCESS
      daemon: ""
      users:
        - name: container 0f3b7c1d9a2e
          pids: [4711]
      violation: ""
  contains:
    gpu:
      description: The GPU's UUID.
      type: str
      returned: always
    bus:
      description: Its PCI address.
      type: str
      returned: always
    policy:
      description: The option's entry for it.
      type: str
      returned: always
    compute_mode:
      description: The mode that the driver has for it now.
      type: str
      returned: always
    daemon:
      description: The state of its MPS daemon's unit, as systemd has it. Empty for other policies, and where it is not known.
      type: str
      returned: always
    users:
      description:
        - Containers, by the beginning of their identifier, and other control groups whose processes hold the GPU's device node open.
        - A container that was given the GPU and has not opened it yet is not among them.
      type: list
      elements: dict
      returned: always
      contains:
        name:
          description: The container or control group.
          type: str
          returned: always
        pids:
          description: Its processes.
          type: list
          elements: int
          returned: always
    violation:
      description: Why this is not what the policy allows, empty where it is. Null where a process could not be looked into.
      type: str
      returned: always
advice:
  description: Facts that a person should know, and steps to take.
  returned: always
  type: list
  elements: str
  sample: []
history:
  description: The transactions on the host as lines for people, newest first. The same as C(journal).
  returned: always
  type: list
  elements: str
  sample:
    - "2026-01-31T16:58:44Z gpufleet.nvidia.host: wrote /etc/containerd/config.toml; restarted containerd.service: stands"
journal:
  description:
    - The transactions on the host, newest first, as its journal tells them.
    - C(state) is V(committed) or V(rolled_back) for transactions that are over. V(probation) means that restarted units serve and are
      still watched. All other states are those of a transaction that is under way, or that the next one takes back.
  returned: always
  type: list
  elements: dict
  sample:
    - id: 52a05331cdfe427bb3508b0083279f06
      time: "2026-01-31T16:58:44Z"
      reason: gpufleet.nvidia.host
      state: rolled_back
      by: the timer
      why: "containerd.service came up and has crashed since (activating, auto-restart)"
      files: [/etc/containerd/config.toml]
      removed: []
      ran: []
      units: [containerd.service]
      entry: /var/lib/gpufleet/journal/n0000000001-20260131T165844Z-52a05331cdfe427bb3508b0083279f06
pending:
  description:
    - Units that still run with what was configured before, since O(gpufleet.nvidia.host#module:restart=never) left their restart to you.
  returned: always
  type: list
  elements: dict
  sample:
    - unit: containerd.service
      since: "2026-01-31T16:58:44Z"
      reason: gpufleet.nvidia.host
problem:
  description: Why a run would be refused, empty when it would not.
  returned: always
  type: str
  sample: ""
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
