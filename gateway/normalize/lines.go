package normalize

import "bytes"

// lines goes through a text with LF line ends and writes it with its prose
// normalized. Blank lines around it go and several become one, but not in fences
// and indented code.
func (e *engine) lines(text []byte) {
	var (
		fence     fenceMark
		start     = len(e.out)
		run       = -1 // where the prose begins that waits for its end
		blank     = -1 // where the blank lines begin that came last
		in        bool // the last line that was not blank was indented
		at, after int
	)
	endRun := func() {
		if run >= 0 {
			e.paragraph(bytes.TrimSuffix(text[run:at], []byte("\n")))
			e.out = append(e.out, '\n')
			run = -1
		}
	}
	for ; at < len(text); at = after {
		var line []byte
		line, after = cut(text, at)
		if fence.n > 0 {
			e.out = append(append(e.out, line...), '\n')
			if fence.closedBy(line) {
				fence = fenceMark{}
			}
			continue
		}
		if e.r.blankLine(line) {
			endRun()
			if blank < 0 {
				blank = at
			}
			continue
		}
		if len(e.out) == start && run < 0 && only(text[after:], line) {
			indent := len(line) - len(bytes.TrimLeft(line, " "))
			line, at = line[indent:], at+indent
		}
		was := in
		in = line[0] == ' ' || line[0] == '\t'
		switch {
		case blank < 0 || len(e.out) == start:
		case in && was:
			e.out = append(e.out, text[blank:at]...)
		default:
			e.out = append(e.out, '\n')
		}
		blank = -1
		if fence = opens(line); fence.n > 0 || in || codeLine(line) {
			endRun()
			e.out = append(append(e.out, line...), '\n')
		} else if run < 0 {
			run = at
		}
	}
	endRun()
	if len(e.out) > start && (fence.n == 0 || text[len(text)-1] != '\n') {
		e.out = e.out[:len(e.out)-1] // the last line has no end, but in open code
	}
}

// cut returns the line at a place and where the next one begins.
func cut(text []byte, at int) (line []byte, after int) {
	if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
		return text[at : at+n], at + n + 1
	}
	return text[at:], len(text)
}

// only tells whether a line, indented less than code, is all there is.
func only(rest, line []byte) bool {
	return len(bytes.Trim(rest, " \t\n")) == 0 && !bytes.HasPrefix(line, []byte("    ")) && bytes.TrimLeft(line, " ")[0] != '\t'
}

// blankLine tells whether a line has blanks only.
func (r *Rules) blankLine(line []byte) bool {
	for len(line) > 0 {
		n := r.blank(line)
		if n == 0 && line[0] == '\t' {
			n = 1
		}
		if n == 0 {
			return false
		}
		line = line[n:]
	}
	return true
}

// fenceMark is the open fence of a block of code; none when n is 0.
type fenceMark struct {
	c byte
	n int
}

// opens returns the fence that a line opens.
func opens(line []byte) (f fenceMark) {
	line = bytes.TrimLeft(line, " ")
	for f.n < len(line) && line[f.n] == line[0] && (line[0] == '`' || line[0] == '~') {
		f.n++
	}
	if f.n < 3 {
		return fenceMark{}
	}
	f.c = line[0]
	return f
}

func (f fenceMark) closedBy(line []byte) bool {
	g := opens(line)
	return g.c == f.c && g.n >= f.n && len(bytes.Trim(line, " \t`~")) == 0
}

// What lines of code, tables and markup have and prose seldom does.
var (
	codeWithin = [][]byte{
		[]byte("|"), []byte("{"), []byte("}"), []byte("\t"), []byte("=>"), []byte("->"), []byte(":="), []byte("=="), []byte("!="),
		[]byte("&&"), []byte("();"), []byte("</"), []byte("/>"), []byte(" = "), []byte("+="), []byte("#!"),
	}
	codeBefore = [][]byte{
		[]byte("import "), []byte("from "), []byte("def "), []byte("class "), []byte("const "), []byte("var "), []byte("func "),
		[]byte("function "), []byte("package "), []byte("public "), []byte("private "), []byte("return "), []byte("elif "),
		[]byte("else:"), []byte("using "), []byte("$ "), []byte("> "), []byte(">>>"), []byte("#include"), []byte("//"), []byte("--"),
	}
	codeBehind = [][]byte{[]byte(";"), []byte("):"), []byte(");")}
)

// codeLine tells whether a line looks like code, a table or markup: better to
// leave a sentence than to touch one of those.
func codeLine(line []byte) bool {
	for _, s := range codeBefore {
		if bytes.HasPrefix(line, s) {
			return true
		}
	}
	for _, s := range codeBehind {
		if bytes.HasSuffix(line, s) {
			return true
		}
	}
	if !bytes.ContainsAny(line, "|{}\t=-&(</#") {
		return false
	}
	for _, s := range codeWithin {
		if bytes.Contains(line, s) {
			return true
		}
	}
	return false
}
