# make serve   sync what this machine has and serve it     (ARGS="--port 8002" adds options)
# make test    checks and tests                            (PYTEST_ARGS="-k dates" chooses)

VENV := .venv
VENV_1 := .venv-datasette-1
DATASETTE_1 := 1.0a41
EXTRAS := mcp,dashboards,auth
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
ARGS ?=
PYTEST_ARGS ?=

# An environment whose Python has been upgraded away is made anew.
$(foreach venv,$(VENV) $(VENV_1),$(shell \
  test -e $(venv) && ! $(venv)/bin/python -c "" 2>/dev/null && rm -rf $(venv)))

.PHONY: help serve test test-datasette-1 bench clean

help:
	@echo "make serve             sync what this machine has and serve it at http://127.0.0.1:8001/"
	@echo "make test              lint, types, documentation and tests"
	@echo "make test-datasette-1  the tests again, with Datasette $(DATASETTE_1)"
	@echo "make bench             measure sync and search on a made-up history"
	@echo "make clean             remove environments, builds and caches"

serve: $(VENV)/.serve
	$(VENV)/bin/opencode-history serve $(ARGS)

test: $(VENV)/.test
	$(VENV)/bin/python -m ruff check .
	$(VENV)/bin/python -m ruff format --check .
	$(VENV)/bin/python -m mypy
	$(VENV)/bin/python -m cogapp --check README.md docs/commands.md
	$(VENV)/bin/python -m pytest $(PYTEST_ARGS)

test-datasette-1: $(VENV_1)/.test
	$(VENV_1)/bin/python -m pytest $(PYTEST_ARGS)

bench: $(VENV)/.test
	$(VENV)/bin/python -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV) $(VENV_1) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.serve: pyproject.toml | $(VENV)/bin/python
	$(VENV)/bin/python $(PIP_INSTALL) -e ".[$(EXTRAS)]"
	@touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/bin/python
	$(VENV)/bin/python $(PIP_INSTALL) -e ".[test,$(EXTRAS)]"
	@touch $@ $(VENV)/.serve

$(VENV_1)/.test: pyproject.toml Makefile | $(VENV_1)/bin/python
	$(VENV_1)/bin/python $(PIP_INSTALL) -e ".[test,$(EXTRAS)]" "datasette==$(DATASETTE_1)"
	@touch $@

# The first Python of 3.11 or later that can make environments and whose SQLite has trigrams.
USABLE := import ensurepip, sqlite3, sys, venv; assert sys.version_info >= (3, 11); \
  sqlite3.connect(':memory:').execute('create virtual table t using fts5(x, tokenize=trigram)')

$(VENV)/bin/python $(VENV_1)/bin/python:
	@for python in $(PYTHON) python3.13 python3.12 python3.11 python3 python3.14; do \
	  if $$python -c "$(USABLE)" >/dev/null 2>&1; then \
	    echo "Making $(@:/bin/python=) with $$($$python --version)"; \
	    exec $$python -m venv $(@:/bin/python=); \
	  fi; \
	done; \
	echo "No usable Python found. Needed: Python 3.11 or later with the modules venv and" >&2; \
	echo "ensurepip (Debian: apt install python3-venv) and SQLite 3.34 or later with FTS5." >&2; \
	echo "Name one with: make PYTHON=/path/to/python3" >&2; \
	exit 1
