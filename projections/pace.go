package projections

import (
	"fmt"
	"net/url"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"
)

const (
	// paceSlice is how long the projector computes at a stretch, and paceRest how
	// long it then lets others go first.
	paceSlice = 300 * time.Microsecond
	paceRest  = time.Millisecond
	// paceMost bounds the rests of a batch together: on a busy machine each one
	// takes longer than it was meant to, and what is read from the tables ages.
	paceMost = 15 * time.Millisecond
	// paceBelow is the batch from which on the log is being caught up with, which
	// nothing slows down.
	paceBelow = 4000
)

// pacer cuts a batch's work into slices. A batch of ordinary load takes a few
// milliseconds of a processor, and on a small machine a request that becomes
// ready meanwhile would wait until its end: neither Go nor Linux takes the
// processor away that soon. What is folded is the same either way.
//
// A nil pacer never rests. Only the goroutine that writes uses it.
type pacer struct {
	vfs   string // the name of the file system whose writes breathe too
	on    bool
	since time.Time // of the slice
	left  time.Duration
}

var pacers atomic.Int64 // ever made

// newPacer returns a pacer with a file system of its own: a commit is one call,
// and much of its time goes into writing pages. unregister ends it.
func newPacer() *pacer {
	p := &pacer{vfs: fmt.Sprintf("icyloom-paced-%d", pacers.Add(1))}
	vfs.Register(p.vfs, pacedVFS{vfs.Find(""), p})
	return p
}

func (p *pacer) unregister() {
	if p != nil {
		vfs.Unregister(p.vfs)
	}
}

// uri names the file at path in p's file system.
func (p *pacer) uri(path string) string {
	path = filepath.ToSlash(path)
	if filepath.VolumeName(path) != "" {
		path = "/" + path
	}
	u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: "vfs=" + p.vfs}
	return u.String()
}

// start begins a batch of n events; hurry: somebody waits for it.
func (p *pacer) start(n int, hurry bool) {
	if p != nil {
		p.on, p.since, p.left = n < paceBelow && !hurry, time.Now(), paceMost
	}
}

// stop ends the batch: what is written from here on is not slowed down.
func (p *pacer) stop() {
	if p != nil {
		p.on = false
	}
}

// breathe rests if the slice is used up.
func (p *pacer) breathe() {
	if p == nil || !p.on || p.left <= 0 {
		return
	}
	before := time.Now()
	if before.Sub(p.since) < paceSlice {
		return
	}
	time.Sleep(paceRest)
	runtime.Gosched() // behind those who are ready now
	p.since = time.Now()
	p.left -= p.since.Sub(before)
}

type pacedVFS struct {
	vfs.VFS
	p *pacer
}

// Open implements vfs.VFS.
func (v pacedVFS) Open(name string, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, flags, err := vfsutil.WrapOpen(v.VFS, name, flags)
	return v.wrap(f, flags, err)
}

// OpenFilename implements vfs.VFSFilename.
func (v pacedVFS) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	f, flags, err := vfsutil.WrapOpenFilename(v.VFS, name, flags)
	return v.wrap(f, flags, err)
}

func (v pacedVFS) wrap(f vfs.File, flags vfs.OpenFlag, err error) (vfs.File, vfs.OpenFlag, error) {
	if err != nil {
		return nil, flags, err
	}
	return pacedFile{f, v.p}, flags, nil
}

// pacedFile is a file whose writes breathe. The methods but WriteAt pass on what
// the file beneath can do beyond vfs.File.
type pacedFile struct {
	vfs.File
	p *pacer
}

func (f pacedFile) WriteAt(b []byte, off int64) (int, error) {
	f.p.breathe()
	return f.File.WriteAt(b, off)
}

func (f pacedFile) SharedMemory() vfs.SharedMemory {
	if s, ok := f.File.(vfs.FileSharedMemory); ok {
		return s.SharedMemory()
	}
	return nil
}

func (f pacedFile) Unwrap() vfs.File             { return f.File }
func (f pacedFile) LockState() vfs.LockLevel     { return vfsutil.WrapLockState(f.File) }
func (f pacedFile) PersistWAL() bool             { return vfsutil.WrapPersistWAL(f.File) }
func (f pacedFile) SetPersistWAL(keep bool)      { vfsutil.WrapSetPersistWAL(f.File, keep) }
func (f pacedFile) PowersafeOverwrite() bool     { return vfsutil.WrapPowersafeOverwrite(f.File) }
func (f pacedFile) SetPowersafeOverwrite(b bool) { vfsutil.WrapSetPowersafeOverwrite(f.File, b) }
func (f pacedFile) ChunkSize(n int)              { vfsutil.WrapChunkSize(f.File, n) }
func (f pacedFile) SizeHint(n int64) error       { return vfsutil.WrapSizeHint(f.File, n) }
func (f pacedFile) HasMoved() (bool, error)      { return vfsutil.WrapHasMoved(f.File) }
