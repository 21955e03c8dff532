package frameworktest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/frameworktest"
)

// complaints collects what a check says.
type complaints struct {
	testing.TB
	all, log []string
}

func (c *complaints) Helper()                   {}
func (c *complaints) Logf(f string, a ...any)   { c.log = append(c.log, fmt.Sprintf(f, a...)) }
func (c *complaints) Fatalf(f string, a ...any) { c.Errorf(f, a...); panic("fatal") }
func (c *complaints) Errorf(f string, a ...any) { c.all = append(c.all, fmt.Sprintf(f, a...)) }

func TestCheckRightsComparesWhatIsGrantedWithWhatIsUsed(t *testing.T) {
	skipShort(t)
	s := copying
	s.Points = []frameworktest.Point{}
	report := s.Explore(t)
	const exact = `[{apiGroups: [""], resources: [configmaps], verbs: [list, watch]}, {apiGroups: [""], resources: [configmaps/finalizers], verbs: [update]}, ` +
		`{apiGroups: [""], resources: [secrets], verbs: [create, list, patch, watch]}]`
	const folder = "frameworktest: granted in rbac and "
	for _, r := range []struct {
		name, rules string
		want        []string
	}{
		{"what is used", exact, nil},
		{"nothing", `[{apiGroups: [apps], resources: [deployments], verbs: [get]}]`, []string{
			"frameworktest: used and not granted in rbac: create secrets", "frameworktest: used and not granted in rbac: list configmaps",
			"frameworktest: used and not granted in rbac: list secrets", "frameworktest: used and not granted in rbac: patch secrets",
			"frameworktest: used and not granted in rbac: update configmaps/finalizers", "frameworktest: used and not granted in rbac: watch configmaps",
			"frameworktest: used and not granted in rbac: watch secrets", folder + "never used: get deployments.apps",
		}},
		{"all", `[{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]`, []string{folder + "wider than what is used: * *.*"}},
		{"all verbs", exact[:len(exact)-1] + `, {apiGroups: [""], resources: [secrets, pods], verbs: ["*"]}]`, []string{
			folder + "never used: * pods", folder + "wider than what is used: * secrets",
		}},
		{"a sub-resource of all", exact[:len(exact)-1] + `, {apiGroups: [""], resources: ["*/finalizers", "*/scale"], verbs: [update]}]`, []string{
			folder + "never used: update */scale", folder + "wider than what is used: update */finalizers",
		}},
		{"leases and events", exact[:len(exact)-1] + `, {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, update]}, {apiGroups: [events.k8s.io], resources: [events], verbs: [create]}]`, nil},
		{"the protection of metrics", exact[:len(exact)-1] + `, {apiGroups: [authentication.k8s.io], resources: [tokenreviews], verbs: [create]}, ` +
			`{apiGroups: [authorization.k8s.io], resources: [subjectaccessreviews], verbs: [create]}]`, nil},
	} {
		t.Chdir(t.TempDir())
		if err := os.MkdirAll("rbac", 0o700); err != nil {
			t.Fatal(err)
		}
		role := "kind: ClusterRole\napiVersion: rbac.authorization.k8s.io/v1\nrules: " + r.rules + "\n---\nkind: ServiceAccount\n"
		if err := os.WriteFile(filepath.Join("rbac", "role.yaml"), []byte(role), 0o600); err != nil {
			t.Fatal(err)
		}
		got := &complaints{TB: t}
		report.CheckRights(got, "rbac")
		slices.Sort(got.all)
		slices.Sort(r.want)
		if !slices.Equal(got.all, r.want) {
			t.Errorf("%s: %q, want %q", r.name, got.all, r.want)
		}
	}
}

// TestCheckRightsOfOneLifeDoesNotMissTheOthers when a failure is repeated.
func TestCheckRightsOfOneLifeDoesNotMissTheOthers(t *testing.T) {
	t.Setenv(frameworktest.OnlyVariable, "no-fault")
	folder := t.TempDir()
	role := `{kind: ClusterRole, rules: [{apiGroups: ["", apps], resources: ["*"], verbs: [get, list, watch, create, update, patch, delete]}]}`
	if err := os.WriteFile(filepath.Join(folder, "role.yaml"), []byte(role), 0o600); err != nil {
		t.Fatal(err)
	}
	got := &complaints{TB: t}
	copying.Explore(t).CheckRights(got, folder)
	if len(got.all) > 0 {
		t.Errorf("%q", got.all)
	}
}

