package plan

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"
)

// What is shown in place of a value of a Secret. kubectl diff shows the same.
const (
	hiddenValue  = "***"
	hiddenBefore = "*** (before)"
	hiddenAfter  = "*** (after)"
)

// isSecret reports whether an object is a Secret, in any version.
func isSecret(o map[string]any) bool {
	apiVersion, _ := o["apiVersion"].(string)
	return o["kind"] == "Secret" && !strings.Contains(apiVersion, "/")
}

// masked returns two states of a Secret without its values. Whether a value differs still shows.
func masked(before, after map[string]any) (map[string]any, map[string]any) {
	before, after = maps.Clone(before), maps.Clone(after)
	for _, field := range []string{"data", "stringData"} {
		hide(before, after, field)
	}
	return before, after
}

// hide replaces the values in a field of two objects, either of which may be nil.
func hide(before, after map[string]any, field string) {
	from, _ := before[field].(map[string]any)
	to, _ := after[field].(map[string]any)
	shownFrom, shownTo := map[string]any{}, map[string]any{}
	for key, value := range from {
		shownFrom[key] = hiddenValue
		if other, has := to[key]; has && other != value {
			shownFrom[key] = hiddenBefore
		}
	}
	for key, value := range to {
		shownTo[key] = hiddenValue
		if other, has := from[key]; has && other != value {
			shownTo[key] = hiddenAfter
		}
	}
	if before[field] != nil {
		before[field] = shownFrom
	}
	if after[field] != nil {
		after[field] = shownTo
	}
}

// minHidden is the length from which a value of a Secret is replaced wherever it appears. Shorter
// ones would hide words that are no secrets.
const minHidden = 8

// secretsOf returns what replaces the values of the planned Secrets, plain and in base64.
func secretsOf(planned []state) *strings.Replacer {
	values := map[string]bool{}
	add := func(value string) {
		for _, value := range append(strings.Split(value, "\n"), value) {
			if len(value) >= minHidden {
				values[value] = true
			}
		}
	}
	for _, e := range planned {
		for _, o := range []map[string]any{e.stored, e.now} {
			if !isSecret(o) {
				continue
			}
			for _, field := range []string{"data", "stringData"} {
				all, _ := o[field].(map[string]any)
				for _, value := range all {
					text, _ := value.(string)
					add(text)
					if plain, err := base64.StdEncoding.DecodeString(text); err == nil {
						add(string(plain))
					}
				}
			}
		}
	}
	longest := slices.SortedFunc(maps.Keys(values), func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, value := range longest {
		pairs = append(pairs, value, hiddenValue)
	}
	return strings.NewReplacer(pairs...)
}
