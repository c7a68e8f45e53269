package home_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/cmd/internal/home"
)

func env(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

func at(t *testing.T, dir string) home.Home {
	t.Helper()
	h, err := home.At(dir)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestResolveOrder(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: the paths of a home were not tried: they are those of Linux")
	}
	for _, c := range []struct {
		name string
		env  map[string]string
		want string
	}{
		{"own variable wins", map[string]string{"ICYLOOM_HOME": "/a/b", "XDG_STATE_HOME": "/x", "HOME": "/h"}, "/a/b"},
		{"then XDG", map[string]string{"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/icyloom"},
		{"a relative XDG is ignored", map[string]string{"XDG_STATE_HOME": "x", "HOME": "/h"}, "/h/.local/state/icyloom"},
		{"then HOME", map[string]string{"HOME": "/h"}, "/h/.local/state/icyloom"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := home.Resolve(env(c.env))
			if err != nil || h.Dir() != c.want {
				t.Fatalf("Resolve = %q, %v; want %q", h.Dir(), err, c.want)
			}
		})
	}
	if _, err := home.Resolve(env(nil)); err == nil || !strings.Contains(err.Error(), "ICYLOOM_HOME") {
		t.Fatalf("without any variable: %v; want a fault that names the fix", err)
	}
}

func TestIdentityIsMadeOnceForTheOwnerOnly(t *testing.T) {
	h := at(t, filepath.Join(t.TempDir(), "new", "home"))
	if err := h.Make(); err != nil {
		t.Fatal(err)
	}
	node, err := h.Node()
	if err != nil {
		t.Fatal(err)
	}
	secret, err := h.Secret()
	if err != nil {
		t.Fatal(err)
	}
	node2, _ := h.Node()
	secret2, _ := h.Secret()
	if node == "" || node != node2 || len(secret) != 32 || string(secret) != string(secret2) {
		t.Fatalf("identity changed: %q %q", node, node2)
	}
	if host, _ := os.Hostname(); host != "" && strings.Contains(node, host) {
		t.Fatalf("node %q holds the host name", node)
	}
	if runtime.GOOS == "windows" {
		return
	}
	for path, want := range map[string]os.FileMode{h.Dir(): 0o700, filepath.Join(h.Dir(), "secret"): 0o600} {
		st, err := os.Stat(path)
		if err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v; want %v", path, st.Mode().Perm(), err, want)
		}
	}
}

func TestDamagedIdentityIsRefusedNotReplaced(t *testing.T) {
	h := at(t, t.TempDir())
	for name, read := range map[string]func() error{
		"node":   func() error { _, err := h.Node(); return err },
		"secret": func() error { _, err := h.Secret(); return err },
	} {
		path := filepath.Join(h.Dir(), name)
		if err := os.WriteFile(path, []byte("a.b *\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := read(); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v; want a fault that names the file", name, err)
		}
		if data, _ := os.ReadFile(path); string(data) != "a.b *\n" {
			t.Errorf("%s was overwritten", name)
		}
	}
}

func TestSecondLockNamesTheHolder(t *testing.T) {
	h := at(t, t.TempDir())
	lock, err := h.Lock()
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.Lock()
	var locked *home.LockedError
	if !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Fatalf("second Lock: %v; want a LockedError with this pid", err)
	}
	if pid, held := h.Holder(); !held || pid != os.Getpid() {
		t.Fatalf("Holder = %d, %v", pid, held)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if _, held := h.Holder(); held {
		t.Fatal("still held after Release")
	}
	again, err := h.Lock()
	if err != nil {
		t.Fatalf("lock after release: %v", err)
	}
	if err := again.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestLongHomeGetsAShortSocket(t *testing.T) {
	short := at(t, "/tmp/h")
	long := at(t, "/tmp/"+strings.Repeat("x", 120))
	other := at(t, "/tmp/"+strings.Repeat("y", 120))
	if short.Socket() != filepath.Join("/tmp/h", "s") {
		t.Errorf("short home: %s", short.Socket())
	}
	if len(long.Socket()) > 100 || long.Socket() == other.Socket() {
		t.Errorf("long homes: %s, %s", long.Socket(), other.Socket())
	}
}

func TestHomeThatIsAFileIsExplained(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := at(t, path).Make(); err == nil || !strings.Contains(err.Error(), "ICYLOOM_HOME") {
		t.Fatalf("Make over a file: %v", err)
	}
}
