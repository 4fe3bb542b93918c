{{- define "rouse.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "rouse.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "rouse.labels" -}}
{{ include "rouse.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- /* The pods of the controller are none of the service's. */ -}}
{{- define "rouse.controller.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-controller
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "rouse.controller.labels" -}}
{{ include "rouse.controller.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "rouse.leases" -}}
{{- if and .Values.lease .Values.store.secret }}true{{ end -}}
{{- end }}

{{- /* The namespaces in which pools start workers, with what scales these. */ -}}
{{- define "rouse.workers" -}}
{{- $all := dict }}
{{- range .Values.pools }}
{{- with .driver.kubernetes }}
{{- $namespace := default $.Release.Namespace .namespace }}
{{- $has := default (dict "workers" true) (get $all $namespace) }}
{{- range $scaling, $_ := .scaling }}
{{- $_ := set $has $scaling true }}
{{- end }}
{{- $_ := set $all $namespace $has }}
{{- end }}
{{- end }}
{{- toYaml $all }}
{{- end }}

{{- /* What would start and then fail, or lose timers, is refused here. */ -}}
{{- define "rouse.check" -}}
{{- if not .Values.image.repository }}
{{- fail "image.repository: is empty: build an image with packaging/Dockerfile, and give its name" }}
{{- end }}
{{- if and (gt (int .Values.replicas) 1) (not .Values.store.secret) }}
{{- fail (printf "replicas: is %d, but the store is a volume of one node: give store.secret, with the URL of a PostgreSQL or Redis" (int .Values.replicas)) }}
{{- end }}
{{- if and (not .Values.insecure) (not (and .Values.tls.secret .Values.adminKey.secret)) }}
{{- fail "tls.secret and adminKey.secret: other pods reach the API, so it needs TLS and access control: give both, or insecure=true if the network admits only trusted clients" }}
{{- end }}
{{- if and .Values.store.secret .Values.adminKey.secret (not .Values.sealingKeys.secret) }}
{{- fail "sealingKeys.secret: nodes that share a store need sealing keys for access control: rouse secret new-key prints one" }}
{{- end }}
{{- if and .Values.controller.enabled .Values.adminKey.secret (not .Values.controller.key.secret) }}
{{- fail "controller.key.secret: the nodes have access control, so the controller needs a key: rouse key create controller --role writer" }}
{{- end }}
{{- range .Values.pools }}
{{- if and $.Values.store.secret (eq (default "" .transport) "store") .driver.kubernetes }}
{{- fail (printf "pools: %s has its requests in the store, and a node of a Deployment has another name after each start, so that its workers would be left: give the pool amqp, or leave out store.secret" .name) }}
{{- end }}
{{- end }}
{{- range $name := list "listen" "admin" "data" "store" "node" "advertise" "insecure" "tls-cert" "tls-key" "tls-client-ca" "admin-key-file" "secret-keys" "grace" "leader" "leader-lease" "pools" }}
{{- if hasKey $.Values.config $name }}
{{- fail (printf "config.%s: is set by the chart: use its own value" $name) }}
{{- end }}
{{- end }}
{{- end }}
