# Functions of the demo and `make run`: private servers in one directory, listeners that die with the
# script, and queries to both. Bash scripts source it after servers.sh.

fleet_bin=${WSONCE_BIN_DIR:-build}
fleet_store=() # options for listeners: the servers, or the file
listener_pids=() listener_ports=() postgres_pid='' redis_pid=''

# Starts the servers in the existing directory $1, and makes a Postgres cluster in it if there is none.
fleet_start_servers()
{
	fleet_dir=$1
	servers_close_folder "$fleet_dir" || servers_fail "cannot close $fleet_dir to others"
	servers_own_folder "$fleet_dir/postgres"
	[ -e "$fleet_dir/postgres/data/PG_VERSION" ] ||
		servers_make_cluster "$fleet_dir/postgres/data" "$fleet_dir/initdb.log"
	servers_close_cluster "$fleet_dir/postgres/data"
	servers_start_postgres "$fleet_dir/postgres/data" "$fleet_dir/postgres" "$fleet_dir/postgres.log"
	servers_start_redis "$fleet_dir" closed
	fleet_postgres="host=$fleet_dir/postgres port=5432 user=postgres dbname=postgres"
	fleet_redis="unix://$fleet_dir/redis.sock"
	fleet_store=(--redis "$fleet_redis" --postgres "$fleet_postgres")
}

# Uses an SQLite file in $1, a directory closed to others, instead of servers.
fleet_start_file()
{
	fleet_dir=$1
	fleet_store=(--store "sqlite://$fleet_dir/events.db")
}

fleet_sql()
{
	PGOPTIONS= psql "$fleet_postgres" -AtqX -c "$1"
}

# Compares the ids in the file $1, one per line, with the table. Prints how many are lost, doubled, stored, and in the file.
fleet_compare()
{
	fleet_sql "CREATE TEMP TABLE sent (event_id text); COPY sent FROM STDIN; SELECT concat_ws(' ',
		(SELECT count(*) FROM sent LEFT JOIN events USING (event_id) WHERE events.event_id IS NULL),
		(SELECT count(*) FROM (SELECT 1 FROM events GROUP BY event_id HAVING count(*) > 1) AS twice),
		(SELECT count(*) FROM events), (SELECT count(*) FROM sent))" <"$1"
}

# Starts listener number $1 with the other arguments as options, and finds its admin port in its log.
fleet_start_listener()
{
	local n=$1 log=$fleet_dir/listener-$1.log
	shift
	rm -f "$log" # do not read an earlier listener's
	env -u WSONCE_RUN_DIR -u WSONCE_BIN_DIR setpriv --pdeathsig KILL "$fleet_bin/wsonce" listen --instance-id "listener-$n" --admin 127.0.0.1:0 \
		"${fleet_store[@]}" "$@" 2>"$log" &
	listener_pids[n]=$!
	servers_wait "${listener_pids[n]}" grep -q 'event="admin is open"' "$log" ||
		servers_fail "listener $n did not start: $(tail -n 1 "$log")"
	listener_ports[n]=$(sed -n 's/.*event="admin is open".* port=\([0-9]*\).*/\1/p' "$log")
}

# Prints one number from a listener's /metrics, 0 if it does not answer.
fleet_metric()
{
	local value
	value=$(curl -s --noproxy '*' -m 2 "http://127.0.0.1:${listener_ports[$1]}/metrics" | awk -v name="wsonce_$2" '$1 == name { print $2 }')
	echo "${value:-0}"
}

fleet_end()
{
	local pid
	for pid in "${listener_pids[@]}"; do
		disown "$pid" 2>/dev/null || true # keeps the shell from reporting its end
		kill -TERM "$pid" 2>/dev/null || true
	done
	for pid in "${listener_pids[@]}"; do
		servers_await "$pid" # a second signal would cut the drain short
	done
	[ -z "$redis_pid" ] || servers_end "$redis_pid" TERM
	[ -z "$postgres_pid" ] || servers_end "$postgres_pid" INT
}
