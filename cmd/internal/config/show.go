package config

import (
	_ "embed" // the types' own source
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed config.go
var source string

// manual reads the comments of the types: "Gateway.Listen" → its text.
func manual() (map[string]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("the embedded manual: %w", err)
	}
	docs := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if st, ok := spec.Type.(*ast.StructType); ok {
			for _, f := range st.Fields.List {
				docs[spec.Name.Name+"."+f.Names[0].Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
			}
		}
		return false
	})
	return docs, nil
}

// YAML writes the configuration with every key and the manual's comments.
func (c Config) YAML() ([]byte, error) {
	docs, err := manual()
	if err != nil {
		return nil, err
	}
	doc := &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{node(reflect.ValueOf(c), docs, true)}}
	var b strings.Builder
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(doc); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	return []byte(b.String()), enc.Close()
}

func node(v reflect.Value, docs map[string]string, top bool) *yaml.Node {
	switch v.Kind() {
	case reflect.Struct:
		return structNode(v, docs, top)
	case reflect.Map:
		n := &yaml.Node{Kind: yaml.MappingNode}
		names := map[string]reflect.Value{}
		for _, k := range v.MapKeys() {
			names[k.String()] = v.MapIndex(k)
		}
		for i, k := range slices.Sorted(maps.Keys(names)) {
			// The manual stands at the first of several alike.
			seen := docs
			if i > 0 {
				seen = nil
			}
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: k}, node(names[k], seen, false))
		}
		if len(names) == 0 {
			n.Style = yaml.FlowStyle
		}
		return n
	case reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for i := range v.Len() {
			n.Content = append(n.Content, node(v.Index(i), nil, false))
		}
		return n
	case reflect.String:
		n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v.String()}
		if v.String() == "" || strings.ContainsAny(v.String(), "*[]{}") {
			n.Style = yaml.DoubleQuotedStyle
		}
		return n
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(v.Interface())}
}

func structNode(v reflect.Value, docs map[string]string, top bool) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for i, f := range fieldsOf(v.Type()) {
		key := &yaml.Node{Kind: yaml.ScalarNode, Value: f.Tag.Get("yaml")}
		if doc := docs[v.Type().Name()+"."+f.Name]; doc != "" {
			key.HeadComment = "# " + doc
			if top && i > 0 {
				key.HeadComment = "\n" + key.HeadComment
			}
		}
		n.Content = append(n.Content, key, node(v.Field(i), docs, false))
	}
	return n
}

// Schema is the JSON Schema (draft 2020-12) of the file, for editors.
func Schema(presets Presets) (map[string]any, error) {
	docs, err := manual()
	if err != nil {
		return nil, err
	}
	c := Default(presets)
	// The built-in upstreams are a default of the whole, not of each name.
	c.Upstreams = nil
	s := schema(reflect.ValueOf(c), docs)
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "icyloom.yaml"
	return s, nil
}

func schema(v reflect.Value, docs map[string]string) map[string]any {
	if s, ok := reflect.New(v.Type()).Interface().(scalar); ok {
		types, pattern := s.form()
		return map[string]any{"type": types, "pattern": pattern, "default": v.Interface()}
	}
	switch v.Kind() {
	case reflect.Struct:
		props := map[string]any{}
		for i, f := range fieldsOf(v.Type()) {
			s := schema(v.Field(i), docs)
			s["description"] = docs[v.Type().Name()+"."+f.Name]
			if words := f.Tag.Get("enum"); words != "" {
				if items, list := s["items"].(map[string]any); list {
					items["enum"] = strings.Split(words, ",")
				} else {
					s["enum"] = strings.Split(words, ",")
				}
			}
			props[f.Tag.Get("yaml")] = s
		}
		return map[string]any{"type": []string{"object", "null"}, "properties": props, "additionalProperties": false}
	case reflect.Map:
		return map[string]any{"type": []string{"object", "null"}, "additionalProperties": schema(reflect.Zero(v.Type().Elem()), docs)}
	case reflect.Slice:
		return map[string]any{"type": []string{"array", "null"}, "items": schema(reflect.Zero(v.Type().Elem()), docs)}
	case reflect.Bool:
		return map[string]any{"type": "boolean", "default": v.Bool()}
	case reflect.Int:
		return map[string]any{"type": "integer", "default": v.Int()}
	}
	s := map[string]any{"type": []string{"string", "null"}}
	if v.String() != "" {
		s["default"] = v.String()
	}
	return s
}

// JSON writes the configuration with the same keys as YAML.
func (c Config) JSON() ([]byte, error) {
	var tree any
	if err := node(reflect.ValueOf(c), nil, true).Decode(&tree); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	data, err := json.MarshalIndent(tree, "", "  ")
	return append(data, '\n'), err
}
