package client

import (
	"context"
	"errors"
	"net/http"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
)

// Discreet returns the context of a request with a logger that does not log bodies: the caller's
// logger without the lines above [safely.MaxVerbosity], or the operator's.
func (r *Client) Discreet(ctx context.Context) context.Context {
	logger, err := logr.FromContext(ctx)
	if err != nil {
		return logr.NewContext(ctx, r.logger)
	}
	sink := logger.GetSink()
	if _, is := sink.(safely.Limited); is || sink == nil {
		return ctx
	}
	return logr.NewContext(ctx, safely.Quiet(logger, nil))
}

// Errors about Secrets may quote them: the API server repeats a patch that it cannot apply, and a
// decoder repeats what it cannot decode. Errors appear in logs, events and conditions, so their
// texts are withheld.

// isSecret reports whether objects of the kind are Secrets, in any version.
func isSecret(gvk schema.GroupVersionKind) bool {
	return gvk.GroupKind() == corev1.SchemeGroupVersion.WithKind("Secret").GroupKind()
}

// withheld is an error whose text is replaced. errors.As still finds the API server's status, with
// its text.
type withheld struct {
	cause error
	text  string
}

// Error returns a text that quotes nothing.
func (w *withheld) Error() string { return w.text }

// Unwrap returns the error itself.
func (w *withheld) Unwrap() error { return w.cause }

const withheldText = "its text is withheld, as it may quote the Secret"

// DiscreetError withholds the text of an error about an object of the kind if it may quote a
// Secret.
func DiscreetError(gvk schema.GroupVersionKind, err error) error {
	if err == nil || !isSecret(gvk) {
		return err
	}
	if object.Is[*withheld](err) {
		return err
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err // an error of the connection
	}
	said := status.Status()
	if quotesNothing(said) || object.IsTooLarge(err) {
		return err
	}
	text := "the API server answered " + http.StatusText(int(said.Code))
	if said.Reason != metav1.StatusReasonUnknown {
		text = "the API server answered " + string(said.Reason)
	}
	if said.Details != nil {
		for i, cause := range said.Details.Causes {
			between := ", "
			if i == 0 {
				between = " about "
			}
			if cause.Field != "" {
				text += between + cause.Field + " (" + string(cause.Type) + ")"
			}
		}
	}
	return &withheld{err, text + "; " + withheldText}
}

// quotesNothing reports whether the text of a status consists of names only.
func quotesNothing(said metav1.Status) bool {
	if said.Details != nil {
		for _, cause := range said.Details.Causes {
			if cause.Type == metav1.CauseTypeUnexpectedServerResponse { // the unchanged text of a proxy
				return false
			}
		}
	}
	switch said.Reason {
	case metav1.StatusReasonUnauthorized, metav1.StatusReasonForbidden, metav1.StatusReasonNotFound, metav1.StatusReasonAlreadyExists,
		metav1.StatusReasonConflict, metav1.StatusReasonGone, metav1.StatusReasonExpired, metav1.StatusReasonTooManyRequests,
		metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout, metav1.StatusReasonServiceUnavailable,
		metav1.StatusReasonMethodNotAllowed, metav1.StatusReasonNotAcceptable, metav1.StatusReasonUnsupportedMediaType:
		return true
	}
	return false
}

// UndecodedError withholds the text of a decoder's error about a Secret.
func UndecodedError(gvk schema.GroupVersionKind, err error) error {
	if err == nil || !isSecret(gvk) || object.Is[*withheld](err) {
		return err
	}
	return &withheld{err, "it cannot be decoded; " + withheldText}
}

// discreetSerializer is a serializer whose errors quote no Secret.
type discreetSerializer struct {
	runtime.NegotiatedSerializer
	gvk schema.GroupVersionKind
}

// DecoderToVersion wraps the decoder of objects.
func (d discreetSerializer) DecoderToVersion(decoder runtime.Decoder, version runtime.GroupVersioner) runtime.Decoder {
	return discreetDecoder{d.NegotiatedSerializer.DecoderToVersion(decoder, version), d.gvk}
}

type discreetDecoder struct {
	runtime.Decoder
	gvk schema.GroupVersionKind
}

// Decode withholds the texts of errors.
func (d discreetDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	o, gvk, err := d.Decoder.Decode(data, defaults, into)
	return o, gvk, UndecodedError(d.gvk, err)
}
