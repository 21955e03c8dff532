package actors_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/internal/actors"
	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// stage is a cluster that tests act on: the model, or a real one.
type stage struct {
	t      testing.TB
	client *http.Client
	host   string
	model  *apimodel.Model // nil for a real one
}

// onStage runs a test in a bubble, with actors.
func onStage(t *testing.T, options apimodel.Options, who actors.Options, play func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		model, err := apimodel.New(options)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		actors.Start(ctx, model, who)
		play(newStage(t, model.Config(), model))
		cancel()
		synctest.Wait()
	})
}

func newStage(t testing.TB, config *rest.Config, model *apimodel.Model) *stage {
	t.Helper()
	config = rest.CopyConfig(config)
	config.UserAgent = "author/1"
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return &stage{t: t, client: client, host: strings.TrimSuffix(config.Host, "/"), model: model}
}

// settle lets virtual time pass until the actors have nothing to do.
func (s *stage) settle() {
	time.Sleep(time.Hour)
	synctest.Wait()
}

func (s *stage) send(method, path, contentType string, body any) (int, map[string]any) {
	s.t.Helper()
	encoded, isText := body.(string)
	if !isText && body != nil {
		content, err := json.Marshal(body)
		if err != nil {
			s.t.Fatal(err)
		}
		encoded = string(content)
	}
	request, err := http.NewRequest(method, s.host+path, bytes.NewReader([]byte(encoded)))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Accept", "application/json")
	response, err := s.client.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	answer := map[string]any{}
	if err := utiljson.Unmarshal(content, &answer); err != nil {
		s.t.Fatalf("%s %s: %s", method, path, content)
	}
	return response.StatusCode, answer
}

// must is a request that succeeds; it returns the object.
func (s *stage) must(method, path string, body any) *unstructured.Unstructured {
	s.t.Helper()
	contentType := "application/json"
	if method == http.MethodPatch {
		contentType = string(types.MergePatchType)
	}
	code, answer := s.send(method, path, contentType, body)
	if code >= http.StatusBadRequest {
		s.t.Fatalf("%s %s: %d %v", method, path, code, answer["message"])
	}
	return &unstructured.Unstructured{Object: answer}
}

func (s *stage) get(path string) *unstructured.Unstructured { return s.must(http.MethodGet, path, nil) }

// names returns the names of a collection, sorted.
func (s *stage) names(path string) string {
	s.t.Helper()
	var names []string
	for _, item := range s.list(path) {
		names = append(names, item.GetName())
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func (s *stage) list(path string) (all []*unstructured.Unstructured) {
	s.t.Helper()
	items, _ := s.get(path).Object["items"].([]any)
	for _, item := range items {
		all = append(all, &unstructured.Unstructured{Object: item.(map[string]any)})
	}
	return all
}

const configMaps = "/api/v1/namespaces/default/configmaps"

// configMap creates one with owners, the names of which end with ! if it blocks their deletion.
func (s *stage) configMap(name string, finalizers []string, owners ...string) {
	s.t.Helper()
	var references []any
	for _, owner := range owners {
		plain, blocks := strings.CutSuffix(owner, "!")
		references = append(references, s.reference(plain, blocks))
	}
	s.must(http.MethodPost, configMaps, map[string]any{"metadata": map[string]any{
		"name": name, "ownerReferences": references, "finalizers": finalizers,
	}})
}

func (s *stage) reference(owner string, blocks bool) map[string]any {
	s.t.Helper()
	uid := types.UID("00000000-0000-0000-0000-000000000001") // of what does not exist
	if owner != "absent" {
		uid = s.get(configMaps + "/" + owner).GetUID()
	}
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid, "blockOwnerDeletion": blocks}
}

func (s *stage) remove(path, policy string) {
	s.t.Helper()
	body := map[string]any{"kind": "DeleteOptions", "apiVersion": "v1"}
	if policy != "" {
		body["propagationPolicy"] = policy
	}
	s.must(http.MethodDelete, path, body)
}

// owners returns the owners of a ConfigMap.
func (s *stage) owners(name string) string {
	s.t.Helper()
	var names []string
	for _, r := range s.get(configMaps + "/" + name).GetOwnerReferences() {
		names = append(names, r.Name)
	}
	return fmt.Sprint(names)
}
