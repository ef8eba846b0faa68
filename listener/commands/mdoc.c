/* mdoc.c owns text as mdoc(7) has it: plain, or from the Markdown of docs/. Which pages there are, manual.c knows. */
#include "commands/mdoc.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define CELLS_MAX 4

/* A character, and its place in the text; returns the last byte of it. */
static const char *put_char(FILE *out, const char *at)
{
	unsigned char c = (unsigned char)*at;

	if (c == '\\')
		fputs("\\e", out);
	else if (c == '-')
		fputs("\\-", out);
	else if (c >= 0xe0 && c < 0xf0 && at[1] && at[2])
		return fprintf(out, "\\[u%04X]", (c & 0x0fU) << 12 | (at[1] & 0x3fU) << 6 | (at[2] & 0x3fU)), at + 2;
	else if (c >= 0xc0 && c < 0xe0 && at[1])
		return fprintf(out, "\\[u%04X]", (c & 0x1fU) << 6 | (at[1] & 0x3fU)), at + 1;
	else
		putc(c, out);
	return at;
}

void mdoc_text(FILE *out, const char *text)
{
	bool is_first = true;

	for (; *text; text++) {
		if (is_first && (*text == '.' || *text == '\''))
			fputs("\\&", out);
		is_first = *text == '\n';
		text = put_char(out, text);
		if (*text == '.' && text[1] == ' ') {
			putc('\n', out);
			is_first = true;
			text++;
		}
	}
}

/* --- Markdown --- */

enum block { BLOCK_NONE, BLOCK_TEXT, BLOCK_TABLE, BLOCK_BULLETS, BLOCK_NUMBERS, BLOCK_CODE };

struct page {
	FILE *out;
	enum block block;
	bool is_fresh; /* nothing follows the heading yet */
	int rows;      /* of the table */
};

/* Takes the marks out of a line: backticks, bold, and links, whose text stays. */
static void strip(char *line)
{
	char *to = line;

	for (char *at = line; *at; at++) {
		char *middle = *at == '[' ? strstr(at, "](") : NULL, *end = middle ? strchr(middle, ')') : NULL;

		if (end && !memchr(at + 1, '[', (size_t)(middle - at - 1))) {
			memmove(to, at + 1, (size_t)(middle - at - 1));
			to += middle - at - 1;
			at = end;
		} else if (*at == '*' && at[1] == '*') {
			at++;
		} else if (*at != '`') {
			*to++ = *at;
		}
	}
	*to = '\0';
}

static void put_line(struct page *p, char *line)
{
	strip(line);
	mdoc_text(p->out, line);
	putc('\n', p->out);
}

static void end_block(struct page *p)
{
	if (p->block == BLOCK_CODE)
		fputs(".Ed\n", p->out);
	else if (p->block == BLOCK_BULLETS || p->block == BLOCK_NUMBERS || (p->block == BLOCK_TABLE && p->rows > 2))
		fputs(".El\n", p->out);
	p->block = BLOCK_NONE;
}

static void begin_block(struct page *p, enum block block)
{
	static const char *const begins[] = {
		[BLOCK_BULLETS] = ".Bl -bullet\n",
		[BLOCK_NUMBERS] = ".Bl -enum\n",
		[BLOCK_CODE] = ".Bd -literal -offset indent\n",
	};

	end_block(p);
	if (block == BLOCK_TEXT && !p->is_fresh)
		fputs(".Pp\n", p->out);
	else if (block >= BLOCK_BULLETS)
		fputs(begins[block], p->out);
	p->block = block;
	p->is_fresh = false;
	p->rows = 0;
}

/* The cells of a row, which end by a bar outside of backticks. Returns how many. */
static size_t split_row(char *line, char **cells)
{
	bool is_code = false;
	size_t n = 0;

	cells[0] = line + 1;
	for (char *at = line + 1; *at && n < CELLS_MAX; at++) {
		is_code ^= *at == '`';
		if (*at != '|' || is_code)
			continue;
		*at = '\0';
		n++;
		if (n < CELLS_MAX)
			cells[n] = at + 1;
	}
	return n;
}

static char *trim(char *text)
{
	char *end = text + strlen(text);

	while (end > text && end[-1] == ' ')
		*--end = '\0';
	return text + strspn(text, " ");
}

/* The first two rows are the head, and the line below it. */
static void put_row(struct page *p, char *line)
{
	char *cells[CELLS_MAX];
	size_t n = split_row(line, cells);

	if (++p->rows < 3 || !n)
		return;
	if (p->rows == 3)
		fputs(".Bl -tag -width Ds\n", p->out);
	fputs(".It \"", p->out);
	strip(cells[0]);
	for (const char *at = trim(cells[0]); *at; at++)
		at = *at == '"' ? (fputs("\"\"", p->out), at) : put_char(p->out, at);
	fputs("\"\n", p->out);
	for (size_t i = 1; i < n; i++)
		put_line(p, trim(cells[i]));
}

static void put_heading(struct page *p, const char *text)
{
	end_block(p);
	fputs(".Sh ", p->out);
	for (; *text; text++)
		putc(toupper((unsigned char)*text), p->out);
	putc('\n', p->out);
	p->is_fresh = true;
}

static bool is_numbered(const char *line)
{
	size_t digits = strspn(line, "0123456789");

	return digits && strncmp(line + digits, ". ", 2) == 0;
}

/* How a line begins, if it begins something. */
static enum block block_of(const char *line)
{
	if (*line == '|')
		return BLOCK_TABLE;
	if (strncmp(line, "* ", 2) == 0)
		return BLOCK_BULLETS;
	return is_numbered(line) ? BLOCK_NUMBERS : BLOCK_TEXT;
}

static void put_item(struct page *p, char *line)
{
	fputs(".It\n", p->out);
	put_line(p, strchr(line, ' ') + 1);
}

static void put_markdown(struct page *p, char *line)
{
	enum block block = block_of(line);
	bool goes_on = *line == ' ' && (p->block == BLOCK_BULLETS || p->block == BLOCK_NUMBERS);

	if (!*line) {
		end_block(p);
		return;
	}
	if (p->block != block && !goes_on)
		begin_block(p, block);
	if (block == BLOCK_TABLE)
		put_row(p, line);
	else if (block == BLOCK_BULLETS || block == BLOCK_NUMBERS)
		put_item(p, line);
	else
		put_line(p, line + strspn(line, " "));
}

static void put_code(struct page *p, const char *line)
{
	if (*line == '.' || *line == '\'')
		fputs("\\&", p->out);
	for (; *line; line++)
		line = put_char(p->out, line);
	putc('\n', p->out);
}

void mdoc_markdown(FILE *out, const char *page)
{
	struct page p = {.out = out, .is_fresh = true};

	for (size_t n; *page; page += n + (page[n] == '\n')) {
		char *line;

		n = strcspn(page, "\n");
		line = memory_strndup(page, n);
		if (strncmp(line, "```", 3) == 0)
			p.block == BLOCK_CODE ? end_block(&p) : begin_block(&p, BLOCK_CODE);
		else if (p.block == BLOCK_CODE)
			put_code(&p, line);
		else if (strncmp(line, "## ", 3) == 0)
			put_heading(&p, line + 3);
		else if (*line != '#')
			put_markdown(&p, line);
		free(line);
	}
	end_block(&p);
}
