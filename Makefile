# What a developer types. Everything runs in .venv, which the first target makes.
PYTHON ?= python3
VENV ?= .venv
MODELS ?= ../shared/models
BIN := $(VENV)/bin
CXX_FILES := $(shell find native tests -name '*.cc' -o -name '*.h' -o -name '*.inl' -o -name '*.c')

.PHONY: demo test test-full lint format bench docs cross clean

$(BIN)/.installed: pyproject.toml setup.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -e '.[demo,test,bench]'
	touch $@

demo: $(BIN)/.installed   ## classify photos on the engine (or its emulation) and say where every node ran
	$(BIN)/aneforge demo

test: $(BIN)/.installed   ## quick tier
	$(BIN)/python -m pytest -m "not full"

test-full: $(BIN)/.installed   ## both tiers, every program of real models where those are, and the native code under sanitizers
	$(BIN)/python -m pytest
	if [ -d $(MODELS) ]; then $(BIN)/python tests/suites/programs.py $(MODELS); else echo "no $(MODELS) here: not read"; fi
	PYTHON=$(BIN)/python tests/native/sanitize.sh

lint: $(BIN)/.installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	PYTHON=$(BIN)/python tests/architecture/typecheck.sh
	$(BIN)/clang-format --dry-run --Werror $(CXX_FILES)

format: $(BIN)/.installed
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(CXX_FILES)

bench: $(BIN)/.installed
	$(BIN)/python -m benchmarks

cross: $(BIN)/.installed   ## link for macOS on Apple silicon, run on an emulated arm64 Linux (clang from the PyPI package ziglang)
	$(BIN)/pip install -q ziglang pybind11
	PYTHON=$(BIN)/python tests/native/cross_macos.sh
	PYTHON=$(BIN)/python tests/native/arm64_linux.sh

clean:
	rm -rf build dist *.egg-info $(VENV)
