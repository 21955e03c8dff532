package tracing_test

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/observe"
	"github.com/evenkeel/evenkeel/framework/tracing"
)

// The program sets up the SDK: where spans go, and which runs are sampled. The exporter is one of
// OpenTelemetry's, such as otlptracegrpc.New(ctx).
func ExampleNew() {
	run := func(ctx context.Context, config *rest.Config, exporter sdktrace.SpanExporter, register func(*framework.Operator) error) error {
		provider := sdktrace.NewTracerProvider(
			sdktrace.WithBatcher(exporter),
			sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.1))), // a tenth of all runs
			sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "webpage-operator"))),
		)
		defer func() { _ = provider.Shutdown(context.WithoutCancel(ctx)) }() // sends what is left
		otel.SetTracerProvider(provider)

		op, err := framework.NewOperator(config, framework.OperatorOptions{
			Observers: []observe.Observer{tracing.New(tracing.Options{})},
		})
		if err != nil {
			return err
		}
		if err := register(op); err != nil {
			return err
		}
		return op.Run(ctx)
	}
	_ = run
}
