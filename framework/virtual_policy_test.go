package framework_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// TestG08AServerThatAsksForADayIsAskedAgainSooner: a new generation and a deletion of the primary do not even wait for
// that, as they may have nothing to do with what was refused.
func TestG08AServerThatAsksForADayIsAskedAgainSooner(t *testing.T) {
	const day = 24 * 60 * 60
	for name, code := range map[string]int{"429": 429, "503": 503} {
		t.Run(name, func(t *testing.T) {
			d := newCleaningDiary()
			d.after = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
				if page.Spec.HTML == "none" {
					return pageUpdate{}, nil
				}
				_, err := framework.Apply(ctx, c, configMapOf(page, "x"))
				return pageUpdate{}, err
			}
			inVirtualTime(t, d, pageOptions{Secondaries: framework.Secondaries(&d.configMaps)}, func(v *virtual) {
				refuse := func(r apimodel.Request) apimodel.Fault {
					if r.Verb == "apply" && r.Resource == "configmaps" {
						return throttled(code, day)
					}
					return apimodel.Fault{}
				}
				v.disturb(refuse)
				v.createPage("p", "a")
				v.createPage("q", "a")
				v.createPage("r", "a")
				v.pass(time.Minute)
				d.expect(t, "a", "a", "a")
				v.patch(newPage("default", "p"), `{"spec":{"html":"none"}}`)
				v.delete("q")
				v.pass(time.Second)
				seen := d.since()
				slices.Sort(seen)
				if want := []string{"a cleaned", "none"}; !slices.Equal(seen, want) {
					t.Errorf("seen %q, want %q", seen, want)
				}
				if p := v.pages(); !slices.Equal(p, []string{"p", "r"}) {
					t.Errorf("pages %q are left", p)
				}
				v.disturb(nil)
				v.pass(5 * time.Minute)
				d.expect(t, "a") // r
				if made := v.commits("configmaps"); len(made) != 1 {
					t.Errorf("made %q", made)
				}
			})
		})
	}
}

// pages are the names of the pages that there are.
func (v *virtual) pages() (names []string) {
	v.t.Helper()
	list := &webpagev1.WebPageList{}
	noError(v.t, v.admin.List(v.t.Context(), list))
	for _, p := range list.Items {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}
