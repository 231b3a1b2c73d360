# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences of actions."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

# ---------------------------------------------------------------- test hosts
TEST_HOSTS = Sentence(
    "test-hosts.not-a-table",
    "The environment variable {variable}, which only tests set, is not a JSON table",
    next="Unset it",
)
TEST_HOSTS_KEYS = Sentence(
    "test-hosts.unknown-keys",
    "The environment variable {variable}, which only tests set, has unknown keys: {keys}",
    next="Unset it",
)

# ---------------------------------------------------------------- the host
BECOME_ROOT = (
    "Set ansible_become: true for this host, and leave ansible_become_user out or make it root"
)
BUG = "Report it: this is a bug in the collection"
NOT_ROOT = Sentence(
    "host.not-root",
    "The program on the host does not run as root",
    why="only root can read the sockets and configurations of engines",
    next=BECOME_ROOT,
)
NOT_ROOT_FOR_LOG = Sentence(
    "host.not-root-for-log",
    "The program on the host does not run as root",
    why="only root can read the kernel log",
    next=BECOME_ROOT,
)
SICK_GPUS = Sentence(
    "host.sick-gpus",
    "No container was started: {found}",
    why="a container that opens a sick GPU may hang",
    next="{step}",
)
GPU_FINDINGS = Sentence("host.gpu-findings", "Something is wrong with GPUs: {found}", next="{step}")
NOT_ROOT_FOR_DIAGNOSIS = Sentence(
    "host.not-root-for-diagnosis",
    "The program on the host does not run as root",
    why="a diagnosis is run as root, like every program on the host",
    next="Set ansible_become: true for this host",
)
NO_ROOT_DIRECTORY = Sentence(
    "host.no-root-directory",
    "there is no such directory on this host",
    why="gpufleet_root names it",
    next="Make it, or name the one that is meant",
)
REPEATED_QUERIES = Sentence(
    "host.repeated-queries",
    "The plan repeats queries of the kinds {kinds}",
    next=BUG,
)
TOO_MANY_LOOKS = Sentence(
    "host.too-many-looks",
    "{number} observations of this host were not enough",
    why="each led to more queries, the last of the kinds {kinds}",
    next="Set gpufleet_config_path to the engine's own file, or remove that engine from gpufleet_engines",
)
UNFINISHED = Sentence(
    "host.unfinished-transaction",
    "An earlier transaction of this host cannot be ended: {trouble}",
    why="it could be taken back at any time, so nothing is planned on top of it",
    next="Fix what it names, and run again",
)
STILL_MISSING = Sentence(
    "host.still-missing",
    "The packages that had to come first were installed, and are still missing: {paths}",
    next="Check the host's package manager",
)
ROOT_NOT_RUNNING = Sentence(
    "host.verify-in-tree",
    "Verification starts containers, and nothing runs in another root directory",
    next="Run it on the host itself",
)
NO_IMAGE = Sentence(
    "host.verify-without-image",
    "gpufleet_verify_image is empty",
    next="Set it to an image that exists on the host and has a shell, sleep, rm and mknod",
)
DIAGNOSIS_FAILED = Sentence(
    "host.diagnosis-failed",
    "{command} failed: {tests}",
    next="Run it there to read why, and keep work away from the host until it passes",
)

