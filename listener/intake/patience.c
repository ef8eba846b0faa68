/* patience.c owns the arithmetic of a producer's credit: what follows from it is ingest.c's business. */
#include "intake/patience.h"

static void regain(struct patience *p)
{
	if (p->spent > -PATIENCE_SAVED)
		p->spent--;
	if (p->spent <= 0)
		p->spells = 0;
}

int patience_cost(size_t bytes)
{
	size_t more = bytes / PATIENCE_BYTES;

	return 1 + (int)(more < PATIENCE_MOST ? more : PATIENCE_MOST);
}

enum patience_verdict patience_take(struct patience *p, int cost, size_t unanswered)
{
	if (!cost) {
		regain(p);
		return PATIENCE_GO_ON;
	}
	if (p->is_resting)
		return PATIENCE_GO_ON;
	p->spent += cost;
	if (p->spent < PATIENCE_CREDIT || (size_t)p->spent < PATIENCE_CREDIT + unanswered)
		return PATIENCE_GO_ON;
	p->spent = PATIENCE_CREDIT - PATIENCE_AGAIN;
	p->is_resting = true;
	return ++p->spells < PATIENCE_SPELLS ? PATIENCE_REST : PATIENCE_END;
}

void patience_rested(struct patience *p)
{
	p->is_resting = false;
}

bool patience_allows(const struct patience *p, size_t unanswered)
{
	size_t left = p->spent < PATIENCE_CREDIT ? (size_t)(PATIENCE_CREDIT - p->spent) : 0;

	return !p->is_resting && (!p->spells || !unanswered || unanswered < left);
}
