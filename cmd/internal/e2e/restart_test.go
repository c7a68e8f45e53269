package e2e

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/events"
)

// TestRestart stops a daemon in good order and starts it again: the log is the
// same to the byte whoever reads it, the tables follow from it, and what was
// answered is still known, in both forms.
func TestRestart(t *testing.T) {
	up := sampleUpstream(t)
	d := start(t, setup{OpenAI: up.URL, Anthropic: up.URL})
	first := map[events.API]answer{}
	for _, api := range threeAPIs {
		for range 5 {
			first[api] = d.ask(t, api, "sk-e2e", request(api, "sample=reasoning x", asSSE))
		}
	}
	running := d.cli(t, "export", "--format", "jsonl")
	table := d.cli(t, "export", "--format", "csv")
	d.end(t)
	if stopped := d.cli(t, "export", "--format", "jsonl"); stopped != running {
		t.Errorf("the export differs between a running and a stopped daemon from byte %d on", common([]byte(stopped), []byte(running)))
	}
	rows, err := csv.NewReader(strings.NewReader(table)).ReadAll()
	if err != nil || len(rows) != 1+15 {
		t.Errorf("the CSV export has %d lines for 15 events and a head: %v", len(rows), err)
	}
	checkReplay(t, d)
	d.run(t)
	d.ready(t)
	asked := up.count()
	for _, api := range threeAPIs {
		same := d.ask(t, api, "sk-e2e", request(api, "sample=reasoning x", asSSE))
		other := d.ask(t, api, "sk-e2e", request(api, "sample=reasoning x", asJSON))
		if !bytes.Equal(same.body, first[api].body) || same.header.Get(headerCache) != "hit" {
			t.Errorf("%s: after a restart the repeat is a %s with other bytes from %d on", api, same.header.Get(headerCache), common(same.body, first[api].body))
		}
		if a, b := meaningOf(api, other.body), meaningOf(api, first[api].body); a.Text != b.Text || a.Thought != b.Thought || a.ID != b.ID {
			t.Errorf("%s: after a restart the other form says %+v, want %+v", api, a, b)
		}
	}
	if up.count() != asked {
		t.Errorf("%d repeats reached the upstream", up.count()-asked)
	}
	if all := d.cli(t, "export", "--format", "jsonl"); !strings.HasPrefix(all, running) {
		t.Error("the log's beginning has changed")
	}
	checkReplay(t, d)
}
