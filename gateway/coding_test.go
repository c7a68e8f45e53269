package gateway

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// Whatever the bytes: no panic, never more than the limit, and a tap that is fed
// piece by piece reads what decoding at once reads.
func FuzzDecode(f *testing.F) {
	for _, coding := range []string{"gzip", "deflate", "br", "zstd", "gzip, br", "identity", "x"} {
		f.Add(coding, []byte("hello"), uint8(3))
		f.Add(coding, packed(f, "gzip"), uint8(3))
		f.Add(coding, packed(f, "br"), uint8(200))
		f.Add(coding, packed(f, "zstd"), uint8(1))
	}
	f.Fuzz(func(t *testing.T, coding string, body []byte, step uint8) {
		const limit = 1 << 16
		whole, err := decode(coding, body, limit)
		if err == nil {
			if len(whole.b) > limit {
				t.Fatalf("%d bytes", len(whole.b))
			}
			defer whole.release()
		}
		tap := newTap(coding)
		defer tap.stop()
		var got []byte
		collect := func(b []byte) {
			if len(got) <= limit {
				got = append(got, b...)
			}
		}
		for rest := body; len(rest) > 0; {
			n := min(len(rest), int(step)+1)
			tap.feed(rest[:n], collect)
			rest = rest[n:]
		}
		tap.finish(collect)
		if err == nil && (coding == "gzip" || coding == "br" || coding == "zstd") && !bytes.Equal(got, whole.b) {
			t.Fatalf("tap reads %q, not %q", got, whole.b)
		}
	})
}

func packed(f *testing.F, coding string) []byte {
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		w, _ = zstd.NewWriter(&b)
	}
	_, _ = w.Write(bytes.Repeat([]byte("hello "), 100))
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	return b.Bytes()
}
