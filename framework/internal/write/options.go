package write

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/trc"
)

// Mode is framework.WriteMode.
type Mode int

const (
	ByDefault Mode = iota // ByDefault is the mode of the controller.
	ByPatch               // ByPatch creates objects, and sends merge patches of what differs.
	ByApply               // ByApply sends server-side applies.
)

// Options are the options of one write. The framework's WriteOptions set them.
type Options struct {
	client.Options
	Owned         bool                                // add the primary as the controller owner
	Marks         []eventsource.PrimaryRef            // references to the primary to add
	Mode          Mode                                // how Apply writes; set by Defaults
	Unfiltered    bool                                // record no proof: the events trigger runs
	Unconditional bool                                // for any version of the object
	IfUnchanged   bool                                // delete only the given version
	IfAbsent      bool                                // apply only if there is no object
	Matches       func(live, desired trc.Object) bool // true skips the apply; may be nil
	Propagation   *metav1.DeletionPropagation         // of deletions; nil for the server's default
	GracePeriod   *int64                              // of deletions, in seconds; may be nil
	// Internal says that only the framework gets the answer. It does not change the object.
	Internal bool
	// authorVersion is the resourceVersion that the author put into an intent.
	authorVersion string
	// IsTyped says that an intent was made from the Go type of the kind, which has all of its fields.
	IsTyped bool
}

// Defaults returns the options of a write without any WriteOption.
func (w *Writer) Defaults() Options {
	return Options{Options: client.Options{FieldManager: w.FieldManager}, Mode: w.Mode}
}

// ability is an option that a kind of write accepts.
type ability uint8

const (
	canOwn ability = 1 << iota
	canAddress
	canLeave
	canHold
	canInsist
	canMatch
)

// check returns an error for options that the kind of write does not accept. Ignoring them would do
// something else than the code says.
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
