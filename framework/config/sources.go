package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Env reads environment variables that begin with PREFIX_OPERATOR_ or PREFIX_CONTROLLERS_. The
// prefix must not be empty.
func Env(prefix string) Source {
	return func() (map[string]setting, error) {
		if prefix == "" {
			return nil, errors.New("config: Env: the prefix is empty: other variables would count as settings")
		}
		found := map[string]setting{}
		for _, variable := range os.Environ() {
			name, value, _ := strings.Cut(variable, "=")
			key, ours := strings.CutPrefix(name, prefix+"_")
			if ours && (strings.HasPrefix(key, "OPERATOR_") || strings.HasPrefix(key, "CONTROLLERS_")) {
				found[key] = setting{value, "environment variable " + name}
			}
		}
		return found, nil
	}
}

// Args reads arguments of the form --operator.KEY=VALUE and --controllers.NAME.KEY=VALUE, with one
// dash or two. It ignores all others. If an argument is given twice, the last one counts, as usual.
func Args(args []string) Source {
	return func() (map[string]setting, error) {
		found := map[string]setting{}
		var errs []error
		for _, arg := range args {
			if !IsSetting(arg) {
				continue
			}
			key, value, ok := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			if !ok {
				errs = append(errs, fmt.Errorf("config: argument %q: no value: write %s=VALUE", arg, arg))
				continue
			}
			found[canonical(key)] = setting{value, "argument --" + key}
		}
		return found, errors.Join(errs...)
	}
}

// IsSetting reports whether [Args] reads an argument: dashes, and a key of the operator or of a
// controller.
func IsSetting(arg string) bool {
	key := strings.TrimLeft(arg, "-")
	return key != arg && (strings.HasPrefix(key, "operator.") || strings.HasPrefix(key, "controllers."))
}

// File reads a YAML or JSON file, which must exist. Keys other than operator and controllers are an
// error. So are keys that occur twice, in any spelling.
func File(path string) Source {
	return func() (map[string]setting, error) {
		data, err := os.ReadFile(filepath.Clean(path))
		if err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
		data, err = yaml.YAMLToJSONStrict(data)
		if err != nil {
			return nil, fmt.Errorf("config: %s: %w", path, err)
		}
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.UseNumber() // keep numbers as they are written
		var content map[string]any
		if err := decoder.Decode(&content); err != nil {
			return nil, fmt.Errorf("config: %s: %w", path, err)
		}
		found := map[string]setting{}
		return found, flatten(found, path, "", content)
	}
}

// flatten converts nested maps to keys.
func flatten(into map[string]setting, file, path string, value any) error {
	var errs []error
	text := ""
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if path == "" && key != "operator" && key != "controllers" {
				errs = append(errs, fmt.Errorf("config: %s: %s: must be operator or controllers", file, key))
				continue
			}
			errs = append(errs, flatten(into, file, strings.TrimPrefix(path+"."+key, "."), value[key]))
		}
		return errors.Join(errs...)
	case []any:
		items := make([]string, len(value))
		for i, item := range value {
			items[i] = fmt.Sprint(item)
		}
		text = strings.Join(items, ",")
	case nil:
		return nil // counts as absent
	default:
		text = fmt.Sprint(value)
	}
	if other, taken := into[canonical(path)]; taken {
		return fmt.Errorf("config: %s: %s: occurs twice, also as %s", file, path, strings.TrimPrefix(other.at, file+": "))
	}
	into[canonical(path)] = setting{text, file + ": " + path}
	return nil
}
