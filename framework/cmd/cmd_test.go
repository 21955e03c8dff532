package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// copies keeps a Secret for each ConfigMap.
type copies struct {
	secrets framework.Secondary[*corev1.Secret]
}

func (r *copies) Reconcile(ctx context.Context, m *corev1.ConfigMap, c *framework.Context[*corev1.ConfigMap]) (framework.UpdateControl[*corev1.ConfigMap], error) {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}, StringData: m.Data}
	_, err := framework.Apply(ctx, c, s, framework.OwnedByPrimary())
	return framework.NoUpdate[*corev1.ConfigMap](), err
}

func registerCopies(op *framework.Operator) error {
	r := &copies{}
	return framework.Register(op, r, framework.ControllerOptions[*corev1.ConfigMap]{Name: "copies", Secondaries: framework.Secondaries(&r.secrets)})
}

// output is what a program prints.
type output struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// run is a program against a model of an API server.
type run struct {
	*testing.T
	program
	model    *apimodel.Model
	out, err output
}

func start(t *testing.T, parts ...Part) *run {
	model, err := apimodel.New(apimodel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(parts) == 0 {
		parts = []Part{{Register: registerCopies}}
	}
	r := &run{T: t, model: model}
	r.program = program{name: "copies-operator", parts: parts, out: &r.out, err: &r.err, connect: func(kubeconfig, _ string) (*rest.Config, error) {
		if kubeconfig != "" {
			return connect(kubeconfig, "")
		}
		return model.Config(), nil
	}}
	return r
}

// serving runs the program until the test is over, and returns its address.
func (r *run) serving(args ...string) string {
	ctx, cancel := context.WithCancel(r.Context())
	at, ended := make(chan string, 1), make(chan int, 1)
	r.serves = func(address string) { at <- address }
	go func() { ended <- r.main(ctx, append([]string{"-listen=localhost:0"}, args...)) }()
	r.Cleanup(func() {
		cancel()
		if code := <-ended; code != 0 {
			r.Errorf("exit code %d\n%s", code, r.err.String())
		}
	})
	select {
	case address := <-at:
		return "http://" + address
	case code := <-ended:
		ended <- code
		r.Fatalf("exit code %d: %s", code, r.err.String())
		return ""
	}
}

func get(ctx context.Context, url string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body), err
}

func (r *run) client() *kubernetes.Clientset {
	client, err := kubernetes.NewForConfig(r.model.Config())
	if err != nil {
		r.Fatal(err)
	}
	return client
}

func (r *run) create(name string) {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"a": "b"}}
	if _, err := r.client().CoreV1().ConfigMaps("default").Create(r.Context(), m, metav1.CreateOptions{}); err != nil {
		r.Fatal(err)
	}
}

// await waits until the condition holds.
func (r *run) await(what string, holds func() error) {
	var err error
	for range 500 {
		if err = holds(); err == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	r.Fatalf("%s: %v\n%s", what, err, r.err.String())
}

func TestMainReconcilesAndServes(t *testing.T) {
	r := start(t)
	r.create("m")
	at := r.serving("-v=1", "-log-format=json", "--operator.grace=1s")
	r.await("the Secret", func() error {
		_, err := r.client().CoreV1().Secrets("default").Get(t.Context(), "m", metav1.GetOptions{})
		return err
	})
	for path, want := range map[string]string{
		"/readyz": "", "/healthz": "", "/metrics": `controller_runtime_reconcile_total{controller="copies",result="success"} 1`,
		"/debug/evenkeel/": "copies",
	} {
		r.await(path, func() error {
			code, body, err := get(t.Context(), at+path)
			if err == nil && (code != http.StatusOK || !strings.Contains(body, want)) {
				err = fmt.Errorf("%d: %s", code, body)
			}
			return err
		})
	}
	if code, _, err := get(t.Context(), at+"/debug/pprof/"); code != http.StatusNotFound || err != nil {
		t.Errorf("profiles: %d, %v: nobody has asked for them", code, err)
	}
	if text := r.err.String(); !strings.Contains(text, `{"time":`) || !strings.Contains(text, "probes, metrics and pages are served") {
		t.Errorf("the log is %s", text)
	}
}

func TestProfilesAndGuardsAreServedIfAskedFor(t *testing.T) {
	r := start(t)
	at := r.serving("-profiles", "-guard")
	for path, want := range map[string]int{"/debug/pprof/": http.StatusUnauthorized, "/metrics": http.StatusUnauthorized, "/healthz": http.StatusOK} {
		if code, body, err := get(t.Context(), at+path); code != want || err != nil {
			t.Errorf("%s: %d %s, %v", path, code, body, err)
		}
	}
}

func TestPlanPrintsWhatWouldChange(t *testing.T) {
	r := start(t)
	r.create("m")
	if code := r.main(t.Context(), []string{"-plan"}); code != 2 || !strings.Contains(r.out.String(), "Secret default/m") {
		t.Errorf("exit code %d\n%s\n%s", code, r.out.String(), r.err.String())
	}
	if _, err := r.client().CoreV1().Secrets("default").Get(t.Context(), "m", metav1.GetOptions{}); err == nil {
		t.Error("a plan has changed something")
	}
	if code := r.main(t.Context(), []string{"-plan", "--operator.namespaces=other"}); code != 0 {
		t.Errorf("exit code %d without anything to change\n%s\n%s", code, r.out.String(), r.err.String())
	}
}

func TestAPlanThatIsNotCompleteIsAFailure(t *testing.T) {
	fails := func(op *framework.Operator) error {
		return framework.Register(op, failing{}, framework.ControllerOptions[*corev1.ConfigMap]{Name: "copies"})
	}
	r := start(t, Part{Register: fails})
	r.create("m")
	if code := r.main(t.Context(), []string{"-plan"}); code != 1 || !strings.Contains(r.out.String(), "no luck") {
		t.Errorf("exit code %d\n%s\n%s", code, r.out.String(), r.err.String())
	}
}

// failing fails.
type failing struct{}

func (failing) Reconcile(context.Context, *corev1.ConfigMap, *framework.Context[*corev1.ConfigMap]) (framework.UpdateControl[*corev1.ConfigMap], error) {
	return framework.UpdateControl[*corev1.ConfigMap]{}, errors.New("no luck")
}

func TestHelpListsArgumentsAndSettings(t *testing.T) {
	r := start(t)
	if code := r.main(t.Context(), []string{"-help"}); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"-kubeconfig FILE", "-plan", "COPIES_OPERATOR_OPERATOR_KEY", "leaderElection.mode", "concurrency"} {
		if !strings.Contains(r.out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, r.out.String())
		}
	}
}

