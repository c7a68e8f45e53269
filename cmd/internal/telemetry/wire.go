package telemetry

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// OTLP is written by hand, in its protobuf form, which every receiver takes: three
// messages with few fields each. The exporters of OpenTelemetry bring gRPC with
// them also where they speak HTTP, and several megabytes.
//
// Field numbers are those of opentelemetry/proto/{common,resource,trace,metrics}/v1.

// message is a protobuf message as it grows.
type message []byte

func (m *message) bytes(field protowire.Number, b []byte) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), b)
}

func (m *message) text(field protowire.Number, s string) {
	*m = protowire.AppendString(protowire.AppendTag(*m, field, protowire.BytesType), s)
}

func (m *message) varint(field protowire.Number, v uint64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), v)
}

func (m *message) fixed(field protowire.Number, v uint64) {
	*m = protowire.AppendFixed64(protowire.AppendTag(*m, field, protowire.Fixed64Type), v)
}

func (m *message) double(field protowire.Number, v float64) { m.fixed(field, math.Float64bits(v)) }

// attribute is a name with a string, a bool, an int64 or a float64.
type attribute struct {
	name  string
	value any
}

// attributes appends KeyValues.
func (m *message) attributes(field protowire.Number, list []attribute) {
	for _, a := range list {
		var value, pair message
		switch v := a.value.(type) {
		case string:
			value.text(1, v)
		case bool:
			value.varint(2, protowire.EncodeBool(v))
		case int64:
			value.varint(3, uint64(v))
		case float64:
			value.double(4, v)
		}
		pair.text(1, a.name)
		pair.bytes(2, value)
		m.bytes(field, pair)
	}
}

// span writes a Span.
func (s *span) message() (m message) {
	m.bytes(1, s.trace[:])
	m.bytes(2, s.id[:])
	if s.parent != [8]byte{} {
		m.bytes(4, s.parent[:])
	}
	m.text(5, s.name)
	m.varint(6, 3) // SPAN_KIND_CLIENT
	m.fixed(7, uint64(s.start))
	m.fixed(8, uint64(s.end))
	m.attributes(9, s.attributes)
	if s.failed {
		var status message
		status.varint(3, 2) // STATUS_CODE_ERROR
		m.bytes(15, status)
	}
	return m
}

// spans writes an ExportTraceServiceRequest.
func (e *Exporter) spansRequest(list []span) []byte {
	var scope, resource, request message
	e.scope(&scope)
	for i := range list {
		scope.bytes(2, list[i].message())
	}
	scope.text(3, schemaURL)
	e.resource(&resource)
	resource.bytes(2, scope)
	request.bytes(1, resource)
	return request
}

func (e *Exporter) scope(m *message) {
	var s message
	s.text(1, "icyloom")
	s.text(2, e.o.Version)
	m.bytes(1, s)
}

func (e *Exporter) resource(m *message) {
	var r message
	r.attributes(1, []attribute{{"service.name", "icyloom"}, {"service.version", e.o.Version}, {"service.instance.id", e.o.Node}})
	m.bytes(1, r)
}

// metricsRequest writes an ExportMetricsServiceRequest of everything so far.
func (e *Exporter) metricsRequest(now int64) []byte {
	var scope, resource, request message
	e.scope(&scope)
	for _, h := range []*histogram{&e.tokens, &e.duration, &e.firstChunk} {
		if len(h.series) > 0 {
			scope.bytes(2, h.message(e.since, now))
		}
	}
	scope.text(3, schemaURL)
	e.resource(&resource)
	resource.bytes(2, scope)
	request.bytes(1, resource)
	return request
}

// message writes a Metric.
func (h *histogram) message(since, now int64) (m message) {
	m.text(1, h.name)
	m.text(2, h.help)
	m.text(3, h.unit)
	var data, bounds message
	for _, b := range h.bounds {
		bounds = binary.LittleEndian.AppendUint64(bounds, math.Float64bits(b))
	}
	for _, p := range h.series {
		var point, counts message
		point.fixed(2, uint64(since))
		point.fixed(3, uint64(now))
		point.fixed(4, p.count)
		point.double(5, p.sum)
		for _, n := range p.buckets {
			counts = binary.LittleEndian.AppendUint64(counts, n)
		}
		point.bytes(6, counts)
		point.bytes(7, bounds)
		point.attributes(9, p.attributes)
		data.bytes(1, point)
	}
	data.varint(2, 2) // AGGREGATION_TEMPORALITY_CUMULATIVE
	m.bytes(9, data)
	return m
}
