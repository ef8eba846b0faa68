/* json_out.c prints JSON and text from outside for commands. */
#include "commands/json_out.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistr.h>

#include "base/bytes.h"
#include "base/json_write.h"
#include "base/text.h"
#include "commands/dispatch.h"

/* Writes characters that a terminal would act on as escapes, except the white space between values. */
void json_out_safe(const char *json)
{
	for (const char *end = json + strlen(json); json < end; json++) {
		size_t len = isspace((unsigned char)*json) ? 0 : text_control_len(json, (size_t)(end - json));
		ucs4_t code;

		if (!len) {
			fputc(*json, dispatch_out());
			continue;
		}
		u8_mbtouc(&code, (const uint8_t *)json, len);
		fprintf(dispatch_out(), "\\u%04x", (unsigned int)code);
		json += len - 1;
	}
}

void json_out_value(json_t *value, size_t flags)
{
	AUTO_FREE char *text = value ? json_dumps(value, flags | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15)) : NULL;

	json_out_safe(text ? text : "null");
	json_decref(value);
}

void json_out_open(struct json_out *o)
{
	*o = (struct json_out){false, false};
	fputc('{', dispatch_out());
}

static void name_member(struct json_out *o, const char *name)
{
	fprintf(dispatch_out(), "%s\n\"%s\":", o->has_member ? "," : "", name);
	o->has_member = true;
}

void json_out_member(struct json_out *o, const char *name, json_t *value)
{
	name_member(o, name);
	json_out_value(value, JSON_COMPACT);
}

void json_out_members(struct json_out *o, json_t *object)
{
	const char *name;
	json_t *value;

	json_object_foreach(object, name, value) json_out_member(o, name, json_incref(value));
	json_decref(object);
}

void json_out_member_text(struct json_out *o, const char *name, const char *json)
{
	name_member(o, name);
	json_out_safe(json);
}

void json_out_list(struct json_out *o, const char *name)
{
	name_member(o, name);
	fputc('[', dispatch_out());
	o->has_item = false;
}

static void next_item(struct json_out *o)
{
	fputs(o->has_item ? ",\n" : "\n", dispatch_out());
	o->has_item = true;
}

void json_out_item_open(struct json_out *o, struct json_out *item)
{
	next_item(o);
	json_out_open(item);
}

void json_out_item(struct json_out *o, json_t *value)
{
	next_item(o);
	json_out_value(value, JSON_COMPACT);
}

void json_out_list_end(struct json_out *o)
{
	(void)o;
	fputc(']', dispatch_out());
}

void json_out_close(struct json_out *o)
{
	(void)o;
	fputs("\n}\n", dispatch_out());
}

void json_out_object(json_t *object)
{
	struct json_out o;

	json_out_open(&o);
	json_out_members(&o, object);
	json_out_close(&o);
}

json_t *json_out_string(const char *text)
{
	return text ? make_json(text, strlen(text)) : NULL;
}

const char *member_text(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

json_int_t member_number(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

double member_real(const json_t *object, const char *name)
{
	return json_number_value(json_object_get(object, name));
}

void json_out_text(const char *text, size_t len, bool is_line)
{
	for (size_t n = 0; len; text += n, len -= n) {
		unsigned char c = (unsigned char)*text;
		int width = c < 0x80 ? 1 : u8_mblen((const uint8_t *)text, len);
		bool is_control = text_control_len(text, len);

		n = 1;
		if (width < 1 || (is_control && (is_line || (c != '\n' && c != '\t')))) {
			printf("\\x%02x", c);
			continue;
		}
		n = (size_t)width;
		fwrite(text, 1, n, stdout);
	}
}

void json_out_line(const char *format, ...)
{
	AUTO_BYTES line = {NULL, 0, 0};
	FILE *out = bytes_stream(&line);
	va_list ap;

	va_start(ap, format);
	vfprintf(out, format, ap);
	va_end(ap);
	fclose(out);
	json_out_text(line.at, line.len, true);
	putchar('\n');
}

void json_out_column(const char *text, int width)
{
	int used = 0;

	for (; text && *text && used < width; text++, used++)
		putchar((unsigned char)*text >= ' ' && (unsigned char)*text < 0x7f ? *text : '?');
	printf("%*s", width - used, "");
}

void json_out_word(const char *text, int most)
{
	int len = text ? (int)strlen(text) : 0;

	json_out_column(text, len < most ? len : most);
}

void json_out_named(const json_t *object)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)object, name, value)
	{
		if (json_is_integer(value))
			printf("%-12s %" JSON_INTEGER_FORMAT "\n", name, json_integer_value(value));
		else if (json_string_length(value))
			json_out_line("%-12s %s", name, json_string_value(value));
	}
}

void json_out_format(struct bytes *out, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	for (const char *percent; (percent = strchr(format, '%')); format = percent + 2) {
		char number[24];
		struct slice part = {number, 0};

		bytes_add(out, format, (size_t)(percent - format));
		if (percent[1] == 'd')
			part.len = (size_t)snprintf(number, sizeof(number), "%ld", va_arg(ap, long));
		else
			part = va_arg(ap, struct slice);
		if (!part.at)
			bytes_add_text(out, "null");
		else if (percent[1] == 's')
			json_write_string(out, part.at, part.len);
		else
			bytes_add(out, part.at, part.len);
	}
	va_end(ap);
	bytes_add_text(out, format);
}
