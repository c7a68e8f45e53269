package events

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestFormatNamesEveryField holds that every JSON field of the data structs
// stands in FORMAT.md, in a table of the section that is about it, and that
// every kind does.
func TestFormatNamesEveryField(t *testing.T) {
	b, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(b)
	for heading, data := range map[string]any{
		"## `llm.call`": LLMCall{}, "`components`:": Components{}, "`undated`:": Undated{}, "`stored`:": Stored{}, "`shadow`:": Shadow{}, "`tried`:": Tried{}, "`items`:": Items{},
		"`usage`:": Usage{}, "`compress`:": Compress{},
		"## `body.evicted`": BodyEvicted{}, "## `upstream.state`": UpstreamState{}, "## `admin.action`": AdminAction{}, "## `ledger.gap`": LedgerGap{},
	} {
		_, section, found := strings.Cut(doc, "\n"+heading)
		if !found {
			t.Errorf("no section %q", heading)
			continue
		}
		table := tableOf(section)
		typ := reflect.TypeOf(data)
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if !strings.Contains(table, fmt.Sprintf("\n| `%s` |", name)) {
				t.Errorf("%s: field %s is not in its table", heading, name)
			}
		}
		if rows := strings.Count(table, "\n| `"); rows != typ.NumField() {
			t.Errorf("%s: %d rows for %d fields", heading, rows, typ.NumField())
		}
	}
	for _, name := range []string{"id", "at", "kind", "node", "client", "session", "data"} {
		if !known(name) || !strings.Contains(doc, fmt.Sprintf("\n| `%s` |", name)) {
			t.Errorf("envelope field %s", name)
		}
	}
	for _, k := range kinds {
		if !strings.Contains(doc, "`"+string(k)+"`") {
			t.Errorf("kind %s is not described", k)
		}
	}
}

// tableOf returns the first table of a text.
func tableOf(s string) string {
	start := strings.Index(s, "\n|")
	if start < 0 {
		return ""
	}
	end := strings.Index(s[start:], "\n\n")
	return s[start : start+end]
}

var kinds = []Kind{
	KindLLMCall, KindLLMDropped, KindToolCall, KindToolEpoch, KindToolListed, KindDatasetQueried, KindDatasetExported,
	KindDatasetDropped, KindContextStored, KindContextCompressed, KindContextSearched, KindContextRead, KindContextDeleted,
	KindBodyEvicted, KindBodyErased, KindUpstreamState, KindServerState, KindAdminAction, KindLedgerGap,
}

// TestFormatExample pins the bytes: a log written today reads the same forever.
func TestFormatExample(t *testing.T) {
	n := int64(7)
	call := &LLMCall{Outcome: OutcomeHit, API: APIChat, LatencyUS: 12, Usage: &Usage{Output: &n, Basis: BasisReplayed}}
	e := Event{
		ID: "01ARZ3NDEKTSV4RRFFQ69G5FAV", At: time.Date(2026, 3, 4, 5, 6, 7, 89_012_345, time.UTC), Kind: KindLLMCall,
		Node: "n1", Client: "curl/8", Session: "s \"1\"", Data: call.AppendJSON(nil),
	}
	got, err := Encode(nil, e)
	want := `{"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV","at":"2026-03-04T05:06:07.089012Z","kind":"llm.call","node":"n1","client":"curl/8","session":"s \"1\"",` +
		`"data":{"outcome":"hit","api":"chat","usage":{"output":7,"basis":"replayed"},"latency_us":12,"request_bytes":0,"response_bytes":0}}`
	if err != nil || string(got) != want {
		t.Fatalf("%s\nwant\n%s (%v)", got, want, err)
	}
}
