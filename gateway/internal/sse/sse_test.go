package sse

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// split feeds stream in chunks cut at the given positions.
func split(s *Splitter, stream []byte, cuts ...int) (pieces []string, whole []bool) {
	feed := func(chunk []byte) {
		// A copy, overwritten afterwards: nothing may be kept by reference.
		c := slices.Clone(chunk)
		s.Feed(c)
		for p, ok := s.Next(); ok; p, ok = s.Next() {
			pieces = append(pieces, string(p.Raw))
			whole = append(whole, p.Whole)
		}
		for i := range c {
			c[i] = 'X'
		}
	}
	from := 0
	for _, cut := range cuts {
		feed(stream[from:cut])
		from = cut
	}
	feed(stream[from:])
	if rest := s.Rest(); rest != nil {
		pieces = append(pieces, string(rest))
		whole = append(whole, false)
	}
	return pieces, whole
}

// messages are the events a client sees.
func messages(pieces []string) []string {
	var out []string
	for _, p := range pieces {
		if name, data := Fields([]byte(p)); data != nil || name != nil {
			out = append(out, fmt.Sprintf("%s|%s", name, data))
		}
	}
	return out
}

var streams = map[string]struct {
	stream string
	pieces []string
}{
	"lf":           {"data: a\n\ndata: b\n\n", []string{"data: a\n\n", "data: b\n\n"}},
	"crlf":         {"data: a\r\n\r\ndata: b\r\n\r\n", []string{"data: a\r\n\r\n", "data: b\r\n\r\n"}},
	"cr":           {"data: a\r\rdata: b\r\r", []string{"data: a\r\r", "data: b\r\r"}},
	"mixed":        {"event: x\rdata: a\n\r\ndata: b\r\n\n", []string{"event: x\rdata: a\n\r\n", "data: b\r\n\n"}},
	"comments":     {": ping\n\n: ping\ndata: a\n\n", []string{": ping\n\n", ": ping\ndata: a\n\n"}},
	"extra blanks": {"\n\ndata: a\n\n\n", []string{"\n", "\n", "data: a\n\n", "\n"}},
	"no end":       {"data: a\n\ndata: [DONE]", []string{"data: a\n\n", "data: [DONE]"}},
	"no blank":     {"data: a\n\ndata: [DONE]\n", []string{"data: a\n\n", "data: [DONE]\n"}},
	"several data": {"data: a\ndata: b\nid: 7\n\n", []string{"data: a\ndata: b\nid: 7\n\n"}},
	"utf-8":        {"data: héllo 🎉 \u2028 \u0085\n\ndata: ü\n\n", []string{"data: héllo 🎉 \u2028 \u0085\n\n", "data: ü\n\n"}},
	"bom":          {"\ufeffdata: a\n\n", []string{"\ufeffdata: a\n\n"}},
	"empty":        {"", nil},
}

func TestSplitterCutAnywhere(t *testing.T) {
	for name, tc := range streams {
		t.Run(name, func(t *testing.T) {
			stream := []byte(tc.stream)
			for i := 0; i <= len(stream); i++ {
				for j := i; j <= len(stream); j++ {
					got, _ := split(&Splitter{}, stream, i, j)
					if diff := cmp.Diff(tc.pieces, got); diff != "" {
						t.Fatalf("cut at %d and %d: %s", i, j, diff)
					}
				}
			}
			every := make([]int, 0, len(stream))
			for i := range stream {
				every = append(every, i)
			}
			got, _ := split(&Splitter{}, stream, every...)
			if diff := cmp.Diff(tc.pieces, got); diff != "" {
				t.Fatalf("byte by byte: %s", diff)
			}
		})
	}
}

func TestSplitterYieldsAtOnce(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", "\r"} {
		var s Splitter
		s.Feed([]byte("data: a" + end + end))
		p, ok := s.Next()
		if !ok || !p.Whole {
			t.Errorf("line end %q: the event waits for the next one", end)
		}
	}
}

