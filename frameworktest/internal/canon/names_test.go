package canon_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/frameworktest/internal/canon"
)

// TestWhichOneIsMentionedCounts: generated objects with different contents are told apart.
func TestWhichOneIsMentionedCounts(t *testing.T) {
	revisions := func(a, b, current string) string {
		return "kind: Pod\nmetadata: {generateName: a-, name: " + a + ", uid: " + firstUID + "}\nspec: {text: old}\n---\n" +
			"kind: Pod\nmetadata: {generateName: a-, name: " + b + ", uid: " + secondUID + "}\nspec: {text: new}\n---\n" +
			"kind: Page\nmetadata: {name: p}\nstatus: {current: " + current + "}"
	}
	for _, r := range []row{
		{"the same", revisions("a-x", "a-y", "a-x"), revisions("a-y", "a-x", "a-y"), true},
		{"by its UID", revisions("a-x", "a-y", firstUID), revisions("a-y", "a-x", firstUID), true},
		{"another", revisions("a-x", "a-y", "a-x"), revisions("a-x", "a-y", "a-y"), false},
		{"another by its UID", revisions("a-x", "a-y", firstUID), revisions("a-x", "a-y", secondUID), false},
	} {
		t.Run(r.name, r.check)
	}
}

func TestWhatCountsOfUIDs(t *testing.T) {
	named := func(name, uid string) string {
		return "kind: Pod\nmetadata: {name: a, uid: " + uid + "}\n---\nkind: Page\nmetadata: {name: " + name + "}"
	}
	for _, r := range []row{
		{"in a text", of("spec: {volume: pvc-" + firstUID + "}"), of("spec: {volume: pvc-" + secondUID + "}"), true},
		{"in a name", "kind: Pod\nmetadata: {name: pvc-" + firstUID + "}", "kind: Pod\nmetadata: {name: pvc-" + secondUID + "}", true},
		{"eight digits in a name", named("a-11111111", firstUID), named("a-22222222", secondUID), true},
		{"eight digits of nothing count", named("a-33333333", firstUID), named("a-44444444", firstUID), false},
		{"what is beside it counts", named("a-11111111", firstUID), named("b-22222222", secondUID), false},
	} {
		t.Run(r.name, r.check)
	}
}

func TestWhatCountsOfOtherNames(t *testing.T) {
	generated := func(name, mention string) string {
		return "kind: Pod\nmetadata: {generateName: a-, name: " + name + "}\n---\n" + mention
	}
	keyed := func(name, key string) string {
		return generated(name, "kind: Page\nmetadata: {name: p}\nstatus: {pods: {"+key+": ready}}")
	}
	secret := func(name, host string) string {
		return generated(name, "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {host: "+host+"}")
	}
	derived := func(name string) string {
		return generated(name, "kind: Page\nmetadata: {name: "+name+"-config}")
	}
	rolled := func(hash, suffix string) string {
		return "kind: ReplicaSet\nmetadata: {name: a-" + hash + ", labels: {pod-template-hash: " + hash + "}}\n---\n" +
			"kind: Pod\nmetadata: {generateName: a-" + hash + "-, name: a-" + hash + "-" + suffix + ", labels: {pod-template-hash: " + hash + "}}\n---\n" +
			"kind: Page\nmetadata: {name: p}\nstatus: {pods: a-" + hash + "-" + suffix + "}"
	}
	generatedRollout := func(suffix, hash string) string {
		set := "a-" + suffix + "-" + hash
		return "kind: ReplicaSet\nmetadata: {name: " + set + ", labels: {pod-template-hash: " + hash + "}}\n---\n" +
			"kind: Deployment\nmetadata: {generateName: a-, name: a-" + suffix + "}\nstatus: {message: ReplicaSet " + set + " has progressed}"
	}
	unrolled := func(hash string) string {
		return strings.ReplaceAll(rolled(hash, "x"), "labels: {pod-template-hash: "+hash+"}", "labels: {}")
	}
	for _, r := range []row{
		{"as keys", keyed("a-x", "a-x"), keyed("a-y", "a-y"), true},
		{"other keys count", keyed("a-x", "a-x"), keyed("a-y", "a-z"), false},
		{"in a Secret", secret("a-x", "YS14"), secret("a-y", "YS15"), true},
		{"others in a Secret count", secret("a-x", "YS14"), secret("a-y", "YS16"), false},
		{"in another name", derived("a-x"), derived("a-y"), true},
		{"that of a rollout", rolled("5d4c", "x"), rolled("6f7b", "y"), true},
		{"that of a generated Deployment's rollout", generatedRollout("x", "5d4c"), generatedRollout("y", "6f7b"), true},
		{"without its label it counts", unrolled("5d4c"), unrolled("6f7b"), false},
		{"a word of ten letters counts", "kind: Pod\nmetadata: {name: to-production}", "kind: Pod\nmetadata: {name: to-kubernetes}", false},
		{"the order of initContainers counts", of("spec: {initContainers: [{name: migrate}, {name: seed}]}"), of("spec: {initContainers: [{name: seed}, {name: migrate}]}"), false},
		{"the order of containers", of("spec: {containers: [{name: a}, {name: b}]}"), of("spec: {containers: [{name: b}, {name: a}]}"), true},
	} {
		t.Run(r.name, r.check)
	}
}

