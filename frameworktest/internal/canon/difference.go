package canon

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Difference returns the lines in which two states differ: those that only the first has after
// "-", those that only the second has after "+". It is empty if the states are equal.
func Difference(a, b State) []string {
	all := difference(a, b)
	if len(all) > 0 && len(difference(withoutHashes(a, b), withoutHashes(b, a))) == 0 {
		return nil
	}
	return all
}

// hash is how names end that follow from a UID: in ten digits of base 32, or in many of base 16.
var hash = regexp.MustCompile(`(?:[a-z2-7]{10}|[0-9a-f]{16,64})$`)

// Unhashed returns a name without the hash at its end, which may follow from a UID.
func Unhashed(name string) string {
	if stem := hash.ReplaceAllString(name, ""); stem != name && !isWord(strings.TrimPrefix(name, stem)) {
		return stem + "*"
	}
	return name
}

// withoutHashes returns the state without the hashes in those names that the other state lacks. A
// name that ends in a word is none with a hash, unless the other state has one at the same place.
func withoutHashes(s, other State) State {
	hashed, others := hashedIn(s, other), hashedIn(other, s)
	var pairs []string
	for stem, names := range hashed {
		isOne := func(name string) bool { return !isWord(strings.TrimPrefix(name, stem)) }
		if !slices.ContainsFunc(names, isOne) && !slices.ContainsFunc(others[stem], isOne) {
			continue
		}
		for _, name := range names {
			pairs = append(pairs, name, stem+"*")
		}
	}
	names, renamed := strings.NewReplacer(longestFirst(pairs)...), State{}
	for key, same := range s {
		for _, text := range same {
			renamed[names.Replace(key)] = append(renamed[names.Replace(key)], names.Replace(text))
		}
	}
	return renamed
}

// hashedIn returns the names that end as hashes do and that the other state lacks, by what is
// before that end.
func hashedIn(s, other State) map[string][]string {
	all := map[string][]string{}
	for key := range s {
		name := key[strings.LastIndexAny(key, " /")+1:]
		if _, both := other[key]; !both && hash.MatchString(name) {
			stem := hash.ReplaceAllString(name, "")
			all[stem] = append(all[stem], name)
		}
	}
	return all
}

// isWord reports whether the end of a name may be a word of people: it has no digits, and vowels as
// words have. Of a hundred hashes, one looks so.
func isWord(end string) bool {
	vowels := 0
	for _, c := range end {
		switch {
		case c < 'a':
			return false
		case strings.ContainsRune("aeiou", c):
			vowels++
		}
	}
	return vowels >= 4
}

func difference(a, b State) []string {
	var all []string
	keys := map[string]bool{}
	for _, s := range []State{a, b} {
		for key := range s {
			keys[key] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		of, other := without(a[key], b[key]), without(b[key], a[key])
		switch {
		case len(of) == 1 && len(other) == 1 && len(a[key]) == 1 && len(b[key]) == 1:
			all = append(all, "  "+key)
			before, after := readable(of[0]), readable(other[0])
			all = append(all, lines("-", before, after)...)
			all = append(all, lines("+", after, before)...)
		default:
			for range of {
				all = append(all, "- "+key)
			}
			for range other {
				all = append(all, "+ "+key)
			}
		}
	}
	return all
}

// readable returns an object as YAML, which takes too long where nobody reads it. Other texts stay.
func readable(text string) string {
	if !strings.HasPrefix(text, "{") {
		return text
	}
	if y, err := yaml.JSONToYAML([]byte(text)); err == nil {
		return string(y)
	}
	return text
}

// without returns what a has more than b.
func without(a, b []string) []string {
	rest := slices.Clone(b)
	var more []string
	for _, text := range a {
		if i := slices.Index(rest, text); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
			continue
		}
		more = append(more, text)
	}
	return more
}

// lines are those of a text that the other has not.
func lines(sign, text, other string) []string {
	var all []string
	for _, line := range without(strings.Split(strings.TrimRight(text, "\n"), "\n"), strings.Split(other, "\n")) {
		all = append(all, sign+"   "+line)
	}
	return all
}
