package api

// Called says of a request to a pool that it has not ended yet.
type Called struct {
	ID     string `json:"id"`
	Status string `json:"status"`
}
