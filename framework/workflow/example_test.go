package workflow_test

import (
	"context"
	"fmt"

	"github.com/evenkeel/evenkeel/framework/workflow"
)

// page is a primary of the example, and cluster what stands for the world.
type page struct {
	Exposed bool
	cluster map[string]bool
}

func Example() {
	node := func(name string, dependsOn ...string) workflow.Node[*page] {
		return workflow.Node[*page]{
			Name: name, DependsOn: dependsOn,
			Reconcile: func(_ context.Context, p *page) error {
				p.cluster[name] = true
				return nil
			},
			Delete: func(_ context.Context, p *page) error {
				delete(p.cluster, name)
				return nil
			},
		}
	}
	available := false
	deployment := node("deployment", "config")
	deployment.ReadyPostcondition = func(context.Context, *page) (workflow.Verdict, error) {
		if !available {
			return workflow.NotMet("0 of %d replicas are available", 1), nil
		}
		return workflow.Met(), nil
	}
	ingress := node("ingress", "deployment")
	ingress.ReconcilePrecondition = func(_ context.Context, p *page) (workflow.Verdict, error) {
		return workflow.Verdict{Met: p.Exposed, Reason: "the page is not exposed"}, nil
	}
	graph, err := workflow.New([]workflow.Node[*page]{node("config"), deployment, ingress}, workflow.Options{Concurrency: 1})
	if err != nil {
		panic(err)
	}

	p := &page{Exposed: true, cluster: map[string]bool{}}
	show := func(r *workflow.Result) {
		summary := r.Summary(nil)
		fmt.Println(summary.Stage, summary.Reason, len(p.cluster))
		for _, n := range r.Nodes {
			fmt.Println(" ", n)
		}
	}
	show(graph.Reconcile(context.Background(), p))
	available = true
	show(graph.Reconcile(context.Background(), p))
	p.Exposed = false
	show(graph.Reconcile(context.Background(), p))
	show(graph.Cleanup(context.Background(), p))
	// Output:
	// Reconciling DeploymentNotReady 2
	//   config Ready
	//   deployment NotReady: 0 of 1 replicas are available
	//   ingress Waiting: waiting for deployment: 0 of 1 replicas are available
	// Ready Ready 3
	//   config Ready
	//   deployment Ready
	//   ingress Ready
	// Ready Ready 2
	//   config Ready
	//   deployment Ready
	//   ingress Deleted: not wanted: the page is not exposed
	// Ready Gone 0
	//   config Deleted
	//   deployment Deleted
	//   ingress Deleted
}

func ExampleResult_Mermaid() {
	apply := func(context.Context, *page) error { return nil }
	available := func(context.Context, *page) (workflow.Verdict, error) {
		return workflow.NotMet("0 of %d replicas are available", 1), nil
	}
	graph, err := workflow.New([]workflow.Node[*page]{
		{Name: "config", Reconcile: apply},
		{Name: "deployment", DependsOn: []string{"config"}, Reconcile: apply, ReadyPostcondition: available},
		{Name: "service", DependsOn: []string{"config"}, Reconcile: apply},
		{Name: "ingress", DependsOn: []string{"deployment", "service"}, Reconcile: apply},
	}, workflow.Options{})
	if err != nil {
		panic(err)
	}
	fmt.Println(graph.Plan())
	fmt.Print(graph.Reconcile(context.Background(), &page{}).Mermaid())
	// Output:
	// [[config] [deployment service] [ingress]]
	// flowchart TD
	//   n0["config<br/>Ready"]:::ready
	//   n1["deployment<br/>NotReady<br/>0 of 1 replicas are available"]:::underway
	//   n2["service<br/>Ready"]:::ready
	//   n3["ingress<br/>Waiting<br/>waiting for deployment: 0 of 1 replicas are available"]:::idle
	//   n0 --> n1
	//   n0 --> n2
	//   n1 --> n3
	//   n2 --> n3
	//   classDef idle fill:#e0e0e0,color:#000
	//   classDef underway fill:#fbe3a6,color:#000
	//   classDef ready fill:#b7e1b1,color:#000
}
