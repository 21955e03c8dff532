package canon

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Object is an object with its resource: the plural with the group, as in "deployments.apps".
type Object struct {
	Resource string
	*unstructured.Unstructured
	// Hidden objects are not compared. Their names and UIDs are recognised where others mention them.
	Hidden bool
}

// State is what there is: the objects as JSON, by resource, namespace and name. Objects with
// generated names share a key.
type State map[string][]string

// Of returns the state of some objects, whose names n knows.
func Of(objects []Object, n *Names) State {
	state, texts := n.state(objects)
	if n.tellApart(state, texts, objects) {
		state, _ = n.state(objects)
	}
	return state
}

// state writes the objects as they are named now. It returns the text of each, too.
func (n *Names) state(objects []Object) (state State, texts map[*unstructured.Unstructured]string) {
	state, texts = State{}, map[*unstructured.Unstructured]string{}
	for _, o := range objects {
		if !o.Hidden {
			key, text := n.key(o), n.write(o)
			state[key], texts[o.Unstructured] = append(state[key], text), text
		}
	}
	for _, same := range state {
		slices.Sort(same)
	}
	return state, texts
}

// key is what an object is compared by.
func (n *Names) key(o Object) string {
	return o.Resource + " " + strings.TrimPrefix(n.Text(o.GetNamespace())+"/", "/") + n.alias[o.Unstructured]
}

func (n *Names) write(of Object) string {
	o := of.DeepCopy()
	fields := fieldsOf(o)
	for _, name := range []string{"resourceVersion", "uid", "generation", "creationTimestamp", "managedFields", "selfLink", "generateName"} {
		unstructured.RemoveNestedField(o.Object, "metadata", name)
	}
	unstructured.RemoveNestedField(o.Object, "metadata", "annotations", "deployment.kubernetes.io/revision")
	annotations := o.GetAnnotations()
	for name, value := range annotations {
		if strings.HasSuffix(name, "/gate") {
			annotations[name] = instance.ReplaceAllString(value, "*")
		}
	}
	o.SetAnnotations(annotations)
	if o.GetDeletionTimestamp() != nil {
		_ = unstructured.SetNestedField(o.Object, "<set>", "metadata", "deletionTimestamp")
	}
	finalizers := o.GetFinalizers()
	slices.Sort(finalizers)
	o.SetFinalizers(finalizers)
	decode(o)
	for name, part := range o.Object {
		o.Object[name] = n.value(part, place{status: name == "status", generation: of.GetGeneration(), fields: fields})
	}
	_ = unstructured.SetNestedField(o.Object, n.alias[of.Unstructured], "metadata", "name")
	if prefix := of.GetGenerateName(); prefix != "" {
		_ = unstructured.SetNestedField(o.Object, n.Text(prefix), "metadata", "generateName")
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // names are looked for in it
	if err := encoder.Encode(o.Object); err != nil {
		return err.Error()
	}
	return text.String()
}

// decode shows the data of a Secret where it is text.
func decode(o *unstructured.Unstructured) {
	data, is := o.Object["data"].(map[string]any)
	if !is || o.GetKind() != "Secret" || o.GetAPIVersion() != "v1" {
		return
	}
	for name, value := range data {
		encoded, _ := value.(string)
		if plain, err := base64.StdEncoding.DecodeString(encoded); err == nil && utf8.Valid(plain) {
			data[name] = string(plain)
		}
	}
}

// place is where a value is.
type place struct {
	status     bool   // below the status
	field      string // the name of the field
	generation int64
	fields     []string // that the cluster has filled in
}

func (n *Names) value(v any, at place) any {
	switch v := v.(type) {
	case map[string]any:
		return n.entries(v, at)
	case []any:
		for i := range v {
			v[i] = n.value(v[i], at)
		}
		if key := keyOf(v); key != "" && at.field != "initContainers" {
			slices.SortStableFunc(v, func(a, b any) int { return strings.Compare(order(a, key), order(b, key)) })
		}
		return v
	case string:
		if at.status && !n.Times && len(v) >= len("2006-01-02T15:04:05Z") {
			if _, err := time.Parse(time.RFC3339, v); err == nil {
				return "<time>"
			}
		}
		return n.Text(v)
	}
	return v
}

// entries are those of a map, whose keys may be names.
func (n *Names) entries(v map[string]any, at place) map[string]any {
	if v["uid"] != nil && v["kind"] != nil {
		delete(v, "resourceVersion") // of a reference
	}
	renamed := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		inner := v[name]
		at.field = name
		switch seen, isNumber := inner.(int64); {
		case isNumber && name == "observedGeneration":
			inner = "current"
			if behind := at.generation - seen; behind != 0 {
				inner = fmt.Sprintf("%d behind", behind)
			}
		case inner != "None" && slices.Contains(at.fields, name):
			inner = "<assigned>"
		default:
			inner = n.value(inner, at)
		}
		key := n.Text(name)
		for _, taken := renamed[key]; taken; _, taken = renamed[key] {
			key += "'"
		}
		renamed[key] = inner
	}
	return renamed
}

// keys are the fields by which lists are maps: conditions, owners, containers, selectors.
var keys = []string{"type", "uid", "name", "key"}

// keyOf returns the field that all items of a list have, so that their order does not count. It is
// empty if there is none: then it may be a list of steps, whose order is its meaning.
func keyOf(list []any) string {
	for _, key := range keys {
		if !slices.ContainsFunc(list, func(item any) bool {
			content, _ := item.(map[string]any)
			_, has := content[key].(string)
			return !has
		}) {
			return key
		}
	}
	return ""
}

// order is what an item of a list is sorted by. Generated names are the same.
func order(item any, key string) string {
	text, err := json.Marshal(item)
	if err != nil {
		return err.Error()
	}
	return item.(map[string]any)[key].(string) + "\n" + string(text)
}
