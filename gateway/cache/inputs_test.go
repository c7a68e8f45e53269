package cache

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/icyloom/icyloom/events"
)

// FuzzInputs: of whatever is an embeddings request, any choice of inputs makes one
// that asks for just these, by the keys they have in the whole.
func FuzzInputs(f *testing.F) {
	for _, body := range []string{
		`{"input":"a"}`, `{"upstream":"x", "input" : [ "a" , "b\u00e9", [1,2] ,{"image":"i"}],"model":"m"}`, `{"input":[1,2,3],"upstream":"u"}`,
		`{"input":[],"input":["a"]}`, `{"input":null}`, `{"input":[-1,"x",null,true]}`, `{"input":[["a"],"]"]}`,
	} {
		f.Add([]byte(body), uint64(5))
	}
	f.Fuzz(func(t *testing.T, body []byte, mask uint64) {
		r, err := Parse(body, events.APIEmbeddings, []byte("s"))
		if err != nil {
			return
		}
		defer r.Release()
		keys := r.InputKeys(Surroundings{})
		if len(keys) != r.Inputs() || r.Inputs() == 0 || r.Bypass != "" {
			return
		}
		var some []int
		var want []Key
		for i, k := range keys {
			if mask>>(i%64)&1 == 1 {
				some, want = append(some, i), append(want, k)
			}
		}
		if some == nil {
			return
		}
		r.Choose(some)
		pieces, _ := r.Edited(nil, false)
		edited := bytes.Join(pieces, nil)
		if json.Valid(body) && !json.Valid(edited) {
			t.Fatalf("%q becomes %q", body, edited)
		}
		again, err := Parse(edited, events.APIEmbeddings, []byte("s"))
		if err != nil {
			t.Fatalf("%q becomes %q: %v", body, edited, err)
		}
		defer again.Release()
		if got := again.InputKeys(Surroundings{}); len(got) != len(want) {
			t.Fatalf("%q becomes %q", body, edited)
		} else {
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("%q becomes %q: input %d has another key", body, edited, i)
				}
			}
		}
	})
}

// An input has one key, alone or in a list, and another one in every other
// request; and it is none of a whole request's keys.
func TestInputKeys(t *testing.T) {
	seen := map[Key]string{}
	keysOf := func(body string) []Key {
		r, err := Parse([]byte(body), events.APIEmbeddings, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Release()
		exact, safe := r.Keys(Surroundings{API: events.APIEmbeddings})
		if exact != safe {
			t.Errorf("%s is folded", body)
		}
		if seen[exact] == "input" {
			t.Errorf("%s has an input's key", body)
		}
		return r.InputKeys(Surroundings{API: events.APIEmbeddings})
	}
	alone, listed := keysOf(`{"model":"m","input":"a  b"}`), keysOf(`{"input":["x","a  \u0062"],"user":"u","model":"m"}`)
	if len(alone) != 1 || len(listed) != 2 || alone[0] != listed[1] {
		t.Errorf("%v %v", alone, listed)
	}
	for _, body := range []string{
		`{"model":"m","input":"a  b"}`, `{"model":"m","input":"a b"}`, `{"model":"n","input":"a  b"}`, `{"model":"m","input":"a  b","dimensions":2}`,
		`{"model":"m","input":[1,2]}`, `{"model":"m","input":[12]}`, `{"model":"m","input":"[1,2]"}`,
	} {
		for _, k := range keysOf(body) {
			if seen[k] != "" {
				t.Errorf("%s has another's key", body)
			}
			seen[k] = "input"
		}
	}
	if one, list := keysOf(`{"model":"m","input":[1,2]}`), keysOf(`{"model":"m","input":[[1,2]]}`); one[0] != list[0] {
		t.Error("a list of tokens has two keys")
	}
	keysOf(`{"model":"m","input":["a  b"]}`)
}

// Inputs are cached one by one only where each is answered by itself.
func TestInputsThatAreTied(t *testing.T) {
	for body, want := range map[string]int{
		`{"model":"m","input":["a","b"],"dimensions":2,"encoding_format":"base64","user":"u"}`: 2,
		`{"model":"m","input":[[1],[2]],"task":"t","input_type":"query"}`:                      2,
		`{"model":"m","input":[1,2]}`:                          1,
		`{"model":"m","input":["a","b"],"late_chunking":true}`: 0,
		`{"new":1,"model":"m","input":"a"}`:                    0,
		`{"model":"m","input":["a",1]}`:                        0,
		`{"model":"m","input":[1,"a"]}`:                        1,
		`{"model":"m","input":["a",[1]]}`:                      0,
		`{"model":"m","input":[[1],"a"]}`:                      0,
		`{"model":"m","input":null}`:                           0,
		`{"model":"m","input":[]}`:                             0,
	} {
		r, err := Parse([]byte(body), events.APIEmbeddings, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Inputs(); got != want {
			t.Errorf("%s: %d inputs, want %d", body, got, want)
		}
		r.Release()
	}
}
