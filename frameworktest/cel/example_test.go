package cel_test

import (
	"fmt"

	"github.com/evenkeel/evenkeel/frameworktest"
	"github.com/evenkeel/evenkeel/frameworktest/cel"
)

// A scenario names the function, and the test kit calls it.
func ExampleRules() {
	_ = frameworktest.Scenario{CRDs: "config/crd/bases", Rules: cel.Rules /* , Register, Story … */}

	check, err := cel.Rules([]byte(`{"type":"object","properties":{
		"owner":{"type":"string","x-kubernetes-validations":[{"rule":"self == oldSelf","message":"the owner stays"}]}}}`))
	if err != nil {
		panic(err)
	}
	fmt.Println(check(map[string]any{"owner": "you"}, map[string]any{"owner": "me"}).ToAggregate())
	// Output: owner: Invalid value: "you": the owner stays
}
