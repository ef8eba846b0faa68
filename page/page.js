// The script of wsonce's page. Data from servers is set as text, never as markup.
"use strict";

const EVERY_MS = 3000, STALE_MS = 12000, AGAIN_MS = 30000, LINES_MS = 60000, EXAMPLES = 25;
const SVG = "http://www.w3.org/2000/svg";
const $ = id => document.getElementById(id);

// --- text ---

// Escapes characters that would hide others or reverse their order.
function visible(value) {
	return String(value).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g,
		c => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

function span(seconds) {
	if (seconds === undefined || seconds === null) return "never";
	const s = Math.max(0, Math.floor(seconds)), d = Math.floor(s / 86400), h = Math.floor(s / 3600), m = Math.floor(s / 60);
	if (d) return d + "d" + (h % 24) + "h";
	if (h) return h + "h" + String(m % 60).padStart(2, "0") + "m";
	return m ? m + "m" + String(s % 60).padStart(2, "0") + "s" : s + "s";
}

const rate = n => (n || 0).toLocaleString("en", {maximumFractionDigits: n >= 100 ? 0 : 1});
const whole = n => (n || 0).toLocaleString("en");
const some = (n, one, more) => whole(n) + " " + (n === 1 ? one : more);
const ms = n => n === null || n === undefined ? "none" : n >= 1000 ? rate(n / 1000) + " s" : rate(n) + " ms";

// --- elements ---

function element(tag, attributes, ...children) {
	const e = document.createElement(tag);
	for (const [name, value] of Object.entries(attributes || {}))
		if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
		else if (value === true) e.setAttribute(name, "");
		else if (value !== false && value !== undefined) e.setAttribute(name, value);
	e.append(...children.map(c => c instanceof Node ? c : visible(c)));
	return e;
}

function shape(tag, attributes) {
	const e = document.createElementNS(SVG, tag);
	for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
	return e;
}

// Changes only text that differs, so that a selection, the focus and a screen reader stay in place.
function setText(e, text) {
	const shown = visible(text);
	if (e.textContent !== shown) e.textContent = shown;
}

function setClass(e, name) {
	if (e.className !== name) e.className = name;
}

// columns: [title, kind ("number", "text" or ""), row => text or [text, class]]
function table(place, title, columns, rows, none) {
	if (!rows.length) {
		if (!place.querySelector("p.none")) place.replaceChildren(element("p", {class: "none soft"}, none));
		return setText(place.firstChild, none);
	}
	let body = place.querySelector("tbody");
	if (!body) {
		body = element("tbody");
		const head = element("tr", {}, ...columns.map(c => element("th", {scope: "col", class: c[1]}, c[0])));
		place.replaceChildren(element("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": title + ", as a table"},
			element("table", {}, element("thead", {}, head), body)));
	}
	while (body.rows.length > rows.length) body.lastChild.remove();
	while (body.rows.length < rows.length) body.append(element("tr", {}, ...columns.map(() => element("td"))));
	rows.forEach((row, i) => columns.forEach((column, j) => {
		const value = column[2](row), [text, name] = Array.isArray(value) ? value : [value, ""];
		setText(body.rows[i].cells[j], text);
		setClass(body.rows[i].cells[j], (column[1] + " " + (name || "")).trim());
	}));
}

// --- charts ---

