package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rousehq/rouse"
)

// signAWS appends the headers of a signature of AWS, version 4, to the head of a request, which has all other
// headers that are signed: Host, Content-Type and X-Amz-….
func (r *request) signAWS(c *rouse.Credential, body []byte, now time.Time) {
	secret, session := rouse.SplitAWSSecret(c.Secret)
	at := now.UTC().Format("20060102T150405Z")
	r.setHeader("X-Amz-Date", at)
	if session != "" {
		r.setHeader("X-Amz-Security-Token", session)
		r.used = append(r.used, session)
	}
	names, headers := awsHeaders(r.head)
	rawPath, query, _ := strings.Cut(r.path, "?")
	canonical := strings.Join([]string{r.method, awsPath(rawPath), awsQuery(query), headers, names, hashHex(body)}, "\n")

	scope := at[:8] + "/" + c.AWS.Region + "/" + c.AWS.Service + "/aws4_request"
	key := []byte("AWS4" + secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = hmacSum(key, part)
	}
	signature := hmacSum(key, strings.Join([]string{"AWS4-HMAC-SHA256", at, scope, hashHex([]byte(canonical))}, "\n"))
	r.setHeader("Authorization", "AWS4-HMAC-SHA256 Credential="+c.AWS.AccessKey+"/"+scope+", SignedHeaders="+names+
		", Signature="+hex.EncodeToString(signature))
}

func hmacSum(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

func hashHex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// awsHeaders returns the names of the headers that are signed, and a line of each.
func awsHeaders(head []byte) (names, lines string) {
	var signed []string
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		name, value, ok := strings.Cut(string(line), ": ")
		if name = strings.ToLower(name); ok && (name == "host" || name == "content-type" || strings.HasPrefix(name, "x-amz-")) {
			signed = append(signed, name+":"+strings.Join(strings.Fields(value), " ")+"\n")
		}
	}
	slices.Sort(signed)
	for _, s := range signed {
		name, _, _ := strings.Cut(s, ":")
		names += ";" + name
	}
	return strings.TrimPrefix(names, ";"), strings.Join(signed, "")
}

// awsPath returns a path as it is signed: without "." and "..", and with the request's own percent signs
// encoded once more, as all services want it but S3.
func awsPath(raw string) string {
	clean := path.Clean("/" + raw)
	if strings.HasSuffix(raw, "/") && clean != "/" {
		clean += "/"
	}
	return strings.ReplaceAll(awsEscape(clean), "%2F", "/")
}

// awsQuery returns a query as it is signed: its parts in the order of their encoded forms.
func awsQuery(raw string) string {
	if raw == "" {
		return ""
	}
	var parts [][2]string
	for part := range strings.SplitSeq(raw, "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		parts = append(parts, [2]string{awsEscape(unescapeQuery(name)), awsEscape(unescapeQuery(value))})
	}
	slices.SortFunc(parts, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	out := make([]string, len(parts))
	for i, p := range parts {
		out[i] = p[0] + "=" + p[1]
	}
	return strings.Join(out, "&")
}

func unescapeQuery(s string) string {
	if plain, err := url.PathUnescape(s); err == nil { // a plus is a plus
		return plain
	}
	return s
}

// awsEscape encodes all but unreserved characters.
func awsEscape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
