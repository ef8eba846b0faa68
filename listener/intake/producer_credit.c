/* producer_credit.c owns the arithmetic of a producer's credit. ingest.c pauses and disconnects. */
#include "intake/producer_credit.h"

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
