package ready_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework/ready"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

func TestEverySaysOfASetWhatHoldsItBackMost(t *testing.T) {
	verdicts := map[string]workflow.Verdict{
		"ready": workflow.Met(), "slow": workflow.NotMet("is starting"), "slower": workflow.NotMet("is pulled"), "stuck": workflow.Stalled("has failed"),
	}
	ready := ready.Every(func(p *corev1.Pod) workflow.Verdict { return verdicts[p.Name] })
	for _, c := range []struct {
		name string
		pods []string
		want workflow.Verdict
	}{
		{"a set of none", nil, workflow.Met()},
		{"all are ready", []string{"ready", "ready"}, workflow.Met()},
		{"the first that is not", []string{"ready", "slow", "slower"}, workflow.NotMet("1 of 3 are ready; slow: is starting")},
		{"one that stalls before the first", []string{"slow", "stuck", "slower"}, workflow.Stalled("0 of 3 are ready; stuck: has failed")},
	} {
		t.Run(c.name, func(t *testing.T) {
			var pods []*corev1.Pod
			for _, name := range c.pods {
				pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}})
			}
			if got := ready(pods); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
