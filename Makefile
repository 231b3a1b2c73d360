# Copyright (c) 2026 The gpufleet.nvidia contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The front door. `make` alone prints what there is.
# Everything that a target installs or builds goes to .cache/ (and Debian packages for the lab); `make clean` takes it back.

SHELL := /bin/sh
PYTHON ?= $(shell tests/tools/find-python 3.13 3.12 3.14 3.11)
# `make newest` has environments of its own, of the newest releases of everything.
BIN := $(if $(GPUFLEET_NEWEST),.cache/newest/dev,.cache/venv)/bin
RUN := PATH="$(CURDIR)/$(BIN):$$PATH" ANSIBLE_COLLECTIONS_PATH="$(CURDIR)/.cache/collections"

LAB := PATH="$(CURDIR)/$(BIN):$$PATH" $(PYTHON) -m tests.lab

.DEFAULT_GOAL := help
.PHONY: adopted currency help venv lock newest build demo test check nightly mutants matrix lint types sanity archive release unit unit-2.16 unit-between unit-host integration judges nodeadm molecule soak lab-up lab-down gpu bench docs clean

help: ## Say what each target does
	@awk -F ':.*## ' '/^[a-zA-Z0-9_.-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: venv ## Show the main job on a small fleet of real hosts: plan, site, a cut link, verifications (FLEET=all: every kind of host; CLUSTER=1: a Kubernetes, too; YES=1: ask nothing)
	@$(RUN) YES="$(YES)" python tests/tools/demo.py --fleet $(or $(FLEET),debian)$(if $(CLUSTER), --cluster)

test: venv ## 20 to 50 minutes on two cores, after the build: the newest ansible-core and what tells most of the oldest, molecule, and the lab's real engines
	@$(RUN) python tests/tools/everything.py

nightly: venv ## Hours: all of `make test` with everything that is drawn, older releases of ansible-core and Python, mutants (GPUFLEET_DRAW=new draws others)
	@$(RUN) python tests/tools/everything.py --nightly

mutants: venv ## Change the planner in 200 places, one at a time, and name each change that no test notices (COUNT=20, SEED=3)
	@$(RUN) python tests/tools/mutants.py $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED))

build: venv ## Build what `make test` needs, which it does first, apart from its time (some 14 minutes where nothing is built yet, most of them for Kubernetes)
	@$(RUN) python tests/tools/build.py

check: venv ## The fast tier, 4 to 6 minutes on two cores: lint, types, sanity and unit tests on the newest ansible-core; no root, no lab
	@$(RUN) python tests/tools/everything.py --fast

newest: ## The fast tier on the newest releases of everything, past the lock files and the upper bounds in pyproject.toml
	@GPUFLEET_NEWEST=1 GPUFLEET_DRAW=new $(MAKE) --no-print-directory check

matrix: venv ## All that needs no root and no lab: `make check`, played playbooks, each ansible-core and Python at hand, the archive
	@$(RUN) python tests/tools/everything.py --matrix

lint: venv ## Check style: ruff, yamllint, ansible-lint (production profile), changelog fragments, licences, documentation
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) yamllint --strict .
	$(RUN) ansible-lint
	$(RUN) antsibull-changelog lint
	$(RUN) python tests/tools/docsite.py --lint

types: venv ## Check types: mypy strict on the controller side
	$(RUN) mypy --config-file pyproject.toml $$($(BIN)/python tests/tools/typed_files.py)

sanity: venv ## Run ansible-test sanity on every ansible-core that an interpreter is at hand for
	$(RUN) python tests/tools/sanity.py

archive: venv ## Build the archive for Galaxy, the same bytes from the same files, and have galaxy-importer judge it
	$(RUN) python tests/tools/archive.py --judge

release: venv ## Make a release of the last commit in .cache/release, and publish nothing (VERSION=0.1.0-rc.1)
	@$(RUN) python -I -X utf8 tests/tools/release.py "$$VERSION"

unit: venv ## Run the unit tests on the newest ansible-core
	$(RUN) python -m pytest -q tests/unit

unit-2.16: venv ## Run the unit tests on ansible-core 2.16, the oldest that is promised, and play all playbooks there
	$(RUN) python tests/tools/unit_matrix.py core-2-16 core-2-16-planner core-2-16-playbooks core-2-16-other-playbooks

unit-between: venv ## Run the unit tests on ansible-core 2.17 to 2.20, and on 2.18 the playbooks' tests that lean on ansible-core
	$(RUN) python tests/tools/unit_matrix.py core-2-17 core-2-18 core-2-18-playbooks core-2-19 core-2-20

