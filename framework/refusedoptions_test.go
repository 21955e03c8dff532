package framework_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
)

// TestC99AWriteRefusesAnOptionThatItCannotCarryOut: left out in silence, it would do something else
// than it reads. A matcher is for what may be there already.
func TestC99AWriteRefusesAnOptionThatItCannotCarryOut(t *testing.T) {
	matcher := framework.MatchedBy(func(_, _ *corev1.ConfigMap) bool { return true })
	there := configMapOf(newPage("default", "there"), "1")
	writes := map[string]func(context.Context, *pageContext, ...framework.WriteOption) error{
		"apply": func(ctx context.Context, c *pageContext, options ...framework.WriteOption) error {
			_, err := framework.Apply(ctx, c, there, options...)
			return err
		},
		"create": func(ctx context.Context, c *pageContext, options ...framework.WriteOption) error {
			_, err := framework.Create(ctx, c, there, options...)
			return err
		},
		"update": func(ctx context.Context, c *pageContext, options ...framework.WriteOption) error {
			_, err := framework.Update(ctx, c, there, options...)
			return err
		},
		"patch": func(ctx context.Context, c *pageContext, options ...framework.WriteOption) error {
			_, err := framework.MergePatch(ctx, c, there, []byte("{}"), options...)
			return err
		},
		"delete": func(ctx context.Context, c *pageContext, options ...framework.WriteOption) error {
			return framework.Delete(ctx, c, there, options...)
		},
	}
	for option, refused := range map[string]struct {
		option framework.WriteOption
		by     []string
	}{
		"MatchedBy":          {matcher, []string{"create", "update", "patch", "delete"}},
		"Propagation":        {framework.Propagation(metav1.DeletePropagationOrphan), []string{"apply", "create", "update", "patch"}},
		"GracePeriodSeconds": {framework.GracePeriodSeconds(1), []string{"apply", "create", "update", "patch"}},
		"IfUnchanged":        {framework.IfUnchanged(), []string{"apply", "create", "update", "patch"}},
		"WithoutForce":       {framework.WithoutForce(), []string{"create", "update", "patch", "delete"}},
		"Subresource":        {framework.Subresource("status"), []string{"apply", "create", "delete"}},
		"OwnedByPrimary":     {framework.OwnedByPrimary(), []string{"update", "patch", "delete"}},
	} {
		t.Run(option, func(t *testing.T) {
			r := looking(func(ctx context.Context, _ *Page, c *pageContext) string {
				var errs []error
				for _, name := range refused.by {
					err := writes[name](ctx, c, refused.option)
					if err == nil || !strings.Contains(err.Error(), "the option "+option+" does not apply") {
						errs = append(errs, errors.New(name+" says "+errorText(err)))
					}
				}
				return errorText(errors.Join(errs...))
			})
			inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
				v.createPage("p", "a")
				v.pass(time.Second)
				if r.found[0] != "p: no error" {
					t.Error(r.found[0])
				}
			})
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}
