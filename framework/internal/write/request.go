package write

import (
	"context"
	"fmt"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/trc"
)

// Request is one write: the request to the API server, and what its answer proves.
type Request struct {
	verb     string
	resource *client.Client
	key      trc.Key
	options  Options
	send     func(context.Context) (client.Answer, error)

	// base is the object whose version and UID the request carries; nil if it carries none.
	base trc.Object
	// deletes is the object to delete; nil for other writes.
	deletes trc.Object
	// creates says that the request is a POST. applies says that the status 201 means that the request
	// created the object.
	creates, applies bool
	// optimistic says that the caller handles the refusal of an outdated version itself.
	optimistic bool
	// once says that the request must not be repeated if its outcome is unknown.
	once bool
	// drawn is the object of a create with a random name; nil for other writes.
	drawn trc.Object
	// tried says that the request was sent before, without an answer.
	tried bool
	// port is the API server of the request, set when it is left unresolved.
	port *Port
}

// describe returns the verb and the object, for errors and records.
func (q *Request) describe() string {
	verb := q.verb
	if len(q.options.Subresource) > 0 {
		verb += " " + q.options.Subresource[0] + " of"
	}
	return verb + " " + q.resource.Describe(q.key)
}

// proof returns what the answer proves: nothing came between the base, or the absence of the
// object, and the answer.
func (q *Request) proof(got client.Answer) trc.Proof {
	switch {
	case got.Created && (q.creates || q.applies):
		return trc.Proof{Created: true}
	case q.base != nil && q.base.GetUID() == got.GetUID():
		return trc.Proof{Base: q.base.GetResourceVersion()}
	}
	return trc.Proof{}
}

// carriedOut returns the object of a write that was carried out, or an error if it is undecodable.
func (q *Request) carriedOut(o trc.Object, undecodable error) (trc.Object, error) {
	if undecodable != nil {
		return nil, fmt.Errorf("framework: %s: it was carried out: %w: %w", q.describe(), client.ErrUndecodable, undecodable)
	}
	return o, nil
}
