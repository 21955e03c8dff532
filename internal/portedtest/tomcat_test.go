package portedtest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8stypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/frameworktest"
)

// tomcats reconciles Tomcats as TomcatReconciler.java of the sample tomcat-operator of the Java
// Operator SDK does: a Deployment and a Service by the workflow, and a status that counts the ready
// replicas.
type tomcats struct {
	deployment dependent.Kubernetes[*Tomcat, *appsv1.Deployment]
	service    dependent.Kubernetes[*Tomcat, *corev1.Service]
}

func (r *tomcats) Reconcile(_ context.Context, t *Tomcat, c *framework.Context[*Tomcat]) (framework.UpdateControl[*Tomcat], error) {
	deployment, err := r.deployment.Get(c)
	if err != nil || deployment == nil {
		return framework.UpdateControl[*Tomcat]{}, err
	}
	t.Status.ReadyReplicas = deployment.Status.ReadyReplicas
	return framework.PatchStatus(t), nil
}

// webapps reconciles Webapps as WebappReconciler.java does: once the Tomcat is ready, it lets each
// of its Pods download the archive. Faithful are
//
//   - that an archive counts as deployed once the status names its URL, and nothing else is asked;
//   - that a command that fails in a Pod is a line of the status, and no failure;
//   - that a cleanup lets go whatever became of its commands.
//
// What the Pods have downloaded is an external system. It keeps, for each Pod and path, the URL.
type webapps struct {
	tomcats framework.Secondary[*Tomcat]
	pods    framework.Secondary[*corev1.Pod]
	files   *frameworktest.External
	// mended says that a command that fails is a failure, and that the Pods are asked what they
	// have.
	mended bool
}

type (
	webappContext = framework.Context[*Webapp]
	webappUpdate  = framework.UpdateControl[*Webapp]
)

func registerTomcats(mended bool) func(*framework.Operator, *frameworktest.Process) error {
	return func(op *framework.Operator, p *frameworktest.Process) error {
		t := &tomcats{}
		t.deployment.Desired, t.service.Desired = dependent.Pure(tomcatDeployment), dependent.Pure(tomcatService)
		err := framework.Register(op, t, framework.ControllerOptions[*Tomcat]{
			Workflow: framework.Workflow[*Tomcat]{Dependents: []framework.Dependent[*Tomcat]{&t.deployment, &t.service}},
		})
		if err != nil {
			return err
		}
		r := &webapps{files: p.External("files"), mended: mended}
		// The original lists the Pods at the server, when it needs them. A change of one is no event.
		r.pods.Map = func(*corev1.Pod) []k8stypes.NamespacedName { return nil }
		return framework.Register(op, r, framework.ControllerOptions[*Webapp]{
			Secondaries: framework.Secondaries(framework.Referred(&r.tomcats, func(a *Webapp) []k8stypes.NamespacedName {
				return []k8stypes.NamespacedName{{Name: a.Spec.Tomcat}}
			}), &r.pods),
		})
	}
}

func (r *webapps) Reconcile(ctx context.Context, a *Webapp, c *webappContext) (webappUpdate, error) {
	if a.Status.DeployedArtifact == a.Spec.URL && !r.mended {
		return webappUpdate{}, nil
	}
	tomcat, err := r.tomcats.Get(c)
	if err != nil {
		return webappUpdate{}, err
	}
	if tomcat == nil {
		return webappUpdate{}, fmt.Errorf("there is no Tomcat %s", a.Spec.Tomcat)
	}
	if tomcat.Spec.Replicas != tomcat.Status.ReadyReplicas {
		return webappUpdate{}, nil
	}
	results, err := r.inAllPods(ctx, c, a, "download", func(file string) error { return r.download(ctx, file, a.Spec.URL) })
	if err != nil {
		return webappUpdate{}, err
	}
	a.Status = WebappStatus{DeployedArtifact: a.Spec.URL, DeploymentStatus: results}
	return framework.PatchStatus(a), nil
}

func (r *webapps) Cleanup(ctx context.Context, a *Webapp, c *webappContext) (framework.DeleteControl, error) {
	if _, err := r.inAllPods(ctx, c, a, "rm", func(file string) error { return drop(ctx, r.files, file) }); err != nil {
		return framework.DeleteControl{}, err
	}
	return framework.RemoveFinalizer(), nil
}

// inAllPods runs a command in all Pods of the Tomcat, and returns what became of it in each.
func (r *webapps) inAllPods(ctx context.Context, c *webappContext, a *Webapp, name string, command func(file string) error) ([]string, error) {
	pods, err := r.podsOf(ctx, c, a)
	if err != nil {
		return nil, err
	}
	var results []string
	for _, pod := range pods {
		err := command(pod.Namespace + "/" + pod.Name + ":/data/" + a.Spec.ContextPath + ".war")
		switch {
		case err != nil && r.mended:
			return nil, fmt.Errorf("%s in %s: %w", name, pod.Name, err)
		case err != nil:
			results = append(results, pod.Name+": ExecutionException - "+err.Error())
		default:
			results = append(results, pod.Name+":"+name)
		}
	}
	return results, nil
}

// podsOf lists the Pods of the Tomcat, at the server as the original does.
func (r *webapps) podsOf(ctx context.Context, c *webappContext, a *Webapp) ([]*corev1.Pod, error) {
	var all []*corev1.Pod
	selected := framework.Selection{Namespace: a.Namespace, LabelSelector: "app=" + a.Spec.Tomcat}
	for pod, err := range r.pods.LiveList(ctx, c, selected) {
		if err != nil {
			return nil, err
		}
		all = append(all, pod)
	}
	slices.SortFunc(all, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// download writes the file. The original does so whether there is one or not.
func (r *webapps) download(ctx context.Context, file, url string) error {
	item, exists, err := find(ctx, r.files, file)
	switch {
	case err != nil:
		return err
	case exists && item.Value == url && r.mended:
		return nil
	case exists:
		return r.files.Update(ctx, item.ID, url)
	}
	_, err = r.files.Create(ctx, file, url)
	return err
}

func tomcatDeployment(t *Tomcat) *appsv1.Deployment {
	app := map[string]string{"app": t.Name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: t.Name, Labels: map[string]string{
			"app": t.Name, "app.kubernetes.io/part-of": t.Name, "app.kubernetes.io/managed-by": "tomcat-operator",
		}},
		Spec: appsv1.DeploymentSpec{
			Replicas: &t.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{
					{Name: "tomcat", Image: fmt.Sprintf("tomcat:%d", t.Spec.Version)},
					{Name: "war-downloader", Image: "busybox:1.34.1"},
				},
			}},
		},
	}
}

func tomcatService(t *Tomcat) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: t.Name, Labels: map[string]string{"app.kubernetes.io/managed-by": "tomcat-operator"}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": t.Name}, Type: corev1.ServiceTypeNodePort,
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}
}
