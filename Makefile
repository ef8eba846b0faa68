# make help lists the targets. You may set CFLAGS, LDFLAGS and PREFIX. SAN=1 builds with AddressSanitizer and
# UndefinedBehaviorSanitizer in a separate folder.
VERSION := 1.0.0
PREFIX ?= /usr/local
# The sanitized build takes half of its time at -O1.
CFLAGS ?= $(if $(SAN),-O1,-O2) -g
WERROR ?= -Werror
JOBS ?= 2
# Expands to the flag if the compiler accepts it for this machine without a warning.
takes = $(shell echo 'int x;' | $(CC) -O2 -Werror -U_FORTIFY_SOURCE $(1) -include stdio.h -x c -c -o /dev/null - 2>/dev/null && echo '$(1)')
HARDEN :=
B := build$(if $(FUZZ),/fuzz,$(if $(SAN),/san))
comma := ,

ifdef FUZZ
CC := clang
SANFL := -fsanitize=fuzzer-no-link,address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined \
	-Wno-missing-field-initializers
else ifdef SAN
SANFL := -fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined
else
HARDEN := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$(or $(patsubst -D_FORTIFY_SOURCE=%,%,$(call takes,-D_FORTIFY_SOURCE=3)),2)
endif
HARDEN += -fPIE -fstack-protector-strong $(call takes,-fstack-clash-protection) $(call takes,-fcf-protection) \
	$(call takes,-mbranch-protection=standard)
HARDEN_LD := -pie -Wl,-z,relro,-z,now
LIBS := libwebsockets libmicrohttpd libuv hiredis libpq jansson libssl libcrypto libcurl libsodium zlib sqlite3 libzstd
TEST_LIBS := $(LIBS) criterion
# -fno-strict-aliasing: gcc 12.2 takes a load of list.next out of a loop that changes it (move_first() in outbox/relay.c).
OUR_CFLAGS = -std=c11 -fno-strict-aliasing -D_GNU_SOURCE -DWSONCE_VERSION='"$(VERSION)"' -Wall -Wextra -Wshadow -Wformat=2 $(WERROR) \
	-Ilistener -I$B/text -MMD -MP $(HARDEN) $(SANFL) $(shell pkg-config --cflags $(LIBS))
# V=1 shows the full commands.
Q := $(if $V,,@)
LINK = $Qecho '  LD $@' && $(CC) $(SANFL) $(HARDEN_LD) $(LDFLAGS) -o $@ $^

objects = $(patsubst %.c,$B/%.o,$(1))
loadtest = $(patsubst %,$B/loadtest/%.o,$(1))
LISTENER := $(call objects,$(wildcard listener/*.c listener/*/*.c))
MODULES := $(filter-out %/main.o %/libraries.o,$(LISTENER))
SHARED := frame message options progress script summary
SOURCE_OBJ := $(call loadtest,source server arrival backlog replay hist $(SHARED))
PRODUCER_OBJ := $(call loadtest,producer link window ack hist outcomes verify $(SHARED)) $B/listener/base/backoff.o
CEILING_OBJ := $(call loadtest,ceiling message options summary) \
	$(patsubst %,$B/listener/%.o,postgres/array postgres/schema redis/resp base/memory base/log)
