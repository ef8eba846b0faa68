// options.js: the command line, and what libpq would make of a connection string.
'use strict';
const { parseArgs } = require('node:util');

const FLAGS = ['source', 'ingest', 'redis', 'postgres', 'instance', 'claim-ttl', 'dedup-window', 'claim-by', 'store-by', 'form'];

function seconds(flags, name) {
	const value = Number(flags[name]);
	if (!Number.isInteger(value) || value < 1)
		throw new Error(`--${name} is "${flags[name]}": give a whole number of seconds`);
	return value;
}

// Of key=value pairs, for a socket's directory or a host.
function readConninfo(text) {
	const words = {};
	for (const [, key, quoted, plain] of text.matchAll(/(\w+)\s*=\s*(?:'((?:\\.|[^'\\])*)'|(\S+))/g))
		words[key] = quoted === undefined ? plain : quoted.replace(/\\(.)/g, '$1');
	const { host, port, user, dbname, password } = words;
	return { host, port: port && Number(port), user, database: dbname, password };
}

// Throws an Error whose message is one sentence.
function readOptions(args) {
	const { values } = parseArgs({
		args,
		options: Object.fromEntries(FLAGS.map((name) => [name, { type: 'string' }])),
	});
	const flags = { 'claim-ttl': '30', 'dedup-window': '300', 'claim-by': 'set', 'store-by': 'insert', form: 'event', ...values };
	if (!flags.source === !flags.ingest)
		throw new Error('give either --source or --ingest');
	for (const name of FLAGS)
		if (!flags[name] && name !== 'source' && name !== 'ingest')
			throw new Error(`--${name} is missing: give it a value`);
	if (!['set', 'script'].includes(flags['claim-by']))
		throw new Error(`--claim-by is "${flags['claim-by']}": give set or script`);
	if (!['insert', 'copy'].includes(flags['store-by']))
		throw new Error(`--store-by is "${flags['store-by']}": give insert or copy`);
	if (!['event', 'commit', 'trades'].includes(flags.form))
		throw new Error(`--form is "${flags.form}": give event, commit or trades`);
	return {
		source: flags.source,
		ingest: flags.ingest,
		redis: flags.redis.startsWith('unix://') ? { path: flags.redis.slice('unix://'.length) } : flags.redis,
		postgres: readConninfo(flags.postgres),
		instance: flags.instance,
		claimTtl: seconds(flags, 'claim-ttl'),
		dedupWindow: seconds(flags, 'dedup-window'),
		claimBy: flags['claim-by'],
		storeBy: flags['store-by'],
		form: flags.form,
	};
}

module.exports = { readConninfo, readOptions };
