PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.stamp
# One more than the cores: tests wait for other processes, for a database, for the disk.
WORKERS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))

.PHONY: demo test soak check docs wheel bench clean

demo: $(STAMP)           ## run the main job and show its result and picture
	$(BIN)/brimful doctor
	@echo
	$(BIN)/brimful plan gp fit --synthetic 50000 --budget 500MB
	@echo
	rm -rf demo-out
	$(BIN)/brimful gp fit --synthetic 50000 --budget 500MB --out demo-out
	@echo "  open demo-out/gp.png to see some of the processes, and the parameters of all"

# What tests import is compiled once, also where the environment says not to keep it: they start many processes.
test: $(STAMP)           ## the tests, as CI runs them
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

soak: $(STAMP)           ## long fault rounds and large property tests
	BRIMFUL_SOAK=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m soak -n auto --dist worksteal --timeout=3600

check: $(STAMP)          ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

docs: $(STAMP)           ## the documentation site, without warnings; nothing in it is fetched from elsewhere
	rm -rf site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict >$(VENV)/docs.log 2>&1 || { grep -v '^INFO' $(VENV)/docs.log; exit 1; }
	! grep -rlE '<(script|img|link)[^>]+(src|href)="?https?://' site --include='*.html'

wheel: $(STAMP)          ## a wheel and a source distribution in dist/; with BRIMFUL_REPOSITORY=URL, links for an index
	$(BIN)/python -m hatchling build

bench: $(STAMP)          ## measure on this machine; results land in benchmarks/results
	$(BIN)/python benchmarks/monitor.py
	$(BIN)/python benchmarks/gp.py --out benchmarks/results/gp.json
	$(BIN)/python benchmarks/loader.py --out benchmarks/results/loader.json
	$(BIN)/python benchmarks/train.py --out benchmarks/results/train.json
	$(BIN)/python benchmarks/gpcm.py --out benchmarks/results/gpcm.json
	$(BIN)/python benchmarks/gpcm_epoch.py --out benchmarks/results/gpcm-epoch.json
	$(BIN)/python benchmarks/gpcm_quality.py --out benchmarks/results/gpcm-quality.json
	$(BIN)/python benchmarks/wpo_quality.py --out benchmarks/results/wpo-quality.json
	$(BIN)/python -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' \
		&& $(BIN)/python benchmarks/map.py --out benchmarks/results/map.json \
		|| echo "benchmarks/map.py needs a CUDA device and was left out"

clean:                   ## remove everything that make made
	rm -rf $(VENV) build dist site .pytest_cache .ruff_cache .hypothesis demo-out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stale when what it was made from is newer; a half-made one has no stamp and is made again.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@
