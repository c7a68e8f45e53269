package callid

import (
	"bytes"
	"slices"
	"strings"
)

// walker finds the ids and references in one JSON value, handed in by lines. It
// takes the value to be JSON; of other bytes it finds something or nothing, and
// never reads past them.
type walker struct {
	stack []frame
	path  []byte // names joined by dots
	key   []byte // the last string, which a colon makes a key
	named bool   // a colon followed it: the next value is its member's
	over  int    // containers open beyond maxDepth
}

// maxDepth bounds the containers that are kept in mind; what is deeper inside
// is no call and refers to none.
const maxDepth = 64

// frame is a container being read.
type frame struct {
	object bool
	path   int  // length of the path to it
	call   bool // it stands where calls stand
	quiet  bool // it is inside a call: its members are the tool's affair
	marked bool
	first  int // of its own ids in found
}

func (w *walker) reset() {
	w.stack, w.path, w.key, w.named, w.over = w.stack[:0], w.path[:0], nil, false, 0
}

// feed reads on in a line that starts at a position of the whole.
func (w *walker) feed(r *Renewer, b []byte, at int) {
	for i := 0; i < len(b); i++ {
		switch c := b[i]; c {
		case '"':
			end := stringEnd(b, i)
			if end < 0 {
				return
			}
			if w.named {
				w.text(r, at+i+1, at+end)
				w.key, w.named = nil, false
			} else {
				w.key = b[i+1 : end]
			}
			i = end
		case ':':
			w.named = w.key != nil
			if w.named {
				w.mark(r)
			}
		case '{', '[':
			w.open(r, c == '{')
		case '}', ']':
			w.close(r)
		case ',':
			w.key, w.named = nil, false
		}
	}
}

// stringEnd is the position of the quote that closes the string opened at i.
func stringEnd(b []byte, i int) int {
	for i++; ; i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		escapes := 0
		for b[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i
		}
	}
}

func (w *walker) top() *frame {
	if len(w.stack) == 0 {
		return nil
	}
	return &w.stack[len(w.stack)-1]
}

// open enters a container.
func (w *walker) open(r *Renewer, object bool) {
	if len(w.stack) == maxDepth {
		w.over++
		w.key, w.named = nil, false
		return
	}
	f := frame{object: object, path: len(w.path), first: len(r.found)}
	if top := w.top(); top != nil {
		f.quiet = top.quiet || top.call
	}
	if w.named {
		if len(w.path) > 0 {
			w.path = append(w.path, '.')
		}
		w.path = append(w.path, w.key...)
		w.key, w.named = nil, false
	}
	f.call = object && !f.quiet && slices.Contains(r.places.Objects, string(w.path))
	f.marked = r.places.Mark == ""
	w.stack = append(w.stack, f)
}

// close leaves one. What looked like a call's ids is none without its mark.
func (w *walker) close(r *Renewer) {
	if w.over > 0 {
		w.over--
		return
	}
	top := w.top()
	if top == nil {
		return
	}
	if top.call && !top.marked {
		for i := top.first; i < len(r.found); i++ {
			r.found[i].own = false
		}
	}
	w.path, w.stack = w.path[:top.path], w.stack[:len(w.stack)-1]
	w.key, w.named = nil, false
}

func (w *walker) mark(r *Renewer) {
	if top := w.top(); top != nil && top.call && string(w.key) == r.places.Mark {
		top.marked = true
	}
}

// text takes a member that is a string; from and to are its inside.
func (w *walker) text(r *Renewer, from, to int) {
	top := w.top()
	if top == nil || top.quiet || w.over > 0 || from == to {
		return
	}
	name := string(w.key)
	if own := top.call && slices.Contains(r.places.IDs, name); own || !top.call && (name == "id" || strings.HasSuffix(name, "_id")) {
		r.found = append(r.found, span{from, to, own})
	}
}
