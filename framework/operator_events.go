package framework

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	typedevents "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/tools/events"

	"github.com/evenkeel/evenkeel/framework/internal/host"
	"github.com/evenkeel/evenkeel/framework/internal/run"
	"github.com/evenkeel/evenkeel/trc"
)

// publisher publishes Kubernetes events in the local cluster.
type publisher struct {
	host     *host.Host
	recorder atomic.Pointer[events.EventRecorder] // nil before start
}

// start starts the recorder of events, which counts repetitions in series.
func (p *publisher) start(ctx context.Context) (stop func(), err error) {
	client, err := typedevents.NewForConfigAndClient(p.host.Cluster.Config, p.host.Cluster.HTTP)
	if err != nil {
		return nil, fmt.Errorf("framework: events: %w", err)
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		broadcaster.Shutdown()
		return nil, fmt.Errorf("framework: events: %w", err)
	}
	recorder := events.EventRecorder(broadcaster.NewRecorder(p.host.Scheme, p.host.Name))
	p.recorder.Store(&recorder)
	return broadcaster.Shutdown, nil
}

// publish publishes an event, unless another instance leads, which publishes its own. It omits the
// object's version: otherwise events about several versions would not count as repetitions.
func (p *publisher) publish(gvk schema.GroupVersionKind, about Object, warning bool, action, reason, note string, args ...any) {
	kind := Normal
	if warning {
		kind = Warning
	}
	if recorder := p.recorder.Load(); recorder != nil && p.host.Cluster.Fence.Allowed() {
		apiVersion, kindOfObject := gvk.ToAPIVersionAndKind()
		reference := &corev1.ObjectReference{
			APIVersion: apiVersion, Kind: kindOfObject, Namespace: about.GetNamespace(), Name: about.GetName(), UID: about.GetUID(),
		}
		(*recorder).Eventf(reference, nil, kind.String(), reason, action, "%s", run.Shortened(fmt.Sprintf(note, args...)))
	}
}

// undecodable publishes an event about an undecodable object of the operator's own cluster.
func (p *publisher) undecodable(gvk schema.GroupVersionKind, u *trc.Undecodable) {
	p.publish(gvk, u, true, "Decode", ReasonUndecodable, "%s", run.UndecodableNote(u))
}
