package telemetry

import (
	"slices"
	"strconv"
)

// maxSeries bounds the combinations of attributes of one metric; what comes after
// them is counted together, under the conventions' mark for that.
const maxSeries = 1000

// histogram is a metric that adds up from the start of the process.
type histogram struct {
	name, help, unit string
	bounds           []float64
	series           map[string]*point
}

// point is one combination of attributes.
type point struct {
	attributes []attribute
	count      uint64
	sum        float64
	buckets    []uint64 // one more than bounds
}

func newHistogram(name, help, unit string, bounds []float64) histogram {
	return histogram{name, help, unit, bounds, map[string]*point{}}
}

// add counts a value. attributes are kept when they are new.
func (h *histogram) add(v float64, attributes []attribute) {
	p := h.point(attributes)
	p.count++
	p.sum += v
	i, _ := slices.BinarySearch(h.bounds, v) // a bound belongs to the bucket below it
	p.buckets[i]++
}

func (h *histogram) point(attributes []attribute) *point {
	key := keyOf(make([]byte, 0, 512), attributes)
	p := h.series[string(key)]
	if p != nil {
		return p
	}
	name := string(key)
	if len(h.series) >= maxSeries {
		attributes, name = []attribute{{attrOverflow, true}}, ""
		if p = h.series[name]; p != nil {
			return p
		}
	}
	p = &point{attributes: slices.Clone(attributes), buckets: make([]uint64, len(h.bounds)+1)}
	h.series[name] = p
	return p
}

// keyOf appends what tells attributes from others. Names and values come from
// clients with nothing in them but printable characters.
func keyOf(key []byte, attributes []attribute) []byte {
	for _, a := range attributes {
		key = append(append(key, a.name...), 0)
		switch v := a.value.(type) {
		case string:
			key = append(key, v...)
		case bool:
			key = strconv.AppendBool(key, v)
		case int64:
			key = strconv.AppendInt(key, v, 10)
		case float64:
			key = strconv.AppendFloat(key, v, 'g', -1, 64)
		}
		key = append(key, 0)
	}
	return key
}
