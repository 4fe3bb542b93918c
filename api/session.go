package api

// Session is who uses the web console.
type Session struct {
	Access   bool      `json:"access"`            // access control is on; without it everything is allowed
	Identity *Identity `json:"identity,omitzero"` // left out without valid credentials
	Rights   []Right   `json:"rights,omitempty"`  // what its grants allow
	Version  string    `json:"version,omitzero"`  // of the server
	Virtual  bool      `json:"virtual,omitzero"`  // the server's clock can be moved

	Issuers []LoginIssuer `json:"issuers,omitempty"` // at which people sign in
	// the URL that ends the issuer's own session, to open after the session was deleted
	SignOut string `json:"sign_out,omitzero"`
}

// LoginIssuer is an issuer at which people sign in: by opening /v1/session/login with it in a browser.
type LoginIssuer struct {
	Issuer  string `json:"issuer"`
	Label   string `json:"label"`   // for people
	Console string `json:"console"` // URL of the console to which the issuer sends people back
}

// Right is a grant with the verbs of its role.
type Right struct {
	Grant
	Verbs []string `json:"verbs"`
}

// BeginSession asks for a session.
type BeginSession struct {
	// an API key, or a signed token of an issuer that the server knows
	Key string `json:"key" schema:"minLength=1,maxLength=2048"`
}