// Draws a line for each series; a minute that no listener has reported is a gap. The last minute may not be reported yet:
// listeners check in once a minute.
function draw(place, title, hour, last, series, print) {
	const top = Math.max(0, ...hour.flatMap(m => series.map(s => s[1](m) || 0)));
	const key = JSON.stringify([hour.length, last, top, hour.map(m => series.map(s => s[1](m)))]);
	if (place.dataset.key === key) return;
	place.dataset.key = key;
	const svg = shape("svg", {class: "chart", viewBox: "0 0 600 100", preserveAspectRatio: "none", role: "img"});
	const newest = hour.filter(m => Date.parse(m.at) / 60000 >= last - 2).pop() || {};
	const clock = minute => new Date(minute * 60000).toISOString().slice(11, 16);
	svg.setAttribute("aria-label", hour.length ? title + ", at most " + print(top) + " in " + hour.length + " minutes; now " +
		series.map(s => s[0] + " " + print(s[1](newest))).join(", ") : title + ": no data yet");
	svg.append(shape("path", {class: "base", d: "M0 99H600"}));
	series.forEach((s, i) => {
		let d = "", before = -2;
		for (const m of hour) {
			const value = s[1](m), at = 59 - (last - Date.parse(m.at) / 60000);
			if (value === null || value === undefined || at < 0) continue;
			const x = at / 59 * 600, y = 98 - (top ? value / top * 94 : 0);
			d += (at === before + 1 ? "L" : "M" + (x - 2).toFixed(1) + " " + y.toFixed(1) + "L") + x.toFixed(1) + " " + y.toFixed(1);
			before = at;
		}
		if (d) svg.append(shape("path", {class: "s" + i, d}));
	});
	const names = element("ul", {class: "key"}, ...series.map((s, i) => {
		const line = shape("svg", {viewBox: "0 0 32 10", "aria-hidden": "true"});
		line.append(shape("path", {class: "s" + i, d: "M0 5H32", "stroke-width": 3, fill: "none"}));
		return element("li", {}, line, " " + s[0] + " " + (newest.at ? print(s[1](newest)) : "unknown"));
	}));
	place.replaceChildren(element("div", {class: "range"}, element("span", {}, "to " + print(top))), svg,
		element("div", {class: "range"}, element("span", {}, hour.length ? clock(last - 59) : "no data yet: the first minute is not over"),
			element("span", {}, hour.length ? clock(last) + " UTC" : "")), names);
}

// --- tables ---

const listenerColumns = [
	["Listener", "", l => l.name], ["Alive", "", l => l.is_alive ? ["yes", "good"] : ["no", "bad"]], ["Version", "", l => l.version],
	["Up", "number", l => span(l.uptime_s)], ["Check-in", "number", l => span(l.checkin_s) + " ago"],
	["Received/s", "number", l => rate(l.received_per_s)], ["Stored/s", "number", l => rate(l.stored_per_s)],
	["Duplicates/s", "number", l => rate(l.duplicates_per_s)], ["In flight", "number", l => whole(l.in_flight)],
	["Held", "number", l => whole(l.held)], ["Oldest", "number", l => ms(l.oldest_ms)],
];
const sourceColumns = [
	["Source", "", s => s.name], ["Listener", "", s => s.listener], ["State", "", s => [s.state, s.is_ready ? "good" : "bad"]],
	["Last message", "number", s => s.silent_s === undefined || s.silent_s === null ? "none yet" : span(s.silent_s) + " ago"],
	["Messages/s", "number", s => s.messages_per_s === undefined ? "" : rate(s.messages_per_s)], ["Error", "text", s => [s.error || "", "bad"]],
];
const marks = {verified: "=", covered: "-", unverified: "?", differing: "!", open: "O"};
const lineColumns = [
	["Source", "", s => s.name], ["Last hour", "strip", s => s.minutes.map(m => marks[m.state].repeat(m.length_ms / 60000)).join("")],
	["Missed by a connection", "text", s => Object.entries(missed(s)).filter(([, n]) => n).map(([name, n]) => name + " " + whole(n)).join(", ") || "nothing"],
	["Nobody connected", "number", s => [ms(s.open_ms), s.open_ms ? "bad" : ""]],
	["Missing numbers", "number", s => s.holes === null ? "" : [whole(s.holes), s.holes ? "bad" : ""]],
];
const targetColumns = [
	["Target", "", t => t.target], ["Pending", "number", t => whole(t.pending) + (t.is_more ? " or more" : "")], ["Oldest", "number", t => span(t.oldest_s)],
	["Dead", "number", t => [whole(t.dead), t.dead ? "bad" : ""]],
];

function missed(source) {
	const sums = {};
	for (const line of source.minutes.flatMap(m => m.lines)) sums[line.instance] = (sums[line.instance] || 0) + line.missing;
	return sums;
}