// What is wrong is named with its place and its value, and nothing runs.
func TestWhatIsWrongIsNamed(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(folder, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	fails := errors.New("no luck")
	for name, c := range map[string]struct {
		parts []Part
		args  []string
		env   string
		want  string
	}{
		"argument":        {args: []string{"-lisen=x"}, want: "-lisen"},
		"value":           {args: []string{"-v=much"}, want: `"much"`},
		"word":            {args: []string{"run"}, want: `argument "run": there is no such argument`},
		"format":          {args: []string{"-log-format=xml"}, want: `argument -log-format: "xml": must be text or json`},
		"key alone":       {args: []string{"-tls-key=k.pem"}, want: `arguments -tls-cert "" and -tls-key "k.pem"`},
		"no certificate":  {args: []string{"-listen=localhost:0", "-tls-key=k.pem", "-tls-cert=/none.pem"}, want: "/none.pem"},
		"address":         {args: []string{"-listen=nowhere:x"}, want: `"nowhere:x"`},
		"kubeconfig":      {args: []string{"-kubeconfig=/none.yaml"}, want: "/none.yaml"},
		"setting":         {args: []string{"--controllers.copies.concurrency=x"}, want: `argument --controllers.copies.concurrency: "x"`},
		"planned":         {args: []string{"-plan", "--controllers.copies.concurrency=x"}, want: `argument --controllers.copies.concurrency: "x"`},
		"unused":          {args: []string{"--controllers.copy.concurrency=2"}, want: "argument --controllers.copy.concurrency"},
		"of the operator": {args: []string{"--operator.grace=x"}, want: `argument --operator.grace: "x"`},
		"file":            {args: []string{"-config=" + file("a.yaml", "controllers: {copies: {concurrency: x}}")}, want: "a.yaml: controllers.copies.concurrency"},
		"no file":         {args: []string{"-config=/none.yaml"}, want: "/none.yaml"},
		"variable":        {env: "x", want: `environment variable COPIES_OPERATOR_CONTROLLERS_COPIES_CONCURRENCY: "x"`},
		"no Register":     {parts: []Part{{Register: registerCopies}, {}}, want: "part 2: Register: must be set"},
		"types":           {parts: []Part{{Register: registerCopies, AddToScheme: func(*runtime.Scheme) error { return fails }}}, want: "part 1: AddToScheme: no luck"},
		"registration":    {parts: []Part{{Register: func(*framework.Operator) error { return fails }}}, want: "no luck"},
		"options":         {parts: []Part{{Register: registerCopies, Options: func(o *framework.OperatorOptions) { o.SyncTimeout = -1 }}}, want: "SyncTimeout"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.env != "" {
				t.Setenv("COPIES_OPERATOR_CONTROLLERS_COPIES_CONCURRENCY", c.env)
			}
			r := start(t, c.parts...)
			r.serves = func(string) { t.Error("it runs") }
			if code := r.main(t.Context(), c.args); code != 1 || !strings.Contains(r.err.String(), c.want) || !strings.HasPrefix(r.err.String(), "copies-operator: ") {
				t.Errorf("exit code %d, %s", code, r.err.String())
			}
		})
	}
	none := start(t)
	none.parts = nil
	if code := none.main(t.Context(), nil); code != 1 || !strings.Contains(none.err.String(), "there is none") {
		t.Errorf("exit code %d, %s", code, none.err.String())
	}
}
