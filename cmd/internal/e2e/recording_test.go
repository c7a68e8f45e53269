package e2e

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/events"
)

// row is one recorded exchange.
type row struct {
	Name     string            `json:"name"`
	API      string            `json:"api"`
	URL      string            `json:"url"`
	Status   int               `json:"status"`
	Request  json.RawMessage   `json:"request"`
	Headers  map[string]string `json:"response_headers"`
	Body     string            `json:"response_body"`
	Features []string          `json:"features"`
	Usage    *trueUsage        `json:"true_usage"`

	api  events.API
	path string // with its query
}

// trueUsage is what a recording's keeper derived from its answer.
type trueUsage struct {
	Input       *int64         `json:"input"`
	CachedInput *int64         `json:"cached_input"`
	CacheWrite  *int64         `json:"cache_write"`
	Output      *int64         `json:"output"`
	Reasoning   *int64         `json:"reasoning"`
	Raw         map[string]any `json:"raw"`
}

// form is what the recorded answer is.
func (r row) form() form { return form(isSSE([]byte(r.Body))) }

// loadRows reads every *.jsonl of a folder. The file's name says the API where
// a row does not.
func loadRows(t *testing.T, dir string) []row {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var out []row
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			var r row
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if r.API == "" {
				r.API = strings.TrimSuffix(filepath.Base(name), ".jsonl")
			}
			out = append(out, r.complete())
		}
		if err := lines.Err(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_ = f.Close() // only read
	}
	return out
}

// complete fills in what a recording leaves open: path, status, and a request
// of the right API and form.
func (r row) complete() row {
	switch {
	case strings.HasSuffix(r.API, "count_tokens"):
		r.api, r.path = events.APICountTokens, "/v1/messages/count_tokens"
	case strings.HasSuffix(r.API, "messages"):
		r.api, r.path = events.APIMessages, "/v1/messages"
	case strings.HasSuffix(r.API, "responses"):
		r.api, r.path = events.APIResponses, "/v1/responses"
	default:
		r.api, r.path = events.APIChat, "/v1/chat/completions"
	}
	if u, err := url.Parse(r.URL); err == nil {
		// Neighbours of /responses are passed through below an upstream's name.
		if _, rest, ok := strings.Cut(u.Path, "/responses/"); ok {
			r.api, r.path = events.APIOther, "/openai/v1/responses/"+rest
		}
		if u.RawQuery != "" {
			r.path += "?" + u.RawQuery
		}
	}
	if r.Status == 0 {
		r.Status = http.StatusOK
	}
	if len(r.Request) == 0 || string(r.Request) == "null" {
		r.Request = encode(r.plausible())
	}
	return r
}

// plausible is a request that the answer could be one to.
func (r row) plausible() object {
	model := meaningOf(r.api, []byte(r.Body)).Model
	if model == "" {
		model = "some-model"
	}
	out := object{"model": model}
	switch r.api {
	case events.APIResponses:
		out["input"] = "recorded: " + r.Name
	case events.APIMessages:
		out["max_tokens"] = 4096
		fallthrough
	default:
		out["messages"] = []any{object{"role": "user", "content": "recorded: " + r.Name}}
	}
	if r.form() == asSSE {
		out["stream"] = true
		if r.api == events.APIChat {
			out["stream_options"] = object{"include_usage": true}
		}
	}
	return out
}

// contentType is the recorded one, or the one of the form.
func (r row) contentType() string {
	if ct := r.Headers["content-type"]; ct != "" {
		return ct
	}
	if r.form() == asSSE {
		return "text/event-stream; charset=utf-8"
	}
	return "application/json"
}

// play answers with the recorded status, headers and bytes.
func (r row) play(w http.ResponseWriter) {
	for k, v := range r.Headers {
		switch strings.ToLower(k) {
		case "transfer-encoding", "content-length", "content-encoding", "connection":
		default:
			w.Header().Set(k, v)
		}
	}
	w.Header().Set("Content-Type", r.contentType())
	if r.form() == asJSON && r.Headers["transfer-encoding"] == "" {
		w.WriteHeader(r.Status)
		_, _ = w.Write([]byte(r.Body))
		return
	}
	w.WriteHeader(r.Status)
	pieces(w, []byte(r.Body), 1+len(r.Name)*7)
}
