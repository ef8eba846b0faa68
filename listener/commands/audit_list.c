/* audit_list.c owns the way of expected events into the database: a COPY, in memory that does not depend
 * on how many there are. */
#include "commands/audit_list.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/sha256.h"
#include "commands/dispatch.h"
#include "road/envelope.h"
#include "commands/progress.h"
#include "base/text.h"
#include "base/timestamp.h"

#define BUFFER_BYTES 65536
#define LINE_BYTES   (2 * ENVELOPE_ID_MAX + 128) /* of COPY, at most */
#define TICK_LINES   65536

/* Ids have the collation that they have in the table, so that its index can be used. */
static const char sql_create[] =
	"CREATE TEMPORARY TABLE wsonce_expected AS SELECT 0::bigint AS at, event_id::text AS id, "
	"''::bytea AS digest FROM :schema.events WITH NO DATA";
static const char lite_create[] = "CREATE TEMPORARY TABLE wsonce_expected (at INTEGER, id TEXT, digest TEXT)";
static const char lite_copy[] = "INSERT INTO wsonce_expected (at, id, digest) VALUES (?1, ?2, ?3)";
static const char sql_copy[] = "COPY wsonce_expected (at, id, digest) FROM STDIN";

struct loader {
	struct audit_list *e;
	struct session *session;
	struct envelope *envelope;
	bool has_time;
	enum timestamp_unit unit;
	char buffer[BUFFER_BYTES];
	size_t used;
};

/* --- rows --- */

static int flush(struct loader *l)
{
	int result = l->used ? session_copy_put(l->session, l->buffer, l->used) : 0;

	l->used = 0;
	return result;
}

/* What COPY's text form has another meaning for gets a backslash. */
static void put_text(struct loader *l, struct slice text)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = text.at[i];
		const char *escaped = c == '\\'   ? "\\\\"
				      : c == '\n' ? "\\n"
				      : c == '\r' ? "\\r"
				      : c == '\t' ? "\\t"
						  : NULL;

		if (!escaped) {
			l->buffer[l->used++] = c;
			continue;
		}
		l->buffer[l->used++] = escaped[0];
		l->buffer[l->used++] = escaped[1];
	}
}

static int start_row(struct loader *l, uint64_t at)
{
	if (l->used > BUFFER_BYTES - LINE_BYTES && flush(l))
		return -1;
	l->used += (size_t)sprintf(l->buffer + l->used, "%" PRIu64 "\t", at);
	return 0;
}

static int add_id(struct loader *l, uint64_t at, struct slice id)
{
	if (start_row(l, at))
		return -1;
	put_text(l, id);
	memcpy(l->buffer + l->used, "\t\\N\n", 4);
	l->used += 4;
	return 0;
}

static int add_digest(struct loader *l, uint64_t at, const uint8_t *digest)
{
	if (start_row(l, at))
		return -1;
	memcpy(l->buffer + l->used, "\\N\t\\\\x", 6);
	l->used += 6;
	for (int i = 0; i < 32; i++)
		l->used += (size_t)sprintf(l->buffer + l->used, "%02x", digest[i]);
	l->buffer[l->used++] = '\n';
	return 0;
}

/* --- lines --- */

/* The id stands in the line, or is all of it. */
static int load_id(struct loader *l, const struct ndjson_line *line, struct slice id)
{
	if (!line->digest && id.len <= ENVELOPE_ID_MAX && is_utf8(id.at, id.len) && !memchr(id.at, '\0', id.len))
		return add_id(l, line->begin, id);
	dispatch_fail("line %" PRIu64 " is not an id: UTF-8 of at most %d bytes", line->number, ENVELOPE_ID_MAX);
	l->e->is_wrong_use = true;
	return -1;
}

/* By its own time, is the event one to ask for? */
static bool is_asked_for(struct loader *l, struct slice time)
{
	int64_t us;

	if (!l->has_time)
		return true;
	if (!time.at || !timestamp_parse(time.at, time.len, l->unit, &us)) {
		l->e->without_time++;
		return true;
	}
	if (l->e->after_us && us < l->e->after_us) {
		l->e->too_old++;
		return false;
	}
	if (l->e->before_us && us > l->e->before_us) {
		l->e->too_young++;
		return false;
	}
	return true;
}

