package browsertest

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/observe"
	"github.com/evenkeel/evenkeel/framework/why"
	"github.com/evenkeel/evenkeel/internal/actors"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/samples/webpage"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
	"github.com/evenkeel/evenkeel/timeline"
)

// world is the operator of samples/webpage in real time, with its pages.
type world struct {
	t     *testing.T
	admin *client.Client
	url   string // of the pages' root
}

// newWorld starts an operator that serves the web pages hello and shop. The server refuses what the
// page broken needs.
func newWorld(t *testing.T) *world {
	t.Helper()
	kinds, err := apimodel.CustomResources("../../samples/webpage/config/crd/bases")
	noError(t, err)
	w := &world{t: t}
	model, err := apimodel.New(apimodel.Options{Kinds: kinds, Defaults: true})
	noError(t, err)
	model.Intercept(func(r apimodel.Request) apimodel.Fault {
		if r.Resource != "deployments" || r.Name != "broken" || r.Verb == "get" {
			return apimodel.Fault{}
		}
		return apimodel.Fault{Answer: &metav1.Status{
			Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden, Message: `deployments.apps "broken" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2`,
		}}
	})
	scheme := runtime.NewScheme()
	noError(t, clientgoscheme.AddToScheme(scheme))
	noError(t, v1.AddToScheme(scheme))
	config := model.Config()
	config.UserAgent = "kubectl"
	w.admin, err = client.New(config, scheme)
	noError(t, err)
	runs := make(runEnds, 1000)
	pages, err := why.New(why.Options{})
	noError(t, err)
	op, err := framework.NewOperator(model.Config(), framework.OperatorOptions{
		Scheme: scheme, Name: "webpage", Logger: logr.Discard(), Observers: []observe.Observer{pages, runs}, Grace: -1,
	})
	noError(t, err)
	noError(t, webpage.Register(op))
	pages.Of(op)
	server := httptest.NewServer(pages.Handler())
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	t.Cleanup(func() {
		stop()
		noError(t, <-stopped)
		server.CloseClientConnections() // those of events
		server.Close()
	})
	actors.Start(ctx, model, actors.Options{})
	go func() { stopped <- op.Run(ctx) }()
	w.url = server.URL + why.Root
	for _, name := range []string{"hello", "shop", "broken"} {
		noError(t, w.admin.Create(t.Context(), &v1.WebPage{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       v1.WebPageSpec{HTML: "<p>" + name + "</p>", Exposed: name == "shop"},
		}))
	}
	for done := map[string]bool{}; len(done) < 3; {
		select {
		case run := <-runs:
			switch {
			case run.record.Err != "" && run.of.Name == "broken":
				done["broken"] = true
			case slices.ContainsFunc(run.record.Nodes, func(n timeline.Node) bool { return n.Name == "deployment" && n.State == "Ready" }):
				done[run.of.Name] = true
			}
		case <-time.After(time.Minute):
			t.Fatalf("only %v are ready after a minute", done)
		}
	}
	return w
}

// runEnds gets the runs of an operator.
type runEnds chan ended

type ended struct {
	of     types.NamespacedName
	record timeline.Record
}

// RunEnded passes a run on, unless nobody has taken many of them.
func (r runEnds) RunEnded(_ string, of types.NamespacedName, record timeline.Record) {
	select {
	case r <- ended{of, record}:
	default:
	}
}

// change gives a page other content.
func (w *world) change(name, html string) {
	w.t.Helper()
	page := &v1.WebPage{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	noError(w.t, w.admin.Patch(w.t.Context(), page, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"html":%q}}`, html))))
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
