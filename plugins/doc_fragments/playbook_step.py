# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of the steps of this collection's playbooks, one attribute for each step.

The action plugin `playbook_step` reads a step's options from here when the step runs.
"""

from __future__ import annotations


class ModuleDocFragment:
    ROLLOUT_SETTINGS = r"""
description:
  - Each option is the variable C(gpufleet_rollout_) and the option's name for the playbook C(gpufleet.nvidia.rollout). Give them on the
    command line, like all settings of a whole run.
  - Each option also takes text, as a survey of AWX gives it. An empty text means that the option is not set.
  - Checks all values before it looks at a host. If a value is wrong, it fails with one sentence that names the setting.
  - Runs on the controller only. Use it with C(run_once).
options:
  class:
    description:
      - Key paths whose values make the class of a host. Hosts of one class are likely to fail alike, so a canary of each goes first.
      - A key path reads a result of the look at the host, otherwise the variables of the host. Results are V(engine), V(injection),
        V(gpu.model), V(gpu.count), V(driver.branch), V(driver.version), V(driver.state), V(os.id), V(os.release), and below V(result) the
        whole result of M(gpufleet.nvidia.host_info). Keys have dots between them. Templates are not supported.
      - A list, or text with commas. The default is V([engine, injection, gpu.model, driver.branch, os.release]).
    type: raw
  domain:
    description:
      - Key paths whose values make the failure domain of a host, for example a rack or a power feed. Waves are spread over domains.
    type: raw
  canaries:
    description:
      - How many hosts of each class go first. If one of them fails, is rolled back or is lost, no other host of its class is changed.
      - A converged host counts as the canary of its class. So a rollout that continues after an interruption needs no new canaries.
      - V(0) means no canaries.
    type: raw
    default: 1
  waves:
    description:
      - The sizes of the waves after the canaries. Each is a number of hosts, or a percentage of the hosts that have something to do. The
        last one repeats until all hosts are done.
      - A list, or the same as text, V(1,10%,50%,100%), as a survey gives it.
    type: raw
    default: [1, 10%, 50%, 100%]
  max_unavailable:
    description:
      - How many hosts are changed at once in each cluster, Slurm partition and failure domain. A number, or a percentage of its hosts in
        this run, rounded down, and at least one. A wave is cut into batches of that size, with the gate after each.
      - The cluster of a host is C(gpufleet_cluster), otherwise the CA that its kubelet trusts. Hosts without a cluster count as one
        cluster. The partition is C(gpufleet_slurm_partition).
      - If it is not set, the limit is one for hosts that are drained and for O(tasks) with a file C(change). Other hosts have no limit.
      - Servers of k3s, RKE2 and k0s that restart for their change always do so one after another in each cluster.
    type: raw
  max_left_out:
    description:
      - How many hosts may be left out, because they were unreachable or broken before the rollout, or because others work on them. A
        number, or a percentage, rounded up. If there are more, the run ends before it changes a host.
    type: raw
    default: 10%
  max_failed:
    description:
      - How many hosts may fail, be rolled back or be lost, over the canaries and all waves. A number, or a percentage of the hosts that
        have something to do, rounded down. If there are more, no further batch starts, and the run fails.
      - Canaries count, too. With V(0), a failed canary stops the whole rollout. With more, it stops its class.
      - If it is not set or empty, C(gpufleet_max_failed) counts. If you give a list of limits, the first one that is not empty counts.
    type: raw
    default: 0
  seed:
    description:
      - The order of the hosts follows from their names and from this text. The same text gives the same order in any inventory.
    type: str
    default: ''
  window:
    description:
      - When batches may start, for example V(Mo-Fr 20:00-04:00 Europe/Berlin). Several windows are a list, or have semicolons between
        them. Without a zone the times are UTC.
      - Outside the window no batch starts, nothing is applied to a cluster, and the run ends as C(paused), which is a success. A batch
        that has started is finished.
    type: raw
  soak:
    description:
      - Seconds to wait after each batch before a second check of its hosts.
      - A host fails this check if it is not converged, an engine that ran before its change does not run, its change was rolled back, or
        GPUs are missing. It also fails if its GPU driver has reported an error (Xid) that a program did not cause.
      - If DCGM is installed and the host is out of service for its change, C(dcgmi diag -r 1) runs before the host is put back.
      - V(0) means no wait and no second check.
    type: raw
    default: 0
  soak_command:
    description:
      - A command to run on each host after O(soak), as a list of words. It runs without a shell. A host on which it does not end with 0
        counts as failed.
      - C(timeout) ends it after five minutes. C(GPUFLEET_HOST) in its environment is the host's name in the inventory.
    type: raw
  gate_check:
    description:
      - A further check that has to succeed before the first batch of a run, and after each batch.
      - An address, which has to answer with a status of 2xx. Redirects are not followed, and count as failures.
      - Or a command on the controller, as a list of words or such a list as JSON. It runs without a shell, and has to end with 0.
    type: raw
  gate_retries:
    description: How often O(gate_check) is repeated, ten seconds apart, before the rollout stops.
    type: raw
    default: 3
  events:
    description:
      - Where events of the rollout go, one line of JSON each. The name of a file, which grows. Or an address, which gets each event by
        C(POST). Or a command, as a list of words, which runs without a shell and reads the line on its standard input.
      - C(event) is V(start), V(batch) before a batch, V(gate) after it, V(stop) or V(end). Check mode sends no events.
      - If an event cannot be sent, the run prints one warning and continues.
    type: raw
  until:
    description:
      - How far the run goes. With V(canaries), it ends as C(paused), which is a success, after the canaries. The next run continues there.
      - So a workflow can have a job for the canaries, and another one for the waves.
    type: str
    default: end
  pause:
    description: Whether to ask a person before each batch after the first, if there is a terminal.
    type: bool
    default: false
  tasks:
    description:
      - Your own files of tasks, which run on each host that has something to do. C(before) runs before the change. C(change) changes
        something else, for example a driver or a kernel, with a reboot. The host is planned again after it. C(after) runs after the host
        is converged and verified.
      - With C(change), hosts whose GPUs are in use are drained first, and count as out of service for O(max_unavailable).
        V(gpufleet_drain_driver_changes=false) turns off both.
      - A table, or the same as text, V(change=driver.yml,after=check.yml).
      - Relative names are relative to the directory in which you run the command.
    type: raw
  driver:
    description:
      - The release of the driver that the hosts shall have, or its beginning at a dot, V("580") or V("580.95.05"). It needs a file
        C(change) of O(tasks), which installs it.
      - A host whose loaded or installed driver has another release then has something to do, also if it is as desired otherwise. After the
        file C(change), a host that still has another release fails.
      - An approval binds what this collection changes. The work of your file and this release are not part of it.
    type: raw
  keep_packages:
    description:
      - Whether the packages of the installed driver are kept on a host before a file C(change) of O(tasks) runs there, so that a person can
        go back to them.
      - V(try) keeps each package that the package manager still has or, with apt, can fetch in this version, and names the others.
      - V(require) fails a host before the file runs if one of its packages is not kept. V(never) keeps none.
    type: str
    default: try
  plan_file:
    description: The file to which the plan is written as JSON, for people to review. See O(approved).
    type: str
    default: ''
  approved:
    description:
      - A file that O(plan_file) has written, and that a person has approved. If a host plans something else since, it is left out, and the
        report names the difference. Containers that have started since make no difference.
      - A file that everybody may write to is refused. Trust its owner and its group, because they can change it after the approval.
    type: str
    default: ''
  approved_changes:
    description:
      - The approval for runs that share no files with the run that has planned, as in AWX. A dictionary of classes, each with the digests
        of the changes that its hosts may have. The playbook C(gpufleet.nvidia.plan) sets it as a statistic named
        C(gpufleet_rollout_approved_changes).
      - If a host plans something else since, it is left out, and the report names its change. An empty dictionary approves nothing.
      - It binds changes on hosts. Changes that are applied to a cluster (C(gpufleet_kubernetes_apply)) follow from the hosts' settings at
        the time of the rollout, and are not part of it.
    type: raw
  plugin_wait:
    description:
      - With C(gpufleet_kubernetes_apply), the seconds between a new configuration of the device plugin and the change of hosts that the
        old configuration would leave without GPUs. The kubelet brings a ConfigMap to the plugin's pod within about a minute.
      - There is no wait if these hosts change first, or if the cluster has the configuration already.
    type: raw
    default: 90
  host_timeout:
    description:
      - Seconds that one task may take on one host. A host that takes longer counts as lost. It finishes or rolls back its change by
        itself. V(0) means no limit.
      - A drain and O(soak_command) have limits of their own. The files of O(tasks) have no limit.
    type: raw
    default: 0
