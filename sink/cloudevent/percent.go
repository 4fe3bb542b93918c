package cloudevent

// Percent percent-encodes a text for a header, as the CloudEvents bindings to HTTP and NATS require: space,
// '"', '%' and everything but printable ASCII.
func Percent(s string) string {
	plain := func(c byte) bool { return c > ' ' && c < 0x7f && c != '"' && c != '%' }
	extra := 0
	for i := range len(s) {
		if !plain(s[i]) {
			extra += 2
		}
	}
	if extra == 0 {
		return s
	}
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, len(s)+extra)
	for i := range len(s) {
		if c := s[i]; plain(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(b)
}
