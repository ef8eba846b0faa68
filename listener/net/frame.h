/* frame.h: parses and writes the WebSocket frames of a dialled feed. */
#ifndef WSONCE_FRAME_H
#define WSONCE_FRAME_H

#include <stdbool.h>
#include <stddef.h>

#include "net/deflate.h"
#include "net/ws.h"

#define FRAMES_ROOM 512 /* size of the buffer for frames_take */

struct frames;

/* Callbacks for parsed frames. */
struct frames_reader {
	/* A part of a message. */
	void (*on_piece)(void *arg, const struct ws_piece *piece);
	/* The server has answered a ping. */
	void (*on_pong)(void *arg);
	/* Returns true if reading is stopped. Called before each frame. NULL: never stopped. */
	bool (*is_held)(void *arg);
};

enum frames_result {
	FRAMES_MORE, /* all bytes were taken */
	FRAMES_END,  /* stop reading; write what is due, then the server closes */
};

/* For one connection. reader must outlive it. */
struct frames *frames_new(const struct frames_reader *reader, void *arg);

void frames_free(struct frames *f);

/* Call before the first byte if compression was agreed. A message that inflates to more than `most` bytes is cut there
 * and ends the connection with 1009. */
void frames_inflate(struct frames *f, const struct deflate_terms *terms, size_t most);

/* Parses the next bytes of the stream. Do not call again after a result other than FRAMES_MORE. While reading is
 * stopped, keeps the unparsed bytes for the next call, which may have no bytes: 64 KiB of compressed frames can inflate
 * to more than the memory. So it does after a MiB of inflated bytes; then call it in the next turn of the loop. */
enum frames_result frames_receive(struct frames *f, const char *bytes, size_t len);

/* True if the last call kept unparsed bytes. */
bool frames_are_kept(const struct frames *f);

/* Returns why frames_receive returned FRAMES_END: one sentence without control characters. */
const char *frames_reason(const struct frames *f);

/* The code of the server's close frame; 0 if none came or it had no code. */
unsigned int frames_close_code(const struct frames *f);

/* Queues a text message, masked. */
void frames_send(struct frames *f, const char *text, size_t len);

/* Returns the bytes of queued messages. */
size_t frames_unsent(const struct frames *f);

void frames_ping(struct frames *f);

/* Queues a close frame. Frames are still read until the server answers it. */
void frames_close(struct frames *f, unsigned int code);

/* True if there are bytes to write. */
bool frames_is_due(const struct frames *f);

/* Writes due bytes into room, of FRAMES_ROOM bytes. Returns their number. */
size_t frames_take(struct frames *f, char *room);

#endif
