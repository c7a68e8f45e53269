package eventstest

import (
	"testing"
)

func TestContract(t *testing.T) {
	Run(t, func(t *testing.T) Harness { return Harness{Log: NewLog(t)} })
}
