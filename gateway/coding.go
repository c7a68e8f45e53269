package gateway

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

var errCoding = errors.New("gateway: unknown content coding")

// maxWindow bounds the memory of a decoder, in bytes.
const maxWindow = 64 << 20

// decoder returns a reader of what r holds in a content coding. It starts no
// goroutine.
func decoder(coding string, r io.Reader) (io.Reader, func(), error) {
	switch strings.ToLower(strings.TrimSpace(coding)) {
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(r)
		return z, func() {}, err
	case "deflate":
		// By the standard a zlib stream; some send a bare deflate stream.
		b := bufio.NewReader(r)
		if head, err := b.Peek(2); err == nil && head[0]&0x0f == 8 && (uint(head[0])<<8|uint(head[1]))%31 == 0 {
			z, err := zlib.NewReader(b)
			return z, func() {}, err
		}
		return flate.NewReader(b), func() {}, nil
	case "br":
		return brotli.NewReader(r), func() {}, nil
	case "zstd":
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	return nil, nil, fmt.Errorf("%w %q", errCoding, clip(coding, 32))
}

// decodes tells whether a Content-Encoding is one that decoder knows, or none.
func decodes(encoding string) bool {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity", "gzip", "x-gzip", "deflate", "br", "zstd":
		return true
	}
	return false
}

// decode undoes a Content-Encoding, which may list several. What would be larger
// than limit is errTooLarge.
func decode(encoding string, body []byte, limit int64) (*buffer, error) {
	return decodeVia(encoding, body, limit, func(r io.Reader) io.Reader { return r })
}

// decodeVia is decode with all that comes out of a decoder read through via.
func decodeVia(encoding string, body []byte, limit int64, via func(io.Reader) io.Reader) (*buffer, error) {
	codings := strings.Split(encoding, ",")
	if len(codings) > 3 {
		return nil, errCoding
	}
	var out *buffer
	for i := len(codings) - 1; i >= 0; i-- {
		if c := strings.TrimSpace(codings[i]); c == "" || strings.EqualFold(c, "identity") {
			continue
		}
		next, err := decodeOne(codings[i], body, limit, via)
		if out != nil {
			out.release()
		}
		if err != nil {
			return nil, err
		}
		out, body = next, next.b
	}
	if out == nil {
		out = newBuffer()
		out.b = append(out.b, body...)
	}
	return out, nil
}

func decodeOne(coding string, body []byte, limit int64, via func(io.Reader) io.Reader) (*buffer, error) {
	r, done, err := decoder(coding, &slice{b: body})
	if err != nil {
		return nil, err
	}
	defer done()
	b := newBuffer()
	if err := b.readAll(via(r), limit); err != nil {
		b.release()
		return nil, err
	}
	return b, nil
}

// slice reads a byte slice.
type slice struct{ b []byte }

func (s *slice) Read(p []byte) (int, error) {
	if len(s.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.b)
	s.b = s.b[n:]
	return n, nil
}

// tap decodes a stream that arrives in pieces, without a goroutine: feed hands
// in a piece and calls f with what can be decoded of it now.
type tap struct {
	in   []byte
	end  bool // no more input comes
	next func() ([]byte, bool)
	stop func()
	dead bool
}

var errStopped = errors.New("gateway: tap stopped")

func newTap(coding string) *tap {
	t := &tap{}
	t.next, t.stop = iter.Pull(func(yield func([]byte) bool) {
		src := bufio.NewReader(starving{func(p []byte) (int, error) {
			for len(t.in) == 0 {
				if t.end {
					return 0, io.EOF
				}
				if !yield(nil) { // nil asks for more
					return 0, errStopped
				}
			}
			n := copy(p, t.in)
			t.in = t.in[n:]
			return n, nil
		}})
		r, done, err := decoder(coding, src)
		if err != nil {
			return
		}
		defer done()
		z, zipped := r.(*gzip.Reader)
		if zipped {
			z.Multistream(false) // it would withhold the end until it knows what follows
		}
		out := make([]byte, 16<<10)
		for {
			n, err := r.Read(out)
			if n > 0 && !yield(out[:n]) {
				return
			}
			if err == io.EOF && zipped && z.Reset(src) == nil {
				z.Multistream(false)
			} else if err != nil {
				return
			}
		}
	})
	return t
}

// feed decodes the next piece. What cannot be decoded is passed over in
// silence: the bytes themselves go to the client all the same.
func (t *tap) feed(piece []byte, f func(decoded []byte)) {
	t.in = piece
	for !t.dead {
		out, ok := t.next()
		if !ok {
			t.dead = true
		}
		if out == nil {
			return
		}
		f(out)
	}
}

// finish decodes what is left when the input has ended.
func (t *tap) finish(f func(decoded []byte)) {
	t.end = true
	t.feed(nil, f)
}

// starving is a reader that asks for input when it runs out.
type starving struct{ read func([]byte) (int, error) }

func (s starving) Read(p []byte) (int, error) { return s.read(p) }
