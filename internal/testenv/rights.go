package testenv

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// Right is one thing that somebody may do, or has done, with one resource.
type Right struct {
	Group, Resource, Verb string // the resource with its sub-resource, as in "pods/status"
	// Namespace is "" if it is for all namespaces at once. Name is "" if it is for all names at once.
	Namespace, Name string
}

// String returns the right as people say it.
func (r Right) String() string {
	text := r.Verb + " " + strings.TrimSuffix(r.Resource+"."+r.Group, ".")
	if r.Name != "" {
		text += " " + r.Name
	}
	if r.Namespace != "" {
		text += " in " + r.Namespace
	}
	return text
}

// AuditLog returns the flags, for [StartWithFlags], by which the API server logs who did what into
// a file of the folder, without any content.
func AuditLog(folder string) (flags map[string]string, file string, err error) {
	policy := filepath.Join(folder, "audit-policy.yaml")
	file = filepath.Join(folder, "audit.log")
	content := "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"
	if err := os.WriteFile(policy, []byte(content), 0o600); err != nil {
		return nil, "", fmt.Errorf("testenv: audit policy: %w", err)
	}
	return map[string]string{"audit-policy-file": policy, "audit-log-path": file}, file, nil
}

// entry is the little of an audit event that matters here.
type entry struct {
	User, ImpersonatedUser struct{ Username string }
	Verb                   string
	AuditID, UserAgent     string
	RequestURI             string
	ObjectRef              *struct{ APIGroup, Resource, Subresource, Namespace, Name string }
	Annotations            map[string]string
	ResponseStatus         struct{ Code int }
}

// UsedRights returns the rights that a user has used according to an audit log, and those that were
// refused. What every user may ask (about the user's own rights, and which kinds there are) is left
// out.
func UsedRights(log, user string) (used, refused []Right, err error) {
	content, err := os.ReadFile(log)
	if err != nil {
		return nil, nil, fmt.Errorf("testenv: audit log: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, len(content)+1)
	for lines.Scan() {
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			continue // its end is still being written
		}
		if e.ObjectRef == nil || e.User.Username != user && e.ImpersonatedUser.Username != user || strings.HasSuffix(e.ObjectRef.APIGroup, "authorization.k8s.io") {
			continue
		}
		right := Right{Group: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource, Verb: e.Verb, Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name}
		if e.ObjectRef.Subresource != "" {
			right.Resource += "/" + e.ObjectRef.Subresource
		}
		if e.Annotations["authorization.k8s.io/decision"] == "forbid" {
			refused = append(refused, right)
			continue
		}
		used = append(used, right)
		if right.Verb == "patch" && e.ResponseStatus.Code == http.StatusCreated {
			// An apply has created the object: the API server asks for that right, too.
			right.Verb = "create"
			used = append(used, right)
		}
	}
	return used, refused, lines.Err()
}

// role is the little of a Role or ClusterRole that matters here.
type role struct {
	Kind     string
	Metadata struct{ Namespace string }
	Rules    []struct{ APIGroups, Resources, ResourceNames, Verbs []string }
}

// GrantedRights returns the rights that the Roles and ClusterRoles in the files of a folder grant.
func GrantedRights(folder string) ([]Right, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var all []Right
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
		for {
			var r role
			if err := documents.Decode(&r); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("testenv: %s: %w", file, err)
			}
			all = append(all, r.rights()...)
		}
	}
	return all, nil
}

func (r role) rights() []Right {
	var all []Right
	for _, rule := range r.Rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						all = append(all, Right{Group: group, Resource: resource, Verb: verb, Namespace: r.Metadata.Namespace, Name: name})
					}
				}
			}
		}
	}
	return all
}

// RightsProblems compares the rights granted with those used. A right granted has to be used, but
// who watches must be able to list, too: watches stream the first list, and fall back to it. One
// for all namespaces has to be used for all at once, or in two of them; one of a namespace for all
// names has to be used for two names, if it can be restricted to one. A right used has to be
// granted.
func RightsProblems(granted, used []Right) []string {
	var problems []string
	for _, g := range granted {
		namespaces, names, atOnce := map[string]bool{}, map[string]bool{}, false
		for _, u := range used {
			if g.allows(u) {
				namespaces[u.Namespace], names[u.Name] = true, true
				atOnce = atOnce || u.Namespace == ""
			}
		}
		if watch := g; g.Verb == "list" && len(namespaces) == 0 {
			watch.Verb = "watch"
			if slices.ContainsFunc(used, watch.allows) {
				continue
			}
		}
		restrictable := slices.Contains([]string{"get", "update", "patch", "delete"}, g.Verb)
		switch {
		case len(namespaces) == 0:
			problems = append(problems, "granted and never used: "+g.String())
		case g.Namespace == "" && !atOnce && len(namespaces) < 2:
			problems = append(problems, "granted in all namespaces and used in one: "+g.String())
		case g.Namespace != "" && g.Name == "" && restrictable && len(names) < 2:
			problems = append(problems, "granted for all names and used for one: "+g.String())
		}
	}
	for _, u := range used {
		problem := "used and not granted: " + u.String()
		if !slices.ContainsFunc(granted, func(g Right) bool { return g.allows(u) }) && !slices.Contains(problems, problem) {
			problems = append(problems, problem)
		}
	}
	return problems
}

// allows reports whether a right granted covers one that is used.
func (r Right) allows(used Right) bool {
	return r.Group == used.Group && r.Resource == used.Resource && r.Verb == used.Verb &&
		(r.Namespace == "" || r.Namespace == used.Namespace) && (r.Name == "" || r.Name == used.Name)
}
