# make demo    the main job on the examples: judge, time, explain, rewrite, judge again
# make test    everything CI runs
# make bench   how fast the loop itself is, beside torch.utils.cpp_extension in the same run
PY := .venv/bin/python

.PHONY: setup demo test lint unit bench figures docs vscode clean

setup:
	@dev/setup --tools

demo: setup
	@$(PY) -m kernel_lsp.fronts.demo examples/cpu

test: setup lint unit

lint:
	@echo "==> ruff, mypy, import contracts"
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports

unit:
	@echo "==> tests (the slowest, end to end, come last)"
	@$(PY) -m pytest tests --ignore=tests/e2e --durations=10
	@$(PY) -m pytest tests/e2e --durations=5

bench: setup
	@$(PY) -m pip install -q --disable-pip-version-check --group bench
	@$(PY) -m benchmarks.loop --json results/bench.json
	@$(PY) -m benchmarks.readme

# Everything that README quotes, measured anew on this machine.
figures: setup bench
	@$(PY) -m kernel_lsp.fronts.demo examples/cpu --json results/demo.json
	@$(PY) -m benchmarks.readme

docs: setup
	@$(PY) -m kernel_lsp.diagnose.docs

vscode:
	@cd editors/vscode && npm ci && npm run check && npm run package

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
