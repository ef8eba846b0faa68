// store.js: one connection to Postgres that stores batches, opened again after every failure.
'use strict';
const { finished } = require('node:stream/promises');
const { Client, DatabaseError } = require('pg');
const { from: copyFrom } = require('pg-copy-streams');

const INSERT = `
INSERT INTO events (event_id, event_type, payload)
SELECT * FROM unnest($1::text[], $2::text[], $3::jsonb[])
ON CONFLICT (event_id) DO NOTHING`;
const COPY = 'COPY events (event_id, event_type, payload) FROM STDIN';
const UNIQUE_VIOLATION = '23505';

// An array of JSON texts as Postgres reads it. JSON text has no control characters, so JSON's own quotes will do; they
// are much faster than pg's.
function quoteAll(texts) {
	return `{${JSON.stringify(texts).slice(1, -1)}}`;
}

const ESCAPES = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };

// A field of COPY's text form. Most have nothing to escape.
function escapeField(text) {
	return /[\\\n\r\t]/.test(text) ? text.replace(/[\\\n\r\t]/g, (character) => ESCAPES[character]) : text;
}

class Store {
	#config;
	#client = null;
	#copies;

	// storeBy: "insert", or "copy" for COPY with INSERT where a row is there already.
	constructor(config, storeBy) {
		this.#config = config;
		this.#copies = storeBy === 'copy';
	}

	async open() {
		const client = new Client(this.#config);
		client.on('error', () => {});	// the query under way fails, too
		await client.connect();
		this.#client = client;
	}

	// Returns how many rows are new. After an error the outcome may be unknown; the same rows can be sent again.
	async store(events) {
		events.sort((a, b) => (a.id < b.id ? -1 : 1));	// two listeners' batches in different orders deadlock
		try {
			if (!this.#client)
				await this.open();
			return await (this.#copies ? this.#copy(events) : this.#insert(events));
		} catch (error) {
			this.close();
			throw error;
		}
	}

	async #insert(events) {
		const { rowCount } = await this.#client.query(INSERT, [
			events.map((event) => event.id),
			events.map((event) => event.type),
			quoteAll(events.map((event) => JSON.stringify(event.payload))),
		]);
		return rowCount;
	}

	// COPY takes all rows or none.
	async #copy(events) {
		let lines = '';
		for (const { id, type, payload } of events)
			lines += `${escapeField(id)}\t${escapeField(type)}\t${escapeField(JSON.stringify(payload))}\n`;
		try {
			const stream = this.#client.query(copyFrom(COPY));
			stream.end(lines);
			await finished(stream);
			return stream.rowCount;
		} catch (error) {
			if (error.code !== UNIQUE_VIOLATION)
				throw error;
			return this.#insert(events);
		}
	}

	// Whether it is the fault of a row, and not of the server or the connection. JSON.stringify() has a RangeError
	// for what is nested too deep.
	static isOfRow(error) {
		return error instanceof RangeError || (error instanceof DatabaseError && /^(21|22|23|54)/.test(error.code));
	}

	close() {
		this.#client?.end().catch(() => {});
		this.#client = null;
	}
}

module.exports = { Store };