"""

    ROLLOUT_ASKED = r"""
description:
  - Names the hosts for which M(gpufleet.nvidia.drain) has an orchestrator to ask before the rollout is planned. These are hosts with a
    kubelet or C(slurmd), those with commands of yours (C(gpufleet_drain_commands)), and those with C(gpufleet_drain=always), whatever
    C(gpufleet_drain_by) says. It names none with C(gpufleet_drain=never), and none that could not be looked at.
  - The other hosts then take no task. Of 400 hosts without a kubelet none does.
  - Runs on the controller only. Use it with C(run_once).
extends_documentation_fragment:
  - gpufleet.nvidia.rollout
options: {}
"""

    ROLLOUT_PLAN = r"""
description:
  - Says for each host of the play whether it has something to do, is as desired already, or is left out, and in which batch it is changed.
    Canaries of each class come first, then waves, spread over failure domains.
  - The order follows from the hosts' names alone, so that a rollout that continues after an interruption is the same one.
  - Plans no batch when more hosts would be left out than may be, and says so in C(ended).
  - Runs on the controller only. Use it with C(run_once).
extends_documentation_fragment:
  - gpufleet.nvidia.rollout
  - gpufleet.nvidia.rollout.settings
options:
  approvals:
    description:
      - Whether the run only plans, for a person to approve. Then the changes of each class are set as statistics, as C(set_stats) does,
        under the name C(gpufleet_rollout_approved_changes), and the plan is printed only where it is also written to a file, without
        batches. If C(gpufleet_rollout_driver) is set, the hosts whose driver your tasks are to move are printed in any case. In check mode
        the statistics are set in any case.
    type: bool
    default: false
  fleet_policy:
    description:
      - V(per_host) lets every host have the engine that it has. V(uniform) fails, before the first host is changed, when the hosts in
        O(results) have more than one kind of container engine or more than one decision, and names the oldest hosts.
    type: str
    choices: [per_host, uniform]
    default: per_host
