package framework

import (
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework/internal/write"
)

// In returns what a run writes to the cluster of the secondaries through, which is [Secondary.Cluster]; for those of the
// operator's own cluster that is c. All that is said of [Writes] holds there: what is answered is readable at
// once, what is proven does not trigger the run's primary, and nothing is written once the run has ended or the lease is
// lost.
//
//	_, err := framework.Apply(ctx, r.remote.In(c), desired)
//
// It is for objects of any kind in that cluster. An object that was read from one cluster is refused for another. Owner
// references do not reach beyond a cluster: set [Secondary.Map], and delete in Cleanup what is written there.
func (s *Secondary[S]) In(c Lookup) Writes { return writing{c.lookup().WriterOf(s)} }

// WriterAt is [Operator.Writer] for another cluster: the one that registered secondaries name in [Secondary.Cluster], or
// that were added. It writes no more once the last of these is removed.
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
