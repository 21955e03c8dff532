package framework_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// TestACreateThatIsRepeatedIsNotToldAsUnmapped: it has the name of the former attempt.
func TestACreateThatIsRepeatedIsNotToldAsUnmapped(t *testing.T) {
	var l log
	r := &pages{}
	r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
		if found, err := r.configMaps.List(c); err != nil || len(found) > 0 {
			return framework.NoUpdate[*Page](), err
		}
		create := func() error {
			_, err := framework.Create(ctx, c, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, GenerateName: p.Name + "-"},
				Data:       map[string]string{"data": p.Spec.HTML},
			}, framework.OwnedByPrimary())
			return err
		}
		err := create()
		if err != nil {
			err = create()
		}
		return framework.NoUpdate[*Page](), err
	}
	inVirtualTimeWith(t, l.options(), r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)}, func(v *virtual) {
		until := time.Now().Add(61 * time.Second)
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Resource == "configmaps" && r.Verb == "create" && time.Now().Before(until) {
				return apimodel.Fault{Drop: true}
			}
			return apimodel.Fault{}
		})
		v.create(newPage("default", "p"))
		v.pass(30 * time.Minute)
		for event := range v.allEvents() {
			if strings.Contains(event, framework.ReasonSecondaryUnmapped) {
				t.Errorf("told: %s", event)
			}
		}
		if logged := l.with("does not map to its primary"); len(logged) > 0 {
			t.Errorf("logged %q", logged)
		}
	})
}

// TestAPatchOfASecretThatIsNoObjectIsNotQuoted in the log, nor in events.
func TestAPatchOfASecretThatIsNoObjectIsNotQuoted(t *testing.T) {
	var l log
	r := &pages{}
	r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s", ResourceVersion: "1", UID: "u"}}
		_, err := framework.MergePatch(ctx, c, s, []byte(`[{"op":"replace","path":"/data/password","value":"aHVudGVyMg=="}]`))
		return framework.NoUpdate[*Page](), err
	}
	inVirtualTimeWith(t, l.options(), r, pageOptions{}, func(v *virtual) {
		v.create(newPage("default", "p"))
		v.pass(time.Minute)
		for event := range v.allEvents() {
			if strings.Contains(event, "aHVudGVyMg") {
				t.Errorf("told: %s", event)
			}
		}
		if logged := l.with("aHVudGVyMg"); len(logged) > 0 {
			t.Errorf("logged %q", logged[0])
		}
	})
}

// TestACreatedObjectThatDoesNotDecodeIsNotToldAsUnmapped: it is there, and reads of it are errors.
func TestACreatedObjectThatDoesNotDecodeIsNotToldAsUnmapped(t *testing.T) {
	var l log
	b := newToolbox(func(b *toolbox, ctx context.Context, c *pageContext, run int) {
		if run == 1 {
			_, err := framework.Create(ctx, c, wholeTool("t", map[string]any{"size": "huge"}))
			noError(t, err)
		}
	})
	inVirtualTimeWith(t, l.options(), b, pageOptions{Retry: slow, Secondaries: framework.Secondaries(&b.typed)}, func(v *virtual) {
		v.create(newPage("default", "p"))
		v.pass(time.Minute)
		if logged := l.with("does not map to its primary"); len(logged) > 0 {
			t.Errorf("logged %q", logged)
		}
	})
}

// TestG13NoPartOfAnObjectIsASuccess: what a create made under a drawn name does not decode any
// more.
func TestG13NoPartOfAnObjectIsASuccess(t *testing.T) {
	var v *virtual
	b := newToolbox(func(b *toolbox, ctx context.Context, c *pageContext, run int) {
		if run == 1 {
			tool := &Tool{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "t-"}}
			tool.Spec.Size = 3
			made, err := framework.Create(ctx, c, tool)
			if err == nil && made.Spec.Size != 3 {
				t.Errorf("success with a part of the object: %+v", made.Spec)
			}
		}
	})
	inVirtualTime(t, b, b.all(), func(virtual *virtual) {
		v = virtual
		var n atomic.Int32
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Resource == "tools" && r.Verb == "create" {
				if n.Add(1) == 1 {
					return apimodel.Fault{Lose: true}
				}
				return apimodel.Fault{Delay: 5 * time.Second}
			}
			return apimodel.Fault{}
		})
		v.create(newPage("default", "p"))
		v.pass(time.Second)
		for _, commit := range v.commits("tools") {
			name := strings.Fields(commit)[1]
			v.changeTool(name, `{"spec":{"size":"huge"}}`)
		}
		v.pass(time.Minute)
	})
}

// TestG13WhatDoesNotDecodeIsMadeOnce, though each run asks for it.
func TestG13WhatDoesNotDecodeIsMadeOnce(t *testing.T) {
	r := &pages{}
	r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
		tool := &Tool{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "t-"}}
		tool.Spec.Size = 3
		_, err := framework.Create(ctx, c, tool)
		return pageUpdate{}, err
	}
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		var n atomic.Int32
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Resource == "tools" && r.Verb == "create" {
				if n.Add(1) == 1 {
					return apimodel.Fault{Lose: true}
				} else if n.Load() == 2 {
					return apimodel.Fault{Delay: 5 * time.Second}
				}
			}
			return apimodel.Fault{}
		})
		v.create(newPage("default", "p"))
		v.pass(time.Second)
		for _, commit := range v.commits("tools") {
			v.changeTool(strings.Fields(commit)[1], `{"spec":{"size":"huge"}}`)
		}
		v.pass(20 * time.Minute)
		made := 0
		for _, c := range v.commits("tools") {
			if strings.HasPrefix(c, "ADDED") {
				made++
			}
		}
		if made != 1 {
			t.Errorf("made %d", made)
		}
	})
}
