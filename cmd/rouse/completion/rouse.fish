# fish completion of rouse: rouse completion fish > ~/.config/fish/completions/rouse.fish
function __rouse_words
	set -l words (commandline -opc)
	set -l list ($words[1] complete-words -- $words[2..-1] (commandline -ct) 2>/dev/null)
	if test (count $list) -gt 0
		printf '%s\n' $list
	else
		__fish_complete_path (commandline -ct)
	end
end
complete -c rouse -f -a '(__rouse_words)'
