# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List the sentences about a catalogue of images, and about facts of a host that a user gives."""

from __future__ import annotations

from ansible_collections.gpufleet.nvidia.plugins.plugin_utils._planner.core.message_types import (
    Sentence,
)

IN_QUOTES = "Write it in quotes: 12.10 and 12.1 are the same number, and two versions"
LEAVE_ONE_OUT = "Leave one of them out"
SET_CUDA = "Set requires.cuda to the CUDA of the image"
FIELDS_ARE = "Fields are {known}"
BOOLEAN = "Write true or false"

# the file: {field} is the place of a value, such as images[0].requires.cuda
FILE_TOO_LARGE = Sentence(
    "image.file-too-large",
    "this file is more than is read",
    why="{problem}",
    next="Make the file smaller, and write out what aliases and merge keys repeat",
)
FIELD_TWICE = Sentence("image.field-twice", "{field} stands twice", next=LEAVE_ONE_OUT)
NOT_YAML = Sentence(
    "image.not-yaml", "this file is not YAML", why="{problem}", next="Correct the file; it is YAML"
)
OTHER_CATALOGUE_SCHEMA = Sentence(
    "image.other-schema", "{field}: this release reads schema {known}", next="Write schema: {known}"
)
FIELD_NOT_DICTIONARY = Sentence(
    "image.not-a-dictionary", "{field}: this is not a dictionary", next="Its fields are {known}"
)
UNKNOWN_FIELD = Sentence(
    "image.unknown-field", "{field}: there is no field {name}", next=FIELDS_ARE
)
UNKNOWN_FIELD_NEAR = Sentence(
    "image.unknown-field-near",
    "{field}: there is no field {name} (did you mean {near}?)",
    next=FIELDS_ARE,
)
FIELD_NOT_LIST = Sentence(
    "image.not-a-list", "{field}: this is not a list", next="Write it as a list, in brackets"
)
FIELD_NOT_TEXT = Sentence(
    "image.not-a-text", "{field}: {value} is a number and no text", next=IN_QUOTES
)
FIELD_NOT_BOOLEAN = Sentence(
    "image.not-boolean", "{field}: {value} is neither true nor false", next=BOOLEAN
)
NOT_IMAGES = Sentence(
    "image.no-list-of-images",
    "{field}: this is not a list of images",
    next="List at least one image",
)
NAME_TWICE = Sentence(
    "image.name-twice",
    "{field}: the name {name} stands twice",
    next="Give each image a name of its own",
)
ENTRY_WITHOUT_IMAGE = Sentence(
    "image.no-image",
    "{field}: it has no image",
    next="Name the image, as registry.example.org/team/name:tag",
)
ENTRY_WITHOUT_NAME = Sentence(
    "image.no-name",
    "{field}: it has no name",
    next="Give it a name, by which it is shown and ordered",
)
NOT_ALLOWED = "{field}: {value} is not allowed there"
REFERENCE_FORM = Sentence(
    "image.reference-form",
    NOT_ALLOWED,
    next="Name the image with its registry, as registry.example.org/team/name:tag",
)
DIGEST_FORM = Sentence(
    "image.digest-form", NOT_ALLOWED, next="Write sha256: and 64 hexadecimal digits"
)
NAME_FORM = Sentence(
    "image.name-form", NOT_ALLOWED, next="Write letters, digits, dots and dashes, 63 at most"
)
TAGS_FORM = Sentence(
    "image.tags-form", NOT_ALLOWED, next="Write a pattern of tags, as 1.4-cuda12.*"
)
MARCH_FORM = Sentence(
    "image.march-form", NOT_ALLOWED, next="Write a name that archspec has, as skylake_avx512"
)
UNKNOWN_MARCH = Sentence(
    "image.unknown-march",
    "{field}: archspec knows no {name}",
    next="Write a name that archspec has, as skylake_avx512",
)
UNKNOWN_MARCH_NEAR = Sentence(
    "image.unknown-march-near",
    "{field}: archspec knows no {name} (did you mean {near}?)",
    next="Write a name that archspec has, as skylake_avx512",
)
DRIVER_RANGE = Sentence(
    "image.driver-range",
    "{field}: {value} is not a range of versions",
    next="Write conditions with commas, as '>=525.60.13, <580'",
)
DRIVER_IMPOSSIBLE = Sentence(
    "image.driver-impossible",
    "{field}: no version is {value}",
    next="Correct one of the conditions",
)
EXACT_DRIVER = Sentence(
    "image.exact-driver",
    "{field}: {value} is not a version",
    next="Write the driver's version, as 396.44",
)
NOT_A_VERSION = Sentence(
    "image.not-a-version",
    "{field}: {value} is not a version",
    next="Write numbers with dots, as '12.4'",
)
NO_COMPUTE = Sentence(
    "image.no-compute-capability",
    "{field}: it names no GPU",
    next="List compute capabilities below real (machine code) or ptx",
)
NOT_COMPUTE = Sentence(
    "image.not-compute-capability",
    "{field}: {value} is not a compute capability",
    next="Write it in quotes, as '8.0', '9.0a' (that GPU alone) or '10.0f' (its family)",
)
NOT_ARCHITECTURE = Sentence(
    "image.not-an-architecture", "{field}: {value} is not an architecture", next="Write {known}"
)
NOT_A_SIZE = Sentence(
    "image.not-a-size",
    "{field}: {value} is not a size",
    next="Write a size with its unit, as 40GiB or 80GB",
)
NOT_BRANCHES = Sentence(
    "image.not-driver-branches",
    "{field}: {value} are not driver branches",
    next="List their numbers, as [470, 525, 535]",
)
NOT_VARIABLES = Sentence(
    "image.not-variables",
    "{field}: this is not a dictionary",
    next="Write variables and their values, as NVIDIA_REQUIRE_CUDA: cuda>=12.4",
)
NOT_A_WEIGHT = Sentence(
    "image.not-a-weight",
    "{field}: {value} is not a weight",
    next="Write a whole number; the greater one is preferred",
)
UNKNOWN_LEVEL = Sentence(
    "image.unknown-level", "{field}: there is no level {value}", next="Write one of {known}"
)
LEVEL_OF_OTHER_CPU = Sentence(
    "image.level-of-other-cpu",
    "{field}: {level} is a level of {architecture}, and cpu_arch is {wanted}",
    next=LEAVE_ONE_OUT,
)
EXACT_OUTSIDE = Sentence(
    "image.exact-driver-outside",
    "{field}: {value} is not within requires.driver",
    next=LEAVE_ONE_OUT,
)
OWN_DRIVER_ONLY = Sentence(
    "image.own-driver-only",
    "{field}: an image with requires.exact_driver uses its own driver only",
    next=LEAVE_ONE_OUT,
)
COMPAT_WITHOUT_CUDA = Sentence(
    "image.compat-without-cuda",
    "{field}: the CUDA that its libcuda is for is not given",
    next=SET_CUDA,
)
PTX_WITHOUT_CUDA = Sentence(
    "image.ptx-without-cuda",
    "{field}: only a driver that brings the CUDA of the PTX compiles it, and that CUDA is not given",
    next=SET_CUDA,
)
TAGS_AND_MORE = Sentence(
    "image.tags-and-more",
    "{field}: the image has a tag, a digest or a file of its own as well",
    next="Name the image without them, or leave tags out",
)

