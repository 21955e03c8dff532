package framework_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/trc"
)

func TestG18HealthTellsOfEverySource(t *testing.T) {
	overTwo(t, func(m, far *modelled, there *client.Client, r *readers) {
		pushed, err := eventsource.NewInbound(eventsource.InboundOptions[string]{Name: "a push"})
		noError(t, err)
		pushed.Push(trc.Key{Namespace: "default", Name: "p"}, "value")
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps), Sources: []eventsource.Source{pushed}})()
		began := time.Now()
		m.createPage("p")
		time.Sleep(90 * time.Second)
		synctest.Wait()
		all := m.op.Health()
		if len(all) != 3 || all[0].Source != "a push" || all[1].Source != "configmap" || all[2].Source != "webpage" {
			t.Fatalf("told of %+v", all)
		}
		if h := all[0]; h.External == nil || h.External.Holds != 1 || !h.Synced || h.Problem != "" {
			t.Errorf("what was pushed: %+v", h)
		}
		if h := all[1]; h.Cluster != "http://apimodel" || h.Kind != "/v1, Kind=ConfigMap" || h.Objects != 1 || !h.Synced || h.Problem != "" || len(h.Watches) != 1 {
			t.Errorf("ConfigMaps: %+v", h)
		}
		w := all[2].Watches[0]
		if w.State != trc.Watching || !w.Listed || w.LastEvent.Sub(began) > time.Second || w.LastBookmark.Sub(began) < 30*time.Second || w.Progress == "" || w.Failures != 0 {
			t.Errorf("the watch of pages: %+v", w)
		}
		for _, lag := range m.op.Probe(m.Context()) {
			if !lag.Current || lag.Err != nil || lag.Versions != 0 {
				t.Errorf("lag: %+v", lag)
			}
		}
		text, err := json.Marshal(all)
		if err != nil || !strings.Contains(string(text), `"state":"watching"`) {
			t.Errorf("%s, %v", text, err)
		}
	})
}

func TestG18HealthTellsWhatFailsWhereAndSinceWhen(t *testing.T) {
	overTwo(t, func(m, far *modelled, there *client.Client, r *readers) {
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})()
		time.Sleep(time.Minute)
		far.model.Intercept(func(r apimodel.Request) apimodel.Fault {
			if r.UserAgent == "" || r.Verb == "create" {
				return apimodel.Fault{}
			}
			return apimodel.Fault{Answer: &apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", nil).ErrStatus}
		})
		cut := time.Now()
		far.model.Cut("configmaps")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		failing := m.op.Health()[0]
		w := failing.Watches[0]
		if failing.Source != "configmap" || !strings.Contains(failing.Problem, "forbidden") || w.State != trc.Waiting || w.FailuresInRow < 3 || w.LastFailure.Before(cut) || w.Error == "" {
			t.Errorf("%+v", failing)
		}
		if well := m.op.Health()[1]; well.Problem != "" {
			t.Errorf("the pages: %+v", well)
		}
		expectError(t, m.op.Ready(), "forbidden", `controller "webpage", source "configmap"`)
		lags := m.op.Probe(m.Context())
		if len(lags) != 2 || lags[0].Err != nil || lags[1].Error == "" {
			t.Errorf("lags: %+v", lags)
		}
		far.model.Intercept(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if h := m.op.Health()[0]; h.Problem != "" || h.Watches[0].FailuresInRow != 0 || h.Watches[0].Failures < 3 || h.Watches[0].State != trc.Watching {
			t.Errorf("healed: %+v", h)
		}
		noError(t, m.op.Ready())
	})
}

func TestG18AWatchOfAnotherClusterThatIsHalfOpenIsNoticedAndBegunAnew(t *testing.T) {
	overTwo(t, func(m, far *modelled, there *client.Client, r *readers) {
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})()
		m.createPage("p")
		time.Sleep(90 * time.Second)
		r.expect(t, "p: p=far")
		far.model.Stall("configmaps")
		noError(t, there.Patch(m.Context(), configMapOf(newPage("default", "p"), ""), client.RawPatch("application/merge-patch+json", []byte(`{"data":{"data":"2"}}`))))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		lags := m.op.Probe(m.Context())
		if lag := lags[1]; lag.Current || lag.Versions == 0 || lag.Err != nil {
			t.Errorf("lag: %+v", lag)
		}
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		expectError(t, m.op.Ready(), "nothing was heard", `source "configmap"`)
		far.model.Release("configmaps") // watches that begin from now on are heard of; the silent one has been given up
		time.Sleep(time.Minute)
		r.expect(t, "p: p=2")
		noError(t, m.op.Ready())
	})
}

// A request that nobody answers is no watch yet that could be silent.
func TestG18AWatchThatNobodyAnswersIsGivenUp(t *testing.T) {
	overTwo(t, func(m, far *modelled, there *client.Client, r *readers) {
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})()
		m.createPage("p")
		time.Sleep(time.Minute)
		r.expect(t, "p: p=far")
		far.model.Intercept(func(r apimodel.Request) apimodel.Fault {
			if r.Verb == "watch" || r.Verb == "list" {
				return apimodel.Fault{Delay: 24 * time.Hour}
			}
			return apimodel.Fault{}
		})
		far.model.Cut("configmaps")
		time.Sleep(3*time.Minute + 30*time.Second)
		synctest.Wait()
		expectError(t, m.op.Ready(), "no answer after 3m0s")
		far.model.Intercept(nil)
		noError(t, there.Patch(m.Context(), configMapOf(newPage("default", "p"), ""), client.RawPatch("application/merge-patch+json", []byte(`{"data":{"data":"2"}}`))))
		time.Sleep(5 * time.Minute)
		r.expect(t, "p: p=2")
		noError(t, m.op.Ready())
	})
}
