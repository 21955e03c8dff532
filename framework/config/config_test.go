package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/config"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
)

type options = framework.ControllerOptions[*unstructured.Unstructured]

func file(t *testing.T, content string) config.Source {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.File(path)
}

func load(t *testing.T, sources ...config.Source) *config.Settings {
	t.Helper()
	s, err := config.Load(sources...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func fails(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v, want %q in it", err, part)
		}
	}
}

const everything = `
operator:
  name: pages
  namespaces: [a, b]
  syncTimeout: 1m
  startPolicy: WaitForAll
  staleAfter: 4m
  grace: 5s
  leaderElection:
    mode: Never
    name: lease
    namespace: system
    identity: me
    leaseDuration: 30s
    renewDeadline: 20s
    retryPeriod: 3s
controllers:
  web-page:
    namespaces: c
    labelSelector: a=b
    fieldSelector: metadata.name=x
    allGenerations: true
    finalizer: example.com/done
    fieldManager: pages
    primaryWrites: byApply
    secondaryWrites: ByPatch
    retry: {initial: 1s, factor: 1.5, max: 1m, jitter: 0.2, maxAttempts: 7, maxElapsed: 1h}
    maxInterval: 2h
    rateLimit:
      runs: 3
      period: 1s
    concurrency: 4
    runTimeout: 90s
    keepRecords: 1000000
    keepRecordsPerPrimary: 5
`

