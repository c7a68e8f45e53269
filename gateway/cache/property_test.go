package cache

import (
	"encoding/json"
	"testing"

	"github.com/icyloom/icyloom/events"
	"pgregory.net/rapid"
)

var nameGen = rapid.SampledFrom([]string{"a", "b", "num_ctx", "seed", "temperature", "content", "role", "type", "text", "input", "tools", "messages", "stop", "é"})

// valueGen draws JSON values without the names that are dropped by their place.
func valueGen(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kinds := 5
		if depth > 0 {
			kinds = 7
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return rapid.Bool().Draw(t, "bool")
		case 1:
			return json.Number(rapid.SampledFrom([]string{"0", "1", "-1", "1.0", "1e3", "9007199254740993"}).Draw(t, "number"))
		case 2:
			return nil
		case 3, 4:
			return rapid.StringN(0, 6, -1).Draw(t, "string")
		case 5:
			return rapid.SliceOfN(valueGen(depth-1), 0, 3).Draw(t, "array")
		}
		return rapid.MapOfN(nameGen, valueGen(depth-1), 0, 3).Draw(t, "object")
	})
}

// Two bodies that are different JSON have different keys, whatever differs.
func TestEveryFieldIsInTheKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) (any, string) {
			v := rapid.MapOfN(nameGen, valueGen(2), 0, 4).Draw(t, label)
			b, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			return v, string(b)
		}
		_, a := draw("a")
		_, b := draw("b")
		for _, api := range []events.API{events.APIChat, events.APIMessages, events.APIResponses} {
			if keyOf(t, api, a) == keyOf(t, api, b) && a != b {
				t.Fatalf("%s and %s have the same key", a, b)
			}
		}
	})
}

// One field more, less or changed is another request.
func TestOneChangeIsAnotherKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.MapOfN(nameGen, valueGen(2), 1, 5).Draw(t, "body")
		before, _ := json.Marshal(body)
		name := nameGen.Draw(t, "name")
		if old, ok := body[name]; ok && rapid.Bool().Draw(t, "remove") {
			delete(body, name)
		} else {
			body[name] = []any{"changed", old}
		}
		after, _ := json.Marshal(body)
		for _, api := range []events.API{events.APIChat, events.APIMessages, events.APIResponses} {
			if keyOf(t, api, string(before)) == keyOf(t, api, string(after)) {
				t.Fatalf("%s and %s have the same key", before, after)
			}
		}
	})
}

func keyOf(t *rapid.T, api events.API, body string) Key {
	r, err := Parse([]byte(body), api, nil)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	defer r.Release()
	exact, _ := r.Keys(Surroundings{API: api})
	return exact
}
