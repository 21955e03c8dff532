package sandbox

import (
	"context"
	"net"
	"testing"
)

// TestAPortTakenMeanwhileIsReplaced boots with a choice of ports that another program
// spoils before the component binds them, and must choose again.
func TestAPortTakenMeanwhileIsReplaced(t *testing.T) {
	other, err := net.Listen("tcp", address(0))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	taken := other.Addr().(*net.TCPAddr).Port
	for name, spoil := range map[string]func(*ports){
		"of etcd":           func(p *ports) { p.etcd = taken },
		"of kube-apiserver": func(p *ports) { p.apiservers[0] = taken },
	} {
		t.Run(name, func(t *testing.T) {
			choices := 0
			plane, err := start(t.Context(), Options{Minimal: true}, func(apiservers, fixed int) (ports, error) {
				p, err := pickPorts(apiservers, fixed)
				if choices++; choices == 1 {
					spoil(&p)
				}
				return p, err
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := plane.Stop(context.Background()); err != nil {
				t.Error(err)
			}
			if choices != 2 {
				t.Errorf("ports were chosen %d times", choices)
			}
		})
	}
}
