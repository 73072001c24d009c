{{/* Numbers, sizes, and quantities as Kubernetes writes them. */}}

{{/* A value as a text: null is empty. A big number of a file is a float, which would be written as in 1e+06. */}}
{{- define "nvshare.text" -}}
{{- if kindIs "string" . -}}
{{- . -}}
{{- else if not (kindIs "invalid" .) -}}
{{- toJson . -}}
{{- end -}}
{{- end -}}

{{/* A number as a text, or nothing where none is said: helm's --set makes a text of each that has decimals. Takes (list VALUE-NAME VALUE LEAST MOST). */}}
{{- define "nvshare.number" -}}
{{- $text := include "nvshare.text" (index . 1) -}}
{{- if $text -}}
{{- $number := regexMatch "^([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,2})?$" $text | ternary (float64 $text) -1.0 -}}
{{- if or (lt $number (index . 2 | float64)) (gt $number (index . 3 | float64)) -}}
{{- fail (printf "%s: %s is not allowed: a number from %v to %v is" (first .) $text (index . 2) (index . 3)) -}}
{{- end -}}
{{- $text -}}
{{- end -}}
{{- end -}}

{{/* What sizes look like to nvshare's programs (src/nvshare/sizes.py). */}}
{{- define "nvshare.sizeForm" -}}
[0-9]+(?:(?:[.][0-9]{1,3})? ?(?:[KMGT]i|[kKMGT])B?)?
{{- end -}}

{{/* A size or a quantity in bytes, as a number with a fraction; 0 for a share. */}}
{{- define "nvshare.bytes" -}}
{{- $text := trimPrefix "+" (toString .) -}}
{{- $units := dict "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 "Ei" 1152921504606846976
  "n" 1e-9 "u" 1e-6 "m" 1e-3 "k" 1e3 "K" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 -}}
{{- if hasSuffix "%" $text -}}
0
{{- else -}}
{{- $unit := regexFind " ?([KMGTPE]i|[numkKMGTPE])B?$" $text -}}
{{- if $unit -}}
{{- mulf (trimSuffix $unit $text | float64) (get $units (trimSuffix "B" $unit | trim)) -}}
{{- else -}}
{{- float64 $text -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What is wrong with a text as a size: nothing, most of the time. */}}
{{- define "nvshare.sizeFault" -}}
{{- if not (regexMatch (printf "^(?:%s)$" (include "nvshare.sizeForm" .)) .) -}}
{{- printf "%q is no size; 16Gi or 16GiB (powers of 1024), 16G or 16GB (powers of 1000) and a number of bytes are" . -}}
{{- else -}}
{{- $bytes := include "nvshare.bytes" . | float64 -}}
{{- if gt $bytes 1125899906842624.0 -}}
{{- printf "%q is more than any machine has" . -}}
{{- else if and $bytes (lt $bytes 1048576.0) -}}
{{- printf "%q is %.0f bytes, which is too little to be meant; a unit is written as in 16Gi" . $bytes -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A size as a text, or nothing where none is said. Takes (list VALUE-NAME VALUE). */}}
{{- define "nvshare.size" -}}
{{- $text := include "nvshare.text" (last .) -}}
{{- with and $text (include "nvshare.sizeFault" $text) -}}
{{- fail (printf "%s: %s" (first $) .) -}}
{{- end -}}
{{- $text -}}
{{- end -}}

{{/* As a size, or a share as in 50%. Takes (list VALUE-NAME VALUE). */}}
{{- define "nvshare.sizeOrShare" -}}
{{- $text := include "nvshare.text" (last .) -}}
{{- if not (regexMatch "^[0-9]+([.][0-9]+)? ?%$" $text) -}}
{{- with and $text (include "nvshare.sizeFault" $text) -}}
{{- fail (printf "%s: %s; a share of what a node has free is written 50%%" (first $) .) -}}
{{- end -}}
{{- else if gt (trimSuffix "%" $text | trim | float64) 100.0 -}}
{{- fail (printf "%s: %s is more than all of what a node has free" (first .) $text) -}}
{{- end -}}
{{- $text -}}
{{- end -}}

{{/* simulated.devices, as the simulated driver reads it (src/nvshare/simgpu/csrc/shared/devices_text.h). */}}
{{- define "nvshare.checkDevices" -}}
{{- $text := . -}}
{{- $size := include "nvshare.sizeForm" . -}}
{{- $form := printf "^(?:([0-9]+)x)?(?:[^:,]{1,63}:)?(%s)(?:/(%s)(?:[+](%s))?)?(?:@0*(?:[1-9][0-9]{0,5}|1000000)[MG]B/s)?$" $size $size $size -}}
{{- $count := 0 -}}
{{- range $item := splitList "," $text -}}
{{- $fine := regexMatch $form $item -}}
{{- $number := regexReplaceAll $form $item "${1}" | default "1" | float64 -}}
{{- $sizes := regexReplaceAll $form $item "${2},${3},${4}" | splitList "," -}}
{{- range compact $sizes -}}
{{- $fine = and $fine (not (include "nvshare.sizeFault" .)) (include "nvshare.bytes" . | float64) (le (include "nvshare.bytes" . | float64) 1099511627776.0) -}}
{{- end -}}
{{- $count = addf $count $number -}}
{{- if or (not $fine) (eq $number 0.0) (gt $count 32.0) -}}
{{- fail (printf "simulated.devices: %q is not understood; it is [NUMBERx][NAME:]MEMORY[/CONTEXT[+LAUNCH]][@RATE],... with sizes like 16GiB or 512MiB and rates like 12GB/s or 800MB/s, at most 32 GPUs of at most 1TiB" $text) -}}
{{- end -}}
{{- $context := index $sizes 1 | default "256MiB" -}}
{{- if ge (include "nvshare.bytes" $context | float64) (include "nvshare.bytes" (first $sizes) | float64) -}}
{{- fail (printf "simulated.devices: %q has contexts as large as their GPU, or larger: CONTEXT, what each context takes of a GPU, has to be less than its MEMORY; it is 256MiB where it is not given" $text) -}}
{{- end -}}
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
