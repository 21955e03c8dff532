package plan_test

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/plan"
)

// The main of an operator prints the plan, and ends with its exit code.
func ExampleRun() {
	config := clusterWith(configMap("hello", "old"), somePage("hello"))
	register := registerPages(func(ctx context.Context, p *page, c *pageContext) error {
		_, err := framework.Apply(ctx, c, configMap(p.Name, "new"))
		return err
	})
	options := framework.OperatorOptions{Scheme: scheme, Logger: logr.Discard()}
	report, err := plan.Run(context.Background(), config, options, register, plan.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(report)
	fmt.Println("exit code", report.ExitCode())
	// Output:
	// update ConfigMap default/hello, by webpage default/hello
	//   data:
	// -   key: old
	// +   key: new
	//
	// 0 to create, 1 to update, 0 to delete; primaries: webpage 1/1
	// exit code 2
}
