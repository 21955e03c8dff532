package framework

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/framework/internal/source"
)

// owns says, once for each kind, that owned objects are written that no secondary of the controller watches: nobody would notice
// when others change or delete them.
func (c *controller) owns(gvk schema.GroupVersionKind) {
	if c.watches(gvk.GroupKind()) {
		return
	}
	if _, told := c.unwatched.LoadOrStore(gvk.GroupKind(), true); !told {
		c.operator.logger.Info("owned objects are written of a kind that the controller does not watch: what others do with them makes no primary due; "+
			"add a framework.Secondary of the kind to ControllerOptions.Secondaries",
			"controller", c.name, "controllerGroup", c.gvk.Group, "controllerKind", c.gvk.Kind, "group", gvk.Group, "version", gvk.Version, "kind", gvk.Kind)
	}
}

// watches reports whether a secondary of the controller is of the kind, in any version. Those that come and go count.
func (c *controller) watches(kind schema.GroupKind) bool {
	of := func(all []source.Description) bool {
		for i := range all {
			if all[i].Cluster == c.operator.cluster && all[i].GVK.GroupKind() == kind {
				return true
			}
		}
		return false
	}
	if of(c.secondaries) {
		return true
	}
	for _, d := range c.workflow.dormant {
		if d.given != nil && d.description.GVK.GroupKind() == kind {
			return true
		}
	}
	return of(c.added.secondaries())
}
