package framework_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/trc"
)

// bucket is what an external system holds.
type bucket struct{ id, owner string }

var byBucketID = eventsource.ValuesOptions[bucket]{ID: func(b bucket) string { return b.id }}

// bucketLines are the look-ups of buckets.
func bucketLines(ctx context.Context, c *pageContext, sources ...string) string {
	one, found, err := framework.Value[bucket](ctx, c, sources...)
	first, has, failed := framework.ValueByID[bucket](ctx, c, "1", sources...)
	all, wrong := framework.Values[bucket](ctx, c, sources...)
	return fmt.Sprint(one, " ", found, " ", err, "; ", first, " ", has, " ", failed, "; ", all, " ", wrong)
}

func TestC100ExternalValuesAreLookedUpByTypeAndByID(t *testing.T) {
	inbound, err := eventsource.NewInbound(eventsource.InboundOptions[bucket]{Name: "buckets", Values: byBucketID})
	noError(t, err)
	numbers, err := eventsource.NewInbound(eventsource.InboundOptions[int]{Name: "numbers"})
	noError(t, err)
	r := looking(func(ctx context.Context, _ *Page, c *pageContext) string {
		number, found, err := framework.Value[int](ctx, c)
		_, _, missing := framework.Value[string](ctx, c)
		return bucketLines(ctx, c) + "; " + fmt.Sprint(number, " ", found, " ", err, "; ", missing)
	})
	inVirtualTime(t, r, pageOptions{Sources: []eventsource.Source{inbound, numbers}}, func(v *virtual) {
		key := trc.Key{Namespace: "default", Name: "p"}
		missing := `framework: no source of controller "webpage" holds values of type string`
		v.createPage("p", "a")
		v.pass(time.Second)
		r.expect(t, "p: { } false <nil>; { } false <nil>; [] <nil>; 0 false <nil>; "+missing)
		inbound.Push(key, bucket{"1", "p"})
		v.pass(time.Second)
		r.expect(t, "p: {1 p} true <nil>; {1 p} true <nil>; [{1 p}] <nil>; 0 false <nil>; "+missing)
		inbound.Wrote(key, bucket{"2", "q"}) // nothing is due for that
		numbers.Push(key, 7)
		v.pass(time.Second)
		several := "framework: get the value of type framework_test.bucket of default/p: there are 2"
		r.expect(t, "p: { } false "+several+"; {1 p} true <nil>; [{1 p} {2 q}] <nil>; 7 true <nil>; "+missing)
	})
}

func TestC98AnAmbiguousTypeOfExternalValuesNeedsAName(t *testing.T) {
	var sources []eventsource.Source
	for _, name := range []string{"here", "there"} {
		polling, err := eventsource.NewPolling(eventsource.PollingOptions[bucket]{
			Name: name, Period: time.Hour, Values: byBucketID,
			Fetch: func(context.Context) (map[trc.Key][]bucket, error) {
				return map[trc.Key][]bucket{{Namespace: "default", Name: "p"}: {{"1", name}}}, nil
			},
		})
		noError(t, err)
		sources = append(sources, polling)
	}
	r := looking(func(ctx context.Context, _ *Page, c *pageContext) string {
		_, err := framework.Values[bucket](ctx, c, "nowhere", "here")
		return strings.Join([]string{bucketLines(ctx, c), bucketLines(ctx, c, "there"), err.Error()}, "\n")
	})
	inVirtualTime(t, r, pageOptions{Sources: sources}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		which := `name one of ["here" "there"]`
		r.expect(t, "p: "+strings.Join([]string{
			"{ } false framework: get the value of type framework_test.bucket of default/p: several sources have values of this type: " + which + "; " +
				`{ } false framework: get the value "1" of type framework_test.bucket of default/p: several sources have one: ` + which + "; " +
				"[{1 here} {1 there}] <nil>",
			"{1 there} true <nil>; {1 there} true <nil>; [{1 there}] <nil>",
			`framework: no source named "nowhere" holds values of type framework_test.bucket; there are ["here" "there"]`,
		}, "\n"))
	})
}

