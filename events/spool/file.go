package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"time"

	"github.com/icyloom/icyloom/events"
)

// The file: a head of headBytes, then records up to the first zero length.
// Numbers are big-endian.
//
//	head    "ICYSPOOL", version (4), floor (8), lost (8), since in Unix
//	        microseconds (8), id of the gap event to come (26), CRC-32C of these
//	record  length of what follows the sum (4), CRC-32C of that (4), flag (1),
//	        the encoded event
//
// Space behind the records is zero. The flag says whether the event was offered
// to the log before, which may have taken it.
const (
	magic       = "ICYSPOOL"
	version     = 1
	headBytes   = 4096
	headUsed    = len(magic) + 4 + 8 + 8 + 8 + idBytes
	idBytes     = 26
	frameBytes  = 8
	minBytes    = headBytes + frameBytes + 1
	zeroAtATime = 1 << 20
)

var errFull = errors.New("spool: the file is full")

type head struct {
	floor uint64    // no event of the file is in the log at or below this
	lost  int64     // events lost and not yet told
	since time.Time // of the first of them
	gapID string    // of the event that will tell
}

type file struct {
	f     *os.File
	size  int64
	end   int64 // where the next record goes
	count int
	head  head
	buf   []byte
}

type record struct {
	sent bool
	raw  []byte
}

func sum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// openFile opens or makes the file and finds its records. What does not read
// is dropped when it is the last record, torn by a crash; otherwise a copy of
// the file is kept beside it and the records that read are used. damage says
// what happened.
func openFile(name string, size int64) (s *file, damage string, err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, "", fmt.Errorf("spool: cannot open the file (%w): make its directory writable", err)
	}
	s = &file{f: f, size: max(size, minBytes), end: headBytes, head: head{floor: 0}}
	if damage, err = s.load(name); err != nil {
		return nil, "", errors.Join(err, f.Close())
	}
	return s, damage, nil
}

func (s *file) load(name string) (damage string, err error) {
	info, err := s.f.Stat()
	if err != nil {
		return "", fmt.Errorf("spool: %w", err)
	}
	old := info.Size()
	if err := s.allocate(old); err != nil {
		return "", err
	}
	if old < headBytes {
		return "", s.writeHead()
	}
	data, err := s.image(old)
	if err != nil {
		return "", fmt.Errorf("spool: cannot read the file: %w", err)
	}
	headOK, err := s.parseHead(data)
	if err != nil {
		return "", err
	}
	good, end, state := parse(data)
	if state == clean && headOK {
		s.end, s.count = end, len(good)
		return "", nil
	}
	if state == torn && headOK {
		s.end, s.count = end, len(good)
		return "its last record was torn and is dropped", s.zero(end, old)
	}
	aside := fmt.Sprintf("%s.corrupt-%d", name, info.ModTime().Unix())
	if err := os.WriteFile(aside, data, 0o600); err != nil {
		return "", fmt.Errorf("spool: the file is damaged and a copy cannot be kept (%w): free disk space", err)
	}
	return "what reads of it is recovered, a copy is kept as " + aside, s.rewrite(good, old)
}

// image returns the file's content without most of the zeros at its end: enough
// of them stay for a record that begins in what is used. The file is read in
// small pieces, because as a rule it is all zeros, and every start reads it.
func (s *file) image(size int64) ([]byte, error) {
	piece, zeros := make([]byte, zeroAtATime), make([]byte, zeroAtATime)
	var data []byte
	for at := int64(0); at < size; at += int64(len(piece)) {
		piece = piece[:min(int64(len(piece)), size-at)]
		if _, err := s.f.ReadAt(piece, at); err != nil {
			return nil, err
		}
		if !bytes.Equal(piece, zeros[:len(piece)]) {
			data = append(data, make([]byte, at-int64(len(data)))...)
			data = append(data, piece...)
		}
	}
	tail := min(size-int64(len(data)), headBytes+frameBytes+events.MaxEventBytes+1)
	return append(data, make([]byte, tail)...), nil
}

// allocate writes zeros from the old size to the full one: blocks are taken
// now, while there are some.
func (s *file) allocate(old int64) error {
	s.size = max(s.size, old)
	zeros := make([]byte, zeroAtATime)
	for at := old; at < s.size; {
		n, err := s.f.WriteAt(zeros[:min(int64(len(zeros)), s.size-at)], at)
		if err != nil {
			return fmt.Errorf("spool: cannot take %d bytes for the file (%w): free disk space", s.size, err)
		}
		at += int64(n)
	}
	return nil
}

func (s *file) parseHead(data []byte) (ok bool, err error) {
	used := data[:headUsed]
	switch {
	case bytes.Count(data[:headBytes], []byte{0}) == headBytes:
		return len(data) == headBytes || data[headBytes] == 0, nil // made, but not yet used
	case string(used[:len(magic)]) != magic || sum(used) != binary.BigEndian.Uint32(data[headUsed:]):
		return false, nil
	}
	b := used[len(magic):]
	if v := binary.BigEndian.Uint32(b); v > version {
		return false, fmt.Errorf("%w: the spool file has version %d and this build knows %d", events.ErrNewer, v, version)
	}
	s.head = head{floor: binary.BigEndian.Uint64(b[4:]), lost: int64(binary.BigEndian.Uint64(b[12:]))}
	if s.head.lost > 0 {
		s.head.since = time.UnixMicro(int64(binary.BigEndian.Uint64(b[20:]))).UTC()
		s.head.gapID = strings.TrimSpace(string(b[28 : 28+idBytes]))
	}
	return true, nil
}

