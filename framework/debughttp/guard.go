package debughttp

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

// Refusal is an error of [Options].Guard with the status of the answer. Other errors are answered
// with 500, and their text stays in the operator.
type Refusal struct {
	// Code is 401 for who is not known, and 403 for who may not.
	Code int
	// Text is shown to the client.
	Text string
}

// Error returns the text.
func (r *Refusal) Error() string { return r.Text }

// guarded asks a guard first, if there is one.
func guarded(guard func(*http.Request) error, next http.Handler) http.Handler {
	if guard == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := guard(r)
		if err == nil {
			next.ServeHTTP(w, r)
			return
		}
		var refusal *Refusal
		if !errors.As(err, &refusal) || refusal == nil || refusal.Code < 400 || refusal.Code > 599 {
			refusal = &Refusal{http.StatusInternalServerError, "the request could not be checked"}
		}
		if refusal.Code == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, refusal.Text, refusal.Code)
	})
}

const (
	// passFor and refuseFor are how long an answer about a token and a path counts.
	passFor   = time.Minute
	refuseFor = 10 * time.Second
	// mostReviews bounds how many answers are kept.
	mostReviews = 1000
	// longestPath bounds the paths that are asked about.
	longestPath = 256
	// reviewsPerSecond and reviewsAtOnce bound the questions to the API server.
	reviewsPerSecond, reviewsAtOnce = 20, 50
	// reviewTime bounds one question to the API server.
	reviewTime = 10 * time.Second
)

// Review returns a guard that asks the API server who a bearer token is (TokenReview), and whether
// this user may "get" the path (SubjectAccessReview): a ClusterRole with nonResourceURLs, as
// kubebuilder's metrics-reader has. An answer counts for a minute, a refusal for 10 s. The
// operator's service account needs the ClusterRole system:auth-delegator.
func Review(config *rest.Config) (func(*http.Request) error, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.RateLimiter = reviewsPerSecond, reviewsAtOnce, nil
	tokens, err := authenticationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("debughttp: Review: %w", err)
	}
	access, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("debughttp: Review: %w", err)
	}
	r := &reviewer{tokens, access, cache.NewLRUExpireCache(mostReviews)}
	return r.check, nil
}

type reviewer struct {
	tokens  authenticationclient.AuthenticationV1Interface
	access  authorizationclient.AuthorizationV1Interface
	answers *cache.LRUExpireCache // of question: nil or a *Refusal
}

// question is a hash of a token, and of a path if it is about what the token's user may.
type question [sha256.Size]byte

func (r *reviewer) check(request *http.Request) error {
	scheme, token, _ := strings.Cut(request.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return &Refusal{http.StatusUnauthorized, "a bearer token is needed"}
	}
	path := request.URL.Path
	if len(path) > longestPath {
		return &Refusal{http.StatusForbidden, fmt.Sprintf("the path is longer than %d bytes", longestPath)}
	}
	who := question(sha256.Sum256([]byte(token)))
	about := question(sha256.Sum256([]byte(token + " " + path)))
	for _, asked := range []question{who, about} { // what is known of the token alone is that it is none
		if known, found := r.answers.Get(asked); found {
			if refusal := known.(*Refusal); refusal != nil {
				return refusal
			}
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(request.Context(), reviewTime)
	defer cancel()
	refusal, err := r.review(ctx, token, path)
	if err != nil {
		return err // which is not kept
	}
	if refusal != nil {
		if refusal.Code == http.StatusUnauthorized {
			about = who
		}
		r.answers.Add(about, refusal, refuseFor)
		return refusal
	}
	r.answers.Add(about, refusal, passFor)
	return nil
}

// review asks who the token is, and then what that user may.
func (r *reviewer) review(ctx context.Context, token, path string) (*Refusal, error) {
	who, err := r.tokens.TokenReviews().Create(ctx, &authentication.TokenReview{Spec: authentication.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("debughttp: TokenReview: %w", err)
	}
	if !who.Status.Authenticated {
		return &Refusal{http.StatusUnauthorized, "the API server does not know the bearer token"}, nil
	}
	user := who.Status.User
	extra := map[string]authorization.ExtraValue{}
	for key, value := range user.Extra {
		extra[key] = authorization.ExtraValue(value)
	}
	may, err := r.access.SubjectAccessReviews().Create(ctx, &authorization.SubjectAccessReview{Spec: authorization.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorization.NonResourceAttributes{Path: path, Verb: "get"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("debughttp: SubjectAccessReview: %w", err)
	}
	if !may.Status.Allowed {
		return &Refusal{http.StatusForbidden, fmt.Sprintf("%s may not get %s", user.Username, path)}, nil
	}
	return nil, nil
}
