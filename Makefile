# What one does with this repository. Everything needs Go and nothing else, unless
# it says so.

# It would be the shell's, too, and no program be found.
ifeq ($(origin PATH),command line)
$(error PATH is where the shell finds programs: say MODULE=$(PATH))
endif

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS = -s -w -X main.version=$(VERSION)
TOOL    = go tool -modfile=.ci/tools/go.mod
RELEASER = go tool -modfile=.ci/release/go.mod goreleaser
# Tests wait for servers and processes more than they compute, so more of them run at a time than
# there are processors, and those packages begin first that take longest.
CPUS    = $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
PARALLEL = -p $(CPUS) -parallel $(shell expr $(CPUS) \* 3 / 2)
# To link without what debuggers need takes a third less, and there are eighty tests to link. The
# linters have go vet. The longest package takes 90 s on a quiet machine, and on one that was six times slower it took
# 15 minutes.
GOTEST  = go test -timeout 60m -ldflags=-s -vet=off
LONGEST = ./cmd/docs ./cmd/understudy/... ./admin ./admin/redisstore ./authz/rehearsal/supervisor

.PHONY: help build demo recording test test-whole test-deploy test-envoy test-proxies test-browser test-clients test-bench test-module race lint lint-api module dashboard generate nightly fuzz soak bench release-check snapshot test-release release clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build bin/understudy; with an empty cache of Go it takes minutes, and prints each package
	go build -v -trimpath -ldflags '$(LDFLAGS)' -o bin/understudy ./cmd/understudy

demo: build ## See the whole of it in ten seconds
	@bin/understudy demo

recording: build ## Record the demo anew for the README; needs script of util-linux
	script -qec 'bin/understudy demo --fast' /dev/null | go run ./cmd/docs 'make demo' >bin/demo.svg
	mv bin/demo.svg cmd/docs/demo.svg

test: ## Run the tests, with a part of the random cases; installs redis-server if it is missing
	@.ci/need redis-server
	@go -C cmd/authzbench build -o /dev/null . # a document builds it, in the time of one command
	$(GOTEST) -short $(PARALLEL) $(LONGEST) ./...

test-whole: ## Run the tests with all random cases, and long scenarios with processes
	@.ci/need redis-server
	$(GOTEST) -tags nightly $(PARALLEL) $(LONGEST) ./...

test-deploy: build ## Check the shipped files for Kubernetes, Istio, Prometheus and Grafana
	@.ci/need redis-server
	UNDERSTUDY=$(CURDIR)/bin/understudy go -C deploy/check test -timeout 15m -count=1 ./...
	go -C deploy/dashboard test -timeout 15m -count=1 ./...

test-envoy: build ## Run the shipped Envoy files with a real Envoy; says how to get one
	@.ci/need redis-server
	@ENVOY=$$(.ci/envoy) && export ENVOY UNDERSTUDY=$(CURDIR)/bin/understudy && $(GOTEST) -tags realenvoy -count=1 ./envoy/e2e && \
		go -C cmd/authzbench test -timeout 15m -tags realenvoy -count=1 -run ThroughEnvoy .

test-proxies: build ## Run the shipped files of nginx and Caddy; installs both if they are missing
	@.ci/need nginx caddy
	UNDERSTUDY=$(CURDIR)/bin/understudy $(GOTEST) -count=1 -tags realproxies ./deploy/forward-auth

test-browser: build ## Run the page in a headless Chromium; installs it if it is missing
	@.ci/need redis-server chromium
	@AXE=$$(.ci/axe) && export AXE && UNDERSTUDY=$(CURDIR)/bin/understudy SCREENSHOTS=$(CURDIR)/bin/screenshots \
		go -C admin/ui/browsertest test -timeout 15m -count=1 .

test-clients: build ## Run a policy's life with generated clients; says how to get what is missing
	@.ci/clients/run

test-bench: build ## Test that the benchmark measures what it says
	UNDERSTUDY=$(CURDIR)/bin/understudy go -C cmd/authzbench test -timeout 15m -count=1 ./...

race: ## Run the tests under the race detector; PACKAGES=... for some
	@.ci/race $(or $(PACKAGES),all)

lint: ## Run the linters, go vet among them, over all files but those of other systems
	$(TOOL) golangci-lint run ./...

lint-api: ## Run the linter of the API over its proto
	go -C cmd/protogen run . -descriptors bin/admin.binpb ../..
	go -C cmd/protogen tool api-linter --set-exit-status --skip-compilation \
		--descriptor-set-in ../../bin/admin.binpb understudy/admin/v1/admin.proto

module: ## Give the Go module the path of its home: MODULE=example.com/you/understudy
	go -C cmd/modulepath run . ../.. $(MODULE)
	$(MAKE) generate

test-module: ## Build every module of a copy under another path
	go -C cmd/modulepath test -tags wholebuild -count=1 -timeout 15m -run EveryModule .

dashboard: ## Make the dashboard for Grafana and its picture again
	cd deploy/dashboard && go run .

generate: ## Generate admin/v1 and the other v1 folders anew from their protos
	go -C cmd/protogen run . ../..

nightly: ## Run all that the gate leaves out, in 90 minutes, with a line for each part
	@.ci/nightly

fuzz: ## Run every fuzz target for a while (FUZZTIME=10s)
	@.ci/fuzz $(or $(FUZZTIME),10s)

soak: ## Compare random policies with OPA's decisions for a long while (SOAK=1h)
	go test ./rego -run '^(TestTheEvaluatorIsRego|TestTheEvaluatorCostsNoMoreThanOPA|TestLargeValuesCostNoMoreThanWithOPA)$$' -count=1 -timeout 0 -v -soak $(or $(SOAK),1h)

bench: ## Measure the cost of a check, in two minutes; BENCH='--policy rbac' for less
	@go -C cmd/authzbench build -o ../../bin/authzbench .
	@bin/authzbench run --rounds 3 --duration 800ms --prime 1s --markdown bin/bench.md $(BENCH)
	@cat bin/bench.md

release-check: ## Check how releases are made
	$(RELEASER) check

snapshot: release-check ## Make all packages of a release here, without signatures, and try those for this machine
	$(RELEASER) release --snapshot --clean --skip=sign,sbom
	@.ci/release/try

test-release: release-check ## Make a whole release here, signed with a key made for it, and try it; builds syft and cosign
	@.ci/release/tools syft cosign
	@.ci/release/signed $(RELEASER) release --snapshot --clean
	@.ci/release/try

release: ## Make a draft of a release for the tag that is checked out; only a pipeline can sign it
	@.ci/release/tools syft cosign
	PATH="$(CURDIR)/bin/tools:$$PATH" $(RELEASER) release --clean

clean: ## Remove what was built
	rm -rf bin dist
