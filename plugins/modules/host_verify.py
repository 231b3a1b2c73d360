#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name plans on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_verify
short_description: Verify that containers on a host get the GPUs they ask for, and no others
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Starts small containers through the engine's own socket (CRI, or Docker's API) in the way that was decided for this host. A shell in
    each of them tries to open the device nodes. Pods and containers are removed again, whatever happens.
  - A container that asks for one GPU must see exactly its nodes and be allowed to open them. One that asks for none must see none.
    A node that a container was not given must be refused by the device cgroup (C(EPERM)) even if the container makes that node itself.
  - If the engine injects by CDI, one more container asks for all GPUs through the handler, as management containers do by RuntimeClass, and
    as C(docker run --runtime nvidia) does.
  - Takes the same options as M(gpufleet.nvidia.host), so that it verifies what that module decides.
  - Takes less than a second per container and two SSH operations per host, or one with O(host_result). It does not pull images.
options:
  image:
    description:
      - Image of the containers. It must be on the host already, and needs a shell, C(sleep), C(rm) and C(mknod),
        as any busybox or distribution image has.
      - It must not set C(NVIDIA_VISIBLE_DEVICES); otherwise the case without a GPU requests GPUs.
    type: str
    required: true
  timeout:
    description:
      - Seconds that one call to the engine may take.
    type: int
    default: 30
  image_environment:
    description:
      - The environment of an image whose containers shall run on this host, as its configuration states it. As a dictionary, a list of
        C(NAME=value), or the name of a file on the controller with the output of C(skopeo inspect), C(skopeo inspect --config) or C(docker
        image inspect).
      - Its C(NVIDIA_REQUIRE_*) are evaluated for all GPUs of the host as the legacy mode of the NVIDIA runtime does. If one is not met, the
        task fails before a container is started. With CDI they are not evaluated, and such a container fails when it first uses a GPU.
      - Costs one more SSH operation.
    type: raw
  host_result:
    description:
      - The registered result of M(gpufleet.nvidia.host) for this host, of the same play. The look of that task can serve for the
        verification, too, which saves one SSH operation. It does so if the task found the host converged and had the same options, and
        if it was one of the role C(gpufleet.nvidia.host) with C(gpufleet_verify_image) set. Otherwise the host is looked at again, since
        such a look did not ask about the health of the GPUs.
    type: dict
attributes:
  check_mode:
    support: partial
    details:
      - Looks at the host, and starts no container. The result lists the cases, none of them verified.
  diff_mode:
    support: N/A
    details:
      - This action does not modify state.
  idempotent:
    support: full
extends_documentation_fragment:
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.actiongroup_host
  - gpufleet.nvidia.common
  - gpufleet.nvidia.common.instance
  - gpufleet.nvidia.common.handlers
  - gpufleet.nvidia.common.cdi
  - gpufleet.nvidia.common.cdi_spec_dirs
  - gpufleet.nvidia.common.decision
  - gpufleet.nvidia.kubernetes.dra
  - gpufleet.nvidia.common.gpus
  - gpufleet.nvidia.common.cdi_owner
  - gpufleet.nvidia.common.cdi_roots
notes:
  - A kubelet removes pods that it does not know. If the pod of a case disappears, the case is tried again, up to two times.
  - C(ENXIO) in the evidence means that the container may open the node, but no driver answers behind it, as on test hosts.
seealso:
  - module: gpufleet.nvidia.host
  - module: gpufleet.nvidia.host_info
"""

EXAMPLES = r"""
- name: Verify the host
  gpufleet.nvidia.host_verify:
    image: registry.example.com/library/busybox:1.37
  register: verification

- name: Show what each container found
  ansible.builtin.debug:
    msg: "{{ verification.checks | map(attribute='found') }}"

- name: Converge
  gpufleet.nvidia.host:
  register: converged

- name: Verify what was converged, without a second look where nothing had to be changed
  gpufleet.nvidia.host_verify:
    image: registry.example.com/library/busybox:1.37
    host_result: "{{ converged }}"

- name: Verify a host that was converged without CDI
  gpufleet.nvidia.host_verify:
    image: registry.example.com/library/busybox:1.37
    cdi: disabled
