// pipeline.js: the road of an event. A copy is dropped only when its event is known to be committed:
//
//   receive ─▶ claim ─┬─ mine ──▶ batch ──▶ store ─┬─▶ settle
//                ▲    ├─ done ──────────────────────┘
//                │    └─ other's ─▶ hold ── done ───┘
//                └───────────────── gone ┘
//
// Whoever cannot be asked is passed by: Postgres's unique key decides.
'use strict';
const { setTimeout: sleep } = require('node:timers/promises');
const { MINE, DONE, OTHER, ABSENT, UNKNOWN } = require('./claims');
const { Store } = require('./store');

const MOST_EVENTS = 10_000, MOST_BYTES = 128 << 20;	// in hand; then the source has to wait
const BATCH_ROWS = 4000, BATCH_BYTES = 8 << 20;
const LOOKS_MS = [50, 100, 200, 400, 800];		// from a lost claim to the next look at it
const LOOK_EVENTS = 512;
const TICK_MS = 25;
const BACKOFF_MS = { least: 100, most: 5000 };

class Pipeline {
	counts = { received: 0, settled: 0, persisted: 0, malformed: 0 };
	#claims;
	#store;
	#read;
	#claimTtlMs;
	#onFull;
	#onTrouble;
	#inHand = new Map();			// id -> event, from its first copy until it is settled
	#bytes = 0;				// of the messages in hand
	#isFull = false;
	#unclaimed = [];			// to be claimed at the end of this turn of the loop
	#batch = [];				// to be stored next
	#isStoring = false;
	#failures = 0;				// of the store, one after the other
	#held = LOOKS_MS.map(() => []);		// claimed by others; by number of looks, each in the order of time
	#ticker = setInterval(() => this.#lookAtHeld(), TICK_MS);
	#isDraining = false;
	#onEmpty = () => {};

	// onFull(isFull) tells when to stop reading and when to go on; onTrouble(sentence).
	// read(data): its events (readers.js).
	constructor(claims, store, read, claimTtlMs, { onFull, onTrouble }) {
		this.#claims = claims;
		this.#store = store;
		this.#read = read;
		this.#claimTtlMs = claimTtlMs;
		this.#onFull = onFull;
		this.#onTrouble = onTrouble;
	}

	// producer: who is told how its message ended, if anybody is.
	receive(data, producer) {
		for (const event of this.#read(data))
			this.#take(event, producer);
	}

	#take(event, producer) {
		this.counts.received++;
		if (!event) {
			this.counts.malformed++;
			return;
		}
		const known = this.#inHand.get(event.id);
		if (known) {
			known.copies++;
			if (producer)
				(known.others ??= []).push(producer);
			return;
		}
		event.producer = producer;
		this.#inHand.set(event.id, event);
		this.#bytes += event.bytes;
		this.#checkFull();
		this.#claim(event);
	}

	#checkFull() {
		const size = this.#inHand.size, bytes = this.#bytes;
		const isFull = this.#isFull
			? size > MOST_EVENTS / 2 || bytes > MOST_BYTES / 2
			: size >= MOST_EVENTS || bytes >= MOST_BYTES;
		if (isFull !== this.#isFull)
			this.#onFull((this.#isFull = isFull));
	}

	// All that come in one turn of the loop are claimed together.
	#claim(event) {
		if (this.#unclaimed.push(event) === 1)
			setImmediate(() => this.#claimAll(this.#unclaimed.splice(0)));
	}

	async #claimAll(events) {
		const answers = await this.#claims.take(events);
		events.forEach((event, i) => this.#act(event, answers[i]));
	}

	#act(event, answer) {
		switch (answer) {
		case DONE:
			return this.#settle(event, 'duplicate');
		case ABSENT:
			return this.#claim(event);
		case OTHER:
			return this.#hold(event);
		case MINE:
		case UNKNOWN:
			this.#batch.push(event);
			return this.#storeNext();
		}
	}

	// A claim that never goes away does not hold an event for ever.
	#hold(event) {
		const now = performance.now();
		event.heldAt ||= now;
		if (this.#isDraining || now - event.heldAt > 2 * this.#claimTtlMs)
			return this.#act(event, UNKNOWN);
		event.lookAt = now + LOOKS_MS[event.looks];
		this.#held[event.looks].push(event);
	}

	#lookAtHeld() {
		const now = performance.now();
		for (const queue of this.#held) {
			const due = queue.findIndex((event) => event.lookAt > now);
			const events = queue.splice(0, due < 0 ? queue.length : due);
			for (let i = 0; i < events.length; i += LOOK_EVENTS)
				this.#look(events.slice(i, i + LOOK_EVENTS));
		}
	}

	async #look(events) {
		const answers = await this.#claims.look(events);
		events.forEach((event, i) => {
			event.looks = Math.min(event.looks + 1, LOOKS_MS.length - 1);
			this.#act(event, answers[i]);
		});
	}

	// While one batch is under way the next one fills.
	async #storeNext() {
		if (this.#isStoring)
			return;
		this.#isStoring = true;
		while (this.#batch.length > 0)
			await this.#storeAll(this.#takeBatch());
		this.#isStoring = false;
	}

	#takeBatch() {
		let rows = 0;
		for (let bytes = 0; rows < Math.min(this.#batch.length, BATCH_ROWS) && bytes < BATCH_BYTES; rows++)
			bytes += this.#batch[rows].bytes;
		return this.#batch.splice(0, rows);
	}

	async #storeAll(events) {
		try {
			this.counts.persisted += await this.#store.store(events);
		} catch (error) {
			await this.#onRefused(events, error);
			return;
		}
		this.#failures = 0;
		this.#claims.mark(events);
		events.forEach((event) => this.#settle(event, 'persisted'));
	}

	// A row that Postgres will never take is found by halving.
	async #onRefused(events, error) {
		if (!Store.isOfRow(error)) {
			await this.#giveBack(events, error);
		} else if (events.length > 1) {
			const half = events.length >> 1;
			await this.#storeAll(events.slice(0, half));
			await this.#storeAll(events.slice(half));
		} else {
			this.#onTrouble(`Postgres refuses the event ${events[0].id} (${error.message}), it is skipped`);
			this.counts.malformed += events[0].copies;
			await this.#claims.release(events);
			this.#forget(events[0]);
		}
	}

	// Any instance may try next, this one after a while.
	async #giveBack(events, error) {
		if (this.#failures === 0)
			this.#onTrouble(`Postgres did not store ${events.length} events (${error.message}), trying again`);
		await this.#claims.release(events);
		await sleep(Math.min(BACKOFF_MS.most, BACKOFF_MS.least * 2 ** Math.min(this.#failures++, 10)));
		events.forEach((event) => this.#claim(event));
	}

	#settle(event, status) {
		this.counts.settled += event.copies;
		event.producer?.ack(event.id, status);
		event.others?.forEach((producer) => producer.ack(event.id, 'duplicate'));
		this.#forget(event);
	}

	#forget(event) {
		this.#inHand.delete(event.id);
		this.#bytes -= event.bytes;
		this.#checkFull();
		if (this.#inHand.size === 0)
			this.#onEmpty();
	}

	// Nothing is received any more. Returns how many events are left when the time is over.
	async drain(ms) {
		this.#isDraining = true;
		for (const queue of this.#held)
			queue.splice(0).forEach((event) => this.#act(event, UNKNOWN));
		if (this.#inHand.size > 0)
			await Promise.race([new Promise((resolve) => { this.#onEmpty = resolve; }), sleep(ms)]);
		clearInterval(this.#ticker);
		return this.#inHand.size;
	}
}

module.exports = { Pipeline };