// TestCheckRightsReadsTheRolesOfTheOperator and neither those of users nor other documents, in all
// YAML files of the folder and below it.
func TestCheckRightsReadsTheRolesOfTheOperator(t *testing.T) {
	skipShort(t)
	const (
		operators = `{kind: ClusterRole, metadata: {name: manager}, rules: [{apiGroups: [""], resources: [configmaps], verbs: [list, watch]}, ` +
			`{apiGroups: [""], resources: [configmaps/finalizers], verbs: [update]}, {apiGroups: [""], resources: [secrets], verbs: [create, list, patch, watch]}]}`
		editors = `{kind: ClusterRole, metadata: {name: editor}, rules: [{apiGroups: [""], resources: [configmaps], verbs: [create, delete]}]}`
		same    = `{kind: Role, metadata: {name: manager}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}`
		binding = `{kind: ClusterRoleBinding, metadata: {name: manager}, roleRef: {kind: ClusterRole, name: manager}}`
		service = `{kind: Service, metadata: {name: metrics}, spec: {ports: [{port: 8443}]}, rules: none}`
	)
	s := copying
	s.Points = []frameworktest.Point{}
	report := s.Explore(t)
	for _, r := range []struct {
		name  string
		files map[string]string
		want  []string // parts of what is said
	}{
		{"roles of users", map[string]string{"role.yaml": operators, "editor.yaml": editors, "binding.yaml": binding}, nil},
		{"a role of the same name and another kind", map[string]string{"role.yaml": operators, "same.yaml": same, "binding.yaml": binding}, nil},
		{"a RoleBinding to it", map[string]string{"role.yaml": operators, "binding.yaml": strings.Replace(binding, "ClusterRoleBinding", "RoleBinding", 1)}, nil},
		{"no binding", map[string]string{"role.yaml": operators, "editor.yaml": editors}, []string{"never used: create configmaps", "never used: delete configmaps"}},
		{"another extension", map[string]string{"role.yml": operators, "notes.txt": "kind: [ClusterRole"}, nil},
		{"a folder below", map[string]string{"base/rbac/role.yaml": operators, "service.yaml": service}, nil},
		{"a binding to a role that is elsewhere", map[string]string{"role.yaml": operators, "binding.yaml": strings.Replace(binding, "name: manager}}", "name: admin}}", 1)}, []string{"none of them refers to a role there"}},
		{"no role", map[string]string{"service.yaml": service}, []string{"has no roles"}},
		{"a role that is none", map[string]string{"sub/role.yaml": "{kind: Role, rules: none}"}, []string{"sub/role.yaml"}},
	} {
		folder := t.TempDir()
		for name, content := range r.files {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got := &complaints{TB: t}
		report.CheckRights(got, folder)
		slices.Sort(got.all)
		if !slices.EqualFunc(got.all, r.want, strings.Contains) {
			t.Errorf("%s: %q, want %q", r.name, got.all, r.want)
		}
	}
}

// TestCheckRightsSaysWhereTheMissingRulesAre once, and only if something is missing.
func TestCheckRightsSaysWhereTheMissingRulesAre(t *testing.T) {
	skipShort(t)
	s := copying
	s.Points = []frameworktest.Point{}
	report := s.Explore(t)
	for role, want := range map[string]int{report.Role("manager"): 0, "{kind: Role, rules: [{apiGroups: [apps], resources: [deployments], verbs: [get]}]}": 1} {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "role.yaml"), []byte(role), 0o600); err != nil {
			t.Fatal(err)
		}
		got := &complaints{TB: t}
		report.CheckRights(got, folder)
		if said := strings.Count(strings.Join(got.log, "\n"), "Report.Role prints the whole ClusterRole"); said != want || (len(got.all) > 0) != (want > 0) {
			t.Errorf("%s: said %d times, want %d: %q", role, said, want, got.all)
		}
	}
}

