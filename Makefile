# Two commands for a fresh Debian or Ubuntu machine:
#   make run    installs what is missing (after saying so), builds, and runs the main job
#   make test   the same for every check and test of the project
# And one for whoever changes it:
#   make check  format, lints, and the tests that need no engine, no root and no network; under a minute once it is built
# Others: make build, make setup, make clean-docker.

CARGO ?= cargo
ARGS  ?= --nemesis pause

# What the main job runs on unless ARGS says: Docker, else the machine's own Redis, else a simulation, which says so.
CLUSTER = $(if $(findstring --cluster,$(ARGS)),,--cluster any)

# Clients of published crates: a workspace of its own, since they are installed by those who test these.
CLIENTS = workloads/clients/rust/Cargo.toml

# rustup puts cargo here, also where the login shell does not know yet.
export PATH := $(PATH):$(HOME)/.cargo/bin

# Not among the tests of `make check`, as .config/nextest.toml has it for the other test runner.
NEED_MORE = --skip faults::network::tests:: --skip faults::clock::tests::redis::

.PHONY: run check test lint build setup clean-docker

# A violation is exit code 1, which make calls an error; it is what this job is for.
run: SETUP = run
run: build
	@./target/release/redjepsen run $(CLUSTER) $(ARGS); code=$$?; \
	if [ $$code -eq 1 ]; then echo "  (exit code 1: a violation was found, as this job is meant to; make calls that an error)"; fi; \
	exit $$code

build: setup
	$(CARGO) build --release --locked

setup:
	@./docker/setup $(SETUP)

lint:
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path $(CLIENTS) --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

check: lint
	@if $(CARGO) nextest --version >/dev/null 2>&1; then set -x; \
	  $(CARGO) nextest run --locked --workspace --profile check --lib --test offline --test all; \
	else set -x; \
	  $(CARGO) test --locked --workspace --lib --test offline --test all -- $(NEED_MORE); \
	fi

# The test runner comes last, so that its own closing line ends the output. Only the crates have examples in their
# comments. Tests of clusters wait more than they work, so there is one more of them at a time than there are cores;
# Cargo's own runner knows nothing of those that have to take turns, so there all of them do.
test:
	@./docker/setup test
	@$(MAKE) --no-print-directory lint
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" $(CARGO) doc --locked --workspace --no-deps --quiet
	$(CARGO) clippy --locked --manifest-path $(CLIENTS) --target-dir target/clients --workspace --all-targets --quiet -- -D warnings
	$(CARGO) test --locked --package linearizability --package redlock-model --package simulated-redis --doc --quiet
	@if $(CARGO) nextest --version >/dev/null 2>&1; then set -x; \
	  $(CARGO) nextest run --locked --workspace --test-threads $$(($$(nproc) + 1)); \
	else set -x; \
	  $(CARGO) test --locked --workspace --lib --test offline --test all --test real && \
	  $(CARGO) test --locked --test clusters -- --test-threads 1; \
	fi

clean-docker: build
	./target/release/redjepsen clean --images
