# Everything a developer does here. The only tools needed are Go, git, make and gcc; the rest is built
# from Go modules.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The control plane is built with these flags everywhere, so that the build cache is shared.
SANDBOX_BUILD := CGO_ENABLED=0 go build -trimpath -ldflags "-s -w"
TOOL := go tool -modfile=$(CURDIR)/tools/go.mod
export EVENKEEL_SANDBOX := $(CURDIR)/bin/sandbox

# The packages of the sandbox module that do not contain all of Kubernetes.
SANDBOX_PACKAGES := ./sandbox/... ./internal/await/... ./internal/cli/... ./internal/guard/... ./internal/leftover/... ./internal/packed/...

.PHONY: help
help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: sandbox ## Show the WebPage operator on a control plane of its own; ONCE=1 to do so unattended.
	go build -o bin/demo ./samples/webpage/cmd/demo
	bin/sandbox up -- bin/demo $(if $(filter-out 0,$(ONCE)),-once)

SPEC_TIMES := $(CURDIR)/bin/spec_times.jsonl

# Tests in virtual time and models: with the race detector, which makes them five to ten times as slow,
# and once more without, when they go deeper (internal/depth) and look for changes to cached objects.
TWICE := ./trc ./scheduler ./framework ./framework/external ./framework/interlock ./internal/callbacks ./internal/simulation \
	./framework/plan ./frameworktest ./samples/prefixedpod ./samples/webpage
# What runs only once of these packages: their suites with an API server.
SERVERS := ^(TestFramework|TestPoliciesOnAServer|TestPrefixedPod|TestWebPage|TestOnServer)$$
# Packages without the race detector. An API server and etcd do most of the work of their tests, or
# their tests are about the source tree.
PLAIN := ./internal/clusterstest ./internal/dependenttest ./internal/weathertest ./internal/interlocktest \
	./internal/externaltest ./internal/conditionstest ./internal/behindtest ./internal/lockorder ./internal/mutants \
	./internal/archtest ./internal/tutorial ./internal/figures ./internal/testreport ./cmd/evenkeel
# Tests in virtual time of code that is not ours: without either.
BARE := ./internal/portedtest
# Of all other packages, those that wait long begin first.
WAITING := ./internal/freshnesstest ./internal/apimodel ./internal/testenv

.PHONY: test
test: export EVENKEEL_SPEC_TIMES := $(SPEC_TIMES)
test: sandbox vet ## Run all tests, most with the race detector; docs/tests.md says which.
	go build -o bin/testreport ./internal/testreport
	@rm -f $(SPEC_TIMES)
	TWICE='$(TWICE)' SERVERS='$(SERVERS)' PLAIN='$(PLAIN)' BARE='$(BARE)' WAITING='$(WAITING)' SANDBOX_PACKAGES='$(SANDBOX_PACKAGES)' \
	tools/test | bin/testreport -specs $(SPEC_TIMES) -keep bin/test_seconds

.PHONY: tutorial
tutorial: sandbox ## Follow docs/getting-started.md from an empty folder, with README's commands; TUTORIAL=-v to watch.
	go run ./internal/tutorial $(TUTORIAL)

SOAK ?= 10m

# Each line can be run alone. The first runs with the race detector what make test runs without it.
.PHONY: test-long
test-long: export EVENKEEL_LONG := 1
test-long: sandbox ## Run all with the race detector; models, explorations and histories longer; the freshness tests for SOAK (default 10m); hours.
	EVENKEEL_LONG= go test -race -count=1 -p 3 -timeout 60m $(PLAIN) $(BARE)
	go test -count=1 -timeout 0 -v ./trc ./scheduler
	go test -race -count=1 -timeout 0 -skip '$(SERVERS)' ./framework ./framework/external
	go test -race -count=1 -timeout 0 -run 'RandomHistories|RandomWalks' ./framework/interlock ./frameworktest ./samples/...
	go test -race -count=1 -timeout 0 ./internal/simulation ./internal/actors
	SIMULATION_SEED=$$(date +%s) SIMULATION_SEEDS=5000 go test -count=1 -timeout 0 ./internal/simulation
	go test -race -count=1 -timeout 0 -v -run '^TestWeather$$' ./internal/weathertest -ginkgo.focus='Many objects'
	EVENKEEL_FIGURES=1 go test -race -count=1 -timeout 0 -v -run '^TestInterlock$$' ./internal/interlocktest -ginkgo.timeout=24h
	go test -count=1 -timeout 0 -v -run 'RandomOrders|Mistakes' ./framework/interlock
	GOGC=25 EVENKEEL_FIGURES=1 go test -count=1 -timeout 0 -v -run '^TestG10InEveryOrder$$' ./framework/interlock
	SOAK=$(SOAK) go test -race -count=1 -timeout 0 -v -run '^TestSoak$$' ./internal/freshnesstest

