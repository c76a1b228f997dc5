# Everything a person or a CI runs. Each target makes .venv by itself from a bare Python 3.11 or later.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 2

# One BLAS thread per worker: the workers are already the parallelism.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=2
DOCTESTS := --doctest-modules --doctest-glob='*.md' src README.md docs

.PHONY: venv demo test test-long test-browser test-gpu test-lowest coverage lint format docs dist bench bench-peers bench-paper-peers clean

venv: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "paloma needs Python 3.11 or later: make PYTHON=python3.11 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# The demo needs no tools of development.
$(VENV)/.demo: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	test -e $(STAMP) || $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[plot]'
	@touch $@

demo: $(VENV)/.demo
	$(BIN)/paloma demo

test: $(STAMP)
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(WORKERS) tests $(DOCTESTS)

test-long: $(STAMP)
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(WORKERS) -m long tests

# The page of `paloma serve` in Chromium, which the system must have (Debian: apt install chromium).
$(VENV)/.browser: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev-browser]'
	@touch $@

test-browser: $(VENV)/.browser
	$(ONE_THREAD) $(BIN)/python -m pytest -m browser tests/test_browser.py

# On a machine with a GPU whose `python3` has torch with CUDA and paloma's other dependencies; no .venv is made.
test-gpu:
	PYTHONPATH=src $(PYTHON) -m pytest -q tests/test_device.py
	PYTHONPATH=src $(PYTHON) -m pytest -q tests/test_common.py -k array_api
	PYTHONPATH=src $(PYTHON) -m benchmarks gpu

# With the lowest versions that pyproject.toml allows, in an environment of its own; needs Python 3.11.
LOWEST := .venv-lowest
test-lowest:
	test -x $(LOWEST)/bin/python || python3.11 -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-lowest.txt -e '.[lowest]'
	$(ONE_THREAD) $(LOWEST)/bin/python -m pytest -n $(WORKERS) tests

# Compiled loops as plain Python, so that their lines count: the tests whose problems are small enough for that. Hashes may
# overflow.
COVERED := axes twins forgetting regions logdet_step hedge

coverage: $(STAMP)
	NUMBA_DISABLE_JIT=1 $(ONE_THREAD) $(BIN)/python -m coverage run -m pytest -q -W 'ignore:overflow:RuntimeWarning' $(COVERED:%=tests/test_%.py)
	$(BIN)/python -m coverage report --skip-covered
	@echo "compiled loops: $$($(BIN)/python -m coverage report --include='*/_compiled/*' --format=total) %"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --strict --follow-imports=silent tests/helpers/typed.py
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site: a copy of docs/ with the pages of the root, built without warnings and without the network.
$(VENV)/.docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

docs: $(VENV)/.docs
	$(BIN)/python release/site_source.py build/docs
	$(ONE_THREAD) $(BIN)/python -m sphinx -W --keep-going -q -b html build/docs build/site
	@echo "build/site/index.html"

dist: $(STAMP)
	rm -rf dist
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build
	$(BIN)/python -m build --quiet
	$(BIN)/python release/check_dist.py

bench: $(STAMP)
	$(BIN)/python -m benchmarks

# metric-learn's newest release does not run on scikit-learn 1.8 and later, so the peers live in an environment of their
# own. Without one of the other packages the methods that need it are skipped. torch takes gigabytes, unless pip is set up
# to find its wheels for CPUs.
PEERS := .venv-peers
PEERS_PIP := $(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check
$(PEERS)/.installed:
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS_PIP) 'metric-learn==0.7.0' 'scikit-learn<1.8'
	$(PEERS_PIP) 'mlpack==4.8.0' || echo "mlpack could not be installed"
	$(PEERS_PIP) 'prosemble[jax]==2.4.0' || echo "prosemble could not be installed"
	$(PEERS_PIP) 'torch==2.13.0' || echo "torch could not be installed"
	@touch $@

# PEERS_OPTIONS="--sets letters --seeds 1 --limit 60": see python -m benchmarks peers --help.
bench-peers: $(STAMP) $(PEERS)/.installed
	$(ONE_THREAD) $(BIN)/python -m benchmarks peers $(PEERS_OPTIONS)

bench-paper-peers: $(STAMP) $(PEERS)/.installed
	$(BIN)/python -m benchmarks paper_peers

clean:
	rm -rf $(VENV) .venv-peers .venv-lowest build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
