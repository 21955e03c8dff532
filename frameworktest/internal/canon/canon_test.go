package canon_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/frameworktest/internal/canon"
)

const (
	firstUID  = "11111111-1111-4111-8111-111111111111"
	secondUID = "22222222-2222-4222-8222-222222222222"
)

// parse returns the objects of YAML documents. The plural is the kind with an s.
func parse(t *testing.T, documents string) []canon.Object {
	t.Helper()
	var all []canon.Object
	for document := range strings.SplitSeq(documents, "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			t.Fatal(err)
		}
		// As client-go decodes numbers.
		if generation, is := o.Object["metadata"].(map[string]any)["generation"].(float64); is {
			o.SetGeneration(int64(generation))
		}
		integers(o.Object)
		all = append(all, canon.Object{Resource: strings.ToLower(o.GetKind()) + "s", Unstructured: o})
	}
	return all
}

// integers makes whole numbers integers, as the API machinery does.
func integers(content map[string]any) {
	for name, value := range content {
		switch value := value.(type) {
		case float64:
			content[name] = int64(value)
		case map[string]any:
			integers(value)
		}
	}
}

// row is two states, each of YAML documents, that are equal or not.
type row struct {
	name, a, b string
	equal      bool
}

func (r row) check(t *testing.T) {
	t.Helper()
	a, b := state(t, r.a), state(t, r.b)
	there, back := canon.Difference(a, b), canon.Difference(b, a)
	if equal := len(there) == 0; equal != r.equal || len(there) != len(back) {
		t.Errorf("equal: %t, want %t\n%s\nand in reverse\n%s", equal, r.equal, strings.Join(there, "\n"), strings.Join(back, "\n"))
	}
}

// state returns what documents say.
func state(t *testing.T, documents string) canon.State {
	t.Helper()
	objects := parse(t, documents)
	return canon.Of(objects, canon.NewNames(objects, canon.Options{}))
}

func metadata(fields string) string { return "kind: Pod\nmetadata: {name: a, " + fields + "}" }

func of(content string) string { return "kind: Pod\nmetadata: {name: a}\n" + content }

// TestWhatCounts has two rows for most rules of doc.go: what does not count by the rule, and what
// is near and does.
func TestWhatCounts(t *testing.T) {
	for _, r := range []row{
		{"nothing differs", of("spec: {x: 1}"), of("spec: {x: 1}"), true},
		{"a value counts", of("spec: {x: 1}"), of("spec: {x: 2}"), false},
		{"resourceVersion", metadata("resourceVersion: '1'"), metadata("resourceVersion: '2'"), true},
		{"uid", metadata("uid: " + firstUID), metadata("uid: " + secondUID), true},
		{"generation", metadata("generation: 1"), metadata("generation: 2"), true},
		{"creationTimestamp", metadata("creationTimestamp: '2000-01-01T00:00:00Z'"), metadata("creationTimestamp: '2000-01-01T00:00:01Z'"), true},
		{"managedFields", metadata("managedFields: [{manager: a}]"), metadata("managedFields: [{manager: b}]"), true},
		{"selfLink", metadata("selfLink: a"), metadata("selfLink: b"), true},
		{"labels count", metadata("labels: {x: a}"), metadata("labels: {x: b}"), false},
		{"the revision of a Deployment", metadata("annotations: {deployment.kubernetes.io/revision: '1'}"), metadata("annotations: {deployment.kubernetes.io/revision: '2'}"), true},
		{"the time of a deletion", metadata("deletionTimestamp: '2000-01-01T00:00:00Z'"), metadata("deletionTimestamp: '2000-01-01T00:00:01Z'"), true},
		{"that there is a deletion counts", metadata("deletionTimestamp: '2000-01-01T00:00:00Z'"), of(""), false},
		{"who wrote down a gate", metadata("annotations: {r/gate: op/A x}"), metadata("annotations: {r/gate: op/B x}"), true},
		{"what a gate wrote down counts", metadata("annotations: {r/gate: op/A x}"), metadata("annotations: {r/gate: op/A y}"), false},
		{"the order of finalizers", metadata("finalizers: [x, z]"), metadata("finalizers: [z, x]"), true},
		{"finalizers count", metadata("finalizers: [x]"), metadata("finalizers: [z]"), false},
	} {
		t.Run(r.name, r.check)
	}
}

