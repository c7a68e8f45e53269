package projections

import (
	"context"
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"
)

// opt is an integer that may be unknown, which is not zero.
type opt struct {
	v  int64
	ok bool
}

// conn is one connection with its prepared statements. Its first error sticks:
// statements do nothing after it, and the owner asks once at the end.
type conn struct {
	db    *sqlite3.Conn
	stmts map[string]*stmt
	err   error
	pace  *pacer // of a connection that writes beside requests; else nil
}

// stmt is a prepared statement of a conn. Parameters count from 1, columns
// from 0.
type stmt struct {
	s *sqlite3.Stmt
	c *conn
}

func openConn(path string, flags sqlite3.OpenFlag) (*conn, error) {
	db, err := sqlite3.OpenFlags(path, flags)
	if err != nil {
		return nil, fmt.Errorf("projections: open %s: %w", path, err)
	}
	return &conn{db: db, stmts: map[string]*stmt{}}, nil
}

// close finalizes the statements and closes the connection.
func (c *conn) close() error {
	for _, s := range c.stmts {
		_ = s.s.Close() // repeats the error of the last step
	}
	c.stmts = nil
	err := c.db.Close()
	c.pace.unregister()
	return err
}

// keep remembers the first error.
func (c *conn) keep(err error) {
	if err != nil && c.err == nil {
		c.err = err
	}
}

// exec runs sql that needs no parameters and may hold several statements.
func (c *conn) exec(sql string) {
	if c.err == nil {
		c.keep(c.db.Exec(sql))
	}
}

// prepare returns the statement for sql, compiled once per connection. It is
// nil-safe to use after an error: the statement then does nothing.
func (c *conn) prepare(sql string) *stmt {
	if s, ok := c.stmts[sql]; ok {
		return s
	}
	s := &stmt{c: c}
	if c.err != nil {
		return s
	}
	p, _, err := c.db.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		c.keep(fmt.Errorf("projections: prepare %q: %w", sql, err))
		return s
	}
	s.s = p
	c.stmts[sql] = s
	return s
}

// ints binds v to the parameters from first on.
func (s *stmt) ints(first int, v ...int64) *stmt {
	if s.c.err != nil {
		return s
	}
	for i, x := range v {
		s.c.keep(s.s.BindInt64(first+i, x))
	}
	return s
}

// opts binds v to the parameters from first on, unknown as NULL.
func (s *stmt) opts(first int, v ...opt) *stmt {
	if s.c.err != nil {
		return s
	}
	for i, x := range v {
		if x.ok {
			s.c.keep(s.s.BindInt64(first+i, x.v))
		} else {
			s.c.keep(s.s.BindNull(first + i))
		}
	}
	return s
}

func (s *stmt) text(i int, v string) *stmt {
	if s.c.err == nil {
		s.c.keep(s.s.BindText(i, v))
	}
	return s
}

// textOrNull binds v, or NULL for the empty string.
func (s *stmt) textOrNull(i int, v string) *stmt {
	if s.c.err != nil {
		return s
	}
	if v == "" {
		s.c.keep(s.s.BindNull(i))
		return s
	}
	return s.text(i, v)
}

// blob binds v; nil is empty and not NULL.
func (s *stmt) blob(i int, v []byte) *stmt {
	switch {
	case s.c.err != nil:
	case len(v) == 0:
		s.c.keep(s.s.BindZeroBlob(i, 0))
	default:
		s.c.keep(s.s.BindBlob(i, v))
	}
	return s
}

// run executes a statement that returns no rows.
func (s *stmt) run() {
	if s.c.err == nil {
		s.c.keep(s.s.Exec())
		s.c.pace.breathe()
	}
}

// rows calls f for every row; f returns false to stop early.
func (s *stmt) rows(f func(r *sqlite3.Stmt) bool) {
	if s.c.err != nil {
		return
	}
	for s.s.Step() {
		if !f(s.s) {
			break
		}
	}
	s.c.keep(s.s.Err())
	s.c.keep(s.s.Reset())
}

// row reads the first row into f and tells whether there was one.
func (s *stmt) row(f func(r *sqlite3.Stmt)) bool {
	found := false
	s.rows(func(r *sqlite3.Stmt) bool {
		f(r)
		found = true
		return false
	})
	return found
}

// optCol reads column i, NULL as unknown.
func optCol(r *sqlite3.Stmt, i int) opt {
	if r.ColumnType(i) == sqlite3.NULL {
		return opt{}
	}
	return opt{r.ColumnInt64(i), true}
}

// snapshot runs f inside one read transaction and returns the first error.
func (c *conn) snapshot(ctx context.Context, f func(*conn) error) error {
	old := c.db.SetInterrupt(ctx)
	defer func() {
		c.db.SetInterrupt(old)
		if !c.db.GetAutocommit() {
			_ = c.db.Exec("ROLLBACK") // a read has nothing to lose
		}
		c.err = nil
	}()
	c.exec("BEGIN")
	err := f(c)
	if err == nil {
		err = c.err
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("projections: read: %w", ctx.Err())
	}
	return err
}

// damaged tells whether err means that the file itself cannot be trusted.
func damaged(err error) bool {
	return errors.Is(err, sqlite3.CORRUPT) || errors.Is(err, sqlite3.NOTADB)
}
