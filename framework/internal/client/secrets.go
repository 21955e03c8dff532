package client

import (
	"context"
	"errors"
	"net/http"
	"regexp"

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
	if denied := denial.FindString(said.Message); denied != "" {
		return &withheld{err, denied + "; " + withheldText}
	}
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

// denial matches how the message begins if a webhook or an admission policy refuses a request. This
// part has only names. The rest, the reason and the causes are free texts of their authors. Source:
// ToStatusErr of k8s.io/apiserver, and the dispatchers of its admission policies.
var denial = regexp.MustCompile(`^(?:[^:]*\bforbidden: )?` +
	`(?:admission webhook "[^"]*"|(?:ValidatingAdmissionPolicy|policy) ['"][^'"]*['"](?: with binding '[^']*')?) denied (?:the )?request`)

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

// undecodedEvent is the cause by which client-go marks an event that it cannot decode.
const undecodedEvent metav1.CauseType = "ClientWatchDecoding"

// discreetStatus returns the status of a watch that failed without texts that may quote a Secret.
func discreetStatus(gvk schema.GroupVersionKind, failure *metav1.Status) *metav1.Status {
	err := apierrors.FromObject(failure)
	says := DiscreetError(gvk, err)
	if apierrors.HasStatusCause(err, undecodedEvent) {
		says = UndecodedError(gvk, err)
	}
	if says == err {
		return failure
	}
	discreet := failure.DeepCopy()
	discreet.Message = says.Error()
	if discreet.Details != nil {
		discreet.Details.Causes = nil
	}
	return discreet
}

// discreetWarnings logs that the API server has warned about a Secret. The text may quote the
// Secret: that of an admission policy or a webhook is free.
type discreetWarnings struct{}

// HandleWarningHeaderWithContext logs warnings as client-go does by default, without their texts.
func (discreetWarnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	if code == 299 && text != "" {
		logr.FromContextOrDiscard(ctx).Info("the API server warns about a request for a Secret; " + withheldText)
	}
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
