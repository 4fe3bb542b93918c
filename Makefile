# The two commands of the README are "make run" and "make test". The others are for those who work on rouse.

GO ?= go

# Without the paths of this directory in it, what another clone has compiled is used from Go's cache.
export GOFLAGS := $(GOFLAGS) -trimpath

.PHONY: run
run: ## serve with no configuration, on loopback, data in ./rouse-data
	$(GO) run ./cmd/rouse serve

.PHONY: build
build: ## bin/rouse, one static binary, without tables for debuggers, and with its version
	CGO_ENABLED=0 $(GO) build $(STRIPPED) -o bin/rouse ./cmd/rouse

# What the binaries of users are built with; git tells which version it is. Without its traces, gRPC links no templates:
# a template calls methods by names that are known at run time only, so that the linker keeps all of them.
VERSION = $(shell git describe --tags --always --dirty 2>/dev/null)
STRIPPED = -trimpath -tags grpcnotrace -ldflags="-s -w -X main.release=$(VERSION)"

.PHONY: sizes
sizes: build ## how large binaries are: rouse, a program with the client alone, one with its own timers in Pebble
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags="-s -w" -o bin/sizes/ ./examples/callworker ./examples/embed
	scripts/check-sizes bin/rouse 55 bin/sizes/callworker 13 bin/sizes/embed 21

.PHONY: console
console: ## internal/console/dist, the files of the web console, from its sources; needs Node
	cd internal/console && npm ci --silent && npm run --silent build && npm --silent test

.PHONY: audit
audit: build ## bin/rouse.spdx.json, what rouse links and under which licences; known vulnerabilities, if their database can be reached
	$(GO) -C tools run ./sbom -dir .. -binary ../bin/rouse > bin/rouse.spdx.json
	@if curl -sf --max-time 10 -o bin/vulndb.json https://vuln.go.dev/index/db.json; then $(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...; \
	else echo "known vulnerabilities are not checked: https://vuln.go.dev cannot be reached"; fi

# The race detector watches all code but that of SQLite: translated from C, with its data in memory of its own, it shares
# nothing with ours. With the detector, the tests of store/sqlite took four times as long.
RACE = -race -gcflags=modernc.org/...=-race=false

# The packages whose tests take longest, which start first: those that wait most, then those that compute.
LONGEST = ./internal/engine ./node ./store/front ./store/postgres ./store/pebble ./internal/timers ./store/redis ./transact \
	./internal/pool/amqp ./internal/migrate ./store/sqlite ./internal/relay ./internal/claim/kubelease ./internal/backup \
	./examples/poolworker ./internal/queue/... ./node/api ./schedule
# What the tests of these drive is the real binary, in processes of its own, or a browser. Those of cmd/rouse run commands and
# nodes whose packages the detector watches in their own tests, and those of the root read all code and are pure: with it, they
# took six and twenty times as long.
BINARY = ./test/console ./docs ./cmd/rouse ./test/crash . ./test/conformance ./test/matrix
OTHERS = $$($(GO) list ./... | grep -v -E '(^[^/]*/[^/]*/[^/]*|/(bench|cmd/rouse|docs|test/(cluster|conformance|console|crash|matrix)))$$')

# All code was vetted before. Tests with real servers wait a lot: four packages at a time keep two cores busy. Nodes that
# are judged for duplicates need their leases renewed in time: less runs next to test/cluster. ROUSE_LONG=1 repeats more.
.PHONY: test
test: about servers format vet cross generated ## everything that must hold: format, vet, staticcheck, generated code, all tests; those of packages with the race detector
	$(GO) -C tools build -o ../bin/testrun ./testrun
	@bin/testrun -go $(GO) -- "-vet=off $(RACE) -p=4 -timeout=20m $(LONGEST) $(OTHERS)" "-vet=off -p=3 -timeout=20m $(BINARY)" \
		"-vet=off -p=2 -timeout=20m ./test/cluster ./bench" "-C=tools -vet=off ./..."

