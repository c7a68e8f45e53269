package spool

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzOpen: no file, whatever is in it, makes opening panic or hang, and a file
// that opened once opens again with the same records and nothing to report.
func FuzzOpen(f *testing.F) {
	f.Add([]byte("ICYSPOOL"), uint16(0))
	f.Add([]byte{0, 0, 0, 2, 1, 2, 3, 4, 1, '{'}, uint16(4096))
	f.Fuzz(func(t *testing.T, data []byte, at uint16) {
		name := filepath.Join(t.TempDir(), "spool")
		image := append(make([]byte, at%8192), data...)
		if err := os.WriteFile(name, image, 0o600); err != nil {
			t.Fatal(err)
		}
		s, _, err := openFile(name, 16<<10)
		if err != nil {
			return
		}
		count := s.count
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		again, damage, err := openFile(name, 16<<10)
		if err != nil || damage != "" || again.count != count {
			t.Fatalf("%v, %q: %d records, %d before", err, damage, again.count, count)
		}
		if err := again.close(); err != nil {
			t.Fatal(err)
		}
	})
}
