package home

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/icyloom/icyloom/cmd/internal/whole"
)

// secretBytes is the size of the credential-scope secret.
const secretBytes = 32

// nodeID is what may stand in a log subject without escaping.
var nodeID = regexp.MustCompile(`^[a-z0-9]{8,32}$`)

// Node returns the id that this home's events carry. It is made once, from
// random bytes alone: never from a host or user name.
func (h Home) Node() (string, error) {
	text, err := h.once("node", func() string {
		raw := make([]byte, 10)
		rand.Read(raw) // never fails, see crypto/rand
		return strings.ToLower(base32.StdEncoding.EncodeToString(raw))
	})
	if err != nil {
		return "", err
	}
	if !nodeID.MatchString(text) {
		return "", fmt.Errorf("%s does not hold a node id (8 to 32 of a-z and 0-9); put the right one back, or remove the file to get a new one", filepath.Join(h.dir, "node"))
	}
	return text, nil
}

// Secret returns the key that credential scopes are hashed with, made once.
// Losing it loses no event: cached answers are then simply not found again.
func (h Home) Secret() ([]byte, error) {
	text, err := h.once("secret", func() string {
		raw := make([]byte, secretBytes)
		rand.Read(raw)
		return hex.EncodeToString(raw)
	})
	if err != nil {
		return nil, err
	}
	secret, err := hex.DecodeString(text)
	if err != nil || len(secret) != secretBytes {
		return nil, fmt.Errorf("%s does not hold %d bytes of hex; put the right one back, or remove the file to get a new one (cached answers are then asked again)", filepath.Join(h.dir, "secret"), secretBytes)
	}
	return secret, nil
}

// once returns the trimmed content of a file, and makes it first where there is
// none: whole or not at all, so that a crash cannot leave half an identity.
func (h Home) once(name string, fresh func() string) (string, error) {
	path := filepath.Join(h.dir, name)
	data, err := os.ReadFile(path)
	if err == nil {
		return strings.TrimSpace(string(data)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", h.explain("cannot be read", err)
	}
	text := fresh()
	if err := whole.WriteBytes(path, []byte(text+"\n")); err != nil {
		return "", h.explain("cannot be written", err)
	}
	return text, nil
}
