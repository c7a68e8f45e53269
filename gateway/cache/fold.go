package cache

import (
	"bytes"

	"golang.org/x/text/unicode/norm"
)

// mayFold tells cheaply, of a canonical string without its quotes, whether
// foldText could change the text. It errs on the side of true.
func mayFold(enc []byte) bool {
	if len(enc) == 0 {
		return false
	}
	return blankAt(enc, 0) || blankEnd(enc) || !ascii(enc) || bytes.Contains(enc, []byte("  ")) ||
		bytes.Contains(enc, []byte(`\r`)) || bytes.Contains(enc, []byte(`\n\n\n`)) ||
		bytes.Contains(enc, []byte(`\n `)) || bytes.Contains(enc, []byte(`\n\t`))
}

// blankAt tells whether a blank character, or an escape that may be one, stands at i.
func blankAt(enc []byte, i int) bool {
	return enc[i] == ' ' || enc[i] == '\\' && i+1 < len(enc) && (enc[i+1] == 'n' || enc[i+1] == 't' || enc[i+1] == 'r')
}

func blankEnd(enc []byte) bool {
	n := len(enc)
	return enc[n-1] == ' ' || n > 1 && blankAt(enc, n-2)
}

// ascii tells whether b has no byte above 0x7f.
func ascii(b []byte) bool {
	var all byte
	for len(b) >= 16 {
		_ = b[15]
		all |= b[0] | b[1] | b[2] | b[3] | b[4] | b[5] | b[6] | b[7] |
			b[8] | b[9] | b[10] | b[11] | b[12] | b[13] | b[14] | b[15]
		b = b[16:]
	}
	for _, c := range b {
		all |= c
	}
	return all < 0x80
}

// Fold returns what a safe match makes of a system or user text: see MatchSafe.
func Fold(text []byte) []byte { return foldText(nil, text) }

// foldText appends text with everything folded that cannot change its meaning:
// line ends become LF, blank space around the text goes, several blank lines
// become one, several spaces between words become one, characters are composed
// (NFC). Code is left alone, and so is what may be code, a quotation or a table:
// fenced and indented lines, lines with a backtick, a double quote, a bar or a
// tab, spaces next to a digit and at a line's end. Folding twice is folding once.
func foldText(dst, text []byte) []byte {
	text, indented := trimmed(text)
	if !indented {
		text = bytes.TrimLeft(text, " ")
	}
	out, open := foldLines(dst, bytes.TrimRight(text, " \t\r\n"))
	if open {
		out, _ = foldLines(dst, text) // what ends in code ends as it does
	}
	return out
}

// foldLines folds a text line by line; open tells whether it ends within a fence.
func foldLines(dst, text []byte) (out []byte, open bool) {
	f := folder{out: dst}
	for rest := text; len(rest) > 0; {
		var line []byte
		line, rest = cutLine(rest)
		f.line(line)
	}
	if n := len(text); n > 0 && text[n-1] != '\n' && text[n-1] != '\r' {
		f.out = f.out[:len(f.out)-1] // the last line has no end
	}
	return f.out, f.fence != 0
}

// trimmed takes blank lines off the front of a text, and tells whether the text
// has an indented line: then the first one's indent counts, unless it is the
// only one and that of prose.
func trimmed(text []byte) (rest []byte, indented bool) {
	for len(text) > 0 {
		line, after := cutLine(text)
		if len(bytes.TrimLeft(line, " \t")) > 0 {
			break
		}
		text = after
	}
	first, after := cutLine(text)
	indented = bytes.HasPrefix(first, []byte("    ")) || bytes.HasPrefix(bytes.TrimLeft(first, " "), []byte("\t"))
	for len(after) > 0 && !indented {
		var line []byte
		line, after = cutLine(after)
		indented = len(line) > 0 && blank(line[0]) && len(bytes.TrimLeft(line, " \t")) > 0
	}
	return text, indented
}

func blank(c byte) bool { return c == ' ' || c == '\t' }

// cutLine cuts after the first line end: LF, CR LF or CR.
func cutLine(text []byte) (line, rest []byte) {
	i := bytes.IndexByte(text, '\n')
	if i < 0 {
		i = len(text)
	}
	if cr := bytes.IndexByte(text[:i], '\r'); cr >= 0 {
		if cr+1 < len(text) && text[cr+1] == '\n' {
			return text[:cr], text[cr+2:]
		}
		return text[:cr], text[cr+1:]
	}
	if i == len(text) {
		return text, nil
	}
	return text[:i], text[i+1:]
}

// folder folds line by line.
type folder struct {
	out []byte

	fence      byte // of the open fence, 0 outside
	fenceLen   int
	blankFrom  int  // where they begin in out
	blankLines int  // just read
	indented   bool // the last line that was not blank was indented
}

func (f *folder) line(line []byte) {
	if f.fence != 0 {
		f.raw(line)
		if c, n, bare := fenceOf(line); c == f.fence && n >= f.fenceLen && bare {
			f.fence = 0
		}
		return
	}
	if len(bytes.Trim(line, " \t")) == 0 {
		if f.blankLines == 0 {
			f.blankFrom = len(f.out)
		}
		f.blankLines++
		f.raw(line)
		return
	}
	in := blank(line[0])
	if f.blankLines > 0 && !(in && f.indented) {
		f.out = append(f.out[:f.blankFrom], '\n')
	}
	f.blankLines, f.indented = 0, in
	if c, n, _ := fenceOf(line); c != 0 {
		f.fence, f.fenceLen = c, n
		f.raw(line)
		return
	}
	if in || bytes.ContainsAny(line, "`\"|\t") {
		f.raw(line)
		return
	}
	f.prose(line)
}

func (f *folder) raw(line []byte) { f.out = append(append(f.out, line...), '\n') }

func (f *folder) prose(line []byte) {
	if !ascii(line) {
		composed := norm.NFC.Bytes(line)
		if bytes.IndexByte(composed, '`') >= 0 {
			f.raw(line) // U+1FEF composes to a backtick
			return
		}
		line = composed
	}
	for {
		i := bytes.Index(line, []byte("  "))
		if i < 0 {
			break
		}
		end := i + 2
		for end < len(line) && line[end] == ' ' {
			end++
		}
		keep := end
		if i > 0 && end < len(line) && !digit(line[i-1]) && !digit(line[end]) {
			keep = i + 1
		}
		f.out = append(f.out, line[:keep]...)
		line = line[end:]
	}
	f.raw(line)
}

func digit(c byte) bool { return c-'0' <= 9 }

// fenceOf returns the mark and length of a code fence that a line opens or
// closes, 0 when it is none; bare: nothing stands behind it.
func fenceOf(line []byte) (mark byte, n int, bare bool) {
	line = bytes.TrimLeft(line, " ")
	if len(line) < 3 || line[0] != '`' && line[0] != '~' {
		return 0, 0, false
	}
	for n < len(line) && line[n] == line[0] {
		n++
	}
	if n < 3 {
		return 0, 0, false
	}
	return line[0], n, len(bytes.TrimRight(line[n:], " \t")) == 0
}
