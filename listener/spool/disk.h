/* disk.h: writes, reads and removes segments on another thread, so that the loop never waits for a disk. */
#ifndef WSONCE_DISK_H
#define WSONCE_DISK_H

#include <uv.h>

#include "base/list.h"
#include "spool/segment.h"

struct disk;

enum disk_task {
	DISK_BEGIN,  /* starts the segment `head` */
	DISK_APPEND, /* adds `bytes`, whole records up to the ordinal `last`, to the current segment */
	DISK_END,    /* ends the current segment, which has head.count records */
	DISK_REMOVE, /* removes the segment `head`; with `flag`, renames it instead */
	DISK_READ,   /* reads at least `len` bytes of records of the segment head.first, from where its last DISK_READ
			ended; from its start with `flag`, or if the last DISK_READ was for another segment */
	DISK_SYNC,   /* calls fdatasync */
	DISK_CLOSE,  /* the last job; the disk is freed after its callback */
};

/* A job and its result. If a DISK_BEGIN or DISK_APPEND fails, none of its bytes are in the file. After any failed job,
 * each DISK_APPEND fails until the next DISK_BEGIN. */
struct disk_job {
	struct list link;
	enum disk_task task;
	struct segment_head head;
	uint64_t last;
	char *bytes;  /* freed with the job; DISK_READ: the result, whole records */
	size_t len;   /* length of bytes */
	bool flag;    /* after a DISK_READ: this was the end of the segment */
	size_t wrong; /* after a DISK_READ: runs of bytes that are not a record */
	int error;    /* errno, or 0 */
};

/* Called on the loop, in the order of the jobs. The job is valid during the call. */
typedef void disk_cb(void *arg, const struct disk_job *job);
typedef void disk_found_cb(void *arg, const struct segment_head *head, uint64_t bytes);

/* Creates the directory if it does not exist, locks it, and calls found for each segment in order. head->count is 0 for
 * a file that has a segment's name but cannot be read. On failure, returns NULL and writes a sentence to error. */
struct disk *disk_open(uv_loop_t *loop, const char *dir, int64_t sync_ms, disk_cb *done, disk_found_cb *found,
		       void *arg, char *error, size_t size);

/* Queues a copy of job. Jobs run in order. */
void disk_ask(struct disk *d, const struct disk_job *job);

#endif
