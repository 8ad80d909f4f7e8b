# Chapar. `make demo` shows it, `make test` checks everything that CI checks.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo demo-cluster build release dist install uninstall deb image test verify-long lint format bench man docs sbom notices deps test-deps clean

SOURCES := Package.swift Sources Plugins Tests Examples $(wildcard Benchmarks)
CHAPAR := .build/debug/chapar
# What `chapar --version` names: for releases only, since another environment has every manifest read anew.
COMMIT = $(shell git describe --always --dirty --abbrev=12 --exclude='*' 2> /dev/null)
# CI builds without debug information, which saves a sixth of its time; scripts that build after it take the same flags.
export BUILD_FLAGS ?=
PREFIX ?= /usr/local
# The linker leaves symbols and debug information away, which are more than half of the program. `make release STRIP=` keeps them, for profilers.
STRIP ?= -Xlinker -s

help:  ## What can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 12

demo: build  ## See it work: simulators, a gateway, messages, outcomes, a dashboard (no account needed)
	@$(CHAPAR) demo

demo-cluster: build  ## Three gateways on one PostgreSQL database behind a balancer, one of them killed in view
	@./.ci/packages postgresql postgresql-client nginx-light curl python3
	@CHAPAR=$(CHAPAR) ./Examples/Cluster/demo

build: deps  ## Build for development
	@[ -d .build/debug ] || echo "First build: about nine minutes on two cores, later ones take seconds."
	./.ci/swift build --product chapar

release: deps  ## Build for use, with the Swift runtime in it: .build/release/chapar
	@[ -d .build/release ] || echo "First release build: about thirteen minutes on two cores."
	CHAPAR_COMMIT=$(COMMIT) ./.ci/swift build -c release --product chapar --static-swift-stdlib --disable-local-rpath $(STRIP)

install:  ## Copy program, manual, completions, examples to $(PREFIX), as root: /usr/local; or into a tree, DESTDIR
	@[ -x .build/release/chapar ] || { echo "First: make release"; exit 1; }
	PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) ./deploy/install .build/release/chapar

uninstall:  ## Take away what `make install` copied
	PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) ./deploy/install --remove

image: release  ## Make an OCI image, without a daemon: .build/chapar-image.tar
	@./.ci/packages binutils ca-certificates tzdata python3
	./deploy/make-oci .build/release/chapar .build/chapar-image

deb: release  ## Make a Debian package: .build/chapar_…_….deb
	@./.ci/packages dpkg-dev binutils
	./deploy/make-deb .build/release/chapar .build

dist: release  ## Write what a release consists of into .build/dist: archive, package, image, bill of materials, notes, checksums
	@./.ci/packages dpkg-dev binutils ca-certificates tzdata python3
	./deploy/make-dist .build/release/chapar .build/dist

lint:  ## Check the form of the code
	swift format lint --strict --recursive $(SOURCES)

format:  ## Bring the code into form
	swift format -i --recursive $(SOURCES)

test: test-deps lint  ## Everything that CI checks
	@[ -d .build/debug ] || echo "First build with tests: more than ten minutes on two cores."
	./.ci/swift build --build-tests $(BUILD_FLAGS)
	./.ci/checks

verify-long:  ## What takes too long for CI: faults put back, each plugin deleted, kills, fuzzing, sanitizers, soak (see .ci/verify-long)
	./.ci/verify-long $(PARTS)

bench: release  ## How fast this machine is: accepts and deliveries per second through the whole gateway
	.build/release/chapar bench

man: build  ## Write the manual pages into .build/man
	$(CHAPAR) manual --dir .build/man

docs: test-deps  ## Build the documentation into .build/docs, without warnings
	./.ci/docs

sbom:  ## Write what the build consists of into .build/chapar.spdx.json (SPDX 2.3)
	./.ci/licences --sbom .build/chapar.spdx.json

notices:  ## Write the licences and notices of what is built in into .build/NOTICES.txt
	./.ci/licences --notices .build/NOTICES.txt

deps:  ## Install the system libraries that the program links, where they are missing
	@./.ci/packages libsqlite3-dev libnghttp2-dev libjemalloc-dev libpq-dev

test-deps:  ## Install what the tests use besides, where it is missing
	@./.ci/packages libsqlite3-dev libnghttp2-dev libjemalloc-dev libpq-dev postgresql pkg-config nghttp2-server nghttp2-client nginx-light h2o curl python3-venv jq sqlite3 dpkg-dev binutils systemd groff-base
	@./.ci/packages chromium chromium-driver openssl || echo "No Chromium: the dashboard is not looked at in a browser."
	@./.ci/packages openjdk-17-jdk-headless libgoogle-gson-java libokhttp-java libokio-java libjsr305-java libgeronimo-annotation-1.3-spec-java || echo "No Java: no client is generated in it."
	@./.ci/packages pgbouncer || echo "No PgBouncer: the PostgreSQL store is not tested behind one."
	@./.ci/python
	@./.ci/promtool

clean:  ## Remove everything that was built
	rm -rf .build .venv