func TestSplitterDoesNotCopyWholeEvents(t *testing.T) {
	chunk := []byte(strings.Repeat("data: some text\n\n", 20))
	var s Splitter
	allocs := testing.AllocsPerRun(100, func() {
		s.Feed(chunk)
		at := 0
		for p, ok := s.Next(); ok; p, ok = s.Next() {
			if &p.Raw[0] != &chunk[at] {
				t.Fatal("copied")
			}
			at += len(p.Raw)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestSplitterLimit(t *testing.T) {
	long := "data: " + strings.Repeat("x", 100) + "\n\n"
	stream := []byte("data: a\n\n" + long + "data: b\n\n")
	for size := 1; size <= len(stream); size++ {
		s := Splitter{Limit: 32}
		var cuts []int
		for i := size; i < len(stream); i += size {
			cuts = append(cuts, i)
		}
		pieces, whole := split(&s, stream, cuts...)
		if got := strings.Join(pieces, ""); got != string(stream) {
			t.Fatalf("chunks of %d: bytes lost: %q", size, got)
		}
		if !whole[0] || !whole[len(whole)-1] || pieces[len(pieces)-1] != "data: b\n\n" {
			t.Fatalf("chunks of %d: events around the long one: %q %v", size, pieces, whole)
		}
		for i, p := range pieces[1 : len(pieces)-1] {
			if whole[i+1] && p != long {
				t.Fatalf("chunks of %d: part %q given as whole", size, p)
			}
		}
		if cap(s.buf) != 0 {
			t.Fatalf("chunks of %d: Rest kept the buffer", size)
		}
	}
}

func TestFields(t *testing.T) {
	for _, tc := range []struct{ raw, name, data string }{
		{"data: a\n\n", "<nil>", "a"},
		{"data:a\n\n", "<nil>", "a"},
		{"data:  a \n\n", "<nil>", " a "},
		{"data: a\ndata:b\ndata\n\n", "<nil>", "a\nb\n"},
		{"event: message_start\r\ndata: {\"a\":\":\"}\r\n\r\n", "message_start", `{"a":":"}`},
		{"event:x\rdata: a\r\r", "x", "a"},
		{"data: a\nevent: x\n\n", "x", "a"},
		{": comment: data: no\n\n", "<nil>", "<nil>"},
		{"\ufeffdata: a\n\n", "<nil>", "a"},
		{"data\n\n", "<nil>", ""},
		{"data:\n\n", "<nil>", ""},
		{"id: 1\nretry: 5\n\n", "<nil>", "<nil>"},
		{"datax: a\n\n", "<nil>", "<nil>"},
		{"\ndata: a", "<nil>", "a"},
		{"", "<nil>", "<nil>"},
	} {
		name, data := Fields([]byte(tc.raw))
		show := func(b []byte) string {
			if b == nil {
				return "<nil>"
			}
			return string(b)
		}
		if show(name) != tc.name || show(data) != tc.data {
			t.Errorf("%q: name %q, data %q", tc.raw, show(name), show(data))
		}
	}
}

func TestFieldsDoesNotAllocate(t *testing.T) {
	raw := []byte("event: x\ndata: {\"a\":1}\n\n")
	if n := testing.AllocsPerRun(100, func() { Fields(raw) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAppend(t *testing.T) {
	for _, tc := range []struct{ name, data, want string }{
		{"", "a", "data: a\n\n"},
		{"x", "a", "event: x\ndata: a\n\n"},
		{"", "", "data: \n\n"},
		{"", "a\nb", "data: a\ndata: b\n\n"},
		{"", "a\r\nb\rc\n", "data: a\ndata: b\ndata: c\ndata: \n\n"},
	} {
		if got := string(Append(nil, tc.name, []byte(tc.data))); got != tc.want {
			t.Errorf("%q %q: %q", tc.name, tc.data, got)
		}
	}
}

func TestEvents(t *testing.T) {
	var got []string
	for raw := range Events([]byte("data: a\n\ndata: b\n\ndata: c")) {
		got = append(got, string(raw))
	}
	if diff := cmp.Diff([]string{"data: a\n\n", "data: b\n\n", "data: c"}, got); diff != "" {
		t.Error(diff)
	}
	for raw := range Events([]byte("data: a\n\ndata: b\n\n")) {
		if string(raw) != "data: a\n\n" {
			t.Error("goes on after a break")
		}
		break
	}
}

func FuzzSplitter(f *testing.F) {
	for _, tc := range streams {
		f.Add([]byte(tc.stream), 3, 7, 1<<20)
		f.Add([]byte(tc.stream), 1, 1, 4)
	}
	f.Fuzz(func(t *testing.T, stream []byte, first, step, limit int) {
		var cuts []int
		if step > 0 {
			for i := max(first, 0); i < len(stream); i += step {
				cuts = append(cuts, i)
			}
		}
		pieces, _ := split(&Splitter{Limit: limit}, stream, cuts...)
		if strings.Join(pieces, "") != string(stream) {
			t.Fatalf("bytes lost or changed: %q", pieces)
		}
		once, _ := split(&Splitter{}, stream)
		cut, _ := split(&Splitter{}, stream, cuts...)
		if diff := cmp.Diff(messages(once), messages(cut)); diff != "" {
			t.Fatalf("the cuts show: %s", diff)
		}
	})
}

func FuzzAppendFields(f *testing.F) {
	f.Add("x", []byte("a\nb"))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		if strings.ContainsAny(name, "\r\n") || strings.HasPrefix(name, " ") || !utf8.ValidString(name) {
			return
		}
		raw := Append(nil, name, data)
		pieces, whole := split(&Splitter{}, raw)
		if len(pieces) != 1 || !whole[0] {
			t.Fatalf("not one event: %q", pieces)
		}
		n, d := Fields(raw)
		lf := bytes.ReplaceAll(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
		if string(n) != name || !bytes.Equal(d, lf) {
			t.Fatalf("name %q, data %q", n, d)
		}
	})
}

func BenchmarkSplitter(b *testing.B) {
	event := "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},\"finish_reason\":null}]}\n\n"
	chunk := []byte(strings.Repeat(event, 50))
	b.SetBytes(int64(len(chunk)))
	b.ReportAllocs()
	var s Splitter
	for b.Loop() {
		s.Feed(chunk)
		for _, ok := s.Next(); ok; _, ok = s.Next() {
		}
	}
}