// usedVerbs returns the verbs of the rule for a resource.
func usedVerbs(t *testing.T, s frameworktest.Scenario, resource string) []string {
	t.Helper()
	s.Points = []frameworktest.Point{}
	report := frameworktest.Everywhere(t, s)
	for _, rule := range report.Rights() {
		if slices.Contains(rule.Resources, resource) {
			return rule.Verbs
		}
	}
	return nil
}

// podLabeller labels Pods, and leaves their owners as they are.
type podLabeller struct{}

func (podLabeller) Reconcile(_ context.Context, o *corev1.Pod, _ *framework.Context[*corev1.Pod]) (framework.UpdateControl[*corev1.Pod], error) {
	o.Labels["seen"] = "yes"
	return framework.PatchResource(o), nil
}

// TestRightsOfOwnersAreThoseOfReferencesThatAreNew and not of those that others have set.
func TestRightsOfOwnersAreThoseOfReferencesThatAreNew(t *testing.T) {
	s := frameworktest.Scenario{
		Register: func(op *framework.Operator) error {
			return framework.Register(op, podLabeller{}, framework.ControllerOptions[*corev1.Pod]{})
		},
		Story: func(w *frameworktest.World) {
			w.Create(deploymentOf("", "x"))
			w.Rest()
		},
	}
	if verbs := usedVerbs(t, s, "replicasets/finalizers"); verbs != nil {
		t.Errorf("verbs of replicasets/finalizers are %q, and the operator has changed no owner reference", verbs)
	}
	if verbs := usedVerbs(t, s, "pods"); !slices.Contains(verbs, "patch") || slices.Contains(verbs, "delete") {
		t.Errorf("verbs of pods are %q", verbs)
	}
}

// siteOwns changes the owner references of a user's ConfigMap step by step, as owners says.
func siteOwns(owners func(site *Site, now []metav1.OwnerReference) []metav1.OwnerReference) operator {
	return func(op *framework.Operator, p *frameworktest.Process) error {
		return framework.Register(op, reconcile(func(ctx context.Context, site *Site, _ *siteContext) (siteUpdate, error) {
			api := bare(p).CoreV1().ConfigMaps(site.Namespace)
			o, err := api.Get(ctx, "shared", metav1.GetOptions{})
			if err != nil {
				return noUpdate, err
			}
			o.OwnerReferences = owners(site, o.OwnerReferences)
			_, err = api.Update(ctx, o, metav1.UpdateOptions{})
			return noUpdate, err
		}), siteOptions{})
	}
}

// TestRightsOfAnAdoption are to delete what is adopted, and to update the finalizers of the new
// owner if its deletion is blocked.
func TestRightsOfAnAdoption(t *testing.T) {
	yes, no := true, false
	by := func(site *Site, blocks *bool) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "test.evenkeel.dev/v1", Kind: "Site", Name: site.Name, UID: site.UID, BlockOwnerDeletion: blocks}}
	}
	for _, r := range []struct {
		name   string
		owners func(site *Site, now []metav1.OwnerReference) []metav1.OwnerReference
		delete bool
		blocks bool
	}{
		{"nothing changes", func(_ *Site, now []metav1.OwnerReference) []metav1.OwnerReference { return now }, false, false},
		{"an owner", func(site *Site, _ []metav1.OwnerReference) []metav1.OwnerReference { return by(site, nil) }, true, false},
		{"an owner that is blocked", func(site *Site, _ []metav1.OwnerReference) []metav1.OwnerReference { return by(site, &yes) }, true, true},
		{"an owner that becomes blocked", func(site *Site, now []metav1.OwnerReference) []metav1.OwnerReference {
			if len(now) == 0 {
				return by(site, &no)
			}
			return by(site, &yes)
		}, true, true},
	} {
		s := pair{story: func(w *frameworktest.World) {
			w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shared"}})
			changes(w)
		}}.scenario(siteOwns(r.owners))
		verbs, finalizers := usedVerbs(t, s, "configmaps"), usedVerbs(t, s, "sites/finalizers")
		if slices.Contains(verbs, "delete") != r.delete || slices.Contains(finalizers, "update") != r.blocks {
			t.Errorf("%s: verbs of configmaps are %q, of sites/finalizers %q", r.name, verbs, finalizers)
		}
	}
}
