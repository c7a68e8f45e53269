// Package build tells which program this is.
package build

import (
	"runtime"
	"runtime/debug"
)

// version is set by the linker: -X …/cmd/internal/build.version=1.2.3.
var version string

// Info identifies a build.
type Info struct {
	Version string `json:"version"`
	// Commit is the revision it was built from, "" when that was not recorded;
	// Modified says that files differed from it.
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Read returns what the linker and the go command recorded.
func Read() Info {
	info := Info{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	recorded, ok := debug.ReadBuildInfo()
	if ok && info.Version == "" && recorded.Main.Version != "(devel)" {
		info.Version = recorded.Main.Version
	}
	if info.Version == "" {
		info.Version = "devel"
	}
	if !ok {
		return info
	}
	for _, s := range recorded.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Commit = s.Value
		case "vcs.modified":
			info.Modified = s.Value == "true"
		}
	}
	return info
}

// String is the version with what else is known, on one line.
func (i Info) String() string {
	s := "icyloom " + i.Version + " (" + i.Go + " " + i.Platform
	if i.Commit != "" {
		s += ", commit " + i.Commit[:min(12, len(i.Commit))]
	}
	if i.Modified {
		s += ", modified"
	}
	return s + ")"
}
