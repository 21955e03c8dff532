package prefixedpod_test

import (
	"context"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// kubelet plays a scheduler and a slow kubelet where there are none: it binds Pods to a node, so
// that their deletion is graceful, and ends those in deletion some time later.
type kubelet struct {
	client *client.Client
	// pods lists all Pods, bind binds one to a node.
	pods func(ctx context.Context) ([]corev1.Pod, error)
	bind func(ctx context.Context, pod *corev1.Pod) error
	// every is how often it looks, slowness the longest time until it acts.
	every, slowness time.Duration
	random          *rand.Rand // used by run alone

	due map[types.UID]time.Time
}

// run works until ctx ends. Errors are left to the next look: others may have been faster.
func (k *kubelet) run(ctx context.Context) error {
	k.due = map[types.UID]time.Time{}
	looks := time.NewTicker(k.every) // it has no watch, which would lag like the operator's
	defer looks.Stop()
	for {
		select {
		case <-looks.C:
		case <-ctx.Done():
			return nil
		}
		pods, err := k.pods(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range pods {
			if err := k.look(ctx, &pods[i]); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

func (k *kubelet) look(ctx context.Context, pod *corev1.Pod) error {
	var err error
	switch {
	case pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil:
		if k.isDue(pod.UID + "/bind") {
			err = k.bind(ctx, pod)
		}
	case pod.DeletionTimestamp != nil:
		if k.isDue(pod.UID) {
			err = k.client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
		}
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// isDue draws a time when it is first called for something, and reports whether that time has come.
func (k *kubelet) isDue(what types.UID) bool {
	at, known := k.due[what]
	if !known {
		at = time.Now().Add(time.Duration(k.random.Int64N(int64(k.slowness) + 1)))
		k.due[what] = at
	}
	return !time.Now().Before(at)
}
