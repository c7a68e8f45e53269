package projections

import "github.com/ncruces/go-sqlite3"

// maxNames bounds the words kept in memory; the table has them all.
const maxNames = 16384

// interner gives words their numbers, in the order in which the log uses them.
type interner struct {
	c    *conn
	rows *int64 // the next number is the number of rows: 0 is taken by ""
	ids  map[string]int64
}

// id returns the number of word, a new one when it has none.
func (n *interner) id(word string) int64 {
	if word == "" {
		return noName
	}
	if id, ok := n.ids[word]; ok {
		return id
	}
	if n.ids == nil || len(n.ids) >= maxNames {
		n.ids = make(map[string]int64, 256)
	}
	var id int64
	find := n.c.prepare("SELECT id FROM names WHERE name = ?")
	if !find.text(1, word).row(func(r *sqlite3.Stmt) { id = r.ColumnInt64(0) }) {
		id = *n.rows
		n.c.prepare("INSERT INTO names (id, name) VALUES (?, ?)").ints(1, id).text(2, word).run()
		*n.rows++
	}
	n.ids[word] = id
	return id
}

// reset forgets what is in memory.
func (n *interner) reset() { n.ids = nil }
