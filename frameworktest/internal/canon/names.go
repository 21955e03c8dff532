package canon

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Options are what else is known of a life.
type Options struct {
	// Namespaces are those of its stories, which other lives call otherwise: each counts as
	// "<namespace>" wherever it is a word.
	Namespaces []string
	// Versions are the resourceVersions that there were, with the UIDs of the objects that had them.
	Versions map[string]types.UID
	// Times count, those of the status, too: the states are of one life.
	Times bool
	// Renamed are names that count as others.
	Renamed map[string]string
	// Also replaces what else differs. Nil for nothing.
	Also func(text string) string
}

// Names knows what texts stand for in one life. Its methods may be called by several goroutines
// once [Of] has returned.
type Names struct {
	Options
	uids   map[string]string                     // what UIDs stand for, and their first eight digits
	alias  map[*unstructured.Unstructured]string // the names without what was made up
	names  *strings.Replacer                     // of all that is mentioned
	unique map[*unstructured.Unstructured]string // as others mention them
}

// NewNames returns what is known of the names of some objects.
func NewNames(objects []Object, o Options) *Names {
	n := &Names{Options: o, alias: map[*unstructured.Unstructured]string{}, unique: map[*unstructured.Unstructured]string{}}
	n.mention(objects)
	for _, o := range objects {
		n.alias[o.Unstructured] = n.aliasOf(o)
		n.unique[o.Unstructured] = n.alias[o.Unstructured]
	}
	n.mention(objects)
	for _, o := range objects { // each may contain what was made up for another
		n.alias[o.Unstructured] = n.names.Replace(n.alias[o.Unstructured])
		n.unique[o.Unstructured] = n.alias[o.Unstructured]
	}
	n.mention(objects)
	return n
}

// mention prepares what objects are called where others mention them.
func (n *Names) mention(objects []Object) {
	n.uids = map[string]string{}
	var pairs []string
	for name, as := range n.Renamed {
		pairs = append(pairs, name, as)
	}
	for _, o := range objects {
		unique := cmp.Or(n.unique[o.Unstructured], o.GetName())
		of := strings.TrimPrefix(n.word(o.GetNamespace())+"/", "/") + o.Resource + "/" + unique
		if id := string(o.GetUID()); uid.MatchString(id) {
			n.uids[id], n.uids[id[:8]] = "<uid of "+of+">", "<uid of "+of+">[:8]"
		}
		if unique != o.GetName() {
			pairs = append(pairs, o.GetName(), unique)
		}
		if hash := templateHash(o); hash != "" {
			pairs = append(pairs, hash, "<template>")
		}
		for _, address := range addressesOf(o.Unstructured) {
			pairs = append(pairs, address, "<address of "+of+">")
		}
	}
	n.names = strings.NewReplacer(longestFirst(pairs)...)
}

// tellApart numbers objects of one key by their contents, so that it counts which of them others
// mention. It reports whether there are such.
func (n *Names) tellApart(state State, texts map[*unstructured.Unstructured]string, objects []Object) bool {
	some := false
	for _, o := range objects {
		same := state[n.key(o)]
		if o.Hidden || len(same) < 2 || same[0] == same[len(same)-1] { // they are sorted
			continue
		}
		some = true
		place := slices.Index(slices.Compact(slices.Clone(same)), texts[o.Unstructured])
		n.unique[o.Unstructured] = fmt.Sprintf("%s(%d)", n.alias[o.Unstructured], 1+place)
	}
	if some {
		n.mention(objects)
	}
	return some
}

// aliasOf is the name without what was made up: what the server or the framework has added to a
// generateName, the hash of a ReplicaSet, and UIDs.
func (n *Names) aliasOf(o Object) string {
	name, prefix := o.GetName(), o.GetGenerateName()
	if hash := templateHash(o); hash != "" {
		prefix = strings.Replace(prefix, "-"+hash, "-*", 1)
		name = strings.Replace(name, "-"+hash, "-*", 1)
	}
	if prefix != "" && strings.HasPrefix(name, prefix) {
		name = prefix + "*"
	}
	return n.word(uidOf.ReplaceAllString(n.withoutUIDs(name), "<uid>"))
}

// uidOf is what stands for a UID that is known. In names it does not count whose it is: the object
// itself may have a name that was made up.
var uidOf = regexp.MustCompile(`<uid of [^>]*>`)

// templateHash is that of a ReplicaSet or of one of its Pods, empty for all others. It follows from
// the template, which may name what differs from life to life.
func templateHash(o Object) string {
	if o.GetKind() != "ReplicaSet" && o.GetKind() != "Pod" {
		return ""
	}
	return o.GetLabels()["pod-template-hash"]
}

