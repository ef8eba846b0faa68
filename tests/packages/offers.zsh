# What zsh offers at the end of a line, one a line: zsh -f offers.zsh FOLDER LINE, with the functions in this folder. A zsh
# on a terminal of its own gets the line and a tab, and writes down what is added to its list.
zmodload zsh/zpty
said=$(mktemp)
zpty shell zsh -f -i
zpty -w shell "said=$said; fpath=($1 \$fpath); autoload -Uz compinit; compinit -D -u"
zpty -w shell '
compadd() {
	local -a offered
	if [[ ${@[1,(i)(-|--)]} != *-[OAD]\ * ]]; then
		builtin compadd -A offered "$@"
		print -rl -- $offered >>$said
	fi
	builtin compadd "$@"
}
offer() { _main_complete; print -r -- "(end)" >>$said }
zle -C offers complete-word offer
bindkey "^I" offers'
zpty -w -n shell "$2"$'\t'
for ((tries = 0; tries < 400; tries++)); do
	grep -qx '(end)' $said && break
	zpty -r -t shell screen
	sleep 0.05
done
zpty -d shell
grep -vx -e '(end)' -e '' $said
rm -f $said
exit $((tries == 400))
