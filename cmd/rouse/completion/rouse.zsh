#compdef rouse
# zsh completion of rouse: rouse completion zsh > "${fpath[1]}/_rouse"
_rouse() {
	local -a list
	local line
	for line in "${(@f)$("${words[1]}" complete-words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
		[ -n "$line" ] && list+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
	done
	if (( $#list )); then _describe 'rouse' list; else _files; fi
}
if [ "$funcstack[1]" = _rouse ]; then _rouse "$@"; else compdef _rouse rouse; fi