# images that a pattern stands for
NO_TAG = Sentence("image.no-tag", "no tag is {pattern}", next="Correct tags in the catalogue")
TOO_MANY_TAGS = Sentence(
    "image.too-many-tags", "{number} tags are {pattern}", next="Write a pattern for {most} at most"
)
NAME_TOO_LONG = Sentence(
    "image.name-too-long", "{name} is too long for a name", next="Give the entry a shorter name"
)
NAME_OF_TWO = Sentence(
    "image.name-of-two", "the name {name} stands for two images", next="Give an entry another name"
)
NODE_OF_TWO = Sentence(
    "image.node-of-two-hosts",
    "{first} and {second} would both be the node {node}",
    why="a file of labels has one set for a node",
    next="Set gpufleet_kubernetes_node to the node's own name for each, or gpufleet_cluster if they are of two clusters",
)

# facts of a host
FACTS_NOT_DICTIONARY = Sentence(
    "image-facts.not-a-dictionary",
    "this is not a dictionary",
    next="Give it as the page on choosing images shows it",
)
UNKNOWN_FACT = Sentence("image-facts.unknown-field", "there is no field {name}", next=FIELDS_ARE)
FACT_NOT_LIST = Sentence(
    "image-facts.not-a-list", "{name} is not a list", next="Write it as a list"
)
FACT_NOT_TEXT = Sentence(
    "image-facts.not-a-text", "{name} is {value}, which is not a text", next=IN_QUOTES
)
FACT_NOT_VERSION = Sentence(
    "image-facts.not-a-version",
    "{name} is {value}, which is not a version",
    next="Write numbers with dots, as 550.54.14",
)
FACT_NOT_BOOLEAN = Sentence("image-facts.not-boolean", "{name} is {value}", next=BOOLEAN)
FACT_NOT_DEVICE = Sentence(
    "image-facts.not-a-device",
    "device is {value}, which is not a PCI device id",
    next="Write it as 0x20b2, in quotes",
)
FACT_NOT_LEVEL = Sentence(
    "image-facts.unknown-level", "level is {value}", next="Write one of {known}"
)
FACT_NOT_SIZE = Sentence(
    "image-facts.not-a-size",
    "memory is {value}",
    next="Write MiB as a number, or a size such as 40GiB",
)