# The modules beside this one and the sandbox.
MODULES := benchmarks frameworktest/cel framework/tracing internal/browsertest controllerruntime

.PHONY: vet
vet:
	go vet ./...
	cd sandbox && go vet $(SANDBOX_PACKAGES)
	for module in $(MODULES); do (cd $$module && go vet ./...) || exit; done

.PHONY: lint
lint: vet ## Check format, static analysis and that everything compiles for macOS.
	@unformatted="$$($(TOOL) gofumpt -l .)"; if [ -n "$$unformatted" ]; then \
		echo "not formatted, run make format:" $$unformatted >&2; exit 1; fi
	$(TOOL) staticcheck ./...
	cd sandbox && $(TOOL) staticcheck $(SANDBOX_PACKAGES)
	for module in $(MODULES); do (cd $$module && $(TOOL) staticcheck ./...) || exit; done
	GOOS=darwin go vet ./...
	cd sandbox && GOOS=darwin go vet $(SANDBOX_PACKAGES)
	for module in $(MODULES); do (cd $$module && GOOS=darwin go vet ./...) || exit; done

.PHONY: format
format: ## Format all Go files.
	$(TOOL) gofumpt -w .

.PHONY: generate
generate: ## Generate deep copies of the samples' API types.
	$(TOOL) controller-gen object paths=./samples/...

.PHONY: manifests
manifests: ## Generate CustomResourceDefinitions and roles of the samples.
	for sample in webpage prefixedpod; do \
		$(TOOL) controller-gen crd paths=./samples/$$sample/api/... output:crd:dir=samples/$$sample/config/crd/bases; \
		$(TOOL) controller-gen rbac:roleName=$$sample-operator paths=./samples/$$sample/... output:rbac:dir=samples/$$sample/config/rbac; \
	done

.PHONY: drift
drift: generate manifests
	@if [ -n "$$(git status --porcelain -- samples)" ]; then \
		git status --short -- samples >&2; git --no-pager diff -- samples >&2; \
		echo "generated files have drifted: run make generate manifests and commit" >&2; exit 1; fi

.PHONY: screenshots
screenshots: ## Take the pictures of docs/images, in a browser that comes from npm.
	@mkdir -p docs/images
	cd internal/browsertest && go test -count=1 -v -run '^TestScreenshots$$' . -screenshots $(CURDIR)/docs/images

.PHONY: bench
bench: ## Run the benchmarks.
	go test -run '^$$' -bench . -benchmem ./...
	cd framework/tracing && go test -run '^$$' -bench . -benchmem ./...
	EVENKEEL_FIGURES=1 go test -count=1 -p 1 -run '^TestFigures$$' -v ./trc ./eventsource
	cd benchmarks && EVENKEEL_FIGURES=1 go test -count=1 -p 1 -run '^TestFigures$$' -v ./queues ./runs ./stores ./events

# What BOARD may be, and what it means for the tests in internal/mutants.
board- := -run '^TestBoard$$' -board
board-fresh := $(board-) -fresh
board-scenarios := -run '^TestScenariosOfTheSamples$$' -scenarios $(addprefix -sample=,$(SAMPLE))

.PHONY: mutants
mutants: sandbox ## Break the library in known ways: every one must be noticed by the tests; BOARD=fresh to use no earlier results, BOARD=scenarios to see what the samples' scenarios notice, with SAMPLE=4 of each fourth.
	go test -count=1 -v -timeout 4h -parallel 2 ./internal/mutants $(or $(board-$(BOARD)),$(error BOARD may be fresh or scenarios, not $(BOARD)))

.PHONY: figures
figures: ## Print the figures of AREA, from what is there and what other commands have kept; AREA=house, testkit, seeing or onramp (minutes).
	@go run ./internal/figures -area "$(AREA)"

.PHONY: bench-compare
bench-compare: sandbox ## Compare with controller-runtime and client-go; COMPARE="-quick" for flags.
	cd benchmarks && go run ./cmd/compare $(COMPARE)
	cd benchmarks && EVENKEEL_FIGURES=1 go test -count=1 -timeout 25m -p 1 -run '^TestFigures$$' -v ./workflows ./interlocks

.PHONY: sandbox
sandbox: ## Build bin/sandbox: etcd, Kubernetes and simulated nodes in one program.
	@mkdir -p bin
	@if [ ! -x bin/sandbox ]; then echo "building the control plane from source; the first time takes some minutes"; fi
	cd sandbox && $(SANDBOX_BUILD) -o ../bin/sandbox .
