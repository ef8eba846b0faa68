/* audit_list.c copies the expected events into the database, in constant memory. */
#include "commands/audit_list.h"

#include <inttypes.h>
#include <string.h>

#include "base/json_write.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/timestamp.h"
#include "commands/dispatch.h"
#include "commands/progress.h"
#include "event/envelope.h"

#define TICK_LINES 65536
#define MINUTE_US  INT64_C(60000000)
#define ROWS_BYTES 131072 /* inserted at once */
#define NAME       "sha256:"

/* Insert rows, in JSON: [[at, id], [at, null, name], ...]. */
static const char sql_insert[] = "INSERT INTO wsonce_expected (at, id, name) SELECT (r->>0)::bigint, r->>1, r->>2"
				 " FROM pg_catalog.json_array_elements($1::json) AS r";
static const char lite_insert[] = "INSERT INTO wsonce_expected SELECT json_extract(value, '$[0]'),"
				  " json_extract(value, '$[1]'), json_extract(value, '$[2]') FROM json_each(?1)";

/* Deletes the header, which was inserted before the second line showed that it is one. */
static const char sql_header[] = "DELETE FROM wsonce_expected WHERE at = (SELECT min(at) FROM wsonce_expected)";

struct loader {
	struct audit_list *e;
	struct session *session;
	struct envelope *envelope;
	bool has_time; /* --grace, --horizon or --from-lines was given */
	enum timestamp_unit unit;
	struct bytes rows; /* not inserted yet */
};

/* --- rows --- */

static int insert_rows(struct loader *l)
{
	int failed;

	if (!l->rows.len)
		return 0;
	bytes_add_byte(&l->rows, ']');
	failed = session_run(l->session, sql_insert, lite_insert, "s", bytes_text(&l->rows));
	l->rows.len = 0;
	return failed;
}

/* before: the text between the offset and the id or the name. */
static int add(struct loader *l, uint64_t at, const char *before, struct slice text)
{
	char head[32];

	snprintf(head, sizeof(head), "%s[%" PRIu64, l->rows.len ? "," : "[", at);
	bytes_add_text(&l->rows, head);
	bytes_add_text(&l->rows, before);
	json_write_string(&l->rows, text.at, text.len);
	bytes_add_byte(&l->rows, ']');
	return l->rows.len < ROWS_BYTES ? 0 : insert_rows(l);
}

static int add_id(struct loader *l, const struct ndjson_line *line, struct slice id)
{
	if (id.len <= ENVELOPE_ID_MAX && is_utf8(id.at, id.len) && !memchr(id.at, '\0', id.len))
		return add(l, line->begin, ",", id);
	l->e->is_wrong_use = true;
	dispatch_fail("line %" PRIu64 " is not an id: UTF-8 of at most %d bytes", line->number, ENVELOPE_ID_MAX);
	return -1;
}

/* A line that is not an event. */
static int add_digest(struct loader *l, const struct ndjson_line *line)
{
	char name[sizeof(NAME) + 2UL * SHA256_BYTES];
	uint8_t digest[SHA256_BYTES];

	sha256(line->bytes, line->len, digest);
	write_hex(stpcpy(name, NAME), digest, SHA256_BYTES);
	return add(l, line->begin, ",null,", (struct slice){name, strlen(name)});
}

/* --- lines --- */

/* The event's time may come from another clock, so the minutes before and after must be verified, too. */
static bool is_verified(const struct audit_list *e, int64_t us)
{
	int64_t at = us / MINUTE_US - e->from;

	return e->verified && us > 0 && at > 0 && at + 1 < e->end - e->from && e->verified[at - 1] == '=' &&
	       e->verified[at] == '=' && e->verified[at + 1] == '=';
}

/* True if the event's own time is within --grace and --horizon, and not in a minute that lines have verified. */
static bool is_asked_for(struct loader *l, struct slice time)
{
	bool is_old, is_young, is_proved;
	int64_t us;

	if (!l->has_time)
		return true;
	if (!time.at || !timestamp_parse(time.at, time.len, l->unit, &us)) {
		l->e->without_time++;
		return true;
	}
	is_old = l->e->after_us && us < l->e->after_us;
	is_young = !is_old && l->e->before_us && us > l->e->before_us;
	is_proved = !is_old && !is_young && is_verified(l->e, us);
	l->e->too_old += is_old;
	l->e->too_young += is_young;
	l->e->is_verified += is_proved;
	return !is_old && !is_young && !is_proved;
}

