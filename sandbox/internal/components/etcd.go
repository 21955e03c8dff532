package components

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func runEtcd() int {
	etcdmain.Main(os.Args)
	return 0
}
