package write

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/trc"
)

// Mode is a WriteMode.
type Mode int

const (
	ByDefault Mode = iota
	ByPatch
	ByApply
)

type Options struct {
	client.Options
	Owned         bool
	Marks         []eventsource.PrimaryRef
	Mode          Mode
	Unfiltered    bool
	Unconditional bool
	IfUnchanged   bool
	IfAbsent      bool
	Matches       func(live, desired trc.Object) bool
	Propagation   *metav1.DeletionPropagation
	GracePeriod   *int64
	// internal says that nobody but the framework, which changes no object, gets the answer.
	Internal bool
	// authorVersion is the resourceVersion that the author put into an intent.
	authorVersion string
	// isTyped says that an intent was made from the Go type of the kind: the type has all of its fields.
	IsTyped bool
}

// Defaults are the defaults of a write.
func (w *Writer) Defaults() Options {
	return Options{Options: client.Options{FieldManager: w.FieldManager}, Mode: w.Mode}
}

// ability is what a way of writing can be asked for.
type ability uint8

const (
	canOwn ability = 1 << iota
	canAddress
	canLeave
	canHold
	canInsist
	canMatch
)

// check refuses options that ask for what the way of writing cannot do: left out in silence, it would do
// something else than it reads.
func (o *Options) check(doing string, can ability) error {
	for _, asked := range []struct {
		option string
		given  bool
		needs  ability
	}{
		{"OwnedByPrimary", o.Owned, canOwn},
		{"WithPrimaryRef", len(o.Marks) > 0, canOwn},
		{"Subresource", len(o.Subresource) > 0, canAddress},
		{"WithoutForce", o.WithoutForce, canLeave},
		{"IfUnchanged", o.IfUnchanged, canHold},
		{"Propagation", o.Propagation != nil, canHold},
		{"GracePeriodSeconds", o.GracePeriod != nil, canHold},
		{"MatchedBy", o.Matches != nil, canMatch},
		{"IfAbsent", o.IfAbsent, canInsist},
	} {
		if asked.given && can&asked.needs == 0 {
			return fmt.Errorf("framework: %s: the option %s does not apply", doing, asked.option)
		}
	}
	return nil
}