.PHONY: about
about:
	@echo "make test: installs the servers that tests use, if they are missing, vets all code, builds what is tested, and runs all tests."
	@echo "It takes about 25 minutes on two cores, more on busy ones. A test that fails is run once more at the end, and listed."

.PHONY: servers
servers: ## what tests use: PostgreSQL, Redis, RabbitMQ, NATS, PgBouncer, Prometheus, and what clients are built with; installed if they are missing
	@scripts/install-servers

.PHONY: format
format:
	@echo "gofmt of all files"
	@bad=$$(git ls-files '*.go' | grep -v '\.pb\.go$$' | xargs gofmt -l); if [ -n "$$bad" ]; then echo "gofmt would change:"; echo "$$bad"; exit 1; fi

.PHONY: vet
vet:
	$(GO) vet ./...
	$(GO) -C tools vet ./...
	$(GO) -C bench/peers vet ./...
	$(GO) -C tools build -o ../bin/staticcheck honnef.co/go/tools/cmd/staticcheck
	bin/staticcheck ./...

# The other systems that rouse runs on.
SYSTEMS = darwin/arm64 windows/amd64 freebsd/amd64 linux/arm64

.PHONY: cross
cross: ## all packages type-check on the other systems
	$(GO) -C tools run ./crosscheck -dir .. $(SYSTEMS)

.PHONY: build-systems
build-systems: ## bin/SYSTEM/rouse for each of the other systems (two minutes and more of both cores for each)
	for s in $(SYSTEMS); do CGO_ENABLED=0 GOOS=$${s%/*} GOARCH=$${s#*/} $(GO) build $(STRIPPED) -o bin/$$s/ ./cmd/rouse || exit 1; done

.PHONY: generate
generate: ## Go code from the proto sources and the structs of specs; api/openapi.yaml; definitions for Kubernetes; types of clients/; docs/cli.md, the tables of docs/configuration.md, llms.txt
	$(GO) -C tools run ./protogen -root ..
	$(GO) -C tools run ./formgen -root ..
	ROUSE_UPDATE=1 $(GO) test -count=1 -run '^TestOpenAPI$$' ./internal/server
	ROUSE_UPDATE=1 $(GO) test -count=1 -run '^TestDefinitions$$' ./internal/controller
	if python=$$(scripts/python-venv); then $$python/bin/python clients/generate.py; fi
	ROUSE_UPDATE=1 $(GO) test -count=1 -run '^Test(Commands|Settings)AreDocumented$$' ./cmd/rouse
	ROUSE_UPDATE=1 $(GO) test -count=1 -run '^TestPagesAreListed$$' .

.PHONY: generated
generated: ## what is generated and committed is what its sources give
	$(GO) -C tools run ./protogen -root .. -check
	$(GO) -C tools run ./formgen -root .. -check
	$(GO) test -vet=off -run '^TestOpenAPI$$|^TestDefinitions$$|^Test(Commands|Settings)AreDocumented$$' ./internal/server ./internal/controller ./cmd/rouse

.PHONY: release
release: ## dist, all files of a release, for six platforms (some minutes for each); nothing is published
	$(GO) -C tools run ./release -root .. -version '$(VERSION)' -out dist -- $(STRIPPED)

.PHONY: release-check
release-check: ## the files in dist, built again from a clone in another directory with an empty cache, have the same bytes
	ROUSE_RELEASE=$(CURDIR)/dist $(GO) -C tools test -count=1 -timeout 0 -v -run '^TestTheReleaseIsReproducible$$' ./release -args $(STRIPPED)

.PHONY: compat
compat: ## packaging/compat, what the next release promises its users, and stores that it wrote: run it at a release, docs/compatibility.md
	ROUSE_COMPAT=1 $(GO) test -count=1 -run '^TestReleasesStayCompatible$$|^TestStoresOfTheLastRelease$$' ./cmd/rouse

