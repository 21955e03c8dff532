package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An author's changes of the files that add changes are kept.
func TestAddKeepsWhatIsThere(t *testing.T) {
	const before = "\tcmd.Main(\"greetings\",\n\t\tcmd.Part{AddToScheme: v1.AddToScheme, Register: registerGreeting},\n\t)\n"
	for name, c := range map[string]struct{ changed, want string }{
		"as it was made": {before, strings.Replace(before, "\t)", "\t\tcmd.Part{Register: registerFarewell},\n\t)", 1)},
		"one line": {
			"\tcmd.Main(\"greetings\", cmd.Part{AddToScheme: v1.AddToScheme, Register: registerGreeting}) // all\n",
			"\tcmd.Main(\"greetings\", cmd.Part{AddToScheme: v1.AddToScheme, Register: registerGreeting}, cmd.Part{Register: registerFarewell}) // all\n",
		},
		"comments and another statement": {
			"\tprintln(\"hi\")\n\tcmd.Main(\"greetings\",\n\t\tcmd.Part{\n\t\t\tRegister: registerGreeting, // first\n\t\t}, // part\n\t\t// last\n\t)\n",
			"\tprintln(\"hi\")\n\tcmd.Main(\"greetings\",\n\t\tcmd.Part{\n\t\t\tRegister: registerGreeting, // first\n\t\t}, // part\n\t\t// last\n\t\tcmd.Part{Register: registerFarewell},\n\t)\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			project := newProject(t)
			made := read(t, project, "main.go")
			write(t, strings.Replace(made, before, c.changed, 1), project, "main.go")
			all := contents(t, project)
			if output, err := evenkeelIn(project, "add", "Farewell"); err != nil {
				t.Fatal(output, err)
			}
			if got, want := read(t, project, "main.go"), strings.Replace(made, before, c.want, 1); got != want {
				t.Errorf("main.go is\n%s\nwant\n%s", got, want)
			}
			all["main.go"] = strings.Replace(made, before, c.want, 1)
			for path, line := range map[string][2]string{
				"api/v1/greeting_types.go":  {"\t\t&Greeting{}, &GreetingList{},\n", "\t\t&Farewell{}, &FarewellList{},\n"},
				"config/kustomization.yaml": {"- crd/bases/example.com_greetings.yaml\n", "- crd/bases/example.com_farewells.yaml\n"},
			} {
				all[path] = strings.Replace(all[path], line[0], line[0]+line[1], 1)
			}
			after := contents(t, project)
			for path, content := range all {
				if after[path] != content {
					t.Errorf("%s is\n%s\nwant\n%s", path, after[path], content)
				}
			}
			if len(after) != len(all)+len(added) {
				t.Errorf("there are %d files, want %d", len(after), len(all)+len(added))
			}
		})
	}
}

// Where add does not find the place, it says what is to be done there, and writes nothing.
func TestAddRefusesWhatItCannotWire(t *testing.T) {
	for name, c := range map[string]struct{ file, old, new, want string }{
		"no call":          {"main.go", "cmd.Main(", "other(", "main.go: the call cmd.Main(\"...\", cmd.Part{...}), which cmd.Part{Register: registerFarewell} is added to, is not found: 0 calls"},
		"two calls":        {"main.go", "func main() {", "func other() { cmd.Main(\"other\", cmd.Part{}) }\n\nfunc main() {", "2 calls"},
		"a slice":          {"main.go", "registerGreeting},\n", "registerGreeting},\n\t\tothers...,\n", "0 calls"},
		"another package":  {"main.go", `"github.com/evenkeel/evenkeel/framework/cmd"`, `"example.com/cmd"`, "does not import"},
		"no Go":            {"main.go", "package main", "packag main", "main.go"},
		"no AddKnownTypes": {"api/v1/greeting_types.go", "AddKnownTypes", "Others", "api/v1: the call AddKnownTypes(GroupVersion, ...), which &Farewell{}, &FarewellList{} is added to, is not found"},
		"other version":    {"api/v1/greeting_types.go", "AddKnownTypes(GroupVersion", "AddKnownTypes(Other", "0 calls"},
		"no group":         {"api/v1/greeting_types.go", "+groupName", "+group", "+groupName="},
		"no resources":     {"config/kustomization.yaml", "resources:\n- crd/bases/example.com_greetings.yaml", "resources: [crd]", `config/kustomization.yaml: the line "resources:"`},
		"no module":        {"go.mod", "module ", "modul ", "has no module line"},
		"a type":           {"api/v1/greeting_types.go", "type GreetingSpec ", "type FarewellSpec struct{}\n\ntype GreetingSpec ", `KIND "Farewell": api/v1/greeting_types.go declares FarewellSpec`},
		"a function":       {"greeting_reconciler.go", "func registerGreeting", "func registerFarewell() {}\n\nfunc registerGreeting", "greeting_reconciler.go declares registerFarewell"},
		"a plural":         {"api/v1/greeting_types.go", "path=greetings", "path=farewells,shortName=fw", `-plural "farewells": another kind has it, in api/v1/greeting_types.go`},
	} {
		t.Run(name, func(t *testing.T) {
			project := newProject(t)
			made := read(t, project, filepath.FromSlash(c.file))
			if strings.Count(made, c.old) != 1 {
				t.Fatalf("%s has %q %d times", c.file, c.old, strings.Count(made, c.old))
			}
			write(t, strings.Replace(made, c.old, c.new, 1), project, filepath.FromSlash(c.file))
			before := contents(t, project)
			if _, err := evenkeelIn(project, "add", "Farewell"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %s", err, c.want)
			}
			if !maps.Equal(before, contents(t, project)) {
				t.Error("something is written")
			}
		})
	}
}

func TestAddRefusesFilesThatExist(t *testing.T) {
	for _, f := range added {
		project := newProject(t)
		path := names{kind: "Farewell"}.fill(f.path)
		write(t, "package main\n", project, filepath.FromSlash(path))
		before := contents(t, project)
		if _, err := evenkeelIn(project, "add", "Farewell"); err == nil || !strings.Contains(err.Error(), path+" exists") {
			t.Errorf("%s: the error is %v", path, err)
		}
		if !maps.Equal(before, contents(t, project)) {
			t.Errorf("%s: something is written", path)
		}
	}
	if _, err := evenkeelIn(newProject(t), "add", "greeting"); err == nil || !strings.Contains(err.Error(), `KIND "greeting"`) {
		t.Errorf("the error is %v", err)
	}
}

func TestManifestsNeedTheirFiles(t *testing.T) {
	project := newProject(t)
	write(t, "manifests:\n\ttrue\n", project, "Makefile")
	if _, err := evenkeelIn(project, "manifests"); err == nil || !strings.Contains(err.Error(), "config/crd/bases/*.yaml: there is no such file") {
		t.Errorf("the error is %v", err)
	}
	if err := os.Remove(filepath.Join(project, "Makefile")); err != nil {
		t.Fatal(err)
	}
	if _, err := evenkeelIn(project, "manifests"); err == nil || !strings.Contains(err.Error(), "make manifests: exit status") {
		t.Errorf("the error is %v", err)
	}
}
