# One command for each thing that a person does here; each does its own set-up in .venv/ and build/, once.
# Those that run tests take PYTEST_ARGS: options of pytest, and files, which are then all that it runs.
#
#   make demo      two simulated GPUs, four programs, turns
#   make test      the tests that need neither a GPU nor a cluster, in eight to ten minutes
#   make soak      those of them that take long: wheels, sanitizers, programs that swap and die, chaos; then the random drivers of
#                  the scheduler's core with new seeds; DRIVERS_ARGS="--minutes 10" says for how long
#   make check     what lint does, C warnings, layout rules, generated files
#   make lint      linters, formats, types
#   make format    format Python and C
#   make chaos     ten minutes of random kills, stops and floods; CHAOS_ARGS="--seed N" does the same again
#   make e2e       the tests that change the Kubernetes cluster which KUBECONFIG names
#   make e2e-long  twenty minutes more: a hundred restarts of kubelet, twenty rollouts of the plugin
#   make sanitize  of the tests, those of the C code under AddressSanitizer, UBSan and ThreadSanitizer
#   make libs      compile what changed
#   make generate  make again what is generated and committed: stubs, entry points, gated hooks, manifests, dashboard
#   make manifests make again the plain manifests in deploy/ and deploy/simulated/, from the chart
#   make helm      build the helm that this and the chart's tests use, in build/tools/; needs Go
#   make wheels    a wheel for each machine, in dist/
#   make pinned    the manifests and the chart in dist/deploy/, with the image's digest: make pinned DIGEST=sha256:...
#   make lock      pin the dependencies of pyproject.toml in requirements.lock, the image's in deploy/requirements.lock

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

# Tests start thousands of processes; each would compile the same modules again.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= $(firstword $(shell command -v python3.11 python3.12 python3.13 python3.14 python3))
VENV := .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?=
# The files that it names, if any: then these tests are run, and no others.
NAMED = $(wildcard $(foreach word,$(PYTEST_ARGS),$(firstword $(subst ::, ,$(word)))))
CHAOS_ARGS ?=
DRIVERS_ARGS ?= --minutes 10
PINNED ?= dist/deploy

# The stamps carry the digest of what they stand for, so a changed file is noticed whatever its time says.
digest = $(shell cat $(1) | sha256sum | cut -c 1-16)
LOCKED := $(VENV)/.locked-$(call digest,requirements.lock)
INSTALLED := $(VENV)/.installed-$(call digest,requirements.lock pyproject.toml setup.py)
# What the demonstration runs, and no more: an installation of its own.
DEMO := build/demo
SHIPPED := $(DEMO)/.installed-$(call digest,pyproject.toml setup.py build_native.py $(shell find src -type f -not -path '*/__pycache__/*' -not -path '*/lib/*' -not -path '*.egg-info/*' | sort))
HELM_VERSION := v3.22.0
HELM := build/tools/.helm-$(HELM_VERSION)

.PHONY: demo test soak chaos check lint format e2e e2e-long sanitize libs generate manifests helm wheels pinned setup lock clean

demo: $(SHIPPED)
	$(DEMO)/bin/nvshare-ctl demo

# Most of them wait.
test: libs
	$(BIN)/python -m pytest -n 8 --dist loadgroup -m "not gpu and not e2e and not soak" $(PYTEST_ARGS)

soak: libs
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "soak and not gpu and not e2e" $(PYTEST_ARGS)
	$(if $(NAMED),,$(BIN)/python -m tests.random_drivers $(DRIVERS_ARGS))

lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	git ls-files '*.c' '*.h' | xargs $(BIN)/clang-format --dry-run -Werror
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	git ls-files '*.c' '*.h' | xargs $(BIN)/clang-format -i

check: libs lint
	$(BIN)/python build_native.py strict
	$(BIN)/python -m pytest -o testpaths=tests/layout $(PYTEST_ARGS)

chaos: libs
	$(BIN)/python -m tests.chaos $(CHAOS_ARGS)

e2e: E2E := e2e and not e2e_long
e2e-long: E2E := e2e_long
e2e e2e-long: libs
	@test -n "$(KUBECONFIG)" || { echo "make $@: KUBECONFIG must name the cluster that the tests may change" >&2; exit 1; }
	$(BIN)/python -m pytest -m "$(E2E)" -o testpaths=tests/e2e $(PYTEST_ARGS)

