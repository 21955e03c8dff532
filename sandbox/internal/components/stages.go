package components

import (
	"fmt"
	"io"
	"os"
	"strings"

	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodeheartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

// Values of kwok's --config that name the stages that come with kwok instead of a
// file. Package sandbox uses them, so that it need not import kwok's module.
const (
	// builtinNodes: a node becomes Ready at once and keeps its heartbeat.
	builtinNodes = "--config=sandbox:nodes"
	// builtinPods: a pod runs, completes (of a Job) and goes as soon as it may.
	builtinPods = "--config=sandbox:pods"
)

// builtinStages takes the built-in stages out of kwok's arguments and returns the
// other arguments and the stages as YAML, "" if there are none.
func builtinStages(arguments []string) (others []string, yaml string) {
	var documents []string
	for _, argument := range arguments {
		switch argument {
		case builtinNodes:
			documents = append(documents, nodefast.DefaultNodeInit, nodeheartbeat.DefaultNodeHeartbeatWithLease)
		case builtinPods:
			documents = append(documents, podfast.DefaultPodReady, podfast.DefaultPodComplete, podfast.DefaultPodDelete)
		default:
			others = append(others, argument)
		}
	}
	return others, strings.Join(documents, "\n---\n")
}

// feedStages makes kwok read the built-in stages named in os.Args from its
// standard input, which spares a temporary file that a killed kwok would leave.
func feedStages() error {
	arguments, yaml := builtinStages(os.Args)
	if yaml == "" {
		return nil
	}
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("pipe for the stages: %w", err)
	}
	os.Stdin = read
	os.Args = append(arguments, "--config=-")
	go func() {
		defer write.Close()
		// The only reader is this process: if it stops reading, it has already
		// failed for a reason of its own.
		_, _ = io.WriteString(write, yaml)
	}()
	return nil
}
