package amqp

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/rousehq/rouse/internal/amqplink"
)

// management is the HTTP API of RabbitMQ's management plugin.
type management struct {
	base     string
	user     *url.Userinfo
	host     string
	client   *http.Client
	pageSize int
}

func newManagement(address string) (*management, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, errors.New(amqplink.WithoutURL(err))
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("it has no scheme http or https, or no host")
	}
	m := &management{user: u.User, host: u.Host, pageSize: 500}
	u.User = nil
	m.base = strings.TrimSuffix(u.String(), "/") + "/api/"
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // requests contain a password
	m.client = &http.Client{Transport: transport, Timeout: 30 * time.Second}
	return m, nil
}

// refusal is an error response of the API.
type refusal struct {
	status int
	reason string
}

func (r *refusal) Error() string { return fmt.Sprintf("status %d: %s", r.status, r.reason) }

// largest bounds the part of a response that is read: a page of queues, or all bindings of a pool.
const largest = 256 << 20

// callAPI makes a call; path is the part after /api/, with escaped segments.
func (m *management) callAPI(ctx context.Context, method, path string, query url.Values, in, out any) error {
	address := m.base + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return err
	}
	if m.user != nil {
		password, _ := m.user.Password()
		r.SetBasicAuth(m.user.Username(), password)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := m.client.Do(r)
	if err != nil {
		return fmt.Errorf("RabbitMQ's HTTP API at %s: %w", m.host, err)
	}
	defer answer.Body.Close() //nolint:errcheck // it is read
	if answer.StatusCode >= 300 {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10)) // a part is enough for the message
		told := refusal{status: answer.StatusCode, reason: strings.TrimSpace(string(text))}
		var parsed struct{ Error, Reason string }
		if json.Unmarshal(text, &parsed) == nil && parsed.Reason != "" {
			told.reason = parsed.Reason
		}
		return fmt.Errorf("RabbitMQ's HTTP API at %s, %s %s: %w", m.host, method, path, &told)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, largest))
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("RabbitMQ's HTTP API at %s, %s %s: %w", m.host, method, path, err)
	}
	return nil
}

// refusalStatus returns the status of a refusal, 0 for other errors.
func refusalStatus(err error) int {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.status
	}
	return 0
}

// version is the version of a broker.
type version struct{ major, minor int }

func (v version) atLeast(major, minor int) bool {
	return v.major > major || v.major == major && v.minor >= minor
}

// fetchVersion returns the version of the broker. It fails if the user may not log in.
func (m *management) fetchVersion(ctx context.Context) (version, string, error) {
	var v struct {
		Version string `json:"rabbitmq_version"`
	}
	if err := m.callAPI(ctx, http.MethodGet, "overview", nil, nil, &v); err != nil {
		return version{}, "", err
	}
	parts := strings.SplitN(v.Version, ".", 3)
	if len(parts) < 2 {
		return version{}, v.Version, fmt.Errorf("RabbitMQ reports the version %q", v.Version)
	}
	major, err := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return version{major, minor}, v.Version, errors.Join(err, err2)
}

// policy is a policy of the broker.
type policy struct {
	Name       string         `json:"name,omitempty"`
	Pattern    string         `json:"pattern"`
	Definition map[string]any `json:"definition"`
	Priority   int            `json:"priority"`
	ApplyTo    string         `json:"apply-to"`
}

func (m *management) putPolicy(ctx context.Context, vhost string, p policy) error {
	name := p.Name
	p.Name = ""
	return m.callAPI(ctx, http.MethodPut, "policies/"+url.PathEscape(vhost)+"/"+url.PathEscape(name), nil, p, nil)
}

func (m *management) listPolicies(ctx context.Context, vhost string) ([]policy, error) {
	var list []policy
	err := m.callAPI(ctx, http.MethodGet, "policies/"+url.PathEscape(vhost), nil, nil, &list)
	return list, err
}

// described is a queue as in the API. Numbers are missing until the broker has counted them.
type described struct {
	Name      string         `json:"name"`
	Arguments map[string]any `json:"arguments"`
	Ready     *int           `json:"messages_ready"`
	Held      *int           `json:"messages_unacknowledged"`
	Leaving   int            `json:"messages_dlx"` // dead letters in transit
}

// listQueues lists the queues whose names match a pattern, page by page.
func (m *management) listQueues(ctx context.Context, vhost, pattern string, counts bool) ([]described, error) {
	columns := "name,arguments"
	query := url.Values{"name": {pattern}, "use_regex": {"true"}, "page_size": {strconv.Itoa(m.pageSize)}}
	if counts {
		columns += ",messages_ready,messages_unacknowledged"
	} else {
		query.Set("disable_stats", "true")
	}
	query.Set("columns", columns)
	var all []described
	for page := 1; ; page++ {
		query.Set("page", strconv.Itoa(page))
		var p struct {
			Items []described `json:"items"`
			Pages int         `json:"page_count"`
		}
		if err := m.callAPI(ctx, http.MethodGet, "queues/"+url.PathEscape(vhost), query, nil, &p); err != nil {
			if page > 1 && refusalStatus(err) == http.StatusBadRequest { // fewer pages are left than before
				return all, nil
			}
			return nil, err
		}
		if all = append(all, p.Items...); page >= p.Pages {
			return all, nil
		}
	}
}

