package testenv

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// Audited is a request as the API server's audit log has it.
type Audited struct {
	// Verb is that of authorization, as in "list". Code is that of the answer.
	Verb string
	Code int
	// Resource is empty for what is no resource, as for discovery. It has no sub-resource.
	Resource, Subresource, Namespace, Name string
	// Query has the parameters of the request.
	Query url.Values
}

// AuditedRequests returns the requests of clients whose user agent begins with a text, each once,
// in the order of their answers. The log is that of [AuditLog]. A request is in it soon after its
// answer.
func AuditedRequests(log, agent string) (all []Audited, err error) {
	content, err := os.ReadFile(log)
	if err != nil {
		return nil, fmt.Errorf("testenv: audit log: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, len(content)+1)
	seen := map[string]bool{} // a watch has an event when it starts, and one when it ends
	for lines.Scan() {
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			continue // its end is still being written
		}
		if !strings.HasPrefix(e.UserAgent, agent) || seen[e.AuditID] {
			continue
		}
		seen[e.AuditID] = true
		uri, err := url.Parse(e.RequestURI)
		if err != nil {
			return nil, fmt.Errorf("testenv: audit log: %w", err)
		}
		request := Audited{Verb: e.Verb, Code: e.ResponseStatus.Code, Query: uri.Query()}
		if of := e.ObjectRef; of != nil {
			request.Resource, request.Subresource, request.Namespace, request.Name = of.Resource, of.Subresource, of.Namespace, of.Name
		}
		all = append(all, request)
	}
	return all, lines.Err()
}
