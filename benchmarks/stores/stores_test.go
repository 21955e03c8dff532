package stores_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// The environment of a contender's process.
const (
	contenderVariable = "EVENKEEL_STORES_CONTENDER"
	addressVariable   = "EVENKEEL_STORES_SERVER"
	profileVariable   = "EVENKEEL_STORES_PROFILE" // a file for its heap profile, if one is wanted
)

// TestMain is the contender's program, too.
func TestMain(m *testing.M) {
	name := os.Getenv(contenderVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	heap, err := settle(context.Background(), contenders[name], os.Getenv(addressVariable))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("heap %d peak %d\n", heap, peak())
}

// settle runs a contender until nothing happens any more, and returns the heap that is left while
// it goes on.
func settle(ctx context.Context, run contender, address string) (heap uint64, err error) {
	ctx, stop := context.WithTimeout(ctx, 5*time.Minute)
	r, ended := &reconciler{}, make(chan error, 1)
	go func() { ended <- run(ctx, &rest.Config{Host: address, QPS: -1}, r) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	every := time.NewTicker(100 * time.Millisecond) // reconcilers cannot tell that no run follows
	defer every.Stop()
	for !r.isDone() {
		select {
		case <-every.C:
		case err := <-ended:
			ended <- nil
			return 0, errors.Join(errors.New("it ended"), err)
		}
	}
	heap = live()
	if path := os.Getenv(profileVariable); path != "" {
		file, err := os.Create(path)
		if err != nil {
			return 0, err
		}
		if err := errors.Join(pprof.WriteHeapProfile(file), file.Close()); err != nil {
			return 0, err
		}
	}
	return heap, nil
}

func live() uint64 {
	var stats runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// peak is the most memory that the process had resident, in kB; 0 where the system does not tell.
func peak() (kB int) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	if _, rest, ok := strings.Cut(string(status), "VmHWM:"); ok {
		_, _ = fmt.Sscan(rest, &kB)
	}
	return kB
}

// TestFigures prints the memory of shared stores; make bench runs it.
func TestFigures(t *testing.T) {
	if os.Getenv("EVENKEEL_FIGURES") == "" {
		t.Skip("it measures; set EVENKEEL_FIGURES=1, or run make bench")
	}
	const secondaries = 100_000
	empty, full := serve(t, 0), serve(t, secondaries)
	bytes := map[string]float64{}
	for _, name := range []string{"peer", "ours", "peer stripped", "ours in pages", "ours bounded to 1000"} {
		without, _ := measure(t, name, empty)
		with, peak := measure(t, name, full)
		bytes[name] = (with - without) / secondaries
		t.Logf("%-21s %5.0f bytes of live heap for each of %d secondaries, peak %.0f MB resident", name, bytes[name], secondaries, peak/1024)
	}
	fmt.Printf("figure shared_store_memory_vs_peer %.2f\n", bytes["ours"]/bytes["peer"])
	t.Logf("target 0.60; beside the peer without managedFields %.2f, bounded %.2f", bytes["ours"]/bytes["peer stripped"], bytes["ours bounded to 1000"]/bytes["peer"])
}

// measure runs a contender in a process of its own.
func measure(t *testing.T, name, address string) (heap, peak float64) {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0])
	command.Env = append(os.Environ(), contenderVariable+"="+name, addressVariable+"="+address)
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err == nil {
		_, err = fmt.Sscanf(string(output), "heap %f peak %f", &heap, &peak)
	}
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, output)
	}
	return heap, peak
}
