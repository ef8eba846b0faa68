# Functions that run private Redis and Postgres servers. The demo, `make run`, the tests and the benchmark
# source them. The servers listen on unix sockets in a directory of their own (Redis also on a loopback
# port), and die with the script that started them.
#
#   servers_fail TEXT...      says what is wrong and ends the script; may be redefined
#   servers_find              finds the programs: sets pg_bin and server_user
#   servers_make_cluster DATADIR LOG  initdb, with settings for a private server
#   servers_start_postgres DATADIR SOCKETDIR LOG   sets postgres_pid
#   servers_close_folder DIR  lets only this user and the servers' user enter it
#   servers_close_cluster DATADIR  lets only this user and the servers' user connect, as postgres
#   servers_start_redis DIR [closed]  sets redis_pid and redis_port; the socket is DIR/redis.sock. A closed one has no port,
#                             and accepts only this user
#   servers_end PID SIGNAL    ends a child and waits for it, with SIGKILL after 10 s
#   servers_await PID         waits for a child that was told to end, with SIGKILL after 10 s

# valkey-server works, too.
redis_server=${WSONCE_TEST_REDIS_SERVER:-redis-server}

servers_fail()
{
	echo "$0: $*" >&2
	exit 70
}

servers_find()
{
	local program

	pg_bin=$(pg_config --bindir 2>/dev/null) || pg_bin=
	if [ ! -x "$pg_bin/postgres" ]; then
		pg_bin=$(dirname "$(ls /usr/lib/postgresql/*/bin/postgres 2>/dev/null | sort -V | tail -n 1)")
	fi
	for program in postgres initdb; do
		[ -x "$pg_bin/$program" ] || servers_fail "no $program program: install the Postgres server"
	done
	for program in "$redis_server" redis-cli setpriv; do
		command -v "$program" >/dev/null || servers_fail "no $program program: install it"
	done
	# Postgres refuses to run as root, so root runs it as another user.
	server_user=$(id -un)
	[ "$(id -u)" = 0 ] || return 0
	for server_user in postgres nobody; do
		id "$server_user" >/dev/null 2>&1 && return
	done
	servers_fail "Postgres refuses to run as root, and there is neither a user postgres nor nobody"
}

# Replaces the shell by a command of the servers' user, which gets the given signal if this script dies.
servers_exec()
{
	local signal=$1
	shift
	if [ "$(id -u)" = 0 ]; then
		exec setpriv --reuid "$server_user" --regid "$(id -g "$server_user")" --clear-groups \
			--pdeathsig "$signal" "$@"
	fi
	exec setpriv --pdeathsig "$signal" "$@"
}

# Makes a directory for the servers' user, who must be able to enter its parents.
servers_own_folder()
{
	mkdir -p "$1"
	[ "$(id -u)" != 0 ] || chown "$server_user" "$1"
	[ ${#1} -le 80 ] || servers_fail "$1 is too long for unix sockets in it: set TMPDIR to a shorter path"
	(servers_exec KILL test -x "$1/.") || servers_fail "the user $server_user cannot enter $1: set TMPDIR to a folder that it can"
}

servers_close_folder()
{
	[ "$(id -u)" = 0 ] || { chmod 700 "$1"; return; }
	chgrp "$(id -g "$server_user")" "$1" && chmod 710 "$1"
}

# Peer authentication: the kernel says who connects.
servers_close_cluster()
{
	local data=$1

	echo 'local all all peer map=private' >"$data/pg_hba.conf"
	printf 'private %s postgres\n' "$(id -un)" "$server_user" >"$data/pg_ident.conf"
}

servers_make_cluster()
{
	local data=$1 log=$2

	(cd "$(dirname "$data")" && servers_exec KILL "$pg_bin/initdb" -D "$data" -U postgres -A trust -E UTF8 \
		--no-locale --no-sync --no-instructions >"$log" 2>&1) || servers_fail "initdb failed: $(tail -n 5 "$log")"
	cat >>"$data/postgresql.conf" <<-END
		listen_addresses = ''
		unix_socket_permissions = 0777
		max_connections = 200
		dynamic_shared_memory_type = mmap
		timezone = UTC
	END
}

# Tries the command every 50 ms until it succeeds. Fails when the process is gone or 30 s have passed.
servers_wait()
{
	local pid=$1 tries
	shift
	for ((tries = 0; tries < 600; tries++)); do
		"$@" >/dev/null 2>&1 && return
		kill -0 "$pid" 2>/dev/null || return 1
		sleep 0.05
	done
	return 1
}

servers_start_postgres()
{
	local data=$1 sockets=$2 log=$3

	(cd "$data" && servers_exec QUIT "$pg_bin/postgres" -D "$data" -k "$sockets") >"$log" 2>&1 &
	postgres_pid=$!
	servers_wait "$postgres_pid" "$pg_bin/pg_isready" -q -h "$sockets" -p 5432 ||
		servers_fail "Postgres did not start: $(tail -n 5 "$log")"
}

# Tries random ports.
servers_start_redis()
{
	local dir=$1 closed=${2:-} mode=777 tries

	for ((tries = 0; tries < 20; tries++)); do
		redis_port=$((18000 + RANDOM % 2000))
		[ -z "$closed" ] || redis_port=0 mode=700
		(exec setpriv --pdeathsig KILL "$redis_server" --port $redis_port --bind 127.0.0.1 \
			--unixsocket "$dir/redis.sock" --unixsocketperm $mode --dir "$dir" --save "" --appendonly no \
			--daemonize no --databases "${redis_databases:-16}") >"$dir/redis.log" 2>&1 &
		redis_pid=$!
		servers_wait "$redis_pid" redis-cli -e -s "$dir/redis.sock" ping && return
		kill -KILL "$redis_pid" 2>/dev/null
		wait "$redis_pid" 2>/dev/null
	done
	servers_fail "Redis did not start: $(tail -n 5 "$dir/redis.log")"
}

servers_await()
{
	local pid=$1 tries

	for ((tries = 0; tries < 200; tries++)); do
		kill -0 "$pid" 2>/dev/null || return 0
		sleep 0.05
	done
	kill -KILL "$pid" 2>/dev/null || true
}

servers_end()
{
	local pid=$1 signal=$2

	[ -n "$pid" ] || return 0
	kill "-$signal" "$pid" 2>/dev/null || return 0
	servers_await "$pid"
}
