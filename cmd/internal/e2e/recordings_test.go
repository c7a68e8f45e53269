package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/icyloom/icyloom/events"
)

// TestRecordings plays the recordings that the project ships.
func TestRecordings(t *testing.T) {
	internal := filepath.Join("..", "..", "..", "gateway", "internal")
	rows := loadRows(t, filepath.Join(internal, "openai", "testdata"))
	rows = append(rows, loadRows(t, filepath.Join(internal, "anthropic", "testdata"))...)
	if len(rows) == 0 {
		t.Fatal("no recordings in gateway/internal/*/testdata")
	}
	playAll(t, rows)
}

// TestRecordingsFolder plays the recordings of a folder of the user's.
func TestRecordingsFolder(t *testing.T) {
	dir := os.Getenv("ICYLOOM_RECORDINGS")
	if dir == "" {
		t.Skip("SKIPPED: recordings other than the shipped ones were not tried: set ICYLOOM_RECORDINGS to a folder of them")
	}
	rows := loadRows(t, dir)
	if len(rows) == 0 {
		t.Fatalf("no recordings in %s", dir)
	}
	playAll(t, rows)
}

// played is what became of one row.
type played struct {
	row
	request       []byte // as the client sent it
	first         answer
	again, crossd answer // the repeats in the same and the other form
	calls         [3]int // upstream calls of the row after each request
	faults        []string
}

func (p *played) fault(format string, a ...any) {
	p.faults = append(p.faults, fmt.Sprintf(format, a...))
}

// stage is the fake upstream of recordings: a request's credential names its row,
// and behind a dot whatever makes it one of its own.
type stage struct {
	*upstream
	rows []row
}

const rowKey = "sk-recording-"

func newStage(t *testing.T, rows []row) *stage {
	s := &stage{rows: rows}
	s.upstream = newUpstream(t, func(w http.ResponseWriter, c call) {
		i := rowOf(c)
		if i < 0 || i >= len(rows) {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		rows[i].play(w)
	})
	return s
}

func rowOf(c call) int {
	key := c.header.Get("X-Api-Key")
	if key == "" {
		key = strings.TrimPrefix(c.header.Get("Authorization"), "Bearer ")
	}
	key, _, _ = strings.Cut(key, ".")
	i, err := strconv.Atoi(strings.TrimPrefix(key, rowKey))
	if err != nil {
		return -1
	}
	return i
}

// of are the calls that came for one row.
func (s *stage) of(i int) []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []call
	for _, c := range s.calls {
		if rowOf(c) == i {
			out = append(out, c)
		}
	}
	return out
}

// playAll sends every row's request three times (as recorded, again, and in the
// other form) and holds answers and ledger against the recording.
func playAll(t *testing.T, rows []row) {
	s := newStage(t, rows)
	d := start(t, setup{OpenAI: s.URL, Anthropic: s.URL})
	all := make([]played, len(rows))
	var group errgroup.Group
	group.SetLimit(8)
	for i := range rows {
		all[i].row = rows[i]
		group.Go(func() error { all[i].play(t, d, s, i); return nil })
	}
	_ = group.Wait() // faults are in the rows
	booked := calls(t, d.export(t))
	var hits, missed int
	for i := range all {
		p := &all[i]
		p.checkFirst(s.of(i))
		p.checkLedger(booked)
		if p.verdict() == mustHit {
			p.checkHit(booked)
			hits++
		} else if p.verdict() == mustNotHit {
			missed++
		}
		if f := p.ruleFault(); f != "" {
			t.Logf("recording %s: %s", p.Name, f)
		}
		for _, f := range p.faults {
			t.Errorf("%s (%s, %v): %s", p.Name, p.api, p.form(), f)
		}
	}
	t.Logf("%d recordings: %d must be repeated, %d must not", len(all), hits, missed)
}

