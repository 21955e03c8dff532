package cli

import (
	"errors"
	"fmt"
	"runtime/debug"
	"text/tabwriter"
)

// version prints the versions of what this program was built from.
func version(s streams) int {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return fail(s.err, errors.New("sandbox: version: this program has no build information"))
	}
	modules := map[string]string{}
	for _, module := range info.Deps {
		modules[module.Path] = module.Version
	}
	table := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "sandbox\t%s\n", info.Main.Version)
	fmt.Fprintf(table, "kubernetes\t%s\n", modules["k8s.io/kubernetes"])
	fmt.Fprintf(table, "etcd\t%s\n", modules["go.etcd.io/etcd/server/v3"])
	fmt.Fprintf(table, "kwok\t%s\n", modules["sigs.k8s.io/kwok"])
	fmt.Fprintf(table, "go\t%s\n", info.GoVersion)
	if err := table.Flush(); err != nil {
		return fail(s.err, fmt.Errorf("sandbox: version: %w", err))
	}
	return 0
}