# ---------------------------------------------------------------- the way to the host
CHECK_PYTHON = "Check what this host runs as its Python"
INSTALL_PYTHON = (
    "Install python3 (3.6 or newer), or set ansible_python_interpreter to the one that exists"
)
ANSWER_TOO_LARGE = Sentence(
    "transport.answer-too-large",
    "The output of the host has more than {limit} MiB",
    next=CHECK_PYTHON,
)
ANSWER_TOO_MANY_VALUES = Sentence(
    "transport.answer-too-many-values",
    "The output of the host has more than {limit} values",
    next=CHECK_PYTHON,
)
ANSWER_TOO_DEEP = Sentence(
    "transport.answer-too-deep",
    "The output of the host has values more than {limit} deep",
    next=CHECK_PYTHON,
)
NO_ANSWER = Sentence(
    "transport.not-an-answer",
    "The output of the host is not what this collection's programs print",
    next=CHECK_PYTHON,
)
ANSWER_SHAPE = Sentence(
    "transport.answer-shape",
    "An answer of the host does not have the shape that it must have: {broken}",
    next=CHECK_PYTHON,
)
NEEDS_TERMINAL = Sentence(
    "transport.needs-terminal",
    "sudo on this host wants a terminal (requiretty)",
    why="a program that is sent over stdin does not have one",
    next="Leave gpufleet_transport at auto or set it to module, or remove requiretty for this account",
)
NO_PYTHON = Sentence("transport.no-python", "There is no Python 3 on the host", next=INSTALL_PYTHON)
PYTHON_2 = Sentence(
    "transport.python-2", "The Python at {python} on the host is Python 2", next=INSTALL_PYTHON
)
PYTHON_OLD = Sentence(
    "transport.python-old",
    "The Python on the host is {major}.{minor}",
    why="this collection needs Python 3.6 or newer",
    next=INSTALL_PYTHON,
)
PYTHON_OLD_FOR_MODULES = Sentence(
    "transport.python-old-for-modules",
    "The Python on the host is too old for modules of this ansible-core",
    why="this connection, or its become method, gives a program no stdin, so programs are sent as modules",
    next="Set ansible_python_interpreter to a newer Python on the host, or use an older ansible-core",
)
NO_PYTHON_THERE = Sentence(
    "transport.no-python-there", "There is no Python at {python} on the host", next=INSTALL_PYTHON
)
PROGRAM_LOST = Sentence(
    "transport.program-lost",
    "The program {program} gave no answer on the host (exit status {status}): {output}",
    next="Run with -vvv, or set gpufleet_transport: module",
)
MODULE_FAILED = Sentence(
    "transport.module-failed",
    "The module {module} ({program}) failed on the host: {cause}",
    next="Run with -vvv",
)
PYTHON_AND_LOGIN = (
    "is a Python 3.6 or newer on the host, and that its login shell and become method print nothing"
)
MODULE_PRINTED = Sentence(
    "transport.module-printed",
    "{output}",
    next=f"Check that ansible_python_interpreter {PYTHON_AND_LOGIN}",
)
MODULE_PRINTED_BY = Sentence(
    "transport.module-printed-by",
    "{output}",
    next=f"Check that ansible_python_interpreter, {{python}} for this host, {PYTHON_AND_LOGIN}",
)

# ---------------------------------------------------------------- files of the controller
NO_DIRECTORY = Sentence(
    "file.no-directory",
    "there is no directory for this file",
    why="{setting} names it",
    next="Make the directory, or name another one",
)
NO_SUCH_HOME = Sentence(
    "file.no-such-home",
    "this path begins in a home directory that is not known",
    why="no user of this machine has the name behind `~`",
    next="Correct the name, or write the path from `/` on",
)
PATH_WITH_NULL = Sentence(
    "file.path-with-null",
    "this path has a null character",
    why="no file has one in its name",
    next="Remove the character from the path",
)
PATH_NOT_TEXT = Sentence(
    "file.path-not-text",
    "this path has a character that no text can have",
    why="no file can be opened by this name",
    next="Remove the character from the path",
)
DIRECTORY_NOT_MADE = Sentence(
    "file.directory-not-made",
    "this directory cannot be made",
    why="{cause}",
    next="Name a directory that this user can make in {setting}",
)
DIRECTORY_UNREACHABLE = Sentence(
    "file.directory-unreachable",
    "{setting} is not used",
    why="{part}: {cause}",
    next="Name a directory that this user can reach",
)
NOT_A_DIRECTORY = Sentence(
    "file.not-a-directory",
    "{setting} does not name a directory",
    why="{part} is not a directory",
    next="Name a directory. It is made if it is missing",
)
FOREIGN_LINK = Sentence(
    "file.foreign-link",
    "{setting} is not used",
    why="{part} is a link of the user {user}, who could turn it to any other place",
    next="Name a directory of your own",
)
NOT_WRITTEN = Sentence(
    "file.not-written",
    "this file cannot be written",
    why="{cause}",
    next="Name a place that this user can write to in {setting}",
)
NOT_READ = Sentence(
    "file.not-read",
    "this cannot be read",
    why="{cause}",
    next="Make it readable, or name another directory in {setting}",
)
NOT_REMOVED = Sentence(
    "file.not-removed", "this file cannot be removed", why="{cause}", next="Remove it by hand"
)
NOT_A_KIND = Sentence(
    "file.not-a-kind",
    "this is not a {kind}",
    why="it is not a file, or it has more than {limit} MiB",
    next="{step}",
)
KIND_UNREADABLE = Sentence(
    "file.kind-unreadable", "this {kind} cannot be read", why="{cause}", next="{step}"
)
NO_DESCRIPTION = Sentence(
    "file.not-an-image-description",
    "this does not describe an image",
    why="{cause}",
    next="Give the output of skopeo inspect or docker image inspect, or the variables themselves",
)
REPORT_UNREADABLE = Sentence(
    "file.report-unreadable", "this file cannot be read", why="{cause}", next="{step}"
)
REPORT_NOT_JSON = Sentence(
    "file.report-not-json", "this file is not JSON", why="{cause}", next="{step}"
)
RUN_DIRECTORY = Sentence(
    "file.run-directory",
    "this directory cannot be used",
    why="{cause}; runs record in it which hosts they have",
    next="Make it a directory that you alone may write to, or set ANSIBLE_HOME",
)
CLAIM = Sentence(
    "file.claim",
    "this file does not say which hosts a rollout has",
    why="{cause}",
    next="Remove it if no rollout runs",
)

