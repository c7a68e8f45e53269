//go:build unix

package jetstream_test

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is the CPU time that this process has used. On a machine with other
// work it tells more than the clock on the wall.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
