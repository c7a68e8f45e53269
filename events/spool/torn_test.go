package spool

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestTornRecord: a torn record is cut off, and those before it stay as they
// are: nothing is written anew that a crash could then take away.
func TestTornRecord(t *testing.T) {
	name := filepath.Join(t.TempDir(), "spool")
	s, _, err := openFile(name, 16<<10)
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range []string{"one", "two", "three"} {
		if err := s.append([]byte(raw), raw == "two"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.f.WriteAt([]byte{0}, s.end-1); err != nil { // not written when the process ended
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	s, damage, err := openFile(name, 16<<10)
	if err != nil || damage == "" {
		t.Fatal(damage, err)
	}
	recs, end, err := s.read(headBytes)
	if err != nil || len(recs) != 2 || string(recs[1].raw) != "two" || recs[0].sent || !recs[1].sent {
		t.Fatalf("%+v, %v", recs, err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(name)
	if err != nil || !bytes.Equal(after[:end], before[:end]) || len(bytes.Trim(after[end:], "\x00")) > 0 {
		t.Errorf("the file has changed before %d, or is not empty behind it (%v)", end, err)
	}
}