// Text returns a text without what differs from life to life.
func (n *Names) Text(s string) string {
	if s == "" {
		return s
	}
	if of, known := n.Versions[s]; known && len(s) >= minVersion {
		return "<version of " + cmp.Or(n.uids[string(of)], "something that is gone") + ">"
	}
	s = n.withoutUIDs(s)
	if strings.Contains(s, "kube-api-access-") {
		s = mounted.ReplaceAllString(s, "kube-api-access-*")
	}
	s = n.word(n.names.Replace(s))
	if n.Also != nil {
		s = n.Also(s)
	}
	return s
}

// minVersion is how many digits a text has that is taken for a resourceVersion.
const minVersion = 4

// mounted is the volume with the token of a Pod's service account.
var mounted = regexp.MustCompile(`\bkube-api-access-[a-z0-9]{5}\b`)

// instance is that of an operator, with which a gate of the interlock begins what it writes down.
var instance = regexp.MustCompile(`^\S+`)

var (
	uid   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	block = regexp.MustCompile(`\b[0-9a-f]{8}\b`)
)

// withoutUIDs replaces UIDs, and the first eight digits of UIDs that are known.
func (n *Names) withoutUIDs(s string) string {
	if len(s) >= 36 && strings.Count(s, "-") >= 4 {
		s = uid.ReplaceAllStringFunc(s, func(id string) string { return cmp.Or(n.uids[id], "<uid>") })
	}
	if len(s) < 8 {
		return s
	}
	return block.ReplaceAllStringFunc(s, func(id string) string { return cmp.Or(n.uids[id], id) })
}

// word replaces the namespaces of stories.
func (n *Names) word(s string) string {
	for _, namespace := range n.Namespaces {
		s = replaceWord(s, namespace, "<namespace>")
	}
	return s
}

// replaceWord replaces a word where no letter or digit is beside it.
func replaceWord(s, word, with string) string {
	var done strings.Builder
	for from := 0; ; {
		i := strings.Index(s[from:], word)
		if i < 0 {
			if from == 0 {
				return s
			}
			return done.String() + s[from:]
		}
		i += from
		end := i + len(word)
		done.WriteString(s[from:i])
		if i > 0 && isAlphanumeric(s[i-1]) || end < len(s) && isAlphanumeric(s[end]) {
			done.WriteString(word)
		} else {
			done.WriteString(with)
		}
		from = end
	}
}

// HasWord reports whether a text has a word that no letter or digit is beside.
func HasWord(text, word string) bool { return replaceWord(text, word, "") != text }

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// assigned are the fields that a cluster fills in as it likes, by kind.
var assigned = map[string][]string{
	"Pod":                   {"podIP", "podIPs", "hostIP", "hostIPs", "nodeName", "containerID", "imageID"},
	"Service":               {"clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort"},
	"PersistentVolumeClaim": {"volumeName"},
}

// fieldsOf returns the fields of an object that the cluster has filled in: those of the status, and
// those that nobody owns who is not of the cluster.
func fieldsOf(o *unstructured.Unstructured) []string {
	if o.GetAPIVersion() != "v1" || assigned[o.GetKind()] == nil {
		return nil
	}
	owned := map[string]bool{}
	metadata, _ := o.Object["metadata"].(map[string]any)
	managers, _ := metadata["managedFields"].([]any)
	for _, m := range managers { // their Go type would cost much
		m, _ := m.(map[string]any)
		name, _ := m["manager"].(string)
		if m["subresource"] == "status" || strings.HasPrefix(name, "kube") {
			continue
		}
		own(owned, m["fieldsV1"])
	}
	return slices.DeleteFunc(slices.Clone(assigned[o.GetKind()]), func(field string) bool { return owned[field] })
}

// own adds the names of the fields that somebody owns.
func own(owned map[string]bool, fields any) {
	within, _ := fields.(map[string]any)
	for name, inner := range within {
		owned[strings.TrimPrefix(name, "f:")] = true
		own(owned, inner)
	}
}

// addressesOf returns the addresses that the cluster has given to a Pod or a Service.
func addressesOf(o *unstructured.Unstructured) []string {
	var all []string
	for _, path := range [][]string{{"status", "podIP"}, {"spec", "clusterIP"}} {
		address, _, _ := unstructured.NestedString(o.Object, path...)
		if slices.Contains(fieldsOf(o), path[1]) && strings.ContainsAny(address, ".:") {
			all = append(all, address)
		}
	}
	return all
}

// longestFirst sorts pairs by the length of their first, so that no name hides a longer one.
func longestFirst(pairs []string) []string {
	chunks := slices.Collect(slices.Chunk(pairs, 2))
	slices.SortStableFunc(chunks, func(a, b []string) int {
		return cmp.Or(cmp.Compare(len(b[0]), len(a[0])), strings.Compare(a[0], b[0]))
	})
	return slices.Concat(chunks...)
}
