{{- define "fq.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "fq.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "fq.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "fq.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* Labels that selectors stand on: they never change. Takes a dict of root and component. */ -}}
{{- define "fq.selector" -}}
app.kubernetes.io/name: {{ include "fq.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{- define "fq.labels" -}}
{{ include "fq.selector" . }}
app.kubernetes.io/part-of: federation-quota
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "fq.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}

{{- define "fq.isHost" -}}{{ if eq .Values.target "host" }}true{{ end }}{{- end -}}

{{- /* Who the deployables are on the Karmada API server. */ -}}
{{- define "fq.webhookUser" -}}
{{ .Values.karmada.webhook.user | default (printf "system:serviceaccount:%s:webhook" .Release.Namespace) }}
{{- end -}}
{{- define "fq.controllersUser" -}}
{{ .Values.karmada.controllers.user | default (printf "system:serviceaccount:%s:controllers" .Release.Namespace) }}
{{- end -}}

{{- define "fq.webhookService" -}}{{ include "fq.fullname" . }}-webhook{{- end -}}

{{- define "fq.webhookURL" -}}
{{- $port := int .Values.webhook.service.port -}}
{{- $own := printf "https://%s.%s.svc:%d" (include "fq.webhookService" .) .Release.Namespace $port -}}
{{ .Values.webhook.url | default $own | trimSuffix "/" }}
{{- end -}}

{{- /* Names in the webhook's certificate: of the Service, of the URL, and what was added. Comma separated. */ -}}
{{- define "fq.serverNames" -}}
{{- $service := include "fq.webhookService" . -}}
{{- $own := list (printf "%s.%s.svc" $service .Release.Namespace) (printf "%s.%s.svc.cluster.local" $service .Release.Namespace) -}}
{{- $host := (urlParse (include "fq.webhookURL" .)).hostname -}}
{{ concat (list $host) $own .Values.webhook.serverNames | uniq | join "," }}
{{- end -}}

{{- define "fq.certificateSecret" -}}
{{- if eq .Values.certificates.mode "provided" -}}
{{ required "certificates.provided.secretName is needed with certificates.mode=provided: a Secret with tls.crt, tls.key and ca.crt" .Values.certificates.provided.secretName }}
{{- else -}}
{{ include "fq.fullname" . }}-webhook-certificate
{{- end -}}
{{- end -}}

{{- /* Whether pods speak to the API server of the cluster they run in: for the authority's Secret, or to check tokens. */ -}}
{{- define "fq.usesHost" -}}
{{- if or (eq .Values.certificates.mode "internal") (eq .Values.metrics.authorization "token") }}true{{ end -}}
{{- end -}}

{{- define "fq.metricsScheme" -}}{{ if eq .Values.metrics.authorization "token" }}HTTPS{{ else }}HTTP{{ end }}{{- end -}}

{{- define "fq.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "fq.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
privileged: false
capabilities: {drop: [ALL]}
{{- end -}}

{{- /* Flags of both deployables. */ -}}
{{- define "fq.commonArgs" -}}
- --kubeconfig=/etc/federation-quota/karmada/kubeconfig
{{- if include "fq.usesHost" . }}
- --host-kubeconfig=/etc/federation-quota/host/kubeconfig
{{- end }}
- --namespace={{ .Release.Namespace }}
- --system-users={{ include "fq.webhookUser" . }},{{ include "fq.controllersUser" . }}
- --workloads={{ include "fq.workloads" . }}
- --log-level={{ .Values.log.level }}
- --log-format={{ .Values.log.format }}
{{- end -}}

{{- /* The kinds that have owners, as kubectl names them. Comma separated. */ -}}
{{- define "fq.workloads" -}}
{{- $names := list -}}
{{- range $rule := .Values.karmada.workloads -}}
{{- range $group := $rule.apiGroups -}}
{{- range $resource := $rule.resources -}}
{{- $names = append $names (empty $group | ternary $resource (printf "%s.%s" $resource $group)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{ $names | sortAlpha | uniq | join "," }}
{{- end -}}

{{- /* Flags of both that serve. Takes a dict of root and component. */ -}}
{{- define "fq.servingArgs" -}}
- --warn-only={{ .root.Values.warnOnly }}
- --metrics-listen=0.0.0.0:8080
- --metrics-authorization={{ .root.Values.metrics.authorization }}
{{- if eq .root.Values.metrics.authorization "token" }}
{{- if eq .root.Values.certificates.mode "internal" }}
- --metrics-server-names={{ include "fq.metricsName" . }}
{{- else }}
- --metrics-certificate=/etc/federation-quota/certificate/tls.crt
- --metrics-key=/etc/federation-quota/certificate/tls.key
{{- end }}
{{- end }}
{{- end -}}

{{- define "fq.metricsName" -}}
{{ include "fq.fullname" .root }}-{{ .component }}-metrics.{{ .root.Release.Namespace }}.svc
{{- end -}}

{{- define "fq.probes" -}}
livenessProbe:
  httpGet: {path: /livez, port: metrics, scheme: {{ include "fq.metricsScheme" . }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: metrics, scheme: {{ include "fq.metricsScheme" . }}}
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 2
{{- end -}}

{{- /* Takes a dict of root and access (the values under karmada.webhook or karmada.controllers). */ -}}
{{- define "fq.volumes" -}}
- name: tmp
  emptyDir: {medium: Memory, sizeLimit: 16Mi} # keys pass through it on their way into TLS
- name: karmada
{{- if eq .root.Values.karmada.access "kubeconfig" }}
  secret:
    secretName: {{ .access.secretName }}
    items: [{key: kubeconfig, path: kubeconfig}]
{{- else }}
  projected:
    sources:
      - configMap: {name: {{ include "fq.fullname" .root }}-kubeconfig, items: [{key: karmada, path: kubeconfig}]}
      - secret:
          name: {{ .access.secretName }}
          items: [{key: token, path: token}, {key: ca.crt, path: ca.crt}]
{{- end }}
{{- if include "fq.usesHost" .root }}
- name: host
  configMap:
    name: {{ include "fq.fullname" .root }}-kubeconfig
    items: [{key: host, path: kubeconfig}]
{{- end }}
{{- end -}}

{{- define "fq.volumeMounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: karmada, mountPath: /etc/federation-quota/karmada, readOnly: true}
{{- if include "fq.usesHost" . }}
- {name: host, mountPath: /etc/federation-quota/host, readOnly: true}
{{- end }}
{{- end -}}

{{- /* Where pods go. Takes a dict of root, component and own (the component's values). */ -}}
{{- define "fq.scheduling" -}}
{{- with .own.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .own.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .own.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .own.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.topologySpreadConstraints }}
topologySpreadConstraints:
{{- range . }}
  - {{- toYaml . | nindent 4 }}
    {{- if not .labelSelector }}
    labelSelector:
      matchLabels: {{- include "fq.selector" (dict "root" $.root "component" $.component) | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
    {{- end }}
{{- end }}
{{- end }}
{{- end -}}
