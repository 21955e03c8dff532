package framework_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// startIncomplete runs, in virtual time, one controller of a kind that is not served and one of
// pages, whose requests a function may refuse, and returns how the operator ended within an hour,
// if it did.
func startIncomplete(t *testing.T, options framework.OperatorOptions, fault func(apimodel.Request) apimodel.Fault, after func(op *framework.Operator)) (ended error, hasEnded bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		model := newModel(t)
		if fault != nil {
			model.Intercept(fault)
		}
		options.Scheme, options.Grace, options.Logger = scheme, -1, quiet
		op, err := framework.NewOperator(model.Config(), options)
		noError(t, err)
		noError(t, framework.Register(op, unserved{}, framework.ControllerOptions[*unstructuredObject]{
			GroupVersionKind: webpagev1.GroupVersion.WithKind("Unserved"),
		}))
		noError(t, framework.Register(op, &pages{}, pageOptions{}))
		running, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- op.Run(running) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		select {
		case ended = <-done:
			hasEnded = true
		default:
			if after != nil {
				after(op)
			}
			stop()
			noError(t, <-done)
		}
		stop()
	})
	return ended, hasEnded
}

// refusing refuses the lists and watches of pages.
func refusing(r apimodel.Request) apimodel.Fault {
	if r.Resource == "webpages" && (r.Verb == "list" || r.Verb == "watch") {
		return apimodel.Fault{Answer: &apierrors.NewForbidden(schema.GroupResource{Resource: r.Resource}, "", nil).ErrStatus}
	}
	return apimodel.Fault{}
}

func TestG18AKindThatIsNotServedIsAwaitedWithoutLimit(t *testing.T) {
	var asked atomic.Int32
	count := func(r apimodel.Request) apimodel.Fault {
		if r.Verb == "discovery" {
			asked.Add(1)
		}
		return apimodel.Fault{}
	}
	err, ended := startIncomplete(t, framework.OperatorOptions{}, count, func(op *framework.Operator) {
		expectError(t, op.Ready(), `"unserved"`, "Unserved", "CustomResourceDefinition")
		if err := op.Ready(); strings.Contains(err.Error(), "webpage") {
			t.Errorf("the other controller is not ready: %v", err)
		}
	})
	if ended {
		t.Errorf("the operator has ended: %v", err)
	}
	if n := asked.Load(); n < 200 || n > 500 {
		t.Errorf("discovery was asked %d times in an hour, want about every 10 s", n)
	}
}

func TestFailStartEndsAnOperatorWhoseKindIsNotServed(t *testing.T) {
	err, _ := startIncomplete(t, framework.OperatorOptions{StartPolicy: framework.FailStart}, nil, nil)
	expectError(t, err, `"unserved"`, "2m0s")
}

func TestWhatIsServedIsToBeFilledWithinSyncTimeout(t *testing.T) {
	err, _ := startIncomplete(t, framework.OperatorOptions{SyncTimeout: time.Minute}, refusing, nil)
	expectError(t, err, `"webpage"`, "1m0s")
}

func TestWaitForAllWaitsForCachesTooAndSaysSo(t *testing.T) {
	err, ended := startIncomplete(t, framework.OperatorOptions{StartPolicy: framework.WaitForAll}, refusing, func(op *framework.Operator) {
		expectError(t, op.Ready(), `"unserved"`, `"webpage"`, "is not synced after 2m0s")
	})
	if ended {
		t.Errorf("the operator has ended: %v", err)
	}
}