SUPPORT := $(call objects,$(filter-out %/fake_stages.c %/full_disk.c %/slow_names.c %/clock.c %/unit.c %/played_postgres.c %/played_redis.c,$(wildcard tests/support/*.c)))
FAKES := $(patsubst %,$B/tests/support/%.o,clock unit port)
PIPELINE := $(patsubst %,$B/tests/%.o,unit/test_pipeline support/fake_stages)
UNIT := $(filter-out $(PIPELINE),$(call objects,$(wildcard tests/unit/test_*.c)))
INTEGRATION := $(call objects,$(wildcard tests/integration/test_*.c))
STAGES := $(patsubst %,$B/listener/%.o,pipeline/pipeline claim/claiming \
	$(addprefix event/,order envelope event hold age_limit duplicates rejected line_digests line_minutes line_counts line_verdict lags) $(addprefix store/,storing stall pace batch cursors checkin) \
	$(addprefix base/,arena json json_pointers json_scan keyed log log_spell counters backoff memory quantity slab text timestamp) redis/resp) \
	$(patsubst %,$B/listener/%.o,base/crc32c $(addprefix spool/,disk record segment spool spooling))
TEXT := $(patsubst lua/%.lua,$B/text/%.lua.h,$(wildcard lua/*.lua)) $(patsubst %.sql,$B/text/%.sql.h,$(notdir $(wildcard sql/migrations/*.sql sql/queries/*.sql))) \
	$(patsubst page/page.%,$B/text/page_%.h,$(wildcard page/page.*))
ASKS := $B/tests/simulation/differential
DIFFERENTIAL := $(patsubst %,$(ASKS)/%,postgres-real postgres-played redis-real redis-played)
TEST_BINARIES := $B/simulate $(DIFFERENTIAL) $B/tests/unit/unit $B/tests/unit/pipeline $B/tests/integration/integration $B/tests/hostile/crowd \
	$(if $(SAN),,$B/tests/instructions/road)
# The simulator: the way of an event and what it needs, on simulated libuv, Redis and libpq.
PLAYED := $(patsubst %,-Wl$(comma)--wrap=%,malloc calloc realloc free strdup strndup asprintf __asprintf_chk json_dumps clock_gettime \
	recv __recv_chk getsockopt __assert_fail event_move event_new event_finish claim_open store_open \
	open64 openat64 fstat64 close pread64 pwrite64 ftruncate64 fdatasync fsync lseek64 flock mkdir unlinkat renameat scandir64)
SIMULATED := $(patsubst %.c,$B/simulated/%.o,$(filter-out %/duplicates.c %/cancel.c,$(wildcard $(patsubst %,listener/%/*.c,pipeline event claim fleet store) listener/spool/*.c listener/postgres/*.c listener/redis/*.c)) \
	$(patsubst %,listener/outbox/%.c,backlog relay signature target traceparent) listener/config/keys.c listener/config/webhook.c listener/config/webhook_headers.c listener/config/webhook_secret.c listener/config/source_name.c listener/base/tls.c \
	$(patsubst %,listener/intake/%.c,lateness ledger profiled) $(wildcard listener/feed/*.c listener/config/profile*.c) \
	$(patsubst %,listener/base/%.c,arena backoff condition counters crc32c file json json_pointers json_scan json_write log_spell memory nearest poll quantity resolve secret slab sort_key text timestamp url))
SIMULATION := $(call objects,$(wildcard tests/simulation/*.c))
FUZZERS := $(addprefix $B/,envelope ack admin feed deflate post producer redis webhook replay spool timestamp profile)

all: ## build everything; installs nothing
	@demo/deps libraries $(LIBS)
	+@$(MAKE) --no-print-directory programs

programs: $B/wsonce $B/wsonce-source $B/wsonce-producer $B/wsonce-ceiling
tests: programs $(TEST_BINARIES)
unit-tests: $B/tests/unit/unit $B/tests/unit/pipeline
fuzzers: $(FUZZERS)

deps: ## install missing Debian packages (as root or with sudo)
	@demo/deps build $(LIBS)
check-deps:
	@demo/deps check $(TEST_LIBS)
bench-deps:
	@demo/deps bench $(LIBS)
deb-deps:
	@demo/deps deb $(LIBS)
page-deps:
	@demo/deps page $(LIBS)
go-deps:
	@demo/deps go $(LIBS)
patroni-deps:
	@demo/deps patroni $(TEST_LIBS)
compose-deps:
	@demo/deps compose $(TEST_LIBS)
kube-deps:
	@demo/deps kube $(LIBS)

demo: deps ## show the main job in half a minute, on private servers
	+@$(MAKE) --no-print-directory programs
	@demo/demo

file-deps: # like deps, without servers
	@demo/deps file $(LIBS)

run: $(if $(filter sqlite,$(STORE)),file-deps,deps) ## make run SOURCE=ws://... or FEED=kraken [LISTENERS=3]: a fleet on a feed until Ctrl-C; STORE=sqlite: without any server
	+@$(MAKE) --no-print-directory programs
	@demo/run "$(SOURCE)" "$(LISTENERS)" "$(FEED)" "$(STORE)"

check: check-deps ## run what every change must pass, in minutes; PARTS="unit lint" runs some (tests/run --list)
	+@$(MAKE) --no-print-directory -j$(JOBS) tests
	@tests/run $(or $(PARTS),check)

prove: check-deps bench-deps deb-deps page-deps ## what .ci/run adds: sanitizers, lint, model, conformance, fuzzers, hostile clients, faults
	+@$(MAKE) --no-print-directory -j$(JOBS) tests
	+@$(MAKE) --no-print-directory -j$(JOBS) SAN=1 unit-tests
	@tests/run $(or $(PARTS),prove)

nightly: check-deps bench-deps deb-deps page-deps compose-deps go-deps ## the long tests, some hours: sanitized fleets, failovers, torture, mutations, the image, the other Debian, the benchmark
	+@$(MAKE) --no-print-directory -j$(JOBS) tests
	+@$(MAKE) --no-print-directory -j$(JOBS) SAN=1 tests
	@tests/run $(or $(PARTS),nightly)

unit: check-deps unit-tests ## run only the unit tests: make unit [SUITE=claim]
	@$(if $(SUITE),$B/tests/unit/unit --filter '$(SUITE)/*',tests/run unit)

test: check-deps programs $B/tests/integration/integration ## run one suite of the integration tests: make test SUITE=claim
	@WSONCE_TEST_BIN=$B/wsonce tests/support/run $B/tests/integration/integration -j10 --filter '$(or $(SUITE),*)/*'

loop: ## how long a changed file takes to the verdict of its tests: make loop [SUITE=claim]
	@touch listener/*/$(or $(SUITE),claim).c && began=$$(date +%s) && for what in unit test; do \
		$(MAKE) --no-print-directory -j$(JOBS) $$what SUITE=$(or $(SUITE),claim) || exit; \
		echo "$$what: $$(($$(date +%s) - began)) s after the change"; done

torture: check-deps programs ## break everything around a fleet: make torture [SEED=1] [MINUTES=5] [LISTENERS=5] [MIX=all] [REDIS=sentinel] [MUTATE=name]
	@tests/fault/torture $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) \
		$(if $(LISTENERS),--listeners $(LISTENERS)) $(if $(MIX),--mix $(MIX)) $(if $(REDIS),--redis $(REDIS)) $(if $(MUTATE),--mutate $(MUTATE))

producers-go: go-deps programs ## run the Go example of docs/producers.md while a listener is killed
	@tests/producers-go

kube: kube-deps programs ## run a Deployment of deploy/kubernetes under podman, with SIGTERM under load: make kube [ROUNDS=5], as root; WSONCE_IMAGE is the image
	@ROUNDS=$(or $(ROUNDS),5) tests/deploy/kube

powercuts: check-deps programs ## kill a listener on an SQLite file, and cut its power, under load: make powercuts [KILLS=100] [SEED=1]
	@tests/sqlite/run --kills $(or $(KILLS),100) $(if $(SEED),--seed $(SEED))

failovers: check-deps programs ## fail Postgres and Redis over under a fleet, in every way: make failovers [QUICK=1]
	@tests/failover/run $(if $(QUICK),--quick)

patroni: patroni-deps programs ## let Patroni, with etcd, fail Postgres over under a fleet, through haproxy and with several hosts
	@tests/failover/run --patroni

simulate: check-deps $B/simulate ## simulate histories of a fleet with faults: make simulate [SEED=1] [HISTORIES=n] [MINUTES=m]
	@$B/simulate $(if $(SEED),--seed $(SEED)) $(if $(HISTORIES),--histories $(HISTORIES)) $(if $(MINUTES),--minutes $(MINUTES))

mutants: check-deps ## check which small mistakes the unit tests and the simulator notice: make mutants [SEED=1] [MINUTES=60] [FILES="..."]
	@tests/mutants $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) $(FILES)

audit-figure: check-deps programs ## measure time and memory of an audit: make audit-figure [ROWS=10000000] [LETTERS=3000000]
	@TMPDIR=$${TMPDIR:-/tmp} WSONCE_TEST_BIN=$B/wsonce tests/support/run loadtest/audit $(ROWS) $(LETTERS)

sqlite-figure: programs ## measure events/s of a listener on an SQLite file, and of SQLite alone: make sqlite-figure [COUNT=300000]
	@loadtest/sqlite $(COUNT)

letters-figure: check-deps programs ## measure time and memory of bulk changes of dead letters and deliveries: make letters-figure [LETTERS=3000000]
	@TMPDIR=$${TMPDIR:-/tmp} WSONCE_TEST_BIN=$B/wsonce tests/support/run loadtest/letters $(LETTERS)

plans: check-deps tests ## check what each statement reads in large tables: make plans ROWS=5000000
	@TMPDIR=$${TMPDIR:-/tmp} WSONCE_TEST_BIN=$B/wsonce WSONCE_TEST_ROWS=$(or $(ROWS),100000) WSONCE_TEST_SLOW=20 \
		tests/support/run $B/tests/integration/integration -j1 --filter 'plans/*'

reliability: check-deps programs ## measure takeover, outages and restarts, each against its limit: make reliability [FILE=x.json]
	@tests/fault/figures all $(if $(FILE),--json $(FILE))

allocation: check-deps programs ## fail each allocation, socket call and file call of a starting listener once
	@tests/allocation/run $(if $(SEED),--seed $(SEED))

conformance: check-deps programs ## test both sides of RFC 6455 against python3-websockets
	@tests/conformance/run

fuzz: check-deps ## run each fuzzer for some time: make fuzz [SECONDS=60] [SEED=n]; see tests/fuzz/README.md
	+@$(MAKE) --no-print-directory -j$(JOBS) FUZZ=1 fuzzers
	@tests/fuzz/run --seconds $(or $(SECONDS),60) $(if $(FIXED),--fixed) $(if $(SEED),--seed $(SEED))

hostile: check-deps programs $B/tests/hostile/crowd ## attack with 12,000 misbehaving clients while ordinary ones go on: make hostile [QUICK=1]
	@tests/hostile/run $(if $(QUICK),--quick)

instructions: check-deps $B/tests/instructions/road ## count the instructions per event, against tests/instructions/figure.json
	@tests/instructions/run

bench: bench-deps ## measure wsonce, the servers alone and the peers in one run: make bench [QUICK=1] [ONLY="fanout latency"] [PEERS=none] [DOCS=1]
	+@$(MAKE) --no-print-directory programs
	@loadtest/bench $(if $(QUICK),--quick) $(if $(ONLY),--only "$(ONLY)") $(if $(PEERS),--peers "$(PEERS)") $(if $(DOCS),--docs)

shares: bench-deps ## show where a listener's CPU time goes, with perf: parse, frame, look, claim, COPY
	+@$(MAKE) --no-print-directory programs
	@loadtest/where

SHARE = $(DESTDIR)$(PREFIX)/share/wsonce
UNITS = $(DESTDIR)$(PREFIX)/lib/systemd/system
install: programs ## copy the programs to PREFIX/bin; manual, profiles, SQL, recordings, systemd's units below PREFIX
	install -d $(DESTDIR)$(PREFIX)/bin $(SHARE)/profiles $(SHARE)/sql $(SHARE)/recordings $(UNITS)
	install -m 755 build/wsonce build/wsonce-source build/wsonce-producer build/wsonce-ceiling $(DESTDIR)$(PREFIX)/bin
	deploy/pages build/wsonce docs/feeds/profiles.md $(DESTDIR)$(PREFIX)/share
	install -m 644 profiles/*.json $(SHARE)/profiles
	install -m 644 sql/roles.sql $(SHARE)/sql
	install -m 644 tests/feeds/*.ndjson $(SHARE)/recordings
	sed 's|/usr/bin|$(PREFIX)/bin|; s|/usr/share|$(PREFIX)/share|' deploy/systemd/wsonce.service >$(UNITS)/wsonce.service
	sed 's|^Description=.*|& %i|; s|wsonce\.json:/etc/wsonce/wsonce\.json|wsonce.json:/etc/wsonce/%i.json|' \
		$(UNITS)/wsonce.service >'$(UNITS)/wsonce@.service'

dist: ## build/wsonce-VERSION.tar.gz: the last commit, which builds without git
	@mkdir -p build
	git archive --prefix=wsonce-$(VERSION)/ HEAD | gzip -n9 >build/wsonce-$(VERSION).tar.gz

deb: deb-deps ## Debian packages of the last commit, or of an unpacked archive, into build/packages
	@deploy/deb $(VERSION) build/packages

release-check: ## say whether what a release needs is there: versions, tag, archive, packages, limits of words
	@tests/release

lint: check-deps programs ## check with static analysis, the format, and that binaries are hardened
	@tests/lint/run $(filter-out -M%,$(OUR_CFLAGS)) $(CPPFLAGS)

fmt: ## format the C code
	clang-format -i $$(git ls-files '*.c' '*.h')

readme: $B/wsonce ## regenerate the settings and states in docs
	build/wsonce listen --help=all | tests/settings >build/settings.md
	sed -i -e '/<!-- settings -->/,/<!-- end of settings -->/{//!d}' -e '/<!-- settings -->/r build/settings.md' docs/settings.md
	tests/states listener/event/event.h listener/event/event.c >build/states.md
	sed -i -e '/<!-- states -->/,/<!-- end of states -->/{//!d}' -e '/<!-- states -->/r build/states.md' docs/protocol.md

clean: ## remove what was built
	rm -rf build

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 15

$B/wsonce: $(LISTENER)
	$(LINK) $$(pkg-config --libs $(LIBS)) -lunistring -lwslay -lm
$B/wsonce-source: $(SOURCE_OBJ)
	$(LINK) $$(pkg-config --libs $(LIBS)) -lm
$B/wsonce-producer: $(PRODUCER_OBJ)
	$(LINK) $$(pkg-config --libs $(LIBS)) -lm
$B/wsonce-ceiling: $(CEILING_OBJ)
	$(LINK) $$(pkg-config --libs $(LIBS)) -lunistring -lm
# Some tests replace the connection to Postgres or Redis.
$B/tests/unit/unit: LDFLAGS += $(patsubst %,-Wl$(comma)--wrap=%,backoff_draw $(addprefix postgres_,open state identity error set_lock_timeout find_by_key begin_with query copy cell text close) \
	$(addprefix redis_,open state is_cluster send client mask unanswered close) delivery_send delivery_cancel pipeline_receive pipeline_receive_event)
$B/tests/unit/unit: $(UNIT) $(FAKES) $(patsubst %,$B/tests/support/played_%.o,postgres redis) $(MODULES)
	$(LINK) $$(pkg-config --libs $(TEST_LIBS)) -lunistring -lwslay -lm
$B/tests/unit/pipeline: $(PIPELINE) $(FAKES) $(STAGES)
	$(LINK) $$(pkg-config --libs $(TEST_LIBS)) -lunistring -lm
$B/tests/integration/integration: $(INTEGRATION) $(SUPPORT) $B/listener/commands/purge_tables.o | $(addprefix $B/tests/integration/,full_disk.so slow_names.so)
	$(LINK) $$(pkg-config --libs $(TEST_LIBS)) -lpthread -lm
# A Postgres server or a listener loads them.
$B/tests/integration/%.so: tests/support/%.c
	$Qecho '  LD $@' && mkdir -p $(@D) && $(CC) -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra $(WERROR) -fPIC -shared -o $@ $<
# Some fuzzers replace a part of the listener, which is not linked then.
$(FUZZERS): LDFLAGS += -fsanitize=fuzzer
$(FUZZERS): $B/%: $B/tests/fuzz/%.o $B/tests/fuzz/driver.o
	$(LINK) $$(pkg-config --libs $(LIBS)) $$(pkg-config --libs yyjson 2>/dev/null) -lunistring -lwslay -lm
$B/envelope: $(call objects,$(patsubst %,tests/fuzz/%.c,json pointers sample)) $(patsubst %,$B/listener/%.o,event/envelope $(addprefix base/,arena json json_pointers json_scan keyed log memory))
$B/ack: $(MODULES) $B/loadtest/ack.o
$B/admin: $B/tests/fuzz/client.o $(patsubst %,$B/listener/%.o,ops/admin ops/hour ops/metrics ops/overdue ops/report event/rejected event/order net/http net/http_head net/acceptor net/refused_peers event/event outbox/target $(addprefix base/,keyed log log_spell memory poll port quantity slab counters url text backoff timestamp))
$B/feed: $B/tests/fuzz/book.o $(MODULES)
$B/post: $B/tests/fuzz/client.o $(patsubst %,$B/listener/%.o,intake/cloud_event net/unpack net/http net/http_head net/acceptor net/refused_peers $(addprefix base/,arena json json_scan json_write keyed log log_spell memory poll port sort_key text timestamp url))
$B/producer: $(patsubst %,$B/tests/fuzz/%.o,book client) $(filter-out %/log.o $(addprefix %/,source.o shards.o profiled.o fill.o feed_client.o feed_connection.o post.o),$(filter $B/listener/base/% $B/listener/net/% $B/listener/intake/% $B/listener/feed/% %/tokens.o %/webhook_secret.o %/keys.o $B/listener/config/profile%,$(MODULES)))
$B/redis: $(filter-out %/log.o,$(MODULES))
$B/webhook: $(MODULES)
$B/replay: $(patsubst %,$B/listener/%.o,commands/ndjson commands/checkpoint spool/record spool/segment $(addprefix base/,arena crc32c json json_scan json_write keyed log memory sort_key text timestamp))
$B/profile: $(filter $B/listener/feed/% %/keys.o $B/listener/config/profile%,$(MODULES)) $(patsubst %,$B/listener/base/%.o,arena condition file json json_pointers json_scan json_write keyed log log_spell memory nearest secret sort_key text timestamp url)
$B/deflate: $(patsubst %,$B/listener/%.o,net/deflate net/unpack base/log base/memory)
$B/spool: $(patsubst %,$B/listener/%.o,base/crc32c base/log base/memory spool/record spool/segment)
$B/timestamp: $(patsubst %,$B/listener/base/%.o,log memory quantity text timestamp)

# The simulator has no SQLite.
SIMULATED := $(filter-out %/store_sqlite.o,$(SIMULATED))
$B/simulate: $(SIMULATION) $(SIMULATED)
	$(LINK) $(PLAYED) $$(pkg-config --libs hiredis jansson libssl libcrypto libsodium) -lunistring -lm
$B/tests/simulation/%.o: OUR_CFLAGS += -Itests/simulation -Wno-missing-field-initializers

# The differential test sends the same queries to real servers and to simulated ones.
$(ASKS)/postgres-real $(ASKS)/postgres-played: $(ASKS)/postgres.o $(patsubst %,$B/listener/%.o,postgres/schema postgres/array store/effects $(addprefix base/,arena condition json json_pointers json_scan json_write keyed log memory sort_key text))
$(ASKS)/redis-real $(ASKS)/redis-played: $(ASKS)/redis.o
$(ASKS)/postgres-real: $(ASKS)/real.o
$(ASKS)/postgres-played: $(patsubst %,$(ASKS)/%.o,played hooks) $(patsubst %,$B/tests/simulation/%.o,sim libpq postgres postgres_faults postgres_outbox)
$(ASKS)/redis-real: $(ASKS)/redis_real.o
$(ASKS)/redis-played: $(patsubst %,$(ASKS)/%.o,redis_played hooks) $B/tests/simulation/sim.o
$(DIFFERENTIAL):
	$(LINK) $$(pkg-config --libs hiredis jansson libcrypto libsodium $(if $(filter %-real,$@),libpq)) -lunistring

$B/tests/hostile/crowd: $B/tests/hostile/crowd.o
	$(LINK)

# It simulates Redis and Postgres itself.
$B/tests/instructions/road: $B/tests/instructions/road.o $B/loadtest/message.o $(filter-out %/redis/connection.o %/store.o,$(MODULES))
	$(LINK) $$(pkg-config --libs $(LIBS)) -lunistring -lwslay -lm
$B/tests/instructions/%.o: OUR_CFLAGS += -DROAD_FLAGS='"$(CFLAGS)"'

# What stands in the place of a function takes its parameters and needs few of them.
$B/tests/%.o: OUR_CFLAGS += -Wno-unused-parameter

# The listener's files compiled for the simulator, with the points of listener/base/fault_point.h.
$B/simulated/%.o: OUR_CFLAGS += -DWSONCE_SIMULATED
$B/tests/simulation/fault_point.o $B/tests/simulation/coverage.o: OUR_CFLAGS += -DWSONCE_SIMULATED
$B/tests/unit/%.o $B/tests/support/fake_stages.o $B/tests/support/unit.o $B/tests/support/played_%.o: OUR_CFLAGS += -Itests/support
$B/tests/integration/%.o: OUR_CFLAGS += -Itests/support
TEXT += $(patsubst %.sql,$B/text/%.sql.h,$(notdir $(wildcard sql/sqlite/*.sql))) $B/text/help.h $B/text/cloudevents.json.h
define compile
@mkdir -p $(@D)
@echo '  CC $@'
$Q$(CC) $(OUR_CFLAGS) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<
endef
$B/%.o: %.c Makefile | $(TEXT)
	$(compile)
$B/simulated/%.o: %.c Makefile | $(TEXT)
	$(compile)

# lua/x.lua becomes the C string LUA_X, sql/x.sql becomes SQL_X, page/page.x PAGE_X, profiles/x.json PROFILE_X, so each text lives in one place.
define embed
@mkdir -p $(@D)
@{ printf '#define $(1)_%s \\\n' $$(echo $(*F) | tr a-z- A-Z_); sed -e '' $(2) $< | sed -e 's/[\\"]/\\&/g' -e 's/.*/"&\\n" \\/'; echo '""'; } >$@.part
@mv $@.part $@
endef
$B/text/%.lua.h: lua/%.lua
	$(call embed,LUA)
$B/text/%.sql.h: sql/migrations/%.sql
	$(call embed,SQL)
# :epoch in a query stands for epoch.sql.
$B/text/%.sql.h: sql/queries/%.sql sql/queries/epoch.sql
	$(call embed,SQL,-e "s/:epoch/$$(sed -e '/^--/d' sql/queries/epoch.sql | tr -s '\n\t' ' ')/")
$B/text/%.sql.h: sql/sqlite/%.sql
	$(call embed,SQL)
$B/text/page_%.h: page/page.%
	$(call embed,PAGE)
$B/text/help.h: listener/commands/help.txt
	$(call embed,TEXT)
$B/text/%.json.h: profiles/%.json
	$(call embed,PROFILE)
-include $(shell find $B -name '*.d' 2>/dev/null)
.SECONDARY:
.DELETE_ON_ERROR:
.PHONY: kube kube-deps producers-go go-deps powercuts file-deps sqlite-figure
.PHONY: nightly unit test loop unit-tests compose-deps release-check
.PHONY: all programs tests fuzzers deps check-deps bench-deps deb-deps page-deps demo run check prove simulate mutants torture failovers audit-figure letters-figure plans reliability allocation conformance fuzz hostile \
	instructions bench shares lint install dist deb fmt readme clean help