# ---------------------------------------------------------------- settings of a rollout
TASKS_FILE_MISSING = Sentence(
    "rollout-file.tasks-missing",
    "there is no such file",
    why="gpufleet_rollout_tasks has it as {name}",
    next="Name a file of tasks",
)
NOT_TASKS = Sentence(
    "rollout-file.not-tasks",
    "this is not a file of tasks that Ansible takes",
    why="gpufleet_rollout_tasks has it as {name}: {cause}",
    next="Fix the file. No host was contacted",
)
PLAN_UNREADABLE = Sentence(
    "rollout-file.plan-unreadable",
    "this file cannot be read",
    why="{cause}",
    next="Name a file that gpufleet_rollout_plan_file has written",
)
PLAN_NOT_JSON = Sentence(
    "rollout-file.plan-not-json",
    "this file is not JSON",
    why="{cause}",
    next="Plan again, and have that plan approved",
)
PLAN_NOT_A_FILE = Sentence(
    "rollout-file.plan-not-a-file",
    "this is not a plan of a rollout",
    why="it is not a file, or a very large one",
    next="Name a file that gpufleet_rollout_plan_file has written",
)
PLAN_WRITABLE = Sentence(
    "rollout-file.plan-writable",
    "this plan is not bound to who approved it",
    why="every user may write to it (mode {mode}), so it may differ from what was approved",
    next="Run chmod o-w on it, or copy it to a directory of yours",
)

# ---------------------------------------------------------------- registries and downloads
CANNOT_FETCH = Sentence(
    "download.failed", "the controller cannot fetch this", why="{cause}", next="{step}"
)
FETCHED_TOO_LARGE = Sentence(
    "download.too-large",
    "the controller does not fetch this",
    why="it is larger than {limit} MiB",
    next="{step}",
)
NO_ANSWER_IN_TIME = Sentence(
    "download.no-answer",
    "{who} did not answer",
    why="nothing came within {seconds} s",
    next="See that it answers, then run again; what it was asked to change may still happen",
)
NOT_AN_IMAGE = Sentence(
    "registry.not-an-image",
    "this does not name an image of a registry",
    next="Write it as registry.example.org/team/name:tag",
)
REGISTRY_IMAGE = Sentence(
    "registry.image",
    "the registry {registry} does not say what this image is",
    why="{cause}",
    next="{step}",
)
REGISTRY_TAGS = Sentence(
    "registry.tags",
    "the registry {registry} does not say which tags there are",
    why="{cause}",
    next="{step}",
)
TAGS_UNKNOWN = Sentence(
    "registry.tags-unknown",
    "only the registry knows which tags are {tags}",
    next="Let registries be asked (registry: true, gpufleet_image_registry), or list the images one by one",
)
CREDENTIALS_MISSING = Sentence(
    "registry.credentials-missing",
    "there is no such file of credentials",
    next="Name one that podman login has written",
)
CREDENTIALS_HOME = Sentence(
    "registry.credentials-home",
    "there is no such file of credentials",
    why="{cause}",
    next="Name one that podman login has written",
)
CREDENTIALS_UNREADABLE = Sentence(
    "registry.credentials-unreadable",
    "this file of credentials cannot be read",
    why="{cause}",
    next="Log in again, or name another",
)

