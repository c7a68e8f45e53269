package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decoder fills a Config from a yaml tree. yaml's own decoder with KnownFields
// stops at types and speaks of Go; this one goes on, and speaks of keys.
type decoder struct {
	presets Presets
	faults  Faults
	notices Faults
	lines   map[string]int // key path → line
}

// decode reads data over the values that c already holds.
func (d *decoder) decode(data []byte, c *Config) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	var doc yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return
	}
	if err != nil {
		d.syntax(err)
		return
	}
	root := doc.Content[0]
	if root.Tag == "!!null" {
		return
	}
	d.value(root, reflect.ValueOf(c).Elem(), "")
	var more yaml.Node
	if err := dec.Decode(&more); err == nil {
		d.add(more.Line, "", "a second document", "keep one, remove the --- line")
	} else if !errors.Is(err, io.EOF) {
		d.syntax(err)
	}
}

func (d *decoder) syntax(err error) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 0
	if _, serr := fmt.Sscanf(text, "line %d:", &line); serr == nil {
		_, text, _ = strings.Cut(text, ": ")
	}
	d.add(line, "", "this is not YAML: "+text, "mend the line, or compare with `icyloom config show`")
}

func (d *decoder) add(line int, key, what, fix string) {
	d.faults = append(d.faults, Fault{Line: line, Key: key, What: what, Fix: fix})
}

func (d *decoder) value(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	d.lines[path] = n.Line
	if s, ok := v.Addr().Interface().(scalar); ok {
		d.scalar(n, path, s.set)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.structure(n, v, path)
	case reflect.Map:
		d.mapping(n, v, path)
	case reflect.Slice:
		d.list(n, v, path)
	case reflect.String:
		d.scalar(n, path, func(s string) error { v.SetString(s); return nil })
	case reflect.Bool:
		d.scalar(n, path, func(s string) error {
			b, err := strconv.ParseBool(s)
			if err != nil || n.Tag != "!!bool" {
				return fmt.Errorf("%q is neither true nor false; write one of them", s)
			}
			v.SetBool(b)
			return nil
		})
	case reflect.Int:
		d.scalar(n, path, func(s string) error {
			i, err := strconv.ParseInt(s, 10, 32)
			if err != nil {
				return fmt.Errorf("%q is not a whole number; write digits", s)
			}
			v.SetInt(i)
			return nil
		})
	}
}

func (d *decoder) scalar(n *yaml.Node, path string, set func(string) error) {
	if n.Kind != yaml.ScalarNode {
		d.add(n.Line, path, "wants one value, not "+kindName(n), "write it as "+leaf(path)+": value")
		return
	}
	text := n.Value
	if n.Tag == "!!null" {
		text = "" // `key:` and `key: ""` mean the same
	}
	if err := set(text); err != nil {
		what, fix, _ := strings.Cut(err.Error(), "; ")
		d.add(n.Line, path, what, fix)
	}
}

// pairs calls f for every key of a mapping, each once.
func (d *decoder) pairs(n *yaml.Node, path string, f func(key, value *yaml.Node)) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return
	}
	if n.Kind != yaml.MappingNode {
		where := path
		if where == "" {
			where = "the file"
		}
		d.add(n.Line, where, "wants keys with values, not "+kindName(n), "compare with `icyloom config show`")
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if first, ok := seen[key.Value]; ok {
			d.add(key.Line, join(path, key.Value), fmt.Sprintf("stands twice (first on line %d)", first), "keep one")
			continue
		}
		seen[key.Value] = key.Line
		f(key, n.Content[i+1])
	}
}

func (d *decoder) structure(n *yaml.Node, v reflect.Value, path string) {
	known := keysOf(v.Type())
	d.pairs(n, path, func(key, value *yaml.Node) {
		i := slices.Index(known, key.Value)
		if i < 0 && d.later(key, value, join(path, key.Value)) {
			return
		}
		if i < 0 {
			fix := "keys here: " + strings.Join(known, ", ")
			if near := nearest(key.Value, known); near != "" {
				fix = "did you mean " + near + "? " + fix
			}
			d.add(key.Line, join(path, key.Value), "unknown key", fix)
			return
		}
		d.value(value, v.Field(i), join(path, key.Value))
	})
}

// mapping replaces upstreams as a whole, and defaults key by key.
func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string) {
	fresh := reflect.MakeMap(v.Type())
	named := false
	d.pairs(n, path, func(key, value *yaml.Node) {
		named = true
		elem := reflect.New(v.Type().Elem()).Elem()
		if elem.Type() == reflect.TypeFor[Upstream]() {
			elem.Set(reflect.ValueOf(d.presets.upstream(key.Value)))
		}
		d.value(value, elem, join(path, key.Value))
		fresh.SetMapIndex(reflect.ValueOf(key.Value), elem)
	})
	if !named {
		return
	}
	if v.Type().Elem() == reflect.TypeFor[Upstream]() {
		v.Set(fresh)
		return
	}
	for _, key := range fresh.MapKeys() {
		v.SetMapIndex(key, fresh.MapIndex(key))
	}
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" || n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		v.SetZero()
		return
	}
	if n.Kind != yaml.SequenceNode {
		d.add(n.Line, path, "wants a list, not "+kindName(n), `write it as `+leaf(path)+`: ["one", "two"]`)
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		d.value(item, out.Index(i), fmt.Sprintf("%s[%d]", path, i))
	}
	v.Set(out)
}

// fieldsOf are the fields of a section that have keys, in their order; what has
// none comes after them.
func fieldsOf(t reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return !f.IsExported() })
}

func keysOf(t reflect.Type) []string {
	var keys []string
	for _, f := range fieldsOf(t) {
		keys = append(keys, f.Tag.Get("yaml"))
	}
	return keys
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func leaf(path string) string { return path[strings.LastIndex(path, ".")+1:] }

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "keys"
	}
	return "a single value"
}

// nearest is the known key that is at most two edits away from a mistyped one.
func nearest(key string, known []string) string {
	best, name := 3, ""
	for _, k := range known {
		if n := edits(key, k); n < best && n < len(k) {
			best, name = n, k
		}
	}
	return name
}

// edits is the Levenshtein distance.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
