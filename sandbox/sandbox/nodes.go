package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
)

// nodeWorkers create nodes at the same time.
const nodeWorkers = 8

type object = map[string]any

// nodeObject is a node for kwok to simulate. kwok gives it addresses, capacity
// (1000 CPUs, 1 TiB, a million pods) and conditions.
func nodeObject(name string) object {
	return object{
		"apiVersion": "v1",
		"kind":       "Node",
		"metadata": object{
			"name":        name,
			"annotations": object{"kwok.x-k8s.io/node": "fake"},
			"labels": object{
				"kubernetes.io/arch":     "amd64",
				"kubernetes.io/hostname": name,
				"kubernetes.io/os":       "linux",
				"type":                   "kwok",
			},
		},
	}
}

// createNodes creates the nodes node-0, node-1, …; those that exist are left alone.
func createNodes(ctx context.Context, c *client, server string, count int) error {
	names := make(chan string)
	var failures []error
	var mu sync.Mutex // guards failures
	var workers sync.WaitGroup
	for range min(count, nodeWorkers) {
		workers.Go(func() {
			for name := range names {
				if err := createNode(ctx, c, server, name); err != nil {
					mu.Lock()
					failures = append(failures, err)
					mu.Unlock()
				}
			}
		})
	}
	for i := range count {
		names <- fmt.Sprintf("node-%d", i)
	}
	close(names)
	workers.Wait()
	return errors.Join(failures...)
}

func createNode(ctx context.Context, c *client, server, name string) error {
	code, body, err := c.do(ctx, http.MethodPost, server+"/api/v1/nodes", nodeObject(name))
	if err != nil {
		return fmt.Errorf("sandbox: create node %s: %w", name, err)
	}
	if code != http.StatusCreated && code != http.StatusConflict {
		return fmt.Errorf("sandbox: create node %s: %d: %s", name, code, body)
	}
	return nil
}

// releaseNodes deletes the leases by which an earlier kwok holds the nodes. It was
// killed, or is part of kept data; a new one takes itself for another, and would leave
// the nodes and their pods alone until the leases expire, after 40 s.
func releaseNodes(ctx context.Context, c *client, server string) error {
	const leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
	code, body, err := c.do(ctx, http.MethodDelete, server+leases, nil)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%d: %s", code, body)
	}
	if err != nil {
		return fmt.Errorf("sandbox: release the nodes: %w", err)
	}
	return nil
}

// nodeList is the little of a NodeList that matters here.
type nodeList struct {
	Items []struct {
		Spec struct {
			Taints []struct{ Key string }
		}
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}
}

// schedulable counts the nodes that are Ready and no longer tainted for not having
// been: from then on a pod is scheduled at once.
func (l nodeList) schedulable() int {
	count := 0
	for _, node := range l.Items {
		ready := false
		for _, condition := range node.Status.Conditions {
			ready = ready || condition.Type == "Ready" && condition.Status == "True"
		}
		for _, taint := range node.Spec.Taints {
			ready = ready && taint.Key != "node.kubernetes.io/not-ready"
		}
		if ready {
			count++
		}
	}
	return count
}

// waitNodes polls rather than watches: it happens once, for a second, and a watch
// would need the means to resume one.
func waitNodes(ctx context.Context, c *client, server string, count int) error {
	return poll(ctx, func() error {
		body, err := c.get(ctx, server+"/api/v1/nodes")
		if err != nil {
			return err
		}
		var nodes nodeList
		if err := json.Unmarshal(body, &nodes); err != nil {
			return fmt.Errorf("list nodes: %w", err)
		}
		if n := nodes.schedulable(); n < count {
			return fmt.Errorf("%d of %d nodes are ready", n, count)
		}
		return nil
	})
}