function renderServers(s) {
	const rows = [], p = s.postgres || {}, r = s.redis;
	rows.push({name: "Postgres", up: p.is_up, latency: p.latency_ms, what: [p.version, p.role, p.synchronous_commit && "synchronous_commit " + p.synchronous_commit,
		p.schema_version && "schema " + p.schema_version].filter(Boolean).join(", ")});
	rows.push(r ? {name: "Redis", up: r.is_up, latency: r.latency_ms, what: [r.version, r.role, r.used_memory_human && r.used_memory_human + " used", r.maxmemory_policy].filter(Boolean).join(", ")}
		: {name: "Redis", what: "not used"});
	table($("table-servers"), "Servers", [["Server", "", x => x.name], ["Up", "", x => x.up === undefined ? "" : x.up ? ["yes", "good"] : ["no", "bad"]],
		["Answers in", "number", x => x.latency === undefined ? "" : ms(x.latency)], ["Details", "text", x => x.what]], rows, "");
	const differing = Object.entries(s.differing_settings || {}).flatMap(([flag, values]) => Object.entries(values).map(([value, who]) => ({flag, value, who})));
	table($("table-settings"), "Settings that differ", [["Setting", "", x => "--" + x.flag], ["Value", "text", x => x.value], ["Listeners", "text", x => x.who.join(", ")]],
		differing, "All listeners have the same settings.");
}

function renderProblems(problems) {
	const list = $("problems");
	if (list.dataset.key === JSON.stringify(problems)) return;
	list.dataset.key = JSON.stringify(problems);
	list.replaceChildren(...problems.map(p => element("li", {}, p)));
}

let heard = 0, shown = null;

function render(s) {
	heard = Date.now();
	showAge();
	setText($("state"), s.status);
	$("state").dataset.state = s.status;
	document.title = (s.status === "ok" ? "" : s.status + ": ") + "wsonce";
	renderProblems(s.problems || []);
	if (s.status === "unknown") return;
	const hour = s.hour || [], last = s.at ? Math.floor(Date.parse(s.at) / 60000) - 1 : hour.length ? Date.parse(hour[hour.length - 1].at) / 60000 : 0;
	draw($("chart-rates"), "Messages per second", hour, last, [["received", m => m.received_per_s], ["stored", m => m.stored_per_s], ["duplicates", m => m.duplicates_per_s]], rate);
	draw($("chart-latency"), "From received to committed", hour, last, [["99 %", m => m.p99_ms], ["median", m => m.p50_ms]], n => n === null || n === undefined ? "none" : "≤ " + ms(n));
	draw($("chart-letters"), "Dead letters per minute", hour, last, [["dead letters", m => m.dead_lettered]], whole);
	table($("table-listeners"), "Listeners", listenerColumns, s.listeners || [], "No listener has checked in within the last hour.");
	table($("table-sources"), "Sources", sourceColumns, s.sources || [], "No listener dials a source.");
	table($("table-targets"), "Outbox by target", targetColumns, s.targets || [], "No deliveries are pending or dead.");
	renderServers(s);
	if (s.dead_letters && (!shown || shown.dead_letters.open !== s.dead_letters.open)) lettersAreOld();
	shown = s;
}

function showAge() {
	const age = Date.now() - heard, stale = age > STALE_MS;
	setText($("news"), !heard ? "" : stale ? "no update for " + span(age / 1000) + ": this page is outdated" : "updated " + new Date(heard).toLocaleTimeString());
	setClass($("news"), stale ? "stale" : "");
	if (stale && heard) $("state").dataset.state = "unknown";
}

// --- polling ---

async function ask(path, options) {
	const answer = await fetch(path, Object.assign({cache: "no-store", credentials: "omit"}, options));
	const text = await answer.text();
	if (!answer.ok) throw new Error(text.trim() || "HTTP status " + answer.status);
	return JSON.parse(text);
}

let linesAt = 0;

// Listeners report their lines once a minute.
async function lookAtLines() {
	if (Date.now() - linesAt < LINES_MS) return;
	linesAt = Date.now();
	try { table($("table-lines"), "Lines", lineColumns, (await ask("/api/lines")).sources, "No connection has told of the last hour."); } catch (error) { linesAt = 0; }
}

// Polls less often while the page is hidden, and never twice at once, since an answer may take long.
let isLooking = false, timer = 0;

async function look() {
	if (isLooking) return;
	isLooking = true;
	try { render(await ask("/api/status")); await lookAtLines(); } catch (error) { showAge(); }
	isLooking = false;
}

function listen() {
	clearInterval(timer);
	timer = setInterval(look, document.hidden ? AGAIN_MS : EVERY_MS);
	look();
}

