# Two commands are enough: `make serve` and `make test`. Everything is set up in .venv on first use.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help install setup serve demo test test-matrix check check-fast coverage fuzz fuzz-html chaos bench simulate scale docs lock clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 serve")'
	@echo "Setting up $(VENV), which takes a minute or two ..."
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: requirements.lock pyproject.toml microsub_conformance/pyproject.toml | $(BIN)/python
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e ./microsub_conformance
	@touch $@

# This lock file includes what the server needs, and running pip once is quicker.
$(VENV)/.dev: requirements-dev.lock requirements.lock pyproject.toml microsub_conformance/pyproject.toml | $(BIN)/python
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e ./microsub_conformance
	@touch $(VENV)/.runtime $@

install: $(VENV)/.runtime ## install what the server needs into .venv

setup: $(VENV)/.dev ## the same, plus the tools for tests and checks

serve: $(VENV)/.runtime | backend.json ## run everything in one process on http://127.0.0.1:8080
	@$(BIN)/microsub serve --show-token $(ARGS)

backend.json:
	cp backend.json.example $@

demo: $(VENV)/.runtime ## the same, with invented blogs that post all the time
	@$(BIN)/microsub demo $(ARGS)

test: $(VENV)/.dev programs ## run all tests; ARGS="tests/cli" for some
	@TEST_FILES=1 $(BIN)/python -m pytest $(ARGS)

.PHONY: programs
programs: # the programs that tests start besides Python
	@scripts/programs

test-matrix: $(VENV)/.dev programs ## the same, also on fakeredis and a Redis Cluster where possible, with four times the generated inputs
	@TEST_MATRIX=1 TEST_FILES=1 $(BIN)/python -m pytest $(ARGS)

.PHONY: test-pythons
test-pythons: ## run all tests on each Python from 3.11 to 3.14 on PATH; ARGS as for test
	@for version in 3.11 3.12 3.13 3.14; do \
		if python$$version -c '' 2>/dev/null; then \
			$(MAKE) --no-print-directory test PYTHON=python$$version VENV=.venv-$$version || exit 1; \
		else echo "Python $$version: not on PATH"; fi; \
	done

check-fast: $(VENV)/.dev ## check format, lint, types, layers, Lua; no tests, about a minute
	@scripts/check --fast

check: $(VENV)/.dev ## check format, lint, types, layers, tests, as CI does
	@scripts/check

# A process that was killed while saving its data leaves a file that can't be read.
coverage: $(VENV)/.dev programs ## run all tests, and report lines and branches that neither they nor their processes have run
	@rm -f .coverage*
	@TEST_FILES=1 $(BIN)/coverage run -m pytest $(ARGS); ended=$$?; \
	$(BIN)/coverage combine --quiet 2>/dev/null; rm -f .coverage.*; \
	$(BIN)/coverage report --fail-under=96 && exit $$ended

fuzz: $(VENV)/.dev ## damage documents for SECONDS=600 and save interesting ones in tests/data/fuzz
	@$(BIN)/python -W ignore -m tests.fuzz.fuzzer $(or $(SECONDS),600)

fuzz-html: $(VENV)/.dev ## generate INPUTS=1000000 attacks on the sanitiser and save those that get through
	@$(BIN)/python -m tests.fuzz.joints $(or $(INPUTS),1000000)

$(VENV)-bench/.done: requirements-bench.lock | $(BIN)/python
	$(BIN)/python -m venv $(VENV)-bench
	$(VENV)-bench/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-bench.lock
	@touch $@

chaos: $(VENV)/.dev ## kill processes at random, KILLS=300 times, and check that nothing is lost or duplicated
	@CHAOS_KILLS=$(or $(KILLS),300) CHAOS_PACE=$(or $(PACE),0.2) $(BIN)/python -m pytest -n 0 -s tests/chaos

bench: $(VENV)/.dev $(VENV)-bench/.done ## measure against static bytes, feedparser, and lemon24's reader
	@$(BIN)/python -m benchmarks $(ARGS)

simulate: $(VENV)/.dev ## simulate a month of polling 10,000 invented feeds, compared with a fixed schedule
	@$(BIN)/python -m benchmarks.politeness $(ARGS)

scale: $(VENV)/.dev ## load 10,000 users with 100 of 50,000 feeds each, and compare with the model
	@$(BIN)/python -m benchmarks.scale $(ARGS)

.PHONY: pictures
pictures: $(VENV)/.dev programs ## make the screenshots for README and docs from the demo, and measure its pages in a browser
	@$(BIN)/python -m scripts.pages

docs: $(VENV)/.dev ## regenerate the reference pages that are made from the code
	@$(BIN)/python scripts/reference.py

.PHONY: dist
dist: $(VENV)/.dev ## build the source archives and wheels of all distributions in dist/
	@for folder in . microsub_conformance microsub_demo; do \
		(cd $$folder && $(CURDIR)/$(BIN)/python -m hatchling build --directory $(CURDIR)/dist) || exit 1; done

lock: ## regenerate the lock files (needs uv)
	@scripts/lock

clean: ## remove the environment and caches, but no data
	rm -rf $(VENV) $(VENV)-bench .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache htmlcov .coverage*
