package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
)

// maxPooled bounds the buffers that are kept for the next request, in bytes.
const maxPooled = 1 << 20

// buffer is a byte slice in use by several owners; the last one to release it
// gives it back.
type buffer struct {
	b    []byte
	refs atomic.Int32
}

var buffers = sync.Pool{New: func() any { return new(buffer) }}

func newBuffer() *buffer {
	b := buffers.Get().(*buffer)
	b.b = b.b[:0]
	b.refs.Store(1)
	return b
}

func (b *buffer) release() {
	if b.refs.Add(-1) == 0 && cap(b.b) <= maxPooled {
		buffers.Put(b)
	}
}

var (
	errTooLarge = errors.New("gateway: the body is over the limit")
	errNoRoom   = errors.New("gateway: the bodies of all requests are over the limit")
)

// room bounds the bytes of all request bodies that are under way.
type room struct {
	limit int64
	used  atomic.Int64
}

func (r *room) take(n int64) bool {
	if r.used.Add(n) <= r.limit {
		return true
	}
	r.used.Add(-n)
	return false
}

func (r *room) give(n int64) { r.used.Add(-n) }

// taking is a reader whose bytes take room; what it took is taken.
type taking struct {
	r     io.Reader
	room  *room
	taken int64
}

// from sets where the bytes come from.
func (t *taking) from(r io.Reader) io.Reader {
	t.r = r
	return t
}

func (t *taking) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if n > 0 && !t.room.take(int64(n)) {
		return 0, errNoRoom
	}
	t.taken += int64(n)
	return n, err
}

// readBody reads a request body whole: handing it on while it comes in would
// lose answers, for the server closes it at the answer's first flush.
func readBody(r io.Reader, length, limit int64) (*buffer, error) {
	if length > limit {
		return nil, errTooLarge
	}
	b := newBuffer()
	if length == 0 {
		return b, nil
	}
	// One byte more than announced, so that the end is seen without growing; not
	// more than a megabyte on the word of a header.
	b.grow(int(min(max(length, 4<<10), maxPooled)) + 1)
	err := b.readAll(r, limit)
	if err != nil {
		b.release()
		return nil, err
	}
	return b, nil
}

// grow makes room for n more bytes.
func (b *buffer) grow(n int) {
	if cap(b.b)-len(b.b) >= n {
		return
	}
	next := make([]byte, len(b.b), max(len(b.b)+n, 2*cap(b.b)))
	copy(next, b.b)
	b.b = next
}

// readAll appends what r has, up to limit bytes in all.
func (b *buffer) readAll(r io.Reader, limit int64) error {
	for {
		b.grow(1)
		n, err := r.Read(b.b[len(b.b):cap(b.b)])
		b.b = b.b[:len(b.b)+n]
		if int64(len(b.b)) > limit {
			return errTooLarge
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// outgoing is the request body of an upstream call, in one piece. The transport
// sends a body that it knows to be in memory together with the header; but it
// may read it until it says that the request is written, also after the call has
// returned, and it may write it more than once. So what it reads is either not
// pooled, or held by the call and by every reader that was given out.
type outgoing struct {
	b    []byte
	hold *buffer // owner of b; nil: nobody reuses b
}

// maxUnpooled is the size in bytes up to which a body is rather left to the
// garbage collector.
const maxUnpooled = 16 << 10

// newOutgoing joins pieces, which are parts of from, or takes from as it is. sent
// gives it back once the call has returned.
func newOutgoing(from *buffer, pieces [][]byte) *outgoing {
	size := 0
	for _, p := range pieces {
		size += len(p)
	}
	switch {
	case size <= maxUnpooled:
		b := make([]byte, 0, size)
		for _, p := range pieces {
			b = append(b, p...)
		}
		return &outgoing{b: b}
	case len(pieces) == 1:
		from.refs.Add(1)
		return &outgoing{b: pieces[0], hold: from}
	}
	joined := newBuffer()
	joined.grow(size)
	for _, p := range pieces {
		joined.b = append(joined.b, p...)
	}
	return &outgoing{b: joined.b, hold: joined}
}

func (o *outgoing) sent() {
	if o.hold != nil {
		o.hold.release()
	}
}

func (o *outgoing) reader() io.ReadCloser {
	if o.hold != nil {
		o.hold.refs.Add(1)
	}
	return io.NopCloser(bytes.NewReader(o.b))
}

// attach makes o the body of a request; the result is the context to send it
// with. o is used up: each call takes a new one.
func (o *outgoing) attach(ctx context.Context, req *http.Request) context.Context {
	req.ContentLength, req.Body = int64(len(o.b)), o.reader()
	if req.Header["Idempotency-Key"] == nil && req.Header["X-Idempotency-Key"] == nil {
		// Lets the transport start over on another connection when it had not written
		// anything. With these headers it would do so after writing, too, and the
		// upstream might answer, and bill, twice.
		req.GetBody = func() (io.ReadCloser, error) { return o.reader(), nil }
	}
	if o.hold == nil {
		return ctx
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) {
		// After an error the transport may still read it, so it stays for good.
		if info.Err == nil {
			o.hold.release()
		}
	}})
}
