package openai

import (
	"bytes"
	"encoding/json"
	"testing"
)

// Vectors pass as they were written, whatever their numbers look like, and each
// gets the index of its place.
func TestEmbeddings(t *testing.T) {
	body := ` {"object":"list", "data":[{"object":"embedding","index":1,"embedding":[1.0, -2e-07,0.10000000000000000001]},` +
		`{"embedding":"AACAPw==","index": 0,"object":"embedding","extra":null}],"model":"m","new":{"a": 1},"usage":{"prompt_tokens":7,"total_tokens":7,"cost":0.10}}`
	e, err := ReadEmbeddings([]byte(body), 2)
	if err != nil || e.Model != "m" || *e.Tokens != 7 || string(e.Items[0]) != `{"embedding":"AACAPw==","index": 0,"object":"embedding","extra":null}` {
		t.Fatalf("%+v %v", e, err)
	}
	got := string(e.With([][]byte{e.Items[1], []byte(`{"embedding":[3]}`), e.Items[0]}, 5))
	want := `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1.0, -2e-07,0.10000000000000000001]},{"embedding":[3],"index":1},` +
		`{"embedding":"AACAPw==","index":2,"object":"embedding","extra":null}],"model":"m","new":{"a": 1},"usage":{"prompt_tokens":12,"total_tokens":12,"cost":0.10}}`
	if got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
	n := int64(3)
	if got := string(WriteEmbeddings("a\"b", [][]byte{[]byte(`{"embedding":[3],"index":7}`)}, &n)); got != `{"object":"list","data":[{"embedding":[3],"index":0}],"model":"a\"b","usage":{"prompt_tokens":3,"total_tokens":3}}` {
		t.Error(got)
	}
}

func TestNotEmbeddings(t *testing.T) {
	for _, body := range []string{
		``, `[]`, `{}`, `{"data":[]}`, `{"data":[{"index":0}]}`, `{"data":[{"embedding":[]}]}`, `{"data":[{"embedding":[1],"index":1}]}`,
		`{"data":[{"embedding":[1],"index":-1}]}`, `{"data":[{"embedding":[1]},{"embedding":[1]}]}`, `{"data":[{"embedding":[1]}],"error":{"message":"m"}}`,
		`{"data":[{"embedding":[1]}]`, `{"data":[7]}`,
	} {
		if e, err := ReadEmbeddings([]byte(body), 1); err == nil {
			t.Errorf("%s: %+v", body, e)
		}
	}
	if e, err := ReadEmbeddings([]byte(`{"data":[{"embedding":[1],"index":0},{"embedding":[1],"index":0}]}`), 2); err == nil {
		t.Errorf("%+v", e)
	}
}

// FuzzReadEmbeddings: what is taken apart and put together again is JSON with the
// same vectors.
func FuzzReadEmbeddings(f *testing.F) {
	f.Add([]byte(`{"data":[{"embedding":[1.0],"index":1},{"embedding":"a","index":0}],"usage":{"prompt_tokens":1}}`))
	f.Add([]byte(`{"data":[{"embedding":[1],"embedding":[2]},{"embedding":{}, "index":1.0}],"data":[]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := ReadEmbeddings(b, 2)
		if err != nil {
			return
		}
		out := e.With(e.Items, 3)
		again, err := ReadEmbeddings(out, 2)
		if err != nil || !json.Valid(out) {
			t.Fatalf("%s: %v", out, err)
		}
		for i := range e.Items {
			a, _ := parse(e.Items[i])
			b, _ := parse(again.Items[i])
			if !bytes.Equal(a.get("embedding"), b.get("embedding")) {
				t.Fatalf("%s", out)
			}
		}
	})
}
