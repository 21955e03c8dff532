package framework_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// byPage is met for pages whose HTML has a word.
func byPage(word string) workflow.Condition[*pageContext] {
	return func(_ context.Context, c *pageContext) (workflow.Verdict, error) {
		return workflow.Verdict{Met: strings.Contains(c.Primary().Spec.HTML, word), Reason: "it is not " + word}, nil
	}
}

// reads has a node read from a secondary, which has to be there.
func (s *script) reads(t *testing.T, n pageNode, from *framework.Secondary[*corev1.ConfigMap]) pageNode {
	n.Secondaries = append(n.Secondaries, from)
	s.on(n.Name, func(_ context.Context, c *pageContext) error {
		_, err := from.List(c)
		if err != nil {
			t.Errorf("node %s of %s: %v", n.Name, c.Key(), err)
		}
		return err
	})
	return n
}

// activeBy has a node active for pages whose HTML has its name.
func activeBy(n pageNode) pageNode {
	n.ActivationCondition = byPage(n.Name)
	return n
}

func TestG16AnInactiveNodeHoldsNothing(t *testing.T) {
	s := newScript()
	n := s.reads(t, activeBy(s.node("on")), &s.configMaps)
	inVirtualTime(t, noCleaner{s}, pageOptions{Workflow: flowOf(n)}, func(v *virtual) {
		v.disturb(func(r apimodel.Request) apimodel.Fault { // or the first run might find the cache filled already
			if r.Resource == "configmaps" && (r.Verb == "list" || r.Verb == "watch") {
				return apimodel.Fault{Delay: time.Millisecond}
			}
			return apimodel.Fault{}
		})
		v.createPage("p", "off")
		v.pass(time.Minute)
		goroutines := bubbled()
		s.expect(t, "Reconcile")
		v.holdsNothing(1, goroutines)
		for range 3 {
			v.touch("p", "on")
			v.pass(time.Minute)
			s.expect(t, "Reconcile on Reconcile") // once it is filled
			if now := v.op.Occupancy(); now.DynamicSources != 1 || len(now.Caches) != 2 {
				t.Errorf("active: %d sources, %d caches", now.DynamicSources, len(now.Caches))
			}
			v.touch("p", "on again")
			v.pass(time.Minute)
			s.expect(t, "on Reconcile")
			v.touch("p", "off")
			v.pass(time.Minute)
			s.expect(t, "Reconcile")
			v.holdsNothing(1, goroutines)
		}
	})
}

// TestG16HoldsOfAWorkflowEndWithThePrimary: be it cleaned up, or merely gone.
func TestG16HoldsOfAWorkflowEndWithThePrimary(t *testing.T) {
	for _, collected := range []bool{false, true} {
		s := newScript()
		n := s.reads(t, activeBy(s.node("on")), &s.configMaps)
		if collected {
			n.GarbageCollected, n.DeletePostcondition = true, nil
		}
		inVirtualTime(t, noCleaner{s}, pageOptions{Workflow: flowOf(n)}, func(v *virtual) {
			v.createPage("z", "off")
			v.pass(time.Minute)
			goroutines := bubbled()
			v.createPage("p", "on")
			v.createPage("q", "on")
			v.pass(time.Minute)
			v.delete("p")
			v.pass(time.Minute)
			if now := v.op.Occupancy(); now.DynamicSources != 1 || now.WorkflowResults != 2 {
				t.Errorf("%d sources, and one primary needs one; %d results of 2 primaries", now.DynamicSources, now.WorkflowResults)
			}
			v.delete("q")
			v.pass(time.Minute)
			v.holdsNothing(1, goroutines)
			v.atRest()
		})
	}
}

// TestC102WhatNodesShareStaysWhileOneIsActive: also if another one is not, and if it is of the
// options it is always there.
func TestC102WhatNodesShareStaysWhileOneIsActive(t *testing.T) {
	for _, c := range []struct {
		name      string
		html      string
		always    bool // one node has no condition
		ofOptions bool
		added     int
		caches    int
	}{
		{"none is active", "off", false, false, 0, 1},
		{"one of two is active", "second", false, false, 1, 2},
		{"both are", "first second", false, false, 1, 2},
		{"a third has no condition", "off", true, false, 0, 2},
		{"the options have it, too", "off", false, true, 0, 2},
		{"the options have it, and all are active", "first second", true, true, 0, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript()
			nodes := []pageNode{s.reads(t, activeBy(s.node("first")), &s.configMaps), s.reads(t, activeBy(s.node("second")), &s.configMaps)}
			if c.always {
				nodes = append(nodes, s.reads(t, s.node("third"), &s.configMaps))
			}
			options := pageOptions{Workflow: flowOf(nodes...)}
			if c.ofOptions {
				options.Secondaries = framework.Secondaries(&s.configMaps)
			}
			inVirtualTime(t, noCleaner{s}, options, func(v *virtual) {
				v.createPage("p", c.html)
				v.pass(time.Minute)
				if now := v.op.Occupancy(); now.DynamicSources != c.added || len(now.Caches) != c.caches {
					t.Errorf("%d sources were added, want %d; %d caches, want %d", now.DynamicSources, c.added, len(now.Caches), c.caches)
				}
				noError(t, v.op.Ready())
			})
		})
	}
}

