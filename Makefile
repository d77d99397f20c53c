# `make train` and `make test` each work alone, on a machine that has only make and a Python that mygym supports.
CHECK := -I mygym/python_version.py
PYTHON ?= $(shell for name in python3 python3.11 python3.12 python3.13 python3.14; do \
	$$name $(CHECK) 2>/dev/null && echo $$name && exit; done; echo python3)
BIN := .venv/bin
# Python compiles the modules that it imports; pip would compile all, which takes as long as to install them. Many
# containers set a variable with which Python does not keep what it compiles: each start would compile everything again.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt

.PHONY: train test check format docs

train: .venv/installed
	$(BIN)/python train.py

test: check
	$(BIN)/python -m pytest -n 2

check: .venv/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell
	$(BIN)/lint-imports
	$(BIN)/mypy

docs: .venv/installed-dev
	$(BIN)/sphinx-build -q -W --keep-going -c docs . docs/_build/html
	@echo docs/_build/html/index.html

format: .venv/installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The pip of Python 3.11 needs twice as long as a recent one to decide what to install.
.venv/bin/pip:
	@$(PYTHON) $(CHECK) || { echo "install Python 3.11, 3.12, 3.13 or 3.14, or name it: make PYTHON=PATH" >&2; exit 2; }
	$(PYTHON) -m venv .venv
	$(INSTALL) --upgrade pip

.venv/installed: .venv/bin/pip pyproject.toml constraints.txt
	$(INSTALL) -e .
	touch $@

.venv/installed-dev: .venv/bin/pip pyproject.toml constraints.txt
	$(INSTALL) -e ".[dev]"
	touch $@ .venv/installed