.PHONY: dapr
dapr: ## Dapr's own sidecar and what goes with it, built as tools (ten minutes and more, and some GB of cache), and this rouse beside them
	$(GO) -C tools/dapr build -ldflags=-w -tags stablecomponents -o ../../bin/dapr/ github.com/dapr/dapr/cmd/daprd github.com/dapr/dapr/cmd/placement \
		github.com/dapr/dapr/cmd/sentry github.com/dapr/dapr/cmd/scheduler ./flow ./standin
	$(GO) -C tools/dapr test -c -ldflags=-w -o ../../bin/dapr/suite.test .
	CGO_ENABLED=0 $(GO) build -o bin/dapr/rouse ./cmd/rouse

.PHONY: test-dapr
test-dapr: dapr ## Dapr's own sidecar against this rouse: jobs, actors and workflows, with kills in between
	DAPR_PROGRAMS=$(CURDIR)/bin/dapr $(GO) test -count=1 -v ./test/dapr

.PHONY: test-dapr-suite
test-dapr-suite: dapr ## Dapr's own integration tests of its scheduler, with this rouse in its place (an hour); FOCUS names cases
	DAPR_PROGRAMS=$(CURDIR)/bin/dapr DAPR_SUITE=1 $(GO) test -count=1 -v -timeout 120m -run Suite ./test/dapr

.PHONY: clients-check
clients-check: ## clients that generators make of api/openapi.yaml compile, and do what they should (two minutes, and more for the first time)
	ROUSE_GENERATED=1 $(GO) test -count=1 -v -run '^TestGeneratedClients$$' ./test/conformance

.PHONY: test-postgres
test-postgres: ## the contract of stores on PostgreSQL 13 to 18, fetched by Maven; POSTGRES=DIR is another server's directory with initdb
	dirs=$${POSTGRES:-$$(scripts/postgres-versions)} && for dir in $$dirs; do \
		$$dir/postgres --version && ROUSE_POSTGRES=$$dir $(GO) test -count=1 -run Contract ./store/postgres || exit 1; done

.PHONY: kube
kube: ## the API server of Kubernetes, its controllers and its etcd, built as tools (ten minutes and more, and some GB of cache)
	cd tools/kube && version=$$($(GO) list -m -f '{{.Version}}' k8s.io/kubernetes) && \
		$(GO) build -ldflags="-s -X k8s.io/component-base/version.gitVersion=$$version" -o ../../bin/ k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager && \
		$(GO) build -ldflags=-s -o ../../bin/etcd go.etcd.io/etcd/server/v3

.PHONY: helm
helm: ## Helm, built as a tool (some minutes)
	cd tools/helm && $(GO) build -ldflags=-s -o ../../bin/helm helm.sh/helm/v4/cmd/helm

.PHONY: test-chart
test-chart: helm ## the chart is linted and rendered by Helm, and its settings are checked by rouse
	ROUSE_HELM=$(CURDIR)/bin/helm $(GO) -C tools test -count=1 -v -run '^TestTheChart$$' ./release

.PHONY: test-kubernetes
test-kubernetes: kube helm ## the election of leaders, the driver of pools, the controller and the chart, with a real API server
	ROUSE_HELM=$(CURDIR)/bin/helm ROUSE_KUBE_APISERVER=$(CURDIR)/bin/kube-apiserver ROUSE_KUBE_CONTROLLERS=$(CURDIR)/bin/kube-controller-manager ROUSE_ETCD=$(CURDIR)/bin/etcd \
		$(GO) test -count=1 -run Kubernetes ./internal/claim/kubelease ./internal/pool/driver/kubernetes ./internal/controller

.PHONY: bench
bench: build ## every scenario of rouse bench, one after another
	for s in create-batch create-single pipeline burst webhook lag pending dapr reminders wheel idle; do bin/rouse bench $$s; done

