package client

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// Page lists some of the objects, and tells where the rest continues, all of the version of the first page. Those that do
// not fit their Go type are [trc.Undecoded].
func (l ListWatch) Page(ctx context.Context, options metav1.ListOptions) (objects []trc.Object, next string, err error) {
	ctx, cancel := WithRequestTimeout(ctx)
	defer cancel()
	list, err := l.List(ctx, options)
	if err != nil {
		return nil, "", err
	}
	err = meta.EachListItem(list, func(item runtime.Object) error {
		objects = append(objects, item.(trc.Object))
		return nil
	})
	return objects, list.(metav1.ListInterface).GetContinue(), err
}

// ListWatch is the resource as seen by a store: one namespace and selectors.
type ListWatch struct {
	*Client
	Namespace      string
	Labels, Fields string
	Shard          string
}

func (l ListWatch) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	options.LabelSelector, options.FieldSelector, options.ShardSelector = l.Labels, l.Fields, l.Shard
	list, err := l.list(ctx, options)
	if err == nil && l.Shard != "" {
		err = l.checkShard(ctx, list)
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}

func (l ListWatch) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if options.ResourceVersion == "0" {
		// "Any version" may be older than what was read or written before: the first list must not be.
		options.ResourceVersion = ""
	}
	list, ctx := l.NewList(), l.Discreet(ctx)
	result := l.inForm(l.client.Get(), "List").NamespaceIfScoped(l.Namespace, l.Namespace != "").Resource(l.Name).
		SpecificallyVersionedParams(&options, parameters, parametersVersion).Do(ctx)
	err := decodedInto(result, list)
	if err == nil {
		l.Echoes.passed(list.(metav1.ListInterface).GetResourceVersion())
	}
	if raw, failed := result.Raw(); err != nil && failed == nil && l.Form == object.Typed {
		if found, notJSON := l.listOneByOne(raw); notJSON == nil {
			return found, nil
		}
	}
	if only, ok := list.(*metav1.PartialObjectMetadataList); ok {
		for i := range only.Items {
			only.Items[i].SetGroupVersionKind(l.GVK)
		}
	}
	return list, DiscreetError(l.GVK, err)
}

func (l ListWatch) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if err := l.ProbeShard(ctx); err != nil {
		return nil, err
	}
	options.LabelSelector, options.FieldSelector, options.ShardSelector = l.Labels, l.Fields, l.Shard
	options.Watch = true
	l.Echoes.Watched.Store(true)
	// Of streamed lists the server compresses every later event by itself too: more work on both sides than it saves.
	// Kubernetes' own controllers do without compression as well. It is for the Reflector to try again: client-go would do so for
	// minutes where a connection times out, and nobody would learn of it.
	ctx = l.Discreet(ctx)
	events, err := l.inForm(l.client.Get(), "").MaxRetries(0).NamespaceIfScoped(l.Namespace, l.Namespace != "").Resource(l.Name).
		SetHeader("Accept-Encoding", "identity").SpecificallyVersionedParams(&options, parameters, parametersVersion).Watch(ctx)
	if err != nil || l.Form != object.Metadata {
		return events, DiscreetError(l.GVK, err)
	}
	return newMetadataWatch(events, l.GVK), nil
}