static int load_event(struct loader *l, const struct ndjson_line *line)
{
	struct envelope_view view;

	if (envelope_read(l->envelope, line->bytes, line->len, &view))
		return add_digest(l, line);
	if (l->has_time && !is_asked_for(l, envelope_time(l->envelope)))
		return 0;
	return add_id(l, line, view.id);
}

/* Copies one field of CSV (RFC 4180) to out, without quotes. Returns where the next field begins; or NULL if this one
 * has no end or is too long. */
static const char *read_field(const char *at, const char *end, char *out, struct slice *field)
{
	bool is_quoted = at < end && *at == '"';
	size_t len = 0;

	for (at += is_quoted; at < end && len <= ENVELOPE_ID_MAX; at++) {
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

/* The first line is a header if it has a word where the second one has a time. A list without times has none. */
static void find_header(struct loader *l, struct slice time)
{
	bool is_word = time.len && (*time.at < '0' || *time.at > '9');

	l->e->has_header = l->e->lines == 1 ? is_word : l->e->has_header && time.len && !is_word;
}

/* KEY or KEY,TIME and further columns, as in an inventory of S3. */
static int load_csv(struct loader *l, const struct ndjson_line *line)
{
	char key_text[ENVELOPE_ID_MAX + 1], time_text[ENVELOPE_ID_MAX + 1];
	const char *end = line->bytes + line->len;
	struct slice key, time = {NULL, 0};
	const char *at = read_field(line->bytes, end, key_text, &key);

	if (at && (at == end || read_field(at, end, time_text, &time))) {
		if (l->e->lines <= 2)
			find_header(l, time);
		return is_asked_for(l, time) ? add_id(l, line, key) : 0;
	}
	l->e->is_wrong_use = true;
	dispatch_fail("line %" PRIu64 " is not CSV whose first field is an id of at most %d bytes", line->number,
		      ENVELOPE_ID_MAX);
	return -1;
}

/* If no format was given, the first line decides: events begin with { (after blanks). */
static int find_format(struct loader *l, const struct ndjson_line *line)
{
	struct audit_list *e = l->e;
	size_t i = 0;

	while (i < line->len && (line->bytes[i] == ' ' || line->bytes[i] == '\t'))
		i++;
	if (!e->format)
		e->format = i < line->len && line->bytes[i] == '{' ? "events" : "ids";
	if (strcmp(e->format, "events") == 0 || (!e->needs_events && (!l->has_time || strcmp(e->format, "csv") == 0)))
		return 0;
	e->is_wrong_use = true;
	dispatch_fail("%s, and the list has %s",
		      e->needs_events
			      ? "--resubmit needs whole events, one on each line"
			      : "--grace, --horizon and --from-lines need whole events, or --format csv with times",
		      e->format);
	return -1;
}

static int load_line(struct loader *l, const struct ndjson_line *line)
{
	if (l->e->lines++ == 0 && find_format(l, line))
		return -1;
	if (l->e->lines % TICK_LINES == 0)
		progress_show("reading: %" PRIu64 " lines", l->e->lines);
	switch (*l->e->format) {
	case 'c':
		return load_csv(l, line);
	case 'i':
		return add_id(l, line, (struct slice){line->bytes, line->len});
	}
	return load_event(l, line);
}

static int load_lines(struct loader *l, struct ndjson *lines)
{
	enum ndjson_result result;
	struct ndjson_line line;

	while ((result = ndjson_wait(lines, &line)) == NDJSON_LINE)
		if (load_line(l, &line))
			return -1;
	return result != NDJSON_END ? -1 : insert_rows(l);
}

int audit_list_load(struct audit_list *e, struct ndjson *lines, struct session *session, const struct config *config)
{
	struct loader l = {.e = e,
			   .session = session,
			   .has_time = e->after_us || e->before_us || e->verified,
			   .unit = timestamp_unit_named(config->time_unit)};
	int failed;

	l.envelope = envelope_new(&config->id_pointers, config->type_pointer, config->payload_pointer);
	if (l.has_time && config->time_pointer)
		envelope_add_time(l.envelope, config->time_pointer, false);
	failed = load_lines(&l, lines);
	envelope_free(l.envelope);
	bytes_free(&l.rows);
	e->has_header = e->has_header && e->lines > 1;
	if (!failed && e->has_header) {
		e->without_time -= l.has_time;
		failed = session_run(session, sql_header, sql_header, "");
	}
	return failed;
}
