package events

import "time"

// BodyEvicted is the data of body.evicted and body.erased: a body is gone.
type BodyEvicted struct {
	Class  Class  `json:"class"`
	Key    string `json:"key"`
	Bytes  int64  `json:"bytes,omitempty"`
	Reason string `json:"reason"` // budget, expired, purge, erase
}

// UpstreamState is the data of upstream.state: an upstream's circuit changed.
type UpstreamState struct {
	Upstream string `json:"upstream"`
	State    string `json:"state"` // closed, open, half_open
	Reason   string `json:"reason,omitempty"`
	Failures int    `json:"failures,omitempty"`
}

// AdminAction is the data of admin.action: a person changed something.
type AdminAction struct {
	Action string            `json:"action"`
	Detail map[string]string `json:"detail,omitempty"`
}

// LedgerGap is the data of ledger.gap: facts were lost while neither the log
// nor the spool could be written.
type LedgerGap struct {
	Count  int64     `json:"count"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
	Reason string    `json:"reason,omitempty"`
}
