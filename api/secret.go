package api

// Secret describes a secret of a namespace. Its value is never returned.
type Secret struct {
	Namespace  string   `json:"namespace,omitzero"`
	Name       string   `json:"name"`
	Version    uint64   `json:"version"` // 1 is the first value
	Created    Time     `json:"created,omitzero"`
	Updated    Time     `json:"updated,omitzero"`
	Hosts      []string `json:"hosts,omitempty"`     // that it may be sent to; none is all
	Key        string   `json:"key,omitzero"`        // id of the key that seals it
	Unreadable string   `json:"unreadable,omitzero"` // why this node cannot use it; left out if it can
}

// PutSecret asks for a secret of the name in the request's path.
type PutSecret struct {
	Value string `json:"value" schema:"minLength=1,maxLength=4096"` // printable ASCII, without spaces at the ends
	// Hosts are those that it may be sent to: names, *.DOMAIN for all below it, addresses, or * for all.
	// Without any, those of the value before stay.
	Hosts []string `json:"hosts,omitempty" schema:"maxItems=32"`
}

// SecretList is all secrets of a namespace.
type SecretList struct {
	Secrets []Secret `json:"secrets"`
}

// SigningKey is a key that signs the callbacks of a namespace.
type SigningKey struct {
	ID        string `json:"id"`
	Created   Time   `json:"created,omitzero"`
	Until     Time   `json:"until,omitzero"`  // when it ends to sign; left out: it has no end
	PublicKey string `json:"public_key"`      // for signatures v1a
	Secret    string `json:"secret,omitzero"` // for signatures v1; only if it was asked for
}

// SigningKeys are the keys that sign the callbacks of a namespace now.
type SigningKeys struct {
	Keys []SigningKey `json:"keys"` // the newest first
}

// RotateSigningKeys asks for a new signing key.
type RotateSigningKeys struct {
	Overlap Duration `json:"overlap,omitzero"` // how long the old keys sign, too, up to 90 days
}
