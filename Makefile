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
PARALLEL = -p $(shell expr $(CPUS) \* 3 / 2) -parallel $(shell expr $(CPUS) \* 2)
LONGEST = ./cmd/understudy ./admin ./admin/redisstore ./authz/evidence

.PHONY: help build demo recording test test-envoy test-proxies test-browser test-clients test-bench test-module race race-rest lint module generate fuzz fuzz-inputs nightly soak bench release-check snapshot test-release release clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build bin/understudy
	go build -trimpath -ldflags '$(LDFLAGS)' -o bin/understudy ./cmd/understudy

demo: build ## See the whole of it in ten seconds
	@bin/understudy demo

recording: build ## Record the demo anew for the README; needs script of util-linux
	script -qec 'bin/understudy demo --fast' /dev/null | go run ./cmd/docs 'make demo' >bin/demo.svg
	mv bin/demo.svg cmd/docs/demo.svg

test: ## Run the tests; installs redis-server if it is missing
	@.ci/need redis-server
	go test $(PARALLEL) ./cmd/docs $(LONGEST) ./...
	go -C deploy/check test ./...
	go -C cmd/modulepath test ./...

test-envoy: build ## Run the shipped Envoy files with a real Envoy; says how to get one
	@.ci/need redis-server
	@ENVOY=$$(.ci/envoy) && export ENVOY UNDERSTUDY=$(CURDIR)/bin/understudy && go test -tags realenvoy -count=1 ./envoy/e2e && \
		go -C cmd/authzbench test -tags realenvoy -count=1 -run ThroughEnvoy .

test-proxies: build ## Run the shipped files of nginx and Caddy; installs both if they are missing
	@.ci/need nginx caddy
	UNDERSTUDY=$(CURDIR)/bin/understudy go test -count=1 -tags realproxies ./deploy/forward-auth

test-browser: build ## Run the page in a headless Chromium; installs it if it is missing
	@.ci/need redis-server chromium
	@AXE=$$(.ci/axe) && export AXE && UNDERSTUDY=$(CURDIR)/bin/understudy SCREENSHOTS=$(CURDIR)/bin/screenshots \
		go -C admin/ui/browsertest test -count=1 .

test-clients: build ## Run a policy's life with generated clients; says how to get what is missing
	@.ci/clients/run

test-bench: build ## Test that the benchmark measures what it says
	UNDERSTUDY=$(CURDIR)/bin/understudy go -C cmd/authzbench test ./...

race: ## Run the tests under the race detector, with fewer random cases; PACKAGES=... for some
	@.ci/need redis-server cc
	@.ci/race $(PACKAGES)

race-rest: # what `make race` has not run of the packages in a file, RACED
	@go list ./... | grep -vxFf $(RACED) | xargs -r .ci/race

fuzz-inputs: ## Run every fuzz target for 300 inputs
	@.ci/fuzz 300x

nightly: race fuzz-inputs test-proxies test-browser test-bench test-module test-release ## Run what a change does not wait for; takes longer than the gate

lint: ## Run the linters: of Go, and of the API (api-linter)
	go vet ./...
	go vet -tags realenvoy ./envoy/e2e
	go vet -tags realproxies ./deploy/forward-auth
	$(TOOL) golangci-lint run ./...
	go -C cmd/protogen run . -descriptors bin/admin.binpb ../..
	go -C cmd/protogen tool api-linter --set-exit-status --skip-compilation \
		--descriptor-set-in ../../bin/admin.binpb understudy/admin/v1/admin.proto

module: ## Give the Go module the path of its home: MODULE=example.com/you/understudy
	go -C cmd/modulepath run . ../.. $(MODULE)
	$(MAKE) generate

test-module: ## Build every module of a copy under another path
	go -C cmd/modulepath test -tags wholebuild -count=1 -timeout 60m -run EveryModule .

generate: ## Generate admin/v1 and the other v1 folders anew from their protos
	go -C cmd/protogen run . ../..

fuzz: ## Run every fuzz target for a while (FUZZTIME=10s)
	@.ci/fuzz $(or $(FUZZTIME),10s)

soak: ## Compare random policies with OPA's decisions for a long while (SOAK=1h)
	go test ./rego -run '^TestTheEvaluatorIsRego$$' -count=1 -timeout 0 -v -soak $(or $(SOAK),1h)

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