// play sends the row's requests. The other form is only asked for where the
// answer must come from the cache: the recording has no bytes for it.
func (p *played) play(t *testing.T, d *daemon, s *stage, i int) {
	h := http.Header{}
	api := p.api
	if api == events.APICountTokens {
		api = events.APIMessages
	}
	credentials(h, api, rowKey+strconv.Itoa(i))
	p.request = compact(p.Request)
	if p.form() == asSSE != streams(p.request) {
		p.request = withStream(t, p.request, p.form())
	}
	send := func(body []byte, n int) answer {
		a := post(t.Context(), d.http, d.gateway+p.path, h.Clone(), body)
		p.calls[n] = len(s.of(i))
		return a
	}
	p.first = send(p.request, 0)
	p.again = send(p.request, 1)
	if p.verdict() == mustHit {
		other := withStream(t, p.request, !p.form())
		if p.api == events.APIChat && p.form() == asJSON {
			other = bytes.Replace(other, []byte("{"), []byte(`{"stream_options":{"include_usage":true},`), 1)
		}
		p.crossd = send(other, 2)
	}
}

func compact(b []byte) []byte {
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		return b
	}
	return out.Bytes()
}

// streams tells whether a request asks for a stream.
func streams(body []byte) bool {
	var ask struct {
		Stream bool `json:"stream"`
	}
	return json.Unmarshal(body, &ask) == nil && ask.Stream
}

// checkFirst holds the first answer, and what reached the upstream, to the bytes.
func (p *played) checkFirst(reached []call) {
	if p.first.err != nil {
		p.fault("no whole answer: %v", p.first.err)
	}
	if p.first.status != p.Status {
		p.fault("status %d, want %d", p.first.status, p.Status)
	}
	if got := p.first.header.Get("Content-Type"); got != p.contentType() {
		p.fault("content type %q, want %q", got, p.contentType())
	}
	for k, want := range p.Headers {
		if k = http.CanonicalHeaderKey(k); k != "Transfer-Encoding" && k != "Content-Length" && p.first.header.Get(k) != want {
			p.fault("header %s is %q, want %q", k, p.first.header.Get(k), want)
		}
	}
	if want := p.visible(); !bytes.Equal(p.first.body, want) {
		p.fault("the body differs from byte %d on (%d bytes, want %d)", common(p.first.body, want), len(p.first.body), len(want))
	}
	if len(reached) == 0 {
		p.fault("nothing reached the upstream")
		return
	}
	if want := p.forwarded(); !bytes.Equal(reached[0].body, want) && !sameJSON(reached[0].body, want) {
		p.fault("the forwarded body differs from byte %d on: %.200q", common(reached[0].body, p.request), reached[0].body)
	} else if !p.addsUsage() && !bytes.Equal(reached[0].body, p.request) {
		p.fault("the forwarded body is not byte for byte the client's")
	}
}

// addsUsage tells whether the gateway asks for usage where the client did not.
func (p *played) addsUsage() bool {
	var ask struct {
		Options struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	return p.api == events.APIChat && streams(p.request) && json.Unmarshal(p.request, &ask) == nil && !ask.Options.IncludeUsage
}

// forwarded is the request as the upstream should get it, up to spelling.
func (p *played) forwarded() []byte {
	if !p.addsUsage() {
		return p.request
	}
	var m object
	_ = json.Unmarshal(p.request, &m) // it is the recording's own
	options, _ := m["stream_options"].(object)
	if options == nil {
		options = object{}
	}
	options["include_usage"] = true
	m["stream_options"] = options
	return encode(m)
}

// visible is the recorded body as the client should get it: without the usage
// chunk when it did not ask for one.
func (p *played) visible() []byte {
	if !p.addsUsage() {
		return []byte(p.Body)
	}
	var out strings.Builder
	for block := range strings.SplitAfterSeq(p.Body, "\n\n") {
		var v struct {
			Choices []any  `json:"choices"`
			Usage   object `json:"usage"`
		}
		data, ok := strings.CutPrefix(strings.TrimSpace(block), "data:")
		if ok && json.Unmarshal([]byte(data), &v) == nil && v.Choices != nil && len(v.Choices) == 0 && v.Usage != nil {
			continue
		}
		out.WriteString(block)
	}
	return []byte(out.String())
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && string(encode(x)) == string(encode(y))
}

// common is the length of the common beginning.
func common(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
