package framework_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/observe"
	"github.com/evenkeel/evenkeel/framework/why"
)

// The page of a primary says of its runs what the records say.
func TestThePageOfAPrimarySaysWhatItsRecordsSay(t *testing.T) {
	pages, err := why.New(why.Options{})
	noError(t, err)
	r := keeper()
	inVirtualTimeWith(t, framework.OperatorOptions{Observers: []observe.Observer{pages}}, r, withConfigMaps(&r.pages, pageOptions{}), func(v *virtual) {
		pages.Of(v.op)
		page := newPage("default", "p")
		v.create(page)
		v.pass(time.Minute)
		v.patch(page, `{"spec":{"html":"two"}}`)
		v.pass(time.Minute)
		w := httptest.NewRecorder()
		pages.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, why.Root+"webpage/default/p?format=json", nil))
		var shown why.OfPrimary
		noError(t, json.Unmarshal(w.Body.Bytes(), &shown))
		kept := records(v.op, page)
		if len(shown.Runs) != len(kept) || len(kept) != 2 {
			t.Fatalf("%d runs are shown, %d are kept: %s", len(shown.Runs), len(kept), w.Body)
		}
		for i, run := range shown.Runs {
			record := kept[len(kept)-1-i]
			if run.Causes[0] != record.Causes[0].String() || len(run.Requests) != len(record.Requests) || run.Requests[0].Text != record.Requests[0].Text || !run.Started.Equal(record.Started) {
				t.Errorf("shown is %+v, kept %+v", run, record)
			}
		}
		if first := shown.Runs[0].Causes[0]; !strings.Contains(first, "WebPage default/p updated") {
			t.Errorf("the cause is %q", first)
		}
	})
}
