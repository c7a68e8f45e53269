package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/events"
)

// circling is a request whose conversation has called a tool so many times.
func circling(p protocolOf, times int, stream bool) string {
	var turns []string
	for i := range times {
		var turn string
		switch p.api {
		case events.APIChat:
			turn = `{"role":"assistant","content":null,"tool_calls":[{"id":"c%[1]d","type":"function","function":{"name":"read\u0020file","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"c%[1]d","content":"none"}`
		case events.APIMessages:
			turn = `{"role":"assistant","content":[{"type":"tool_use","id":"c%[1]d","name":"read\u0020file","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c%[1]d","content":"none"}]}`
		default:
			turn = `{"type":"function_call","call_id":"c%[1]d","name":"read\u0020file","arguments":"{\"a\":1}"},{"type":"function_call_output","call_id":"c%[1]d","output":"none"}`
		}
		turns = append(turns, fmt.Sprintf(turn, i))
	}
	list := "[" + strings.Join(turns, ",") + "]"
	if p.api == events.APIResponses {
		return fmt.Sprintf(`{"model":"m","store":false,"stream":%t,"input":%s}`, stream, list)
	}
	return fmt.Sprintf(`{"max_tokens":9,"model":"m","stream":%t,"messages":%s}`, stream, list)
}

// TestLoopsAreTold: on a miss, on a hit, in every form and for every protocol, and
// nothing is kept back; twice is no loop.
func TestLoopsAreTold(t *testing.T) {
	for _, p := range protocols {
		t.Run(string(p.api), func(t *testing.T) {
			r := newRig(t, echo)
			for _, stream := range []bool{false, true} {
				if a := r.post(p.path, circling(p, 3, stream)); a.status != 200 || a.header.Get("X-Icyloom-Loop") != `read\u0020file x3` {
					t.Errorf("stream %t: %d %q, %s", stream, a.status, a.header.Get("X-Icyloom-Loop"), a.header.Get("X-Icyloom-Cache"))
				}
			}
			if a := r.post(p.path, circling(p, 2, true)); a.status != 200 || a.header["X-Icyloom-Loop"] != nil {
				t.Errorf("twice: %d %q", a.status, a.header["X-Icyloom-Loop"])
			}
			var got []string
			for _, c := range r.calls() {
				got = append(got, fmt.Sprint(c.Outcome, c.Loop))
			}
			if s := strings.Join(got, " "); s != "misstrue hittrue missfalse" {
				t.Errorf("events: %s", s)
			}
		})
	}
}
