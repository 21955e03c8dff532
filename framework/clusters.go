package framework

import (
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework/internal/write"
)

// In returns what a run uses to write to the cluster of the secondaries, [Secondary.Cluster]. For
// secondaries of the operator's own cluster that is c. All guarantees of [Writes] hold there: an
// answer is readable at once, a proven write does not trigger the run's primary, and nothing is
// written once the run has ended or the lease is lost.
//
//	_, err := framework.Apply(ctx, r.remote.In(c), desired)
//
// It accepts objects of any kind in that cluster. An object that was read from one cluster is
// refused for another. Owner references do not reach beyond a cluster: set [Secondary.Map] or
// [Secondary.By], and delete in Cleanup what is written there.
func (s *Secondary[S]) In(c Lookup) Writes { return writing{c.lookup().WriterOf(s)} }

// WriterAt is [Operator.Writer] for another cluster: one that a registered or added secondary names
// in [Secondary.Cluster]. Its writes fail once the last of these secondaries is removed.
func (op *Operator) WriterAt(cluster *rest.Config, fieldManager string) Writes {
	if fieldManager == "" {
		fieldManager = op.options.Name
	}
	at := op.host.RemoteAt(cluster)
	if at == nil {
		return writing{write.New(op.host.Cluster, fieldManager).Refusing(fmt.Errorf("framework: WriterAt: no registered secondary has that Cluster"))}
	}
	return writing{write.New(at, fieldManager)}
}