.PHONY: bench-shared
bench-shared: build ## the same on PostgreSQL and Redis: each strategy, 1 and 3 nodes
	for store in postgres redis; do for strategy in bucket lease tick; do for nodes in 1 3; do \
		for s in create-batch create-single pipeline burst lag idle; do \
			bin/rouse bench $$s --store $$store --strategy $$strategy --nodes $$nodes; done; done; \
		bin/rouse bench failover --store $$store --strategy $$strategy; done; done

.PHONY: bench-peers
bench-peers: build ## River on PostgreSQL and asynq on Redis, and rouse on the same work beside them
	for store in postgres redis; do bin/rouse bench create-batch --store $$store; bin/rouse bench pipeline --store $$store; \
		bin/rouse bench lag --rate 1000 --store $$store; done
	$(GO) -C bench/peers run .

.PHONY: test-peers
test-peers: servers ## River and asynq work every job of the bench; what they keep for later is exported as docs/moving-in.md has it, and imported
	$(GO) -C bench/peers test -count=1 ./...

.PHONY: fuzz
fuzz: ## each fuzz target for a while: make fuzz FUZZTIME=10m
	@for p in $$($(GO) list ./...); do for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
		echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $${FUZZTIME:-30s} $$p || exit 1; done; done

.PHONY: oracles
oracles: ## asks the libraries that dialects are named after again, and shows what changed: make oracles ONLY=spring
	$(GO) -C tools run ./oracles $(ONLY)
	git diff --stat schedule/testdata/oracles

.PHONY: lint
lint: ## golangci-lint, with .golangci.yaml: what is off there has its reason (some minutes, and more for the first time)
	$(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0 run --timeout 1h ./...

.PHONY: measure
measure: ## prints how large the code is, and how well its parts can be found and changed
	$(GO) -C tools run ./measure ..

.PHONY: attack
attack: build servers ## the tests of all threats in docs/security.md, in full, and fuzzing of their packages: make attack ONLY=node FUZZTIME=1m
	scripts/attack $(ONLY)

.PHONY: soak
soak: build ## the crash loops for longer: make soak ROUNDS=200
	ROUSE_ROUNDS=$${ROUNDS:-100} $(GO) test -count 1 -timeout 0 -run 'CrashKill9|PowerCut' ./test/crash

.PHONY: soak-matrix
soak-matrix: ## random sequences of what clients ask, other ones each time: make soak-matrix CHECKS=100000
	$(GO) test -count 1 -timeout 0 ./test/matrix -run 'TestVerbs|TestSequences' -rapid.checks $${CHECKS:-20000} -rapid.seed $$(date +%s)

.PHONY: soak-pools
soak-pools: ## pools on RabbitMQ whose workers, managers, connections and broker are ended by chance: make soak-pools MINUTES=10
	ROUSE_MINUTES=$${MINUTES:-5} $(GO) test -count 1 -timeout 0 -v -run TestSoak ./internal/pool/amqp

.PHONY: soak-cluster
soak-cluster: build ## several nodes on one store and all that can go wrong between them, for longer: make soak-cluster ROUNDS=10 MINUTES=10
	ROUSE_ROUNDS=$${ROUNDS:-5} ROUSE_MINUTES=$${MINUTES:-10} $(GO) test -count 1 -timeout 0 ./test/cluster

.PHONY: findings
findings: ## what surprised us about libraries and servers of others is still so; needs package registries (some minutes)
	@failed=0; for f in findings/*.sh; do log=$$(mktemp); code=0; $$f >$$log 2>&1 || code=$$?; \
		case $$code in 0) echo "ok       $$f";; 1) echo "changed  $$f";; *) echo "not run  $$f";; esac; \
		if [ $$code -ne 0 ]; then sed 's/^/         /' $$log; failed=1; fi; rm -f $$log; done; exit $$failed
