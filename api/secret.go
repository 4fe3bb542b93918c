package api

// Secret describes a secret of a namespace. Its value is never returned.
type Secret struct {
	Namespace string   `json:"namespace,omitzero"`
	Name      string   `json:"name"`
	Version   uint64   `json:"version"` // 1 is the first value
	Created   Time     `json:"created,omitzero"`
	Updated   Time     `json:"updated,omitzero"`
	Hosts     []string `json:"hosts,omitempty"` // that it may be sent to; none is all
	// Of a secret that is not sent itself, one of:
	OAuth      *OAuthClient `json:"oauth,omitzero"`
	AWS        *AWSKey      `json:"aws,omitzero"`
	Key        string       `json:"key,omitzero"`        // id of the key that seals it
	Unreadable string       `json:"unreadable,omitzero"` // why this node cannot use it; left out if it can
}

// PutSecret asks for a secret of the name in the request's path.
type PutSecret struct {
	Value string `json:"value" schema:"minLength=1,maxLength=4096"` // printable ASCII, without spaces at the ends
	// Hosts are those that it may be sent to: names, *.DOMAIN for all below it, addresses, or * for all.
	// Without any, those of the value before stay.
	Hosts []string `json:"hosts,omitempty" schema:"maxItems=32"`
	// OAuth or AWS make it a secret that is not sent itself. Without either it stays what it is.
	OAuth *OAuthClient `json:"oauth,omitzero"`
	AWS   *AWSKey      `json:"aws,omitzero"` // value is the secret key and, after a colon, a session token if there is one
}

// OAuthClient makes a secret the client secret of a client of OAuth 2.0: a header that refers to it has an
// access token, of the client credentials grant.
type OAuthClient struct {
	TokenURL string   `json:"token_url"`
	ClientID string   `json:"client_id" schema:"minLength=1,maxLength=256"`
	Scopes   []string `json:"scopes,omitempty" schema:"maxItems=32"`
	Audience string   `json:"audience,omitzero" schema:"maxLength=256"` // that some servers ask for
}

// AWSKey makes a secret the secret key of an access key of AWS: a header Authorization that is a reference to
// it has a signature of the request, of version 4.
type AWSKey struct {
	AccessKey string `json:"access_key" schema:"minLength=1,maxLength=256"` // its id
	Region    string `json:"region" schema:"minLength=1,maxLength=256"`
	Service   string `json:"service" schema:"minLength=1,maxLength=256"` // such as lambda, execute-api or events
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
