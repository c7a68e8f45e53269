package anthropic

// object is a JSON object whose members keep their order and their bytes.
type object []member

type member struct{ key, val []byte }

// parse reads the members of an object that is valid JSON, nil for other values.
func parse(raw []byte) object {
	var o object
	for m := walk(raw); m.next(); {
		o = append(o, member{m.key, m.val})
	}
	return o
}

// get returns the value of a name, nil when there is none.
func (o object) get(name string) []byte {
	for i := len(o) - 1; i >= 0; i-- {
		if named(o[i].key, name) {
			return o[i].val
		}
	}
	return nil
}

// set replaces the value of a name where it stands, or appends it.
func (o *object) set(name string, val []byte) {
	for i := len(*o) - 1; i >= 0; i-- {
		if named((*o)[i].key, name) {
			(*o)[i].val = val
			return
		}
	}
	*o = append(*o, member{quote(nil, []byte(name)), val})
}

// replace is set for names that are there already.
func (o object) replace(name string, val []byte) {
	if o.get(name) != nil {
		o.set(name, val)
	}
}

// update takes over m, unless it is null and there is a value already: a later
// part of a stream that says nothing does not take back what was said.
func (o *object) update(m member) {
	name := text(m.key)
	for i := len(*o) - 1; i >= 0; i-- {
		if named((*o)[i].key, name) {
			if !isNull(m.val) {
				(*o)[i].val = m.val
			}
			return
		}
	}
	*o = append(*o, m)
}

// clone returns a copy whose members can be set without changing o.
func (o object) clone() object { return append(object(nil), o...) }

// append writes the object.
func (o object) append(dst []byte) []byte {
	dst = append(dst, '{')
	for i, m := range o {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, m.key...), ':'), m.val...)
	}
	return append(dst, '}')
}
