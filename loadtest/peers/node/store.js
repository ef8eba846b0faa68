// store.js: one connection to Postgres that inserts batches, opened again after every failure.
'use strict';
const { Client, DatabaseError } = require('pg');

const INSERT = `
INSERT INTO events (event_id, event_type, payload)
SELECT * FROM unnest($1::text[], $2::text[], $3::jsonb[])
ON CONFLICT (event_id) DO NOTHING
RETURNING event_id`;

// An array of JSON texts as Postgres reads it. JSON text has no control characters, so JSON's own quotes will do; they
// are much faster than pg's.
function quoteAll(texts) {
	return `{${JSON.stringify(texts).slice(1, -1)}}`;
}

class Store {
	#config;
	#client = null;

	constructor(config) {
		this.#config = config;
	}

	async open() {
		const client = new Client(this.#config);
		client.on('error', () => {});	// the query under way fails, too
		await client.connect();
		this.#client = client;
	}

	// Returns how many rows are new. After an error the outcome may be unknown; the same rows can be sent again.
	async insert(events) {
		events.sort((a, b) => (a.id < b.id ? -1 : 1));	// two listeners' batches in different orders deadlock
		try {
			if (!this.#client)
				await this.open();
			const { rowCount } = await this.#client.query(INSERT, [
				events.map((event) => event.id),
				events.map((event) => event.type),
				quoteAll(events.map((event) => JSON.stringify(event.payload))),
			]);
			return rowCount;
		} catch (error) {
			this.close();
			throw error;
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
