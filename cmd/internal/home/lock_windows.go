//go:build windows

package home

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// errHeld: another process has the lock.
var errHeld = errors.New("held")

// tryLock locks a byte far behind the content, so that others can read the pid.
func tryLock(f *os.File) error {
	at := windows.Overlapped{OffsetHigh: 1}
	err := windows.LockFileEx(windows.Handle(f.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errHeld
	}
	return err
}

// Free is the space in bytes that the home's file system has left for its owner.
func (h Home) Free() (uint64, error) {
	path, err := windows.UTF16PtrFromString(h.dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(path, &free, nil, nil); err != nil {
		return 0, err
	}
	return free, nil
}
