package framework_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/framework/ready"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// failsShown is a reconciler whose failures are shown in the status.
func failsShown(reconcile func(context.Context, *Page, *pageContext) (pageUpdate, error)) *failingPages {
	return &failingPages{
		pages: pages{reconcile: reconcile},
		errorStatus: func(p *Page, _ *pageContext, failure error) framework.ErrorStatusControl[*Page] {
			p.Status.Conditions = []metav1.Condition{{
				Type: "Failed", Status: metav1.ConditionTrue, Reason: "Failed", Message: failure.Error(), LastTransitionTime: metav1.Now(),
			}}
			return framework.PatchErrorStatus(p)
		},
	}
}

// values plants values that a controller writes, and values that others write: of the primary, of
// Secrets, and of other kinds. Others change them again and again, which makes fights.
func (p *planting) values(t *testing.T) {
	var secrets framework.Secondary[*corev1.Secret]
	loose := framework.Secondary[*unstructured.Unstructured]{Name: "loose", GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Secret")}
	only := framework.Secondary[*metav1.PartialObjectMetadata]{Name: "only", GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Secret")}
	var configMaps framework.Secondary[*corev1.ConfigMap]
	var deployments framework.Secondary[*appsv1.Deployment]
	r := failsShown(func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: page.Namespace, Name: page.Name,
				Labels:      map[string]string{"label": p.value("a label of a Secret")},
				Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: `{"data":"` + p.value("the last-applied configuration of a Secret") + `"}`},
				Finalizers:  []string{"example.com/" + p.value("a finalizer of a Secret")},
			},
			Type: corev1.SecretType("example.com/" + p.value("the type of a Secret")),
			Data: map[string][]byte{
				"data": []byte(p.value("data of a Secret")), p.value("a key of the data of a Secret"): []byte("x"),
			},
			StringData: map[string]string{"text": p.value("stringData of a Secret")},
		}
		configMap := configMapOf(page, p.value("data of a ConfigMap"))
		configMap.Labels = map[string]string{"label": p.value("a label of a ConfigMap")}
		configMap.BinaryData = map[string][]byte{"binary": []byte(p.value("binaryData of a ConfigMap"))}
		pod := map[string]string{"app": page.Name}
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: page.Namespace, Name: page.Name}}
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: pod}
		deployment.Spec.Template.Labels = pod
		deployment.Spec.Template.Spec.Containers = []corev1.Container{{
			Name: "c", Image: "i", Args: []string{"-v", p.value("an element of a list of a Deployment")},
			Env: []corev1.EnvVar{{Name: "PASSWORD", Value: p.value("a variable of a Deployment")}},
		}}
		_, ofSecret := framework.Apply(ctx, c, secret, framework.OwnedByPrimary())
		_, ofMap := framework.Apply(ctx, c, configMap, framework.OwnedByPrimary())
		_, ofDeployment := framework.Apply(ctx, c, deployment, framework.OwnedByPrimary(), framework.WithMode(framework.ByPatch))
		page.Status.URL = p.value("the status of the primary")
		return framework.PatchStatus(page), errors.Join(ofSecret, ofMap, ofDeployment)
	})
	options := pageOptions{KeepRecords: 1000, Secondaries: framework.Secondaries(&secrets, &loose, &only, &configMaps, &deployments)}
	p.operate(t, func(op *framework.Operator) error { return framework.Register(op, r, options) }, func(v *virtual) {
		page := newPage("default", "values")
		page.Spec.HTML = p.value("the specification of the primary")
		page.Labels = map[string]string{"label": p.value("a label of the primary")}
		page.Annotations = map[string]string{"note": p.value("an annotation of the primary"), framework.RunRequested: p.value("the request for a run")}
		v.create(page)
		v.pass(time.Minute)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "values"}}
		deployment := &appsv1.Deployment{ObjectMeta: secret.ObjectMeta}
		for i := range 5 {
			changed := func(what string) string { return p.value("%s, changed for the %d. time", what, i) }
			of := func(what string) string { return base64.StdEncoding.EncodeToString([]byte(changed(what))) }
			v.as("rival", secret, fmt.Sprintf(`{"data":{"data":%q,"text":%q,%q:""},"metadata":{"labels":{"label":%q},"annotations":{"new":%q}}}`,
				of("data of a Secret"), of("stringData of a Secret"), changed("a key of the data of a Secret"), changed("a label of a Secret"), changed("an annotation of a Secret")))
			v.as("rival", configMapOf(page, ""), fmt.Sprintf(`{"data":{"data":%q,"more":%q},"metadata":{"labels":{"label":%q}}}`,
				changed("data of a ConfigMap"), changed("more data of a ConfigMap"), changed("a label of a ConfigMap")))
			v.as("rival", deployment, fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i","args":["-v",%q],"env":[{"name":"PASSWORD","value":%q}]}]}}}}`,
				changed("an element of a list of a Deployment"), changed("a variable of a Deployment")))
			v.as("user", newPage("default", "values"), fmt.Sprintf(`{"spec":{"html":%q},"metadata":{"labels":{"label":%q},"annotations":{"note":%q,%q:%q}}}`,
				changed("the specification of the primary"), changed("a label of the primary"), changed("an annotation of the primary"), framework.RunRequested, changed("the request for a run")))
			merge := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"status":{"url":%q}}`, changed("the status of the primary")))
			noError(t, v.admin.Status().Patch(t.Context(), newPage("default", "values"), merge, client.FieldOwner("rival")))
			v.pass(time.Minute)
		}
		kinds := map[string]string{}
		for _, f := range v.fights("webpage") {
			kinds[f.Kind] = f.Fields
		}
		if kinds["Secret"] != "data, metadata" || !strings.Contains(kinds["ConfigMap"], "data.data") || kinds["Deployment"] == "" {
			t.Errorf("there are fights about %q", kinds)
		}
		fields := 0
		for _, r := range v.op.Records("webpage") {
			if strings.Contains(r.String(), ": spec.html") || strings.Contains(r.String(), "spec.template.spec.containers") {
				fields++
			}
		}
		if fields == 0 {
			t.Error("no cause names a field")
		}
	})
}

// refusalsOfSecrets are answers to requests for Secrets, with values in their texts.
func (p *planting) refusalsOfSecrets() map[string]metav1.Status {
	all := map[string]metav1.Status{}
	refusal := func(code int32, reason metav1.StatusReason, message string, causes ...metav1.StatusCause) metav1.Status {
		return metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message, Details: &metav1.StatusDetails{Causes: causes}}
	}
	for reason, code := range map[metav1.StatusReason]int32{
		metav1.StatusReasonInvalid: 422, metav1.StatusReasonBadRequest: 400, metav1.StatusReasonInternalError: 500, metav1.StatusReasonUnknown: 418,
	} {
		all[fmt.Sprintf("the server refuses with %d", code)] = refusal(code, reason, "cannot take "+p.value("the message of a %d", code), metav1.StatusCause{
			Type: metav1.CauseTypeFieldValueInvalid, Field: "data", Message: "Invalid value: " + p.value("a cause of a %d", code),
		})
	}
	for reason, code := range map[metav1.StatusReason]int32{
		metav1.StatusReasonForbidden: 403, metav1.StatusReasonUnauthorized: 401, metav1.StatusReasonInvalid: 422, metav1.StatusReasonRequestEntityTooLarge: 413,
		metav1.StatusReasonConflict: 409, metav1.StatusReasonAlreadyExists: 409, metav1.StatusReasonTooManyRequests: 429, metav1.StatusReasonServiceUnavailable: 503,
		metav1.StatusReasonNotFound: 404, metav1.StatusReasonGone: 410, metav1.StatusReasonMethodNotAllowed: 405,
	} {
		all[fmt.Sprintf("a webhook denies with %s", reason)] = refusal(code, reason, `admission webhook "w.example.com" denied the request: found `+p.value("the message of a webhook, %s", reason))
		all[fmt.Sprintf("a policy denies with %s", reason)] = refusal(code, reason,
			`secrets "s" is forbidden: ValidatingAdmissionPolicy 'p.example.com' with binding 'b' denied request: found `+p.value("the message of a policy, %s", reason),
			metav1.StatusCause{Message: "found " + p.value("the cause of a policy, %s", reason)})
	}
	// As of webhooks on controller-runtime before 0.15.
	text := p.value("the reason of a webhook")
	all["a webhook says why as the reason"] = refusal(403, metav1.StatusReason("found "+text), `admission webhook "w.example.com" denied the request: found `+text)
	all["a webhook has causes"] = refusal(422, metav1.StatusReasonInvalid, `admission webhook "w.example.com" denied the request: found `+p.value("the message of a webhook with causes"),
		metav1.StatusCause{Type: metav1.CauseType("found " + p.value("the type of a cause of a webhook")), Field: "found " + p.value("the field of a cause of a webhook")})
	all["a proxy answers with a page"] = refusal(403, metav1.StatusReasonForbidden, "unknown", metav1.StatusCause{
		Type: metav1.CauseTypeUnexpectedServerResponse, Message: "<html>" + p.value("the page of a proxy"),
	})
	return all
}

// waysToSecrets are requests for the Secret of a page.
var waysToSecrets = map[string]func(context.Context, *pageContext, *corev1.Secret) error{
	"apply": func(ctx context.Context, c *pageContext, s *corev1.Secret) error {
		_, err := framework.Apply(ctx, c, s)
		return err
	},
	"create": func(ctx context.Context, c *pageContext, s *corev1.Secret) error {
		s.UID, s.ResourceVersion = "", ""
		_, err := framework.Create(ctx, c, s)
		return err
	},
	"update": func(ctx context.Context, c *pageContext, s *corev1.Secret) error {
		_, err := framework.Update(ctx, c, s)
		return err
	},
	"patch": func(ctx context.Context, c *pageContext, s *corev1.Secret) error {
		_, err := framework.MergePatch(ctx, c, s, []byte(`{"data":null}`))
		return err
	},
	"delete": func(ctx context.Context, c *pageContext, s *corev1.Secret) error { return framework.Delete(ctx, c, s) },
	"live": func(ctx context.Context, c *pageContext, s *corev1.Secret) error {
		_, err := framework.Live[*corev1.Secret](ctx, c, s.Namespace, s.Name)
		return err
	},
}

// refusals plants values in what the server says of Secrets: in refusals of each kind and to each
// kind of request, in conflicts of field managers, and in warnings.
func (p *planting) refusals(t *testing.T) {
	answers, answerOf := p.refusalsOfSecrets(), map[string]metav1.Status{}
	do := map[string]func(context.Context, *pageContext, *corev1.Secret) error{}
	for _, answer := range answers {
		for way, send := range waysToSecrets {
			name := fmt.Sprintf("%s-%d", way, len(answerOf))
			answerOf[name], do[name] = answer, send
		}
	}
	do["conflict"] = func(ctx context.Context, c *pageContext, s *corev1.Secret) error {
		s.UID, s.ResourceVersion = "", ""
		s.Data = map[string][]byte{"k": []byte(p.value("what a Secret with a conflict should hold"))}
		_, err := framework.Apply(ctx, c, s, framework.WithoutForce())
		if err == nil {
			t.Error("no conflict")
		}
		return err
	}
	do["warned"] = func(ctx context.Context, c *pageContext, s *corev1.Secret) error {
		s.UID, s.ResourceVersion = "", ""
		_, err := framework.Apply(ctx, c, s)
		return errors.Join(err, errors.New("to be seen"))
	}
	p.mangles = []mangle{{"/secrets/warned", func(answer *http.Response) {
		answer.Header.Add("Warning", fmt.Sprintf(`299 - "found %s"`, p.value("a warning about a Secret")))
	}}}
	defer func() { p.mangles = nil }()
	r := failsShown(func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		err := do[page.Name](ctx, c, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: page.Namespace, Name: page.Name, UID: "u", ResourceVersion: "7"}})
		return pageUpdate{}, fmt.Errorf("my Secret: %w", err)
	})
	var secrets framework.Secondary[*corev1.Secret]
	options := pageOptions{KeepRecords: 10_000, Retry: slow, Secondaries: framework.Secondaries(&secrets)}
	p.operate(t, func(op *framework.Operator) error { return framework.Register(op, r, options) }, func(v *virtual) {
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			name := r.Name
			if r.Verb == "create" {
				name = nameIn(r.Body)
			}
			if answer, is := answerOf[name]; is && r.Resource == "secrets" {
				return apimodel.Fault{Answer: &answer}
			}
			return apimodel.Fault{}
		})
		conflict := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "conflict"}, Data: map[string][]byte{"k": []byte(p.value("what a Secret with a conflict holds"))}}
		noError(t, v.admin.Create(t.Context(), conflict, client.FieldOwner("rival")))
		for name := range do {
			v.create(newPage("default", name))
		}
		v.pass(time.Minute)
		told := 0
		for _, r := range v.op.Records("webpage") {
			if r.Err != "" {
				told++
			}
		}
		if told < len(do) {
			t.Errorf("%d of %d requests have failed", told, len(do))
		}
	})
}

// workflow plants values in Secrets of nodes, and in what the server says of them.
func (p *planting) workflow(t *testing.T) {
	secret := func(page *Page, suffix string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: page.Namespace, Name: page.Name + suffix},
			Data:       map[string][]byte{"immutable": []byte(p.value("an immutable field of a Secret%s", suffix))},
			StringData: map[string]string{"text": p.value("stringData of a Secret of a node%s", suffix)},
		}
	}
	s := newScript()
	applies := s.node("applies")
	applies.Reconcile = func(ctx context.Context, c *pageContext) error {
		_, err := framework.Apply(ctx, c, secret(c.Primary(), "-applied"))
		return err
	}
	waits := s.node("waits")
	waits.ReadyPostcondition = func(ctx context.Context, c *pageContext) (workflow.Verdict, error) {
		_, err := framework.Live[*corev1.Secret](ctx, c, "default", "refused-waited")
		return workflow.NotMet("cannot be read: %v", err), err
	}
	flow := flowOf(applies, waits)
	flow.Dependents = append(flow.Dependents, &dependent.Kubernetes[*Page, *corev1.Secret]{
		Name: "secret", Immutable: []string{"/data/immutable"},
		Desired: func(_ context.Context, page *Page, _ *pageContext) (*corev1.Secret, error) {
			return secret(page, "-desired"), nil
		},
	})
	flow.Dependents = append(flow.Dependents, &dependent.Kubernetes[*Page, *corev1.Secret]{
		Name: "foreign", Ready: ready.Current[*corev1.Secret],
		Desired: func(_ context.Context, page *Page, _ *pageContext) (*corev1.Secret, error) {
			return secret(page, "-foreign"), nil
		},
	})
	p.operate(t, func(op *framework.Operator) error {
		return framework.Register(op, s, pageOptions{KeepRecords: 1000, Retry: exact, Workflow: flow})
	}, func(v *virtual) {
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Resource != "secrets" || !strings.HasPrefix(r.Name, "refused") || r.Verb == "list" || r.Verb == "watch" {
				return apimodel.Fault{}
			}
			return apimodel.Fault{Answer: &metav1.Status{
				Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden,
				Message: `admission webhook "w" denied the request: found ` + p.value("the refusal of a Secret of a node"),
			}}
		})
		foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p-foreign", Annotations: map[string]string{"a": p.value("an annotation of a Secret that belongs to nobody")}}}
		v.create(foreign)
		v.create(newPage("default", "p"))
		v.create(newPage("default", "refused"))
		v.pass(time.Minute)
		v.as("rival", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p-desired"}}, fmt.Sprintf(`{"data":{"text":%q}}`, base64.StdEncoding.EncodeToString([]byte(p.value("data of a Secret of a node, changed")))))
		v.pass(time.Minute)
		v.delete("p")
		v.delete("refused")
		v.pass(time.Minute)
		nodes := map[string]string{}
		for _, r := range v.op.Records("webpage") {
			for _, n := range r.Nodes {
				if n.Err != "" || n.Reason != "" {
					nodes[n.Name] += n.Reason + n.Err
				}
			}
		}
		for _, name := range []string{"applies", "waits", "secret", "foreign"} {
			if nodes[name] == "" {
				t.Errorf("node %s says nothing", name)
			}
		}
	})
}

// readingSecrets returns the forms in which a controller may read Secrets.
func readingSecrets() map[string][]framework.SecondarySource {
	kind := corev1.SchemeGroupVersion.WithKind("Secret")
	return map[string][]framework.SecondarySource{
		"typed":        framework.Secondaries(&framework.Secondary[*corev1.Secret]{}),
		"unstructured": framework.Secondaries(&framework.Secondary[*unstructured.Unstructured]{GroupVersionKind: kind}),
		"metadata":     framework.Secondaries(&framework.Secondary[*metav1.PartialObjectMetadata]{GroupVersionKind: kind}),
	}
}

// withBody has an answer succeed with another body, in JSON.
func withBody(answer *http.Response, body string) {
	_ = answer.Body.Close()
	answer.Header.Set("Content-Type", "application/json")
	answer.StatusCode, answer.ContentLength = http.StatusOK, -1
	answer.Body = io.NopCloser(strings.NewReader(body))
}

// unreadable plants values in answers about Secrets that make no sense.
func (p *planting) unreadable(t *testing.T) {
	for what, body := range map[string]string{
		"no kind":              `{"metadata":{"name":"odd"},"stringData":{"password":%q}}`,
		"no kind of an item":   `{"kind":"SecretList","apiVersion":"v1","metadata":{},"items":[%q]}`,
		"no JSON":              `%s`,
		"an event of no kind":  `{"type":"ADDED","object":{"metadata":{"name":"odd"},"stringData":{"password":%q}}}` + "\n",
		"an event of any type": `{"type":%q,"object":{"kind":"Secret","apiVersion":"v1"}}` + "\n",
		"an event of text":     `{"type":"MODIFIED","object":%q}` + "\n",
		"an error as an event": `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"reason":"InternalError","message":%q}}` + "\n",
	} {
		for form, secondaries := range readingSecrets() {
			t.Run(what+" "+form, func(t *testing.T) {
				p.mangles = []mangle{{"/api/v1/secrets", func(answer *http.Response) {
					withBody(answer, fmt.Sprintf(body, p.value("an answer about Secrets with %s, %s", what, form)))
				}}}
				defer func() { p.mangles = nil }()
				p.operate(t, func(op *framework.Operator) error {
					return framework.Register(op, failing(nil), pageOptions{Secondaries: secondaries})
				}, func(v *virtual) { v.pass(time.Minute) })
			})
		}
	}
}

// undecodable plants values in Secrets that do not fit their Go type, streamed and listed.
func (p *planting) undecodable(t *testing.T) {
	const head = `{"kind":"Secret","apiVersion":"v1","metadata":{"namespace":"default","name":"odd","uid":"u","resourceVersion":"1"`
	for what, secret := range map[string]string{
		"a time":    head + `,"deletionTimestamp":"%s"}}`,
		"a boolean": head + `},"immutable":"%s"}`,
		"base64":    head + `},"data":{"password":"!%s!"}}`,
		"a map":     head + `},"data":"%s"}`,
	} {
		for _, way := range []string{"typed streamed", "typed listed", "unstructured streamed", "unstructured listed"} {
			t.Run(what+" "+way, func(t *testing.T) {
				odd := fmt.Sprintf(secret, p.value("a Secret with a wrong value for %s, %s", what, way))
				p.mangles = []mangle{{"/api/v1/secrets", func(answer *http.Response) {
					form, query := strings.Fields(way), answer.Request.URL.Query()
					switch {
					case form[1] == "listed" && query.Has("sendInitialEvents"):
						withBody(answer, "")
						answer.StatusCode = http.StatusBadRequest
					case form[1] == "listed" && !query.Has("watch"):
						withBody(answer, `{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[`+odd+"]}")
					case form[1] == "streamed":
						withBody(answer, `{"type":"ADDED","object":`+odd+"}\n"+
							`{"type":"BOOKMARK","object":{"kind":"Secret","apiVersion":"v1","metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n")
					}
				}}}
				defer func() { p.mangles = nil }()
				p.operate(t, func(op *framework.Operator) error {
					return framework.Register(op, failing(nil), pageOptions{Secondaries: readingSecrets()[strings.Fields(way)[0]]})
				}, func(v *virtual) { v.pass(time.Minute) })
			})
		}
	}
}

