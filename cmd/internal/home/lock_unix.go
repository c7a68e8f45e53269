//go:build !windows

package home

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// errHeld: another process has the lock.
var errHeld = errors.New("held")

func tryLock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			return errHeld
		}
		return err
	}
}

// Free is the space in bytes that the home's file system has left for its owner.
func (h Home) Free() (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(h.dir, &st); err != nil {
		return 0, err
	}
	return st.Bavail * uint64(st.Bsize), nil
}
