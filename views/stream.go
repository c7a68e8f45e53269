package views

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/icyloom/icyloom/projections"
)

// frame is a window's fragment at one tick.
type frame struct {
	tick int64  // which tick it was asked in; 0: none yet
	hash string // of what the fragment shows, the moment of reading aside
	html []byte
}

// feed keeps a window's newest frame for all tabs that look at it, so that
// however many there are, a tick costs one question and one drawing.
type feed struct {
	lock  chan struct{} // holds one token while a frame is made
	frame frame
}

func newFeed() *feed { return &feed{lock: make(chan struct{}, 1)} }

// at returns the frame of a tick and makes it when no one has. The maker does
// not give up when its own tab leaves, since others may wait for the result.
func (f *feed) at(ctx context.Context, tick int64, render func(ctx context.Context, last frame) frame) (frame, error) {
	select {
	case f.lock <- struct{}{}:
	case <-ctx.Done():
		return frame{}, ctx.Err()
	}
	defer func() { <-f.lock }()
	if f.frame.tick < tick {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), frameTimeout)
		defer cancel()
		f.frame = render(ctx, f.frame)
		f.frame.tick = tick
	}
	return f.frame, nil
}

// frameTimeout bounds one question for a stream; what is late is shown as a
// failure, and the next tick asks again.
const frameTimeout = 10 * time.Second

// events is the stream of one tab: the fragment at once, then whenever it has
// changed, and a comment at ticks where it has not. It ends with its request,
// or with the console.
func (c *Console) events(w http.ResponseWriter, r *http.Request) {
	win, err := window(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case <-c.closed:
		streamRefused(w, "The console is closing.")
		return
	default:
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	default:
		streamRefused(w, "Too many live pages are open: close some.")
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		return
	}
	c.follow(r.Context(), w, win)
}

func streamRefused(w http.ResponseWriter, sentence string) {
	w.Header().Set("Retry-After", "5")
	http.Error(w, sentence, http.StatusServiceUnavailable)
}

// follow sends frames until ctx or the console ends, or the tab does not read.
func (c *Console) follow(ctx context.Context, w http.ResponseWriter, win projections.Window) {
	out := http.NewResponseController(w)
	defer func() { _ = out.SetWriteDeadline(time.Time{}) }() // the connection may serve on
	timer := time.NewTimer(0)
	defer timer.Stop()
	sent := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.closed:
			return
		case <-timer.C:
		}
		tick := int64(time.Since(c.start)/c.opt.Tick) + 1
		f, err := c.feeds[win].at(ctx, tick, func(ctx context.Context, last frame) frame {
			return c.frame(ctx, win, last)
		})
		if err != nil {
			return
		}
		msg := []byte(":\n\n")
		if f.hash != sent {
			msg = event(f.html)
		}
		// A tab that does not read for this long is gone; where deadlines are
		// not supported the request's end has to do.
		_ = out.SetWriteDeadline(time.Now().Add(frameTimeout))
		if _, err := w.Write(msg); err != nil {
			return
		}
		if err := out.Flush(); err != nil {
			return
		}
		sent = f.hash
		timer.Reset(time.Until(c.start.Add(time.Duration(tick) * c.opt.Tick)))
	}
}

// event puts a fragment into one message. Any line end would end a line of the
// message, so each line gets its own data field.
func event(html []byte) []byte {
	html = bytes.ReplaceAll(html, []byte("\r\n"), []byte("\n"))
	html = bytes.ReplaceAll(html, []byte("\r"), []byte("\n"))
	var b bytes.Buffer
	b.Grow(len(html) + 64)
	for line := range bytes.SplitSeq(html, []byte("\n")) {
		b.WriteString("data: ")
		b.Write(line)
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// frame reads and draws a window. A failure is a frame too: it says so, and is
// logged once, when it begins.
func (c *Console) frame(ctx context.Context, win projections.Window, last frame) frame {
	page := c.read(ctx, win)
	if page.hash == last.hash {
		return last
	}
	if page.err != nil {
		c.logFailure(ctx, "the dashboard could not be read", page.err)
	}
	var b bytes.Buffer
	if err := overviewView(page.model).Render(ctx, &b); err != nil {
		c.logFailure(ctx, "a page could not be drawn", err)
		return last
	}
	return frame{hash: page.hash, html: b.Bytes()}
}

func hashOf(parts ...string) string {
	sum := sha256.New()
	for _, p := range parts {
		sum.Write([]byte(p))
		sum.Write([]byte{0})
	}
	return hex.EncodeToString(sum.Sum(nil)[:12])
}
