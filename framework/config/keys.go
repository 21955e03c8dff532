package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/framework"
)

// binding is a key and the function that sets its field.
type binding struct {
	key string
	set func(value string) error
}

// OperatorKeys returns the keys after "operator.", in the order of the options.
func OperatorKeys() []string { return keysOf(ofOperator(&framework.OperatorOptions{})) }

// ControllerKeys returns the keys after "controllers." and the name of a controller, in the order
// of the options.
func ControllerKeys() []string {
	return keysOf(ofController((&framework.ControllerOptions[*unstructured.Unstructured]{}).Settings()))
}

func keysOf(bindings []binding) []string {
	keys := make([]string, len(bindings))
	for i, b := range bindings {
		keys[i] = b.key
	}
	return keys
}

func ofOperator(o *framework.OperatorOptions) []binding {
	e := &o.LeaderElection
	return []binding{
		{"name", text(&o.Name)},
		{"namespaces", list(&o.Namespaces)},
		{"syncTimeout", duration(&o.SyncTimeout)},
		{"startPolicy", oneOf(&o.StartPolicy, map[string]framework.StartPolicy{
			"WaitForKinds": framework.WaitForKinds, "FailStart": framework.FailStart, "WaitForAll": framework.WaitForAll,
		})},
		{"staleAfter", duration(&o.StaleAfter)},
		{"grace", duration(&o.Grace)},
		{"leaderElection.mode", oneOf(&e.Mode, map[string]framework.ElectionMode{
			"InCluster": framework.InCluster, "Always": framework.Always, "Never": framework.Never,
		})},
		{"leaderElection.name", text(&e.Name)},
		{"leaderElection.namespace", text(&e.Namespace)},
		{"leaderElection.identity", text(&e.Identity)},
		{"leaderElection.leaseDuration", duration(&e.LeaseDuration)},
		{"leaderElection.renewDeadline", duration(&e.RenewDeadline)},
		{"leaderElection.retryPeriod", duration(&e.RetryPeriod)},
	}
}

func ofController(c framework.ControllerSettings) []binding {
	modes := map[string]framework.WriteMode{"ByPatch": framework.ByPatch, "ByApply": framework.ByApply}
	return []binding{
		{"namespaces", list(c.Namespaces)},
		{"labelSelector", text(c.LabelSelector)},
		{"fieldSelector", text(c.FieldSelector)},
		{"allGenerations", boolean(c.AllGenerations)},
		{"finalizer", text(c.Finalizer)},
		{"fieldManager", text(c.FieldManager)},
		{"primaryWrites", oneOf(c.PrimaryWrites, modes)},
		{"secondaryWrites", oneOf(c.SecondaryWrites, modes)},
		{"retry.initial", duration(&c.Retry.Initial)},
		{"retry.factor", number(&c.Retry.Factor)},
		{"retry.max", duration(&c.Retry.Max)},
		{"retry.jitter", number(&c.Retry.Jitter)},
		{"retry.maxAttempts", integer(&c.Retry.MaxAttempts)},
		{"retry.maxElapsed", duration(&c.Retry.MaxElapsed)},
		{"maxInterval", duration(c.MaxInterval)},
		{"rateLimit.runs", integer(&c.RateLimit.Runs)},
		{"rateLimit.period", duration(&c.RateLimit.Period)},
		{"concurrency", integer(c.Concurrency)},
		{"runTimeout", duration(c.RunTimeout)},
		{"keepRecords", integer(c.KeepRecords)},
		{"keepRecordsPerPrimary", integer(c.KeepRecordsPerPrimary)},
	}
}

func text(into *string) func(string) error {
	return func(value string) error { *into = value; return nil }
}

func list(into *[]string) func(string) error {
	return func(value string) error {
		*into = nil
		if strings.TrimSpace(value) == "" {
			return nil
		}
		for item := range strings.SplitSeq(value, ",") {
			*into = append(*into, strings.TrimSpace(item))
		}
		return nil
	}
}

func duration(into *time.Duration) func(string) error {
	return parsed(into, time.ParseDuration, "must be a duration, as in 1m30s")
}

func integer(into *int) func(string) error {
	return parsed(into, strconv.Atoi, "must be a whole number")
}

func number(into *float64) func(string) error {
	return parsed(into, func(value string) (float64, error) { return strconv.ParseFloat(value, 64) }, "must be a number")
}

func boolean(into *bool) func(string) error {
	return parsed(into, strconv.ParseBool, "must be true or false")
}

// parsed leaves the field unchanged if the value is invalid.
func parsed[T any](into *T, parse func(string) (T, error), must string) func(string) error {
	return func(value string) error {
		read, err := parse(strings.TrimSpace(value))
		if err != nil {
			return errors.New(must)
		}
		*into = read
		return nil
	}
}

// oneOf accepts the names of constants, in upper or lower case.
func oneOf[T any](into *T, named map[string]T) func(string) error {
	return func(value string) error {
		for name, constant := range named {
			if strings.EqualFold(name, strings.TrimSpace(value)) {
				*into = constant
				return nil
			}
		}
		return fmt.Errorf("must be one of %s", names(named))
	}
}

func names[T any](named map[string]T) string {
	return strings.Join(slices.Sorted(maps.Keys(named)), ", ")
}