static int load_event(struct loader *l, const struct ndjson_line *line)
{
	uint8_t digest[SHA256_BYTES];
	struct envelope_view view;
	const char *why;

	if (line->digest)
		return add_digest(l, line->begin, line->digest);
	why = envelope_read(l->envelope, line->bytes, line->len, &view);
	if (why) {
		sha256(line->bytes, line->len, digest);
		return add_digest(l, line->begin, digest);
	}
	if (l->has_time && !is_asked_for(l, envelope_time(l->envelope)))
		return 0;
	return add_id(l, line->begin, view.id);
}

/* One field of CSV (RFC 4180), without its quotes, into out. Returns where the next one begins, or NULL if it has no
 * end or does not fit. */
static const char *read_field(const char *at, const char *end, char *out, struct slice *field)
{
	bool is_quoted = at < end && *at == '"';
	size_t len = 0;

	for (at += is_quoted; at < end && len < ENVELOPE_ID_MAX; at++) {
		if (is_quoted && *at == '"' && (++at == end || *at != '"'))
			break;
		if (!is_quoted && *at == ',')
			break;
		out[len++] = *at;
	}
	*field = (struct slice){out, len};
	if (at == end)
		return !is_quoted || at[-1] == '"' ? at : NULL;
	return *at == ',' ? at + 1 : NULL;
}

/* KEY or KEY,TIME and perhaps more, as an inventory of S3 has it. */
static int load_csv(struct loader *l, const struct ndjson_line *line)
{
	char key_text[ENVELOPE_ID_MAX], time_text[ENVELOPE_ID_MAX];
	const char *end = line->bytes + line->len, *at = NULL;
	struct slice key, time = {NULL, 0};

	if (!line->digest)
		at = read_field(line->bytes, end, key_text, &key);
	if (at && at < end && !read_field(at, end, time_text, &time))
		at = NULL;
	if (!at) {
		dispatch_fail("line %" PRIu64 " is not CSV whose first field is an id of at most %d bytes",
			      line->number, ENVELOPE_ID_MAX);
		l->e->is_wrong_use = true;
		return -1;
	}
	return is_asked_for(l, time) ? load_id(l, line, key) : 0;
}

static bool begins_object(const struct ndjson_line *line)
{
	size_t i = 0;

	while (i < line->len && (line->bytes[i] == ' ' || line->bytes[i] == '\t'))
		i++;
	return i < line->len && line->bytes[i] == '{';
}

/* The first byte of the first line, but for blanks, tells which format it is; that must fit the options. */
static int find_format(struct loader *l, const struct ndjson_line *line)
{
	if (!l->e->format)
		l->e->format = begins_object(line) ? "events" : "ids";
	if (strcmp(l->e->format, "events") == 0 ||
	    (!l->e->needs_events && (!l->has_time || strcmp(l->e->format, "csv") == 0)))
		return 0;
	dispatch_fail("--resubmit needs whole events, --grace and --horizon need those or --format csv with times; "
		      "these are %s",
		      l->e->format);
	l->e->is_wrong_use = true;
	return -1;
}

static int load_line(struct loader *l, struct ndjson_line *line)
{
	if (l->e->lines++ == 0 && find_format(l, line))
		return -1;
	if (l->e->lines % TICK_LINES == 0)
		progress_show("reading: %" PRIu64 " lines", l->e->lines);
	if (strcmp(l->e->format, "csv") == 0)
		return load_csv(l, line);
	return strcmp(l->e->format, "ids") == 0 ? load_id(l, line, (struct slice){line->bytes, line->len})
						: load_event(l, line);
}

static int copy_lines(struct loader *l, struct ndjson *lines)
{
	enum ndjson_result result;
	struct ndjson_line line;

	if (session_copy_begin(l->session, sql_copy, lite_copy))
		return -1;
	while ((result = ndjson_wait(lines, &line)) == NDJSON_LINE)
		if (load_line(l, &line))
			return -1;
	if (result == NDJSON_FAILED || flush(l))
		return -1;
	return session_copy_end(l->session);
}

int audit_list_load(struct audit_list *e, struct ndjson *lines, struct session *session, const struct config *config)
{
	struct loader *l = memory_calloc(1, sizeof(*l));
	struct pg_result *made = session_ask_either(session, sql_create, lite_create, 0, NULL);
	int result = -1;

	l->e = e;
	l->session = session;
	l->has_time = e->after_us || e->before_us;
	l->unit = timestamp_unit_named(config->time_unit);
	l->envelope = envelope_new(&config->id_pointers, config->type_pointer, config->payload_pointer);
	if (l->has_time && config->time_pointer)
		envelope_add_time(l->envelope, config->time_pointer);
	if (made)
		result = copy_lines(l, lines);
	session_drop(made);
	envelope_free(l->envelope);
	free(l);
	return result;
}
