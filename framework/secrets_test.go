package framework_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
)

const planted = "hunter2-of-the-owner"

// shows reports whether a line holds what was planted, in any form in which a body may be logged.
func shows(line string) bool {
	bare := strings.Map(func(r rune) rune {
		if strings.ContainsRune(" \n\t|", r) {
			return -1
		}
		return r
	}, line)
	return strings.Contains(line, planted) || strings.Contains(line, base64.StdEncoding.EncodeToString([]byte(planted))) ||
		strings.Contains(bare, hex.EncodeToString([]byte(planted[:8]))) || strings.Contains(line, "bearer-of-the-operator")
}

func (l *log) verbose() logr.Logger {
	return funcr.New(func(_, line string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, line)
	}, funcr.Options{Verbosity: 10})
}

func (l *log) checkNothingShows(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	leaks := 0
	for _, line := range l.lines {
		if shows(line) {
			if leaks++; leaks <= 3 {
				t.Errorf("logged: %.300s", line)
			}
		}
	}
	if leaks > 0 {
		t.Errorf("%d of %d lines show the secret", leaks, len(l.lines))
	}
}

func secret(name string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{"last": planted}},
		Data:       map[string][]byte{"password": []byte(planted)},
	}
}

func unstructuredSecret(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": "default", "name": name},
		"data": map[string]any{"password": base64.StdEncoding.EncodeToString([]byte(planted))},
	}}
}

// everyWay writes and reads Secrets in every way that there is.
func everyWay(ctx context.Context, w framework.Writes, config *rest.Config, name string) error {
	own, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	var errs []error
	did := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	created, err := framework.Create(ctx, w, secret(name+"-created"))
	did("create", err)
	created.Data["more"] = []byte(planted)
	created, err = framework.Update(ctx, w, created)
	did("update", err)
	_, err = framework.MergePatch(ctx, w, created, fmt.Appendf(nil, `{"stringData":{"x":%q}}`, planted))
	did("merge patch", err)
	_, err = framework.Apply(ctx, w, secret(name+"-applied"))
	did("apply", err)
	_, err = framework.Apply(ctx, w, secret(name+"-patched"), framework.WithMode(framework.ByPatch))
	did("apply by patch", err)
	loose, err := framework.Create(ctx, w, unstructuredSecret(name+"-loose"))
	did("create unstructured", err)
	_, err = framework.JSONPatch(ctx, w, loose, fmt.Appendf(nil, `[{"op":"add","path":"/data/y","value":%q}]`, base64.StdEncoding.EncodeToString([]byte(planted))))
	did("JSON patch", err)
	_, err = framework.Apply(ctx, w, unstructuredSecret(name+"-loosely-applied"))
	did("apply unstructured", err)
	_, err = framework.Do(ctx, w, secret(name+"-done"), func(ctx context.Context) (*corev1.Secret, error) {
		return own.CoreV1().Secrets("default").Create(ctx, secret(name+"-done"), metav1.CreateOptions{})
	})
	did("do", err)
	_, err = own.CoreV1().Secrets("default").Get(ctx, name+"-done", metav1.GetOptions{})
	did("get by a client of the author's", err)
	_, err = own.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
	did("list by a client of the author's", err)
	created, err = own.CoreV1().Secrets("default").Get(ctx, name+"-created", metav1.GetOptions{})
	did("get", err)
	did("delete", framework.Delete(ctx, w, created))
	if len(errs) > 0 {
		return fmt.Errorf("%q", errs)
	}
	return nil
}

