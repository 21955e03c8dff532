package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/evenkeel/evenkeel/framework"
)

// Settings are what sources say. The zero value says nothing.
type Settings struct {
	values map[string]setting // by canonical key
	used   map[string]bool
}

// setting is a value and where it stands, for errors.
type setting struct {
	value, at string
}

// Source is where settings stand: [Args], [Env], [File].
type Source func() (map[string]setting, error)

// Load reads sources; of those that set the same key, the first counts. The error names all that cannot be read.
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

// Operator returns the options with what is set for the operator. The error names every value that is not one.
func (s *Settings) Operator(options framework.OperatorOptions) (framework.OperatorOptions, error) {
	return options, s.bind("operator.", ofOperator(&options))
}

// Controller returns the options with what is set for the named controller, and the name in them. The error names every
// value that is not one.
func Controller[P framework.Object](s *Settings, name string, options framework.ControllerOptions[P]) (framework.ControllerOptions[P], error) {
	options.Name = name
	return options, s.bind("controllers."+name+".", ofController(&options))
}

// Unused returns an error that names the settings that nobody has asked for, as a typo or a controller that does not
// exist make them; nil if there are none. Call it once all controllers are registered.
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

// bind sets what there is of the keys behind a prefix.
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

// canonical is a key as environment variables have it: in capitals, the words separated by underscores.
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
