# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about options and variables."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

FULL_PATH = "Give the full path, starting with /"
ONE_OF_TWO = "Leave out one of the two"
ONE_KIND = "a file defines one kind of devices"

# ---------------------------------------------------------------- values of options
OPTION_REPOSITORY = Sentence(
    "options.repository-address",
    "{option} is {value!r}, which is not the address of a repository",
    next="Give an http, https or file address without spaces",
)
OPTION_PATH = Sentence(
    "options.path",
    "{option} is {value!r}, which is not an absolute path without '..' and control characters",
    next=FULL_PATH,
)
OPTION_FILE = Sentence(
    "options.file",
    "{option} is {value!r}, which is not an absolute path of a file",
    next=f"{FULL_PATH}, without '..' and without a / at the end",
)
OPTION_LITERAL = Sentence(
    "options.path-expands",
    "{option} is {value!r}, which contains a ~ or a variable",
    why="Ansible would expand it on the controller, and this path is on the host",
    next=FULL_PATH,
)
OPTION_KUBECONFIG = Sentence(
    "options.kubeconfig-expands",
    "{option} is {value!r}, which contains a variable",
    why="the machine that asks the API reads this path",
    next="Write the path out; ~ is the home there",
)
OPTION_SOCKET = Sentence(
    "options.socket",
    "{option} is {value!r}, which is not an absolute path of at most 107 bytes",
    why="107 bytes is the limit of a Unix socket",
    next="Give the path alone, without unix://",
)
OPTION_SERVICE = Sentence(
    "options.service",
    "{option} is {value!r}, which is not the name of a systemd service",
    next="Give it with its suffix, for example containerd.service",
)
OPTION_ENGINE_VERSION = Sentence(
    "options.engine-version",
    "{option} is {value!r}, which is not a version",
    next="Write it like 1.7.24",
)
OPTION_PACKAGE_VERSION = Sentence(
    "options.package-version",
    "{option} is {value!r}, which is not the version of a package",
    next="Write it like 1.20.1 or 1.20.1-1",
)
OPTION_VENDOR = Sentence(
    "options.cdi-vendor",
    "{option} is {value!r}, which is not a vendor of CDI devices",
    next="Write it like nvidia.com, with at least two characters",
)
OPTION_CLASS = Sentence(
    "options.cdi-class",
    "{option} is {value!r}, which is not a class of CDI devices",
    next="Write it like gpu or model, with at least two characters",
)
OPTION_IMAGE = Sentence(
    "options.image",
    "{option} is {value!r}, which is not the name of an image",
    next="Write it like registry.example/name:tag",
)
OPTION_DURATION = Sentence(
    "options.duration",
    "{option} is {value!r}, which is not a duration",
    next="Give a number of seconds above 0",
)
OPTION_GPUS = Sentence(
    "options.gpus",
    "{option} is {value!r}, which is not a number of GPUs",
    next="Write how many GPUs the host has, from 0 to 1024, or leave it out",
)
OPTION_ACCEPTED_FINDING = Sentence(
    "options.accepted-finding",
    "{option} has {value!r}, which names no finding that can be accepted",
    next="Write the code of the finding, and of one about a GPU also its address: gpu-health.not-served 0000:43:00.0. "
    "How many GPUs a host has is said by gpufleet_gpus",
)
OPTION_ANNOTATION_PREFIX = Sentence(
    "options.annotation-prefix",
    "{option} has {value!r}, which is not a prefix of annotations",
    next="Write it like nvidia.cdi.k8s.io/, with the / at its end",
)
OPTION_IMEX_CHANNEL = Sentence(
    "options.imex-channel",
    "{option} has {value!r}, which is not the number of an IMEX channel",
    next="Write a number from 0 to 1048575, or all for every channel that the host has",
)
OPTION_PROGRAM = Sentence(
    "options.program",
    "{option} has {value!r}, which is not the name or path of a program",
    next="Give the program alone, without arguments",
)
DROP_IN_PATH_WITH_NEVER = Sentence(
    "options.drop-in-never",
    "gpufleet_drop_in is never, and gpufleet_drop_in_path is {path}",
    why="with `never`, no drop-in is written",
    next=ONE_OF_TWO,
)
TWO_SOURCES = Sentence(
    "options.two-sources",
    "gpufleet_bundle_file is set besides gpufleet_toolkit_repository",
    why="gpufleet_toolkit_repository is {repository}, and packages come from one place",
    next=ONE_OF_TWO,
)
CREDENTIALS_IN_ADDRESS = Sentence(
    "options.credentials-in-address",
    "{option} contains a user name or a password",
    why="every user of the host can read the file that holds it",
    next="Give the address alone; apt reads credentials from /etc/apt/auth.conf.d",
)
SAME_CLASS = Sentence(
    "options.same-class",
    "{option} is the same as {other}",
    why=ONE_KIND,
    next="Give the second kind another name",
)
FABRIC_CLASS = Sentence(
    "options.fabric-class",
    "{option} is {value}, the class of {fabric}",
    why=ONE_KIND,
    next="Leave {option} or {fabric} out",
)

