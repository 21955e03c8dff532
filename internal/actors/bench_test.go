package actors_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/evenkeel/evenkeel/internal/actors"
	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// BenchmarkLife is a Deployment with two replicas from its creation until its Pods are gone, with
// the model. It has no delays to speak of, so that it needs no bubble.
func BenchmarkLife(b *testing.B) {
	b.ReportAllocs()
	who := actors.Options{CollectAfter: 1, ReactAfter: 1, StartAfter: 1, StopAfter: 1}
	for b.Loop() {
		model, err := apimodel.New(strict)
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(b.Context())
		actors.Start(ctx, model, who)
		s := newStage(b, model.Config(), model)
		s.must(http.MethodPost, deployments, deployment("d", `"replicas":2,`))
		s.await(func() bool {
			all := model.Objects("deployments")
			return field(all[0], "status.availableReplicas") == int64(2)
		})
		s.remove(deployments+"/d", "Background")
		s.await(func() bool { return len(model.Objects("deployments"))+len(model.Objects("pods")) == 0 })
		cancel()
	}
}

// await waits for commits until something holds.
func (s *stage) await(holds func() bool) {
	for {
		changed := s.model.Changed()
		if holds() {
			return
		}
		<-changed
	}
}
