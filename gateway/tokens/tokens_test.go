package tokens

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestEstimate(t *testing.T) {
	for bytes, want := range map[int64]int64{
		math.MinInt64: 0, -1: 0, 0: 0, 1: 1, 3: 1, 4: 1, 5: 2, 8: 2, 9: 3,
		math.MaxInt64: math.MaxInt64/4 + 1,
	} {
		if got := Estimate(bytes); got != want {
			t.Errorf("Estimate(%d) = %d, want %d", bytes, got, want)
		}
	}
}

func TestAnswer(t *testing.T) {
	for in, want := range map[[2]int64]int64{
		{0, NoCalls}: 0, {1, NoCalls}: 3, {40, NoCalls}: 12, {0, Calls}: 12, {40, Calls}: 22, {40, MessagesCalls}: 50,
	} {
		if got := Answer(in[0], in[1]); got != want {
			t.Errorf("%v: %d, want %d", in, got, want)
		}
	}
}

func TestRequest(t *testing.T) {
	text := strings.Repeat("nine chars", 9) // 90 bytes
	for body, want := range map[string]int64{
		``:                                    0,
		`{}`:                                  0,
		`[1,2.5e3,true,null]`:                 0,
		`{"a":1}`:                             1,
		fmt.Sprintf(`["%s"]`, text):           21,
		fmt.Sprintf(`  [ "%s" ,  1 ] `, text): 21,
		`{"n":123456789012345678901234567890,"m":[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]}`: 1,
		// Escapes are what they say, not what they are written with.
		`["` + strings.Repeat(`\n`, 90) + `"]`:     21,
		`["` + strings.Repeat(`\u00e9`, 45) + `"]`: 21,
		`["` + strings.Repeat(`\"`, 90) + `"]`:     21,
		// An image is not its base64.
		`["` + strings.Repeat(`QUJD`, 1<<18) + `"]`:                                      0,
		`["data:image/png;base64,` + strings.Repeat(`QUJD`, 1<<18) + `","` + text + `"]`: 21,
		`["` + strings.Repeat("x", opaque) + `"]`:                                        0,
		`["` + strings.Repeat("x", opaque-1) + `"]`:                                      57,
		// Nor in the ways that some escape it, + and /.
		`["` + strings.Repeat(`QU\u002B`, 1<<16) + `"]`: 0,
		`["` + strings.Repeat(`QU\/D`, 1<<16) + `"]`:    0,
		// Text of a script without spaces is no data.
		`["` + strings.Repeat("水", 10000) + `"]`:      6667,
		`["` + strings.Repeat(`\u6c34`, 10000) + `"]`: 4445,
		// Not JSON, or cut.
		`["` + text:       21,
		`["` + text + `\`: 21,
		`["\u`:            1,
		`"`:               0,
	} {
		if got := Request([]byte(body)); got != want {
			t.Errorf("%.60s: %d, want %d", body, got, want)
		}
	}
	body := []byte(fmt.Sprintf(`{"messages":["%s"]}`, text))
	if n := testing.AllocsPerRun(10, func() { Request(body) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"a":"b\u00e9\\"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if n := Request(body); n < 0 || n > int64(len(body))+1 {
			t.Fatal(n)
		}
	})
}