func TestWhatCountsInTheStatus(t *testing.T) {
	generation := func(generation, seen string) string {
		return "kind: Pod\nmetadata: {name: a, generation: " + generation + "}\nstatus: {observedGeneration: " + seen + "}"
	}
	for _, r := range []row{
		{"an observedGeneration that is current", generation("1", "1"), generation("2", "2"), true},
		{"one that is behind counts", generation("2", "2"), generation("2", "1"), false},
		{"by how far", generation("3", "2"), generation("3", "1"), false},
		{"equally far behind", generation("3", "2"), generation("2", "1"), true},
		{"times", of("status: {at: '2000-01-01T00:00:00Z'}"), of("status: {at: '2000-01-01T00:00:01Z'}"), true},
		{"times with fractions", of("status: {at: '2000-01-01T00:00:00.123456Z'}"), of("status: {at: '2000-01-01T00:00:01.5Z'}"), true},
		{"times in lists", of("status: {conditions: [{type: x, at: '2000-01-01T00:00:00Z'}]}"), of("status: {conditions: [{type: x, at: '2000-01-01T00:00:01Z'}]}"), true},
		{"times elsewhere count", of("spec: {at: '2000-01-01T00:00:00Z'}"), of("spec: {at: '2000-01-01T00:00:01Z'}"), false},
		{"text that has a time counts", of("status: {at: 'at 2000-01-01T00:00:00Z'}"), of("status: {at: 'at 2000-01-01T00:00:01Z'}"), false},
		{"the order of conditions", of("status: {conditions: [{type: x, s: a}, {type: z, s: b}]}"), of("status: {conditions: [{type: z, s: b}, {type: x, s: a}]}"), true},
		{"conditions count", of("status: {conditions: [{type: x, s: a}]}"), of("status: {conditions: [{type: x, s: b}]}"), false},
		{"the order of objects without keys counts", of("spec: {l: [{p: 1}, {p: 2}]}"), of("spec: {l: [{p: 2}, {p: 1}]}"), false},
		{"how often an object is in a list counts", of("spec: {l: [{p: 1}, {p: 1}]}"), of("spec: {l: [{p: 1}]}"), false},
		{"the order of plain values counts", of("spec: {args: [a, b]}"), of("spec: {args: [b, a]}"), false},
	} {
		t.Run(r.name, r.check)
	}
}

func TestWhatCountsInNames(t *testing.T) {
	generated := func(name, more string) string {
		return "kind: Pod\nmetadata: {generateName: a-, name: " + name + "}" + more
	}
	mention := func(name, mentioned string) string {
		return generated(name, "\n---\nkind: Page\nmetadata: {name: p}\nstatus: {pod: the Pod "+mentioned+"}")
	}
	pod := func(name, uid string) string { return "kind: Pod\nmetadata: {name: " + name + ", uid: " + uid + "}" }
	owned := func(a, b, owner string) string {
		return pod("a", a) + "\n---\n" + pod("b", b) + "\n---\nkind: Page\nmetadata: {name: p, ownerReferences: [{uid: " + owner + "}]}"
	}
	stable := func(name, text string) string {
		return "kind: Pod\nmetadata: {name: " + name + "}\n---\nkind: Page\nmetadata: {name: p}\nstatus: {pod: " + name + ", text: " + text + "}"
	}
	for _, r := range []row{
		{"the suffix of a generated name", generated("a-x", ""), generated("a-y", ""), true},
		{"where others mention it", mention("a-x", "a-x"), mention("a-y", "a-y"), true},
		{"that they mention another counts", mention("a-x", "a-x"), mention("a-x", "b"), false},
		{"how many there are counts", generated("a-x", ""), generated("a-x", "\n---\n"+generated("a-y", "")), false},
		{"each with its content", generated("a-x", "\nspec: {x: 1}") + "\n---\n" + generated("a-y", "\nspec: {x: 2}"), generated("a-x", "\nspec: {x: 2}") + "\n---\n" + generated("a-y", "\nspec: {x: 1}"), true},
		{"their contents count", generated("a-x", "\nspec: {x: 1}"), generated("a-x", "\nspec: {x: 2}"), false},
		{"a longer name is another", generated("a-x", "\n---\n"+generated("a-xx", "\nspec: {of: a-xx}")), generated("a-y", "\n---\n"+generated("a-z", "\nspec: {of: a-z}")), true},
		{"a name that was chosen counts", "kind: Pod\nmetadata: {name: a-x}", "kind: Pod\nmetadata: {name: a-y}", false},
		{"one of another prefix counts", "kind: Pod\nmetadata: {generateName: b-, name: a-x}", "kind: Pod\nmetadata: {generateName: b-, name: a-y}", false},
		{"the UID of the same object", owned(firstUID, secondUID, firstUID), owned(secondUID, firstUID, secondUID), true},
		{"the UID of another object counts", owned(firstUID, secondUID, firstUID), owned(firstUID, secondUID, secondUID), false},
		{"a UID of nothing", of("spec: {token: " + firstUID + "}"), of("spec: {token: " + secondUID + "}"), true},
		{"that it is a UID counts", of("spec: {token: " + firstUID + "}"), of("spec: {token: x}"), false},
		{"namespaces count", "kind: Pod\nmetadata: {name: a, namespace: x}", "kind: Pod\nmetadata: {name: a, namespace: z}", false},
		{"kinds count", "kind: Pod\nmetadata: {name: a}", "kind: Page\nmetadata: {name: a}", false},
		{"a hash at the end of a name", stable("page-abcdefghij", "x"), stable("page-klmnop2345", "x"), true},
		{"a long one", stable("page-0123456789abcdef", "x"), stable("page-fedcba9876543210", "x"), true},
		{"what else there is counts", stable("page-abcdefghij", "x"), stable("page-klmnop2345", "z"), false},
		{"the name before it counts", stable("page-abcdefghij", "x"), stable("leaf-klmnop2345", "x"), false},
		{"what is no hash counts", stable("page-first", "x"), stable("page-second", "x"), false},
	} {
		t.Run(r.name, r.check)
	}
}

