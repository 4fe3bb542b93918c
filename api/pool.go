package api

// Called is the answer to a request to a pool that has not ended yet.
type Called struct {
	ID     string `json:"id"`
	Status string `json:"status"`
}