// TestC102ANodeThatIsDeletedWhenItIsInactiveReadsAllTheTime: what it made may be there from before.
func TestC102ANodeThatIsDeletedWhenItIsInactiveReadsAllTheTime(t *testing.T) {
	s := newScript()
	n := s.reads(t, activeBy(s.node("on")), &s.configMaps)
	n.DeleteInactive = true
	s.on("-on", func(_ context.Context, c *pageContext) error {
		_, err := s.configMaps.List(c)
		return err
	})
	inVirtualTime(t, noCleaner{s}, pageOptions{Workflow: flowOf(n)}, func(v *virtual) {
		v.createPage("p", "off")
		v.pass(time.Minute)
		s.expect(t, "-on Reconcile")
		v.touch("p", "on")
		v.pass(time.Minute)
		s.expect(t, "on Reconcile")
	})
}

// TestC102WhatIsInactiveReadsAsInactive: by whatever way it is read.
func TestC102WhatIsInactiveReadsAsInactive(t *testing.T) {
	s := newScript()
	index := &framework.Index[*corev1.ConfigMap]{Name: "all", Values: func(*corev1.ConfigMap) []string { return []string{"x"} }}
	s.configMaps.Indexes = []*framework.Index[*corev1.ConfigMap]{index}
	inbound, err := eventsource.NewInbound(eventsource.InboundOptions[int]{Name: "numbers", Values: eventsource.ValuesOptions[int]{ID: func(int) string { return "one" }}})
	noError(t, err)
	n := activeBy(s.node("on"))
	n.Secondaries, n.Sources = framework.Secondaries(&s.configMaps), []eventsource.Source{inbound}
	reads := map[string]func(ctx context.Context, c *pageContext) error{
		"the secondary": func(_ context.Context, c *pageContext) error { _, err := s.configMaps.List(c); return err },
		"by name": func(_ context.Context, c *pageContext) error {
			_, err := s.configMaps.GetNamed(c, "default", "p")
			return err
		},
		"by type": func(_ context.Context, c *pageContext) error {
			_, err := framework.One[*corev1.ConfigMap](c)
			return err
		},
		"all by type": func(_ context.Context, c *pageContext) error {
			_, err := framework.All[*corev1.ConfigMap](c, "configmap")
			return err
		},
		"by index": func(_ context.Context, c *pageContext) error { _, err := index.List(c, "x"); return err },
		"a value":  func(ctx context.Context, c *pageContext) error { _, _, err := framework.Value[int](ctx, c); return err },
		"values": func(ctx context.Context, c *pageContext) error {
			_, err := framework.Values[int](ctx, c, "numbers")
			return err
		},
		"a write to where it is": func(ctx context.Context, c *pageContext) error {
			_, err := framework.Apply(ctx, s.configMaps.In(c), configMapOf(c.Primary(), "x"))
			return err
		},
	}
	s.on("Reconcile", func(ctx context.Context, c *pageContext) error {
		active := strings.Contains(c.Primary().Spec.HTML, "on")
		if ready := c.WorkflowResult().Ready(); active && !ready {
			return nil // it is being filled
		}
		for name, read := range reads {
			if err := read(ctx, c); errors.Is(err, framework.ErrInactive) == active || active && err != nil {
				t.Errorf("%s, active %v: %v", name, active, err)
			}
		}
		return nil
	})
	inVirtualTime(t, noCleaner{s}, pageOptions{Workflow: flowOf(n)}, func(v *virtual) {
		v.createPage("p", "off")
		v.pass(time.Minute)
		v.touch("p", "on")
		v.pass(time.Minute)
		if result, _ := v.op.WorkflowResult("webpage", pageKey("p")); !result.Ready() {
			t.Errorf("it is not active: %v", result)
		}
		v.touch("p", "off")
		v.pass(time.Minute)
		noError(t, v.op.Ready())
	})
}

