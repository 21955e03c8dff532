package framework_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/retry"
)

func TestClassify(t *testing.T) {
	pages := schema.GroupResource{Resource: "webpages"}
	overloaded := &apierrors.StatusError{ErrStatus: metav1.Status{
		Code: 503, Reason: metav1.StatusReasonServiceUnavailable, Details: &metav1.StatusDetails{RetryAfterSeconds: 7},
	}}
	for name, c := range map[string]struct {
		err  error
		want retry.Verdict
	}{
		"429 with a time":    {apierrors.NewTooManyRequests("slow down", 5), retry.Verdict{Class: retry.Soon, NotBefore: 5 * time.Second}},
		"429 without":        {apierrors.NewTooManyRequestsError("slow down"), retry.Verdict{Class: retry.Soon}},
		"503 with a time":    {overloaded, retry.Verdict{Class: retry.Soon, NotBefore: 7 * time.Second}},
		"503 without":        {apierrors.NewServiceUnavailable("no"), retry.Verdict{}},
		"a time-out":         {apierrors.NewServerTimeout(pages, "get", 2), retry.Verdict{Class: retry.Soon, NotBefore: 2 * time.Second}},
		"a time-out without": {apierrors.NewServerTimeout(pages, "get", 0), retry.Verdict{}},
		"too large":          {framework.ErrTooLarge, retry.Verdict{Class: retry.NotAgain}},
		"invalid":            {apierrors.NewInvalid(schema.GroupKind{Kind: "Page"}, "p", nil), retry.Verdict{}},
		"another's conflict": {apierrors.NewConflict(pages, "p", errors.New("stale")), retry.Verdict{}},
		"anything":           {errors.New("disk full"), retry.Verdict{}},
	} {
		if got := framework.Classify(fmt.Errorf("wrapped: %w", c.err)); got != c.want {
			t.Errorf("%s: %v is classified %+v, want %+v", name, c.err, got, c.want)
		}
	}
}