"""

RETURN = r"""
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
dra:
  description: The needs of NVIDIA's DRA driver on this host.
  returned: when O(dra=true)
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
requirements:
  description: The outcome of O(image_environment).
  returned: when O(image_environment) is given
  type: dict
  sample:
    met: true
    why: ""
    expressions: {NVIDIA_REQUIRE_CUDA: "cuda>=12.4"}
    enforced: false
  contains:
    met:
      description: Whether all expressions are met, null where that depends on something that is not known.
      type: bool
      returned: always
    why:
      description: The needs that are not met, or not known.
      type: str
      returned: always
    expressions:
      description: The expressions that count, by their variables. At most 32, each with its first 2000 characters.
      type: dict
      returned: always
    enforced:
      description: Whether an engine of this host injects by the legacy mode, which refuses to start what is not met.
      type: bool
      returned: always
verified:
  description: Whether containers were started and all cases were as expected.
  returned: success
  type: bool
  sample: true
checks:
  description: The evidence, case by case.
  returned: always
  type: list
  elements: dict
  sample:
    - name: "containerd: one"
      ok: true
      engine: containerd
      injection: native-cdi
      why: a container that asks for one GPU gets exactly its nodes
      handler: ""
      devices: ["nvidia.com/gpu=0"]
      expected: {/dev/nvidia0: allowed, /dev/nvidia1: refused, /dev/nvidiactl: allowed}
      found: {/dev/nvidia0: ok, /dev/nvidia1: EPERM, /dev/nvidiactl: ok}
      listed: [/dev/nvidia0, /dev/nvidiactl]
      seconds: 0.471
      advice: ""
  contains:
    name:
      description: Engine and case.
      type: str
      returned: always
    ok:
      description: Whether everything was as expected; null where the case was not carried out (check mode).
      type: bool
      returned: always
    engine:
      description: The engine that started the container.
      type: str
      returned: always
    injection:
      description: The way that was decided for this engine.
      type: str
      returned: always
    why:
      description: The fact that this case shows.
      type: str
      returned: always
    handler:
      description: The OCI runtime handler asked for, empty for the default one.
      type: str
      returned: always
    devices:
      description: CDI devices asked for in the CRI field, or of Docker.
      type: list
      elements: str
      returned: when there are any
    env:
      description: Environment variables of the container.
      type: dict
      returned: when there are any
    annotations:
      description: Annotations of the container.
      type: dict
      returned: when there are any
    expected:
      description: V(allowed), V(refused) or V(optional) for every device node.
      type: dict
      returned: always
    found:
      description: >-
        What opening each node gave, V(ok), an errno such as V(EPERM), or V(absent). A node that was not in the container was made there
        before it was opened. Empty where the case was not carried out (check mode, or a container that did not start).
      type: dict
      returned: always
    listed:
      description: NVIDIA device nodes that were in the container.
      type: list
      elements: str
      returned: when carried out
    unexpected:
      description: Those of them that were not asked for.
      type: list
      elements: str
      returned: when carried out
    record:
      description: The runtime's calls that test hosts without a driver recorded meanwhile, empty on real hosts.
      type: list
      elements: str
      returned: when carried out
    problems:
      description: Each thing that was not as expected, in sentences.
      type: list
      elements: str
      returned: when carried out
    again:
      description: >-
        Why the case was started again, a row for each time. That is done where the failure says nothing about GPUs: the runtime's process
        ended before it had read the container's configuration, or another program removed the pod. Usually empty.
      type: list
      elements: str
      returned: when carried out
    error:
      description: The call to the engine that failed, and its answer.
      type: dict
      returned: when carried out
    seconds:
      description: How long the case took.
      type: float
      returned: when carried out
    advice:
      description: The next step, empty where all is well.
      type: str
      returned: always
left:
  description: Pods that could not be removed again, with the engine's answer. Empty on any sound host.
  returned: always
  type: list
  elements: dict
  sample: []
image:
  description: The image of the containers.
  returned: always
  type: str
  sample: registry.example.com/library/busybox:1.37
skipped_why:
  description: Why nothing was to be verified on this host (no GPU, no engine that starts containers here), empty where something was.
  returned: always
  type: str
  sample: ""
not_verified:
  description:
    - Engines that the options ask for and that were not verified, since they do not run, do not answer, or run a program that
      root cannot trust.
    - A host whose other engines are as expected counts as verified all the same.
  returned: always
  type: list
  elements: dict
  sample:
    - instance: docker:/etc/docker/daemon.json
      why: "Docker is installed, but does not run (docker.service: inactive)"
  contains:
    instance:
      description: The engine and its configuration, as RV(decision) names it.
      type: str
      returned: always
    why:
      description: Why it was not verified, and what to do.
      type: str
      returned: always
decision:
  description: How GPUs get into containers on this host, and why. See M(gpufleet.nvidia.host_info).
  returned: always
  type: dict
  sample: {}
"""
