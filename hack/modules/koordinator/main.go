// Command koordinator-quota puts Koordinator's own quota manager to work on a
// tree that the bench wrote down, through what the manager exports, and says
// how long each step took. Timing only: nothing of it is used.
//
//	koordinator-quota TREE.json < commands > nanoseconds
//
// Commands, one a line: `build` makes the manager anew with every quota and
// every request and refreshes all; `total CPU MEMORY` changes what there is and
// refreshes all; `leaf NAME CPU MEMORY` changes one leaf's request and refreshes
// that leaf; `runtime NAME` says what a quota has, instead of a time. cpu is in
// milli, memory in bytes.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/koordinator-sh/koordinator/apis/extension"
	"github.com/koordinator-sh/koordinator/apis/thirdparty/scheduler-plugins/pkg/apis/scheduling/v1alpha1"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/plugins/elasticquota/core"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

type amounts struct {
	CPU    int64 `json:"cpu"`
	Memory int64 `json:"memory"`
}

func (a amounts) list() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(a.CPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(a.Memory, resource.BinarySI),
	}
}

type quota struct {
	Name     string  `json:"name"`
	Parent   string  `json:"parent"`
	IsParent bool    `json:"isParent"`
	Min      amounts `json:"min"`
	Max      amounts `json:"max"`
	Request  amounts `json:"request"`
}

type tree struct {
	Total  amounts `json:"total"`
	Quotas []quota `json:"quotas"` // parents before their children
}

type bench struct {
	tree    tree
	objects []*v1alpha1.ElasticQuota
	pods    map[string]*corev1.Pod
	total   amounts
	manager *core.GroupQuotaManager
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(path string) error {
	written, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	b := &bench{}
	if err := json.Unmarshal(written, &b.tree); err != nil {
		return err
	}
	for _, one := range b.tree.Quotas {
		b.objects = append(b.objects, object(one))
	}
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		var name string
		if _, err := fmt.Sscanf(commands.Text(), "runtime %s", &name); err == nil {
			has := b.manager.RefreshRuntime(name)
			fmt.Println(has.Cpu().MilliValue(), has.Memory().Value())
			continue
		}
		took, err := b.do(commands.Text())
		if err != nil {
			return err
		}
		fmt.Println(took.Nanoseconds())
	}
	return commands.Err()
}

func (b *bench) do(line string) (time.Duration, error) {
	var name string
	var given amounts
	if line == "build" {
		return b.build(), nil
	}
	if _, err := fmt.Sscanf(line, "total %d %d", &given.CPU, &given.Memory); err == nil {
		return b.resize(given), nil
	}
	if _, err := fmt.Sscanf(line, "leaf %s %d %d", &name, &given.CPU, &given.Memory); err == nil {
		return b.change(name, given), nil
	}
	return 0, fmt.Errorf("no command: %q", line)
}

func (b *bench) build() time.Duration {
	b.pods = map[string]*corev1.Pod{}
	for _, one := range b.tree.Quotas {
		if !one.IsParent {
			b.pods[one.Name] = pod(one.Name, one.Request)
		}
	}
	b.total = b.tree.Total
	began := time.Now()
	b.manager = core.NewGroupQuotaManager("", true, corev1.ResourceList{}, corev1.ResourceList{})
	b.manager.UpdateClusterTotalResource(b.total.list())
	// As its plugin starts: UpdateQuota, one by one, would take minutes.
	for _, one := range b.objects {
		b.manager.UpdateQuotaInfo(one)
	}
	b.manager.ResetQuota()
	for name, one := range b.pods {
		b.manager.OnPodAdd(name, one)
	}
	b.refresh()
	return time.Since(began)
}

func (b *bench) resize(total amounts) time.Duration {
	delta := amounts{total.CPU - b.total.CPU, total.Memory - b.total.Memory}.list()
	b.total = total
	began := time.Now()
	b.manager.UpdateClusterTotalResource(delta)
	b.refresh()
	return time.Since(began)
}

func (b *bench) change(name string, request amounts) time.Duration {
	before, after := b.pods[name], pod(name, request)
	b.pods[name] = after
	began := time.Now()
	b.manager.OnPodUpdate(name, name, after, before)
	b.manager.RefreshRuntime(name)
	return time.Since(began)
}

func (b *bench) refresh() {
	for _, one := range b.tree.Quotas {
		b.manager.RefreshRuntime(one.Name)
	}
}

func object(one quota) *v1alpha1.ElasticQuota {
	labels := map[string]string{extension.LabelQuotaParent: one.Parent}
	if one.IsParent {
		labels[extension.LabelQuotaIsParent] = "true"
	}
	return &v1alpha1.ElasticQuota{
		ObjectMeta: metav1.ObjectMeta{Name: one.Name, Labels: labels},
		Spec:       v1alpha1.ElasticQuotaSpec{Min: one.Min.list(), Max: one.Max.list()},
	}
}

func pod(name string, request amounts) *corev1.Pod {
	asked := corev1.ResourceRequirements{Requests: request.list()}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "bench", UID: types.UID(name)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: asked}}},
	}
}
