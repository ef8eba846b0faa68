/* addresses.c owns the table of addresses: how many sockets each has, and which sent wrong tokens lately. ingest.c
 * decides what follows from that. */
#include "intake/addresses.h"

#include <stdlib.h>

#include "base/keyed.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/port.h"

#include <uthash.h>

#define BLAMED_MAX 4096 /* addresses without a socket that are kept */
#define TOLD_MAX   20   /* addresses that are logged in a minute */

struct address {
	uint64_t key;
	size_t sockets;
	size_t handshakes;     /* sockets still in the handshake */
	unsigned int failures; /* consecutive failures, each within ADDRESS_SPELL_MS of the last */
	int64_t failed_ms;     /* loop clock: last failure */
	int64_t debt_ms;
	UT_hash_handle hh;
};

struct addresses {
	const char *flag;
	struct address *table; /* oldest first */
	size_t blamed;         /* entries without a socket */
	int64_t told_ms;       /* loop clock, when the minute of told began */
	unsigned int told;     /* addresses that were logged in it */
};

struct addresses *addresses_new(const char *flag)
{
	struct addresses *a = memory_calloc(1, sizeof(*a));

	a->flag = flag;
	return a;
}

static void drop(struct addresses *a, struct address *address)
{
	HASH_DEL(a->table, address);
	free(address);
}

void addresses_free(struct addresses *a)
{
	while (a && a->table)
		drop(a, a->table);
	free(a);
}

struct address *addresses_enter(struct addresses *a, uint64_t key)
{
	struct address *at;

	if (!key)
		return NULL;
	HASH_FIND(hh, a->table, &key, sizeof(key), at);
	if (at) {
		a->blamed -= at->sockets == 0;
	} else {
		at = memory_calloc(1, sizeof(*at));
		at->key = key;
		HASH_ADD(hh, a->table, key, sizeof(key), at);
	}
	at->sockets++;
	at->handshakes++;
	return at;
}

/* Drops the oldest entry without a socket. */
static void forget_oldest(struct addresses *a)
{
	struct address *at = a->table;

	while (at && at->sockets)
		at = at->hh.next;
	if (at) {
		drop(a, at);
		a->blamed--;
	}
}

void addresses_shaken(struct address *address)
{
	if (address)
		address->handshakes--;
}

void addresses_leave(struct addresses *a, struct address *address)
{
	if (!address || --address->sockets)
		return;
	if (!address->failures && !address->debt_ms) {
		drop(a, address);
		return;
	}
	a->blamed++;
	if (a->blamed > BLAMED_MAX)
		forget_oldest(a);
}

/* A stranger may have many addresses, and must not fill the log. */
static void tell(struct addresses *a, uint64_t key, int64_t now_ms)
{
	char room[PORT_KEY_TEXT];

	if (now_ms - a->told_ms >= ADDRESS_SPELL_MS)
		a->told = 0;
	if (a->told == TOLD_MAX)
		return;
	if (!a->told++)
		a->told_ms = now_ms;
	log_warn("an address sent too many wrong tokens or certificates: more wrong tokens get 429",
		 "setting=%s address=%s", a->flag, port_key_text(key, room));
}

bool addresses_blame(struct addresses *a, struct address *address, int64_t now_ms)
{
	if (!address)
		return false;
	if (now_ms - address->failed_ms >= ADDRESS_SPELL_MS)
		address->failures = 0;
	address->failures++;
	address->failed_ms = now_ms;
	if (address->failures == ADDRESS_FAILURES)
		tell(a, address->key, now_ms);
	return address->failures > ADDRESS_FAILURES;
}

int64_t *address_debt(struct address *address)
{
	return &address->debt_ms;
}

uint64_t address_key(const struct address *address)
{
	return address ? address->key : 0;
}

size_t address_handshakes(const struct address *address)
{
	return address ? address->handshakes : 0;
}

size_t address_producers(const struct address *address)
{
	return address ? address->sockets - address->handshakes : 0;
}
