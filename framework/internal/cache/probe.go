package cache

import (
	"context"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework/health"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
)

// Probe compares the progress of a watch with the present version of the API server. It sends one
// request.
func (s *Store) Probe(ctx context.Context, namespace string) health.Lag {
	lag := health.Lag{Cache: s.Describe(), Namespace: namespace}
	lag.Consistent, lag.Err = s.consistent(ctx, namespace)
	if lag.Err != nil {
		lag.Error = lag.Err.Error()
		return lag
	}
	for _, w := range s.Watches() {
		if w.Namespace == namespace {
			lag.Progress = w.Progress
		}
	}
	there, err := strconv.ParseUint(lag.Consistent, 10, 64)
	here, errHere := strconv.ParseUint(lag.Progress, 10, 64)
	if err == nil && errHere == nil {
		lag.Current = here >= there
		lag.Versions = there - min(here, there)
	}
	return lag
}

// consistent returns the present version of the API server.
func (s *Store) consistent(ctx context.Context, namespace string) (string, error) {
	only, err := s.Cluster.ClientIn(ctx, object.Metadata, s.Key.GVK)
	if err != nil {
		return "", err
	}
	ctx, cancel := client.WithRequestTimeout(ctx)
	defer cancel()
	listed, err := client.ListWatch{Client: only, Namespace: namespace}.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", fmt.Errorf("framework: list %s: %w", s.Describe(), err)
	}
	return listed.(metav1.ListInterface).GetResourceVersion(), nil
}
