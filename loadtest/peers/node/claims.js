// claims.js: claims and done marks in Redis. An error means that Redis cannot be asked.
'use strict';
const { randomBytes } = require('node:crypto');
const Redis = require('ioredis');

const PREFIX = 'dedup:';
const MINE = 'mine', DONE = 'done', OTHER = 'other', ABSENT = 'absent', UNKNOWN = 'unknown';

// Gives claims back, each only if it is still ours.
const RELEASE = `
for i, key in ipairs(KEYS) do
	if redis.call('GET', key) == ARGV[i] then redis.call('DEL', key) end
end`;

// Marks all events of a batch in one command.
const MARK = `
for _, key in ipairs(KEYS) do redis.call('SET', key, ARGV[1], 'EX', ARGV[2]) end`;
// The same SETs as one command: less work for Node, more for Redis.
const CLAIM = `
local found = {}
for i, key in ipairs(KEYS) do found[i] = redis.call('SET', key, ARGV[1], 'EX', ARGV[2], 'NX', 'GET') end
return found`;

function keysOf(events) {
	return events.map(({ id }) => PREFIX + id);
}

class Claims {
	#redis;
	#owner;
	#ttl;
	#window;
	#byScript;

	constructor({ redis, instance, claimTtl, dedupWindow, claimBy }, onTrouble) {
		const options = {
			enableOfflineQueue: false,	// without Redis the unique key decides, at once
			maxRetriesPerRequest: 0,
			socketTimeout: 10_000,
			retryStrategy: (times) => Math.min(2000, times * 100),
			scripts: { claim: { lua: CLAIM }, mark: { lua: MARK }, release: { lua: RELEASE } },
		};
		this.#redis = typeof redis === 'string' ? new Redis(redis, options) : new Redis({ ...redis, ...options });
		this.#redis.on('error', (error) => onTrouble(`Redis cannot be asked (${error.message}), the unique key decides`));
		this.#owner = `${instance}.${randomBytes(8).toString('hex')}`;
		this.#ttl = claimTtl;
		this.#window = dedupWindow;
		this.#byScript = claimBy === 'script';
	}

	get ready() {
		return new Promise((resolve) => this.#redis.once('ready', resolve));
	}

	// Of each event MINE, DONE or OTHER; UNKNOWN if Redis cannot be asked. The events keep the value for the release.
	async take(events) {
		const claim = `${this.#owner}@${Date.now()}`;
		for (const event of events)
			event.claim = claim;
		const answers = await (this.#byScript ? this.#setByScript(events, claim) : this.#setEach(events, claim));
		return answers.map((found) => {
			if (found instanceof Error)
				return UNKNOWN;
			return found === null || found === claim ? MINE : found.startsWith('done@') ? DONE : OTHER;
		});
	}

	// What auto-pipelining would do, without its promise for each command.
	async #setEach(events, claim) {
		const pipeline = this.#redis.pipeline();
		for (const { id } of events)
			pipeline.set(PREFIX + id, claim, 'EX', this.#ttl, 'NX', 'GET');
		return (await pipeline.exec()).map(([error, found]) => error ?? found);
	}

	async #setByScript(events, claim) {
		try {
			return await this.#redis.claim(events.length, ...keysOf(events), claim, this.#ttl);
		} catch (error) {
			return events.map(() => error);
		}
	}

	// Of each event ABSENT, DONE or OTHER; UNKNOWN if Redis cannot be asked.
	async look(events) {
		try {
			const found = await this.#redis.mget(keysOf(events));
			return found.map((value) => (value === null ? ABSENT : value.startsWith('done@') ? DONE : OTHER));
		} catch {
			return events.map(() => UNKNOWN);
		}
	}

	// Only after the commit. A mark that is lost costs a conflict in Postgres.
	mark(events) {
		this.#redis.mark(events.length, ...keysOf(events), `done@${Date.now()}`, this.#window).catch(() => {});
	}

	// A claim that cannot be given back expires.
	async release(events) {
		const owned = events.filter((event) => event.claim);
		const values = owned.map((event) => event.claim);
		await this.#redis.release(owned.length, ...keysOf(owned), ...values).catch(() => {});
	}

	// What was asked before is answered first.
	async close() {
		await this.#redis.quit().catch(() => {});
	}
}

module.exports = { Claims, MINE, DONE, OTHER, ABSENT, UNKNOWN };
