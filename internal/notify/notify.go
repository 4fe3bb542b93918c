// Package notify sends signals that say no more than "look again": to a channel with room for one, which a
// loop waits on.
package notify

// Send signals c without waiting. If a signal is there already, that one will do: its receiver has not looked
// yet.
func Send(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
