// Command kubernetes is every Kubernetes server that a local federation runs,
// in one binary: which one it is, is the name it was called by. One link step
// and one copy of the shared packages instead of four. kubectl is not in it:
// each start of it would cost what these servers initialise.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata" // CronJob time zones, as in the released programs

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		run(apiserver.NewAPIServerCommand())
	case "kube-controller-manager":
		run(controllermanager.NewControllerManagerCommand())
	case "kube-scheduler":
		run(scheduler.NewSchedulerCommand())
	default:
		fmt.Fprintf(os.Stderr, "%s: call me by the name of one of etcd, kube-apiserver, "+
			"kube-controller-manager, kube-scheduler\n", name)
		os.Exit(2)
	}
}

func run(command *cobra.Command) {
	os.Exit(cli.Run(command))
}
