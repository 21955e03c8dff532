package controllerruntime

import (
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/evenkeel/evenkeel/controllerruntime/builder"
	"github.com/evenkeel/evenkeel/controllerruntime/internal/bridge"
	"github.com/evenkeel/evenkeel/framework"
)

// Aliases of controller-runtime.
type (
	// Builder builds controllers.
	Builder = builder.Builder
	// Request is the name of a primary.
	Request = ctrl.Request
	// Result is the result of a reconciler.
	Result = ctrl.Result
	// Manager is a manager of controller-runtime.
	Manager = ctrl.Manager
	// Options are the options of a manager.
	Options = ctrl.Options
	// ObjectMeta is the metadata of an object.
	ObjectMeta = ctrl.ObjectMeta
	// TypeMeta is the kind of an object.
	TypeMeta = ctrl.TypeMeta
	// GroupVersion is a group and its version.
	GroupVersion = ctrl.GroupVersion
	// GroupResource is a resource and its group.
	GroupResource = ctrl.GroupResource
)

// Functions and variables of controller-runtime, unchanged.
var (
	GetConfig              = ctrl.GetConfig
	GetConfigOrDie         = ctrl.GetConfigOrDie
	RegisterFlags          = ctrl.RegisterFlags
	SetupSignalHandler     = ctrl.SetupSignalHandler
	SetControllerReference = ctrl.SetControllerReference
	CreateOrUpdate         = ctrl.CreateOrUpdate
	CreateOrPatch          = ctrl.CreateOrPatch
	Log                    = ctrl.Log
	LoggerFrom             = ctrl.LoggerFrom
	LoggerInto             = ctrl.LoggerInto
	SetLogger              = ctrl.SetLogger
)

// NewManager returns a manager of controller-runtime whose controllers, if they are built by this
// package, run in an operator of the framework. Its client must be used by their reconcilers. An
// option that cannot be honoured is an error.
func NewManager(config *rest.Config, options Options) (Manager, error) {
	m, err := bridge.NewManager(config, options)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// NewControllerManagedBy returns a builder of a controller. The manager must be made by
// [NewManager].
func NewControllerManagedBy(m Manager) *Builder { return builder.ControllerManagedBy(m) }

// OperatorOf returns the operator of a manager that was made by [NewManager], nil for another one.
// Controllers of the framework may be registered with it, too, before the manager is started.
func OperatorOf(m Manager) *framework.Operator {
	if m, is := m.(*bridge.Manager); is {
		return m.Operator()
	}
	return nil
}

// AddOperator lets any manager of controller-runtime run an operator beside its own controllers, on
// the leader. Scheme and Logger are the manager's unless options have them. The manager elects.
// register is called with the operator, to register its controllers.
func AddOperator(m manager.Manager, options framework.OperatorOptions, register ...func(*framework.Operator) error) error {
	return bridge.AddOperator(m, options, register...)
}
