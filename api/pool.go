package api

// Called is the answer to a request to a pool that has not ended yet.
type Called struct {
	ID     string `json:"id" schema:"Name"`
	Status string `json:"status" schema:"enum=pending"`
}
