package lease

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorization "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

// CheckRights returns an error that names the rights that the operator's user lacks to take part in
// the election. An unknown right does not count as a refusal: the election itself shows it, in
// Operator.Ready.
func (e *Election) CheckRights(ctx context.Context) error {
	reviews, err := authorizationclient.NewForConfigAndClient(e.config, e.http)
	if err != nil {
		return fmt.Errorf("framework: leader election: %w", err)
	}
	var missing, reasons []string
	for _, verb := range []string{"get", "create", "update"} {
		review, err := reviews.SelfSubjectAccessReviews().Create(ctx, e.review(verb), metav1.CreateOptions{})
		switch {
		case err != nil:
			e.logger.V(1).Info("cannot check the rights to the lease", "verb", verb, "error", err.Error())
		case !review.Status.Allowed:
			missing = append(missing, verb)
			if said := review.Status.Reason; said != "" && !slices.Contains(reasons, said) {
				reasons = append(reasons, said)
			}
		}
	}
	if slices.Equal(missing, []string{"create"}) && e.exists(ctx) {
		return nil // somebody else created it
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("framework: leader election: %s: not allowed to %s: grant the operator get, create and update on leases.%s in that namespace, or set LeaderElection.Mode to Never%s",
		e.Describe(), strings.Join(missing, ", "), coordinationv1.GroupName, because(reasons))
}

// because returns the API server's reasons, in brackets.
func because(reasons []string) string {
	if len(reasons) == 0 {
		return ""
	}
	return " (" + strings.Join(reasons, "; ") + ")"
}

// review returns a review of one verb. A name cannot restrict a create.
func (e *Election) review(verb string) *authorization.SelfSubjectAccessReview {
	attributes := &authorization.ResourceAttributes{
		Namespace: e.options.Namespace, Name: e.options.Name, Verb: verb,
		Group: coordinationv1.GroupName, Version: coordinationv1.SchemeGroupVersion.Version, Resource: "leases",
	}
	if verb == "create" {
		attributes.Name = ""
	}
	return &authorization.SelfSubjectAccessReview{Spec: authorization.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes}}
}

// exists reports whether the lease exists.
func (e *Election) exists(ctx context.Context) bool {
	_, err := e.client.Leases(e.options.Namespace).Get(ctx, e.options.Name, metav1.GetOptions{})
	return err == nil
}