func (s *file) writeHead() error {
	b := make([]byte, 0, headUsed+4)
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint32(b, version)
	b = binary.BigEndian.AppendUint64(b, s.head.floor)
	b = binary.BigEndian.AppendUint64(b, uint64(s.head.lost))
	b = binary.BigEndian.AppendUint64(b, uint64(s.head.since.UnixMicro()))
	b = append(b, fmt.Sprintf("%-26.26s", s.head.gapID)...)
	b = binary.BigEndian.AppendUint32(b, sum(b))
	if _, err := s.f.WriteAt(b, 0); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	return nil
}

type parseState int

const (
	clean   parseState = iota // records, then zeros
	torn                      // the last record does not read
	corrupt                   // something before the last record does not read
)

// parse returns the records of a file image and where the next one goes. It
// steps over a record that does not read where its length makes sense.
func parse(data []byte) (good []record, end int64, state parseState) {
	at := int64(headBytes)
	end = at
	for {
		rec, next, ok := parseRecord(data, at)
		switch {
		case ok:
			good = append(good, rec)
			if state == torn {
				state = corrupt // it was not the last one
			}
			end = next
		case next == at:
			if len(bytes.TrimRight(data[min(at, int64(len(data))):], "\x00")) > 0 {
				state = corrupt
			}
			return good, end, state
		case state == clean:
			state = torn
		}
		at = next
	}
}

// parseRecord reads the record at at. next is where the following one begins;
// it is at itself when no record can begin there.
func parseRecord(data []byte, at int64) (rec record, next int64, ok bool) {
	if at+frameBytes > int64(len(data)) {
		return rec, at, false
	}
	n := int64(binary.BigEndian.Uint32(data[at:]))
	if n == 0 || n > events.MaxEventBytes+1 || at+frameBytes+n > int64(len(data)) {
		return rec, at, false
	}
	body := data[at+frameBytes : at+frameBytes+n]
	rec = record{sent: body[0] != 0, raw: body[1:]}
	return rec, at + frameBytes + n, sum(body) == binary.BigEndian.Uint32(data[at+4:])
}

// append puts one record at the end, or returns errFull.
func (s *file) append(raw []byte, sent bool) error {
	n := 1 + len(raw)
	if s.end+int64(frameBytes+n) > s.size {
		return errFull
	}
	b := append(s.buf[:0], 0, 0, 0, 0, 0, 0, 0, 0, 0)
	if sent {
		b[frameBytes] = 1
	}
	b = append(b, raw...)
	binary.BigEndian.PutUint32(b, uint32(n))
	binary.BigEndian.PutUint32(b[4:], sum(b[frameBytes:]))
	s.buf = b
	if _, err := s.f.WriteAt(b, s.end); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	s.end += int64(len(b))
	s.count++
	return nil
}

// read returns the records from at on and where the next one will begin.
func (s *file) read(at int64) ([]record, int64, error) {
	data := make([]byte, s.end-at)
	if _, err := s.f.ReadAt(data, at); err != nil && !errors.Is(err, io.EOF) {
		return nil, at, fmt.Errorf("spool: %w", err)
	}
	var recs []record
	for pos := int64(0); pos < int64(len(data)); {
		rec, next, ok := parseRecord(data, pos)
		if !ok {
			return nil, at, fmt.Errorf("spool: the file does not read at %d", at+pos)
		}
		recs = append(recs, rec)
		pos = next
	}
	return recs, s.end, nil
}

// reset empties the file. It zeroes from the end towards the start, so that a
// crash in between leaves a run of whole records, which are recovered again.
func (s *file) reset() error {
	if err := s.zero(headBytes, s.end); err != nil {
		return err
	}
	s.end, s.count, s.head = headBytes, 0, head{}
	return s.writeHead()
}

func (s *file) zero(from, to int64) error {
	zeros := make([]byte, zeroAtATime)
	for to > from {
		n := min(int64(len(zeros)), to-from)
		if _, err := s.f.WriteAt(zeros[:n], to-n); err != nil {
			return fmt.Errorf("spool: %w", err)
		}
		to -= n
	}
	return nil
}

// rewrite leaves only these records in the file, all as offered before.
func (s *file) rewrite(recs []record, used int64) error {
	if err := s.zero(headBytes, used); err != nil {
		return err
	}
	s.end, s.count = headBytes, 0
	for _, r := range recs {
		if err := s.append(r.raw, true); err != nil {
			return err
		}
	}
	return s.writeHead()
}

func (s *file) close() error {
	if err := s.f.Close(); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	return nil
}
