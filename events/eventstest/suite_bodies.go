package eventstest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/icyloom/icyloom/events"
)

func put(t *testing.T, h Harness, b events.Body) {
	t.Helper()
	if err := h.Log.Put(within(t), b); err != nil {
		t.Fatalf("put: %v", err)
	}
}

func wantBody(t *testing.T, h Harness, want events.Body, now time.Time) {
	t.Helper()
	got, err := h.Log.Get(within(t), want.Class, want.Key, now)
	if err != nil {
		t.Fatalf("get %s: %v", want.Key, err)
	}
	if got.Class != want.Class || got.Key != want.Key || !got.Expires.Equal(want.Expires) ||
		!bytes.Equal(got.Meta, want.Meta) || !bytes.Equal(got.Data, want.Data) {
		t.Fatalf("get %s: %d bytes, meta %q, expires %s; want %d bytes, meta %q, expires %s",
			want.Key, len(got.Data), got.Meta, got.Expires, len(want.Data), want.Meta, want.Expires)
	}
}

func wantNoBody(t *testing.T, h Harness, class events.Class, key string, now time.Time) {
	t.Helper()
	if b, err := h.Log.Get(within(t), class, key, now); !errors.Is(err, events.ErrNoBody) || b.Data != nil {
		t.Fatalf("get %s: %d bytes, %v; want ErrNoBody", key, len(b.Data), err)
	}
}

var noon = time.Date(2026, 3, 4, 12, 0, 0, 123456789, time.UTC)

func testBodies(t *testing.T, h Harness) {
	key := strings.Repeat("0123456789abcdef", 4)
	wantNoBody(t, h, events.BodyCache, key, noon)
	bodies := []events.Body{
		{Class: events.BodyCache, Key: key, Data: []byte(strings.Repeat("data: {}\n\n", 50)), Meta: []byte(`{"form":"sse"}`), Expires: noon.Add(time.Hour)},
		{Class: events.BodyDrawer, Key: key, Data: []byte("another class, the same key")},
		{Class: events.BodyResult, Key: "A-z_9", Data: []byte{0, 255, 10, 13}},
		{Class: events.BodyResult, Key: strings.Repeat("k", 128), Meta: []byte(strings.Repeat("m", 64<<10))},
	}
	for _, b := range bodies {
		put(t, h, b)
	}
	for _, b := range bodies {
		wantBody(t, h, b, noon)
	}
	wantNoBody(t, h, events.BodyResult, key, noon)
	if err := h.Log.Erase(within(t), events.BodyResult, "never-there"); err != nil {
		t.Fatalf("erase of nothing: %v", err)
	}
}

func testBodyReplaced(t *testing.T, h Harness) {
	b := events.Body{Class: events.BodyCache, Key: "k"}
	for i, size := range []int{10, 2 << 20, 20, 1 << 20, 0, 3 << 20} {
		b.Data = noise(size)
		b.Meta = fmt.Append(nil, i)
		put(t, h, b)
		wantBody(t, h, b, noon)
	}
}

func testBodyExpiry(t *testing.T, h Harness) {
	b := events.Body{Class: events.BodyCache, Key: "k", Data: []byte("x"), Expires: noon}
	put(t, h, b)
	wantBody(t, h, b, noon.Add(-time.Nanosecond))
	wantNoBody(t, h, b.Class, b.Key, noon)
	wantNoBody(t, h, b.Class, b.Key, noon.Add(time.Hour))
	b.Expires = time.Time{}
	put(t, h, b)
	wantBody(t, h, b, noon.AddDate(100, 0, 0))
}

// noise returns bytes that do not compress, so that large bodies stay large.
func noise(n int) []byte {
	r := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)})
	b := make([]byte, n)
	_, _ = r.Read(b) // never fails
	return b
}

func testLargeBodies(t *testing.T, h Harness) {
	for _, size := range []int{511 << 10, 512 << 10, 513 << 10, 5<<20 + 1, 32 << 20} {
		b := events.Body{Class: events.BodyResult, Key: fmt.Sprint("k", size), Data: noise(size), Meta: []byte("{}")}
		put(t, h, b)
		wantBody(t, h, b, noon)
	}
}

