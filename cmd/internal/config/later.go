package config

import "go.yaml.in/yaml/v3"

// later tells whether a key that this version does not have belongs to the
// format all the same, so that one file serves versions that have less. A
// section of a part that is not there is passed over with a notice; a single
// key may only say what this version does anyway, for else it would be a
// promise that nothing keeps.
func (d *decoder) later(key, value *yaml.Node, path string) bool {
	switch path {
	case "mcp", "relay", "intercept", "daemon":
		d.notices = append(d.notices, Fault{Line: key.Line, Key: path, What: "this version has no such part, so nothing is done with it"})
	case "ledger.durability":
		d.only(value, path, "process")
	default:
		return false
	}
	return true
}

func (d *decoder) only(n *yaml.Node, path, word string) {
	d.scalar(n, path, func(s string) error {
		if s != word && s != "" {
			d.add(n.Line, path, "this version knows only "+path+": "+quoted(word), "leave the key out")
		}
		return nil
	})
}

func quoted(s string) string {
	if s == "" {
		return `""`
	}
	return s
}
