package views

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/icyloom/icyloom/projections"
)

// tab is one open stream.
type tab struct {
	t      testing.TB
	res    *http.Response
	lines  *bufio.Scanner
	cancel context.CancelFunc
}

func serve(t testing.TB, c *Console) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	t.Cleanup(func() { // before the server waits for its streams
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return srv
}

func open(t testing.TB, srv *httptest.Server, window string) *tab {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", srv.URL+"/events?window="+window, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<22)
	return &tab{t, res, lines, cancel}
}

// next returns the next message's data, or ":" for a comment; "" at the end.
func (s *tab) next() string {
	var data []string
	for s.lines.Scan() {
		switch line := s.lines.Text(); {
		case line == "" && len(data) > 0:
			return strings.Join(data, "\n")
		case line == "":
			return ":"
		case strings.HasPrefix(line, "data: "):
			data = append(data, line[len("data: "):])
		}
	}
	return ""
}

// until reads on to a message that holds s, and returns how many came.
func (s *tab) until(want string) (messages int) {
	s.t.Helper()
	for {
		m := s.next()
		if m == "" {
			s.t.Fatalf("the stream ended before it said %q", want)
		}
		if m != ":" {
			messages++
		}
		if strings.Contains(m, want) {
			return messages
		}
	}
}

func TestStreamSendsOnlyChanges(t *testing.T) {
	t.Parallel()
	s := newSource()
	var now atomic.Int64
	c := newConsole(t, s, func(o *Options) {
		o.Now = func() time.Time { return clock.Add(time.Duration(now.Add(1)) * time.Second) }
	})
	tab := open(t, serve(t, c), "24h")
	if got := tab.res.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("Content-Type %q", got)
	}
	if m := tab.next(); !strings.HasPrefix(m, `<div id="view">`) || !strings.Contains(m, "2,483") {
		t.Fatalf("the first message is %.200q", m)
	}
	for range 4 { // the clock moves, the numbers do not
		if m := tab.next(); m != ":" {
			t.Fatalf("a message without a change: %.200q", m)
		}
	}
	s.change(func(d *projections.Dashboard) { d.KPI.Calls = 98_765 })
	if n := tab.until("98,765"); n != 1 {
		t.Errorf("one change took %d messages", n)
	}
	for range 3 {
		if m := tab.next(); m != ":" {
			t.Fatalf("the change came twice: %.200q", m)
		}
	}
}

func TestStreamSurvivesFailure(t *testing.T) {
	t.Parallel()
	s := newSource()
	tab := open(t, serve(t, newConsole(t, s)), "1h")
	tab.until("All is well")
	s.fail(errors.New("disk I/O error"))
	tab.until("disk I/O error")
	s.fail(nil)
	tab.until("All is well")
}

// TestTabsShareQuestions holds that a tick costs one question a window at most,
// however many tabs look at it.
func TestTabsShareQuestions(t *testing.T) {
	t.Parallel()
	s := newSource()
	c := newConsole(t, s)
	srv := serve(t, c)
	var all sync.WaitGroup
	for range 20 {
		tab := open(t, srv, "24h")
		all.Go(func() {
			for range 6 {
				if tab.next() == "" {
					t.Error("a stream ended")
				}
			}
		})
	}
	all.Wait()
	asked := s.asked.Load() // read before the ticks, which only grow
	if ticks := int64(time.Since(c.start)/c.opt.Tick) + 1; asked > ticks {
		t.Errorf("%d questions in %d ticks", asked, ticks)
	}
	if asked < 6 {
		t.Errorf("%d questions: the tabs were not live", asked)
	}
}

// TestMakerMayLeave holds that a tab that leaves does not fail the others.
func TestMakerMayLeave(t *testing.T) {
	t.Parallel()
	f := newFeed()
	ctx, leave := context.WithCancel(t.Context())
	got, err := f.at(ctx, 1, func(ctx context.Context, _ frame) frame {
		leave()
		return frame{hash: "made", html: []byte(errText(ctx.Err()))}
	})
	if err != nil || string(got.html) != "" {
		t.Errorf("%v %q", err, got.html)
	}
	again, err := f.at(t.Context(), 1, func(context.Context, frame) frame { t.Error("made twice"); return frame{} })
	if err != nil || again.hash != "made" {
		t.Error(err, again.hash)
	}
	f.lock <- struct{}{}
	if _, err := f.at(ctx, 2, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a tab that left still waits: %v", err)
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	c := newConsole(t, newSource(), func(o *Options) { o.Streams = 2 })
	srv := serve(t, c)
	res, err := srv.Client().Head(srv.URL + "/events") // asks only whether there is one
	if err != nil || res.StatusCode != 200 || res.Body.Close() != nil {
		t.Fatal(res, err)
	}
	one, two := open(t, srv, "1h"), open(t, srv, "24h")
	one.next()
	two.next()
	if res := open(t, srv, "1h").res; res.StatusCode != 503 || res.Header.Get("Retry-After") == "" {
		t.Errorf("a third of two streams: %d", res.StatusCode)
	}
	one.cancel()
	for deadline := time.Now().Add(20 * time.Second); ; {
		if open(t, srv, "1h").res.StatusCode == 200 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a closed stream never gave its place back")
		}
	}
}

func TestCloseEndsStreams(t *testing.T) {
	t.Parallel()
	s := newSource()
	c := newConsole(t, s, func(o *Options) { o.Tick = time.Hour })
	srv := serve(t, c)
	tab := open(t, srv, "24h")
	tab.next()
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m := tab.next(); m != "" {
		t.Errorf("after Close came %.80q", m)
	}
	if res := open(t, srv, "24h").res; res.StatusCode != 503 {
		t.Errorf("a new stream after Close: %d", res.StatusCode)
	}
	if res := get(t, c, "/"); res.Code != 200 {
		t.Errorf("a page after Close: %d", res.Code)
	}
}

func TestCloseGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	s := newSource()
	s.block = make(chan struct{})
	c := newConsole(t, s)
	srv := serve(t, c)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if res, err := srv.Client().Get(srv.URL + "/events"); err == nil {
			_ = res.Body.Close()
		}
	}()
	for s.asked.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Close: %v", err)
	}
	close(s.block)
	<-ended
}

func TestEventKeepsEveryLineInside(t *testing.T) {
	t.Parallel()
	got := string(event([]byte("a\r\nb\rdata: c\n\nd")))
	if want := "data: a\ndata: b\ndata: data: c\ndata: \ndata: d\n\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
