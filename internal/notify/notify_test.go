package notify

import (
	"testing"
)

func TestOneSignalIsKeptAndNoSenderWaits(t *testing.T) {
	c := make(chan struct{}, 1)
	for range 3 {
		Send(c)
	}
	<-c
	select {
	case <-c:
		t.Error("there were two signals")
	default:
	}
	Send(nil) // no receiver will ever look
}
