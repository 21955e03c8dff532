package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// InstallCRDs creates the CustomResourceDefinitions of the folders, and returns when they are
// served.
func InstallCRDs(config *rest.Config, folders ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), processTimeout)
	defer cancel()
	admin, err := client.New(config, scheme.Scheme)
	if err != nil {
		return fmt.Errorf("testenv: install definitions: %w", err)
	}
	var created []*unstructured.Unstructured
	for _, folder := range folders {
		definitions, err := readCRDs(folder)
		if err != nil {
			return fmt.Errorf("testenv: install definitions of %s: %w", folder, err)
		}
		for _, definition := range definitions {
			if err := admin.Create(ctx, definition); err != nil {
				return fmt.Errorf("testenv: install the definition %s: %w", definition.GetName(), err)
			}
		}
		created = append(created, definitions...)
	}
	for _, definition := range created {
		if err := awaitServed(ctx, admin, definition); err != nil {
			return fmt.Errorf("testenv: wait for what %s defines: %w", definition.GetName(), err)
		}
	}
	return nil
}

// readCRDs returns the objects in the YAML files of a folder, at least one.
func readCRDs(folder string) (all []*unstructured.Unstructured, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		found, err := readYAML(name)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, errors.New("there is none")
	}
	return all, nil
}

func readYAML(name string) (all []*unstructured.Unstructured, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 1<<10); ; {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
}

// awaitServed lists the objects of all served versions until that succeeds: discovery and storage
// follow the definition, and nothing announces it.
func awaitServed(ctx context.Context, admin *client.Client, definition *unstructured.Unstructured) error {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
	if err != nil {
		return err
	}
	for _, v := range versions {
		version := v.(map[string]any)
		if version["served"] != true {
			continue
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version["name"].(string), Kind: kind + "List"})
		for err := admin.List(ctx, list); err != nil; err = admin.List(ctx, list) {
			select {
			case <-ctx.Done():
				return errors.Join(ctx.Err(), err)
			case <-time.After(pollInterval):
			}
		}
	}
	return nil
}
