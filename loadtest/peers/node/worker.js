#!/usr/bin/env -S node --max-semi-space-size=64
// worker.js: the worker that one would write in Node instead of wsonce's outbox. See ../README.md. Lanes take turns
// with the database and share the sockets: while one settles its hundred rows the others are sending theirs.
'use strict';
const { createHash, createHmac } = require('node:crypto');
const { readFileSync } = require('node:fs');
const http = require('node:http');
const { setTimeout: sleep } = require('node:timers/promises');
const { parseArgs } = require('node:util');
const { Client } = require('pg');
const { readConninfo } = require('./options');

const FLAGS = ['postgres', 'target', 'url', 'secret-file', 'instance'];
const LANES = 3, ROWS = 100, SOCKETS = 32;
const TIMEOUT_MS = 15_000, IDLE_MS = 100, PROGRESS_MS = 100;
const ATTEMPTS = 20, BACKOFF_S = 2, BACKOFF_CAP_S = 3600;

// The locks last until the rows are settled. Who dies lets go of them, so no lease is written.
const TAKE = `
SELECT id, event_id, attempts, '{"type":' || to_json(event_type) || ',"timestamp":"' ||
	to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || '","id":' || to_json(event_id) ||
	',"data":' || payload || '}' AS body
FROM outbox WHERE target = $1 AND state = 'pending' AND due_at <= now()
ORDER BY due_at LIMIT ${ROWS} FOR UPDATE SKIP LOCKED`;
const SETTLE = `
UPDATE outbox AS o SET
	state = e.state, attempts = o.attempts + 1, status = e.status, answer = e.answer,
	due_at = statement_timestamp() + e.wait * interval '1 second',
	settled_at = CASE WHEN e.state <> 'pending' THEN statement_timestamp() END,
	payload = CASE WHEN e.state <> 'delivered' THEN o.payload END
FROM unnest($1::bigint[], $2::text[], $3::int[], $4::text[], $5::float8[]) AS e (id, state, status, answer, wait)
WHERE o.id = e.id`;

function complain(sentence) {
	process.stderr.write(`worker.js: ${sentence}\n`);
}

function fail(status, sentence) {
	complain(sentence);
	process.exit(status);
}

function readOptions(args) {
	const { values } = parseArgs({ args, options: Object.fromEntries(FLAGS.map((name) => [name, { type: 'string' }])) });
	for (const name of FLAGS)
		if (!values[name])
			throw new Error(`--${name} is missing: give it a value`);
	const [, secret] = readFileSync(values['secret-file'], 'utf8').match(/^whsec_(\S+)\s*$/) ?? [];
	if (!secret)
		throw new Error(`--secret-file ${values['secret-file']}: it does not begin with whsec_`);
	const url = new URL(values.url);
	return {
		postgres: readConninfo(values.postgres),
		target: values.target,
		key: Buffer.from(secret, 'base64'),
		where: { host: url.hostname, port: url.port || 80, path: url.pathname + url.search },
	};
}

class Worker {
	counts = { taken: 0, delivered: 0, failed: 0 };
	#options;
	#agent = new http.Agent({ keepAlive: true, maxSockets: SOCKETS, scheduling: 'lifo' });
	#isLeaving = false;

	constructor(options) {
		this.#options = options;
	}

	leave() {
		this.#isLeaving = true;
	}

	// Until it is to leave. A transaction that fails leaves its rows to the next one, under the same keys.
	async lane() {
		let client = null;
		while (!this.#isLeaving) {
			try {
				client ??= await this.#connect();
				if (!(await this.#turn(client)))
					await sleep(IDLE_MS);
			} catch (error) {
				complain(`Postgres did not take part (${error.message})`);
				client?.end().catch(() => {});
				client = null;
				await sleep(IDLE_MS);
			}
		}
		await client?.end();
	}

	async #connect() {
		const client = new Client(this.#options.postgres);
		client.on('error', () => {});	// the query under way fails, too
		await client.connect();
		await client.query('SET synchronous_commit = off');
		return client;
	}

	// Returns how many rows there were.
	async #turn(client) {
		await client.query('BEGIN');
		const { rows } = await client.query({ name: 'take', text: TAKE, values: [this.#options.target] });
		this.counts.taken += rows.length;
		if (rows.length > 0) {
			const ends = await Promise.all(rows.map((row) => this.#deliver(row)));
			const columns = ['id', 'state', 'status', 'answer', 'wait'].map((name) => ends.map((end) => end[name]));
			await client.query({ name: 'settle', text: SETTLE, values: columns });
		}
		await client.query('COMMIT');
		return rows.length;
	}

	// What becomes of a row.
	async #deliver({ id, event_id: eventId, attempts, body }) {
		const { status, answer } = await this.#post(eventId, body);
		const isTaken = status >= 200 && status < 300;
		this.counts[isTaken ? 'delivered' : 'failed']++;
		if (isTaken)
			return { id, state: 'delivered', status, answer: null, wait: 0 };
		if (attempts + 1 >= ATTEMPTS || [400, 410, 422].includes(status))
			return { id, state: 'dead', status, answer, wait: 0 };
		return { id, state: 'pending', status, answer, wait: Math.random() * Math.min(BACKOFF_S * 2 ** attempts, BACKOFF_CAP_S) };
	}

	// Returns the status, null if there was none, and why it failed.
	#post(eventId, body) {
		const { target, key, where } = this.#options;
		const id = `msg_${createHash('sha256').update(`${target}\0${eventId}`).digest('hex').slice(0, 32)}`;
		const timestamp = String(Math.floor(Date.now() / 1000));
		const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
		return new Promise((resolve) => {
			const request = http.request({
				...where, method: 'POST', agent: this.#agent, timeout: TIMEOUT_MS,
				headers: {
					'content-type': 'application/json', 'content-length': Buffer.byteLength(body),
					'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}`,
					'idempotency-key': id,
				},
			}, (response) => {
				let head = '';
				response.setEncoding('utf8');
				response.on('data', (text) => (head = (head + text).slice(0, 1024)));
				response.on('close', () => resolve({ status: response.statusCode, answer: head.replaceAll('\0', ' ') }));
			});
			request.on('timeout', () => request.destroy(new Error('no answer in time')));
			request.on('error', (error) => resolve({ status: null, answer: error.message }));
			request.end(body);
		});
	}
}

// Returns a function that tells how far it is, if that has changed.
function follow(counts) {
	let last = '';
	return () => {
		const now = JSON.stringify({ ready: true, ...counts });
		if (now !== last)
			process.stdout.write(`${(last = now)}\n`);
	};
}

async function main() {
	let options;
	try {
		options = readOptions(process.argv.slice(2));
	} catch (error) {
		fail(2, error.message);
	}
	const worker = new Worker(options);
	const progress = follow(worker.counts);
	process.once('SIGTERM', () => worker.leave());
	setInterval(progress, PROGRESS_MS).unref();
	progress();
	await Promise.all(Array.from({ length: LANES }, () => worker.lane()));
	progress();
	process.exit(0);
}

main();
