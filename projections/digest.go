package projections

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"

	"github.com/ncruces/go-sqlite3"
)

// Digests returns the digest of every table at one snapshot. It reads all rows.
func (s *Store) Digests(ctx context.Context) (Digests, error) {
	var d Digests
	err := s.read(ctx, func(r *reader) (err error) {
		d, err = digests(r.conn)
		return err
	})
	return d, err
}

// digests reads all tables within the caller's transaction.
func digests(c *conn) (Digests, error) {
	d := Digests{Seq: checkpointSeq(c), Tables: map[string]string{}}
	for _, t := range schema() {
		d.Tables[t.name] = digestTable(c, t)
	}
	return d, c.err
}

// checkpointSeq returns the sequence number that the tables are at.
func checkpointSeq(c *conn) (seq uint64) {
	c.prepare("SELECT seq FROM checkpoints WHERE name = 'log_index'").
		row(func(r *sqlite3.Stmt) { seq = uint64(r.ColumnInt64(0)) })
	return seq
}

// digestTable hashes the rows in key order. Every value is preceded by its type
// and, where that varies, its length, so that no two tables of different
// content hash the same bytes.
func digestTable(c *conn, t table) string {
	h := sha256.New()
	var buf []byte
	c.prepare("SELECT * FROM " + t.name + " ORDER BY " + t.key).rows(func(r *sqlite3.Stmt) bool {
		buf = appendRow(buf[:0], r)
		write(h, buf)
		return true
	})
	return hex.EncodeToString(h.Sum(nil))
}

func appendRow(b []byte, r *sqlite3.Stmt) []byte {
	n := r.ColumnCount()
	b = binary.AppendUvarint(b, uint64(n))
	for i := range n {
		typ := r.ColumnType(i)
		b = append(b, byte(typ))
		switch typ {
		case sqlite3.INTEGER:
			b = binary.BigEndian.AppendUint64(b, uint64(r.ColumnInt64(i)))
		case sqlite3.NULL:
		default: // no table has floating-point columns
			raw := r.ColumnRawBlob(i)
			b = binary.AppendUvarint(b, uint64(len(raw)))
			b = append(b, raw...)
		}
	}
	return b
}

// write hashes b; a hash never fails.
func write(h hash.Hash, b []byte) { _, _ = h.Write(b) }
