// readers.js: from a message to its events, as each feed has them; null of what is none.
'use strict';

const ID_BYTES = 512;

function make(id, type, payload, bytes) {
	if (typeof id !== 'string' || id === '' || Buffer.byteLength(id) > ID_BYTES || typeof type !== 'string')
		return null;
	return { id, type, payload, bytes, copies: 1, producer: null, others: null, claim: '', heldAt: 0, lookAt: 0, looks: 0 };
}

function readEvent(message, bytes) {
	const { event_id: id, event_type: type = '', payload = {} } = message ?? {};
	return [make(id, type, payload, bytes)];
}

// One of Jetstream's.
function readCommit(message, bytes) {
	const { did, kind, commit } = message ?? {};
	if (kind !== 'commit' || !did || !commit)
		return [null];
	const { collection, rkey, rev } = commit;
	return [make(`${did}|${collection}|${rkey}|${rev}`, collection, message, bytes)];
}

// One of Kraken's, with several trades.
function readTrades(message, bytes) {
	const { channel, data } = message ?? {};
	if (channel !== 'trade' || !Array.isArray(data))
		return [null];
	return data.map((trade) => make(`${trade.symbol}|${trade.trade_id}`, channel, trade, bytes / data.length));
}

function reader(read) {
	return (data) => {
		try {
			return read(JSON.parse(data), data.length);
		} catch {
			return [null];
		}
	};
}

const READERS = { event: reader(readEvent), commit: reader(readCommit), trades: reader(readTrades) };

module.exports = { READERS };
