# Checks by their names, for bash scripts to source. The script has a folder of its own in $dir, and ends with checks_end.
passed=0 failed=0

# check NAME COMMAND...: shows what the command said if it fails
check()
{
	local name=$1
	shift
	if "$@" >"$dir/said" 2>&1; then
		passed=$((passed + 1))
		return
	fi
	failed=$((failed + 1))
	echo "FAILED: $name"
	tail -n 20 "$dir/said"
}

checks_end()
{
	echo "$passed passed, $failed failed"
	[ "$failed" = 0 ]
}
