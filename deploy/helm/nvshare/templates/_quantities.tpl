{{/* Sizes: as Kubernetes writes quantities, and as nvshare's programs write them. */}}

{{/* The size of a text that the schema lets through, in bytes, as a number with a fraction; 0 for a share. */}}
{{- define "nvshare.bytes" -}}
{{- $text := trimPrefix "+" (toString .) -}}
{{- $units := dict "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 "Ei" 1152921504606846976
  "n" 1e-9 "u" 1e-6 "m" 1e-3 "k" 1e3 "K" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 -}}
{{- if hasSuffix "%" $text -}}
0
{{- else -}}
{{- $unit := regexFind "([KMGTPE]i|[numkKMGTPE])B?$" $text -}}
{{- if $unit -}}
{{- mulf (trimSuffix $unit $text | float64) (get $units (trimSuffix "B" $unit)) -}}
{{- else -}}
{{- float64 $text -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A size as an option of the programs, which know fewer forms of it. Takes (list VALUE-NAME TEXT LEAST-BYTES). */}}
{{- define "nvshare.size" -}}
{{- $text := index . 1 | toString -}}
{{- $bytes := include "nvshare.bytes" $text | float64 -}}
{{- if hasSuffix "%" $text -}}
{{- $text -}}
{{- else if eq $bytes 0.0 -}}
0
{{- else if lt $bytes (float64 (last .)) -}}
{{- fail (printf "%s: %q is %.0f bytes, which is too little to be meant; a unit is written as in 16Gi" (first .) $text $bytes) -}}
{{- else if gt $bytes 1125899906842624.0 -}}
{{- fail (printf "%s: %q is more than any machine has" (first .) $text) -}}
{{- else if regexMatch "^[0-9]+([.][0-9]{1,3})?[KMGT]iB?$" $text -}}
{{- trimSuffix "B" $text }}B
{{- else -}}
{{- divf $bytes 1024 | int64 }}KiB
{{- end -}}
{{- end -}}

{{/* Takes (list VALUE-NAME RESOURCES). */}}
{{- define "nvshare.checkResources" -}}
{{- $resources := last . | default dict -}}
{{- $limits := $resources.limits | default dict -}}
{{- range $what, $request := $resources.requests -}}
{{- if and (hasKey $limits $what) (gt (include "nvshare.bytes" $request | float64) (include "nvshare.bytes" (get $limits $what) | float64)) -}}
{{- fail (printf "%s.resources.requests.%s: %v is more than limits.%s, %v" (first $) $what $request $what (get $limits $what)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