func TestNoBodyOfASecretIsLoggedAtAnyVerbosity(t *testing.T) {
	var l log
	var typed framework.Secondary[*corev1.Secret]
	loose := framework.Secondary[*unstructured.Unstructured]{Name: "loose", GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Secret")}
	only := framework.Secondary[*metav1.PartialObjectMetadata]{Name: "only", GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Secret")}
	var config *rest.Config
	failed := make(chan error, 10)
	r := &pages{}
	ran := r.inFirstRun(func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
		failed <- everyWay(ctx, c, config, p.Name)
		// With a logger of the author's own in the context, too, whatever it takes.
		failed <- everyWayOfOurs(logr.NewContext(ctx, l.verbose()), c, &typed, p.Name)
		failed <- everyWayOfOurs(logr.NewContext(ctx, c.Logger().WithValues("own", true).WithName("n").V(1)), c, &typed, p.Name+"2")
		return pageUpdate{}, nil
	})
	o := framework.OperatorOptions{Logger: l.verbose()}
	inVirtualTimeWith(t, o, r, pageOptions{Secondaries: framework.Secondaries(&typed, &loose, &only)}, func(v *virtual) {
		config = rest.CopyConfig(v.model.Config())
		config.BearerToken = "bearer-of-the-operator"
		v.create(newPage("default", "p"))
		v.pass(0)
		for range 3 {
			noError(t, <-failed)
		}
		// Outside of runs, where the context carries no logger, or one of somebody else's.
		noError(t, everyWay(logr.NewContext(v.t.Context(), logr.Discard()), v.op.Writer(""), config, "out"))
		_, err := framework.Apply(v.t.Context(), v.op.Writer(""), secret("bare"))
		noError(t, err)
		_, err = framework.Apply(logr.NewContext(v.t.Context(), l.verbose()), v.op.Writer(""), secret("carried"))
		noError(t, err)
		v.model.Cut("secrets")
		v.model.Expire("secrets") // the next watches list again
		v.pass(0)
		if ran.Load() == 0 || len(l.with("run")) == 0 {
			t.Error("nothing ran, or nothing was logged")
		}
	})
	l.checkNothingShows(t)
}

// everyWayOfOurs writes and reads through the framework alone.
func everyWayOfOurs(ctx context.Context, c *pageContext, secrets *framework.Secondary[*corev1.Secret], name string) error {
	applied, err := framework.Apply(ctx, c, secret(name+"-ours"))
	if err != nil {
		return err
	}
	if _, err = framework.Live[*corev1.Secret](ctx, c, "default", applied.Name); err != nil {
		return err
	}
	if _, err = secrets.Live(ctx, c, "default", applied.Name); err != nil {
		return err
	}
	for _, err := range secrets.LiveList(ctx, c, framework.Selection{}) {
		if err != nil {
			return err
		}
	}
	return framework.Delete(ctx, c, applied)
}

// quoting answers every write of a Secret with a refusal that quotes it.
func quoting(code int32, reason metav1.StatusReason) func(apimodel.Request) apimodel.Fault {
	return func(r apimodel.Request) apimodel.Fault {
		if r.Resource != "secrets" || r.Verb == "watch" || r.Verb == "list" {
			return apimodel.Fault{}
		}
		return apimodel.Fault{Answer: &metav1.Status{
			Status: metav1.StatusFailure, Code: code, Reason: reason, Message: "cannot take " + planted,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{
				Type: metav1.CauseTypeFieldValueInvalid, Field: "patch", Message: "Invalid value: " + planted,
			}}},
		}}
	}
}

func TestARefusalThatQuotesASecretIsNotRepeated(t *testing.T) {
	for _, refusal := range []struct {
		code   int32
		reason metav1.StatusReason
	}{
		{422, metav1.StatusReasonInvalid}, {400, metav1.StatusReasonBadRequest}, {500, metav1.StatusReasonInternalError}, {418, ""},
	} {
		for way, write := range map[string]func(context.Context, *pageContext) error{
			"apply": func(ctx context.Context, c *pageContext) error {
				_, err := framework.Apply(ctx, c, secret("s"))
				return err
			},
			"apply unstructured": func(ctx context.Context, c *pageContext) error {
				_, err := framework.Apply(ctx, c, unstructuredSecret("s"))
				return err
			},
			"create": func(ctx context.Context, c *pageContext) error {
				_, err := framework.Create(ctx, c, secret("s"))
				return err
			},
			"live": func(ctx context.Context, c *pageContext) error {
				_, err := framework.Live[*corev1.Secret](ctx, c, "default", "s")
				return err
			},
			"delete": func(ctx context.Context, c *pageContext) error {
				s := secret("s")
				s.UID = "u"
				return framework.Delete(ctx, c, s)
			},
			"do": func(ctx context.Context, c *pageContext) error {
				_, err := framework.Do(ctx, c, secret("s"), func(context.Context) (*corev1.Secret, error) {
					return nil, apierrors.FromObject(quoting(refusal.code, refusal.reason)(apimodel.Request{Resource: "secrets"}).Answer)
				})
				return err
			},
		} {
			t.Run(fmt.Sprint(refusal.code, " ", way), func(t *testing.T) {
				var l log
				r := &pages{reconcile: func(ctx context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
					err := write(ctx, c)
					var status apierrors.APIStatus
					if err == nil {
						t.Error("no error")
					} else if refusal.code < 500 && (!apierrorsAs(err, &status) || status.Status().Code != refusal.code) {
						t.Errorf("the status is lost: %v", err)
					}
					return pageUpdate{}, err
				}}
				inVirtualTimeWith(t, framework.OperatorOptions{Logger: l.verbose()}, r, pageOptions{Retry: slow}, func(v *virtual) {
					v.disturb(quoting(refusal.code, refusal.reason))
					v.create(newPage("default", "p"))
					v.pass(0)
					if way != "do" && len(l.with("run failed")) == 0 {
						t.Error("no failure was logged")
					}
					for _, record := range v.op.Records("webpage") {
						if shows(record.String()) {
							t.Errorf("recorded: %s", record)
						}
					}
					for _, event := range v.model.Objects("events") {
						if shows(fmt.Sprint(event.Object)) {
							t.Errorf("published: %v", event.Object)
						}
					}
				})
				l.checkNothingShows(t)
			})
		}
	}
}