// TestC102ANodeWaitsForItsOwnActivationToo: after what it reads from is filled.
func TestC102ANodeWaitsForItsOwnActivationToo(t *testing.T) {
	s := newScript()
	n := s.reads(t, activeBy(s.node("on")), &s.configMaps)
	n.Activate = s.ask("on activated")
	s.meets("on activated", false)
	inVirtualTime(t, noCleaner{s}, pageOptions{Workflow: flowOf(n)}, func(v *virtual) {
		v.disturb(func(r apimodel.Request) apimodel.Fault { return apimodel.Fault{Drop: r.Resource == "configmaps"} })
		reason := func() string {
			result, _ := v.op.WorkflowResult("webpage", pageKey("p"))
			if result.Nodes[0].State != workflow.Waiting {
				t.Errorf("%v", result)
			}
			return result.Nodes[0].Reason
		}
		v.createPage("p", "on")
		v.pass(time.Hour)
		s.expect(t, "Reconcile")
		if got := reason(); !strings.Contains(got, `source "configmap" is not synced yet`) {
			t.Errorf("reason %q", got)
		}
		expectError(t, v.op.Ready(), `"configmap"`)
		v.disturb(nil)
		v.pass(time.Hour)
		s.expect(t, "Reconcile")
		if got := reason(); got != "it is not on activated" {
			t.Errorf("reason %q", got)
		}
		noError(t, v.op.Ready())
		s.meets("on activated", true)
		v.touch("p", "on again")
		v.pass(time.Hour)
		s.expect(t, "on Reconcile")
	})
}

// lateSource is synced when it is told to be, and counts what started it.
type lateSource struct {
	mu      sync.Mutex // guards below
	running int
	synced  chan struct{}
}

func (*lateSource) Name() string              { return "late" }
func (l *lateSource) Synced() <-chan struct{} { return l.synced }
func (*lateSource) Err() error                { return nil }

func (l *lateSource) Start(eventsource.Sink) (stop func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.running--
	}, nil
}

func (l *lateSource) runs() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running
}

func TestC102ASourceOfANodeIsStartedAndStoppedWithIt(t *testing.T) {
	s := newScript()
	n := activeBy(s.node("on"))
	late := &lateSource{}
	n.Sources = []eventsource.Source{late}
	inVirtualTime(t, noCleaner{s}, pageOptions{Workflow: flowOf(n)}, func(v *virtual) {
		late.synced = make(chan struct{})
		v.createPage("p", "off")
		v.pass(time.Minute)
		goroutines := bubbled()
		v.touch("p", "on")
		v.pass(time.Hour)
		s.expect(t, "Reconcile Reconcile")
		if late.runs() != 1 {
			t.Errorf("it runs %d times", late.runs())
		}
		close(late.synced)
		v.pass(time.Minute)
		s.expect(t, "on Reconcile")
		v.touch("p", "off")
		v.pass(time.Minute)
		s.expect(t, "Reconcile")
		if late.runs() != 0 {
			t.Errorf("it runs %d times", late.runs())
		}
		v.holdsNothing(1, goroutines)
	})
}

func TestC102WhatIsOfTheWorkflowIsNotTheRunsToReplaceOrRemove(t *testing.T) {
	s := newScript()
	n := activeBy(s.node("on"))
	n.Secondaries = framework.Secondaries(&s.configMaps)
	var secrets framework.Secondary[*corev1.Secret]
	secrets.Name = "configmap"
	s.on("Reconcile", func(_ context.Context, c *pageContext) error {
		expectError(t, c.AddSecondary(&secrets), `"configmap"`, "Workflow", "Kind=ConfigMap", "Kind=Secret")
		expectError(t, c.AddSource(source("configmap")), `"configmap"`, "Workflow")
		expectError(t, c.RemoveSource("configmap"), `"configmap"`, "Workflow")
		// It would come with each run and go with each pass, and have the primary run for ever.
		expectError(t, c.AddSecondary(&s.configMaps), `"configmap"`, "Workflow", "adds it itself")
		return nil
	})
	inVirtualTime(t, noCleaner{s}, pageOptions{Workflow: flowOf(n)}, func(v *virtual) {
		v.createPage("p", "on")
		v.pass(time.Minute)
		s.expect(t, "Reconcile on Reconcile")
		noError(t, v.op.AddSecondary("webpage", &s.configMaps)) // from outside it may be kept
		v.touch("p", "off")
		v.pass(time.Minute)
		if n := v.op.Occupancy().DynamicSources; n != 1 {
			t.Errorf("%d sources are held", n)
		}
		noError(t, v.op.RemoveSource("webpage", "configmap"))
		v.pass(time.Minute)
		if n := v.op.Occupancy().DynamicSources; n != 0 {
			t.Errorf("%d sources are held", n)
		}
	})
}
