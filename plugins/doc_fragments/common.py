# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that several modules have, under the same names and with the same meaning everywhere."""

from __future__ import annotations


class ModuleDocFragment:
    # How a host is reached; every module that looks at a host has it.
    DOCUMENTATION = r"""
options:
  transport:
    description:
      - How the two small programs that look at the host and change it are sent there.
      - V(stdin) sends them over the standard input of the host's Python, V(module) runs them as Ansible modules.
        V(auto) takes V(stdin) if the connection supports it, else V(module).
      - The result is the same in both cases; V(stdin) is faster.
    type: str
    choices: [auto, stdin, module]
    default: auto
"""

    # Where the host's files are; every module but the ones that start something.
    ROOT = r"""
options:
  root:
    description:
      - Another root directory, for image builds and offline trees. Files are read and written below it, and nothing is run, restarted or
        probed.
      - With any value but V(/) the versions of programs come from the package database below the root, or from an option if the module has
        one for that.
    type: path
    default: /
"""

    STATE = r"""
options:
  state:
    description:
      - V(present) configures the host as the other options say.
      - V(absent) undoes what this collection did. A file gets its original content back if the journal on the host has it and no one else
        has changed the file since. Otherwise only our part is removed from it.
      - V(absent) undoes everything or touches nothing. If something cannot be given back (a configuration that others have broken since, a
        damaged copy), the task fails with the file, the reason and the next step. The engine need not run, or be installed at all.
      - V(absent) on a host where this collection did nothing changes nothing and is not an error.
    type: str
    choices: [present, absent]
    default: present
"""

    # Facts that a tree does not tell.
    ENGINE_VERSION = r"""
options:
  engine_version:
    description:
      - The engine's version, for example V(1.7.24).
      - Only needed with O(root) if no package database below the root has it. The word of a running engine comes first.
    type: str
    default: ""
"""

    # One engine as it runs or is installed.
    INSTANCE = r"""
options:
  config_path:
    description:
      - The engine's main configuration file. Empty takes the one from the arguments of the running daemon, else the engine's default.
      - A file with which a running engine does not run is refused.
      - In another root directory a file that does not exist is refused where the engine's default one does.
    type: path
    default: ""
  socket:
    description:
      - The engine's socket. Empty takes the one from the running engine's configuration, else the engine's default.
    type: path
    default: ""
  service:
    description:
      - The engine's systemd unit. Empty takes the one that runs the engine.
    type: str
    default: ""
"""

    # Which file is written, where the engine leaves a choice.
    DROP_IN = r"""
options:
  drop_in:
    description:
      - Whether the settings go into a file of their own.
      - V(auto) does so where the engine merges drop-ins without losing other settings, and V(never) edits the main file.
    type: str
    choices: [auto, never]
    default: auto
"""

    # Where the file is, where there is one of our own.
    DROP_IN_PATH = r"""
options:
  drop_in_path:
    description:
      - The file for the settings, where they go into a file of their own. Empty takes C(90-gpufleet) in the directory in which the engine
        looks for such files.
    type: path
    default: ""
"""

    # The treatment of an engine that has to be restarted.
    RESTART = r"""
options:
  restart:
    description:
      - V(auto) restarts the engine once if its effective configuration changes, and waits until it serves again. Where running containers
        would not live through that, as in Docker without live-restore, the restart is left to you, and the result names them.
      - V(never) leaves every restart to you; the result and M(gpufleet.nvidia.host_info) say that one is due.
        On k0s, which restarts its containerd by itself when a drop-in changes, a change is refused.
      - V(force) restarts where V(auto) does, and where it ends containers as well.
    type: str
    choices: [auto, never, force]
    default: auto
"""

    # The desired state of the engine.
    HANDLERS = r"""
options:
  handlers:
    description:
      - OCI runtime handlers that the engine is to have, keyed by name, so inventories can merge them.
      - The first one counts as written. It is the handler of the decision and of the RuntimeClass, and see O(set_as_default).
      - Every value is a dictionary, which may be empty. C(binary) is the program (default V(/usr/bin/nvidia-container-runtime)), and
        C(options) is a dictionary of further settings of that handler in the engine's own words.
      - A handler of this name that runs a program which is not NVIDIA's is another owner's, and the run is refused. With C(binary) you
        have it run that program instead.
    type: dict
    default:
      nvidia: {}
  set_as_default:
    description:
      - Whether the first of O(handlers) becomes the engine's default handler.
      - V(auto) leaves it to the decision for the host, and a single-resource module then leaves the engine's default as it is.
      - V(enabled) makes it the default, and V(disabled) gives the default back to the engine's own handler.
    type: str
    choices: [auto, enabled, disabled]
    default: auto
"""

    # Whether the engine resolves CDI devices.
    CDI = r"""
options:
  cdi:
    description:
      - Whether the engine's CDI switch is to be on. V(auto) switches it on where it exists, is off and is needed.
      - V(disabled) chooses a way without CDI, see O(gpufleet.nvidia.host#module:injection).
    type: str
    choices: [auto, enabled, disabled]
    default: auto
"""

    # Where engines look for CDI specs.
    CDI_SPEC_DIRS = r"""
options:
  cdi_spec_dirs:
    description:
      - Directories in which the engine looks for CDI specs, lowest priority first. Empty leaves the engine's own setting.
      - The host's spec goes to the first of them that is not emptied at boot. If this is empty, it goes to C(/etc/cdi), or to
        another directory that all engines of the host read.
    type: list
    elements: path
    default: []
"""

    # Configurations of other tools.
    ADOPT = r"""
options:
  adopt:
    description:
      - Whether to take over what other tools left on the host, such as a drop-in of C(nvidia-ctk runtime configure).
      - V(auto) takes over what is recognised exactly and whose tool no longer works on the host. Exactly means that the tool's own rules
        and the rest of the configuration explain every key. The tool's file is removed in the transaction that writes this collection's,
        the journal keeps its content, and O(state=absent) gives it back. A file that is recognised only in part stays and is named.
      - V(never) takes nothing over. The result names what others left in any case.
    type: str
    choices: [auto, never]
    default: auto
"""

    # The decision for a whole host.
    DECISION = r"""
options:
  engines:
    description:
      - Which engines to manage. V(auto) manages every engine on the host that can be managed. It manages Docker only on hosts
        without Kubernetes (no kubelet, and no engine of a Kubernetes distribution), and if the kubelet starts its pods in Docker by
        cri-dockerd. To have Docker configured elsewhere as well, name V(docker) in addition to V(auto).
      - V(podman) needs no configuration, only the CDI spec. V(auto) takes it as the engine of a host where no other engine can be managed.
    type: list
    elements: str
    choices: [auto, containerd, crio, docker, podman]
    default: [auto]
  injection:
    description:
      - How GPUs get into workload containers.
      - V(auto) decides per engine and host. Every other value is used on every host; where it cannot work, the task fails with the reason.
      - V(native-cdi) lets the engine itself inject by CDI. V(nvidia-runtime) makes the NVIDIA runtime in cdi mode the default handler.
        V(legacy) makes the NVIDIA runtime in legacy mode the default handler. V(oci-hook) uses an OCI prestart hook and no handler.
        V(jit-cdi) makes the NVIDIA runtime the default handler and lets it create a CDI spec in memory for each container.
    type: str
    choices: [auto, native-cdi, nvidia-runtime, legacy, oci-hook, jit-cdi]
    default: auto
  isolation:
    description:
      - Whether a container gets GPUs only because its image carries C(NVIDIA_VISIBLE_DEVICES).
      - V(strict) honours this variable only for privileged containers, V(compatible) for all containers. V(auto) decides, and the result
        says which and why. If a kubelet runs, the decision follows the way in which the device plugin asks, see O(device_plugin_strategy).
    type: str
    choices: [auto, strict, compatible]
    default: auto
  no_gpu:
    description:
      - The treatment of a host that has no NVIDIA GPU.
      - V(skip) reports it and changes nothing, V(prepare) configures the host nevertheless, V(fail) fails.
      - On a Jetson and in WSL nothing is prepared, since NVIDIA's runtime finds the GPU there in a mode of its own.
    type: str
    choices: [skip, prepare, fail]
    default: skip
  device_plugin_strategy:
    description:
      - The device list strategies that the Kubernetes device plugin of this cluster is configured for.
      - If you declare them, V(auto) may stop C(nvidia) from being the default handler in a live cluster.
      - Empty takes what can be seen of the plugin on the host, else V(envvar), which is the default of NVIDIA's plugin. With V(envvar)
        O(isolation=auto) is V(compatible), and the advice says how to set the plugin for V(strict).
    type: list
    elements: str
    choices: [envvar, volume-mounts, cdi-annotations, cdi-cri]
    default: []
  device_plugin_prefix:
    description:
      - The prefix of annotations that the Kubernetes device plugin writes on all nodes of this cluster alike. The GPU Operator sets
        V(cdi.k8s.io/), and where an engine cannot resolve CDI devices the NVIDIA runtime then answers that prefix as well.
      - Empty means that the plugin is set for each group of hosts, see M(gpufleet.nvidia.kubernetes_objects).
    type: str
    choices: ['', cdi.k8s.io/]
    default: ''
"""

    # Packages, and where they come from.
    PACKAGES = r"""
options:
  packages:
    description:
      - V(present) installs those packages of the NVIDIA Container Toolkit that the decision needs. V(ignore) uses what is installed.
    type: str
    choices: [present, ignore]
    default: present
  toolkit_repository:
    description:
      - Where the packages come from with O(packages=present).
      - V(nvidia) adds NVIDIA's public repository, but only on a host that needs packages which none of its own repositories has.
      - An address is that of a mirror, including the part for the distribution and the architecture. The mirror is added to every host.
      - Empty adds no repository.
    type: str
    default: nvidia
  bundle_file:
    description:
      - An archive on the controller, made by M(gpufleet.nvidia.bundle), that the packages come from with O(packages=present). It takes the
        place of O(toolkit_repository), for hosts that reach none.
      - A host that needs packages gets them, and the signed metadata, over the connection of Ansible into C(/var/lib/gpufleet/bundle), and
        its package manager installs from there. The archive's key has to be NVIDIA's, or the one of O(toolkit_key_fingerprint).
    type: path
  toolkit_key:
    description:
      - The public key of O(toolkit_repository), the armored text of one key. It is required with an address.
      - Empty with V(nvidia) lets the controller fetch NVIDIA's key by HTTPS.
    type: str
    default: ""
  toolkit_key_fingerprint:
    description:
      - Fingerprint that the key must have. If it differs, nothing is written. Empty accepts the key as given; with V(nvidia) empty means
        the known fingerprint of NVIDIA's key.
    type: str
    default: ""
  toolkit_version:
    description:
      - Version of the NVIDIA Container Toolkit's packages. Empty keeps the installed version; if none is installed, it takes the one that
        the package manager would install.
    type: str
    default: ""
"""

    # The reaction to combinations that are known to go wrong.
    KNOWN_BAD = r"""
options:
  known_bad:
    description:
      - The reaction to a combination of releases that is known to go wrong, and that a host has or would have after the run. The table is
        in C(docs/known-bad.md), with a link to the upstream issue and the workaround for each row.
      - V(stop) refuses to change such a host, before anything is done, where the table says that the row stops a run. All other rows are
        said as advice. A host on which nothing is to be changed is never refused.
      - V(warn) says every row as advice and continues. V(ignore) does not look at the table.
      - Where a version is not known, the rows that depend on it are reported as not known, and stop nothing.
      - Taking everything back (O(state=absent)) is never stopped.
    type: str
    choices: [stop, warn, ignore]
    default: stop
"""

    # Who writes the CDI spec.
    CDI_OWNER = r"""
options:
  cdi_owner:
    description:
      - Who writes the CDI spec. The toolkit's C(nvidia-cdi-refresh) units and this collection must not both do it.
      - V(collection) disables those units and takes over their file. V(toolkit) leaves the file to them and reports on it.
        V(auto) is V(toolkit) where those units are enabled and can write what the host's engines accept, else V(collection).
    type: str
    choices: [auto, collection, toolkit]
    default: auto
"""

    # The treatment of a CDI spec between two runs.
    CDI_REFRESH = r"""
options:
  cdi_refresh:
    description:
      - The way in which a CDI spec is corrected that becomes stale between two runs, because a GPU fails, the MIG layout changes or the
        driver is upgraded.
      - V(converge) leaves that to the next run, which finds every such change.
      - V(watch) installs a small watch on the host. It checks the spec of this collection at boot before anything starts containers, when
        MIG or the driver changes, and every minute, and sets it aside while it is wrong. A container that asks for a GPU then fails instead
        of starting with a wrong one, until the next run has written a new spec or the host is again as it was.
      - If C(nvidia-cdi-refresh) owns the spec, V(watch) installs a unit that starts it when MIG changes, which it does not notice by
        itself.
      - Neither can notice a MIG instance that is replaced by one of the same number and another size.
    type: str
    choices: [converge, watch]
    default: converge
"""

    # Where the driver is.
    CDI_ROOTS = r"""
options:
  cdi_driver_root:
    description:
      - Where the driver's files are, as the host sees it, C(/run/nvidia/driver) for a driver container. Links in that tree are followed
        inside it.
    type: path
    default: /
  cdi_dev_root:
    description:
      - Where the driver's device nodes are, as the host sees it.
    type: path
    default: /
"""

    # Parts of the driver that go into containers.
    CDI_FILES = r"""
options:
  cdi_profile:
    description:
      - How the files of the driver get into containers.
      - V(full) is what C(nvidia-ctk cdi generate) writes. Every file is mounted at its own path, and hooks of C(nvidia-cdi-hook) create
        links and the loader's cache in the container. That program has to be on the host.
      - V(hookless) needs no program on the host and works with a read-only root. Each library is mounted under the names by which
        programs load it, in C(/usr/lib/CPU-linux-gnu) and in C(/usr/lib64), which loaders search without a cache. No E(LD_LIBRARY_PATH) is
        set, since a variable in a CDI spec replaces the image's own.
      - V(devices) is the device nodes only, for images with driver libraries of their own.
      - V(auto) is V(full) where C(nvidia-cdi-hook) is on the host or comes with this run's packages, else V(hookless).
    type: str
    choices: [auto, full, hookless, devices]
    default: auto
  cdi_features:
    description:
      - The driver capabilities whose files containers get, with the values of E(NVIDIA_DRIVER_CAPABILITIES). Empty means all of them.
      - Nodes of C(/dev/dri) are part of V(graphics) and V(display).
    type: list
    elements: str
    choices: [compute, utility, video, graphics, display, ngx]
    default: []
  cdi_compat32:
    description:
      - Whether containers also get the 32-bit libraries of the driver, if the host has them.
    type: bool
    default: false
  cdi_sockets:
    description:
      - Whether containers get the sockets of C(nvidia-persistenced) and C(nvidia-fabricmanager) and the folder of
        C(nvidia-cuda-mps-control), as far as they are there when the spec is made. The folder has to be a directory of root's, since
        everyone may put one into C(/tmp).
      - The folder is looked at when the spec is made, and the spec outlives a boot, which may empty C(/tmp). Whoever then makes
        C(/tmp/nvidia-mps) first has their folder in containers. On a host with local users start MPS before they can log in, or leave
        this off.
      - A container does not start while one of them is gone, which is why they are left out by default.
    type: bool
    default: false
"""

    # Metrics of a host.
    METRICS_DIR = r"""
options:
  metrics_dir:
    description:
      - A directory on the host in which the textfile collector of C(node_exporter) looks, for example
        V(/srv/node-exporter). It has to be there, and only root may write to it or to a
        directory above it. Another one is left alone, with advice.
      - The file C(gpufleet.prom) there says how GPUs get into containers, how many CDI specs were stale, which units wait for a restart,
        and when the host was last changed and last rolled back.
      - It is written with the other files, and only when one of its values changes.
      - Empty writes none, and removes the one of an earlier run.
    type: str
    default: ""
"""

    # How many GPUs a host has.
    GPUS = r"""
options:
  gpus:
    description:
      - How many GPUs the host should have, as your inventory knows it. Where the driver serves fewer, the plan and a verification say so, a
        verification fails, and a rollout leaves the host out.
      - Not set, only GPUs that are on the PCI bus and that the driver does not serve are missed.
    type: int
  accepted_findings:
    description:
      - Findings about the health of the host's GPUs that you know of and accept, each by its code. A finding about one GPU also needs its
        address, for example V(gpu-health.not-served 0000:43:00.0).
      - Such a finding is shown as accepted. It fails no verification, and a rollout changes the host. All other findings count as before,
        also those with the same code about another GPU.
      - The number of GPUs cannot be accepted. Set O(gpus) to how many GPUs work.
    type: list
    elements: str
    default: []
"""

    # Whether nvidia-persistenced is minded as well.
    PERSISTENCE = r"""
options:
  persistence:
    description:
      - Whether C(nvidia-persistenced) is minded, which keeps GPUs initialised while no program uses them.
      - V(advise) says in a plan where it is installed and does not run. V(ignore) says nothing.
      - V(enabled) has it start at every boot, before anything starts containers, by two drop-ins, and starts it now. A unit that is not
        installed, or that is masked, is left alone with advice. Going back to another value leaves the drop-ins as they are, and
        O(state=absent) takes them back.
    type: str
    choices: [ignore, advise, enabled]
    default: advise
"""

    # Whether the driver's device nodes are minded as well.
    DRIVER = r"""
options:
  driver:
    description:
      - Whether the installed NVIDIA driver is looked at, and what becomes of it.
      - V(advise) says what may take the driver out of order, and changes nothing. It finds packages of several versions that have to have
        one. If nothing holds the driver, it finds programs that install newer packages by themselves (unattended-upgrades, dnf-automatic,
        SUSE's timers, a prepared update). It also finds a newest kernel without an NVIDIA module, nouveau, Secure Boot without the key of
        the module, and kernel modules of the kind that does not serve a GPU.
      - V(hold) also holds the packages of the driver as one. apt, dnf (by its plugin versionlock) and zypper then leave them as they are,
        and unattended-upgrades leaves them out by a file of its own. With modules that are built for each kernel
        (C(linux-modules-nvidia-*)) the packages that bring kernels are held with them. A package that a person has held before stays held.
        A record, C(/etc/gpufleet-driver-hold.json), has the date, the reason and the packages, and each run says its age.
      - With V(advise) again, or with O(state=absent), a hold of this collection is taken back.
      - V(ignore) asks nothing of the driver, and leaves a hold from before as it is.
    type: str
    choices: [ignore, advise, hold]
    default: advise
  driver_hold_reason:
    description:
      - Why the driver is held, for O(driver=hold). It is written to the record, and each run shows it with the age of the hold.
    type: str
    default: ""
"""

    DEVICE_NODES = r"""
options:
  device_nodes:
    description:
      - Whether the device nodes of NVIDIA's driver are made and kept right, see M(gpufleet.nvidia.device_nodes).
      - V(present) loads the modules V(nvidia) and V(nvidia-uvm), makes missing nodes, and replaces nodes that have other numbers than the
        kernel. A small unit on the host does the same at every boot, before anything starts containers.
      - V(ignore) leaves the nodes to what creates them now, and a unit from before as it is.
    type: str
    choices: [ignore, present]
    default: ignore
"""