func (m *management) describeQueue(ctx context.Context, vhost, name string) (described, error) {
	var d described
	query := url.Values{"columns": {"name,arguments,messages_ready,messages_unacknowledged,messages_dlx"}}
	err := m.callAPI(ctx, http.MethodGet, "queues/"+url.PathEscape(vhost)+"/"+url.PathEscape(name), query, nil, &d)
	return d, err
}

// boundTo returns the queues that an exchange routes to.
func (m *management) boundTo(ctx context.Context, vhost, exchange string) (map[string]bool, error) {
	var list []struct {
		Destination string `json:"destination"`
	}
	path := "exchanges/" + url.PathEscape(vhost) + "/" + url.PathEscape(exchange) + "/bindings/source"
	if err := m.callAPI(ctx, http.MethodGet, path, nil, nil, &list); err != nil {
		return nil, err
	}
	bound := make(map[string]bool, len(list))
	for _, b := range list {
		bound[b.Destination] = true
	}
	return bound, nil
}

// properties are the properties of a message in the API.
type properties struct {
	Headers       object[map[string]any] `json:"headers,omitzero"`
	ContentType   string                 `json:"content_type,omitempty"`
	Encoding      string                 `json:"content_encoding,omitempty"`
	DeliveryMode  uint8                  `json:"delivery_mode,omitempty"`
	Priority      uint8                  `json:"priority,omitempty"`
	CorrelationID string                 `json:"correlation_id,omitempty"`
	ReplyTo       string                 `json:"reply_to,omitempty"`
	Expiration    string                 `json:"expiration,omitempty"`
	MessageID     string                 `json:"message_id,omitempty"`
	Timestamp     int64                  `json:"timestamp,omitempty"`
	Type          string                 `json:"type,omitempty"`
	AppID         string                 `json:"app_id,omitempty"`
}

// object is an object of the API, which answers with an empty list instead of an empty object.
type object[T any] struct{ value T }

// UnmarshalJSON leaves the value as it is if the text is a list.
func (o *object[T]) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte("[")) {
		return nil
	}
	return json.Unmarshal(text, &o.value)
}

// MarshalJSON writes the value.
func (o object[T]) MarshalJSON() ([]byte, error) { return json.Marshal(o.value) }

// republishDelivery publishes a message that was fetched to an exchange.
func (m *management) republishDelivery(ctx context.Context, vhost, exchange string, d *amqp091.Delivery) error {
	p := properties{ContentType: d.ContentType, Encoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode,
		Priority:      d.Priority,
		CorrelationID: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration, MessageID: d.MessageId, Type: d.Type,
		AppID: d.AppId}
	p.Headers.value = withoutBrokerHeaders(d).Headers
	if !d.Timestamp.IsZero() {
		p.Timestamp = d.Timestamp.Unix()
	}
	in := map[string]any{"properties": p, "routing_key": d.RoutingKey, "payload": d.Body, "payload_encoding": "base64"}
	var out struct{ Routed bool }
	err := m.callAPI(ctx, http.MethodPost, "exchanges/"+url.PathEscape(vhost)+"/"+url.PathEscape(exchange)+"/publish",
		nil, in, &out)
	if err == nil && !out.Routed {
		err = fmt.Errorf("a message for %s was returned: there is no queue for it", exchange)
	}
	return err
}

// fetchMessage fetches the first message of a queue, with the properties that it has when it is published
// again. With back, it is requeued.
func (m *management) fetchMessage(ctx context.Context, vhost, queue string,
	back bool) (d amqp091.Delivery, ok bool, err error) {
	mode := "ack_requeue_false"
	if back {
		mode = "ack_requeue_true"
	}
	var list []struct {
		Payload    string             `json:"payload"`
		Encoding   string             `json:"payload_encoding"`
		RoutingKey string             `json:"routing_key"`
		Properties object[properties] `json:"properties"`
	}
	in := map[string]any{"count": 1, "ackmode": mode, "encoding": "base64"}
	if err := m.callAPI(ctx, http.MethodPost, "queues/"+url.PathEscape(vhost)+"/"+url.PathEscape(queue)+"/get", nil, in,
		&list); err != nil || len(list) == 0 {
		return d, false, err
	}
	one := &list[0]
	p := &one.Properties.value
	d = amqp091.Delivery{RoutingKey: one.RoutingKey, ContentType: p.ContentType, ContentEncoding: p.Encoding,
		DeliveryMode: p.DeliveryMode,
		Priority:     p.Priority, CorrelationId: p.CorrelationID, ReplyTo: p.ReplyTo, Expiration: p.Expiration,
		MessageId: p.MessageID,
		Type:      p.Type, AppId: p.AppID, Body: []byte(one.Payload)}
	if p.Timestamp != 0 {
		d.Timestamp = time.Unix(p.Timestamp, 0)
	}
	if one.Encoding == "base64" {
		if d.Body, err = base64.StdEncoding.DecodeString(one.Payload); err != nil {
			return d, false, fmt.Errorf("the payload of a message of %s: %w", queue, err)
		}
	}
	d.Headers, _ = headerOf(p.Headers.value).(amqp091.Table)
	return d, true, nil
}

// headerOf converts a JSON value to an AMQP header.
func headerOf(value any) any {
	switch v := value.(type) {
	case map[string]any:
		t := amqp091.Table{}
		for name, value := range v {
			t[name] = headerOf(value)
		}
		return t
	case []any:
		for i := range v {
			v[i] = headerOf(v[i])
		}
	case float64:
		if whole := int64(v); float64(whole) == v {
			return whole
		}
	}
	return value
}
