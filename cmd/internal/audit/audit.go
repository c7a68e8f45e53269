// Package audit answers what a person asks of the log itself: fold it again and
// compare (Replay), or hand it over (Export). Both read the log; neither appends.
// A replay that repairs has the tables rebuilt from it. They run inside the daemon where one holds the home, and in the command itself
// where none does.
package audit

import (
	"fmt"
	"strconv"
	"time"
)

// Point is a place in the log: a sequence number, a time, or neither (zero).
type Point struct {
	Seq  uint64    `json:"seq,omitzero"`
	Time time.Time `json:"time,omitzero"`
}

// IsZero says whether the point names no place.
func (p Point) IsZero() bool { return p.Seq == 0 && p.Time.IsZero() }

// ParsePoint reads a sequence number, an RFC 3339 time, or a UTC day
// (2006-01-02, its first instant). "" is the zero Point.
func ParsePoint(text string) (Point, error) {
	if text == "" {
		return Point{}, nil
	}
	if seq, err := strconv.ParseUint(text, 10, 64); err == nil {
		if seq == 0 {
			return Point{}, fmt.Errorf("sequence numbers begin at 1, not 0")
		}
		return Point{Seq: seq}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return Point{Time: t.UTC()}, nil
		}
	}
	return Point{}, fmt.Errorf("%q is neither a sequence number nor a time; write 1234, 2026-01-31 or 2026-01-31T12:00:00Z", text)
}

// ParseEnd is ParsePoint for the end of a range: a day is meant whole.
func ParseEnd(text string) (Point, error) {
	p, err := ParsePoint(text)
	if day, derr := time.Parse(time.DateOnly, text); derr == nil {
		p.Time = day.AddDate(0, 0, 1).Add(-1)
	}
	return p, err
}
