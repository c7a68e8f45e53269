package home

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// LockedError says that another process holds the home.
type LockedError struct {
	Dir string
	PID int // 0: the holder has not written it yet
}

// Error names the holder and what to do about it.
func (e *LockedError) Error() string {
	who := "another process"
	if e.PID > 0 {
		who = "process " + strconv.Itoa(e.PID)
	}
	return fmt.Sprintf("home %s is in use by %s; stop that one first, or take another home with --home or ICYLOOM_HOME", e.Dir, who)
}

// Lock is a held home.
type Lock struct{ file *os.File }

// Lock takes the home for this process, or returns a *LockedError. The lock ends
// with the process; the file stays, because removing it would let two processes
// lock two different files of one name.
func (h Home) Lock() (*Lock, error) {
	path := filepath.Join(h.dir, "lock")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, h.explain("cannot be locked", err)
	}
	if err := tryLock(file); err != nil {
		cerr := file.Close()
		if errors.Is(err, errHeld) {
			return nil, &LockedError{Dir: h.dir, PID: h.holder()}
		}
		return nil, h.explain("cannot be locked", errors.Join(err, cerr))
	}
	// The pid serves the next one's error message only: losing it is no fault.
	if err := file.Truncate(0); err == nil {
		_, _ = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return &Lock{file: file}, nil
}

// Holder is the pid in the lock file, and whether a process holds the lock now.
func (h Home) Holder() (pid int, held bool) {
	file, err := os.OpenFile(filepath.Join(h.dir, "lock"), os.O_RDWR, 0)
	if err != nil {
		return 0, false
	}
	defer func() { _ = file.Close() }() // closing gives the lock up
	if err := tryLock(file); errors.Is(err, errHeld) {
		return h.holder(), true
	}
	return 0, false
}

func (h Home) holder() int {
	data, err := os.ReadFile(filepath.Join(h.dir, "lock"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0
	}
	return pid
}

// Release gives the home up.
func (l *Lock) Release() error {
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("release the home: %w", err)
	}
	return nil
}
