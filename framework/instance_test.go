package framework

import (
	"testing"

	"k8s.io/client-go/rest"
)

// TestTheInstanceIsTheLeaseWhereThereIsOne: its holders are one after the other. Without one, each
// operator is another.
func TestTheInstanceIsTheLeaseWhereThereIsOne(t *testing.T) {
	instance := func(election LeaderElection) string {
		op, err := NewOperator(&rest.Config{Host: "http://127.0.0.1:1"}, OperatorOptions{Name: "shop", LeaderElection: election})
		if err != nil {
			t.Fatal(err)
		}
		return op.host.Instance
	}
	lease := LeaderElection{Mode: Always, Namespace: "ns", Name: "lease"}
	if one, two := instance(lease), instance(lease); one != "lease/ns/lease" || one != two {
		t.Errorf("with a lease: %q and %q", one, two)
	}
	if one, two := instance(LeaderElection{Mode: Never}), instance(LeaderElection{Mode: Never}); one == two || one == "" {
		t.Errorf("without: %q and %q", one, two)
	}
	other := lease
	other.Name = "other"
	if one, two := instance(lease), instance(other); one == two {
		t.Errorf("two leases: %q", one)
	}
}
