package api

// Grant is a role within a scope.
type Grant struct {
	Role string `json:"role"`
	// exact, or prefixes that end with "*"; "*" is all
	Namespaces []string          `json:"namespaces" schema:"minItems=1,maxItems=32"`
	Targets    []string          `json:"targets,omitempty" schema:"maxItems=32"` // the same form; none is all
	Labels     map[string]string `json:"labels,omitzero"`                        // that timers must have
	// as which sidecars may act, the same form; none is all
	Apps []string `json:"apps,omitempty" schema:"maxItems=32"`
}

// AccessKey is an API key, without its secret.
type AccessKey struct {
	ID      string  `json:"id"`   // the characters after "rk_" in its text
	Name    string  `json:"name"` // what it is for
	Grants  []Grant `json:"grants"`
	Created Time    `json:"created"`
	Creator string  `json:"creator,omitzero"` // id of the principal that created it
	Expires Time    `json:"expires,omitzero"`
	Used    Time    `json:"used,omitzero"` // when it was used last, to a minute
	// when its valid secrets were made, newest first: two while a rotation goes on
	Secrets []Time `json:"secrets,omitempty"`
}

// CreateAccessKey asks for an API key.
type CreateAccessKey struct {
	Name    string  `json:"name" schema:"maxLength=128"` // what it is for
	Grants  []Grant `json:"grants" schema:"minItems=1,maxItems=16"`
	Expires Time    `json:"expires,omitzero"`
}

// CreatedAccessKey is a key with the text that its holder sends as a bearer token. It is shown once.
type CreatedAccessKey struct {
	AccessKey
	Text string `json:"text"` // rk_ID_SECRET
}

// RotateAccessKey asks for a new secret of a key.
type RotateAccessKey struct {
	Overlap *Duration `json:"overlap,omitzero"` // how long the old secret stays valid; default 24h
}

// AccessKeyList is a page of keys, in the order of their ids.
type AccessKeyList struct {
	Keys          []AccessKey `json:"keys"`
	NextPageToken string      `json:"next_page_token,omitzero"`
}

// Person is one who signed in to the console at an issuer.
type Person struct {
	Principal string          `json:"principal"` // "token:ISSUER#SUBJECT"
	Name      string          `json:"name,omitzero"`
	Sessions  []PersonSession `json:"sessions"` // that go on, oldest first; at most the newest 64
}

// PersonSession is a session of a person.
type PersonSession struct {
	Began   Time `json:"began"`
	Expires Time `json:"expires"`
}

// PersonList is a page of people, in the order of their principals.
type PersonList struct {
	People        []Person `json:"people"`
	NextPageToken string   `json:"next_page_token,omitzero"`
}

// EndSessions asks for the end of all sessions of a person.
type EndSessions struct {
	Principal string `json:"principal"`
}

// AccessRole is a named list of verbs.
type AccessRole struct {
	Name  string   `json:"name"`
	Verbs []string `json:"verbs"`
}

// PutAccessRole asks for a role of the name in the request's path.
type PutAccessRole struct {
	Verbs []string `json:"verbs" schema:"minItems=1"`
}

// AccessRoleList is all roles, in the order of their names.
type AccessRoleList struct {
	Roles []AccessRole `json:"roles"`
}

// Identity is what the caller's credentials are.
type Identity struct {
	Access  bool    `json:"access"`           // access control is on; without it everything is allowed
	ID      string  `json:"id,omitzero"`      // such as "key:ID"
	Name    string  `json:"name,omitzero"`    // for people
	Source  string  `json:"source,omitzero"`  // key, certificate or token
	Grants  []Grant `json:"grants,omitempty"` // what they allow
	Expires Time    `json:"expires,omitzero"`
}