// TestC104WhatHasNotBeenAskedForIsAskedForWhenItIsLookedUp, once, and a failure is the look-up's.
func TestC104WhatHasNotBeenAskedForIsAskedForWhenItIsLookedUp(t *testing.T) {
	asked, fails := 0, errors.New("down")
	polling, err := eventsource.NewPollingEach(eventsource.PollingEachOptions[*Page, bucket]{
		Name: "polled", Period: 1000 * time.Hour, Values: byBucketID,
		Fetch: func(_ context.Context, page *Page) (eventsource.Fetched[bucket], error) {
			asked++
			return eventsource.Fetched[bucket]{Values: []bucket{{"1", page.Spec.HTML}}}, fails
		},
	})
	noError(t, err)
	inbound, err := eventsource.NewInbound(eventsource.InboundOptions[bucket]{
		Name: "pushed", Values: byBucketID,
		Fetch: func(_ context.Context, primary trc.Key) ([]bucket, error) {
			asked++
			return []bucket{{"2", primary.Name}}, nil
		},
	})
	noError(t, err)
	r := looking(func(ctx context.Context, page *Page, c *pageContext) string {
		page.Spec.HTML = "changed by the author" // the poll sees the primary as it is
		line := bucketLines(ctx, c, "polled") + "\n" + bucketLines(ctx, c, "pushed") + fmt.Sprint("\n", asked)
		fails = nil
		return line
	})
	inVirtualTime(t, r, pageOptions{Sources: []eventsource.Source{polling, inbound}}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		failed := `framework: ask source "polled" for the values of default/p: down`
		down, pushed := " false "+failed+"; ", "{2 p} true <nil>; { } false <nil>; [{2 p}] <nil>"
		r.expect(t, "p: { }"+down+"{ }"+down+"[] "+failed+"\n"+pushed+"\n4")
		v.patch(newPage("default", "p"), `{"spec":{"html":"b"}}`)
		v.pass(time.Second)
		r.expect(t, "p: {1 b} true <nil>; {1 b} true <nil>; [{1 b}] <nil>\n"+pushed+"\n5")
	})
}

// TestC104ASourceOfPrimariesOfAnyTypeIsAskedToo.
func TestC104ASourceOfPrimariesOfAnyTypeIsAskedToo(t *testing.T) {
	polling, err := eventsource.NewPollingEach(eventsource.PollingEachOptions[trc.Object, bucket]{
		Name: "polled", Period: 1000 * time.Hour,
		Fetch: func(_ context.Context, primary trc.Object) (eventsource.Fetched[bucket], error) {
			return eventsource.Fetched[bucket]{Values: []bucket{{"1", primary.GetName()}}}, nil
		},
	})
	noError(t, err)
	r := looking(func(ctx context.Context, _ *Page, c *pageContext) string {
		return fmt.Sprint(framework.Value[bucket](ctx, c))
	})
	inVirtualTime(t, r, pageOptions{Sources: []eventsource.Source{polling}}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		r.expect(t, "p: {1 p} true <nil>")
	})
}

// TestC104WhatIsAskedForOfAPrimaryThatIsNotPolledIsRead: it is not kept, but whoever cleans up has
// to know what there is.
func TestC104WhatIsAskedForOfAPrimaryThatIsNotPolledIsRead(t *testing.T) {
	polling, err := eventsource.NewPollingEach(eventsource.PollingEachOptions[*Page, bucket]{
		Name: "polled", Period: 1000 * time.Hour, Values: byBucketID, Select: func(*Page) bool { return false },
		Fetch: func(_ context.Context, page *Page) (eventsource.Fetched[bucket], error) {
			return eventsource.Fetched[bucket]{Values: []bucket{{"1", page.Name}}}, nil
		},
	})
	noError(t, err)
	r := looking(func(ctx context.Context, _ *Page, c *pageContext) string { return bucketLines(ctx, c) })
	inVirtualTime(t, r, pageOptions{Sources: []eventsource.Source{polling}}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		r.expect(t, "p: {1 p} true <nil>; {1 p} true <nil>; [{1 p}] <nil>")
	})
}

// TestG16LookUpsInTheLastRunOfAPrimaryHoldNothing: what was known of it is dropped already, and
// stays so.
func TestG16LookUpsInTheLastRunOfAPrimaryHoldNothing(t *testing.T) {
	asked := 0
	inbound, err := eventsource.NewInbound(eventsource.InboundOptions[bucket]{
		Name: "pushed", Fetch: func(context.Context, trc.Key) ([]bucket, error) { asked++; return []bucket{{"1", "p"}}, nil },
	})
	noError(t, err)
	r := looking(func(ctx context.Context, _ *Page, c *pageContext) string {
		all, err := framework.Values[bucket](ctx, c)
		return fmt.Sprint(c.Gone(), all, err, asked)
	})
	inVirtualTime(t, r, pageOptions{AllEvents: true, Sources: []eventsource.Source{inbound}}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		v.delete("p")
		v.pass(time.Second)
		r.expect(t, "p: false [{1 p}] <nil> 1", "p: true [] <nil> 1")
		if left := inbound.Of(trc.Key{Namespace: "default", Name: "p"}); len(left) > 0 {
			t.Errorf("left is %v", left)
		}
	})
}