"""

    ROLLOUT_BATCH = r"""
description:
  - The gate of a rollout, as the first and as the last task of each batch. It counts the hosts that failed, were rolled back or were lost
    over all batches so far.
  - Never fails because of them. It says whether the play should end, and which hosts of the batch must not start, since a canary of their
    class did not come through.
  - Runs on the controller only. Use it with C(run_once).
extends_documentation_fragment:
  - gpufleet.nvidia.rollout.settings
  - gpufleet.nvidia.rollout.plan
options:
  point:
    description:
      - Whether the batch begins or ends.
      - V(ready) says whether it could begin now, and reports nothing, so that a person can be asked before.
      - V(tried) is for check mode, where all hosts are tried at once. It says of each batch what the gate would make of it.
    type: str
    choices: [ready, begin, end, tried]
    required: true
  declined:
    description: Whether a person who was asked does not want the batch. Then the rollout ends as C(paused).
    type: bool
    default: false
  refused:
    description:
      - Why no further batch may start, as the step C(rollout_cluster) says it. Empty where one may.
      - At O(point=begin) no host of the batch starts, either.
    type: str
    default: ''
"""

    ROLLOUT_CLUSTER = r"""
description:
  - Does for some hosts of a rollout what M(gpufleet.nvidia.kubernetes_objects) does for all of a play, where their
    C(gpufleet_kubernetes_apply) is true. Nodes of other hosts stay as they are, and no files are written.
  - Where the device plugin has to change first, or has to use both ways meanwhile, so that no pod loses its GPU, that is done before the
    hosts are changed. Where the hosts change first, it is done after them.
  - Never fails because of a cluster. It says why something could not be applied to one, so that the gate ends the rollout with its report.
extends_documentation_fragment:
  - gpufleet.nvidia.rollout
  - gpufleet.nvidia.rollout.settings
  - gpufleet.nvidia.rollout.plan
options:
  point:
    description:
      - V(before) and V(after) are for the hosts of the batch, before the first of them is changed and after they were looked at once more.
        A host that has failed, was rolled back or was lost is left out of V(after).
      - V(end) is for all hosts of the rollout that are as desired, unless its gate has stopped it, it pauses, or its window is closed.
    type: str
    choices: [before, after, end]
    required: true
"""

    ROLLOUT_DRIVER = r"""
description:
  - Does for one host what a change of its driver by tasks of yours needs around it. The playbook C(gpufleet.nvidia.rollout) takes this step
    where C(gpufleet_rollout_tasks) have a file C(change), and on a host whose change an earlier run has not judged.
  - In a tree (O(root)) and in check mode it does nothing.