func apierrorsAs(err error, status *apierrors.APIStatus) bool { return errors.As(err, status) }

// mangling answers requests for a Secret with a body of which the kind is missing: decoders quote
// such as a whole.
type mangling struct{ http.RoundTripper }

func (m mangling) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := m.RoundTripper.RoundTrip(request)
	isList := strings.HasSuffix(request.URL.Path, "/secrets") && request.Method == http.MethodGet
	if err == nil && (isList || strings.HasSuffix(request.URL.Path, "/secrets/odd")) {
		body := fmt.Sprintf(`{"metadata":{"name":"odd"},"stringData":{"password":%q}}`, planted)
		answer.Header.Set("Content-Type", "application/json")
		answer.StatusCode, answer.ContentLength = http.StatusOK, int64(len(body))
		answer.Body = io.NopCloser(strings.NewReader(body))
	}
	return answer, err
}

// TestSecretsThatCannotBeListedAreNotQuoted: in no form, neither in the log nor by Ready, which say
// what is wrong.
func TestSecretsThatCannotBeListedAreNotQuoted(t *testing.T) {
	kind := corev1.SchemeGroupVersion.WithKind("Secret")
	for form, secondaries := range map[string][]framework.SecondarySource{
		"typed":        framework.Secondaries(&framework.Secondary[*corev1.Secret]{}),
		"unstructured": framework.Secondaries(&framework.Secondary[*unstructured.Unstructured]{GroupVersionKind: kind}),
		"metadata":     framework.Secondaries(&framework.Secondary[*metav1.PartialObjectMetadata]{GroupVersionKind: kind}),
	} {
		t.Run(form, func(t *testing.T) {
			overModel(t, func(m *modelled) {
				var l log
				config := m.model.Config()
				config.Transport = mangling{config.Transport}
				op, err := framework.NewOperator(config, framework.OperatorOptions{Scheme: scheme, Logger: l.verbose(), Grace: -1})
				noError(t, err)
				noError(t, framework.Register(op, failing(nil), pageOptions{Secondaries: secondaries}))
				running, cancel := context.WithCancel(m.Context())
				done := make(chan error, 1)
				go func() { done <- op.Run(running) }()
				time.Sleep(time.Minute)
				if err := op.Ready(); err == nil || shows(err.Error()) {
					t.Errorf("Ready says: %v", err)
				}
				for _, h := range op.Health() {
					if shows(h.Problem) {
						t.Errorf("Health says: %s", h.Problem)
					}
				}
				cancel()
				noError(t, <-done)
				l.checkNothingShows(t)
			})
		})
	}
}

func TestASecretThatCannotBeDecodedIsNotQuoted(t *testing.T) {
	overModel(t, func(m *modelled) {
		var l log
		config := m.model.Config()
		config.Transport = mangling{config.Transport}
		op, err := framework.NewOperator(config, framework.OperatorOptions{Scheme: scheme, Logger: l.verbose(), Grace: -1})
		noError(t, err)
		writes := op.Writer("")
		noError(t, framework.Register(op, failing(nil), pageOptions{}))
		running, cancel := context.WithCancel(m.Context())
		done := make(chan error, 1)
		go func() { done <- op.Run(running) }()
		synctest.Wait()
		odd := unstructuredSecret("odd")
		odd.SetUID("u")
		odd.SetResourceVersion("1")
		for way, write := range map[string]func() error{
			"update": func() error { _, err := framework.Update(m.Context(), writes, odd.DeepCopy()); return err },
			"patch": func() error {
				_, err := framework.MergePatch(m.Context(), writes, odd.DeepCopy(), []byte(`{"data":{}}`))
				return err
			},
		} {
			err := write()
			if err == nil || shows(err.Error()) {
				t.Errorf("%s: %v", way, err)
			}
		}
		cancel()
		noError(t, <-done)
		l.checkNothingShows(t)
	})
}
