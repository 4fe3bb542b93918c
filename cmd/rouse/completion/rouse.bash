# bash completion of rouse: source <(rouse completion bash)
_rouse() {
	local IFS=$'\n' words=("${COMP_WORDS[@]:1:COMP_CWORD}") list i
	COMPREPLY=()
	list=$("${COMP_WORDS[0]}" complete-words -- "${words[@]}" 2>/dev/null) || return 0
	for i in $list; do COMPREPLY+=("${i%%$'\t'*}"); done
}
complete -o default -F _rouse rouse