unit-host: venv ## Run the host side's unit tests on Python 3.6, 3.8 and 3.13, as far as they are at hand
	$(RUN) python tests/tools/unit_matrix.py host-3-6 host-3-8 host-3-13

integration: venv ## Run the tests on the lab's real engines (root on Debian 12; more kinds of host with Go)
	$(RUN) python -m pytest -q tests/integration --ignore=tests/integration/on_demand

judges: venv ## Have containerd, CRI-O and Docker themselves read what is planned for them; no daemon runs (root on Debian 12, Go)
	@$(LAB) build containerd-1.6 containerd-1.7 containerd-2.1 containerd-2.2 containerd-2.3 containerd-2.4 crio-1.34 docker
	$(RUN) python -m pytest -q tests/integration/test_containerd_judge.py tests/integration/test_containerd_applied_judge.py tests/integration/test_containerd_cdi_switch_judge.py tests/integration/test_containerd_pods_judge.py tests/integration/test_containerd_rules_judge.py tests/integration/test_crio_judge.py tests/integration/test_docker_judge.py

nodeadm: venv ## Show on a host what the real nodeadm of EKS makes of what the collection leaves to it (four minutes of compiling)
	$(RUN) python -m pytest -q tests/integration/on_demand

molecule: venv ## Run the molecule scenarios, whose hosts are the lab's
	@$(RUN) python tests/tools/on_lab_machines.py --lab molecule molecule test --all

currency: venv ## Print how old the facts of the tables are and what package indexes have that is newer (TODAY=1 asks nothing, and fails if a row is too old)
	@$(RUN) python tests/tools/currency.py $(if $(TODAY),--today)

bench: venv ## Count SSH operations, compare wall times with ping and with a plain playbook (WRITE=1 writes docs/bench.md)
	@$(RUN) python tests/tools/on_lab_machines.py python -m tests.bench $(if $(WRITE),--write) $(if $(MINUTES),--minutes $(MINUTES))

adopted: venv ## Count with the real programs how many hosts that were configured before are taken over (WRITE=1 writes docs/adoption.md)
	$(RUN) python -m tests.integration.adopted $(if $(WRITE),--write)

docs: venv ## Write what follows from the code (tables and pictures in docs/, the contract, the roles' options, shared results, golden files of messages), and build the site in .cache/docs/site
	@$(RUN) python tests/tools/options.py --write
	@$(RUN) python tests/tools/message_tables.py --write
	@$(RUN) python tests/tools/contract.py --write
	@$(RUN) python tests/tools/pages.py --write
	@$(RUN) python tests/tools/pictures.py --write
	@$(RUN) python tests/tools/docsite.py

soak: venv ## Strike transactions at every system call on every engine, and judge 10 000 configurations each; hours (MINUTES=30: for so long)
	$(RUN) GPUFLEET_DRAW=new GPUFLEET_EXAMPLES=$(or $(EXAMPLES),10000) python -m pytest -q tests/integration/test_properties.py tests/integration/test_nothing_lowered.py tests/integration/test_docker_judge.py
	@$(RUN) python tests/tools/on_lab_machines.py python -m tests.faults$(if $(MINUTES), --minutes $(MINUTES))

gpu: venv ## Build the one file that measures a machine with a real GPU, .cache/gpufleet-gpu.pyz: no Ansible, no engine and no network there (docs/testing.md)
	@$(RUN) python tests/gpu/build.py .cache/gpufleet-gpu.pyz

lab-up: venv ## Boot the lab's hosts (FLEET=file chooses others than those of the demo) and say how to reach them
	@$(LAB) up $(if $(FLEET),--fleet $(FLEET))

lab-down: ## Remove all hosts of this checkout, also what a killed run has left; what was built stays in .cache/lab
	@$(LAB) down

venv: ## Make the virtual environment .cache/venv that the other targets use
	@tests/tools/need-python "$(PYTHON)"
	@$(PYTHON) tests/tools/environments.py dev >/dev/null
	@$(BIN)/python conftest.py

lock: ## Write the lock files of the environments, tests/locks (UPGRADE=1 takes the newest releases that pyproject.toml allows)
	@tests/tools/need-python "$(PYTHON)"
	@$(PYTHON) tests/tools/lock.py $(if $(UPGRADE),--upgrade)

clean: ## Take back everything that targets made (the lab's hosts first)
	@test ! -d .cache/lab || $(LAB) down
	rm -rf .cache tests/output
