/* verify.c compares the table in Postgres; the only file here that uses libpq. It reads the table
 * once, as a stream, and keeps one byte per event. It computes what each row should be from its id. */
#include "verify.h"

#include <errno.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct verify {
	const struct message_form *form;
	const struct outcomes *outcomes;
	struct verify_result *result;
	uint8_t *seen; /* rows of each event, up to 255 */
	char *scratch; /* for message_is_payload() */
};

/* A field of a line in COPY's text format. */
struct field {
	const char *text;
	size_t len;
};

static void find(struct verify_finding *f, const char *id, size_t len)
{
	if (f->count < VERIFY_EXAMPLES)
		snprintf(f->examples[f->count], VERIFY_ID_MOST, "%.*s", (int)len, id);
	f->count++;
}

static struct field next_field(const char **at, const char *end)
{
	const char *tab = memchr(*at, '\t', (size_t)(end - *at));
	struct field f = {*at, (size_t)((tab ? tab : end) - *at)};

	*at = tab ? tab + 1 : end;
	return f;
}

static bool is_as_sent(struct verify *v, uint64_t n, struct field type, struct field payload)
{
	return type.len == strlen(MESSAGE_TYPE) && !memcmp(type.text, MESSAGE_TYPE, type.len) &&
	       message_is_payload(v->form, n, payload.text, payload.len, v->scratch);
}

/* May the event have a row? Yes if it was sent and not refused. */
static bool is_expected(const struct verify *v, uint64_t n)
{
	switch (outcomes_of(v->outcomes, n)) {
	case OUTCOME_UNSENT:
	case OUTCOME_REJECTED:
		return false;
	case OUTCOME_UNANSWERED:
	case OUTCOME_DUPLICATE:
	case OUTCOME_PERSISTED:
		return true;
	}
	return false;
}

static void check_row(struct verify *v, const char *line, size_t len)
{
	const char *at = line, *end = line + len;
	struct field id = next_field(&at, end);
	struct field type = next_field(&at, end);
	struct field payload = next_field(&at, end);
	uint64_t n = message_number(v->form, id.text, id.len);
	size_t prefix = strlen(v->form->prefix) + 1;

	if (!n && !(id.len > prefix && id.text[prefix] == 'm'))
		return; /* of another run, whose prefix begins with ours */
	v->result->rows++;
	if (!n || !is_expected(v, n)) {
		find(&v->result->unexpected, id.text, id.len);
		return;
	}
	if (v->seen[n] < UINT8_MAX && ++v->seen[n] == 2)
		find(&v->result->doubled, id.text, id.len);
	if (!is_as_sent(v, n, type, payload))
		find(&v->result->altered, id.text, id.len);
}

static void find_lost(struct verify *v)
{
	char id[VERIFY_ID_MOST];

	for (uint64_t n = 1; n <= v->outcomes->last; n++)
		if (is_expected(v, n) && !v->seen[n]) {
			size_t len = message_id(v->form, n, id);

			find(&v->result->lost, id, len);
		}
}

static int complain(PGconn *db)
{
	fprintf(stderr, "%s: cannot verify: %s", program_invocation_short_name, PQerrorMessage(db));
	return -1;
}

static int read_rows(struct verify *v, PGconn *db)
{
	PGresult *end;
	char *line;
	int len;

	while ((len = PQgetCopyData(db, &line, 0)) > 0) {
		check_row(v, line, (size_t)len - (line[len - 1] == '\n'));
		PQfreemem(line);
	}
	end = PQgetResult(db);
	if (len == -2 || PQresultStatus(end) != PGRES_COMMAND_OK)
		len = complain(db);
	else
		len = 0;
	PQclear(end);
	return len;
}

/* The prefix needs no quoting: message_is_prefix() allows no special characters. */
static int copy_out(struct verify *v, PGconn *db)
{
	char sql[256];
	PGresult *begun;
	int status;

	snprintf(sql, sizeof(sql),
		 "COPY (SELECT event_id, event_type, payload FROM events "
		 "WHERE starts_with(event_id, '%s-')) TO STDOUT",
		 v->form->prefix);
	begun = PQexec(db, sql);
	status = PQresultStatus(begun) == PGRES_COPY_OUT ? read_rows(v, db) : complain(db);
	PQclear(begun);
	return status;
}

int verify_run(const char *conninfo, const struct message_form *form, const struct outcomes *outcomes,
	       struct verify_result *result)
{
	struct verify v = {.form = form, .outcomes = outcomes, .result = result};
	PGconn *db = PQconnectdb(conninfo);
	int status = -1;

	memset(result, 0, sizeof(*result));
	v.seen = calloc(outcomes->last + 1, 1);
	v.scratch = malloc(message_most(form));
	if (PQstatus(db) != CONNECTION_OK)
		complain(db);
	else if (v.seen && v.scratch)
		status = copy_out(&v, db);
	if (!status)
		find_lost(&v);
	free(v.seen);
	free(v.scratch);
	PQfinish(db);
	return status;
}

bool verify_is_clean(const struct verify_result *result)
{
	return !result->lost.count && !result->doubled.count && !result->altered.count && !result->unexpected.count;
}