# reasons against an image on a host, and what has to be set for it
FOR_OTHER_CPU = Sentence(
    "image-fit.other-architecture", "it is for {wanted}, and this host is {found}"
)
FOR_UNKNOWN_CPU = Sentence(
    "image-fit.architecture-unknown",
    "it is for {wanted}, and the architecture of this host is not known",
)
LEVEL_UNKNOWN = Sentence(
    "image-fit.level-unknown", "it needs a CPU of {wanted}, and the level of this CPU is not known"
)
LEVEL_TOO_LOW = Sentence(
    "image-fit.level-too-low", "it needs a CPU of {wanted}, and this one is {found}"
)
LEVEL_LACKS = Sentence(
    "image-fit.level-lacks", "it needs a CPU of {wanted}, and this one is {found}: it lacks {flags}"
)
MARCH_UNKNOWN = Sentence(
    "image-fit.march-unknown",
    "it is compiled for {wanted}, and what this CPU can stand in for is not known: archspec is not installed on the controller",
)
MARCH_OTHER = Sentence(
    "image-fit.other-march",
    "it is compiled for {wanted}, which this CPU cannot stand in for: it would end with an illegal instruction",
)
GLIBC_UNKNOWN = Sentence(
    "image-fit.glibc-unknown",
    "it needs glibc {wanted} on the host, and that of this host is not known",
)
GLIBC_OLDER = Sentence(
    "image-fit.glibc-older", "it needs glibc {wanted} on the host, and this host has {found}"
)
NEEDS_DRIVER = Sentence(
    "image-fit.no-driver", "it needs a driver {wanted}, and no driver is known on this host"
)
NEEDS_OTHER_DRIVER = Sentence(
    "image-fit.other-driver", "it needs a driver {wanted}, and this host has {found}"
)
BRINGS_DRIVER = Sentence(
    "image-fit.brings-a-driver",
    "it brings the user-space driver {wanted}, which only a kernel module of just this version serves, and no driver is known on this host",
)
BRINGS_OTHER_DRIVER = Sentence(
    "image-fit.brings-other-driver",
    "it brings the user-space driver {wanted}, which only a kernel module of just this version serves, "
    "and the kernel module of this host is {found}",
)
MEMORY_NOT_KNOWN = Sentence(
    "image-fit.memory-unknown",
    "{gpu}: it needs {wanted} MiB of memory on a GPU, and that of this one is not known",
)
MEMORY_LESS = Sentence(
    "image-fit.less-memory",
    "{gpu}: it needs {wanted} MiB of memory on a GPU, and this one has {found} MiB",
)
WITH_MIG_UNKNOWN = Sentence(
    "image-fit.mig-unknown",
    "{gpu}: it needs a GPU {wanted} MIG devices, and whether this one has them is not known",
)
WITH_MIG_OTHER = Sentence(
    "image-fit.other-mig", "{gpu}: it needs a GPU {wanted} MIG devices, and this one has {found}"
)
CUDA_WITHOUT_DRIVER = Sentence(
    "image-fit.cuda-without-driver", "it needs CUDA {wanted}, and no driver is known on this host"
)
CUDA_OLDER = Sentence("image-fit.cuda-older", "it needs CUDA {wanted}, and {driver}{more}")
BRINGS_CUDA = "driver {driver} brings CUDA {cuda}"
BEFORE_TABLE = "driver {driver} is older than the table"
FROM_DRIVER = ": drivers from {first} on run it"
OWN_LIBCUDA = "; its own libcuda is for drivers {branches}"
NEEDS_GPU = Sentence("image-fit.no-gpu", "it needs a GPU, and none is known on this host")
FORWARD_UNKNOWN = Sentence(
    "image-fit.forward-unknown",
    "{gpu}: its CUDA is newer than the driver's, and a libcuda of its own is for GPUs of data centres: "
    "whether this one is certified for that is not known",
)
FORWARD_OTHER = Sentence(
    "image-fit.no-forward",
    "{gpu}: its CUDA is newer than the driver's, and a libcuda of its own is for GPUs of data centres: this one is not",
)
CODE_UNKNOWN = Sentence(
    "image-fit.code-unknown",
    "{gpu}: it has {code}, and the compute capability of this GPU is not known",
)
CODE_OTHER = Sentence("image-fit.other-code", "{gpu}: it has {code}, and this GPU is {found}")
CODE_LATE = Sentence(
    "image-fit.ptx-too-new",
    "{gpu}: it has {code}, and this GPU is {found}: its PTX needs a driver that brings its CUDA",
)
CODE_DROPPED = Sentence(
    "image-fit.gpu-dropped",
    "{gpu}: CUDA {cuda} has code for GPUs from {oldest} on, and this GPU is {found}",
)
# why another image that fits is preferred
CODE_SUITS_LESS = Sentence("image-fit.code-suits-less", "its code suits the GPUs less")
CPU_LESS_SPECIFIC = Sentence(
    "image-fit.cpu-less-specific", "it is compiled for a less specific CPU"
)
NEEDS_OWN_LIBCUDA = Sentence("image-fit.needs-own-libcuda", "it needs a libcuda of its own")
RANKS_OLDER_CUDA = Sentence("image-fit.ranks-older-cuda", "its CUDA is older")
WEIGHS_LESS = Sentence("image-fit.weighs-less", "its weight is less")
NAME_LATER = Sentence("image-fit.name-later", "its name comes later")
RANKS_THE_SAME = Sentence("image-fit.ranks-the-same", "it is the same")
FITS_LESS = Sentence("image-fit.second", "it fits, and {best} is preferred: {criterion}")
NODES_ALONE = Sentence(
    "image-fit.nodes-alone",
    "Hand in device nodes only: the image brings its own driver, and files of the host's must not be put over it. "
    "gpufleet.nvidia.cdi_spec with {settings} makes a CDI kind for that, nvidia.com/gpu-nodes",
)
OWN_LIBCUDA_BY_RUNTIME = Sentence(
    "image-fit.own-libcuda-by-runtime",
    "The image's own libcuda takes the place of the host's: the NVIDIA runtime does that by itself",
)
OWN_LIBCUDA_BY_HOOK = Sentence(
    "image-fit.own-libcuda-by-hook",
    "The image's own libcuda takes the place of the host's: the CDI spec has to have the hook {hook}",
)
NO_IMAGE_FITS = Sentence(
    "image-fit.none", "no image of the catalogue fits. The nearest is {name}: {reasons}"
)
NO_IMAGE_FITS_GPU = Sentence(
    "image-fit.none-for-a-gpu",
    "{gpu}: no image of the catalogue fits. The nearest is {name}: {reasons}",
)

