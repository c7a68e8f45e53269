package feed

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
)

const (
	keepAlive   = 25 * time.Second // between two signs of life
	writeWait   = 10 * time.Second // for one message, or the answer to a ping
	goodbyeWait = time.Second      // for a WebSocket's closing handshake
)

// outlet is how messages leave.
type outlet interface {
	send(message []byte) error
	// flush ends a run of messages.
	flush() error
	// beat shows that this end lives, and finds out whether the other one does.
	beat() error
}

// pump sends what comes for l until ctx or the hub ends (nil), or the other end
// takes no more.
func (h *Hub) pump(ctx context.Context, l *listener, out outlet) error {
	beat := time.NewTicker(keepAlive)
	defer beat.Stop()
	for {
		select {
		case <-l.wake:
			if err := drain(l, out); err != nil {
				return err
			}
		case <-beat.C:
			if err := out.beat(); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		case <-h.done:
			return drain(l, out)
		}
	}
}

func drain(l *listener, out outlet) error {
	queue, lost := l.take()
	for _, raw := range queue {
		if err := out.send(raw); err != nil {
			return err
		}
	}
	if lost > 0 {
		if err := out.send(fmt.Appendf(nil, `{"kind":"feed.lost","count":%d}`, lost)); err != nil {
			return err
		}
	}
	return out.flush()
}

func upgrade(h http.Header) bool {
	return len(h["Upgrade"]) > 0 && strings.EqualFold(h["Upgrade"][0], "websocket")
}

// serveSocket serves a WebSocket: one text message a message.
func (h *Hub) serveSocket(w http.ResponseWriter, r *http.Request, l *listener) {
	conn, err := websocket.Accept(w, r, nil) // it has answered
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	// Nothing is to be said to us; what is read are pongs, and the end.
	gone := conn.CloseRead(ctx)
	err = h.pump(gone, l, &socket{ctx: gone, conn: conn})
	if err != nil || gone.Err() != nil {
		_ = conn.CloseNow()
		return
	}
	hurry := time.AfterFunc(goodbyeWait, cancel)
	defer hurry.Stop()
	_ = conn.Close(websocket.StatusGoingAway, errClosed.Error())
}

type socket struct {
	ctx  context.Context
	conn *websocket.Conn
}

func (s *socket) send(message []byte) error {
	ctx, cancel := context.WithTimeout(s.ctx, writeWait)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, message)
}

func (s *socket) flush() error { return nil }

func (s *socket) beat() error {
	ctx, cancel := context.WithTimeout(s.ctx, writeWait)
	defer cancel()
	return s.conn.Ping(ctx)
}

// serveStream serves server-sent events: one event a message.
func (h *Hub) serveStream(w http.ResponseWriter, r *http.Request, l *listener) {
	s := &stream{w: w, c: http.NewResponseController(w)}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if s.flush() == nil {
		_ = h.pump(r.Context(), l, s) // either way it is over
	}
	_ = s.c.SetWriteDeadline(time.Time{}) // of the connection's next answer
}

type stream struct {
	w http.ResponseWriter
	c *http.ResponseController
	b bytes.Buffer
}

func (s *stream) send(message []byte) error {
	s.b.WriteString("data: ")
	s.b.Write(message) // an event's JSON has no line end: they stand in strings, as \n
	s.b.WriteString("\n\n")
	return nil
}

func (s *stream) flush() error {
	if err := s.c.SetWriteDeadline(time.Now().Add(writeWait)); err != nil {
		return err
	}
	_, err := s.w.Write(s.b.Bytes())
	s.b = bytes.Buffer{} // a queue may be large, and the next one seldom is
	if err != nil {
		return err
	}
	return s.c.Flush()
}

func (s *stream) beat() error {
	s.b.WriteString(": alive\n\n")
	return s.flush()
}
