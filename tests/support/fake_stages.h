/* The functions of claim.h and store.h without servers, for tests of pipeline.c: calls are recorded in a journal, and
 * the test answers them. Only clock_pass() moves the time. */
#ifndef SUPPORT_FAKE_STAGES_H
#define SUPPORT_FAKE_STAGES_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "claim/claim.h"
#include "fleet/presence.h"
#include "store/store.h"

/* The behaviour of the fakes; a test may change it at any time. */
struct fake {
	bool has_old_marks;     /* done marks are three minutes old instead of one */
	bool is_redis_away;     /* claim_take returns -1 */
	bool has_other_leader;  /* claim_has_other_leader */
	int leader_waits;       /* calls of presence_wait_for_leader */
	bool hears_done;        /* done_channel_is_heard */
	struct done known[100]; /* for done_channel_find */
	size_t known_count;
	bool is_redis_full;       /* claim_mark releases the claim first */
	bool is_postgres_away;    /* the store is not idle, and stalled */
	bool is_postgres_failing; /* batches come back from the server and wait to be sent again */
	bool is_stalled;
	bool is_unsure;       /* store_is_sure is false */
	bool is_epoch_asked;  /* store_ask_epoch was called */
	bool is_epoch_silent; /* store_ask_epoch sets is_unsure; else it clears it */
	bool is_checkin_slow; /* a check-in gets no answer; else it is answered in the next turn, which is not a step */
	const char *note;     /* the answer; NULL for no row */
	bool has_cursors;     /* cursors were sent or requested, and not answered: the store is not idle */
	bool has_question;
	uint64_t unanswered; /* other commands without an answer */
	int stores;          /* open stores; the second one is never unreachable or stalled */
};

extern struct fake fake;

/* The calls since the last fake_journal(), separated by blanks: "take(a)", "renew(a)",
 * "release(a)", "done(a)" and "dead(a)" for marks, "rest" and "wake", "tell" for the channel, "inherit 2 (a,b)" from
 * the second owner, "insert(a,b)", "beside(a,b)" for one by the second store, "dead_letter(a:reason)"; an event without
 * an id is "-". Lives until the next call. */
const char *fake_journal(void);

/* The last text passed to store_checkin, or NULL; then forgets it. Lives until the next call. */
const char *fake_checkin(void);

/* Answers the oldest unanswered call for the event with this id ("-" for none). Fails the test if there is none. */
void fake_answer_take(const char *id, enum claim_result result); /* for "take" and "inherit" */
/* The claim of the event that is under way finds a claim of this owner; or the owner is dead. */
void fake_set_owner(const char *id, uint16_t owner);
void fake_end_owner(uint16_t owner);
/* Another listener announces a commit. */
void fake_tell_done(const struct done *event);
void fake_answer_insert(const char *id, enum store_result result);
void fake_answer_beside(const char *id, enum store_result result); /* from the second store */
void fake_answer_dead_letter(const char *id, enum store_dead_letter dead_letter);

/* Answers the cursors, "cursors(source=value@epoch)" in the journal; and the request for them, "read(source)", with
 * one of kraken. */
void fake_answer_put(bool is_stored);
void fake_answer_read(const char *value, bool is_read);
void fake_set_epoch(uint32_t epoch);
/* The same for the second store; 0 if its connection is lost. */
void fake_set_second_epoch(uint32_t epoch);

/* The whole database is unusable. */
void fake_answer_unusable(const char *sentence);
void fake_answer_second_unusable(const char *sentence); /* as reported by the second store */

#endif
