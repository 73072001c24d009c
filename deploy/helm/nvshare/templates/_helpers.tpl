{{/* The names. */}}

{{- define "nvshare.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $release := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- default $release .Values.fullnameOverride | trunc 48 | trimSuffix "-" -}}
{{- end -}}

{{- define "nvshare.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{/* Takes (list ROOT PART). */}}
{{- define "nvshare.serviceAccount" -}}
{{- $root := first . -}}
{{- default (printf "%s-%s" (include "nvshare.fullname" $root) (last .)) $root.Values.serviceAccount.name -}}
{{- end -}}

{{- define "nvshare.image" -}}
{{- $image := .Values.image -}}
{{- (.Values.global | default dict).imageRegistry | default $image.registry }}/{{ $image.repository }}:{{ default .Chart.AppVersion $image.tag }}{{ with $image.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{/* What a DaemonSet selects its pods by can't be changed later: a release called nvshare must have what plain manifests always had. */}}
{{- define "nvshare.selector" -}}
{{- $root := first . -}}
app.kubernetes.io/name: nvshare-{{ last . }}
{{- if ne (include "nvshare.fullname" $root) "nvshare" }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
{{- end }}
{{- end -}}

{{/* Of every object. Takes (list ROOT PART); PART is empty for what belongs to none or to all of them. */}}
{{- define "nvshare.labels" -}}
{{- $root := first . -}}
{{- with last . -}}
app.kubernetes.io/name: nvshare-{{ . }}
app.kubernetes.io/component: {{ . }}
{{- else -}}
app.kubernetes.io/name: nvshare
{{- end }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: nvshare
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ $root.Chart.Name }}-{{ $root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "nvshare.serviceAccountObject" -}}
{{- $root := first . -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "nvshare.serviceAccount" . }}
  namespace: {{ include "nvshare.namespace" $root }}
  labels: {{- include "nvshare.labels" (list $root (empty $root.Values.serviceAccount.name | ternary (last .) "")) | nindent 4 }}
  {{- with $root.Values.serviceAccount.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end -}}

{{/* The pods. */}}

{{- define "nvshare.podLabels" -}}
{{- /* The first is what the pods are selected by. */ -}}
{{ include "nvshare.labels" . }}
{{- with (first .).Values.podLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "nvshare.imagePullSecrets" -}}
{{- with concat ((.Values.global | default dict).imagePullSecrets | default list) (.Values.imagePullSecrets | default list) | uniq -}}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Takes (list ROOT VALUES-OF-THE-PART). */}}
{{- define "nvshare.priorityClassName" -}}
{{- $own := (last .).priorityClassName -}}
{{- kindIs "invalid" $own | ternary (first .).Values.priorityClassName $own -}}
{{- end -}}

{{/* For all that is not there twice on a node. */}}
{{- define "nvshare.updateStrategy" -}}
type: {{ .Values.updateStrategy.type }}
{{- if eq .Values.updateStrategy.type "RollingUpdate" }}
rollingUpdate:
  maxSurge: 0
  maxUnavailable: {{ toJson .Values.updateStrategy.rollingUpdate.maxUnavailable }}
{{- end }}
{{- end -}}

{{- define "nvshare.podSecurityContext" -}}
{{- $context := deepCopy (.Values.podSecurityContext | default dict) -}}
{{- with .Values.seLinuxOptions }}{{ $_ := set $context "seLinuxOptions" . }}{{ end -}}
{{- with $context -}}
securityContext: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Where pods are put. Takes (dict "Values" VALUES "part" VALUES-OF-THE-PART "gpusOnly" BOOL): what the part does not say is said for all; with
gpusOnly not where Node Feature Discovery, or a label nvidia.com/gpu.present that is not true, says that there is no GPU. */}}
{{- define "nvshare.placement" -}}
{{- $said := dict -}}
{{- range $key := list "nodeSelector" "tolerations" "affinity" -}}
{{- $own := hasKey $.part $key | ternary (get $.part $key) nil -}}
{{- $_ := set $said $key (kindIs "invalid" $own | ternary (get $.Values $key) $own) -}}
{{- end -}}
{{- $affinity := $said.affinity | default dict -}}
{{- with $said.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $said.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
affinity:
  {{- with omit $affinity "nodeAffinity" }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  nodeAffinity:
    {{- $theirs := $affinity.nodeAffinity | default dict }}
    {{- with omit $theirs "requiredDuringSchedulingIgnoredDuringExecution" }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
      {{- $found := list list }}
      {{- if or .Values.nfdAffinity .gpusOnly }}
      {{- $found = list }}
      {{- range list "feature.node.kubernetes.io/pci-10de.present=true" "feature.node.kubernetes.io/cpu-model.vendor_id=NVIDIA" "nvidia.com/gpu.present=true" }}
      {{- $label := splitList "=" . }}
      {{- $found = append $found (list (dict "key" (first $label) "operator" "In" "values" (rest $label))) }}
      {{- end }}
      {{- end }}
      {{- if and .gpusOnly (not .Values.nfdAffinity) }}
      {{- range list "0300" "0302" }}
      {{- $found = append $found (list (dict "key" (printf "feature.node.kubernetes.io/pci-%s_10de.present" .) "operator" "In" "values" (list "true"))) }}
      {{- end }}
      {{- /* Nobody has looked what the node has. */ -}}
      {{- $found = append $found (list (dict "key" "feature.node.kubernetes.io/kernel-version.major" "operator" "DoesNotExist") (dict "key" "nvidia.com/gpu.present" "operator" "DoesNotExist")) }}
      {{- end }}
      {{- $required := $theirs.requiredDuringSchedulingIgnoredDuringExecution | default dict }}
      {{- range $term := $required.nodeSelectorTerms | default (list dict) }}
      {{- range $expressions := $found }}
        - matchExpressions:
            - key: kubernetes.io/os
              operator: In
              values: [linux]
            - key: kubernetes.io/arch
              operator: In
              values: [amd64, arm64]
            # Keeps nvshare off a node, for example while its driver is changed: kubectl label node NODE nvshare.com/deploy=paused
            - key: nvshare.com/deploy
              operator: NotIn
              values: [paused]
            {{- with $expressions }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
            {{- with $term.matchExpressions }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- with $term.matchFields }}
          matchFields: {{- toYaml . | nindent 12 }}
          {{- end }}
      {{- end }}
      {{- end }}
{{- end -}}

{{/* The containers. Probes take (list ROOT PORT SECONDS): SECONDS between two questions whether the part is ready. */}}

{{- define "nvshare.probes" -}}
{{- $metrics := (first .).Values.metrics -}}
{{- $address := printf "http://127.0.0.1:%v" (index . 1) -}}
{{- if $metrics.enabled -}}
startupProbe:
  httpGet: {path: /healthz, port: metrics}
  # Asked before it can answer, a part that starts as it should would have events that say otherwise.
  initialDelaySeconds: 5
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: {{ last . }}
  timeoutSeconds: 5
{{- else -}}
startupProbe:
  exec: {command: [wget, -q, -O, /dev/null, "{{ $address }}/healthz"]}
  initialDelaySeconds: 5
  periodSeconds: 1
  timeoutSeconds: 5
  failureThreshold: 60
livenessProbe:
  exec: {command: [wget, -q, -O, /dev/null, "{{ $address }}/healthz"]}
  periodSeconds: 10
  timeoutSeconds: 5
readinessProbe:
  exec: {command: [wget, -q, -O, /dev/null, "{{ $address }}/readyz"]}
  periodSeconds: {{ last . }}
  timeoutSeconds: 5
{{- end }}
{{- end -}}

{{/* Takes (list ROOT PORT). */}}
{{- define "nvshare.metricsAddress" -}}
{{- (first .).Values.metrics.enabled | ternary "0.0.0.0" "127.0.0.1" }}:{{ last . }}
{{- end -}}

{{- define "nvshare.visibleGpus" -}}
# The NVIDIA container runtime gives the container NVML for every GPU; nothing is allocated by this.
- name: NVIDIA_VISIBLE_DEVICES
  value: all
- name: NVIDIA_DRIVER_CAPABILITIES
  value: {{ . }}
{{- end -}}

{{/* The simulated GPUs. */}}

{{/* On the node. The name has the version: a container keeps the driver that it began with. */}}
{{- define "nvshare.simulatedDriver" -}}
{{ .Values.libraryDir }}/simulated-{{ .Chart.AppVersion }}
{{- end -}}

{{/* What all containers of a node share of their GPUs. */}}
{{- define "nvshare.simulatedState" -}}
/var/run/nvshare-simulated
{{- end -}}

{{- define "nvshare.simulatedEnv" -}}
- name: LD_LIBRARY_PATH
  value: {{ include "nvshare.simulatedDriver" . }}
- name: NVSHARE_SIMGPU_DIR
  value: {{ include "nvshare.simulatedState" . }}
- name: NVSHARE_SIMGPU_DEVICES
  value: {{ .Values.simulated.devices | quote }}
{{- end -}}

{{- define "nvshare.simulatedInstaller" -}}
initContainers:
  - name: install-simulated-driver
    image: {{ include "nvshare.image" . }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    command:
      - sh
      - -c
      - |
        set -eu
        mkdir -p "$LD_LIBRARY_PATH"
        cd "$(python3 -c 'from nvshare import simgpu; print(simgpu.library_dir())')"
        for library in *; do
          new=$(mktemp "$LD_LIBRARY_PATH/.$library.XXXXXX")
          cp "$library" "$new"
          chmod 755 "$new"
          mv "$new" "$LD_LIBRARY_PATH/$library"
        done
        chmod 777 "$NVSHARE_SIMGPU_DIR"
    env: {{- include "nvshare.simulatedEnv" . | nindent 6 }}
    resources:
      requests: {cpu: 20m, memory: 40Mi}
      limits: {memory: 200Mi}
    securityContext: {{- toYaml .Values.securityContext | nindent 6 }}
    volumeMounts:
      - name: library
        mountPath: {{ .Values.libraryDir }}
      - name: simulated-gpus
        mountPath: {{ include "nvshare.simulatedState" . }}
{{- end -}}
