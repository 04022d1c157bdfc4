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

# What needs namespaces or a server, and so is not among the tests of `make check`.
NEED_MORE = --skip faults::network::tests:: --skip faults::clock::tests::redis::

.PHONY: run check test lint build setup clean-docker

# The job is done when a verdict was reached, whichever: that is what the program's exit codes 0, 1 and 2 say.
run: SETUP = run
run: build
	@./target/release/redjepsen run $(CLUSTER) $(ARGS); code=$$?; \
	if [ $$code -gt 2 ]; then exit $$code; fi

build: setup
	$(CARGO) build --release --locked

setup:
	@./docker/setup $(SETUP)

lint:
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path $(CLIENTS) --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

check: lint
	$(CARGO) test --locked --workspace --no-fail-fast --lib --test offline --test all -- $(NEED_MORE)

# The test runner comes last, so that its own closing line ends the output. Only the crates have examples in their comments.
# Tests of clusters take turns by themselves (tests/clusters/turns.rs), and nothing runs beside them: even an idle-class process on the
# other half of a core makes their members late. A failing program does not keep the others from running.
test:
	@./docker/setup test
	@$(MAKE) --no-print-directory lint
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" $(CARGO) doc --locked --workspace --no-deps --quiet
	$(CARGO) clippy --locked --manifest-path $(CLIENTS) --target-dir target/clients --workspace --all-targets --quiet -- -D warnings
	$(CARGO) test --locked --workspace --doc --quiet
	$(CARGO) test --locked --workspace --no-fail-fast --tests

clean-docker: build
	./target/release/redjepsen clean --images