# ---------------------------------------------------------------- handlers
HANDLER_NAME = Sentence(
    "options.handler-name",
    "gpufleet_handlers has {name!r}, which is not a valid name of a handler",
    why="a RuntimeClass names it, so it has to be a DNS label",
    next="Use small letters, digits and - (at most 63)",
)
DOCKER_HANDLER_NAME = Sentence(
    "options.docker-handler-name",
    "gpufleet_handlers has {name!r}, which is not a valid name of a runtime",
    why="docker run --runtime names it",
    next="Use letters, digits, _, . and - (at most 63)",
)
ENGINES_OWN_HANDLER = Sentence(
    "options.engines-own-handler",
    "gpufleet_handlers has {name}, which is the engine's own handler",
    why="containers that request no GPU would run through the NVIDIA runtime",
    next="Choose another name",
)
HANDLER_NOT_A_DICTIONARY = Sentence(
    "options.handler-not-a-dictionary",
    "{option} has to be a dictionary",
    next="Give it the keys binary and options, or {{}}",
)
HANDLER_KEY = Sentence(
    "options.handler-key",
    "{option} has the unknown key {key!r}",
    next="Known keys are binary and options",
)
HANDLER_OPTIONS = Sentence(
    "options.handler-options",
    "{option} has to be a dictionary",
    next="Write the runtime's options as keys with values",
)

# ---------------------------------------------------------------- what Ansible's validator reports
UNKNOWN_OPTION = Sentence(
    "options.unknown",
    "The module does not have the option {option}",
    next="Supported options are {known}",
)
UNKNOWN_OPTION_NEAR = Sentence(
    "options.unknown-near",
    "The module does not have the option {option}",
    next="Did you mean {near}? Supported options are {known}",
)
WRONG_CHOICE = Sentence(
    "options.choice",
    "{option} is {value!r}, which is not one of its values",
    next="Write one of {choices}",
)
WRONG_SWITCH = Sentence(
    "options.switch",
    "{option} is {value!r}, which is not one of its values",
    next="Write {word}",
)
DROP_IN_IS_PATH = Sentence(
    "options.drop-in-is-path",
    "{option} is {value!r}, which is a path",
    next="Give the path as gpufleet_drop_in_path",
)
LIST_WITH_BLANKS = Sentence(
    "options.list-with-blanks",
    "{option} is {value!r}, and Ansible takes the blanks as parts of its values",
    next="Write a list, {option}: [{items}]",
)
LIST_IS_TEXT = Sentence(
    "options.list-is-text",
    "{option} is the text {value!r}, and not a list",
    why="-e NAME=VALUE gives a text, and so do quotes around the brackets",
    next="Write {option}: {value} in a file, -e @rollout.yml, without quotes around it",
)
WRONG_TYPE = Sentence(
    "options.type",
    "{option} is of the type {found}, and it has to be of the type {wanted}",
    why="{cause}",
    next="Write it like this, {option}: {example}",
)
REQUIRED_OPTION = Sentence(
    "options.required",
    "The task needs the options {missing}",
    next="Set them",
)
INVALID_OPTION = Sentence(
    "options.invalid",
    "{sentence}",
    next="Correct the option",
)

