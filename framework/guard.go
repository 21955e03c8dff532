package framework

import (
	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/trc"
)

// Mappers and filters are called where the caches are fed, and within writes: a panic there would end the
// process, or leave a cache locked. It must not take more down than the object it is about.

// guardedMapper takes a mapper that panics to map the object to nothing.
func (c *controller[P]) guardedMapper(source string, mapper eventsource.Mapper) eventsource.Mapper {
	return func(o trc.Object) (keys []trc.Key) {
		defer func() {
			if value := recover(); value != nil {
				c.panicked(source, o, value)
				keys = nil
			}
		}()
		return mapper(o)
	}
}

// guardedFilter takes a filter that panics to let the change pass: a run too many beats one too few.
func (c *controller[P]) guardedFilter(source string, filter func(old, new trc.Object) bool) func(old, new trc.Object) bool {
	if filter == nil {
		return nil
	}
	return func(old, new trc.Object) (matters bool) {
		defer func() {
			if value := recover(); value != nil {
				about := new
				if about == nil {
					about = old
				}
				c.panicked(source, about, value)
				matters = true
			}
		}()
		return filter(old, new)
	}
}

func (c *controller[P]) panicked(source string, about trc.Object, value any) {
	failure := scheduler.NewPanicError(value)
	c.operator.logger.Error(failure, "mapper or filter panicked", "controller", c.name, "source", source,
		"objectNamespace", about.GetNamespace(), "objectName", about.GetName(), "stack", string(failure.Stack))
}

// tellSources tells the author's sources of a change of a primary, whatever filters say of it.
func (c *controller[P]) tellSources(t trc.Transition) {
	for _, g := range c.guests {
		g.tell(t.Old, t.New)
	}
}

// guardedClassifier takes a classifier that panics to know nothing of the failure.
func (c *controller[P]) guardedClassifier(classify func(error) retry.Verdict) func(error) retry.Verdict {
	return func(failure error) (verdict retry.Verdict) {
		if onlyConflicts(failure) || onlyNotSynced(failure) {
			return retry.Verdict{Class: retry.Soon} // beside another refusal for now
		}
		defer func() {
			if value := recover(); value != nil {
				p := scheduler.NewPanicError(value)
				c.operator.logger.Error(p, "Retry.Classify panicked", "controller", c.name, "failure", failure.Error(), "stack", string(p.Stack))
				verdict = retry.Verdict{}
			}
		}()
		return classify(failure)
	}
}
