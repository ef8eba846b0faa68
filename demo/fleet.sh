# What the demo and `make run` share: private servers in one directory, listeners that die with the
# script, and questions to them. For bash scripts to source, after servers.sh.

fleet_bin=${WSONCE_BIN_DIR:-build}
fleet_store=() # how listeners are told of the servers, or of the file
listener_pids=() listener_ports=() postgres_pid='' redis_pid=''

# The servers in $1, which must exist; the cluster in it is made if there is none yet.
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

# No servers: an SQLite file in $1, a folder that is closed to others.
fleet_start_file()
{
	fleet_dir=$1
	fleet_store=(--store "sqlite://$fleet_dir/events.db")
}

fleet_sql()
{
	PGOPTIONS= psql "$fleet_postgres" -AtqX -c "$1"
}

# Compares the ids in the file $1, one a line, with the table: prints how many are lost, doubled, stored, and in the file.
fleet_compare()
{
	fleet_sql "CREATE TEMP TABLE sent (event_id text); COPY sent FROM STDIN; SELECT concat_ws(' ',
		(SELECT count(*) FROM sent LEFT JOIN events USING (event_id) WHERE events.event_id IS NULL),
		(SELECT count(*) FROM (SELECT 1 FROM events GROUP BY event_id HAVING count(*) > 1) AS twice),
		(SELECT count(*) FROM events), (SELECT count(*) FROM sent))" <"$1"
}

# Starts listener number $1 with the rest as options. Its admin port is found in its log.
fleet_start_listener()
{
	local n=$1 log=$fleet_dir/listener-$1.log
	shift
	rm -f "$log" # an earlier listener's would be taken for this one's
	env -u WSONCE_RUN_DIR -u WSONCE_BIN_DIR setpriv --pdeathsig KILL "$fleet_bin/wsonce" listen --instance-id "listener-$n" --admin 127.0.0.1:0 \
		"${fleet_store[@]}" "$@" 2>"$log" &
	listener_pids[n]=$!
	servers_wait "${listener_pids[n]}" grep -q 'event="admin is open"' "$log" ||
		servers_fail "listener $n did not start: $(tail -n 1 "$log")"
	listener_ports[n]=$(sed -n 's/.*event="admin is open".* port=\([0-9]*\).*/\1/p' "$log")
}

# One number from a listener's /metrics; 0 if it does not answer.
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
		disown "$pid" 2>/dev/null || true # the shell need not tell of its end
		kill -TERM "$pid" 2>/dev/null || true
	done
	for pid in "${listener_pids[@]}"; do
		servers_await "$pid" # a second signal would cut the drain short
	done
	[ -z "$redis_pid" ] || servers_end "$redis_pid" TERM
	[ -z "$postgres_pid" ] || servers_end "$postgres_pid" INT
}
