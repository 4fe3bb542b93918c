package rousev1

import "github.com/rousehq/rouse"

// OAuthClientFrom returns the client of a message; nil for none.
func OAuthClientFrom(p *OAuthClient) *rouse.OAuthClient {
	if p == nil {
		return nil
	}
	return &rouse.OAuthClient{TokenURL: p.TokenUrl, ClientID: p.ClientId, Scopes: p.Scopes, Audience: p.Audience}
}

// OAuthClientTo returns the message of a client; nil for none.
func OAuthClientTo(c *rouse.OAuthClient) *OAuthClient {
	if c == nil {
		return nil
	}
	return &OAuthClient{TokenUrl: c.TokenURL, ClientId: c.ClientID, Scopes: c.Scopes, Audience: c.Audience}
}

// AWSKeyFrom returns the access key of a message; nil for none.
func AWSKeyFrom(p *AWSKey) *rouse.AWSKey {
	if p == nil {
		return nil
	}
	return &rouse.AWSKey{AccessKey: p.AccessKey, Region: p.Region, Service: p.Service}
}

// AWSKeyTo returns the message of an access key; nil for none.
func AWSKeyTo(k *rouse.AWSKey) *AWSKey {
	if k == nil {
		return nil
	}
	return &AWSKey{AccessKey: k.AccessKey, Region: k.Region, Service: k.Service}
}
