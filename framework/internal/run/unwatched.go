package run

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/framework/internal/source"
)

// owns logs, once for each kind, that owned objects are written and no secondary of the controller
// watches them. Nobody would notice when others change or delete them.
func (n *notices) owns(gvk schema.GroupVersionKind) {
	if n.watches(gvk.GroupKind()) {
		return
	}
	if _, known := n.unwatched.LoadOrStore(gvk.GroupKind(), true); !known {
		n.Operator.Logger.Info("the controller writes owned objects of a kind that it does not watch, so changes by others trigger no run:  "+
			"add a framework.Secondary of the kind to ControllerOptions.Secondaries",
			"controller", n.Name, "controllerGroup", n.GVK.Group, "controllerKind", n.GVK.Kind, "group", gvk.Group, "version", gvk.Version, "kind", gvk.Kind)
	}
}

// watches reports whether a secondary of the controller is of the kind, in any version. Dynamic
// secondaries count, too.
func (n *notices) watches(kind schema.GroupKind) bool {
	watched := n.Sources.Find(func(d *source.Description) bool {
		return d.Cluster == n.Operator.Cluster && d.GVK.GroupKind() == kind
	})
	if watched != nil {
		return true
	}
	for _, d := range n.Workflow.dormant {
		if d.given != nil && d.description.GVK.GroupKind() == kind {
			return true
		}
	}
	return false
}
