// Package e2e holds the black-box tests of the built program: nothing of it is
// compiled into icyloom.
//
// The tests build ./cmd/icyloom once, start it with a home and a configuration
// of their own, and speak to it as clients and upstreams do. A daemon is the
// program under test; an upstream is a fake LLM API on the loopback address
// that records what reached it; a row is a recorded exchange that an upstream
// plays back byte for byte. What the program booked is read with
// `icyloom export`, as anyone else would read it.
//
// Where the system allows it all of this happens in a network namespace that
// reaches nothing but the loopback address. Programs of others that may call home
// are only started there.
//
// Environment:
//
//	ICYLOOM_E2E_BINARY   a built icyloom to test instead of building one
//	ICYLOOM_E2E_ROUNDS   rounds of the crash test (3)
//	ICYLOOM_SOAK         how long the soak takes, as 10m (it is skipped)
//	ICYLOOM_RECORDINGS   a folder of *.jsonl recordings to play as well
//	ICYLOOM_NODE_MODULES where the npm packages are installed (<module>/.cache/node/node_modules)
package e2e