func TestC105AFileSetsEveryOption(t *testing.T) {
	s := load(t, file(t, everything))
	operator, err := s.Operator(framework.OperatorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := framework.OperatorOptions{
		Name: "pages", Namespaces: []string{"a", "b"}, SyncTimeout: time.Minute, StartPolicy: framework.WaitForAll,
		StaleAfter: 4 * time.Minute, Grace: 5 * time.Second, LeaderElection: framework.LeaderElection{
			Mode: framework.Never, Name: "lease", Namespace: "system", Identity: "me",
			LeaseDuration: 30 * time.Second, RenewDeadline: 20 * time.Second, RetryPeriod: 3 * time.Second,
		},
	}
	if !reflect.DeepEqual(operator, want) {
		t.Errorf("%+v\nwant %+v", operator, want)
	}
	controller, err := config.Controller(s, "web-page", options{Retry: retry.JOSDK()})
	if err != nil {
		t.Fatal(err)
	}
	wanted := options{
		Name: "web-page", Namespaces: []string{"c"}, LabelSelector: "a=b", FieldSelector: "metadata.name=x", AllGenerations: true,
		Finalizer: "example.com/done", FieldManager: "pages", PrimaryWrites: framework.ByApply, SecondaryWrites: framework.ByPatch,
		Retry: retry.Policy{
			Initial: time.Second, Factor: 1.5, Max: time.Minute, Jitter: 0.2, MaxAttempts: 7, MaxElapsed: time.Hour, Steady: retry.JOSDK().Steady,
		},
		MaxInterval: 2 * time.Hour, RateLimit: scheduler.RateLimit{Runs: 3, Period: time.Second}, Concurrency: 4,
		RunTimeout: 90 * time.Second, KeepRecords: 1000000, KeepRecordsPerPrimary: 5,
	}
	if !reflect.DeepEqual(controller, wanted) {
		t.Errorf("%+v\nwant %+v", controller, wanted)
	}
	if err := s.Unused(); err != nil {
		t.Error(err)
	}
}

// TestC105VariablesAreKeysInCapitals: those of another prefix, and others of this one, are not
// read.
func TestC105VariablesAreKeysInCapitals(t *testing.T) {
	variables := map[string]string{
		"retry.maxAttempts": "CONTROLLERS_WEB_PAGE_RETRY_MAX_ATTEMPTS", "keepRecordsPerPrimary": "CONTROLLERS_WEB_PAGE_KEEP_RECORDS_PER_PRIMARY",
	}
	for key, variable := range variables {
		t.Run(key, func(t *testing.T) {
			t.Setenv("PAGES_"+variable, "3")
			t.Setenv("OTHER_"+variable, "4")
			t.Setenv("PAGES_URL", "no setting")
			s := load(t, config.Env("PAGES"))
			got, err := config.Controller(s, "web-page", options{})
			if err != nil || got.Retry.MaxAttempts+got.KeepRecordsPerPrimary != 3 {
				t.Errorf("%+v, %v", got, err)
			}
			if err := s.Unused(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestC105TheFirstSourceCounts(t *testing.T) {
	t.Setenv("PAGES_OPERATOR_GRACE", "2s")
	t.Setenv("PAGES_OPERATOR_SYNC_TIMEOUT", "2s")
	args := config.Args([]string{"serve", "--verbose", "--operator.grace=0s", "-operator.grace=1s", "--operator.name=a=b"})
	s := load(t, args, config.Env("PAGES"), file(t, "operator: {grace: 3s, syncTimeout: 3s, staleAfter: 3s}"))
	got, err := s.Operator(framework.OperatorOptions{StaleAfter: time.Minute, Namespaces: []string{"author's"}})
	want := framework.OperatorOptions{
		Grace: time.Second, SyncTimeout: 2 * time.Second, StaleAfter: 3 * time.Second, Name: "a=b", Namespaces: []string{"author's"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

func TestC105WhatIsNotSetStaysAsTheAuthorWroteIt(t *testing.T) {
	author := options{Concurrency: 3, Retry: retry.Never(), Namespaces: []string{"a"}}
	got, err := config.Controller(load(t, file(t, "controllers: {other: {concurrency: 5}, page: {concurrency: null}}")), "page", author)
	author.Name = "page"
	if err != nil || !reflect.DeepEqual(got, author) {
		t.Errorf("%+v, %v, want %+v", got, err, author)
	}
	got, err = config.Controller(load(t, file(t, "controllers: {page: {namespaces: []}}")), "page", author)
	if err != nil || got.Namespaces != nil {
		t.Errorf("%q, %v: an empty list replaces one", got.Namespaces, err)
	}
}

func TestC105WhatIsNoValueIsNamedWithItsPlace(t *testing.T) {
	t.Setenv("PAGES_OPERATOR_GRACE", "soon")
	s := load(t, config.Env("PAGES"), file(t, "operator: {startPolicy: Hope}\ncontrollers: {page: {concurrency: 1.5, allGenerations: maybe, retry: {factor: x}}}"))
	_, err := s.Operator(framework.OperatorOptions{})
	fails(t, err, `environment variable PAGES_OPERATOR_GRACE: "soon": must be a duration`,
		`config.yaml: operator.startPolicy: "Hope": must be one of FailStart, WaitForAll, WaitForKinds`)
	got, err := config.Controller(s, "page", options{Concurrency: 2})
	fails(t, err, `controllers.page.concurrency: "1.5": must be a whole number`, `"maybe": must be true or false`, `retry.factor: "x": must be a number`)
	if got.Concurrency != 2 {
		t.Errorf("%d is set", got.Concurrency)
	}
}

func TestC105SettingsThatNobodyHasAreNamed(t *testing.T) {
	t.Setenv("PAGES_OPERATOR_GRACES", "1s")
	s := load(t, config.Env("PAGES"), config.Args([]string{"--controllers.pages.retry.maxAttempts=1"}), file(t, "controllers: {page: {concurency: 1}}"))
	if _, err := s.Operator(framework.OperatorOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := config.Controller(s, "page", options{}); err != nil {
		t.Error(err)
	}
	fails(t, s.Unused(), "PAGES_OPERATOR_GRACES", "argument --controllers.pages.retry.maxAttempts", "config.yaml: controllers.page.concurency")
}

func TestC105SourcesThatCannotBeReadAreNamed(t *testing.T) {
	_, err := config.Load(config.File("/does/not/exist"), config.Env(""), config.Args([]string{"--operator.grace"}),
		file(t, "operators: {}"), file(t, "operator: {grace: 1s, grace: 2s}"), file(t, "- a"),
		file(t, "operator: {syncTimeout: 1s, sync-timeout: 2s}"))
	fails(t, err, "operator.syncTimeout: occurs twice, also as operator.sync-timeout", "/does/not/exist", "the prefix is empty", `"--operator.grace": no value`, "operators: must be operator or controllers", "grace", "cannot unmarshal array")
}

func TestC105KeysAreThoseThatAreSet(t *testing.T) {
	for _, key := range append(config.OperatorKeys(), config.ControllerKeys()...) {
		last := key[strings.LastIndex(key, ".")+1:]
		if !strings.Contains(everything, last+":") {
			t.Errorf("%s is not among those that the test sets", key)
		}
	}
}

func TestTheZeroSettingsSayNothing(t *testing.T) {
	var s config.Settings
	if got, err := s.Operator(framework.OperatorOptions{Grace: 1}); err != nil || got.Grace != 1 || s.Unused() != nil {
		t.Error(got, err, s.Unused())
	}
}