func TestObjectsStayAsTheyAre(t *testing.T) {
	documents := "kind: Pod\nmetadata: {generateName: a-, name: a-x, uid: " + firstUID + ", resourceVersion: '1', finalizers: [z, x]}\nspec: {l: [{name: b}, {name: a}]}"
	objects, before := parse(t, documents), parse(t, documents)
	canon.Of(objects, canon.NewNames(objects, canon.Options{}))
	is, was := objects[0].Object, before[0].Object
	if text, want := marshal(t, is), marshal(t, was); text != want {
		t.Errorf("the object became\n%s\nit was\n%s", text, want)
	}
}

func marshal(t *testing.T, o map[string]any) string {
	t.Helper()
	text, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestKeysNameWhatThereIs(t *testing.T) {
	there := state(t, "kind: Pod\nmetadata: {namespace: x, generateName: a-, name: a-x}\n---\nkind: Node\nmetadata: {name: m}")
	if keys := slices.Sorted(maps.Keys(there)); !slices.Equal(keys, []string{"nodes m", "pods x/a-*"}) {
		t.Errorf("the keys are %q", keys)
	}
}

func TestADifferenceShowsItsLines(t *testing.T) {
	for _, test := range []struct {
		name string
		a, b canon.State
		want []string
	}{
		{"nothing", canon.State{"a": {"x\n"}}, canon.State{"a": {"x\n"}}, nil},
		{"nothing, in another order", canon.State{"a": {"x\n", "y\n"}}, canon.State{"a": {"y\n", "x\n"}}, nil},
		{"a line", canon.State{"a": {"x: 1\ny: 1\n"}}, canon.State{"a": {"x: 1\ny: 2\n"}}, []string{"  a", "-   y: 1", "+   y: 2"}},
		{"more lines", canon.State{"a": {"x: 1\n"}}, canon.State{"a": {"x: 1\ny: 2\n"}}, []string{"  a", "+   y: 2"}},
		{"only the first", canon.State{"a": {"x"}, "b": {"x"}}, canon.State{"b": {"x"}}, []string{"- a"}},
		{"only the second", canon.State{}, canon.State{"b": {"x"}, "a": {"x"}}, []string{"+ a", "+ b"}},
		{"one more", canon.State{"a": {"x"}}, canon.State{"a": {"x", "x", "y"}}, []string{"+ a", "+ a"}},
		{"one of several is another", canon.State{"a": {"x", "z"}}, canon.State{"a": {"x", "y"}}, []string{"- a", "+ a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if is := canon.Difference(test.a, test.b); !slices.Equal(is, test.want) {
				t.Errorf("the difference is %q, want %q", is, test.want)
			}
		})
	}
}
