package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/icyloom/icyloom/events"
)

// listTimeout bounds how long one upstream may hold up the list of all models.
const listTimeout = 5 * time.Second

// listing is what one upstream has to offer.
type listing struct {
	up      *upstream
	status  int
	word    string // why there is none, "" when there is
	entries []json.RawMessage
}

// listAll answers a request for the models with those of all upstreams; false
// when it is for one: named, or the only one that may be asked, or for a page. The
// client's credentials go to the default of its family and to nobody else, so
// upstreams that need some and have none are not asked.
func (c *call) listAll() (answered bool) {
	form := c.rt.family()
	chosen := c.g.byName[c.g.opt.Defaults[form]]
	if c.rt.prefix != "" || c.r.Header.Get("X-Icyloom-Upstream") != "" || paged(c.r.URL.Query()) {
		return false
	}
	var asked []*upstream
	for _, u := range c.g.byPriority {
		if (form == FamilyOpenAI || u.speaks(form)) && (u == chosen || !u.needsTheirs()) {
			asked = append(asked, u)
		}
	}
	if len(asked) < 2 {
		return false
	}
	c.directives, c.ev.Bypass = directivesOf(c.r.Header), "api"
	if c.refuseUncached() {
		return true
	}
	lists := c.askAll(asked, chosen)
	if c.r.Context().Err() != nil {
		c.ev.Outcome = events.OutcomeClientClosed
		c.book()
		return true
	}
	if !slices.ContainsFunc(lists, func(l listing) bool { return l.word == "" }) && chosen != nil {
		return false // its own error says more than ours would
	}
	c.tellAll(lists, form)
	return true
}

// paged tells whether a query asks for a page, which only one upstream has.
func paged(q url.Values) bool { return q.Has("after") || q.Has("after_id") || q.Has("before_id") }

// askAll asks all upstreams at once.
func (c *call) askAll(asked []*upstream, chosen *upstream) []listing {
	ctx, cancel := context.WithTimeout(c.r.Context(), min(listTimeout, c.g.opt.FirstByteTimeout))
	defer cancel()
	lists := make([]listing, len(asked))
	var wg sync.WaitGroup
	for i, u := range asked {
		lists[i].up = u
		if state, _, _ := u.circuit.state(c.g.opt.Now()); state == CircuitOpen {
			lists[i].word = "circuit_open"
			continue
		}
		c.ev.Attempt++
		wg.Go(func() { lists[i].ask(ctx, c, u == chosen) })
	}
	wg.Wait()
	return lists
}

// ask fetches one list. What comes of it is no matter of the circuit's: that an
// upstream has no list says little about its answers.
func (l *listing) ask(ctx context.Context, c *call, theirs bool) {
	u := l.up
	u.inFlight.Add(1)
	defer u.inFlight.Add(-1)
	u.requests.Add(1)
	resp, err := u.transport.RoundTrip(c.listRequest(u, theirs).WithContext(ctx))
	if err == nil {
		defer resp.Body.Close()
		if l.status = resp.StatusCode; l.status == http.StatusOK {
			l.entries, err = readList(resp)
		}
	}
	switch {
	case ctx.Err() != nil && l.entries == nil:
		l.word = "first_byte_timeout"
	case err != nil && l.status == 0:
		l.word = "connect"
	case err != nil:
		l.word = "malformed"
	case l.status != http.StatusOK:
		l.word = "upstream_status"
	}
	u.note(c.g.opt.Now(), l.status, l.word)
}

// listRequest is the request for u's models in u's own form.
func (c *call) listRequest(u *upstream, theirs bool) *http.Request {
	h := requestHeader(c.r.Header)
	u.authorize(h, theirs)
	for _, name := range []string{"If-None-Match", "If-Modified-Since", "Range", "Content-Type", "Content-Encoding"} {
		delete(h, name)
	}
	h["Accept-Encoding"] = []string{"identity"}
	query := u.query(c.r.URL.RawQuery, theirs)
	switch {
	case u.Family == FamilyAnthropic:
		query = "limit=1000" // all there are
		if h["Anthropic-Version"] == nil {
			h["Anthropic-Version"] = []string{"2023-06-01"}
		}
	case h["Anthropic-Version"] != nil:
		query = ""
		delete(h, "Anthropic-Version")
	}
	at := u.url("/v1/models", "", query)
	return &http.Request{
		Method: http.MethodGet, URL: at, Host: at.Host, Header: h,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody,
	}
}

