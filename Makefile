# Every command of the project. `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
# One set of flags for building and testing: two sets share no build cache.
export CGO_ENABLED := 0

GOFUMPT := $(GO) run mvdan.cc/gofumpt@v0.12.0
STATICCHECK := $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := $(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0
TEMPL = $(GO) run github.com/a-h/templ/cmd/templ@$(shell $(GO) list -m -f '{{.Version}}' github.com/a-h/templ)

# Packages whose goroutines meet: these run under the race detector too.
RACE := ./events/... ./projections ./gateway/... ./views ./cmd/internal/daemon ./cmd/internal/feed ./cmd/internal/telemetry

## Use it

.PHONY: help
help: ## list these commands
	@awk '/^## /{printf "\n%s\n", substr($$0, 4)} /^[a-z-]+:.*## /{split($$0, p, ":.*## "); printf "  make %-10s %s\n", p[1], p[2]}' $(MAKEFILE_LIST)

.PHONY: run
run: ## serve, with no configuration and no key (Ctrl-C stops it)
	@$(GO) build -o bin/icyloom-run ./cmd/icyloom && exec bin/icyloom-run serve

.PHONY: demo
demo: ## show a living console: invented upstream, past and traffic
	@$(GO) build -o bin/icyloom-run ./cmd/icyloom && exec bin/icyloom-run demo

.PHONY: build
build: ## build the static binary into bin/
	@$(GO) build -ldflags '-s -w -X github.com/icyloom/icyloom/cmd/internal/build.version=$(VERSION)' -o bin/icyloom ./cmd/icyloom
	@ls -l bin/icyloom | awk '{printf "bin/icyloom %.1f MB\n", $$5/1e6}'

## Work on it

.PHONY: test
test: deps ## install what the tests need, then run them all
	$(GO) test ./...

.PHONY: generate
generate: ## write the generated files anew
	@$(TEMPL) generate -path views

.PHONY: format
format: ## format every Go file
	@$(GOFUMPT) -w $$(git ls-files -co --exclude-standard '*.go' | grep -v '_templ\.go$$')

.PHONY: bench
bench: ## measure, and print one table with its conditions
	@$(GO) run ./cmd/internal/bench

.PHONY: soak
soak: ## serve a mixed load for ten minutes, and see that nothing stays (ICYLOOM_SOAK=10m)
	ICYLOOM_SOAK=$${ICYLOOM_SOAK:-10m} $(GO) test -count 1 -timeout 12h -v -run '^TestSoak$$' ./cmd/internal/e2e

.PHONY: tools
tools: ## fetch the tools that the checks use
	@$(GOFUMPT) -version && $(STATICCHECK) -version && $(TEMPL) version
	@$(GOVULNCHECK) -version | head -n 2

.PHONY: deps
deps:
	@.ci/deps

## Check it

.PHONY: check
check: check-format check-vet check-static check-generate check-mod test check-race check-vuln ## everything that a change has to pass
	@echo "check: all passed"

.PHONY: check-format
check-format:
	@echo "check: gofumpt"
	@out=$$($(GOFUMPT) -l $$(git ls-files '*.go' | grep -v '_templ\.go$$')); \
	if [ -n "$$out" ]; then printf 'not formatted (make format):\n%s\n' "$$out"; exit 1; fi

.PHONY: check-vet
check-vet:
	@echo "check: go vet"
	@$(GO) vet ./...

.PHONY: check-static
check-static:
	@echo "check: staticcheck"
	@$(STATICCHECK) ./...

.PHONY: check-generate
check-generate:
	@echo "check: generated files are what their sources generate"
	@sums() { find views -name '*_templ.go' -exec sha256sum {} + | sort; }; \
	before=$$(sums); $(TEMPL) generate -path views >/dev/null 2>&1; \
	if [ "$$before" != "$$(sums)" ]; then echo "generated files have changed: commit them"; exit 1; fi

.PHONY: check-mod
check-mod:
	@echo "check: go.mod"
	@$(GO) mod tidy -diff
	@$(GO) mod verify

.PHONY: check-race
check-race:
	@if command -v gcc >/dev/null; then \
		echo "check: race detector"; CGO_ENABLED=1 $(GO) test -race $(RACE); \
	else echo "check: SKIPPED race detector: gcc is not installed"; fi

# The database of known faults lies on the network; a machine that cannot reach
# it is not at fault.
.PHONY: check-vuln
check-vuln:
	@echo "check: govulncheck"
	@if ! out=$$(timeout 120 $(GOVULNCHECK) ./... 2>&1); then \
		case "$$out" in \
		*"exit status 3") printf '%s\n' "$$out"; exit 1;; \
		*) echo "check: SKIPPED $$(printf '%s' "$$out" | grep '^govulncheck:' || echo govulncheck took too long)";; \
		esac; fi