# ---------------------------------------------------------------- values that YAML has read as
# another type
READ_AS_TIME = Sentence(
    "options.read-as-time",
    "{option} is {value}, which YAML reads as a time",
    next="Write it in quotes",
)
READ_AS_DATE = Sentence(
    "options.read-as-date",
    "{option} is {value}, which YAML reads as a date",
    next="Write it in quotes",
)
READ_AS_BYTES = Sentence(
    "options.read-as-bytes",
    "{option} is {value}, which YAML reads as binary data",
    next="Write it as text",
)
READ_AS_SET = Sentence(
    "options.read-as-set",
    "{option} is {value}, which YAML reads as a set",
    next="Write it as a list",
)
KEY_READ_AS_TIME = Sentence(
    "options.key-read-as-time",
    "{option} has the key {value}, which YAML reads as a time",
    next="Write it in quotes",
)
KEY_READ_AS_DATE = Sentence(
    "options.key-read-as-date",
    "{option} has the key {value}, which YAML reads as a date",
    next="Write it in quotes",
)
KEY_READ_AS_BYTES = Sentence(
    "options.key-read-as-bytes",
    "{option} has the key {value}, which YAML reads as binary data",
    next="Write it as text",
)
KEY_READ_AS_SET = Sentence(
    "options.key-read-as-set",
    "{option} has the key {value}, which YAML reads as a set",
    next="Write it as text",
)
NOT_FINITE = Sentence(
    "options.not-finite",
    "{option} is {value}, which is not a finite number",
    next="Write a number, or put it in quotes",
)
KEY_NOT_FINITE = Sentence(
    "options.key-not-finite",
    "{option} has the key {value}, which is not a finite number",
    next="Write a number, or put it in quotes",
)
VERSION_IS_NUMBER = Sentence(
    "options.version-is-number",
    "{option} is the number {value}, and YAML drops a last 0 of a number",
    next='Write the version in quotes, {option}: "1.30"',
)
VERSIONS_HAVE_NUMBER = Sentence(
    "options.versions-have-number",
    "{option} has the number {value}, and YAML drops a last 0 of a number",
    next='Write the versions in quotes, {option}: ["1.30"]',
)