# ---------------------------------------------------------------- AWX and clusters
AWX_NOT_MADE = Sentence(
    "awx-api.not-made",
    "AWX's {kind} '{name}' could not be made",
    why="{cause}",
    next="Fix that and run this again; {so_far}",
)
AWX_COLLECTION = Sentence(
    "awx-api.collection-missing",
    "the collection {name} is not installed",
    why="its modules make the objects in AWX",
    next="Install it: ansible-galaxy collection install {name}. Or set gpufleet_awx_file, which needs none",
)
CLUSTER_OPTION_DIFFERS = Sentence(
    "cluster-run.option-differs",
    "{setting} differs within the cluster {cluster}: {values}",
    next="Set it for the whole cluster, or give those hosts another gpufleet_cluster",
)
SAME_ACCESS = Sentence(
    "cluster-run.same-access",
    "the clusters {one} and {other} would be reached by the same kubeconfig and context",
    next="Set gpufleet_kubernetes_context or gpufleet_kubernetes_kubeconfig for the hosts of each, or gpufleet_cluster alike",
)
KUBERNETES_CORE_FOR_FILES = Sentence(
    "cluster-run.collection-missing",
    "the collection kubernetes.core is not installed",
    next="Run `ansible-galaxy collection install kubernetes.core`, or leave gpufleet_kubernetes_apply out and apply the files",
)
KUBERNETES_CORE_FOR_DRAIN = Sentence(
    "drain-run.collection-missing",
    "the collection kubernetes.core is not installed",
    next="Run `ansible-galaxy collection install kubernetes.core`, or name others by gpufleet_drain_by",
)
TOOLKIT_HAS_NOT_LEFT = Sentence(
    "cluster-run.toolkit-has-not-left",
    "the GPU Operator's toolkit has not left the node {node}",
    why="{waits} after {seconds} s",
    next="Look at that pod, or raise gpufleet_hand_over_timeout",
)
TOOLKIT_HAS_NOT_COME = Sentence(
    "cluster-run.toolkit-has-not-come",
    "the GPU Operator's toolkit has not come to the node {node}",
    why="{waits} after {seconds} s",
    next="Look at that pod, or raise gpufleet_hand_over_timeout",
)
LOOK_MISSING = Sentence(
    "drain-run.look-missing",
    "{variable} has no result of gpufleet.nvidia.host_info",
    next="Run that module first, and register it",
)
NODE_HELD = Sentence(
    "drain-run.node-held", "{reason}", next="Look at who holds the node now, and run again"
)
NOBODY_DRAINS = Sentence(
    "drain-run.no-drainer",
    "{reason}",
    next="Set gpufleet_drain_by and what it needs, or gpufleet_drain: auto",
)
CANNOT_RUN = Sentence(
    "drain-run.program-not-run",
    "{program} cannot be run",
    why="{cause}",
    next="See {delegate} for where it runs",
)
COMMAND_FAILED = Sentence(
    "drain-run.command-failed",
    "gpufleet_drain_commands.{step} ended with {status}",
    why="{cause}",
    next="Try the command by hand, where the task runs",
)
COMMAND_HUNG = Sentence(
    "drain-run.command-hung",
    "gpufleet_drain_commands.{step} did not end in time",
    why="{cause}",
    next="Try the command by hand, where the task runs",
)
NO_SCONTROL = Sentence(
    "drain-run.no-scontrol",
    "there is no scontrol where the task runs",
    next="Install Slurm's commands there, or set gpufleet_drain_delegate to a host that has them",
)
SLURM_FORBIDS = Sentence(
    "drain-run.slurm-forbids",
    "cannot {doing}",
    why="{cause}",
    next="Run it as SlurmUser or root, or as an operator of Slurm (gpufleet_drain_delegate)",
)
SLURM_FAILED = Sentence(
    "drain-run.slurm-failed",
    "cannot {doing}",
    why="{cause}",
    next="Try scontrol by hand, where the task runs",
)
COLUMN_STEP = "Name a value by words with dots, as decision.injection, or correct the expression (jmespath.org)"
COLUMN_PATH = Sentence(
    "report-table.column-path",
    "gpufleet_table_columns: {path!r} is not a JMESPath expression",
    why="{cause}",
    next=COLUMN_STEP,
)
COLUMN_VALUE = Sentence(
    "report-table.column-value",
    "gpufleet_table_columns: {path!r} cannot be evaluated",
    why="{cause}",
    next=COLUMN_STEP,
)
PLAY_STOPS = Sentence(
    "failed-hosts-check.stops",
    "the play stops here: {sentence}: {hosts}",
    next="Look at those hosts first, then run again for the rest, or raise gpufleet_max_failed",
)
STEP_NOT_ONCE = Sentence(
    "playbook-step.not-once",
    "The step {step} acts once for the whole play, and this task would run it for each of {count} hosts",
    next="Write run_once: true at the task",
)
IMAGE_FILTER_OPTIONS = Sentence(
    "image-filter.options",
    "gpus is all or each, nothing_fits is fail or report",
    next="Give the filter one of these values",
)
