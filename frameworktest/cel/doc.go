// Package cel evaluates the CEL rules of CustomResourceDefinitions (x-kubernetes-validations) in
// the tests of package frameworktest:
//
//	frameworktest.Scenario{CRDs: "config/crd/bases", Rules: cel.Rules, …}
//
// It is the API server's own code, so it gives the API server's own answers: transition rules
// (oldSelf), optionalOldSelf, messageExpression, reason and fieldPath, costs, and ratcheting, which
// lets a field stay that an earlier definition allowed. It is a module of its own because CEL and
// the API server's libraries are large: who has no rules does not get them into their go.sum.
//
// # What it does not do
//
// Admission policies (ValidatingAdmissionPolicy) are not part of a definition; for them there is
// frameworktest.OnServer.
package cel
