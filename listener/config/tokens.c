/* tokens.c reads and compares the tokens of producers and the secrets of webhooks. ingest.c and post.c decide what a
 * producer without either may do. */
#include "config/tokens.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "base/text.h"

#define LINE_MAX_BYTES 1024
#define DEFAULT_NAME   "default"
#define OTHERS_NAME    "others" /* name for all certificates beyond the limit */
#define BLANKS         " \t\r\n"

/* The kind of a file: tokens, or secrets of webhooks. */
struct kind {
	const char *flag;
	const char *noun;
	const char *name; /* for lines without one */
	int most;
};

static const struct kind tokens_kind = {"--ingest-token-file", "token", DEFAULT_NAME, TOKENS_MAX},
			 secrets_kind = {"--ingest-webhook-secret-file", "secret", "webhook", SECRETS_MAX};

struct tokens {
	const struct kind *kind;
	struct token *first;
	size_t certified; /* number of certificate names */
	char *file;       /* NULL if there is none */
	struct stat seen; /* state of the file when last read */
	bool is_warning;
};

static void digest_of(const char *text, uint8_t *digest)
{
	sha256(text, strlen(text), digest);
}

static void free_list(struct token *first)
{
	for (struct token *next; first; first = next) {
		next = first->next;
		OPENSSL_cleanse(&first->secret, sizeof(first->secret));
		free(first);
	}
}

/* Prepends a new token to *first. */
static struct token *add(struct token **first, const char *name, const char *token)
{
	struct token *new = memory_calloc(1, sizeof(*new));

	digest_of(token, new->digest);
	snprintf(new->name, sizeof(new->name), "%s", name);
	new->is_valid = true;
	new->next = *first;
	*first = new;
	return new;
}

static void warn_if_short(const struct tokens *t, const char *name, const char *token)
{
	if (t->is_warning && strlen(token) < TOKEN_BYTES_MIN)
		log_warn("a token is short enough to guess; use 16 bytes or more", "token=%s bytes=%zu", name,
			 strlen(token));
}

/* --- the file --- */

static const char *find_fault(const struct tokens *t, const char *name, const char *rest)
{
	if (rest)
		return t->kind == &tokens_kind ? "is not \"name token\"" : "is not \"name secret\"";
	if (!is_name(name, TOKEN_NAME_MAX))
		return "has a name that is not 1 to 64 letters, digits, dots, underscores and dashes";
	return NULL;
}

/* Prepends the token of a line, if there is one, to *first. Returns NULL or an error. */
static const char *read_line(const struct tokens *t, char *line, struct token **first)
{
	char *at, *first_word = strtok_r(line, BLANKS, &at), *token, *rest;
	const char *name = first_word, *fault;
	struct token *new;

	if (!name || name[0] == '#')
		return NULL;
	token = strtok_r(NULL, BLANKS, &at);
	rest = strtok_r(NULL, BLANKS, &at);
	if (!token) {
		token = first_word;
		name = t->kind->name;
	}
	fault = find_fault(t, name, rest);
	if (fault)
		return fault;
	warn_if_short(t, name, token);
	new = add(first, name, token);
	return t->kind == &tokens_kind || webhook_secret_decode(&new->secret, token, strlen(token))
		       ? NULL
		       : "has a secret that is not whsec_ followed by 24 to 64 bytes in base64";
}

/* Reads all lines into *first, last line first. Returns the number of tokens, or -1 and a sentence in error. */
static int read_lines(const struct tokens *t, FILE *in, struct token **first, char *error, size_t size)
{
	const struct kind *kind = t->kind;
	char line[LINE_MAX_BYTES];
	const char *fault = NULL;
	int number = 0, count = 0;

	while (!fault && fgets(line, sizeof(line), in)) {
		const struct token *before = *first;

		number++;
		fault = strchr(line, '\n') || feof(in) ? read_line(t, line, first) : "is longer than 1023 bytes";
		count += *first != before;
		if (!fault && count > kind->most)
			fault = "is one too many: the limit is 1000 tokens, or 16 secrets";
	}
	OPENSSL_cleanse(line, sizeof(line));
	if (fault)
		snprintf(error, size, "%s: %s, line %d, %s", kind->flag, t->file, number, fault);
	else if (!count)
		snprintf(error, size, "%s: %s has no %s: give lines \"name %s\"", kind->flag, t->file, kind->noun,
			 kind->noun);
	return fault || !count ? -1 : count;
}

/* Reads the file into a new list. On failure returns NULL and a sentence in error. */
static struct token *read_file(struct tokens *t, char *error, size_t size)
{
	struct token *first = NULL;
	FILE *in = file_open(t->file);
	int count;

	if (!in || fstat(fileno(in), &t->seen)) {
		snprintf(error, size, "%s: cannot read %s: %s", t->kind->flag, t->file, strerror(errno));
		if (in)
			fclose(in);
		return NULL;
	}
	count = read_lines(t, in, &first, error, size);
	fclose(in);
	if (count > 0)
		return first;
	free_list(first);
	return NULL;
}

static bool is_same(const struct token *a, const struct token *b)
{
	return a->is_certificate == b->is_certificate && strcmp(a->name, b->name) == 0 &&
	       CRYPTO_memcmp(a->digest, b->digest, sizeof(a->digest)) == 0;
}

