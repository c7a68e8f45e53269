package events

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// IDs makes ULIDs that rise strictly, also within a millisecond and when the
// clock steps back. It is safe for concurrent use.
type IDs struct {
	now     func() time.Time
	mu      sync.Mutex
	entropy *ulid.MonotonicEntropy
	last    uint64 // milliseconds of the last id
}

// NewIDs returns a source of ids that takes time from now and randomness from
// entropy; nil means time.Now and crypto/rand.
func NewIDs(now func() time.Time, entropy io.Reader) *IDs {
	if now == nil {
		now = time.Now
	}
	if entropy == nil {
		entropy = rand.Reader
	}
	return &IDs{now: now, entropy: ulid.Monotonic(entropy, 0)}
}

// Next returns a new id, greater than every one before it. When the source of
// randomness fails, crypto/rand takes its place.
func (s *IDs) Next() string {
	ms := ulid.Timestamp(s.now())
	s.mu.Lock()
	defer s.mu.Unlock()
	ms = max(ms, s.last)
	id, err := ulid.New(ms, s.entropy)
	if err != nil {
		// Out of numbers within this millisecond, or out of entropy: the next
		// millisecond starts afresh, and is still greater than what was given.
		ms = max(ms, s.last) + 1
		s.entropy = ulid.Monotonic(rand.Reader, 0)
		id = ulid.MustNew(ms, s.entropy)
	}
	s.last = ms
	return id.String()
}

// Maker makes the events of one node. It is safe for concurrent use.
type Maker struct {
	node string
	now  func() time.Time
	ids  *IDs
}

// NewMaker returns a Maker for node, which must be a valid node id
// (ErrInvalid). A nil now is time.Now, a nil entropy crypto/rand.
func NewMaker(node string, now func() time.Time, entropy io.Reader) (*Maker, error) {
	if !validToken(node, 64) {
		return nil, fmt.Errorf("%w: node %q must be 1 to 64 characters of 0-9 A-Z a-z _ -", ErrInvalid, node)
	}
	if now == nil {
		now = time.Now
	}
	return &Maker{node: node, now: now, ids: NewIDs(now, entropy)}, nil
}

// Make returns an event of this kind that happens now, with a new id and data
// as its JSON object: an LLMCall or *LLMCall, a json.RawMessage as it is, nil
// for {}, or anything that encoding/json turns into an object (ErrInvalid if
// it does not). The caller sets Client and Session.
func (m *Maker) Make(kind Kind, data any) (Event, error) {
	raw, err := marshal(data)
	if err != nil {
		return Event{}, fmt.Errorf("%w: data of %s: %w", ErrInvalid, kind, err)
	}
	at := m.now().UTC().Truncate(time.Microsecond)
	return Event{ID: m.ids.Next(), At: at, Kind: kind, Node: m.node, Data: raw}, nil
}

func marshal(data any) (json.RawMessage, error) {
	switch d := data.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		return d, nil
	case *LLMCall:
		return d.AppendJSON(make([]byte, 0, 1024)), nil
	case LLMCall:
		return d.AppendJSON(make([]byte, 0, 1024)), nil
	}
	raw, err := json.Marshal(data)
	if err == nil && (len(raw) == 0 || raw[0] != '{') {
		err = fmt.Errorf("not an object")
	}
	return raw, err
}

// ValidBodyName reports whether class and key may name a body: a class of this
// package and a key of 1 to 128 characters of [0-9A-Za-z_-] (ErrInvalid).
func ValidBodyName(class Class, key string) error {
	switch class {
	case BodyCache, BodyDrawer, BodyResult:
	default:
		return fmt.Errorf("%w: body class %q", ErrInvalid, class)
	}
	if !validToken(key, 128) {
		return fmt.Errorf("%w: body key must be 1 to 128 characters of 0-9 A-Z a-z _ -", ErrInvalid)
	}
	return nil
}
