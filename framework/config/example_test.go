package config_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/config"
)

func Example() {
	// In main, these are os.Args[1:]; config.Env and config.File are other sources.
	args := []string{"--operator.namespaces=blue,green", "--controllers.page.retry.maxAttempts=5", "--operator.graze=1s"}
	settings, err := config.Load(config.Args(args))
	if err != nil {
		panic(err)
	}
	operator, err := settings.Operator(framework.OperatorOptions{})
	if err != nil {
		panic(err)
	}
	pages, err := config.Controller(settings, "page", framework.ControllerOptions[*unstructured.Unstructured]{Concurrency: 4})
	if err != nil {
		panic(err)
	}
	fmt.Println(operator.Namespaces, pages.Retry.MaxAttempts, pages.Concurrency)
	fmt.Println(settings.Unused())
	// Output:
	// [blue green] 5 4
	// config: no operator or controller has such a setting: argument --operator.graze
}