extends_documentation_fragment:
  - gpufleet.nvidia.common
  - gpufleet.nvidia.common.root
  - gpufleet.nvidia.rollout.settings
options:
  point:
    description:
      - V(keep) keeps the packages of the driver on the host, notes there that a change begins, and releases the hold of this collection.
      - V(judge) judges the newest look at the host, and fails where module, packages, units and the next kernel do not fit together.
      - V(settle) notes on the host that it was judged and has come through.
    type: str
    choices: [keep, judge, settle]
    required: true
  driver:
    description: The policy for the driver's packages, as for M(gpufleet.nvidia.host). With V(ignore) no hold is released.
    type: str
    choices: [ignore, advise, hold]
    default: advise
  rollout:
    description: The rollout's id, which the host notes with the change. Another run that meets the change names it.
    type: str
    default: default
"""

    ROLLOUT_REPORT = r"""
description:
  - Prints the table that M(gpufleet.nvidia.fleet_table) prints, with the hosts that were left out or are still to do, and why.
  - Reports totals as C(set_stats) does, under the names C(gpufleet_rollout_totals) and C(gpufleet_totals), and how the
    rollout ended under C(gpufleet_rollout_result).
  - Runs on the controller only. Use it with C(run_once).
extends_documentation_fragment:
  - gpufleet.nvidia.rollout.plan
options:
  settings:
    description: The result of the step C(rollout_settings), for the event of the end.
    type: dict
    default: {}
  refused:
    description: Why objects could not be applied to clusters for hosts that are as desired, as the step C(rollout_cluster) says.
    type: str
    default: ''
"""

    ROLLOUT_SOAK = r"""
description:
  - Runs a command on the host as M(ansible.builtin.command) does. The playbook C(gpufleet.nvidia.rollout) runs
    C(gpufleet_rollout_soak_command) by it.
  - If the host ends the connection meanwhile, the words of that host are in the result. They are never rendered as a template.
options:
  argv:
    description: The command, word by word.
    type: list
    elements: str
    required: true
"""

    KEEP_FAILURE = r"""
description:
  - Keeps what the variable C(ansible_failed_result) has in a C(rescue). The playbooks C(gpufleet.nvidia.rollout) and
    C(gpufleet.nvidia.hand_over) use it.
  - Nothing of the message is rendered. C(ansible.builtin.set_fact) would render what a host has said, on an ansible-core before 2.19.
  - The task has to register the result. A fact would outlive the run in a fact cache, and C(inject_facts_as_vars) could hide it.
  - Runs on the controller only.
options:
  variable:
    description: The variable in which the task registers the result. With O(joined_by), its message stands before the new one.
    type: str
    choices: [gpufleet_rollout_failure, gpufleet_hand_over_failure]
    required: true
  otherwise:
    description: The message if the task that failed has none.
    type: str
    default: a task failed
  joined_by:
    description: Text between the message that the variable has already and the new one. If it is empty, the new message takes the place of
      the earlier one.
    type: str
    default: ""
"""

    HAND_OVER = r"""
description:
  - Sets the label C(nvidia.com/gpu.deploy.container-toolkit) of a Kubernetes node, by which the GPU Operator keeps its toolkit on a node
    or away from it, and waits until the toolkit's pod has ended, or is ready.
  - It is a step of the playbook C(gpufleet.nvidia.hand_over), which drains the node before, and converges and verifies its host after. The
    host itself is not asked, its result of M(gpufleet.nvidia.host_info) is read.
extends_documentation_fragment:
  - gpufleet.nvidia.rollout
  - gpufleet.nvidia.kubernetes
options:
  to:
    description:
      - Who shall configure the node's engine. V(state) only says who does.
    type: str
    choices: [collection, operator, state]
    default: collection
  point:
    description:
      - V(check) says whether there is something to do, and fails where it cannot be done.
      - V(label) sets the label, and waits for the toolkit's pod.
      - V(converged) fails where the task whose result is O(results) has left the host as it was.
    type: str
    choices: [check, label, converged]
    default: check
  kubernetes_node:
    description: Name of the node. Empty takes the name of the host in the inventory.
    type: str
    default: ""
  rollout:
    description:
      - The id by which M(gpufleet.nvidia.drain) has taken the node out of service. A node that an earlier run has left so is handed over
        again, whoever configures its engine now, and is put back into service by that.
    type: str
    default: default
  timeout:
    description: Seconds for the toolkit's pod to end, or to become ready.
    type: int
    default: 300
  interval:
    description: Seconds between two questions.
    type: int
    default: 5
"""
