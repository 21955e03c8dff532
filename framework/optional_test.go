package framework_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/trc"
)

type plain struct{}

func (plain) Reconcile(context.Context, *Page, *pageContext) (pageUpdate, error) {
	return pageUpdate{}, nil
}

type cleans struct{ plain }

func (cleans) Cleanup(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
	return framework.RemoveFinalizer(), nil
}

type shows2 struct{ plain }

func (*shows2) ErrorStatus(context.Context, *Page, *pageContext, error) framework.ErrorStatusControl[*Page] {
	return framework.ErrorStatusControl[*Page]{}
}

type (
	pointerCleans struct{ plain }
	lacksContext  struct{ plain }
	lacksError    struct{ plain }
	otherPrimary  struct{ plain }
	otherCase     struct{ plain }
	wrongStatus   struct{ plain }
	decorator     struct{ framework.Reconciler[*Page] }
	named         struct {
		plain
		inner framework.Reconciler[*Page]
	}
	typedInner struct {
		plain
		inner *pointerCleans
	}
	chain struct {
		plain
		all []framework.Reconciler[*Page]
	}
	byName struct {
		plain
		all map[string]framework.Reconciler[*Page]
	}
	circle struct {
		framework.Reconciler[*Page]
		self *circle
	}
	ambiguous struct {
		plain
		cleans1
		cleans2
	}
	cleans1  struct{ cleans }
	cleans2  struct{ cleans }
	passesOn struct {
		framework.Reconciler[*Page]
	}
	tester struct {
		plain
		*testing.T
	}
	holdsOther struct {
		plain
		other framework.Reconciler[*corev1.ConfigMap]
	}
	funcs struct {
		plain
		run func(context.Context, *Page, *pageContext) (pageUpdate, error)
	}
)

func (ambiguous) Reconcile(context.Context, *Page, *pageContext) (pageUpdate, error) {
	return pageUpdate{}, nil
}

func (*pointerCleans) Cleanup(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
	return framework.RemoveFinalizer(), nil
}

func (lacksContext) Cleanup(*Page, *pageContext) (framework.DeleteControl, error) {
	return framework.RemoveFinalizer(), nil
}

func (*lacksError) Cleanup(context.Context, *Page, *pageContext) framework.DeleteControl {
	return framework.RemoveFinalizer()
}

func (otherPrimary) Cleanup(context.Context, *corev1.ConfigMap, *framework.Context[*corev1.ConfigMap]) (framework.DeleteControl, error) {
	return framework.RemoveFinalizer(), nil
}

func (otherCase) CleanUp(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
	return framework.RemoveFinalizer(), nil
}
func (wrongStatus) ErrorStatus(context.Context, *Page, error) error { return nil }

func (p passesOn) Cleanup(ctx context.Context, page *Page, c *pageContext) (framework.DeleteControl, error) {
	return p.Reconciler.(framework.Cleaner[*Page]).Cleanup(ctx, page, c)
}

func registering(r framework.Reconciler[*Page], sources ...eventsource.Source) error {
	op, err := framework.NewOperator(&rest.Config{}, framework.OperatorOptions{Logger: quiet, Scheme: scheme})
	if err != nil {
		return err
	}
	return framework.Register(op, r, pageOptions{Sources: sources})
}

func TestAMethodThatWouldNeverBeCalledIsRefusedAtRegister(t *testing.T) {
	round := &circle{Reconciler: plain{}}
	round.self = round
	for name, c := range map[string]struct {
		reconciler framework.Reconciler[*Page]
		says       string // "" if it is fine
	}{
		"no abilities":              {plain{}, ""},
		"a Cleaner":                 {cleans{}, ""},
		"a pointer to one":          {&cleans{}, ""},
		"a pointer receiver":        {&pointerCleans{}, ""},
		"one that passes on":        {passesOn{cleans{}}, ""},
		"a circle":                  {round, ""},
		"another kind's reconciler": {holdsOther{other: nil}, ""},
		"a function":                {funcs{run: cleans{}.Reconcile}, ""},
		"an empty decorator":        {named{}, ""},
		"a decorator of no Cleaner": {decorator{plain{}}, ""},
		"a test":                    {tester{T: t}, ""},
		"a value":                   {pointerCleans{}, "pass a *"},
		"a value with ErrorStatus":  {shows2{}, "pass a *"},
		"no context":                {lacksContext{}, "would never be called"},
		"no error":                  {lacksError{}, "would never be called"},
		"no error, by pointer":      {&lacksError{}, "would never be called"},
		"another primary":           {otherPrimary{}, "would never be called"},
		"another case":              {otherCase{}, "CleanUp"},
		"ErrorStatus":               {wrongStatus{}, "ErrorStatus"},
		"a decorator":               {decorator{cleans{}}, "passes the call on"},
		"a pointer to a decorator":  {&decorator{&cleans{}}, "passes the call on"},
		"two decorators":            {decorator{&decorator{cleans{}}}, "passes the call on"},
		"a field":                   {named{inner: &shows2{}}, "ErrorStatus"},
		"a field of its type":       {typedInner{inner: &pointerCleans{}}, ""},
		"a chain":                   {chain{all: []framework.Reconciler[*Page]{plain{}, cleans{}}}, "passes the call on"},
		"a map":                     {byName{all: map[string]framework.Reconciler[*Page]{"a": cleans{}}}, "passes the call on"},
		"two embedded":              {ambiguous{plain{}, cleans1{}, cleans2{}}, "passes the call on"},
		"a wrong one in a wrapper":  {decorator{otherPrimary{}}, "would never be called"},
	} {
		t.Run(name, func(t *testing.T) {
			err := registering(c.reconciler)
			switch {
			case c.says == "" && err != nil:
				t.Error(err)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
				t.Errorf("%v, want one that says %q", err, c.says)
			}
		})
	}
}

// idle is a source that does nothing.
type idle struct{ eventsource.Source }

func (idle) Name() string { return "s" }

type (
	watches      struct{ idle }
	wrongWatches struct{ idle }
	wrongHealth  struct{ idle }
	hides        struct {
		idle
		inner eventsource.Source
	}
)

func (*watches) PrimaryChanged(_, _ trc.Object) {}
func (wrongWatches) PrimaryChanged(_, _ *Page)  {}
func (wrongHealth) Health() error               { return nil }

func TestASourceThatWouldNeverBeToldIsRefusedAtRegister(t *testing.T) {
	for name, c := range map[string]struct {
		source eventsource.Source
		says   string
	}{
		"plain":          {idle{}, ""},
		"a watcher":      {&watches{}, ""},
		"a value":        {watches{}, "pass a *"},
		"another type":   {wrongWatches{}, "PrimaryChanged"},
		"another Health": {wrongHealth{}, "Health"},
		"a decorator":    {idle{&watches{}}, "PrimaryChanged"},
		"a field":        {hides{inner: &watches{}}, "PrimaryChanged"},
	} {
		err := registering(plain{}, c.source)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want one that says %q", name, err, c.says)
		}
	}
}
