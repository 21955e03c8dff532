package clusterstest

import (
	"context"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/faultproxy"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// places are where the copies are.
func places() map[string]*testenv.Env {
	return map[string]*testenv.Env{"in the same cluster": home, "in another cluster": far}
}

var (
	copies  = faultproxy.Match{Resources: []string{"configmaps"}}
	watches = faultproxy.Match{Resources: []string{"configmaps"}, Verbs: []string{"watch"}}
)

// faults are what may happen on the way to the copies, without an end. Some let no watch succeed;
// then Ready must say so.
var faults = map[string]struct {
	rules   []faultproxy.Rule
	unready bool
}{
	"watches break again and again": {unready: true, rules: []faultproxy.Rule{{Name: "f", Match: watches, Do: faultproxy.Action{Cut: &faultproxy.Cut{}}}}},
	"watches expire":                {rules: []faultproxy.Rule{{Name: "f", Match: watches, Do: faultproxy.Action{Expire: &faultproxy.Expire{}}}}},
	"events are missed, and the watch expires": {rules: []faultproxy.Rule{
		{Name: "f", Match: watches, Do: faultproxy.Action{Hide: 4}},
	}},
	"nothing comes through": {unready: true, rules: []faultproxy.Rule{
		{Name: "f", Match: copies, Do: faultproxy.Action{Drop: true}},
		{Name: "g", Match: watches, Do: faultproxy.Action{Cut: &faultproxy.Cut{}}},
	}},
	"answers are lost": {unready: true, rules: []faultproxy.Rule{
		{Name: "f", Match: copies, Do: faultproxy.Action{LoseAnswer: true}},
		{Name: "g", Match: watches, Do: faultproxy.Action{Cut: &faultproxy.Cut{}}},
	}},
	"the server fails": {unready: true, rules: []faultproxy.Rule{
		{Name: "f", Match: copies, Do: faultproxy.Action{Answer: &faultproxy.Answer{Status: 500}}},
		{Name: "g", Match: watches, Do: faultproxy.Action{Cut: &faultproxy.Cut{}}},
	}},
}

func TestG04_G18_NothingIsLostByFaultsOnTheWay(t *testing.T) {
	t.Parallel()
	for place, env := range places() {
		for name, fault := range faults {
			t.Run(place+"/"+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, env, framework.OperatorOptions{})
				w.settle()
				must(t, w.proxy.Set(fault.rules...))
				w.disturb("during")
				w.awaitLocal("p0", "during")
				if fault.unready {
					w.awaitUnready()
				}
				for _, rule := range fault.rules {
					must(t, w.proxy.Release(rule.Name))
				}
				w.settle()
				w.disturb("after")
				w.settle()
				must(t, w.stop())
			})
		}
	}
}

// A half-open watch is noticed by its bookmarks, of which the server sends one a minute.
func TestG18_HalfOpenWatchesAreNoticedAndBegunAnew(t *testing.T) {
	t.Parallel()
	for place, env := range places() {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, env, framework.OperatorOptions{StaleAfter: 70 * time.Second})
			w.settle()
			w.await("a bookmark", func() string {
				for _, h := range w.op.Health() {
					if h.Source == "configmap" && !h.Watches[0].LastBookmark.IsZero() {
						return ""
					}
				}
				return "none has come"
			})
			must(t, w.proxy.Set(faultproxy.Rule{Name: "f", Match: watches, When: faultproxy.When{Times: 1}, Do: faultproxy.Action{HalfOpen: true}}))
			w.disturb("during")
			w.settle()
			if got := w.op.Health(); got[0].Watches == nil {
				t.Errorf("%+v", got)
			}
			must(t, w.stop())
		})
	}
}

func TestG18_RightsMayBeRevokedAndRestored(t *testing.T) {
	t.Parallel()
	for place, env := range places() {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			there, user := clientOf(t, env), "operator-"+map[*testenv.Env]string{home: "home", far: "far"}[env]
			grant := func() *rbacv1.ClusterRoleBinding {
				return &rbacv1.ClusterRoleBinding{
					ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
					Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
				}
			}
			must(t, there.Create(context.Background(), grant()))
			t.Cleanup(func() { must(t, client.IgnoreNotFound(there.Delete(context.Background(), grant()))) })
			w := newWorld(t, env, framework.OperatorOptions{}, func(config *rest.Config) { config.Impersonate.UserName = user })
			w.settle()
			must(t, there.Delete(context.Background(), grant()))
			// Watches go on without rights, until they end.
			must(t, w.proxy.Set(faultproxy.Rule{Name: "f", Match: faultproxy.Match{Verbs: []string{"watch"}}, Do: faultproxy.Action{Cut: &faultproxy.Cut{}}}))
			w.awaitUnready()
			must(t, w.proxy.Release("f"))
			w.disturb("during")
			if env != home {
				w.awaitLocal("p0", "during")
			}
			must(t, there.Create(context.Background(), grant()))
			w.settle()
			must(t, w.stop())
		})
	}
}
