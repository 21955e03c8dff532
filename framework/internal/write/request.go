package write

import (
	"context"
	"fmt"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/trc"
)

// Request is one write: what is asked of the API server, and what its answer proves.
type Request struct {
	verb     string
	resource *client.Client
	key      trc.Key
	options  Options
	send     func(context.Context) (client.Answer, error)

	// base is the object whose version and UID the request carries; nil if it carries none.
	base trc.Object
	// deletes is the object to delete, nil for other writes.
	deletes trc.Object
	// creates says that the request is a POST; applies, that 201 answers one that created.
	creates, applies bool
	// optimistic says that the caller handles the refusal of a stale version itself.
	optimistic bool
	// once says that the request must not be repeated if its fate is unknown.
	once bool
	// drawn is what a create sends under a name that was drawn for it at random; nil for other writes.
	drawn trc.Object
	// tried says that the request was sent before, without an answer.
	tried bool
	// in is the cluster that it is left unresolved in.
	port *Port
}

func (q *Request) describe() string {
	verb := q.verb
	if len(q.options.Subresource) > 0 {
		verb += " " + q.options.Subresource[0] + " of"
	}
	return verb + " " + q.resource.Describe(q.key)
}

// proof is what the answer proves: that nothing came between the base, or nothing, and it.
func (q *Request) proof(got client.Answer) trc.Proof {
	switch {
	case got.Created && (q.creates || q.applies):
		return trc.Proof{Created: true}
	case q.base != nil && q.base.GetUID() == got.GetUID():
		return trc.Proof{Base: q.base.GetResourceVersion()}
	}
	return trc.Proof{}
}

// carriedOut returns the object that a write was carried out on, or, if it is undecodable, an error that says so.
func (q *Request) carriedOut(o trc.Object, undecodable error) (trc.Object, error) {
	if undecodable != nil {
		return nil, fmt.Errorf("framework: %s: it was carried out: %w: %w", q.describe(), client.ErrUndecodable, undecodable)
	}
	return o, nil
}
