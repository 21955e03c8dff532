package actors

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// requests are what actors ask of the model.
type requests struct{ model *apimodel.Model }

// agent is the user agent of a request.
type agent string

const (
	manager   agent = "kube-controller-manager/v1.37.1 (model)"
	scheduler agent = "kube-scheduler/v1.37.1 (model)"
	kubelet   agent = "kubelet/v1.37.1 (model)"
)

// path is that of the object, or of the collection if it has no name.
func (of id) path(subresource string) string {
	var b strings.Builder
	b.WriteString("http://apimodel/api")
	if strings.Contains(of.apiVersion, "/") {
		b.WriteString("s")
	}
	b.WriteString("/" + of.apiVersion)
	if of.namespace != "" {
		b.WriteString("/namespaces/" + of.namespace)
	}
	for _, segment := range []string{of.plural, of.name, subresource} {
		if segment != "" {
			b.WriteString("/" + segment)
		}
	}
	return b.String()
}

// send returns an error that apierrors understand if the model refuses.
func (r requests) send(ctx context.Context, as agent, method, path, contentType string, body any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("actors: encode a request: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, method, path, bytes.NewReader(encoded))
	if err != nil {
		return fmt.Errorf("actors: %w", err)
	}
	request.Header.Set("User-Agent", string(as))
	request.Header.Set("Content-Type", contentType)
	response, err := r.model.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("actors: %s %s: %w", method, path, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode < http.StatusBadRequest {
		return nil
	}
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("actors: read the answer to %s %s: %w", method, path, err)
	}
	refusal := &apierrors.StatusError{}
	if err := json.Unmarshal(content, &refusal.ErrStatus); err != nil {
		return fmt.Errorf("actors: answer to %s %s: %w", method, path, err)
	}
	return refusal
}

func (r requests) create(ctx context.Context, as agent, of id, o any) error {
	of.name = ""
	return r.send(ctx, as, http.MethodPost, of.path(""), runtime.ContentTypeJSON, o)
}

// putStatus replaces the status of an object, of which o is the newest version known.
func (r requests) putStatus(ctx context.Context, as agent, of id, o *unstructured.Unstructured, status any) error {
	content := make(map[string]any, len(o.Object))
	for name, value := range o.Object {
		content[name] = value
	}
	content["status"] = status
	return r.send(ctx, as, http.MethodPut, of.path("status"), runtime.ContentTypeJSON, content)
}

func (r requests) mergePatch(ctx context.Context, as agent, of id, patch map[string]any) error {
	return r.send(ctx, as, http.MethodPatch, of.path(""), string(types.MergePatchType), patch)
}

func (r requests) mergeStatus(ctx context.Context, as agent, of id, status map[string]any) error {
	return r.send(ctx, as, http.MethodPatch, of.path("status"), string(types.MergePatchType), map[string]any{"status": status})
}

// remove deletes the object if it is still the same. That it is gone or another one is no error.
func (r requests) remove(ctx context.Context, as agent, of id, options metav1.DeleteOptions) error {
	options.Kind, options.APIVersion = "DeleteOptions", "v1"
	err := r.send(ctx, as, http.MethodDelete, of.path(""), runtime.ContentTypeJSON, options)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
