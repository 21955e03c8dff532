package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
)

// Canonical returns a state of an object as text, without what changes with every write.
func Canonical(o map[string]any) string {
	text, err := json.Marshal(bare(o))
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Same is same.
var Same = same

// NewTransport returns the wrapper by which a client only plans, as one that is outside of runs.
func NewTransport() func(http.RoundTripper) http.RoundTripper { return newPlanner().WrapTransport }

// Planned is what a plan has in its overlay for an object; Now is nil if it would be gone.
type Planned struct{ Stored, Now map[string]any }

// RunAndShow is Run that also returns the overlay, by apiVersion, kind, namespace and name.
func RunAndShow(ctx context.Context, config *rest.Config, options framework.OperatorOptions, register func(*framework.Operator) error, o Options) (*Report, map[string]Planned, error) {
	p := newPlanner()
	if err := p.run(ctx, config, options, register, o); err != nil {
		return nil, nil, err
	}
	all := map[string]Planned{}
	for _, s := range p.overlay.of(func(identity) bool { return true }) {
		if s.stored == nil && s.now == nil || s.stored != nil && s.now != nil && same(s.stored, s.now) {
			continue
		}
		of := s.now
		if of == nil {
			of = s.stored
		}
		all[fmt.Sprint(of["apiVersion"], " ", of["kind"], " ", s.namespace, "/", s.name)] = Planned{s.stored, s.now}
	}
	return p.report(), all, nil
}
