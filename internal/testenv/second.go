package testenv

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// StartWithSecondEtcd is Start with two stores that know nothing of each other: the API server
// keeps the objects of one resource in a second etcd, with versions of its own. It must be one that
// is compiled into the API server, as custom resources are always in the first. Pause and Truth are
// of the first as well, and so is Crash, which the second survives.
func StartWithSecondEtcd(resource schema.GroupResource, crds ...string) (*Env, error) {
	return start(&resource, map[string]string{}, crds)
}

// SecondTruth is [Env.Truth] of the second etcd.
func (e *Env) SecondTruth(ctx context.Context) (*Truth, error) {
	if e.second == nil {
		return nil, errors.New("testenv: there is no second etcd")
	}
	return truthOf(ctx, e.second, 0)
}

// override is the flag that names the second etcd.
func override(resource *schema.GroupResource, second *etcd) string {
	return fmt.Sprintf("%s/%s#%s", resource.Group, resource.Resource, second.url())
}
