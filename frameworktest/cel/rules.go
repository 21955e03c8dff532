package cel

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
)

// compiled has the rules of every schema that this process has seen: each life of a scenario asks
// for them again, and to compile them takes milliseconds.
var compiled sync.Map // string → func() (*rules, error)

// rules are those of one schema. They may be used by several goroutines.
type rules struct {
	schema    *structuralschema.Structural
	validator *schemacel.Validator
}

// Rules compiles the CEL rules of a schema: the JSON of openAPIV3Schema of one version of a
// CustomResourceDefinition. It is for frameworktest.Scenario.Rules.
//
// The returned function checks an object that fits the schema otherwise. old is the object before
// an update, and nil if o is created. It may be called by several goroutines, and changes neither.
// An error says what the API server would say about such a definition: a rule does not compile, may
// cost too much, or the schema is not structural.
func Rules(schema []byte) (check func(o, old map[string]any) field.ErrorList, err error) {
	once, _ := compiled.LoadOrStore(string(schema), sync.OnceValues(func() (*rules, error) { return compile(schema) }))
	r, err := once.(func() (*rules, error))()
	if err != nil {
		return nil, err
	}
	return r.check, nil
}

func compile(schema []byte) (*rules, error) {
	var props apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(schema, &props); err != nil {
		return nil, fmt.Errorf("the schema is no JSON schema: %w", err)
	}
	definition, err := definitionWith(&props)
	if err != nil {
		return nil, err
	}
	if errs := validation.ValidateCustomResourceDefinition(context.Background(), definition); len(errs) > 0 {
		return nil, fmt.Errorf("an API server would refuse the definition: %w", errs.ToAggregate())
	}
	structural, err := structuralschema.NewStructural(definition.Spec.Validation.OpenAPIV3Schema)
	if err != nil {
		return nil, fmt.Errorf("the schema is not structural: %w", err)
	}
	return &rules{schema: structural, validator: schemacel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// definitionWith returns a definition with the schema, of a kind that stands for all: no rule can
// refer to names.
func definitionWith(props *apiextensionsv1.JSONSchemaProps) (*apiextensions.CustomResourceDefinition, error) {
	given := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Thing", ListKind: "ThingList", Plural: "things", Singular: "thing"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: props},
			}},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{StoredVersions: []string{"v1"}},
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(given)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&given.Spec)
	definition := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(given, definition, nil); err != nil {
		return nil, fmt.Errorf("the schema cannot be read: %w", err)
	}
	return definition, nil
}

// check does what the API server does after all other validation.
func (r *rules) check(o, old map[string]any) field.ErrorList {
	if r.validator == nil {
		return nil
	}
	var before any // not a nil map in an interface, which the validator would take for an object
	var options []schemacel.Option
	if old != nil {
		before = old
		options = append(options, schemacel.WithRatcheting(common.NewCorrelatedObject(o, old, &model.Structural{Structural: r.schema})))
	}
	errs, _ := r.validator.Validate(context.Background(), nil, r.schema, o, before, celconfig.RuntimeCELCostBudget, options...)
	return errs
}
