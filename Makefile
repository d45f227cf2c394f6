# The two commands of the README are `make reproduce` and `make test`. Every target may be interrupted and repeated.
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Python compiles what it imports, so most of what is installed never needs to be; but what it compiled has to be kept,
# also where containers say that it is not: every process would compile two thousand modules again, for eight seconds.
export PYTHONDONTWRITEBYTECODE :=
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# The first of these that runs and is 3.11 to 3.13; name another with `make PYTHON=...`.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && { echo $$p; break; }; done)

.DEFAULT_GOAL := help
.PHONY: help setup demo reproduce multiverse atlas verify quick data figures report reference docs test test-all fuzz lint check bench lock audit release-check clean

help: ## Show the targets
	@echo 'kmdr: dimensionality reduction before k-means, measured as published papers measured it'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv with the locked dependencies and kmdr itself
	$(if $(filter setup,$(MAKECMDGOALS)),@echo 'Ready: source $(BIN)/activate && kmdr demo')

# The pip that comes with Python may be years old and take twice as long as today's to choose among files.
$(READY): requirements-pip.lock requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo 'kmdr needs Python 3.11, 3.12 or 3.13; install one, or name it: make PYTHON=/path/to/python' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo '$(PYTHON) has no venv module; on Debian and Ubuntu: apt install python3-venv' >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(INSTALL) --require-hashes -r requirements-pip.lock
	$(INSTALL) --require-hashes -r requirements.lock
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@$(BIN)/python -c 'import kmdr.cli.jobs'
	@touch $(READY)

demo: setup ## Run four methods on real data that need no download: a table and a picture in seconds (results/demo)
	$(BIN)/kmdr demo

reproduce: setup ## Run every study whose data are available, in full, and make the report (results/runs); BUDGET=10m for what fits, PAPERS='bzd10' for some
	$(BIN)/kmdr reproduce $(PAPERS) $(if $(BUDGET),BUDGET='$(BUDGET)')

multiverse: setup ## Run papers under every choice that they leave open (results/runs/multiverse); BUDGET=10m, PAPERS='bzd10' for some
	$(BIN)/kmdr multiverse $(PAPERS) $(if $(BUDGET),BUDGET='$(BUDGET)')

atlas: setup ## Run every method on all datasets of the atlas, for hours (results/runs/atlas); BUDGET=10m for a part
	$(BIN)/kmdr atlas $(if $(BUDGET),BUDGET='$(BUDGET)')

verify: setup ## Rerun a random sample of the committed rows and compare; N=40 rows, SEED=… for the same sample again
	$(BIN)/kmdr verify $(if $(N),ROWS='$(N)') $(if $(SEED),SEED='$(SEED)')

quick: setup ## Run every study on a thinned grid, in about three minutes on 2 cores (results/quick)
	$(BIN)/kmdr quick

data: setup ## Download and prepare every available dataset
	$(BIN)/kmdr data get

figures: setup ## Draw the figures of results/runs again
	$(BIN)/kmdr figures results/runs

report: setup ## Make figures, tables, verdicts and the report again from the committed rows, or from DIR=results/runs
	$(BIN)/kmdr report $(or $(DIR),results/reference)

reference: setup ## Run what results/reference, the committed results, lacks of the full studies, and compress all rows
	$(BIN)/kmdr reference --seed 2

DOCS := $(VENV)/.docs
$(DOCS): $(READY) requirements-docs.lock
	$(INSTALL) --require-hashes -r requirements-docs.lock
	@touch $(DOCS)

docs: $(DOCS) ## Build the documentation (results/docs/index.html); a warning is an error
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --doctree-dir results/docs/.doctrees docs results/docs
	@echo 'results/docs/index.html'

TEST := $(BIN)/python -m pytest --numprocesses auto --dist worksteal
test: setup ## Run the tests, as many at once as there are cores; not those that take a second or more, or kill runs
	$(TEST)

test-all: setup ## Run all tests but those that take minutes each (pytest -m long)
	$(TEST) -m 'not long'

fuzz: setup ## Try every compiled kernel with bounds checking on whatever a generator thinks of, SECONDS=600 SEED=…
	$(BIN)/python scripts/fuzz.py $(or $(SECONDS),600) $(if $(SEED),--seed '$(SEED)')

lint: setup ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Of the tests those that make no run and compile nothing.
QUICK := catalogue draws html layout opening repetitions seeding statistics tables verdicts
check: lint ## Check style and types, and run the tests that take no longer than that: for while something is changed
	$(BIN)/python -m pytest --quiet $(QUICK:%=tests/*/test_%.py)

bench: setup ## Measure the kernels against other libraries and the limit, side by side, in about half an hour (results/bench)
	-@$(INSTALL) --require-hashes --no-build-isolation -r requirements-bench.lock
	$(BIN)/python scripts/bench.py

# All locks hold hashes and no addresses of indexes; the peers of the bench and Sphinx go with the versions of requirements.lock.
PIN := uv pip compile --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-emit-find-links --no-annotate --no-header --upgrade

lock: ## Pin the newest versions of all dependencies in the requirements*.lock (needs uv)
	$(PIN) pyproject.toml --extra dev --output-file requirements.lock
	for extra in bench docs; do \
	  $(PIN) pyproject.toml --extra $$extra --constraint requirements.lock --output-file requirements-$$extra.lock || exit 1; \
	done
	echo pip | $(PIN) - --output-file requirements-pip.lock
	echo pip-audit | $(PIN) - --output-file requirements-audit.lock

audit: ## Compare the locked dependencies with the known vulnerabilities (needs a network)
	@test -n "$(PYTHON)" || { echo 'kmdr needs Python 3.11, 3.12 or 3.13' >&2; exit 1; }
	@work=$$(mktemp -d) && trap 'rm -rf "$$work"' EXIT && $(PYTHON) -m venv "$$work" && \
	  { "$$work/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 --require-hashes \
	      -r requirements-audit.lock || { echo 'audit: pip-audit cannot be got: is there a network?' >&2; exit 1; }; } && \
	  { "$$work/bin/python" -c 'import urllib.request as u; u.urlopen("https://api.osv.dev", timeout=20)' 2>"$$work/why" || \
	    grep -q HTTPError "$$work/why" || \
	    { echo 'audit: no network to the list of vulnerabilities (osv.dev), so nothing was compared' >&2; exit 1; }; } && \
	  for lock in requirements-pip.lock requirements.lock requirements-bench.lock requirements-docs.lock; do \
	    "$$work/bin/pip-audit" --vulnerability-service osv --disable-pip --require-hashes -r $$lock || exit 1; \
	  done

# Exit status of the script: 0 all passed, 1 any failed, 3 some were skipped; make reports the last two as an error.
release-check: ## Build the last commit, check its archives and run the wheel on each supported Python; OUT=dist keeps them
	@test -n "$(PYTHON)" || { echo 'kmdr needs Python 3.11, 3.12 or 3.13' >&2; exit 1; }
	$(PYTHON) scripts/release_check.py $(if $(OUT),--out '$(OUT)')

clean: ## Remove what can be made again, unless a run uses it: .venv, caches, results/runs, results/quick; downloaded data stays
	@python="$(or $(wildcard $(BIN)/python),$(PYTHON))"; test -z "$$python" || "$$python" scripts/clean.py results/runs results/quick
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .fuzz_cache results/runs results/quick results/bench results/docs docs/generated docs/gallery
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
