package apimodel

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/schemaconv"
	validationerrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// normalise makes of a decoded object what the server works on, with the defaults of this model.
func (r *resource) normalise(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	o, err := r.endpoints.normalise(o)
	if err != nil {
		return nil, err
	}
	for _, fill := range r.defaults {
		fill(o.Object)
	}
	return o, nil
}

// normalise makes of a decoded object what the server works on: unknown fields go, defaults come.
func (r *endpoints) normalise(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if !r.isTyped {
		if err := normaliseMetadata(o); err != nil {
			return nil, err
		}
	}
	switch {
	case r.Schema != nil:
		pruned := prune(o.Object, r.Schema, true).(map[string]any)
		fillDefaults(pruned, r.Schema)
		return &unstructured.Unstructured{Object: pruned}, nil
	case r.isTyped:
		typed, err := scheme.Scheme.New(r.GroupVersionKind)
		if err != nil {
			return nil, err
		}
		managers := takeManagers(o)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, typed); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if o, err = r.fromTyped(typed); err != nil || managers == nil {
			return o, err
		}
		return o, unstructured.SetNestedField(o.Object, managers, "metadata", "managedFields")
	}
	return o, nil
}

// takeManagers takes managedFields out of an object and returns them, if their Go type would leave
// them as they are: its detour costs more than all else of an object. It returns nil if they stay.
func takeManagers(o *unstructured.Unstructured) any {
	metadata, _ := o.Object["metadata"].(map[string]any)
	managers, _ := metadata["managedFields"].([]any)
	if len(managers) == 0 || slices.ContainsFunc(managers, func(m any) bool { return !isPlainManager(m) }) {
		return nil
	}
	delete(metadata, "managedFields")
	return managers
}

// isPlainManager reports whether an entry of managedFields has nothing but what its Go type keeps.
func isPlainManager(entry any) bool {
	fields, isMap := entry.(map[string]any)
	for name, value := range fields {
		text, isText := value.(string)
		switch name {
		case "manager", "operation", "apiVersion", "fieldsType", "subresource":
			if text == "" {
				return false
			}
		case "time":
			if at, err := time.Parse(time.RFC3339, text); err != nil || at.IsZero() || at.UTC().Format(time.RFC3339) != text {
				return false
			}
		case "fieldsV1":
			if _, isMap := value.(map[string]any); !isMap {
				return false
			}
			continue
		default:
			return false
		}
		if !isText {
			return false
		}
	}
	return isMap
}

// normaliseMetadata leaves of metadata what its Go type says: unknown fields and empty lists go.
func normaliseMetadata(o *unstructured.Unstructured) error {
	content, isMap := o.Object["metadata"].(map[string]any)
	if !isMap {
		return apierrors.NewBadRequest("metadata is missing")
	}
	var metadata metav1.ObjectMeta
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &metadata); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&metadata)
	o.Object["metadata"] = content
	return err
}

