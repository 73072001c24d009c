{{/* For files with allocation: dra: the plugin refuses it elsewhere. A number there, whatever it is in the values. */}}
{{- define "nvshare.overcommit" -}}
{{- with include "nvshare.number" (list "overcommit" .Values.overcommit 1 10) -}}
overcommit: {{ float64 . }}
{{- end -}}
{{- end -}}

{{/* The plugin's settings that the values say. What is not set is not there. */}}
{{- define "nvshare.settings" -}}
{{- $values := .Values -}}
log_format: json
{{- if $values.compatWithCPUManager }}
compat_with_cpu_manager: true
{{- else }}
# On nodes with kubelet's static CPU manager, as NVIDIA's compatWithCPUManager. The device nodes are seen only by a
# privileged container: then replace its securityContext in 40-device-plugin.yaml by {privileged: true,
# runAsUser: 0}.
# compat_with_cpu_manager: true
{{- end }}
# How many containers can share each GPU.
virtual_devices: {{ $values.virtualDevices }}
{{- $settings := dict
  "allocation" $values.allocation
  "overcommit" (eq (toString $values.allocation) "dra" | ternary (include "nvshare.overcommit" . | fromYaml).overcommit nil)
  "resource_name" $values.resourceName
  "allocation_policy" $values.allocationPolicy
  "numa_hints" $values.numaHints
  "mig_strategy" $values.migStrategy
  "fail_requests_greater_than_one" $values.failRequestsGreaterThanOne
  "device_list_strategy" $values.deviceListStrategy
  "cdi_kind" $values.cdi.kind
  "cdi_own_kind" $values.cdi.ownKind
  "cdi_annotation_prefix" $values.cdi.annotationPrefix
  "nvidia_dev_root" $values.nvidiaDriverRoot
  "fail_on_init_error" $values.failOnInitError
}}
{{- if kindIs "string" $values.deviceListStrategy }}
{{- $_ := set $settings "device_list_strategy" (list $values.deviceListStrategy) }}
{{- end }}
{{- range $key, $value := $settings }}
{{- if not (kindIs "invalid" $value) }}
{{ $key }}: {{ toJson $value }}
{{- end }}
{{- end }}
{{- if $values.simulated.enabled }}
extra_mounts:
  - host_path: {{ include "nvshare.simulatedDriver" . }}
    container_path: /usr/lib/nvshare-simulated
  - host_path: {{ include "nvshare.simulatedState" . }}
    container_path: {{ include "nvshare.simulatedState" . }}
    read_only: false
extra_env:
  LD_LIBRARY_PATH: /usr/lib/nvshare-simulated
  NVSHARE_SIMGPU_DIR: {{ include "nvshare.simulatedState" . }}
{{- end }}
{{- end -}}

{{/* Whether nodes are served by claims: all of them, or those for which a file of the map says so. Empty: none. */}}
{{- define "nvshare.hasClaims" -}}
{{- $found := list .Values.allocation -}}
{{- range .Values.config.map -}}
{{- $found = append $found (fromYaml .).allocation -}}
{{- end -}}
{{- if has "dra" $found -}}true{{- end -}}
{{- end -}}
