/* frame.h: the frames of a dialled feed, from bytes and to bytes. */
#ifndef WSONCE_FRAME_H
#define WSONCE_FRAME_H

#include <stdbool.h>
#include <stddef.h>

#include "net/deflate.h"
#include "net/ws.h"

#define FRAMES_ROOM 512 /* bytes that frames_take may write */

struct frames;

/* Who takes what the frames bring. */
struct frames_reader {
	/* A part of a message. */
	void (*on_piece)(void *arg, const struct ws_piece *piece);
	/* The server has answered a ping. */
	void (*on_pong)(void *arg);
};

enum frames_result {
	FRAMES_MORE, /* all is read */
	FRAMES_END,  /* no more is read: what is due is to be written, then the server ends the connection */
};

/* For one connection. reader must outlive it. */
struct frames *frames_new(const struct frames_reader *reader, void *arg);

void frames_free(struct frames *f);

/* To be called before the first byte if compression was agreed. A message that inflates to more than so many bytes
 * ends where it passes them, and the connection with it (1009). */
void frames_inflate(struct frames *f, const struct deflate_terms *terms, size_t most);

/* Reads all of the bytes, which begin where the last ones ended. Not called again after it has returned
 * anything but FRAMES_MORE. */
enum frames_result frames_receive(struct frames *f, const char *bytes, size_t len);

/* Why frames_receive returned FRAMES_END: one sentence, control characters replaced. */
const char *frames_reason(const struct frames *f);

/* The code of the server's close frame; 0: none came, or it had none. */
unsigned int frames_close_code(const struct frames *f);

/* Queues a text message, masked. */
void frames_send(struct frames *f, const char *text, size_t len);

/* Bytes of messages that are queued. */
size_t frames_unsent(const struct frames *f);

void frames_ping(struct frames *f);

/* Says goodbye with this code. What comes until the server answers is still read. */
void frames_close(struct frames *f, unsigned int code);

/* Is there something to write? */
bool frames_is_due(const struct frames *f);

/* Writes what is due into room, of FRAMES_ROOM bytes. Returns its length. */
size_t frames_take(struct frames *f, char *room);

#endif
