package config

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// scalar is a value that is written as one word.
type scalar interface {
	set(text string) error
	form() (schemaType []string, pattern string)
}

// Duration is a span of time, written 90s, 5m, 1h30m or 7d.
type Duration time.Duration

// D is the value as a time.Duration.
func (d Duration) D() time.Duration { return time.Duration(d) }

// String writes the value in its shortest form.
func (d Duration) String() string {
	s := time.Duration(d).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// MarshalJSON writes the value as String does.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// ParseDuration reads a Duration as the file has it.
func ParseDuration(text string) (time.Duration, error) {
	var d Duration
	err := d.set(text)
	return d.D(), err
}

func (d *Duration) set(text string) error {
	days := time.Duration(0)
	rest := text
	if n, after, ok := strings.Cut(text, "d"); ok {
		v, err := strconv.ParseUint(n, 10, 16)
		if err != nil {
			return fmt.Errorf("%q is not a duration; write it as 90s, 5m, 24h or 7d", text)
		}
		days, rest = time.Duration(v)*24*time.Hour, after
	}
	var span time.Duration
	if rest != "" || days == 0 {
		var err error
		if span, err = time.ParseDuration(rest); err != nil {
			return fmt.Errorf("%q is not a duration; write it as 90s, 5m, 24h or 7d", text)
		}
	}
	if span < 0 || days > math.MaxInt64-span {
		return fmt.Errorf("%q is out of range; a duration is 0 or more", text)
	}
	*d = Duration(days + span)
	return nil
}

func (*Duration) form() (types []string, pattern string) {
	return []string{"string"}, `^([0-9]+d)?([0-9.]+(ns|us|µs|ms|s|m|h))*$|^0$`
}

// Bytes is a size in bytes, written as a number, or with KiB, MiB, GiB, kB, MB
// or GB behind it.
type Bytes int64

var units = []struct {
	suffix string
	bytes  int64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"kB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
}

func (b *Bytes) set(text string) error {
	number, factor := text, int64(1)
	for _, u := range units {
		if before, ok := strings.CutSuffix(text, u.suffix); ok {
			number, factor = strings.TrimSpace(before), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/factor {
		return fmt.Errorf("%q is not a size; write it as 1048576, 64MiB or 1GB", text)
	}
	*b = Bytes(n * factor)
	return nil
}

func (*Bytes) form() (types []string, pattern string) {
	return []string{"integer", "string"}, `^[0-9]+ ?([KMGT]iB|kB|[MGT]B)?$`
}