func TestWhatTheClusterAssigns(t *testing.T) {
	service := func(port, managed string) string {
		return "apiVersion: v1\nkind: Service\nmetadata: {name: a, managedFields: [" + managed + "]}\nspec: {clusterIP: 10.0.0." + port[3:] + ", ports: [{nodePort: " + port + "}]}"
	}
	podAt := func(ip string) string {
		return `{apiVersion: v1, kind: Pod, metadata: {name: a, managedFields: [{manager: nodes, subresource: status, fieldsV1: {"f:status": {"f:podIP": {}}}}]}, status: {podIP: ` + ip + `}}`
	}
	const (
		owned    = `{manager: op, fieldsV1: {"f:spec": {"f:ports": {'k:{"port":80}': {"f:nodePort": {}}}}}}`
		cluster  = `{manager: kube-apiserver, fieldsV1: {"f:spec": {"f:ports": {'k:{"port":80}': {"f:nodePort": {}}}}}}`
		unowned  = `{manager: op, fieldsV1: {"f:spec": {"f:ports": {}}}}`
		mentions = "\n---\nkind: Page\nmetadata: {name: p}\nstatus: {ip: 10.0.0."
	)
	for _, r := range []row{
		{"a port of the cluster's", service("30080", unowned), service("30081", unowned), true},
		{"one that a controller of the cluster wrote", service("30080", cluster), service("30081", cluster), true},
		{"one that somebody chose counts", service("30080", owned), service("30081", owned), false},
		{"a status that a simulated node wrote", podAt("10.0.0.1"), podAt("10.0.0.2"), true},
		{"an address that others mention", service("30080", unowned) + mentions + "80}", service("30081", unowned) + mentions + "81}", true},
		{"another address counts", service("30080", unowned) + mentions + "80}", service("30081", unowned) + mentions + "80}", false},
		{"a port of another kind counts", of("spec: {nodePort: 30080}"), "kind: Pod\nmetadata: {name: a}\nspec: {nodePort: 30081}", false},
		{"a node that a custom kind names counts", "kind: Drain\nmetadata: {name: a}\nspec: {nodeName: one}", "kind: Drain\nmetadata: {name: a}\nspec: {nodeName: two}", false},
	} {
		t.Run(r.name, r.check)
	}
}

func TestWhatIsKnownOfALife(t *testing.T) {
	objects := parse(t, "kind: Pod\nmetadata: {name: a, uid: "+firstUID+"}")
	n := canon.NewNames(objects, canon.Options{
		Namespaces: []string{"story-a", "story-b"},
		Versions:   map[string]types.UID{"100007": firstUID, "100008": secondUID, "7": firstUID},
		Renamed:    map[string]string{"hello-xyz": "hello-*"},
		Also:       func(text string) string { return strings.ReplaceAll(text, "lb-1", "<id>") },
	})
	for text, want := range map[string]string{
		"":                         "",
		"story-a":                  "<namespace>",
		"db.story-a.svc":           "db.<namespace>.svc",
		"story-b-hello/story-a":    "<namespace>-hello/<namespace>",
		"history-a of story-ab":    "history-a of story-ab",
		"100007":                   "<version of <uid of pods/a>>",
		"100008":                   "<version of something that is gone>",
		"7":                        "7",
		"the version 100007":       "the version 100007",
		"see hello-xyz":            "see hello-*",
		"lb-1.example.com":         "<id>.example.com",
		"kube-api-access-abcde":    "kube-api-access-*",
		"pvc-" + firstUID:          "pvc-<uid of pods/a>",
		"a-11111111":               "a-<uid of pods/a>[:8]",
		"a111111112":               "a111111112",
		"of " + secondUID + " too": "of <uid> too",
	} {
		if is := n.Text(text); is != want {
			t.Errorf("%q is written %q, want %q", text, is, want)
		}
	}
}

func TestUnhashed(t *testing.T) {
	for name, want := range map[string]string{
		"evenkeel-79879607d44b4dff42cf400997b610d9": "evenkeel-*",
		"page-klmnop2345": "page-*",
		"to-production":   "to-production",
		"hello":           "hello",
		"":                "",
	} {
		if is := canon.Unhashed(name); is != want {
			t.Errorf("%q is %q, want %q", name, is, want)
		}
	}
}
