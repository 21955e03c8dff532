package framework

import (
	"reflect"

	"github.com/evenkeel/evenkeel/framework/internal/source"
)

// abilitiesOf are those of a reconciler.
func abilitiesOf[P Object]() []source.Ability {
	required := reflect.TypeFor[Reconciler[P]]()
	return []source.Ability{
		{Name: "framework.Cleaner", Of: reflect.TypeFor[Cleaner[P]](), Required: required},
		{Name: "framework.ErrorStatusHandler", Of: reflect.TypeFor[ErrorStatusHandler[P]](), Required: required},
	}
}
