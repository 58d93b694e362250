# Thin lines over the real tools. Two of them set everything up on a fresh machine: `make quick` and `make test`.
VENV := .venv
PYTHON := $(VENV)/bin/python
SCRATCH ?= scratch
ENGINE := Cargo.lock Cargo.toml $(shell find crates -name '*.rs' -o -name '*.py' -o -name Cargo.toml)

FUZZ_SECONDS ?= 600

.PHONY: quick test fuzz lint bench docs clean

quick: $(VENV)/engine ## measure SCRATCH (default: a directory in the checkout) and print the report's path
	@mkdir -p $(SCRATCH)
	$(VENV)/bin/savemark run $(SCRATCH)

test: $(VENV)/engine lint docs ## everything; pytest comes last, so its summary is the last thing printed
	cargo test --workspace --quiet
	$(PYTHON) -m pytest

fuzz: $(VENV)/engine ## every fuzz target, FUZZ_SECONDS (600) each; `make test` tries each for two seconds
	SAVEMARK_FUZZ_SECONDS=$(FUZZ_SECONDS) cargo test --workspace --lib --test all -- --nocapture --test-threads=1 fuzz
	$(PYTHON) bench/fuzz.py $(FUZZ_SECONDS)

lint: $(VENV)/engine
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m ruff check --quiet
	$(PYTHON) -m mypy

docs: $(VENV)/engine ## the API of the crates, and the reference pages that are generated from its schema
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --quiet
	$(PYTHON) docs/build.py --check

bench: $(VENV)/engine ## side by side with fio, elbencho, IOR, mdtest, our own ceilings and the clients of S3, what hostile files cost, how often ties and simulated races are wrong; about two hours
	@mkdir -p $(SCRATCH)
	$(PYTHON) bench/block.py $(SCRATCH)
	$(PYTHON) bench/metadata.py $(SCRATCH)
	$(PYTHON) bench/agreement.py $(SCRATCH)
	$(PYTHON) bench/run.py $(SCRATCH)
	$(PYTHON) bench/iterate.py $(SCRATCH)
	$(PYTHON) bench/process.py $(SCRATCH)
	$(PYTHON) bench/ranks.py $(SCRATCH)
	$(PYTHON) bench/report.py
	$(PYTHON) bench/object.py $(SCRATCH)
	$(PYTHON) bench/memory.py $(SCRATCH)
	$(PYTHON) bench/hostile.py $(SCRATCH)
	$(PYTHON) bench/ties.py
	$(PYTHON) bench/places.py
	$(if $(TORCH),PYTHONPATH=python $(TORCH) bench/statedict.py $(SCRATCH),@echo 'state dict: skipped; TORCH=PYTHON names a Python with torch and safetensors')

clean:
	rm -rf target $(VENV) $(SCRATCH)

# The environment, then the engine in it. Pip runs again only when what it installs has changed.
$(VENV)/packages: pyproject.toml
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --disable-pip-version-check 'maturin>=1.9.4,<2'
	@touch $@

$(VENV)/engine: $(VENV)/packages $(ENGINE)
	PIP_QUIET=1 PIP_DISABLE_PIP_VERSION_CHECK=1 VIRTUAL_ENV=$(abspath $(VENV)) $(VENV)/bin/maturin develop --release --quiet --locked --extras dev
	@touch $@
