package webpage

import (
	"crypto/sha256"
	"encoding/hex"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

const (
	image = "nginx:1.29-alpine"
	port  = 80
	// htmlHash on the Pod template makes the Deployment roll when the page changes: nginx would serve
	// the new file only after the kubelet's next sync, and not all replicas at once.
	htmlHash = "samples.evenkeel.dev/html-sha256"
)

// All objects have the page's name.
func meta(page *v1.WebPage) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: page.Namespace, Name: page.Name, Labels: labels(page)}
}

func labels(page *v1.WebPage) map[string]string {
	return map[string]string{"app.kubernetes.io/name": "webpage", "app.kubernetes.io/instance": page.Name}
}

func configMap(page *v1.WebPage) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: meta(page), Data: map[string]string{"index.html": page.Spec.HTML}}
}

func deployment(page *v1.WebPage) *appsv1.Deployment {
	sum := sha256.Sum256([]byte(page.Spec.HTML))
	return &appsv1.Deployment{
		ObjectMeta: meta(page),
		Spec: appsv1.DeploymentSpec{
			Replicas: page.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels(page)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels:      labels(page),
					Annotations: map[string]string{htmlHash: hex.EncodeToString(sum[:])},
				},
				Spec: podSpec(page),
			},
		},
	}
}

func podSpec(page *v1.WebPage) corev1.PodSpec {
	return corev1.PodSpec{
		Containers: []corev1.Container{{
			Name:  "nginx",
			Image: image,
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: port}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
				},
			},
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromString("http")},
			}},
			VolumeMounts: []corev1.VolumeMount{{Name: "html", MountPath: "/usr/share/nginx/html", ReadOnly: true}},
		}},
		Volumes: []corev1.Volume{{
			Name: "html",
			VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: page.Name},
			}},
		}},
	}
}

func service(page *v1.WebPage) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: meta(page),
		Spec: corev1.ServiceSpec{
			Selector: labels(page),
			Ports:    []corev1.ServicePort{{Name: "http", Port: port, TargetPort: intstr.FromString("http")}},
		},
	}
}

func ingress(page *v1.WebPage) *networkingv1.Ingress {
	prefix := networkingv1.PathTypePrefix
	return &networkingv1.Ingress{
		ObjectMeta: meta(page),
		Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{
			Host: host(page),
			IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{{
					Path: "/", PathType: &prefix,
					Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
						Name: page.Name, Port: networkingv1.ServiceBackendPort{Name: "http"},
					}},
				}},
			}},
		}}},
	}
}

// host returns the host name under which the page is reached from outside.
func host(page *v1.WebPage) string { return page.Name + "." + page.Namespace + ".webpages.example" }

// url returns the URL of the page: from outside if it is exposed, within the cluster otherwise.
func url(page *v1.WebPage) string {
	if page.Spec.Exposed {
		return "http://" + host(page) + "/"
	}
	return "http://" + page.Name + "." + page.Namespace + ".svc/"
}
