package sandbox

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// ports are the ports of one control plane, all on 127.0.0.1.
type ports struct {
	etcd              int
	apiservers        []int
	controllerManager int
	scheduler         int
}

// pickPorts finds free ports. Another program can take one before the component
// binds it; the boot is then repeated with new ones. A fixed port for the first
// kube-apiserver is checked, and an error if it is taken.
func pickPorts(apiservers, fixed int) (p ports, err error) {
	// All listeners stay open until all are chosen: the same port is not given twice.
	var open []net.Listener
	defer func() {
		for _, l := range open {
			err = errors.Join(err, l.Close())
		}
	}()
	pick := func(port int) int {
		if err != nil {
			return 0
		}
		l, failed := net.Listen("tcp", address(port))
		if failed != nil {
			err = portError(port, failed)
			return 0
		}
		open = append(open, l)
		return l.Addr().(*net.TCPAddr).Port
	}
	p.apiservers = append(p.apiservers, pick(fixed))
	for len(p.apiservers) < apiservers {
		p.apiservers = append(p.apiservers, pick(0))
	}
	p.etcd, p.controllerManager, p.scheduler = pick(0), pick(0), pick(0)
	return p, err
}

func portError(port int, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("sandbox: port %d: another program listens there: %w", port, ErrPortTaken)
	}
	return fmt.Errorf("sandbox: port %d: %w", port, err)
}
