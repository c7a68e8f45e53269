package admin

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/icyloom/icyloom/events"
)

// recorder records what an erasure does, in order. held are the answers of Forget.
type recorder struct {
	did  []string
	held []bool
	err  error
}

func (r *recorder) Erase(context.Context, events.Class, string) error {
	r.did = append(r.did, "erase")
	return r.err
}

func (r *recorder) Append(ctx context.Context, e events.Event) (uint64, error) {
	r.did = append(r.did, "append "+string(e.Kind))
	return 7, ctx.Err()
}

func (r *recorder) forget(string) bool {
	r.did = append(r.did, "forget")
	held := len(r.held) > 0 && r.held[0]
	r.held = r.held[min(1, len(r.held)):]
	return held
}

// What the gateway reads or stores while a body is erased goes too, before the
// event and while it is appended; what fails is not said to be gone.
func TestEraseLeavesNothing(t *testing.T) {
	maker, err := events.NewMaker("node", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	told := "append " + string(events.KindBodyErased)
	for name, c := range map[string]struct {
		held []bool
		err  error
		want []string
	}{
		"at rest":             {nil, nil, []string{"forget", "erase", "forget", told, "forget"}},
		"held before":         {[]bool{true}, nil, []string{"forget", "erase", "forget", told, "forget"}},
		"stored meanwhile":    {[]bool{false, true}, nil, []string{"forget", "erase", "forget", "erase", "forget", told, "forget"}},
		"stored at the event": {[]bool{false, false, true}, nil, []string{"forget", "erase", "forget", told, "forget", "forget", "erase", "forget"}},
		"a store that fails":  {nil, errors.New("disk full"), []string{"forget", "erase"}},
	} {
		r := &recorder{held: c.held, err: c.err}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // once begun it is brought to its end
		seq, err := Eraser{Bodies: r, Log: r, Maker: maker, Forget: r.forget}.Erase(ctx, events.KindBodyErased, events.BodyEvicted{Key: "k"})
		if !errors.Is(err, c.err) || (seq == 7) != (c.err == nil) || !slices.Equal(r.did, c.want) {
			t.Errorf("%s: %d, %v, %v; want %v", name, seq, err, r.did, c.want)
		}
	}
	// Who stores without a pause does not keep an erasure from its end.
	r := &recorder{held: slices.Repeat([]bool{true}, 100)}
	if _, err := (Eraser{Bodies: r, Log: r, Maker: maker, Forget: r.forget}).Erase(t.Context(), events.KindBodyErased, events.BodyEvicted{Key: "k"}); err != nil {
		t.Error(err)
	}
}
