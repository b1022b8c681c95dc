{{- define "flotilla.labels" -}}
app.kubernetes.io/name: flotilla
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "flotilla.peers" -}}
{{- $name := .Release.Name -}}
{{- range $at := until (int .Values.nodes) }}{{ if $at }},{{ end }}{{ add1 $at }}={{ $name }}-{{ $at }}.{{ $name }}:7601{{ end }}
{{- end }}
