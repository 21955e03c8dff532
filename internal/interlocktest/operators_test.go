package interlocktest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/interlock"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
)

type (
	app            = corev1.ConfigMap // what it uses is in its data: see databasesOf
	database       = corev1.Secret
	implementation = coordinationv1.Lease // of the app that owns it, on the database that its label names
	appContext     = framework.Context[*app]
	appUpdate      = framework.UpdateControl[*app]
)

const (
	// usesKey names the databases that an app refers to, separated by commas.
	usesKey = "databases"
	// onLabel names the database of an implementation.
	onLabel = "example.com/database"
)

// relation is the same to both operators.
func relation() interlock.Relation[*app] {
	return interlock.Relation[*app]{Name: "databases.example.com", Providers: databasesOf}
}

func databasesOf(a *app) (keys []types.NamespacedName) {
	for _, name := range strings.Split(a.Data[usesKey], ",") {
		if name != "" {
			keys = append(keys, types.NamespacedName{Namespace: a.Namespace, Name: name})
		}
	}
	return keys
}

// implementer implements an app on the databases that it is granted.
type implementer struct {
	gate            interlock.Gate[*database, *app]
	implementations framework.Secondary[*implementation]
}

var _ framework.Cleaner[*app] = (*implementer)(nil)

func (r *implementer) Reconcile(ctx context.Context, a *app, c *appContext) (none appUpdate, err error) {
	grant, err := r.gate.Acquire(ctx, c)
	if err != nil {
		return none, err
	}
	for _, key := range databasesOf(a) {
		if slices.ContainsFunc(grant.Denials, func(d interlock.Denial) bool { return d.Provider == key }) {
			continue
		}
		if err := r.implement(ctx, a, c, key); err != nil {
			return none, err
		}
	}
	uses := func(i *implementation) bool {
		return slices.Contains(databasesOf(a), types.NamespacedName{Namespace: a.Namespace, Name: i.Labels[onLabel]})
	}
	if err := r.removeBut(ctx, c, uses); err != nil {
		return none, err
	}
	return none, r.gate.Release(ctx, c)
}

// implement implements the app on a database that it was granted.
func (r *implementer) implement(ctx context.Context, a *app, c *appContext, key types.NamespacedName) error {
	on, err := r.gate.Providers.GetNamed(c, key.Namespace, key.Name)
	if err != nil {
		return err
	}
	if on == nil {
		return fmt.Errorf("database %s was granted and is not to be seen", key)
	}
	_, err = framework.Apply(ctx, c, &implementation{ObjectMeta: metav1.ObjectMeta{
		Namespace: a.Namespace, Name: implementationID{a.UID, on.UID}.String(), Labels: map[string]string{onLabel: on.Name},
	}}, framework.OwnedByPrimary())
	return err
}

// removeBut removes the app's implementations that are not to stay.
func (r *implementer) removeBut(ctx context.Context, c *appContext, stays func(*implementation) bool) error {
	all, err := r.implementations.List(c)
	if err != nil {
		return err
	}
	for _, i := range all {
		if stays(i) {
			continue
		}
		if err := framework.Delete(ctx, c, i); err != nil {
			return err
		}
	}
	return nil
}

func (r *implementer) Cleanup(ctx context.Context, _ *app, c *appContext) (framework.DeleteControl, error) {
	if err := r.removeBut(ctx, c, func(*implementation) bool { return false }); err != nil {
		return framework.DeleteControl{}, err
	}
	return framework.RemoveFinalizer(), r.gate.Release(ctx, c)
}

// implementationID is what an implementation is of, and its name.
type implementationID struct{ app, database types.UID }

func (id implementationID) String() string { return string(id.app) + "." + string(id.database) }

func implementationOf(name string) (id implementationID) {
	of, on, _ := strings.Cut(name, ".")
	return implementationID{types.UID(of), types.UID(on)}
}

// operatorVariable makes the test binary an operator, as its content says.
const operatorVariable = "EVENKEEL_INTERLOCK_OPERATOR"

// operatorOrder is what an operator is to do.
type operatorOrder struct {
	Role, Namespace string
	Host            string
	CA              []byte
}

// beOperator runs until its input ends, as it does with the tests at the latest.
func beOperator(given string) int {
	running, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // however it ends
		stop()
	}()
	var order operatorOrder
	err := json.Unmarshal([]byte(given), &order)
	if err == nil {
		err = order.run(running)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (o operatorOrder) run(ctx context.Context) error {
	config := &rest.Config{Host: o.Host, TLSClientConfig: rest.TLSClientConfig{CAData: o.CA}}
	op, err := framework.NewOperator(config, framework.OperatorOptions{
		Scheme: scheme.Scheme, Name: o.Role, Namespaces: []string{o.Namespace}, Grace: -1,
		Logger: funcr.New(func(prefix, args string) { fmt.Println(o.Role, prefix, args) }, funcr.Options{LogTimestamp: true, Verbosity: 1}),
	})
	if err != nil {
		return err
	}
	if err := o.register(op); err != nil {
		return err
	}
	return op.Run(ctx)
}

// The roles of operators.
const (
	guardRole = "guard"
	gateRole  = "gate"
)

// register has nothing but what happens make a run, so that nothing that was lost is found by
// chance.
func (o operatorOrder) register(op *framework.Operator) error {
	quick := retry.Policy{Initial: 50 * time.Millisecond, Max: time.Second}
	if o.Role == guardRole {
		guard := &interlock.Guard[*database, *app]{Relation: relation()}
		guard.Options.MaxInterval, guard.Options.Retry = scheduler.NoMaxInterval, quick
		return guard.Register(op)
	}
	r := &implementer{gate: interlock.Gate[*database, *app]{Relation: relation()}}
	return framework.Register(op, r, framework.ControllerOptions[*app]{
		Name: "implementer", MaxInterval: scheduler.NoMaxInterval, Retry: quick,
		Secondaries: append(r.gate.Secondaries(), &r.implementations), Sources: r.gate.Sources(),
	})
}
