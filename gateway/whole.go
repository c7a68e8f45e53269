package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/icyloom/icyloom/events"
	"github.com/icyloom/icyloom/gateway/cache"
	"github.com/icyloom/icyloom/gateway/internal/protocol"
)

// errClient: the client does not take what is written to it.
var errClient = errors.New("gateway: the client left")

// whole relays an answer that is of use only whole: it is read to its end,
// booked, and then sent in one piece. What servers send meanwhile to keep the
// connection alive, blank space, goes out at once.
func (x *exchange) whole(resp *http.Response) {
	buf := newBuffer()
	defer buf.release()
	buf.grow(int(min(max(resp.ContentLength, 4<<10), maxPooled)) + 1)
	sent := 0
	for {
		buf.grow(1)
		n, err := resp.Body.Read(buf.b[len(buf.b):cap(buf.b)])
		buf.b = buf.b[:len(buf.b)+n]
		if n > 0 {
			x.progress(true)
			x.moved(n, 0)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			x.ev.ResponseBytes = int64(sent)
			x.broke(err, protocol.Facts{}, nil)
			return
		}
		if len(buf.b) > maxAnswer && x.inputs.partial() {
			x.askAll(protocol.Facts{})
			return
		}
		if len(buf.b) > maxAnswer {
			x.pass(resp, buf.b[sent:])
			return
		}
		if n > 0 && resp.ContentLength < 0 && !x.inputs.partial() && len(buf.b) < 4<<10 && len(bytes.TrimLeft(buf.b, " \r\n\t")) == 0 {
			if sent, err = x.alive(resp, buf.b, sent); err != nil {
				x.broke(err, protocol.Facts{}, nil)
				return
			}
		}
	}
	x.finishWhole(resp, buf.b, sent)
}

// alive sends the blank space b[sent:] at once.
func (x *exchange) alive(resp *http.Response, b []byte, sent int) (int, error) {
	if !x.sentHead {
		x.sendHead(resp, -1)
	}
	if err := x.put(b[sent:]); err != nil {
		return sent, err
	}
	if err := x.flush(); err != nil {
		return sent, err
	}
	return len(b), nil
}

// finishWhole books a complete answer and sends b[sent:].
func (x *exchange) finishWhole(resp *http.Response, b []byte, sent int) {
	text := b
	if coding := resp.Header.Get("Content-Encoding"); coding != "" && coding != "identity" && len(b) > 0 {
		plain, err := decode(coding, b, maxAnswer)
		if err != nil {
			text, x.unread = nil, true // it cannot be read here; the client may
		} else {
			defer plain.release()
			text = plain.b
		}
	}
	if x.rt.api == events.APICountTokens && !x.sentHead && text != nil && x.lacksCount(resp.StatusCode, text) {
		x.settle(verdictGood, "")
		x.up.countsNone.until(x.g.opt.Now().Add(inability))
		if x.countHere() {
			return
		}
	}
	f := x.facts(resp.StatusCode, text)
	show := func() {}
	if x.inputs != nil {
		var ok bool
		if b, show, ok = x.completed(resp, b, text, f); !ok {
			x.askAll(f)
			return
		}
	}
	x.ev.ResponseBytes = int64(len(b))
	if resp.StatusCode == http.StatusOK && x.inputs == nil {
		show = x.keep(f, cache.FormJSON, resp.Header.Get("Content-Type"), text)
	}
	x.answered(f)
	show()
	if !x.sentHead {
		size := int64(len(b))
		if x.r.Method == http.MethodHead {
			size = -1
		}
		x.sendHead(resp, size)
	}
	x.last(b[sent:])
}

// facts reads what a whole answer says.
func (x *exchange) facts(status int, text []byte) protocol.Facts {
	switch {
	case len(text) == 0 || status != http.StatusOK:
		return protocol.Facts{}
	case x.rt.metered():
		return x.rt.proto.ReadJSON(text)
	case x.rt.api == events.APIEmbeddings:
		return embeddingFacts(text)
	}
	return protocol.Facts{}
}

// embeddingFacts reads the usage of an embeddings answer.
func embeddingFacts(text []byte) protocol.Facts {
	var answer struct {
		Model string `json:"model"`
		Usage *struct {
			Prompt *int64 `json:"prompt_tokens"`
		} `json:"usage"`
	}
	if json.Unmarshal(text, &answer) != nil || answer.Usage == nil || answer.Usage.Prompt == nil {
		return protocol.Facts{Model: answer.Model}
	}
	return protocol.Facts{Model: answer.Model, Usage: &events.Usage{InputUncached: answer.Usage.Prompt, Basis: events.BasisReported}}
}

// pass relays an answer piece by piece as it comes, unread; first is what was
// read of it before. Its last byte waits until the event is appended.
func (x *exchange) pass(resp *http.Response, first []byte) {
	x.unread = true
	buf := newBuffer()
	defer buf.release()
	buf.grow(32 << 10)
	buf.b = append(buf.b, first...)
	var held [1]byte
	var err error
	for holds := 0; ; {
		if n := len(buf.b); n > 0 {
			x.progress(true)
			x.proves()
			if !x.sentHead {
				x.sendHead(resp, resp.ContentLength)
			}
			if e := x.putAll(held[:holds], buf.b[:n-1]); e != nil {
				err = e
			} else if e := x.flush(); e != nil {
				err = e
			}
			held[0], holds = buf.b[n-1], 1
			x.ev.ResponseBytes += int64(n)
			x.moved(n, 0)
		}
		if err != nil {
			break
		}
		var n int
		n, err = resp.Body.Read(buf.b[:cap(buf.b)])
		buf.b = buf.b[:n]
		if n == 0 && err == io.EOF {
			x.answered(protocol.Facts{})
			if !x.sentHead {
				x.sendHead(resp, resp.ContentLength)
			}
			x.last(held[:holds])
			return
		}
		if err == io.EOF {
			err = nil // seen again at the next read
		}
	}
	x.broke(err, protocol.Facts{}, nil)
}

func (x *exchange) putAll(parts ...[]byte) error {
	for _, p := range parts {
		if len(p) == 0 {
			continue
		}
		if err := x.put(p); err != nil {
			return err
		}
	}
	return nil
}

func setLength(h http.Header, n int64) { h["Content-Length"] = []string{strconv.FormatInt(n, 10)} }