OTHER_IMAGE = "Take an image that fits the driver (gpufleet.nvidia.image_choice_info), or set {variable}=true in it if you know better"
NOT_STARTED = Sentence(
    "image-fit.not-started",
    "the image does not fit this host: {reason}; the NVIDIA runtime does not start it here",
    next=OTHER_IMAGE,
)
FAILS_LATER = Sentence(
    "image-fit.fails-later",
    "the image does not fit this host: {reason}. The runtime starts it here, and it fails when it first uses a GPU",
    next=OTHER_IMAGE,
)
HOSTS_WITHOUT_IMAGE = Sentence(
    "image-fit.hosts-without-image",
    "{number} of {all} hosts get no image; the table has the reasons",
)
HOSTS_NOT_SEEN = Sentence(
    "image-fit.hosts-not-seen",
    "{number} of {all} hosts could not be looked at; the table has the reasons",
)
HOSTS_WITHOUT_AND_NOT_SEEN = Sentence(
    "image-fit.hosts-without-image-and-not-seen",
    "{number} of {all} hosts get no image and {unseen} of {all} hosts could not be looked at; the table has the reasons",
)

# what of an image's description, or of a registry's answer, cannot be used
NO_SINGLE_IMAGE = Sentence("image-description.no-single-image", "it describes no single image")
NO_CONFIGURATION = Sentence(
    "image-description.no-configuration", "it has neither a configuration nor an architecture"
)
ENVIRONMENT_SHAPE = Sentence(
    "image-description.environment-shape",
    "its environment is neither a list of NAME=value nor a dictionary",
)
ENVIRONMENT_VALUES = Sentence(
    "image-description.environment-values",
    "its environment has a value that is not text, or too much of it",
)
REGISTRY_TOKENLESS = Sentence("image-registry.no-token", "it gives no token that can be used")
REGISTRY_NO_LINUX = Sentence("image-registry.no-linux", "its index has no image for Linux")
REGISTRY_NO_CONFIGURATION = Sentence(
    "image-registry.no-configuration", "its manifest names no configuration"
)
REGISTRY_NO_TAGS = Sentence("image-registry.no-tags", "it gives no list of tags")
REGISTRY_NEXT_PAGE = Sentence("image-registry.next-page", "its next page of tags is somewhere else")

