package tokens_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/icyloom/icyloom/gateway/tokens"
)

func TestEstimateRequest(t *testing.T) {
	text := strings.Repeat("word ", 80) // 400 bytes
	blob := strings.Repeat("A", 1<<20)
	for body, want := range map[string]int64{
		`{}`:              1,
		`{"messages":[]}`: 1,
		`{"model":"a-very-long-name","messages":[]}`:                                                                                           1,
		fmt.Sprintf(`{"system":%q,"messages":[]}`, text):                                                                                       100,
		fmt.Sprintf(`{"messages":[{"role":"user","content":%q},{"role":"system","content":%q}]}`, text, text):                                  208,
		fmt.Sprintf(`{"messages":[{"role":"user","content":[{"type":"text","text":%q},{"type":"thinking","thinking":%q}]}]}`, text, text):      204,
		fmt.Sprintf(`{"messages":[{"content":[{"type":"image","source":{"type":"base64","data":%q}}]}]}`, blob):                                1604,
		fmt.Sprintf(`{"messages":[{"content":[{"type":"document","source":{"type":"base64","data":%q}}]}]}`, blob):                             3004,
		fmt.Sprintf(`{"messages":[{"content":[{"type":"document","source":{"type":"text","data":%q}}]}]}`, text):                               104,
		fmt.Sprintf(`{"messages":[{"content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":%q}]}]}]}`, text): 104,
		fmt.Sprintf(`{"messages":[{"content":[{"type":"tool_use","id":"toolu_1","name":"read","input":{"a":%q}}]}]}`, text[:388]):              104,
		fmt.Sprintf(`{"tools":[{"d":%q}],"messages":[]}`, text[:392]):                                                                          100,
		`no JSON at all`: 4,
	} {
		if got := tokens.EstimateRequest([]byte(body)); got != want {
			t.Errorf("%.80s: %d, not %d", body, got, want)
		}
	}
}

func FuzzEstimateRequest(f *testing.F) {
	f.Add([]byte(`{"system":[{"type":"text","text":"x"}],"messages":[{"content":[{"type":"tool_result","content":[7]}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if tokens.EstimateRequest(body) < 1 {
			t.Error("nothing")
		}
	})
}