func testBodyErased(t *testing.T, h Harness) {
	secret := noise(64)
	kept := events.Body{Class: events.BodyDrawer, Key: "kept", Data: noise(100)}
	put(t, h, kept)
	for _, size := range []int{1000, 2 << 20} {
		b := events.Body{Class: events.BodyDrawer, Key: "k", Data: append(noise(size), secret...), Meta: []byte("meta-secret-7c1e")}
		put(t, h, b)
		b.Data = append(noise(size+1), secret...) // the replaced one must go too
		put(t, h, b)
		if h.Dir != "" && !inFiles(t, h.Dir, secret) {
			t.Fatal("the body is not in the store's files at all: this test proves nothing")
		}
		if err := h.Log.Erase(within(t), b.Class, b.Key); err != nil {
			t.Fatalf("erase: %v", err)
		}
		wantNoBody(t, h, b.Class, b.Key, noon)
		if h.Dir != "" && (inFiles(t, h.Dir, secret) || inFiles(t, h.Dir, b.Meta)) {
			t.Fatal("erased bytes are still in the store's files")
		}
		if err := h.Log.Erase(within(t), b.Class, b.Key); err != nil {
			t.Fatalf("second erase: %v", err)
		}
		put(t, h, b)
		wantBody(t, h, b, noon)
	}
	wantBody(t, h, kept, noon)
}

func inFiles(t *testing.T, dir string, what []byte) bool {
	t.Helper()
	found := false
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		found = found || bytes.Contains(b, what)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func keys(t *testing.T, h Harness, class events.Class) []string {
	t.Helper()
	var ks []string
	for ref, err := range h.Log.Keys(within(t), class) {
		if err != nil {
			t.Fatalf("keys: %v", err)
		}
		if ref.Class != class {
			t.Fatalf("class %s among those of %s", ref.Class, class)
		}
		ks = append(ks, ref.Key)
	}
	slices.Sort(ks)
	return ks
}

func testBodyKeys(t *testing.T, h Harness) {
	if ks := keys(t, h, events.BodyCache); len(ks) != 0 {
		t.Fatalf("keys of an empty store: %v", ks)
	}
	for i := range 50 {
		put(t, h, events.Body{Class: events.BodyCache, Key: fmt.Sprintf("k%02d", i), Data: []byte("x"), Expires: noon})
	}
	put(t, h, events.Body{Class: events.BodyCache, Key: "large", Data: noise(2 << 20)})
	put(t, h, events.Body{Class: events.BodyDrawer, Key: "other", Data: []byte("x")})
	if err := h.Log.Erase(within(t), events.BodyCache, "k07"); err != nil {
		t.Fatal(err)
	}
	ks := keys(t, h, events.BodyCache)
	if len(ks) != 50 || slices.Contains(ks, "k07") || !slices.Contains(ks, "large") || ks[0] != "k00" {
		t.Fatalf("%d keys: %v", len(ks), ks)
	}
	for range h.Log.Keys(within(t), events.BodyCache) {
		break // stopping early is allowed
	}
}

func testBodyNames(t *testing.T, h Harness) {
	for _, b := range []events.Body{
		{Class: events.BodyCache},
		{Key: "k"},
		{Class: "other", Key: "k"},
		{Class: events.BodyCache, Key: "a.b"},
		{Class: events.BodyCache, Key: "*"},
		{Class: events.BodyCache, Key: "a b"},
		{Class: events.BodyCache, Key: strings.Repeat("k", 129)},
	} {
		if err := h.Log.Put(within(t), b); !errors.Is(err, events.ErrInvalid) {
			t.Errorf("put %q %q: %v", b.Class, b.Key, err)
		}
		if _, err := h.Log.Get(within(t), b.Class, b.Key, noon); !errors.Is(err, events.ErrInvalid) {
			t.Errorf("get %q %q: %v", b.Class, b.Key, err)
		}
		if err := h.Log.Erase(within(t), b.Class, b.Key); !errors.Is(err, events.ErrInvalid) {
			t.Errorf("erase %q %q: %v", b.Class, b.Key, err)
		}
	}
}

// testBodiesConcurrent: whatever the order of puts and erasures, a body read is
// one that was put, whole.
func testBodiesConcurrent(t *testing.T, h Harness) {
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 25 {
				size := 100 + 997*w
				if i%10 == 9 {
					size = 700<<10 + w
				}
				b := events.Body{Class: events.BodyResult, Key: "shared", Data: noise(size), Meta: fmt.Append(nil, size)}
				if err := h.Log.Put(within(t), b); err != nil {
					t.Errorf("put: %v", err)
				}
				got, err := h.Log.Get(within(t), b.Class, b.Key, noon)
				if errors.Is(err, events.ErrNoBody) {
					continue // erased in between
				}
				if err != nil || string(got.Meta) != fmt.Sprint(len(got.Data)) || !bytes.Equal(got.Data, noise(len(got.Data))) {
					t.Errorf("get: %d bytes with meta %q, %v", len(got.Data), got.Meta, err)
				}
				if i%8 == 7 {
					if err := h.Log.Erase(within(t), b.Class, b.Key); err != nil {
						t.Errorf("erase: %v", err)
					}
				}
			}
		})
	}
	wg.Wait()
	b := events.Body{Class: events.BodyResult, Key: "shared", Data: []byte("last")}
	put(t, h, b)
	wantBody(t, h, b, noon)
}