var errList = errors.New("gateway: not a list of models")

// readList reads the entries of a list: below data, or bare.
func readList(resp *http.Response) (entries []json.RawMessage, err error) {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, err
	}
	if coding := resp.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		plain, err := decode(coding, text, maxAnswer)
		if err != nil {
			return nil, err
		}
		defer plain.release()
		text = bytes.Clone(plain.b)
	}
	var list struct {
		Data []json.RawMessage `json:"data"`
	}
	if len(text) > maxAnswer || json.Unmarshal(text, &list.Data) != nil && json.Unmarshal(text, &list) != nil || list.Data == nil {
		return nil, errList
	}
	return list.Data, nil
}

// tellAll answers with the lists as one: of entries with the same id the one of
// the first upstream. Those that gave none are named in the answer's header.
func (c *call) tellAll(lists []listing, form Family) {
	var data bytes.Buffer
	var gave, failed, ids []string
	seen := map[string]bool{}
	for _, l := range lists {
		if l.word != "" {
			failed = append(failed, l.up.Name+"="+l.word)
			c.ev.Tried = append(c.ev.Tried, events.Tried{Upstream: l.up.Name, Error: l.word, Status: l.status})
			continue
		}
		gave = append(gave, l.up.Name)
		for _, raw := range l.entries {
			id, entry := adorn(raw, form, l.up.Name)
			if id == "" || seen[id] {
				continue
			}
			if seen[id] = true; len(ids) > 0 {
				data.WriteByte(',')
			}
			ids = append(ids, id)
			data.Write(entry)
		}
	}
	h := c.w.Header()
	if failed != nil {
		h["X-Icyloom-Failed"] = []string{strings.Join(failed, ", ")}
	}
	if gave == nil {
		c.fail(&problem{status: http.StatusBadGateway, typ: "upstream", word: "connect", text: "no upstream gave its models: " + strings.Join(failed, ", ")})
		return
	}
	h["X-Icyloom-Upstream"] = []string{strings.Join(gave, ", ")}
	c.sendList(data.Bytes(), ids, form)
}

func (c *call) sendList(data []byte, ids []string, form Family) {
	head, tail := `{"object":"list","data":[`, "]}"
	if form == FamilyAnthropic {
		first, last := "null", "null"
		if len(ids) > 0 {
			first, last = quote(ids[0]), quote(ids[len(ids)-1])
		}
		head, tail = `{"data":[`, `],"has_more":false,"first_id":`+first+`,"last_id":`+last+"}"
	}
	body := slices.Concat([]byte(head), data, []byte(tail))
	c.ev.Outcome, c.ev.Status, c.ev.ResponseBytes = events.OutcomeBypass, http.StatusOK, int64(len(body))
	c.book()
	h := c.w.Header()
	c.head("bypass")
	c.cacheStatus(h)
	h["Content-Type"] = []string{"application/json"}
	setLength(h, int64(len(body)))
	c.w.WriteHeader(http.StatusOK)
	c.last(body)
}

// adorn adds to an entry whose it is and what a client of the form reads but the
// upstream's own form does not have. What it has stays as it is, byte for byte. id
// is "" when it is no entry.
func adorn(raw json.RawMessage, form Family, upstream string) (id string, entry []byte) {
	var has map[string]json.RawMessage
	if json.Unmarshal(raw, &has) != nil || json.Unmarshal(has["id"], &id) != nil || id == "" {
		return "", nil
	}
	entry = bytes.TrimRight(raw, " \r\n\t")
	entry = slices.Clone(entry[:len(entry)-1])
	add := func(name, value string) {
		if has[name] == nil {
			entry = append(entry, ","+quote(name)+":"+value...)
		}
	}
	var unix int64
	at := time.Unix(0, 0)
	switch {
	case json.Unmarshal(has["created"], &unix) == nil:
		at = time.Unix(unix, 0)
	case json.Unmarshal(has["created_at"], &at) == nil:
		unix = at.Unix()
	}
	if form == FamilyAnthropic {
		add("type", `"model"`)
		add("display_name", quote(id))
		add("created_at", quote(at.UTC().Format(time.RFC3339)))
	} else {
		add("object", `"model"`)
		add("created", strconv.FormatInt(unix, 10))
		add("owned_by", quote(upstream))
	}
	add("icyloom_upstream", quote(upstream))
	return id, append(entry, '}')
}

// quote writes a text as JSON.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""` // a string always marshals
	}
	return string(b)
}