// quoted plants values in texts that may have them, to see that the test looks where they are.
func (p *planting) quoted(t *testing.T) {
	refused := metav1.Status{
		Status: metav1.StatusFailure, Code: 422, Reason: metav1.StatusReasonInvalid,
		Message: "ConfigMap is invalid: " + p.said("the refusal of a ConfigMap", "a text of the API server"),
	}
	p.mangles = []mangle{{"/configmaps/warned", func(answer *http.Response) {
		answer.Header.Add("Warning", fmt.Sprintf(`299 - "found %s"`, p.said("a warning about a ConfigMap", "a text of the API server")))
	}}}
	defer func() { p.mangles = nil }()
	r := failsShown(func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		_, err := framework.Apply(ctx, c, configMapOf(page, "x"))
		if page.Name == "author" {
			err = errors.New("I do not like " + page.Spec.HTML)
		}
		return pageUpdate{}, err
	})
	p.operate(t, func(op *framework.Operator) error {
		return framework.Register(op, r, pageOptions{KeepRecords: 1000, Retry: slow})
	}, func(v *virtual) {
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Resource == "configmaps" && r.Name == "refused" {
				return apimodel.Fault{Answer: &refused}
			}
			return apimodel.Fault{}
		})
		for _, name := range []string{"refused", "warned", "author"} {
			page := newPage("default", name)
			if name == "author" {
				page.Spec.HTML = p.said("the error of a reconciler", "a text of the author's")
			}
			v.create(page)
		}
		v.pass(time.Minute)
	})
}
