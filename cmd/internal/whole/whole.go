// Package whole writes files that are there whole or not at all. A reader, or
// the next start after a crash, finds the old file or the new one, and never a
// part of one.
package whole

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Write makes the file at path, in place of one that is there, of what write
// writes. It is for its owner only. After an error nothing of it is left, and
// what was there before is as it was. The folder has to exist: where the new
// file cannot be begun in it, write is not called.
func Write(path string, write func(io.Writer) error) (err error) {
	dir, name := filepath.Split(path)
	if dir == "" {
		dir = "." // not the system's folder for temporary files
	}
	f, err := os.CreateTemp(dir, "."+name+".*") // 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	err = write(f)
	if err == nil {
		err = f.Sync() // or a crash could leave the name of an empty file
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// WriteBytes is Write of bytes that are there already.
func WriteBytes(path string, data []byte) error {
	return Write(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}
