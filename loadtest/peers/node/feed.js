// feed.js: the connection to the source, which is dialled again whenever it ends.
'use strict';
const WebSocket = require('ws');

const BACKOFF_MS = { least: 100, most: 5000 };

class Feed {
	#url;
	#handlers;
	#socket = null;
	#isPaused = false;
	#isClosed = false;
	#failures = 0;

	// handlers: onOpen(), onMessage(buffer), onTrouble(sentence)
	constructor(url, handlers) {
		this.#url = url;
		this.#handlers = handlers;
		this.#dial();
	}

	#dial() {
		const socket = new WebSocket(this.#url, { perMessageDeflate: false, handshakeTimeout: 10_000 });
		this.#socket = socket;
		socket.on('open', () => {
			this.#failures = 0;
			if (this.#isPaused)
				socket.pause();
			this.#handlers.onOpen();
		});
		socket.on('message', (data) => this.#isClosed || this.#handlers.onMessage(data));
		socket.on('error', (error) => this.#report(error.message || error.code));
		socket.on('close', (code) => {
			this.#report(`closed with ${code}`);
			this.#dialLater();
		});
	}

	// Only the first sentence of an outage.
	#report(why) {
		if (this.#failures === 0 && !this.#isClosed)
			this.#handlers.onTrouble(`the connection to ${this.#url} failed (${why}), trying again`);
		this.#failures++;
	}

	#dialLater() {
		if (this.#isClosed)
			return;
		const ceiling = Math.min(BACKOFF_MS.most, BACKOFF_MS.least * 2 ** Math.min(this.#failures, 10));
		setTimeout(() => this.#isClosed || this.#dial(), Math.random() * ceiling);
	}

	// Messages that were already read from the socket may still come.
	pause() {
		this.#isPaused = true;
		if (this.#socket.readyState === WebSocket.OPEN)
			this.#socket.pause();
	}

	resume() {
		this.#isPaused = false;
		this.#socket.resume();
	}

	close() {
		this.#isClosed = true;
		this.#socket.terminate();
	}
}

module.exports = { Feed };
