package stores_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/benchmarks/work"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// primaries is how many own the secondaries.
const primaries = 1_000

// answers are those of an API server: secondaries are its own, everything else is the model's.
type answers struct {
	model       http.Handler
	secondaries []json.RawMessage
}

// serve starts a server with so many secondaries, until the test ends.
func serve(t *testing.T, secondaries int) (address string) {
	t.Helper()
	kinds, err := apimodel.CustomResources(testenv.WebPageCRDs())
	must(t, err)
	model, err := apimodel.New(apimodel.Options{Kinds: kinds})
	must(t, err)
	scheme, err := work.Scheme()
	must(t, err)
	admin, err := client.New(model.Config(), client.Options{Scheme: scheme})
	must(t, err)
	owners := make([]*v1.WebPage, primaries)
	for i := range owners {
		owners[i] = &v1.WebPage{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("page-%04d", i)}, Spec: v1.WebPageSpec{HTML: "<html/>"}}
		must(t, admin.Create(t.Context(), owners[i]))
	}
	host, err := url.Parse(model.Config().Host)
	must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(host)
	proxy.Transport, proxy.FlushInterval = model.Config().Transport, -1
	s := &answers{model: proxy}
	for i := range secondaries {
		s.secondaries = append(s.secondaries, secondary(t, admin, owners[i%primaries], i))
	}
	listening := httptest.NewServer(s)
	t.Cleanup(func() { listening.CloseClientConnections(); listening.Close() })
	return listening.URL
}

var template []byte

// secondary is what a server-side apply leaves; the model made the first.
func secondary(t *testing.T, admin client.Client, owner *v1.WebPage, i int) json.RawMessage {
	t.Helper()
	if template == nil {
		template = applied(t, admin, owner)
	}
	return []byte(strings.NewReplacer(
		"page-0000", owner.Name, string(owner.UID), string(owner.UID), "NUMBER", fmt.Sprintf("%06d", i),
		"00000000-0000-4000-8000-00000000UIDS", fmt.Sprintf("%08x-5b0e-4c3a-9d3f-%012x", i*2654435761, i),
		"OWNERUID", string(owner.UID), `"VERSION"`, strconv.Quote(strconv.Itoa(1_000_000+i)),
	).Replace(string(template)))
}

// applied returns an object as it was stored, with placeholders for what differs from one to
// another.
func applied(t *testing.T, admin client.Client, owner *v1.WebPage) []byte {
	t.Helper()
	yes := true
	c := &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "page-0000-number",
			Labels: map[string]string{
				"app.kubernetes.io/name": "webpage", "app.kubernetes.io/instance": "page-0000",
				"app.kubernetes.io/component": "content", "app.kubernetes.io/managed-by": "webpage-operator",
			},
			Annotations: map[string]string{"samples.evenkeel.dev/checksum": "9f86d081884c7d659a2feaa0c55ad015NUMBER"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "samples.evenkeel.dev/v1", Kind: "WebPage", Name: owner.Name, UID: "OWNERUID", Controller: &yes, BlockOwnerDeletion: &yes,
			}},
		},
		Data: map[string]string{"index.html": "<html><body>NUMBER" + strings.Repeat("<p>words</p>", 16) + "</body></html>"},
	}
	content, err := json.Marshal(c)
	must(t, err)
	u := &unstructured.Unstructured{}
	must(t, json.Unmarshal(content, &u.Object))
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	must(t, admin.Patch(t.Context(), u, client.RawPatch("application/apply-patch+yaml", mustJSON(t, u.Object)), client.FieldOwner("webpage-operator")))
	u.SetName("page-0000-NUMBER")
	u.SetUID("00000000-0000-4000-8000-00000000UIDS")
	u.SetResourceVersion("VERSION")
	return mustJSON(t, u.Object)
}

func mustJSON(t *testing.T, value any) []byte {
	t.Helper()
	content, err := json.Marshal(value)
	must(t, err)
	return content
}

// ServeHTTP answers a request.
func (s *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch query := r.URL.Query(); {
	case !strings.HasSuffix(r.URL.Path, "/configmaps") || r.Method != http.MethodGet:
		s.model.ServeHTTP(w, r)
	case query.Get("watch") == "true" || query.Get("watch") == "1":
		s.watch(r.Context(), w, query.Get("sendInitialEvents") == "true")
	default:
		w.Header().Set("Content-Type", "application/json")
		s.list(w, query)
	}
}

func (s *answers) list(w http.ResponseWriter, query url.Values) {
	from, _ := strconv.Atoi(query.Get("continue"))
	to, next := len(s.secondaries), ""
	if limit, _ := strconv.Atoi(query.Get("limit")); limit > 0 && from+limit < to {
		to = from + limit
		next = strconv.Itoa(to)
	}
	fmt.Fprintf(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"2000000","continue":%q},"items":[`, next)
	for i, o := range s.secondaries[from:to] {
		if i > 0 {
			_, _ = w.Write([]byte(","))
		}
		_, _ = w.Write(o)
	}
	_, _ = w.Write([]byte("]}"))
}

func (s *answers) watch(ctx context.Context, w http.ResponseWriter, initial bool) {
	w.Header().Set("Content-Type", "application/json")
	if initial {
		for _, o := range s.secondaries {
			fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", o)
		}
		fmt.Fprintln(w, `{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"2000000","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
	}
	w.(http.Flusher).Flush()
	<-ctx.Done()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
