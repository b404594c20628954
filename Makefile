PYTHON ?= python3
BIN := .venv/bin

.PHONY: venv demo test slow gpu campaign coverage lint docs clean

venv: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet -c constraints.txt -e . --group dev
	touch $@

DEMO := demo/runs/system=transevolve-seed0

demo: venv
	$(BIN)/transevolve sweep sweeps/demo --output demo
	$(BIN)/transevolve predict $(DEMO) \
		"Draw a line plot with markers." \
		"Fit the estimator on the training data and labels." \
		"Compute the gradient of a tensor on the GPU."
	$(BIN)/transevolve explain $(DEMO) "Fit the estimator on the training data and labels." --output demo/explain.html
	$(BIN)/transevolve report demo --output demo/report.html
	@echo "open demo/explain.html and demo/report.html; the model is in $(DEMO)"

test: venv
	$(BIN)/python -m pytest -n auto --dist worksteal

# Everything that takes minutes: the campaigns below, 10,000 malformed inputs of each kind (tests/hardening), other
# people's implementations as oracles, sharded training on two processes, every export, pages in a browser, installation
# into an empty environment, speed and memory; Hugging Face's own tests if TRANSEVOLVE_HF_TESTS names a checkout.
slow: venv
	$(BIN)/python -m pytest -m slow

gpu: venv
	$(BIN)/python -m pytest -m cuda
	$(BIN)/transevolve bench speed --device cuda --precision bf16 --lengths 1024 2048 4096 --memory 16GB --name gpu \
		--systems transformer fullFF-1:once fullFF-1:fused fullFF-1:linear randomFF-1:once randomFF-1:linear

# 200 kills of train, sweep and average, 20 sizes of full disks, and run folders from strangers.
campaign: venv
	$(BIN)/python -m pytest -m slow tests/campaigns

coverage: venv
	$(BIN)/python -m pytest -n auto --dist worksteal --cov=src --cov-report=term:skip-covered --cov-fail-under=90

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

docs: venv
	$(BIN)/mkdocs build --strict

clean:
	rm -rf .venv build dist site
