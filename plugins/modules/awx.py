#!/usr/bin/python
# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation only: the action plugin of the same name works on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: awx
short_description: Make the project, job templates, workflow and schedule that AWX needs for rollouts
version_added: 0.1.0
author:
  - The gpufleet.nvidia contributors (@gpufleet)
description:
  - Makes an execution environment, a project, job templates for C(gpufleet.nvidia.plan), C(rollout), C(verify), C(rollback) and C(report)
    with surveys, a workflow (plan, approval, canaries, waves, report), and a schedule that looks for drift. An object that is there already
    is updated where it differs.
  - The modules of the collection C(awx.awx) do the work, which has to be installed. The options O(host), O(token), O(username),
    O(password) and O(validate_certs) are handed on to them. Those that are not set are read from the environment (C(CONTROLLER_HOST) and
    so on) or from C(tower_cli.cfg), as C(awx.awx) documents.
  - With O(file) no API is asked. The same objects are written as variables for the collection C(infra.aap_configuration).
  - The inventory and the credentials are not made. Both have to be in AWX already.
  - Runs on the controller only. Use it with C(run_once).
extends_documentation_fragment:
  - gpufleet.nvidia.attributes
  - gpufleet.nvidia.attributes.once
attributes:
  check_mode:
    support: partial
    details:
      - An object that needs another one which would be made or updated is reported as changed without a comparison.
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  inventory:
    description: The inventory in AWX with the hosts.
    type: str
    required: true
  project_url:
    description: The git repository with the playbooks that the job templates run, see C(examples/awx) in this collection.
    type: str
    required: true
  prefix:
    description: The beginning of the names of all objects.
    type: str
    default: gpufleet
  organization:
    description: The organization that has the objects.
    type: str
    default: Default
  credentials:
    description: Names of credentials in AWX that every job gets. One of the type Machine reaches the hosts.
    type: list
    elements: str
    default: []
  image:
    description:
      - The image of the execution environment. It needs this collection, see C(execution-environment.yml) in C(examples/awx).
      - Empty makes none, and jobs run in the default one of the organization, for which AWX installs the project's collections.
    type: str
    default: ''
  project_branch:
    description: The branch, tag or commit of the project. Empty means the repository's default branch.
    type: str
    default: ''
  project_credential:
    description: The name of a credential in AWX that reads the repository.
    type: str
    default: ''
  playbooks:
    description: The directory in the project that has the playbooks.
    type: str
    default: playbooks
  forks:
    description: How many hosts a job works on at the same time.
    type: int
    default: 50
  slices:
    description:
      - Into how many jobs AWX may deal out the hosts of C(plan) and C(verify), which change nothing.
      - A rollout is never sliced, since its gate and its limits count the hosts of one job. The plan of the workflow is one job, too.
    type: int
    default: 1
  drift_schedule:
    description:
      - When to look for drift, as a rule of RFC 5545 the way AWX wants it, with C(DTSTART), C(RRULE) and C(INTERVAL).
      - The job changes nothing, and fails where a host is not as desired. Empty makes no schedule.
    type: str
    default: DTSTART:20260101T030000Z RRULE:FREQ=DAILY;INTERVAL=1
  approval_timeout:
    description: Seconds after which an approval that was not given counts as denied. V(0) means never.
    type: int
    default: 0
  settings:
    description:
      - Settings of a run, such as C(gpufleet_rollout_waves). Where a survey asks for one, the value is what stands there at first. The
        others become extra variables of the job templates.
    type: dict
    default: {}
  file:
    description: A file on the controller for the objects as variables of C(infra.aap_configuration). No API is asked then.
    type: str
    default: ''
  collection:
    description: The collection whose modules do the work. V(ansible.controller) is Red Hat's, with the same modules.
    type: str
    choices: [awx.awx, ansible.controller]
    default: awx.awx
  host:
    description: The address of AWX.
    type: str
  username:
    description: The user of AWX.
    type: str
  password:
    description: The password of the user.
    type: str
  token:
    description: A token of AWX, instead of O(username) and O(password).
    type: str
  validate_certs:
    description: Whether the certificate of AWX is checked. Unset leaves it to the environment and C(tower_cli.cfg), and else it is.
    type: bool
"""

EXAMPLES = r"""
- name: Make what AWX needs, reached by CONTROLLER_HOST and CONTROLLER_OAUTH_TOKEN in the environment
  gpufleet.nvidia.awx:
    inventory: GPU fleet
    project_url: https://git.example.org/platform/gpu-fleet.git
    credentials: [ssh]
    image: images.example.org/platform/gpufleet-ee:1
    settings:
      gpufleet_rollout_waves: [1, 5%, 100%]
      gpufleet_rollout_window: Mo-Fr 20:00-04:00 Europe/Berlin
  run_once: true

- name: Write the same as variables for infra.aap_configuration
  gpufleet.nvidia.awx:
    inventory: GPU fleet
    project_url: https://git.example.org/platform/gpu-fleet.git
    file: configuration/gpufleet.yml
  run_once: true
"""

RETURN = r"""
objects:
  description: All objects in the order in which they are made.
  returned: success
  type: list
  elements: dict
  sample:
    - kind: job_template
      name: gpufleet plan
      changed: false
file:
  description: The file that was written, or would be.
  returned: where it was asked for
  type: str
  sample: /home/operator/configuration/gpufleet.yml
"""
