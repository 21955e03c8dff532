package contest

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/trc"
)

// A controller that only writes fields of its own does not hide a fight of another one over the same
// object.
func TestAFightIsFoundThoughAnotherControllerWritesTheObjectToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book, history, found := &Book{}, []version{}, 0
		writes := func(by, x, y string) *Fight {
			history = append(history, version{by: by, data: map[string]string{"x": x, "y": y}})
			if by == "user" {
				return nil
			}
			return book.Wrote(write(history))
		}
		writes("b", "0", "0")
		for i := range 20 {
			writes("user", "1", fmt.Sprint(i)) // the user changes x, and the counter y by a
			writes("a", "1", fmt.Sprint(i+1))
			if writes("b", "0", fmt.Sprint(i+1)) != nil {
				found++
			}
			time.Sleep(time.Minute)
		}
		if found == 0 {
			t.Error("b has set x back 20 times, and no fight is named")
		}
	})
}

// A writer that itself changes a field to and fro does not fight, also if the book misses some of
// its writes.
func TestWhatAWriterChangesItselfIsNoFightThoughWritesAreMissed(t *testing.T) {
	for name, miss := range map[string]func(*Book, *Write){
		"the cache had a newer version": func(_ *Book, w *Write) {
			w.After = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "999"}}
		},
		"no cache showed the object": func(_ *Book, w *Write) { w.Before, w.After = nil, nil },
		"other objects took the slots": func(b *Book, _ *Write) {
			_, hash := b.findLocked("u")
			for i, taken := 0, 0; taken < ways; i++ {
				uid := types.UID(fmt.Sprint("o", i))
				if _, other := b.findLocked(uid); other%sets == hash%sets {
					b.Wrote(Write{UID: uid, Version: "1", Answer: &corev1.ConfigMap{}})
					taken++
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				book, history := &Book{}, []version{}
				writes := func(by, phase, spec string, missed bool) {
					history = append(history, version{by: by, data: map[string]string{"phase": phase, "spec": spec}})
					if by == "user" {
						return
					}
					w := write(history)
					if missed {
						miss(book, &w)
					}
					if fight := book.Wrote(w); fight != nil {
						t.Errorf("a fight over %v: only the writer has changed phase", fight.Fields)
					}
				}
				writes("a", "ready", "0", false)
				for i := range 5 {
					writes("user", "ready", fmt.Sprint(i+1), false)
					writes("a", "progressing", fmt.Sprint(i+1), false)
					writes("a", "ready", fmt.Sprint(i+1), true)
					time.Sleep(time.Minute)
				}
			})
		})
	}
}

func TestTheFieldsOfOthersAreNotTheManagers(t *testing.T) {
	entries := []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(
		`{"f:data":{"f:1":{}},"f:spec":{"f:a]b":{}}}`)}}
	for path, want := range map[string]bool{"data.1": true, "data.0": false, "spec[a]b]": true} {
		if got := owns(entries, "m", path, nil); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

// Two managers share status.conditions, as is usual. What another one does to its own condition,
// unseen between the cache and the answer, is not laid to the writer.
func TestTheConditionsOfOthersAreNotFoughtOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book, n := &Book{}, 0
		object := func(ours int, others corev1.ConditionStatus) *appsv1.Deployment {
			n++
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: fmt.Sprint(n)}}
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: "Ours", Message: fmt.Sprint(ours)}, {Type: "Others", Status: others}}
			d.ManagedFields = []metav1.ManagedFieldsEntry{
				{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:conditions":{"k:{\"type\":\"Ours\"}":{".":{},"f:type":{},"f:message":{}}}}}`)},
				{Manager: "other", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:conditions":{"k:{\"type\":\"Others\"}":{".":{},"f:type":{},"f:status":{}}}}}`)},
			}
			return d
		}
		for i := range 8 {
			before, after := object(i, "False"), object(i+1, "True")
			fight := book.Wrote(Write{UID: "u", Version: after.ResourceVersion, Manager: "m", By: trc.Writer{Controller: "a"}, Before: before, After: after, Answer: after})
			if fight != nil {
				t.Fatalf("round %d: a fight over %v", i, fight.Fields)
			}
			time.Sleep(time.Minute)
		}
	})
}
