//go:build linux || darwin || freebsd

package jetstream

import "golang.org/x/sys/unix"

// roomOn returns the bytes that are free on dir's disk, where that is known.
func roomOn(dir string) (free uint64, known bool) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, false
	}
	return uint64(fs.Bavail) * uint64(fs.Bsize), true
}