func (r *endpoints) fromTyped(o runtime.Object) (*unstructured.Unstructured, error) {
	if secret, ok := o.(*corev1.Secret); ok {
		foldStringData(secret)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(r.GroupVersionKind)
	return u, nil
}

// foldStringData moves stringData, which no Secret is stored with, into data.
func foldStringData(secret *corev1.Secret) {
	for key, value := range secret.StringData {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[key] = []byte(value)
	}
	secret.StringData = nil
}

// blocking are the failures after which the server checks no rules: they may be about what the
// schema excludes.
var blocking = map[field.ErrorType]bool{
	field.ErrorTypeNotSupported: true, field.ErrorTypeRequired: true, field.ErrorTypeTooLong: true,
	field.ErrorTypeTooMany: true, field.ErrorTypeTypeInvalid: true,
}

// validateRules checks what the schema of a custom resource says, and its CEL rules if the object
// fits the schema well enough.
func (r *resource) validateRules(o, old *unstructured.Unstructured) field.ErrorList {
	errs := r.validate(o)
	if r.check == nil {
		return errs
	}
	if slices.ContainsFunc(errs, func(err *field.Error) bool { return blocking[err.Type] }) {
		return append(errs, field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"))
	}
	var before map[string]any
	if old != nil {
		before = old.Object
	}
	return append(errs, r.check(o.Object, before)...)
}

// validate checks what the schema of a custom resource says but its CEL rules.
func (r *endpoints) validate(o *unstructured.Unstructured) field.ErrorList {
	if r.Schema == nil {
		return nil
	}
	var errs field.ErrorList
	for _, err := range validate.NewSchemaValidator(r.Schema, nil, "", strfmt.Default).Validate(o.Object).Errors {
		errs = append(errs, fieldError(err))
	}
	return errs
}

// fieldError says as the server does what of an object does not fit its schema.
func fieldError(err error) *field.Error {
	var wrong *validationerrors.Validation
	if !errors.As(err, &wrong) {
		return field.Invalid(nil, "", err.Error())
	}
	var path *field.Path
	if name := strings.TrimPrefix(wrong.Name, "."); name != "" {
		path = field.NewPath(name)
	}
	value := wrong.Value
	if value == nil {
		value = ""
	}
	number := func(v any) int {
		if n, is := v.(int64); is {
			return int(n)
		}
		return -1
	}
	switch wrong.Code() {
	case validationerrors.RequiredFailCode:
		return field.Required(path, "")
	case validationerrors.EnumFailCode:
		allowed := make([]string, len(wrong.Values))
		for i, v := range wrong.Values {
			allowed[i] = fmt.Sprint(v)
		}
		return field.NotSupported(path, wrong.Value, allowed)
	case validationerrors.TooLongFailCode:
		return field.TooLong(path, "", number(wrong.Valid))
	case validationerrors.MaxItemsFailCode, validationerrors.TooManyPropertiesCode:
		return field.TooMany(path, number(wrong.Value), number(wrong.Valid))
	case validationerrors.InvalidTypeCode:
		return field.TypeInvalid(path, value, err.Error())
	}
	return field.Invalid(path, value, err.Error())
}

// prune drops the fields that the schema does not know. Metadata and the type stay whole at the
// root.
func prune(v any, s *spec.Schema, root bool) any {
	switch v := v.(type) {
	case map[string]any:
		if preserves, _ := s.Extensions.GetBool("x-kubernetes-preserve-unknown-fields"); preserves {
			return v
		}
		kept := make(map[string]any, len(v))
		for name, value := range v {
			property, known := s.Properties[name]
			switch {
			case root && (name == "metadata" || name == "apiVersion" || name == "kind"):
				kept[name] = value
			case known:
				kept[name] = prune(value, &property, false)
			case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
				kept[name] = prune(value, s.AdditionalProperties.Schema, false)
			case s.AdditionalProperties != nil && s.AdditionalProperties.Allows:
				kept[name] = value
			}
		}
		return kept
	case []any:
		if s.Items == nil || s.Items.Schema == nil {
			return v
		}
		kept := make([]any, len(v))
		for i := range v {
			kept[i] = prune(v[i], s.Items.Schema, false)
		}
		return kept
	}
	return v
}

func fillDefaults(v any, s *spec.Schema) {
	switch v := v.(type) {
	case map[string]any:
		for name, property := range s.Properties {
			value, set := v[name]
			if set && value == nil && !property.Nullable { // a null that is not allowed is as good as nothing
				delete(v, name)
				set = false
			}
			if !set && property.Default != nil {
				value, set = runtime.DeepCopyJSONValue(whole(property.Default)), true
				v[name] = value
			}
			if set {
				fillDefaults(value, &property)
			}
		}
	case []any:
		for _, item := range v {
			if s.Items != nil && s.Items.Schema != nil {
				fillDefaults(item, s.Items.Schema)
			}
		}
	}
}

// whole turns the numbers of a parsed schema into those of a decoded object.
func whole(v any) any {
	if f, ok := v.(float64); ok && f == float64(int64(f)) {
		return int64(f)
	}
	return v
}

// builtInTypes is how the objects of client-go's types merge. Parsing it takes a while: once.
var builtInTypes = sync.OnceValue(func() managedfields.TypeConverter {
	return applyconfigurations.NewTypeConverter(scheme.Scheme)
})

// customType is how the objects of one custom resource merge.
type customType struct{ typed.ParseableType }

func (c customType) ObjectToTyped(o runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	return c.FromUnstructured(o.(*unstructured.Unstructured).Object, options...)
}

func (c customType) TypedToObject(value *typed.TypedValue) (runtime.Object, error) {
	content, isMap := value.AsValue().Unstructured().(map[string]any)
	if !isMap {
		return nil, fmt.Errorf("apimodel: a merged object is a %T", value.AsValue().Unstructured())
	}
	return &unstructured.Unstructured{Object: content}, nil
}

func (r *endpoints) typeConverter() (managedfields.TypeConverter, error) {
	switch {
	case r.Schema != nil:
		return newCustomType(r.Schema)
	case r.isTyped:
		return builtInTypes(), nil
	}
	return managedfields.NewDeducedTypeConverter(), nil
}

// newCustomType puts the type of metadata, which schemas of custom resources leave out, into the
// schema.
func newCustomType(custom *spec.Schema) (customType, error) {
	const name, metadata = "custom", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
	whole := *custom
	whole.Properties = map[string]spec.Schema{
		"apiVersion": *spec.StringProperty(), "kind": *spec.StringProperty(),
	}
	for property, s := range custom.Properties {
		whole.Properties[property] = s
	}
	whole.Properties["metadata"] = *spec.RefSchema("#/definitions/" + metadata)
	types, err := schemaconv.ToSchemaFromOpenAPI(map[string]*spec.Schema{name: &whole}, false)
	if err != nil {
		return customType{}, err
	}
	sample := &unstructured.Unstructured{Object: map[string]any{}}
	sample.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	known, err := builtInTypes().ObjectToTyped(sample)
	if err != nil {
		return customType{}, err
	}
	parser := &typed.Parser{}
	parser.Schema.Types = append(types.Types, known.Schema().Types...)
	return customType{parser.Type(name)}, nil
}