sanitize: libs
	$(BIN)/python build_native.py asan tsan
	$(BIN)/python -m pytest -o testpaths=tests/sanitize $(PYTEST_ARGS)

libs: $(INSTALLED)
	$(BIN)/python build_native.py x86_64 aarch64

generate: $(INSTALLED) manifests
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python protos/generate.py
	$(BIN)/python src/nvshare/shim/csrc/hooks/generate.py
	$(BIN)/python src/nvshare/simgpu/csrc/cuda/generate.py
	$(BIN)/python deploy/dashboard/generate.py

manifests: $(INSTALLED) $(HELM)
	$(BIN)/python deploy/helm/render.py

helm: $(HELM)

wheels: libs
	for machine in x86_64 aarch64; do \
		$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist \
			--config-settings=--build-option=--plat-name=manylinux_2_17_$$machine .; \
	done

pinned:
	@[[ "$(DIGEST)" =~ ^sha256:[0-9a-f]{64}$$ ]] || { echo "make pinned: DIGEST must be the pushed image's, sha256:..." >&2; exit 1; }
	rm -rf $(PINNED)
	mkdir -p $(dir $(PINNED))
	cp -r deploy $(PINNED)
	find $(PINNED) -name '*.yaml' -exec sed -E -i 's|(image: docker.io/nvshare/nvshare:[^@ ]+)$$|\1@$(DIGEST)|' {} +
	sed -i 's|^  digest: ""$$|  digest: $(DIGEST)|' $(PINNED)/helm/nvshare/values.yaml

setup: $(INSTALLED)

lock: $(LOCKED)
	CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet --extra dev --extra kubectl --generate-hashes --allow-unsafe --strip-extras \
		--no-emit-options --no-emit-index-url --no-emit-find-links --no-emit-trusted-host -o requirements.lock pyproject.toml
	CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet --constraint requirements.lock --unsafe-package pycparser --generate-hashes --strip-extras \
		--no-emit-options --no-emit-index-url --no-emit-find-links --no-emit-trusted-host -o deploy/requirements.lock pyproject.toml

clean:
	rm -rf build dist $(VENV) src/nvshare.egg-info src/nvshare/shim/lib src/nvshare/simgpu/lib

# Said before anything is fetched.
define check_python
	@test -n "$(PYTHON)" || { echo "make: no python3 in PATH; nvshare needs Python 3.11 or newer (Debian, Ubuntu: apt install python3 python3-venv)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("make: $(PYTHON) is older than Python 3.11; say make PYTHON=...")'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "make: $(PYTHON) can't make environments; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
endef

$(BIN)/python:
	$(check_python)
	$(PYTHON) -m venv $(VENV)

# The compiler is fetched, used and thrown away with its caches.
$(SHIPPED):
	$(check_python)
	@echo "1 of 3: an environment in $(DEMO); with all that follows it takes 100 MB and about a minute"
	@rm -rf $(DEMO)
	@$(PYTHON) -m venv $(DEMO)
	@echo "2 of 3: the C libraries; their compiler (zig, 90 MB) is fetched for that, and not kept"
	@ZIG_GLOBAL_CACHE_DIR="$(abspath $(DEMO))/zig" $(DEMO)/bin/python -m pip wheel --quiet --disable-pip-version-check --no-cache-dir --no-deps --wheel-dir $(DEMO)/wheel .
	@rm -rf $(DEMO)/zig
	@echo "3 of 3: the Python packages that nvshare needs"
	@$(DEMO)/bin/python -m pip install --quiet --disable-pip-version-check --no-cache-dir $(DEMO)/wheel/*.whl
	@rm -rf $(DEMO)/wheel
	@touch $@

$(LOCKED): | $(BIN)/python
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	rm -f $(VENV)/.locked-*
	touch $@

$(INSTALLED): $(LOCKED)
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	rm -f $(VENV)/.installed-*
	touch $@

# From its Go module, whose content the Go checksum database knows.
$(HELM):
	@command -v go >/dev/null || { echo "make helm: Go is not installed" >&2; exit 1; }
	CGO_ENABLED=0 GOBIN="$(abspath $(@D))" go install -trimpath -ldflags='-s -w' helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)
	rm -f $(@D)/.helm-*
	touch $@
