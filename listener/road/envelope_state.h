/* envelope_state.h: what envelope.c and envelope_quick.c share, and nobody else includes. */
#ifndef WSONCE_ENVELOPE_STATE_H
#define WSONCE_ENVELOPE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yajl/yajl_parse.h>

#include "base/arena.h"
#include "base/json.h"
#include "road/envelope.h"

#define POINTERS_MAX 11   /* 8 parts of an id, the type, the payload, the time */
#define PARSER_BYTES 4096 /* what yajl takes for a message of ordinary depth */

/* One pointer, and how much of it the place that the parser is at agrees with. */
struct pointer {
	struct json_step steps[POINTER_STEPS_MAX];
	int count;
	int matched;        /* steps that the current path agrees with, from the root on */
	uint32_t seen;      /* bit n: step n was met; once more makes the message ambiguous */
	bool is_text;       /* its value is wanted decoded, not as a slice */
	bool is_optional;   /* a value that is no text is as good as none */
	const char *name;   /* the pointer as written, for messages */
	struct slice value; /* at == NULL: not met */
	size_t begin;       /* of the value, while it is being read */
	int open_depth;     /* containers open where the value, a container, began; -1: none */
	char *copy;         /* decoded text: yajl's own is gone after the callback */
	size_t copy_size;
};

struct envelope {
	struct pointer pointers[POINTERS_MAX];
	int count;
	int id_parts;
	const struct pointer *time; /* NULL: nobody asks for it */
	bool is_time_forgiven;
	bool is_time_void;                    /* of this message: it is named twice */
	int deepest;                          /* steps of the longest pointer: below it nothing is watched */
	uint32_t ends[POINTER_STEPS_MAX + 1]; /* by the number of steps: which pointers have so many */
	int depth;                            /* containers open */
	long index[POINTER_STEPS_MAX];        /* per watched container: next array index; -1: an object */
	const char *message;
	size_t len;
	yajl_handle parser;
	size_t last_end;   /* where the token before this one ended */
	bool is_finishing; /* the parser was told that the message is over */
	const char *fault;
	char fault_text[300];
	char id[ENVELOPE_ID_MAX + 1];
	yajl_alloc_funcs memory;
	struct arena arena;
	_Alignas(16) char arena_room[PARSER_BYTES];
};

/* Reads a message that is JSON beyond doubt and holds nothing that is seldom: fills the pointers' values, and returns
 * true. False: the parser has to read it, and the values are void. */
bool envelope_read_quickly(struct envelope *e, const char *message, size_t len);

#endif
