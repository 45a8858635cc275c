// Definitions of other people's kinds that the chart can make objects of:
// nothing is compiled, the manifests in these modules are what is wanted.
module federation-quota/hack/crds

go 1.26.0

require (
	github.com/cert-manager/cert-manager v1.21.2
	github.com/prometheus-operator/prometheus-operator v0.85.0
)
