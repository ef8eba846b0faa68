// ingest.js: producers instead of a feed: a server that they connect to, which tells them how each message ended. All
// acks of a connection in one turn of the loop go out by one write.
'use strict';
const { WebSocketServer } = require('ws');

const ACK_PROTOCOL = 'wsonce.ack.v1';
const BACKLOG = 4096;			// connections that may come at once

class Producer {
	#socket;
	#isCorked = false;

	constructor(socket) {
		this.#socket = socket;
	}

	ack(id, status) {
		if (this.#socket.readyState !== this.#socket.OPEN)
			return;
		if (!this.#isCorked) {
			this.#isCorked = true;
			this.#socket._socket.cork();
			setImmediate(() => {
				this.#isCorked = false;
				this.#socket._socket?.uncork();
			});
		}
		this.#socket.send(`{"event_id":${JSON.stringify(id)},"status":"${status}"}`);
	}
}

class Ingest {
	#server;
	#isPaused = false;

	// handlers: onOpen(port), onMessage(buffer, producer), onTrouble(sentence)
	constructor(address, { onOpen, onMessage, onTrouble }) {
		const [, host, port] = /^(.*):(\d+)$/.exec(address);
		this.#server = new WebSocketServer({
			host, port: Number(port), backlog: BACKLOG, perMessageDeflate: false,
			handleProtocols: (offered) => (offered.has(ACK_PROTOCOL) ? ACK_PROTOCOL : false),
		});
		this.#server.on('listening', () => onOpen(this.#server.address().port));
		this.#server.on('error', (error) => onTrouble(error.message));
		this.#server.on('connection', (socket) => {
			const producer = socket.protocol === ACK_PROTOCOL ? new Producer(socket) : null;
			socket.on('message', (data) => onMessage(data, producer));
			socket.on('error', () => {});		// it closes, too
			if (this.#isPaused)
				socket.pause();
		});
	}

	// Messages that were already read from a socket may still come.
	pause() {
		this.#isPaused = true;
		this.#server.clients.forEach((socket) => socket.pause());
	}

	resume() {
		this.#isPaused = false;
		this.#server.clients.forEach((socket) => socket.resume());
	}

	close() {
		this.#server.clients.forEach((socket) => socket.terminate());
		this.#server.close();
	}
}

module.exports = { Ingest };
