# Everyday tasks. `make demo` and `make test` need nothing but git and a Debian-like system: they run
# scripts/setup.sh first, which installs what is missing.

.DEFAULT_GOAL := build
-include build/environment.mk

JOBS ?= $(shell nproc)
PRESET ?= release
SEED ?= 1

.PHONY: setup build demo test asan tsan format lint docs clean help

help: ## list the tasks
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' Makefile | expand -t 10

setup: ## install what is missing (packages, LibTorch, CUDA toolkit)
	@scripts/setup.sh

# make reads build/environment.mk before setup has written it, so the work is done by a second make.
build: setup ## build into build/$(PRESET)
	@$(MAKE) --no-print-directory build-with-environment

demo: setup ## import real data, train with two ranks, evaluate (SEED=1)
	@$(MAKE) --no-print-directory build-with-environment PRESET=release TARGETS=longship
	@SEED=$(SEED) scripts/demo.sh

test: setup ## build and run all tests
	@$(MAKE) --no-print-directory run-tests PRESET=release

asan: setup ## run the data folder's tests under the address and undefined-behaviour sanitizers
	@$(MAKE) --no-print-directory run-sanitizer PRESET=asan TARGETS=longship_data_tests TESTS='^data$$'

tsan: setup ## run the tests that use threads under the thread sanitizer
	@$(MAKE) --no-print-directory run-sanitizer PRESET=tsan TESTS='^threads_' \
	  TARGETS='longship_comm_tests longship_data_tests longship_comm_multirank_tests'

format: ## format all sources in place
	@scripts/setup.sh --format
	@scripts/format.sh --fix

lint: ## check format, the folders' dependencies, and clang-tidy's findings
	@scripts/setup.sh --lint
	@scripts/format.sh
	@python3 scripts/check_includes.py
	@$(MAKE) --no-print-directory build-with-environment PRESET=release
	@python3 scripts/tidy.py

docs: setup ## write docs/config.md anew from the field table
	@$(MAKE) --no-print-directory build-with-environment PRESET=release
	LONGSHIP_UPDATE_DOCS=1 build/release/tests/longship_runtime_tests --gtest_filter=FieldsMarkdown.IsTheDocumentation

clean: ## remove the builds (not the installed environments)
	rm -rf build

.PHONY: build-with-environment run-tests run-sanitizer
build-with-environment:
	@$(CMAKE) --preset $(PRESET) >build/configure-$(PRESET).log 2>&1 || \
	  { cat build/configure-$(PRESET).log; exit 1; }
	@$(CMAKE) --build --preset $(PRESET) -j $(JOBS) $(addprefix --target ,$(TARGETS))

run-tests: build-with-environment
	@$(CTEST) --preset $(PRESET) -j $(JOBS)

run-sanitizer: build-with-environment
	@$(CTEST) --preset $(PRESET) -R '$(TESTS)'
