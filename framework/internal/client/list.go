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

// Page returns one page of a list, and where the next page continues. All pages have the version of
// the first. Objects that do not fit their Go type are [trc.Undecodable].
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

// ListWatch lists and watches the resource for a store: one namespace, with selectors.
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
		// "0" means any version, which may be older than what was read or written before. The first list
		// must not be older.
		options.ResourceVersion = ""
	}
	list, ctx := l.NewList(), l.Discreet(ctx)
	result := l.inForm(l.client.Get(), "List").NamespaceIfScoped(l.Namespace, l.Namespace != "").Resource(l.Name).
		SpecificallyVersionedParams(&options, parameters, parametersVersion).Do(ctx)
	err := decodedInto(result, list)
	if err == nil {
		l.Decoded.advance(list.(metav1.ListInterface).GetResourceVersion())
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
	l.Decoded.Watched.Store(true)
	// With compression, the server also compresses every later event of a streamed list by itself,
	// which costs both sides more than it saves. Kubernetes' own controllers do without compression,
	// too. MaxRetries(0) leaves retries to the Reflector: client-go would retry for minutes if a
	// connection times out, and nobody would be notified.
	ctx = l.Discreet(ctx)
	events, err := l.inForm(l.client.Get(), "").MaxRetries(0).NamespaceIfScoped(l.Namespace, l.Namespace != "").Resource(l.Name).
		SetHeader("Accept-Encoding", "identity").SpecificallyVersionedParams(&options, parameters, parametersVersion).Watch(ctx)
	if err != nil {
		return nil, DiscreetError(l.GVK, err)
	}
	return l.eventsOf(events), nil
}
