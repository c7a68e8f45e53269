package gateway

import (
	"errors"
	"io"
	"net/http"
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

var errTooLarge = errors.New("gateway: the body is over the limit")

// readBody reads a request body whole: handing it on while it comes in would
// lose answers, for the server closes it at the answer's first flush.
func readBody(r *http.Request, limit int64) (*buffer, error) {
	if r.ContentLength > limit {
		return nil, errTooLarge
	}
	b := newBuffer()
	if r.ContentLength == 0 || r.Body == nil {
		return b, nil
	}
	// One byte more than announced, so that the end is seen without growing; not
	// more than a megabyte on the word of a header.
	b.grow(int(min(max(r.ContentLength, 4<<10), maxPooled)) + 1)
	err := b.readAll(r.Body, limit)
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

// outgoing is a request body for one upstream call: pieces of buffers, one
// after the other. The transport may read it until it has closed it, also after
// the call has returned, so it holds on to its buffer until then.
type outgoing struct {
	hold   *buffer
	pieces [][]byte
	size   int64
	piece  int
	at     int
	closed atomic.Bool
}

func newOutgoing(hold *buffer, pieces [][]byte) *outgoing {
	o := &outgoing{hold: hold, pieces: pieces}
	for _, p := range pieces {
		o.size += int64(len(p))
	}
	hold.refs.Add(1)
	return o
}

// again returns the same body to be sent anew. The caller still owns a
// reference to the buffer.
func (o *outgoing) again() (io.ReadCloser, error) { return newOutgoing(o.hold, o.pieces), nil }

func (o *outgoing) Read(p []byte) (n int, err error) {
	for o.piece < len(o.pieces) {
		n = copy(p, o.pieces[o.piece][o.at:])
		if o.at += n; o.at == len(o.pieces[o.piece]) {
			o.piece, o.at = o.piece+1, 0
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, io.EOF
}

// WriteTo spares the copy into a buffer between.
func (o *outgoing) WriteTo(w io.Writer) (n int64, err error) {
	for ; o.piece < len(o.pieces); o.piece, o.at = o.piece+1, 0 {
		m, err := w.Write(o.pieces[o.piece][o.at:])
		n += int64(m)
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func (o *outgoing) Close() error {
	if !o.closed.Swap(true) {
		o.hold.release()
	}
	return nil
}
