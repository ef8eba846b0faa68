/* The functions of claim.h and store.h without any server, for tests of pipeline.c: calls are noted
 * in a journal, and the test answers them when and as it likes. Time stands still but for
 * clock_pass(). */
#ifndef SUPPORT_FAKE_STAGES_H
#define SUPPORT_FAKE_STAGES_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "road/claim.h"
#include "road/members.h"
#include "road/store.h"

/* What the fakes pretend; the test may change it at any time. */
struct fake {
	bool is_redis_away;       /* claim_take, claim_look and claim_count return -1 */
	bool is_other_preferred;  /* claim_prefers_other */
	size_t rank, others;      /* claim_rank, claim_others */
	bool has_log;             /* claim_expect_log */
	bool is_logged;           /* claim_is_logged, of any event; else of those that were learned */
	char known[1000];         /* the ids that claim_learn was told of, each with a blank behind it */
	size_t learned;           /* bytes of them */
	bool is_redis_full;       /* claim_mark gives the claim back first */
	bool is_postgres_away;    /* the store is not idle, and stalled */
	bool is_postgres_failing; /* what it was given comes back from the server and waits to be sent again */
	bool is_stalled;
	bool is_unsure;       /* Postgres has not told its epoch of late; store_ask_epoch changes that, if */
	bool is_epoch_asked;  /* it was called, */
	bool is_epoch_silent; /* and this is not set */
	bool is_checkin_slow; /* a note has no answer; else it has one in the next turn, which is no step */
	const char *note;     /* what that is; NULL: no row */
	bool has_cursors;     /* cursors were put, or asked for, and there is no answer: the store is not idle */
	bool has_question;
	bool tells_newest;                    /* store_read_newest can be answered, */
	bool is_newest_asked;                 /* and has not been: the store is not idle */
	bool tells_members, is_asked_members; /* the same of store_read_members, */
	char name[MEMBERS_NAME];              /* with this name */
	uint64_t unanswered;                  /* commands beside those that the test still has to answer */
	int stores;                           /* that are open: the second one is never away, and never stalled */
};

extern struct fake fake;

/* What was called since the last call of this function, with a blank between any two: "take(a)",
 * "look(a,b)", "count(a)", "renew(a)", "release(a)", "done(a)" and "dead(a)" for marks, "rest" and
 * "wake", "inherit 2 (a,b)" from the second owner, "insert(a,b)", "beside(a,b)" for one by the second store,
 * "bury(a:reason)"; an event without an id is "-". Lives until the next call. */
const char *fake_journal(void);

/* The text that was handed to store_checkin last, NULL if none was; then it is forgotten. Lives until the
 * next call. */
const char *fake_checkin(void);

/* Answers the oldest call for the event with this id that has no answer yet ("-": no id). The test
 * fails if there is none. */
void fake_answer_take(const char *id, enum claim_result result);
void fake_answer_look(const char *id, enum claim_result result); /* of "look" and "inherit" */
/* The look for the event found a claim of this owner, or owner is gone. */
void fake_set_owner(const char *id, uint16_t owner);
void fake_end_owner(uint16_t owner);
void fake_answer_count(const char *id, long attempts);
void fake_answer_insert(const char *id, enum store_result result);
void fake_answer_beside(const char *id, enum store_result result); /* of the second store */
void fake_answer_bury(const char *id, enum store_burial burial);

/* Answers the cursors, "cursors(source=value@epoch)" in the journal; and the question for them, "read(source)", by one
 * of kraken. */
void fake_answer_put(bool is_stored);
void fake_answer_read(const char *value, bool is_read);
/* Answers the question for the newest rows, "newest", by those with these ids of one letter. */
void fake_answer_newest(const char *ids);
/* Answers the question "members", by so many others; -1: nothing can be told. */
void fake_answer_members(int n);
void fake_set_epoch(uint32_t epoch);
/* The same of the second store; 0: its connection is lost. */
void fake_set_second_epoch(uint32_t epoch);

/* The whole database is unusable. */
void fake_answer_unusable(const char *sentence);
void fake_answer_second_unusable(const char *sentence); /* by what the second store says */

#endif
