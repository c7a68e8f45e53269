//go:build !linux

package e2e

import "testing"

// runSealed reports that there is no network namespace on this system.
func runSealed() (code int, ran bool) { return 0, false }

// TestAgents says what is not tried here.
func TestAgents(t *testing.T) {
	t.Skip("SKIPPED: Claude Code and Codex were not tried: only Linux has network namespaces")
}