// --- dead letters ---

let mayChange = false, asked = "";

async function begin() {
	try { mayChange = (await ask("/api/access")).may_change; } catch (error) { mayChange = false; }
	lettersChanged();
}

// Waits, so that a flood of dead letters causes few requests; also waits while the focus is in the list.
let reload = 0;

function lettersAreOld() {
	if (!reload) reload = setTimeout(() => {
		reload = 0;
		if ($("letters-groups").contains(document.activeElement)) lettersAreOld();
		else lettersChanged();
	}, EVERY_MS);
}

const isDeliveries = () => $("letters-form").elements.deliveries.checked;

function query(form) {
	const given = [...new FormData(form)].filter(([, value]) => value.trim()).map(([name, value]) => name + "=" + encodeURIComponent(value.trim()));
	return given.join("&");
}

async function lettersChanged() {
	const q = query($("letters-form")) + "&examples=" + EXAMPLES;
	asked = q;
	try {
		const list = await ask("/api/dead-letters?" + q);
		if (asked === q) showGroups(list);
	} catch (error) {
		setText($("letters-said"), error.message);
	}
}

function showGroups(list) {
	const what = isDeliveries() ? ["dead delivery", "dead deliveries"] : ["dead letter", "dead letters"], count = list.letters === undefined ? list.deliveries : list.letters;
	const open = new Set([...$("letters-groups").querySelectorAll("details[open]")].map(d => d.dataset.reason));
	setText($("letters-said"), count ? some(count, ...what) + (list.newest ? " among the newest " + whole(list.newest) : "") +
		", " + some(list.reasons, "reason", "reasons") : "No such " + what[1] + ".");
	$("letters-groups").replaceChildren(...list.groups.map(g => showGroup(g, open)));
}

function showGroup(g, open) {
	const title = (g.target ? g.target + ": " : "") + g.reason, n = g.letters === undefined ? g.deliveries : g.letters;
	const ids = g.examples.map(e => e.id);
	const buttons = changes().map(([verb, path]) => element("button", {type: "button", class: "small",
		onclick: () => change(verb, path, ids)}, verb + (ids.length === 1 ? " it" : " these " + ids.length)));
	return element("details", {"data-reason": title, open: open.has(title)},
		element("summary", {}, element("strong", {}, whole(n)), " ", title, element("span", {class: "soft"}, "  last " + (g.last_seen || g.last_settled || ""))),
		element("p", {class: "soft"}, ids.length < n ? "the latest " + ids.length + " of them:" : "all of them:"),
		element("ul", {}, ...g.examples.map(e => element("li", {}, element("button", {type: "button", class: "small", onclick: () => showLetter(e.id)}, "show " + e.id), " ",
			e.event_id === null || e.event_id === undefined ? "without an id" : e.event_id))), ...(ids.length ? buttons : []));
}

function changes() {
	if (!mayChange) return [];
	return $("letters-form").elements.state.value === "resolved" ? [["Reopen", "reopen"]] : [["Retry", "retry"], ["Discard", "discard"]];
}

function hex(bytes) {
	const lines = [];
	for (let i = 0; i < bytes.length; i += 16) {
		const part = [...bytes.slice(i, i + 16)];
		lines.push(i.toString(16).padStart(8, "0") + "  " + part.map(b => b.toString(16).padStart(2, "0")).join(" ").padEnd(48) + " " +
			part.map(b => b > 31 && b < 127 ? String.fromCharCode(b) : ".").join(""));
	}
	return lines.join("\n");
}

function pairs(object, without) {
	return element("dl", {}, ...Object.entries(object).filter(([name, value]) => !without.includes(name) && value !== null && value !== "" && !(Array.isArray(value) && !value.length)).flatMap(([name, value]) =>
		[element("dt", {}, name), element("dd", {}, typeof value === "object" ? JSON.stringify(value) : value)]));
}

