//go:build linux

package projections

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// smallDisk mounts a file system of a few MiB until the test ends. Only root can.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: a full disk was not tried: only root can mount a small file system")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=48m,mode=0700"); err != nil {
		t.Skipf("SKIPPED: a full disk was not tried: tmpfs cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// fill takes all the space of a disk and returns how to free it.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "ballast")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 64<<10); len(block) > 0; {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/2] // the last bytes too
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

// A full disk stalls the projector. Once there is room it goes on by itself,
// and who asks then is not told of the disk that was full.
func TestDiskFull(t *testing.T) {
	for _, c := range []struct {
		name   string
		reader bool // a snapshot is open all the time
		closed bool // the store opens on the full disk
	}{{name: "alone"}, {name: "with a reader", reader: true}, {name: "opened when full", closed: true}} {
		t.Run(c.name, func(t *testing.T) {
			disk := smallDisk(t)
			dir := filepath.Join(disk, "tables")
			l := newFakeLog(traffic(300, time.Second)...)
			s := openStore(t, l, dir)
			settle(t, s, l)
			if c.closed {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			var free func()
			outage := func(*reader) error {
				free = fill(t, disk)
				l.append(traffic(6000, time.Second)[300:]...)
				if c.closed {
					s = openStore(t, l, dir)
				}
				eventually(t, s, "stalled", stalledWith(""))
				before := s.attempted()
				eventually(t, s, "trying again", func(DB) bool { return s.attempted() > before+2 })
				return nil
			}
			err := error(nil)
			if c.reader {
				err = s.read(within(t), outage)
			} else {
				err = outage(nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Wait(within(t), 6000); !errors.Is(err, ErrStalled) {
				t.Errorf("a wait on a full disk gave %v", err)
			}
			free()
			same(t, "after the outage", settle(t, s, l), rebuilt(t, l))
			if d := s.Status(); d.State != stateLive {
				t.Errorf("%+v", d)
			}
		})
	}
}
