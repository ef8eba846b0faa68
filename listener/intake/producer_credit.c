/* producer_credit.c owns the arithmetic of a producer's credit. ingest.c pauses and disconnects. */
#include "intake/producer_credit.h"

#define GARBAGE_MS (PRODUCER_CREDIT_PAUSE_MS / PRODUCER_CREDIT_AGAIN) /* time that pays for one garbage message */

static void regain(struct producer_credit *p)
{
	if (p->spent > -PRODUCER_CREDIT_SAVED)
		p->spent--;
	if (p->spent <= 0)
		p->pauses = 0;
}

int producer_credit_cost(size_t bytes)
{
	size_t more = bytes / PRODUCER_CREDIT_BYTES;

	return 1 + (int)(more < PRODUCER_CREDIT_MOST ? more : PRODUCER_CREDIT_MOST);
}

int producer_credit_cost_of(const struct event *ev, enum outcome outcome)
{
	bool is_garbage = outcome == OUTCOME_REJECTED && ev->reason && !ev->attempts;

	return is_garbage ? producer_credit_cost(ev->message_len) : 0;
}

enum producer_credit_verdict producer_credit_take(struct producer_credit *p, int cost, size_t unanswered)
{
	if (!cost) {
		regain(p);
		return PRODUCER_GO_ON;
	}
	if (p->is_paused)
		return PRODUCER_GO_ON;
	p->spent += cost;
	if (p->spent < PRODUCER_CREDIT || (size_t)p->spent < PRODUCER_CREDIT + unanswered)
		return PRODUCER_GO_ON;
	p->spent = PRODUCER_CREDIT - PRODUCER_CREDIT_AGAIN;
	p->is_paused = true;
	return ++p->pauses < PRODUCER_CREDIT_PAUSES ? PRODUCER_PAUSE : PRODUCER_END;
}

void producer_credit_resume(struct producer_credit *p)
{
	p->is_paused = false;
}

bool producer_credit_allows(const struct producer_credit *p, size_t unanswered)
{
	size_t left = p->spent < PRODUCER_CREDIT ? (size_t)(PRODUCER_CREDIT - p->spent) : 0;

	return !p->is_paused && (!p->pauses || !unanswered || unanswered < left);
}

void producer_debt_note(int64_t *debt_ms, int cost, int64_t now_ms)
{
	if (cost)
		*debt_ms = (*debt_ms > now_ms ? *debt_ms : now_ms) + (int64_t)cost * GARBAGE_MS;
	else if (*debt_ms > now_ms)
		*debt_ms -= GARBAGE_MS;
}

bool producer_debt_is_over(int64_t debt_ms, int times, int64_t now_ms)
{
	return debt_ms - now_ms > (int64_t)PRODUCER_CREDIT * GARBAGE_MS * times;
}