/* Tokens that are also in fresh keep their counters and connections; others become invalid. */
static void take_over(struct tokens *t, struct token *fresh)
{
	for (struct token *old = t->first; old; old = old->next)
		old->is_valid = old->is_certificate || old->is_fixed;
	for (struct token *new = fresh, *next; new; new = next) {
		struct token *old = t->first;

		next = new->next;
		while (old && !is_same(old, new))
			old = old->next;
		if (old) {
			old->is_valid = true;
			old->is_fixed |= new->is_fixed;
			free(new);
		} else {
			new->next = t->first;
			t->first = new;
		}
	}
}

void tokens_replace(struct tokens *t, struct tokens *fresh)
{
	char *file = t->file;

	for (struct token *old = t->first; old; old = old->next)
		old->is_fixed = false;
	take_over(t, fresh->first);
	fresh->first = NULL;
	t->seen = fresh->seen;
	t->file = fresh->file;
	fresh->file = file;
	tokens_free(fresh);
}

size_t tokens_count(const struct tokens *t)
{
	size_t n = 0;

	for (const struct token *at = t->first; at; at = at->next)
		n += at->is_valid && !at->is_certificate;
	return n;
}

static bool has_changed(const struct stat *a, const struct stat *b)
{
	return a->st_ino != b->st_ino || a->st_dev != b->st_dev || a->st_size != b->st_size ||
	       a->st_mtim.tv_sec != b->st_mtim.tv_sec || a->st_mtim.tv_nsec != b->st_mtim.tv_nsec ||
	       a->st_ctim.tv_sec != b->st_ctim.tv_sec || a->st_ctim.tv_nsec != b->st_ctim.tv_nsec;
}

/* A missing file does not count as changed: it may be about to be replaced. */
bool tokens_refresh(struct tokens *t)
{
	struct token *fresh;
	struct stat now;
	char error[400];

	if (!t->file || stat(t->file, &now) || !has_changed(&t->seen, &now))
		return false;
	t->seen = now; /* do not read a bad file again until it changes */
	fresh = read_file(t, error, sizeof(error));
	if (!fresh) {
		log_error("cannot reload the tokens, keeping the old ones", "reason=%s", error);
		return false;
	}
	take_over(t, fresh);
	log_info("tokens reloaded", "file=%s", t->file);
	return true;
}

/* --- lookup --- */

/* On failure returns NULL with a sentence in error. */
static struct tokens *new_of(const struct kind *kind, const char *file, bool is_warning, char *error, size_t size)
{
	struct tokens *t = memory_calloc(1, sizeof(*t));

	t->kind = kind;
	t->is_warning = is_warning;
	if (!file)
		return t;
	t->file = memory_strdup(file);
	t->first = read_file(t, error, size);
	if (t->first)
		return t;
	tokens_free(t);
	return NULL;
}

struct tokens *tokens_new(const char *token, const char *file, bool is_warning, char *error, size_t size)
{
	struct tokens *t = new_of(&tokens_kind, file, is_warning, error, size);

	if (t && token)
		tokens_add(t, DEFAULT_NAME, token);
	return t;
}

struct tokens *tokens_new_secrets(const char *file, char *error, size_t size)
{
	return new_of(&secrets_kind, file, false, error, size);
}

void tokens_add(struct tokens *t, const char *name, const char *token)
{
	add(&t->first, name, token)->is_fixed = true;
	warn_if_short(t, name, token);
}

void tokens_free(struct tokens *t)
{
	if (!t)
		return;
	free_list(t->first);
	free(t->file);
	free(t);
}

bool tokens_are_demanded(const struct tokens *t)
{
	const struct token *at = t->first;

	while (at && (at->is_certificate || !at->is_valid))
		at = at->next;
	return at != NULL;
}

struct token *tokens_find(struct tokens *t, const char *given)
{
	struct token *found = NULL;
	uint8_t digest[sizeof(found->digest)];

	digest_of(given, digest);
	for (struct token *at = t->first; at; at = at->next)
		if (at->is_valid && !at->is_certificate && CRYPTO_memcmp(at->digest, digest, sizeof(digest)) == 0)
			found = at;
	return found;
}

struct token *tokens_next(const struct tokens *t, const struct token *before)
{
	struct token *at = before ? before->next : t->first;

	while (at && !at->is_valid)
		at = at->next;
	return at;
}

static struct token *find_certified(const struct tokens *t, const char *name)
{
	struct token *at = t->first;

	while (at && !(at->is_certificate && strncmp(at->name, name, TOKEN_NAME_MAX) == 0))
		at = at->next;
	return at;
}

struct token *tokens_certified(struct tokens *t, const char *name)
{
	struct token *found = find_certified(t, name);

	if (!found && t->certified >= TOKENS_MAX) {
		name = OTHERS_NAME;
		found = find_certified(t, name);
	}
	if (found)
		return found;
	found = add(&t->first, name, "");
	found->is_certificate = true;
	t->certified++;
	return found;
}

const struct token *tokens_first(const struct tokens *t)
{
	return t->first;
}
