package frameworktest_test

import (
	"fmt"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/frameworktest"
	"github.com/evenkeel/evenkeel/trc"
)

// printing stands for the *testing.T that a test has.
type printing struct{}

func (printing) Helper() {}

func (printing) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func ExampleCheckSource() {
	frameworktest.CheckSource(printing{}, frameworktest.SourceCheck{
		New: func() (eventsource.Source, error) {
			return eventsource.NewInbound(eventsource.InboundOptions[string]{Name: "builds"})
		},
		Provoke: func(source eventsource.Source, primary trc.Key) {
			source.(*eventsource.Inbound[string]).Trigger(primary, "by hand")
		},
	})
	fmt.Println("checked")
	// Output: checked
}
