package whole

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// alone fails unless the file holds text and nothing else is in its folder.
func alone(t *testing.T, path, text string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != text {
		t.Errorf("%q, want %q: %v", got, text, err)
	}
	if list, err := os.ReadDir(filepath.Dir(path)); err != nil || len(list) != 1 {
		t.Errorf("beside it: %v, %v", list, err)
	}
}

// beside fails unless the new file lies beside the old one, which is as it was.
func beside(t *testing.T, path string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
		t.Errorf("while it is written: %q, %v", got, err)
	}
	if list, err := os.ReadDir(filepath.Dir(path)); err != nil || len(list) != 2 {
		t.Errorf("while it is written: %v, %v", list, err)
	}
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, text := range []string{"first", "second, and longer", ""} {
		if err := WriteBytes(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		alone(t, path, text)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// A write that breaks off leaves what was there, and nothing beside it.
func TestWriteThatFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := WriteBytes(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	full := errors.New("disk full")
	err := Write(path, func(w io.Writer) error {
		if _, err := io.WriteString(w, "half"); err != nil {
			return err
		}
		beside(t, path)
		return full
	})
	if !errors.Is(err, full) {
		t.Error(err)
	}
	alone(t, path, "old")
}

// What cannot be put in place is taken away again.
func TestWriteOverAFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "file", "in it"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteBytes(filepath.Join(dir, "file"), []byte("x")); err == nil {
		t.Error("a file was written over a folder")
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("left: %v, %v", list, err)
	}
}

func TestWriteWithoutItsFolder(t *testing.T) {
	called := false
	err := Write(filepath.Join(t.TempDir(), "none", "file"), func(io.Writer) error {
		called = true
		return nil
	})
	if err == nil || called {
		t.Errorf("%v, called: %v", err, called)
	}
}

// A bare name is in the folder one stands in, and so is what is written first:
// a rename out of another file system would fail.
func TestWriteOfABareName(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	err := Write("file", func(w io.Writer) error {
		if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
			t.Errorf("%v, %v", list, err)
		}
		_, err := io.WriteString(w, "here")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	alone(t, filepath.Join(dir, "file"), "here")
}
