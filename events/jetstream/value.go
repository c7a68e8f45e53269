package jetstream

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"github.com/icyloom/icyloom/events"
)

// A body's stored value, version 1; numbers are big-endian.
//
//	 0  "B", version 1, two zero bytes
//	 4  CRC-32C of everything that follows
//	 8  expiry in Unix nanoseconds, 0 for never
//	16  length of the content, uncompressed (8 bytes)
//	24  CRC-32C of the content, uncompressed
//	28  length of the meta value
//	32  number of parts
//	36  parts: sequence numbers of 8 bytes
//	    meta value
//	    content, zstd, when there are no parts
type value struct {
	expires time.Time
	length  int
	sum     uint32
	meta    []byte
	parts   []uint64
	content []byte
}

const (
	valueHeader  = 36
	valueVersion = 1
	maxBodyBytes = 256 << 20
	maxMetaBytes = 64 << 10
	maxParts     = 2 * maxBodyBytes / chunkBytes
)

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// append appends the stored form of v to dst, which is empty.
func (v *value) append(dst []byte) []byte {
	b := append(dst, 'B', valueVersion, 0, 0, 0, 0, 0, 0)
	var expires int64
	if !v.expires.IsZero() {
		expires = v.expires.UnixNano()
	}
	b = binary.BigEndian.AppendUint64(b, uint64(expires))
	b = binary.BigEndian.AppendUint64(b, uint64(v.length))
	b = binary.BigEndian.AppendUint32(b, v.sum)
	b = binary.BigEndian.AppendUint32(b, uint32(len(v.meta)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(v.parts)))
	for _, seq := range v.parts {
		b = binary.BigEndian.AppendUint64(b, seq)
	}
	b = append(b, v.meta...)
	b = append(b, v.content...)
	binary.BigEndian.PutUint32(b[4:], checksum(b[8:]))
	return b
}

// parseValue reads a stored value, which it keeps. A value that does not hold
// together is no body: the error wraps events.ErrNoBody.
func parseValue(b []byte) (value, error) {
	damaged := func(why string) (value, error) {
		return value{}, fmt.Errorf("%w: the stored value is damaged (%s)", events.ErrNoBody, why)
	}
	switch {
	case len(b) < valueHeader || b[0] != 'B':
		return damaged("not a body")
	case b[1] != valueVersion:
		return damaged(fmt.Sprintf("version %d", b[1]))
	case binary.BigEndian.Uint32(b[4:]) != checksum(b[8:]):
		return damaged("checksum")
	}
	length, parts := binary.BigEndian.Uint64(b[16:]), binary.BigEndian.Uint32(b[32:])
	meta := uint64(binary.BigEndian.Uint32(b[28:]))
	if length > maxBodyBytes || parts > maxParts || valueHeader+8*uint64(parts)+meta > uint64(len(b)) {
		return damaged("lengths")
	}
	v := value{length: int(length), sum: binary.BigEndian.Uint32(b[24:])}
	if ns := int64(binary.BigEndian.Uint64(b[8:])); ns != 0 {
		v.expires = time.Unix(0, ns).UTC()
	}
	rest := b[valueHeader:]
	for range parts {
		v.parts = append(v.parts, binary.BigEndian.Uint64(rest))
		rest = rest[8:]
	}
	if meta > 0 {
		v.meta = rest[:meta:meta]
	}
	v.content = rest[meta:]
	return v, nil
}

// checkBody refuses what a value cannot hold.
func checkBody(b events.Body) error {
	switch {
	case len(b.Data) > maxBodyBytes:
		return fmt.Errorf("%w: a body of %d bytes, %d are allowed", events.ErrTooLarge, len(b.Data), maxBodyBytes)
	case len(b.Meta) > maxMetaBytes:
		return fmt.Errorf("%w: a body's meta of %d bytes, %d are allowed", events.ErrTooLarge, len(b.Meta), maxMetaBytes)
	case !b.Expires.IsZero() && (b.Expires.Year() < 1971 || b.Expires.Unix() > math.MaxInt64/int64(time.Second)):
		return fmt.Errorf("%w: a body's expiry of %s", events.ErrInvalid, b.Expires)
	}
	return nil
}
