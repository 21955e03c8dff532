package run

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/registry"
	"github.com/evenkeel/evenkeel/framework/internal/source"
)

// ErrInactive is framework.ErrInactive.
var ErrInactive = errors.New("framework: all nodes of the workflow that read from this source are inactive")

// onlyNotSynced reports whether err consists only of errors of sources that are not filled.
func onlyNotSynced(err error) bool { return object.IsOnly(err, object.Is[*registry.NotSynced]) }

// Holder adds and drops dynamic sources for the primary of a run, or for the operator.
type Holder struct {
	*Controller
	By *Run // nil for the operator
}

// AddSecondary adds a secondary. forNode says that a node of the workflow adds it. It does nothing
// if the primary holds it already.
func (h Holder) AddSecondary(secondary any, forNode bool) error {
	if h.By != nil && !h.Workflow.has(secondary) && h.Sources.HoldsAlready(secondary, &h.By.visit) {
		return nil
	}
	d, err := h.Sources.Describe("AddSecondary: the secondary", secondary)
	if err != nil {
		return err
	}
	if err := h.reserves(registry.Secondary(d), forNode); err != nil {
		return err
	}
	if err := source.CheckIndexes(d.Indexes, map[any]bool{}); err != nil {
		return fmt.Errorf("framework: controller %q: secondary %q: %w", h.Name, d.Name, err)
	}
	return h.Sources.AddSecondary(d, h.visit())
}

// AddSource adds a source of the author's. forNode says that a node of the workflow adds it.
func (h Holder) AddSource(from eventsource.Source, forNode bool) error {
	if object.IsNil(from) {
		return fmt.Errorf("framework: controller %q: AddSource: the source is nil", h.Name)
	}
	g, err := source.Supervise(from, h.Name, h.Operator.Logger, h.Operator.Calls, h.Operator.Probes)
	if err != nil {
		return fmt.Errorf("framework: controller %q: AddSource %T: %w", h.Name, from, err)
	}
	given := registry.Source(g)
	if err := h.reserves(given, forNode); err != nil {
		return err
	}
	_, err = h.Sources.Add(given, h.visit())
	return err
}

// Drop ends the hold on a dynamic source.
func (h Holder) Drop(name string) error { return h.Sources.Drop(name, h.visit()) }

// visit returns what a run uses of the registry, nil for the operator.
func (h Holder) visit() *registry.Visit {
	if h.By == nil {
		return nil
	}
	return &h.By.visit
}

func (c *Run) uid() types.UID { return c.Writes.Primary.Object.GetUID() }

// reserves returns an error if another source has the name of one of the workflow's. It also
// refuses a run that adds the workflow's own source, except for a node: the workflow decides alone
// when that source ends.
func (h Holder) reserves(given *registry.Entry, forNode bool) error {
	d := h.Workflow.DormantNamed(given.Name)
	if d == nil {
		return nil
	}
	own := registry.Secondary(d.description)
	if d.given == nil {
		own = registry.Source(&source.Supervised{Name: d.Name, Source: d.Source})
	}
	switch {
	case !own.Is(given):
	case h.By != nil && !forNode:
		return fmt.Errorf("framework: controller %q: add source %q: it is one of ControllerOptions.Workflow, which adds it itself", h.Name, given.Name)
	default:
		return nil
	}
	return fmt.Errorf("framework: controller %q: add source %q: ControllerOptions.Workflow has one of that name, %s; this is %s",
		h.Name, given.Name, own.Describe(), given.Describe())
}

// Inactive returns ErrInactive for a source of the workflow that is not open, nil for all
// others.
func (m *Workflow) Inactive(is func(*Dormant) bool) error {
	for _, d := range m.dormant {
		if is(d) {
			return fmt.Errorf("framework: controller %q: source %q: %w", m.controller, d.Name, ErrInactive)
		}
	}
	return nil
}

// DormantSecondaries returns the secondaries of the workflow that are open only while a node needs
// them.
func (c *Run) DormantSecondaries() []source.Description {
	var all []source.Description
	for _, d := range c.Controller.Workflow.dormant {
		if d.given != nil {
			all = append(all, d.description)
		}
	}
	return all
}