# why an image's NVIDIA_REQUIRE_* are not met
REQUIREMENT_VERSION = Sentence("image-requirement.version", "{shown} is not a version")
REQUIREMENTS_TOO_MANY = Sentence(
    "image-requirement.too-many",
    "there are {count} variables {prefix}*, and at most {limit} are read",
)
REQUIREMENT_UNMET = Sentence("image-requirement.unmet", "{shown} is not met by {subject}")
REQUIREMENT_UNKNOWN = Sentence(
    "image-requirement.unknown", "whether {shown} is met is not known from {subject}"
)
SUBJECT_UNKNOWN = Sentence("image-requirement.subject-unknown", "what is known of this host")
CONDITION_INVALID = Sentence("image-requirement.invalid", "the condition {condition!r} is invalid")
CONDITION_TOO_LONG = Sentence(
    "image-requirement.too-long",
    "the condition {condition!r} is longer than nvidia-container-cli reads",
)
CONDITION_BRAND = Sentence(
    "image-requirement.brand",
    "the condition {condition!r} is invalid: brands can be compared with = and != only",
)
CONDITION_VERSION = Sentence(
    "image-requirement.condition-version",
    "the condition {condition!r} is invalid: {version!r} is not a version",
)
CONDITION_NUMBER = Sentence(
    "image-requirement.number-too-large",
    "the condition {condition!r} is invalid: a number of it is too large",
)
