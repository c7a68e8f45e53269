// Package home is the folder one daemon keeps its state in: where it lies,
// what is in it, and who holds it.
//
// A home holds the configuration, the log's store, the tables, the spool, the
// node's id and the secret that credential scopes are keyed with. One daemon
// holds a home at a time, by an exclusive lock that the operating system gives
// up when the process ends, however it ends. Everything in it is readable by
// its owner only.
package home

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// socketPathMax is the longest path that every platform takes for a Unix socket
// (macOS: 104 bytes with the final zero).
const socketPathMax = 100

// Home is a state folder, by its absolute path. It need not exist yet.
type Home struct{ dir string }

// At returns the home at dir, made absolute.
func At(dir string) (Home, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Home{}, fmt.Errorf("home %q: %w", dir, err)
	}
	return Home{dir: abs}, nil
}

// Resolve finds the home: ICYLOOM_HOME, else $XDG_STATE_HOME/icyloom, else the
// platform's folder for state. env looks up an environment variable.
func Resolve(env func(string) string) (Home, error) {
	if dir := env("ICYLOOM_HOME"); dir != "" {
		return At(dir)
	}
	// The specification says that a relative path there is to be ignored.
	if dir := env("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return At(filepath.Join(dir, "icyloom"))
	}
	dir := platformState(runtime.GOOS, env)
	if dir == "" {
		return Home{}, errors.New("no home folder: neither ICYLOOM_HOME nor HOME is set; set ICYLOOM_HOME to a folder of your own")
	}
	return At(dir)
}

func platformState(goos string, env func(string) string) string {
	switch goos {
	case "windows":
		if dir := env("LOCALAPPDATA"); dir != "" {
			return filepath.Join(dir, "icyloom")
		}
		return ""
	case "darwin":
		if dir := env("HOME"); dir != "" {
			return filepath.Join(dir, "Library", "Application Support", "icyloom")
		}
		return ""
	}
	if dir := env("HOME"); dir != "" {
		return filepath.Join(dir, ".local", "state", "icyloom")
	}
	return ""
}

// Dir is the home's absolute path.
func (h Home) Dir() string { return h.dir }

// Config is the configuration file that is read when no other was named.
func (h Home) Config() string { return filepath.Join(h.dir, "icyloom.yaml") }

// Ledger is the folder of the embedded log's store.
func (h Home) Ledger() string { return filepath.Join(h.dir, "ledger") }

// Projections is the folder of the tables; everything in it can be rebuilt.
func (h Home) Projections() string { return filepath.Join(h.dir, "projections") }

// Prices is the table of prices that the home adds to the built-in one.
func (h Home) Prices() string { return filepath.Join(h.dir, "prices.json") }

// Spool is the file that keeps events while the log cannot be written.
func (h Home) Spool() string { return filepath.Join(h.dir, "spool") }

// Socket is where the daemon listens for commands. A home whose own path is too
// long for a socket gets one in the temporary folder, named by the path's hash.
func (h Home) Socket() string {
	path := filepath.Join(h.dir, "s")
	if len(path) <= socketPathMax {
		return path
	}
	sum := sha256.Sum256([]byte(h.dir))
	return filepath.Join(os.TempDir(), "icyloom-"+hex.EncodeToString(sum[:8])+".s")
}

// Make creates the folder, for its owner only, and proves that it can be
// written, so that the reason is told before anything is half open.
func (h Home) Make() error {
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return h.explain("cannot be created", err)
	}
	probe, err := os.CreateTemp(h.dir, ".probe-*")
	if err != nil {
		return h.explain("cannot be written", err)
	}
	_, werr := probe.Write([]byte("probe"))
	cerr := probe.Close()
	rerr := os.Remove(probe.Name())
	if err := errors.Join(werr, cerr, rerr); err != nil {
		return h.explain("cannot be written", err)
	}
	return nil
}

// explain turns what the file system said into one sentence with its fix.
func (h Home) explain(what string, err error) error {
	fix := "choose another with --home or ICYLOOM_HOME"
	switch {
	case errors.Is(err, syscall.ENOSPC):
		fix = "the disk is full: free some space, or " + fix
	case errors.Is(err, syscall.EROFS):
		fix = "the file system is read-only: " + fix
	case errors.Is(err, fs.ErrPermission):
		fix = "give its owner write access, or " + fix
	}
	return fmt.Errorf("home %s %s: %w; %s", h.dir, what, err, fix)
}
