package projections

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/ncruces/go-sqlite3"
)

// The folder of a store holds a file named current, one line that names the
// database in use, and databases tables-N.db. What current does not name is
// left over and is removed. A new database gets a new name, so that readers of
// the old one go on with it, also where an open file cannot be replaced.
const (
	currentName = "current"
	tablePrefix = "tables-"
	tableSuffix = ".db"
	building    = ".building"
)

// currentPath returns the database that dir names as current, "" for none.
func currentPath(dir string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, currentName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("projections: %w", err)
	}
	name := strings.TrimSpace(string(b))
	if fileNumber(name) == 0 {
		return "", nil
	}
	if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
		return "", nil
	}
	return filepath.Join(dir, name), nil
}

// fileNumber returns N of tables-N.db, 0 for another name.
func fileNumber(name string) uint64 {
	s, ok := strings.CutPrefix(name, tablePrefix)
	if !ok {
		return 0
	}
	if s, ok = strings.CutSuffix(s, tableSuffix); !ok {
		return 0
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0
	}
	return n
}

// nextPath returns a name in dir that no database has had.
func nextPath(dir string) (string, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("projections: %w", err)
	}
	var top uint64
	for _, e := range list {
		top = max(top, fileNumber(e.Name()))
	}
	return filepath.Join(dir, fmt.Sprintf("%s%08d%s", tablePrefix, top+1, tableSuffix)), nil
}

// pointTo makes path the current database of dir, all or nothing.
func pointTo(dir, path string) error {
	tmp := filepath.Join(dir, currentName+building)
	f, err := os.Create(tmp)
	if err != nil {
		return fmt.Errorf("projections: %w", err)
	}
	_, err = f.WriteString(filepath.Base(path) + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(tmp, filepath.Join(dir, currentName))
	}
	if err == nil {
		err = syncPath(dir)
	}
	if err != nil {
		return fmt.Errorf("projections: point to %s: %w", path, err)
	}
	return nil
}

// removeOld removes databases of dir that are not keep. One that is still open
// somewhere may stay until the next time.
func removeOld(dir, keep string) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range list {
		name := e.Name()
		base, _, _ := strings.Cut(name, tableSuffix)
		if fileNumber(base+tableSuffix) == 0 || base+tableSuffix == filepath.Base(keep) {
			continue
		}
		_ = os.Remove(filepath.Join(dir, name)) // see above
	}
}

// syncPath flushes a file or folder to disk.
func syncPath(path string) error {
	if runtime.GOOS == "windows" {
		return nil // a folder cannot be flushed there, and files are by then
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// fileBytes returns the size of a database with its write-ahead log.
func fileBytes(path string) int64 {
	var n int64
	for _, suffix := range [...]string{"", "-wal"} {
		if fi, err := os.Stat(path + suffix); err == nil {
			n += fi.Size()
		}
	}
	return n
}

// createTables makes an empty database of the present schema, without the
// indexes that createIndexes makes once the tables are full.
func createTables(c *conn) error {
	c.exec("BEGIN")
	c.exec(bookkeeping)
	rows := int64(0)
	for i, t := range schema() {
		c.exec(t.ddl)
		if rows = 0; tableID(i) == tabNames {
			rows = fixedNames
		}
		c.prepare("INSERT INTO checkpoints (name, version, seq, rows) VALUES (?, ?, 0, ?)").
			text(1, t.name).ints(2, int64(t.version), rows).run()
	}
	for i, name := range seedNames() {
		c.prepare("INSERT INTO names (id, name) VALUES (?, ?)").ints(1, int64(i)).text(2, name).run()
	}
	c.exec("INSERT INTO origin (id, created, first_id) VALUES (1, 0, '')")
	c.exec(views)
	c.exec("COMMIT")
	return c.err
}

func createIndexes(c *conn) {
	for _, t := range schema() {
		c.exec(t.late)
	}
}

// openWriter opens the live database for folding.
func openWriter(path string) (*conn, error) {
	pace := newPacer()
	c, err := openConn(pace.uri(path), sqlite3.OPEN_READWRITE|sqlite3.OPEN_URI)
	if err != nil {
		pace.unregister()
		return nil, err
	}
	c.pace = pace
	c.exec("PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 2000; PRAGMA cache_size = -8000")
	if c.err != nil {
		err := c.err
		_ = c.close() // the first error is the one to tell
		return nil, fmt.Errorf("projections: open %s: %w", path, err)
	}
	return c, nil
}

// changedTables lists the tables whose version in the file is not ours.
func changedTables(c *conn) []string {
	have := map[string]int64{}
	c.prepare("SELECT name, version FROM checkpoints").rows(func(r *sqlite3.Stmt) bool {
		have[r.ColumnText(0)] = r.ColumnInt64(1)
		return true
	})
	var changed []string
	for _, t := range schema() {
		if v, ok := have[t.name]; !ok || v != int64(t.version) {
			changed = append(changed, t.name)
		}
	}
	return changed
}
