package controllerruntime_test

import "net/http"

// counting counts the requests of a manager, its writes, and those that met a conflict.
type counting struct {
	w    *world
	next http.RoundTripper
}

func (c counting) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := c.next.RoundTrip(request)
	c.w.requests.Add(1)
	if request.Method != http.MethodGet {
		c.w.writes.Add(1)
		if err == nil && answer.StatusCode == http.StatusConflict {
			c.w.conflicts.Add(1)
		}
	}
	return answer, err
}