async function showLetter(id) {
	const place = $("letter"), kind = isDeliveries() ? "dead delivery" : "dead letter";
	try {
		const letter = await ask("/api/dead-letters/show?id=" + id + (isDeliveries() ? "&deliveries=1" : ""));
		const text = letter.raw !== undefined ? letter.raw : letter.payload !== undefined ? (typeof letter.payload === "string" ? letter.payload : JSON.stringify(letter.payload, null, 1)) : null;
		const bytes = text === null && letter.raw_base64 !== undefined ? hex(Uint8Array.from(atob(letter.raw_base64), c => c.charCodeAt(0))) : text;
		place.replaceChildren(element("h3", {}, kind + " " + id), pairs(letter, ["raw", "raw_base64", "payload"]),
			element("p", {}, ...changes().map(([verb, path]) => element("button", {type: "button", onclick: () => change(verb, path, [id])}, verb + " it")),
				...(letter.event_id ? [" ", element("button", {type: "button", onclick: () => explain(letter.event_id)}, "Explain its event")] : [])),
			element("pre", {tabindex: 0, role: "region", "aria-label": "bytes"}, bytes === null ? "" : bytes));
	} catch (error) {
		place.replaceChildren(element("p", {role: "alert"}, error.message));
	}
	place.focus();
	place.scrollIntoView({block: "nearest"});
}

// --- changes ---

let token = "";

function confirm(verb, count) {
	const dialog = $("confirm"), form = dialog.querySelector("form"), what = isDeliveries() ? "dead deliver" + (count > 1 ? "ies" : "y") : "dead letter" + (count > 1 ? "s" : "");
	setText($("confirm-title"), verb + " " + count + " " + what + "?");
	setText($("confirm-text"), {Retry: "Processes the message again. Fix what stopped it first.",
		Discard: "Takes it off the list and keeps it in the table. It opens again if the same message comes again.",
		Reopen: "Puts it back on the list."}[verb]);
	setText($("confirm-yes"), verb);
	form.elements.token.value = token;
	form.elements.note.value = "";
	return new Promise(done => {
		dialog.addEventListener("close", () => {
			const given = {note: form.elements.note.value, token: form.elements.token.value};
			form.elements.token.value = "";
			done(dialog.returnValue === "yes" ? given : null);
		}, {once: true});
		dialog.returnValue = "";
		dialog.showModal();
		(token ? form.elements.note : form.elements.token).focus();
	});
}

async function change(verb, path, ids) {
	const given = await confirm(verb, ids.length);
	if (!given) return;
	setText($("letters-done"), "…");
	try {
		const result = await ask("/api/dead-letters/" + path, {method: "POST",
			headers: {"Content-Type": "application/json", Authorization: "Bearer " + given.token},
			body: JSON.stringify({ids, note: given.note, deliveries: isDeliveries()})});
		token = given.token;
		$("letter").replaceChildren();
		await lettersChanged();
		$("letters-done").focus();
		setText($("letters-done"), verb + ": " + Object.entries(result).filter(([, value]) => typeof value !== "object").map(([name, value]) => name + " " + value).join(", "));
	} catch (error) {
		setText($("letters-done"), verb + ": " + error.message);
	}
}

// --- an event's history ---

async function explain(id) {
	$("event-form").elements.id.value = id;
	const place = $("event-history");
	place.replaceChildren();
	setText($("event-said"), "…");
	try {
		const h = await ask("/api/explain?id=" + encodeURIComponent(id));
		setText($("event-said"), h.event_id + ": " + (h.is_stored ? "stored" : h.history.length ? "not stored" : "unknown"));
		if (h.history.length)
			table(place, "History", [["When", "", m => m.at], ["What", "", m => m.what], ["Details", "text", m => Object.entries(m).filter(([n, v]) => n !== "at" && n !== "what" && v !== null)
				.map(([n, v]) => n + "=" + (typeof v === "object" ? JSON.stringify(v) : v)).join("  ")]], h.history, "");
		place.append(...h.unread.map(u => element("p", {class: "soft"}, "not read: " + u.where + ": " + u.why)));
	} catch (error) {
		setText($("event-said"), error.message);
	}
	$("event").scrollIntoView({block: "nearest"});
}

$("letters-form").addEventListener("submit", e => { e.preventDefault(); $("letter").replaceChildren(); lettersChanged(); });
$("event-form").addEventListener("submit", e => { e.preventDefault(); explain(e.target.elements.id.value); });
$("confirm-no").addEventListener("click", () => $("confirm").close(""));
document.addEventListener("visibilitychange", listen);
setInterval(showAge, 1000);
begin();
listen();
