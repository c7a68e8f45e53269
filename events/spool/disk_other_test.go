//go:build !linux

package spool_test

import "testing"

// smallDisk is not to be had here.
func smallDisk(t *testing.T, _ string) string {
	t.Helper()
	t.Skip("SKIPPED: a full disk was not tried: only Linux mounts a small one here")
	return ""
}
