package direct

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// maxHeader bounds an answer's header, in bytes.
const maxHeader = 1 << 20

var errHeader = errors.New("direct: the answer's header is over 1 MiB")

// conn is one connection. One request at a time owns it.
type conn struct {
	t       *Transport
	address string
	era     int // of its transport, when it was made
	nc      net.Conn
	r       *bufio.Reader
	w       *bufio.Writer
	budget  int64 // bytes that may still be read; only headers are bounded
	wrote   bool  // some of the current request may have left
	reused  bool
	since   time.Time // when it was put to the idle ones
}

func newConn(t *Transport, address string, nc net.Conn, era int) *conn {
	c := &conn{t: t, address: address, nc: nc, era: era}
	c.r = bufio.NewReaderSize(budgeted{c}, 16<<10)
	c.w = bufio.NewWriterSize(writer{c}, 16<<10)
	return c
}

func (c *conn) close() { _ = c.nc.Close() } // nobody waits for anything on it

// budgeted reads from the connection within its budget.
type budgeted struct{ c *conn }

func (b budgeted) Read(p []byte) (int, error) {
	if b.c.budget <= 0 {
		return 0, errHeader
	}
	n, err := b.c.nc.Read(p[:min(int64(len(p)), b.c.budget)])
	b.c.budget -= int64(n)
	return n, err
}

// writer notes that something was written.
type writer struct{ c *conn }

func (w writer) Write(p []byte) (int, error) {
	n, err := w.c.nc.Write(p)
	w.c.wrote = w.c.wrote || n > 0
	return n, err
}

// exchange writes the request and reads the answer's header. The connection is
// closed on an error, else with the answer's body or kept.
func (c *conn) exchange(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	stop := context.AfterFunc(ctx, c.close)
	c.wrote, c.budget = false, maxHeader
	resp, err := c.roundTrip(req)
	if err != nil {
		stop()
		c.close()
		return nil, err
	}
	c.budget = 1<<63 - 1
	b := &body{ReadCloser: resp.Body, c: c, ctx: ctx, stop: stop, keep: !resp.Close && !req.Close}
	if resp.Body == http.NoBody {
		b.end(true) // there is nothing to read
	} else {
		resp.Body = b
	}
	return resp, nil
}

func (c *conn) roundTrip(req *http.Request) (*http.Response, error) {
	werr := req.Write(c.w)
	if werr == nil {
		werr = c.w.Flush()
	}
	if werr != nil && !c.wrote {
		return nil, errors.Join(errIdle, werr)
	}
	// An upstream may refuse a request before it has all of it: its answer counts
	// for more than that the rest could not be written.
	if _, err := c.r.Peek(1); err != nil {
		switch {
		case req.Method == http.MethodGet || req.Method == http.MethodHead:
			return nil, errors.Join(errIdle, err)
		case werr != nil:
			return nil, werr
		case err == io.EOF:
			return nil, io.ErrUnexpectedEOF
		}
		return nil, err
	}
	for {
		resp, err := http.ReadResponse(c.r, req)
		switch {
		case err != nil:
			return nil, err
		case resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols:
			resp.Close = resp.Close || werr != nil
			return resp, nil
		}
	}
}

// body is an answer's body. At its end the connection is free again; closed
// before, the connection ends.
type body struct {
	io.ReadCloser
	c     *conn
	ctx   context.Context
	stop  func() bool
	keep  bool
	ended bool
	err   error // what every read returns once it has ended
}

func (b *body) Read(p []byte) (int, error) {
	if b.ended {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.err = cause(b.ctx, err)
		b.end(err == io.EOF)
	}
	return n, b.err
}

func (b *body) Close() error {
	if !b.ended {
		b.err = http.ErrBodyReadAfterClose
		b.end(false)
	}
	return nil
}

func (b *body) end(whole bool) {
	b.ended = true
	untouched := b.stop() // false: the context has closed the connection
	if whole && b.keep && untouched && b.c.r.Buffered() == 0 {
		b.c.t.put(b.c)
		return
	}
	b.c.close()
}
