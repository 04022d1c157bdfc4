# Two commands for a fresh Debian or Ubuntu machine:
#   make run    installs what is missing (after saying so), builds, and runs the main job
#   make test   the same for every check and test of the project
# Others: make build, make setup, make clean-docker.

CARGO ?= cargo
ARGS  ?= --nemesis pause

# rustup puts cargo here, also where the login shell does not know yet.
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: run test build setup clean-docker

# A violation is exit code 1, which make calls an error; it is what this job is for.
run: build
	@./target/release/redjepsen run $(ARGS); code=$$?; \
	if [ $$code -eq 1 ]; then echo "  (exit code 1: a violation was found, as this job is meant to; make calls that an error)"; fi; \
	exit $$code

build: setup
	$(CARGO) build --release --locked

setup:
	@./docker/setup

# The test runner comes last, so that its own closing line ends the output.
test:
	@./docker/setup test
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" $(CARGO) doc --locked --no-deps --quiet
	$(CARGO) test --locked --doc --quiet
	@if $(CARGO) nextest --version >/dev/null 2>&1; then \
	  echo "$(CARGO) nextest run --locked"; $(CARGO) nextest run --locked; \
	else \
	  echo "$(CARGO) test --locked"; $(CARGO) test --locked --lib --bins --tests; \
	fi

clean-docker: build
	./target/release/redjepsen clean --images
