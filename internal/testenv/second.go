package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// StartWithSecondEtcd is Start with two stores that know nothing of each other: the API server
// keeps the objects of one resource in a second etcd, with versions of its own. It must be one that
// is compiled into the API server, as custom resources are always in the first. Pause and Truth are
// of the first as well, and so is Crash, which the second survives.
func StartWithSecondEtcd(resource schema.GroupResource, crds ...string) (*Env, error) {
	folder, err := assets()
	if err != nil {
		return nil, err
	}
	second := &envtest.Etcd{Path: filepath.Join(folder, "etcd"), StartTimeout: time.Minute, StopTimeout: time.Minute}
	if err := second.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("testenv: start a second etcd: %w", err), second.Stop(), os.RemoveAll(folder))
	}
	override := fmt.Sprintf("%s/%s#%s", resource.Group, resource.Resource, second.URL)
	env, err := startFrom(folder, map[string]string{"etcd-servers-overrides": override}, crds)
	if err != nil {
		return nil, errors.Join(err, second.Stop())
	}
	env.second = second
	return env, nil
}

// SecondTruth is [Env.Truth] of the second etcd.
func (e *Env) SecondTruth(ctx context.Context) (*Truth, error) {
	if e.second == nil {
		return nil, errors.New("testenv: there is no second etcd")
	}
	return truthOf(ctx, e.second, 0)
}
