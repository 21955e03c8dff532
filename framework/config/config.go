package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/evenkeel/evenkeel/framework"
)

// Settings are the settings of several sources. The zero value has none.
type Settings struct {
	values map[string]setting // by canonical key
	used   map[string]bool
}

// setting is a value and its location, for errors.
type setting struct {
	value, at string
}

// Source reads settings: [Args], [Env], [File].
type Source func() (map[string]setting, error)

// Load reads the sources. If several set the same key, the first one counts. The error names
// everything that cannot be read.
func Load(sources ...Source) (*Settings, error) {
	s := &Settings{values: map[string]setting{}, used: map[string]bool{}}
	var errs []error
	for _, source := range sources {
		found, err := source()
		errs = append(errs, err)
		for key, value := range found {
			if _, taken := s.values[key]; !taken {
				s.values[key] = value
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

// Operator returns the options with the operator's settings applied. The error names every invalid
// value.
func (s *Settings) Operator(options framework.OperatorOptions) (framework.OperatorOptions, error) {
	return options, s.bind("operator.", ofOperator(&options))
}

// Configure applies the settings of the named controller: set it as
// [framework.OperatorOptions.Configure]. The error names every invalid value.
func (s *Settings) Configure(controller string, settings framework.ControllerSettings) error {
	return s.bind("controllers."+controller+".", ofController(settings))
}

// Controller returns the options with the settings of the named controller applied, and with its
// name, for a controller of an operator without Configure. The error names every invalid value.
func Controller[P framework.Object](s *Settings, name string, options framework.ControllerOptions[P]) (framework.ControllerOptions[P], error) {
	options.Name = name
	err := s.Configure(name, options.Settings())
	return options, err
}

// Unused returns an error that names the settings that were not used, because of a typo or a
// controller that does not exist; nil if there are none. Call it after all controllers were
// registered.
func (s *Settings) Unused() error {
	var unused []string
	for key, value := range s.values {
		if !s.used[key] {
			unused = append(unused, value.at)
		}
	}
	if len(unused) == 0 {
		return nil
	}
	slices.Sort(unused)
	return fmt.Errorf("config: no operator or controller has such a setting: %s", strings.Join(unused, ", "))
}

// bind applies the settings with a prefix.
func (s *Settings) bind(prefix string, bindings []binding) error {
	var errs []error
	for _, b := range bindings {
		key := canonical(prefix + b.key)
		found, ok := s.values[key]
		if !ok {
			continue
		}
		s.used[key] = true
		if err := b.set(found.value); err != nil {
			errs = append(errs, fmt.Errorf("config: %s: %q: %w", found.at, found.value, err))
		}
	}
	return errors.Join(errs...)
}

// canonical returns a key in the form of environment variables: in capitals, the words separated by
// underscores.
func canonical(key string) string {
	var b strings.Builder
	for i, r := range key {
		switch {
		case r == '.' || r == '-':
			r = '_'
		case unicode.IsUpper(r) && i > 0 && unicode.IsLower(rune(key[i-1])):
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return b.String()
}
