package views

import (
	"math"
	"testing"
	"time"

	"github.com/icyloom/icyloom/projections"
)

func TestFormat(t *testing.T) {
	t.Parallel()
	checkFormats(t, []formatted{
		{count(0), "0"},
		{count(999), "999"},
		{count(1000), "1,000"},
		{count(int64(math.MinInt64)), "-9,223,372,036,854,775,808"},
		{count(uint64(math.MaxUint64)), "18,446,744,073,709,551,615"},
		{things(1, "call"), "1 call"},
		{things(0, "call"), "0 calls"},
		{short(99_999), "99,999"},
		{short(-99_999), "-99,999"},
		{short(123_456), "123 k"},
		{short(999_499), "999 k"},
		{short(999_500), "1.00 M"},
		{short(math.MinInt64), "-9,223,372,036,854,775,808"},
		{short(3_902_116), "3.90 M"},
		{short(-12_345_678), "-12.3 M"},
		{short(math.MaxInt64), "9.22 E"},
		{duration(0), "0 µs"},
		{duration(999), "999 µs"},
		{duration(1000), "1.00 ms"},
		{duration(999_499), "999 ms"},
		{duration(999_500), "1.00 s"},
		{duration(59_999_999), "60.0 s"},
		{duration(125_000_000), "2 min 5 s"},
		{duration(4_871_000_000), "1 h 21 min"},
		{duration(200_000_000_000), "2 d 7 h"},
		{duration(-5), "-5 µs"},
		{duration(math.MinInt64), "-106,751,991 d 4 h"},
		{percent(nil), dash},
		{percent(ref(0.4626)), "46.3 %"},
		{percent(ref(1.0)), "100.0 %"},
		{target(.35), "35 %"},
		{target(.355), "35.5 %"},
		{terms(projections.Ratio{Num: 1021, Den: 2207}), "1,021 of 2,207"},
		{size(1023), "1,023 B"},
		{size(9_412_608), "9.0 MiB"},
		{size(math.MaxInt64), "8388608.0 TiB"},
		{moment(time.Time{}), dash},
		{moment(time.Date(2026, 12, 1, 1, 2, 3, 0, time.FixedZone("", 3*3600))), "Nov 30 22:02:03"},
		{spoken("half_open"), "half open"},
		{name(""), "unknown"},
	})
}

func TestMoney(t *testing.T) {
	t.Parallel()
	checkFormats(t, []formatted{
		{money(0), "$0"},
		{money(1), "$0.000000001"},
		{money(54_000), "$0.000054"},
		{money(999), "$0.000000999"},
		{money(4_228_499), "$0.004228"},
		{money(9_999_499), "$0.009999"},
		{money(54_399_000), "$0.0544"},
		{money(999_999_999), "$1.0000"},
		{money(1_063_761_250), "$1.06"},
		{money(1_234_567_895_000_000), "$1,234,567.90"},
		{money(-54_399_000), "-$0.0544"},
		{money(math.MinInt64), "-$9,223,372,036.85"},
		{moneyOf(nil), dash},
	})
}

type formatted struct{ got, want string }

func checkFormats(t *testing.T, cases []formatted) {
	t.Helper()
	for _, c := range cases {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
