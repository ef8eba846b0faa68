#!/usr/bin/env -S node --max-semi-space-size=64
// listener.js: the listener that one would write in Node instead of wsonce. See ../README.md. With a large young
// generation the events in hand are collected young.
'use strict';
const { Claims } = require('./claims');
const { Feed } = require('./feed');
const { Ingest } = require('./ingest');
const { readOptions } = require('./options');
const { Pipeline } = require('./pipeline');
const { READERS } = require('./readers');
const { Store } = require('./store');

const PROGRESS_MS = 100;
const DRAIN_MS = 10_000;

function say(object) {
	process.stdout.write(`${JSON.stringify(object)}\n`);
}

function complain(sentence) {
	process.stderr.write(`listener.js: ${sentence}\n`);
}

function fail(status, sentence) {
	complain(sentence);
	process.exit(status);
}

// Returns a function that tells how far it is, if that has changed.
function follow(counts) {
	let last = JSON.stringify(counts);
	return () => {
		const now = JSON.stringify(counts);
		if (now !== last)
			process.stdout.write(`${(last = now)}\n`);
	};
}

// The troubles of Redis come with each attempt to connect; one sentence is enough for all of the same text.
function complainOnce() {
	let last = '';
	return (sentence) => {
		if (sentence !== last)
			complain((last = sentence));
	};
}

async function main() {
	let options;
	try {
		options = readOptions(process.argv.slice(2));
	} catch (error) {
		fail(2, error.message);
	}

	const store = new Store(options.postgres, options.storeBy);
	await store.open().catch((error) => fail(1, `Postgres cannot be reached (${error.message})`));
	const claims = new Claims(options, complainOnce());
	await claims.ready;
	const pipeline = new Pipeline(claims, store, READERS[options.form], options.claimTtl * 1000, {
		onFull: (isFull) => (isFull ? feed.pause() : feed.resume()),
		onTrouble: complain,
	});
	let isReady = false;
	const handlers = {
		onOpen: (port) => isReady || say({ ready: (isReady = true), port }),
		onMessage: (data, producer) => pipeline.receive(data, producer),
		onTrouble: complain,
	};
	const feed = options.ingest ? new Ingest(options.ingest, handlers) : new Feed(options.source, handlers);
	const progress = follow(pipeline.counts);
	setInterval(progress, PROGRESS_MS);

	process.once('SIGTERM', async () => {
		feed.close();
		const left = await pipeline.drain(DRAIN_MS);
		progress();
		if (left > 0)
			fail(1, `${left} events were left after ${DRAIN_MS / 1000} s`);
		await claims.close();
		process.exit(0);
	});
}

main();