# ---------------------------------------------------------------- variables of a run
UNKNOWN_VARIABLE = Sentence(
    "variables.unknown",
    "There is no variable {name}, but it is set for {hosts}",
    next="Correct its name. Names that begin with gpufleet_ are reserved for the collection; "
    "list a variable of your own in gpufleet_own_variables",
)
UNKNOWN_VARIABLE_NEAR = Sentence(
    "variables.unknown-near",
    "There is no variable {name}, but it is set for {hosts}",
    next="Did you mean {near}? Names that begin with gpufleet_ are reserved for the collection; "
    "list a variable of your own in gpufleet_own_variables",
)
RUN_SETTING_IN_INVENTORY = Sentence(
    "variables.run-setting-in-inventory",
    "{name} is set in the inventory, for {hosts}, where it would have no effect",
    why="it applies to the whole run",
    next="Remove it there and pass it on the command line: -e @rollout.yml, with `{name}: {example}` in that file",
)
FROM_FACTS = Sentence(
    "variables.from-facts",
    "facts set {names}",
    why="facts are the host's own words, and with these a host would choose what the run does",
    next="Set it in the inventory. If nothing of yours returns such a fact, look at the host, clear the fact cache, and leave the host out "
    "with --limit",
)
WAVE_SIZE = Sentence(
    "variables.wave-size",
    "gpufleet_serial has {sizes}, which is not the size of a wave",
    why="a size is a number of hosts above 0, or a percentage from 1% to 100%",
    next="Write it like gpufleet_serial: {example}",
)
FAILED_HOSTS = Sentence(
    "variables.failed-hosts",
    "gpufleet_max_failed is {value!r}, which is neither a number of hosts nor a percentage up to 100%",
    next="Write it like 2 or 10%",
)
WITHOUT_AT = Sentence(
    "variables.without-at",
    "-e {file} sets no variable",
    why="it has neither @ nor =",
    next="Write -e @{file} if it is a file of variables",
)
CUT_AT_BLANK = Sentence(
    "variables.cut-at-blank",
    "-e {name}=... has blanks",
    why="Ansible takes each word as a variable of its own, so {name} is not what you wrote",
    next='Write no blank beside =. A value with blanks goes in a file, -e @rollout.yml, or in JSON, -e \'{{"{name}": "..."}}\'',
)
TAGS = Sentence(
    "variables.tags",
    "The playbooks of this collection have no tags",
    next="Leave --tags and --skip-tags out. For one part alone run gpufleet.nvidia.verify (the verification) "
    "or gpufleet.nvidia.refresh_cdi (the CDI specs)",
)
START_AT_TASK = Sentence(
    "variables.start-at-task",
    "--start-at-task would skip the checks of variables and hosts before the first change",
    next="Leave --start-at-task out, and run the playbook again as a whole: it leaves hosts that are done as they are",
)
UNDEFINED_VALUE = Sentence(
    "variables.undefined",
    "{name} cannot be read, since something in {value} is undefined",
    next="Define it, or correct its name",
)
UNREADABLE_VALUE = Sentence(
    "variables.unreadable",
    "{name} cannot be read",
    why="{cause}",
    next="Correct its value",
)
UNREADABLE_SETTING = Sentence(
    "variables.unreadable-setting",
    "{name} cannot be read",
    why="{cause}",
    next="Write the value itself: a setting of the whole run is read without a host, and has no host's variables",
)
UNKNOWN_HOSTS = Sentence(
    "variables.unknown-hosts",
    "gpufleet_hosts is {pattern}, which matches no host of the inventory",
    next="Correct it, or add the hosts to the inventory",
)
UNKNOWN_HOSTS_NEAR = Sentence(
    "variables.unknown-hosts-near",
    "gpufleet_hosts is {pattern}, which matches no host of the inventory",
    next="Did you mean {near}? Correct it, or add the hosts to the inventory",
)
NO_PATTERN = Sentence(
    "variables.no-hosts-named",
    "gpufleet_hosts is empty",
    next="Set it to a host, a group or a pattern of the inventory, for example -e gpufleet_hosts=gpu_hosts",
)
EMPTY_INVENTORY = Sentence(
    "variables.empty-inventory",
    "The inventory has no hosts",
    next="Name an inventory that has hosts, for example with -i inventory",
)
EMPTY_GROUP = Sentence(
    "variables.empty-group",
    "gpufleet_hosts is {pattern}, a group of the inventory without hosts",
    next="Add hosts to it, or name another group",
)
LIMIT_LEAVES_NONE = Sentence(
    "variables.limit-leaves-none",
    "--limit leaves none of the hosts of gpufleet_hosts ({pattern})",
    next="Limit the run to some of {hosts}",
)
CHANGE_REF = Sentence(
    "variables.change-ref",
    "gpufleet_change_ref is {value!r}",
    why="it is not a text of at most 100 letters, digits, spaces and . , : / # @ + & ( ) _ -",
    next="Write it as CHG0012345",
)

# ---------------------------------------------------------------- a plan
STATES_DIFFER = Sentence(
    "plan.states-differ",
    "two parts of this plan rest on different states of {name}",
    why="a plan is made of one look at the host",
    next="Nothing was changed. Report this message as a bug of the collection",
)

# ---------------------------------------------------------------- queries that failed
QUERY_TIMEOUT = Sentence(
    "query.timeout",
    "{what}",
    why="{cause}",
    next="Find out what hangs or takes that long there, then run again",
)
QUERY_TOO_LARGE = Sentence(
    "query.too-large", "{what}", why="{cause}", next="Make it smaller, then run again"
)
QUERY_DENIED = Sentence(
    "query.denied",
    "{what}",
    why="{cause}",
    next="Make it accessible to root again, then run again",
)
QUERY_FAILED = Sentence(
    "query.failed", "{what}", why="{cause}", next="Correct what the message names, then run again"
)
RESULT_CUT = Sentence(
    "query.result-cut",
    "this host's result is cut here: it has more than {values} values or {characters} characters",
    next="Look at the host itself",
)
