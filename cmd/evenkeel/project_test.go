package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// runIn runs a program in a project, as its author does.
func runIn(t *testing.T, project, name string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir = project
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, output)
	}
	return string(output)
}

// TestAProjectWorks makes a project, adds a kind, and does with both what their author does. From
// empty caches it takes minutes, most of them to compile.
func TestAProjectWorks(t *testing.T) {
	t.Setenv("GOWORK", "off")
	t.Setenv("MAKEFLAGS", "") // those of a make that runs this test
	project := newProject(t, "-replace", checkout(t))
	staticcheck := []string{"tool", "-modfile=" + filepath.Join(checkout(t), "tools", "go.mod"), "staticcheck", "./..."}

	// The rights are those that are used, and no others. After add, no test uses those of both kinds.
	test := filepath.Join(project, "greeting_reconciler_test.go")
	made := read(t, test)
	const everywhere = "frameworktest.Everywhere(t, scenario)"
	if strings.Count(made, everywhere) != 1 {
		t.Fatalf("%s is not in\n%s", everywhere, made)
	}
	write(t, strings.Replace(made, everywhere, everywhere+`.CheckRights(t, "config")`, 1), test)
	runIn(t, project, "make", "test")
	write(t, made, test)
	runIn(t, project, "go", staticcheck...)
	checkManifests(t, project, "greetings.example.com")

	if output, err := evenkeelIn(project, "add", "Farewell"); err != nil {
		t.Fatal(output, err)
	}
	runIn(t, project, "make", "test")
	if output := runIn(t, project, "go", "test", "-count=1", "-v", "."); !strings.Contains(output, "--- PASS: TestGreeting") || !strings.Contains(output, "--- PASS: TestFarewell") {
		t.Errorf("the tests of two kinds print\n%s", output)
	}
	runIn(t, project, "go", staticcheck...)
	checkManifests(t, project, "farewells.example.com", "greetings.example.com")
	if output := runIn(t, project, "go", "run", ".", "-help"); !strings.Contains(output, "greetings runs until it is interrupted") {
		t.Errorf("the operator prints %s", output)
	}
	for name := range strings.Lines(read(t, project, "config", "kustomization.yaml")) {
		if path, listed := strings.CutPrefix(strings.TrimSpace(name), "- "); listed {
			read(t, project, "config", filepath.FromSlash(path))
		}
	}
}

// checkManifests decodes what the command manifests prints, with an error for each unknown field.
func checkManifests(t *testing.T, project string, definitions ...string) {
	t.Helper()
	var out, log bytes.Buffer
	if err := (command{folder: project, out: &out, err: &log}).manifests(); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	var order []string
	for document := range strings.SplitSeq(strings.TrimPrefix(out.String(), "---\n"), "\n---\n") {
		var of metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(document), &of); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		order = append(order, of.Kind+" "+of.Name)
		var into any
		switch of.Kind {
		case "CustomResourceDefinition":
			continue
		case "Namespace":
			into = &corev1.Namespace{}
		case "ServiceAccount":
			into = &corev1.ServiceAccount{}
		case "ClusterRole":
			into = &rbacv1.ClusterRole{}
		case "ClusterRoleBinding":
			into = &rbacv1.ClusterRoleBinding{}
		case "Role":
			into = &rbacv1.Role{}
		case "RoleBinding":
			into = &rbacv1.RoleBinding{}
		case "Deployment":
			into = &appsv1.Deployment{}
		}
		content, err := yaml.YAMLToJSONStrict([]byte(document))
		if err != nil {
			t.Fatalf("%s %s: %v", of.Kind, of.Name, err)
		}
		if unknown, err := json.UnmarshalStrict(content, into); err != nil || len(unknown) > 0 {
			t.Fatalf("%s %s: %v, %v", of.Kind, of.Name, unknown, err)
		}
		if deployment, ok := into.(*appsv1.Deployment); ok {
			checkDeployment(t, deployment)
		}
	}
	var want []string
	for _, name := range definitions {
		want = append(want, "CustomResourceDefinition "+name)
	}
	for _, kind := range []string{"ClusterRole", "Namespace", "ServiceAccount", "ClusterRoleBinding", "Role", "RoleBinding", "Deployment"} {
		want = append(want, kind+" greetings")
	}
	if !slices.Equal(order, want) {
		t.Errorf("the manifests are %q, want %q", order, want)
	}
}

func checkDeployment(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	pod := d.Spec.Template.Spec
	if *d.Spec.Replicas != 2 || !*pod.SecurityContext.RunAsNonRoot || pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || pod.ServiceAccountName != "greetings" {
		t.Errorf("the Deployment is %+v", d.Spec)
	}
	c := pod.Containers[0]
	if s := c.SecurityContext; !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("the container may do %+v", s)
	}
	if !slices.Equal(c.Args, []string{"-listen=:8080", "-guard"}) || c.LivenessProbe.HTTPGet.Path != "/healthz" || c.ReadinessProbe.HTTPGet.Path != "/readyz" || len(c.Resources.Requests) == 0 {
		t.Errorf("the container is %+v", c)
	}
}
