"""The feeds' side of the protocols, a class each: owns what a listener must send and when, what is sent to it, which event_id
each event must have, and what the feed remembers for clients that reconnect."""
import base64
import ctypes
import gzip
import hashlib
import hmac
import json
import random
import subprocess
import tempfile
import time
import urllib.parse

from rig.frame import BINARY, PING, PONG, TEXT

TOKEN = "a-secret-of-the-test"          # every secret that a listener gets
EPOCH = 1790000000
POST = 115200000000000000               # ids of Mastodon, which have the time in them
BASE = int(time.time()) - 600           # where clocks are compared with the listener's


def stamp(n):
    """Returns a time of day, different for each event."""
    return time.strftime("2026-09-21T%H:%M:%S", time.gmtime(EPOCH + n // 1000)) + f".{n % 1000:03}Z"


class Event:
    def __init__(self, event_id, message):
        self.event_id = event_id
        self.message = message
        self.sent = []                  # (connection, when)
        self.is_late = False            # it was published while connections were cut


class Feed:
    """The base of all feeds: a listener that is ready gets every event at once."""

    name = None
    profile = None                      # the name of the shipped one, or a profile in its place; None: it has the feed's name
    pack = None                         # compresses each message, which is binary then
    files = {}                          # files beside the profile
    subprotocol = None
    is_exclusive = False
    replays = False                     # a listener that reconnects gets what it missed
    fills = False                       # its HTTP interface has what was sent while nobody was connected
    must_ack = False
    letters = 0                         # dead letters that it causes
    SUBSCRIBE_S = 5                     # time within which a listener must be ready
    BEAT_S = None                       # the longest silence of a listener that must send heartbeats
    TICK_S = None                       # the feed's own heartbeat
    overrides = {}                      # overrides of the profile, so that a test does not take minutes

    def __init__(self):
        self.connections = []
        self.events = []
        self.broken = []                # rules of the protocol
        self.port = 0
        self.ticked = 0.0
        self.acked = lambda event_id: None

    # ---- for scripts to override ----

    def refuses(self, request):
        """Returns (status, body) to refuse the connection, or None to accept it."""

    def http(self, request):
        return 404, {}

    def opened(self, c):
        """A connection was opened. The script decides when it is ready."""

    def received(self, c, message):
        c.broke(f"sent {json.dumps(message)[:120]}")

    def said(self, c, text):
        """A message came that is not JSON."""
        c.broke(f"sent what is not JSON: {text[:80]!r}", 1003)

    def closed(self, c):
        pass

    def controlled(self, c, op):
        """A frame of any kind came."""
        if op == PONG:
            c.pinged = 0.0

    def make(self, n):
        raise NotImplementedError

    def beat(self, c):
        """Sends the feed's heartbeat on a connection that is ready."""

    # ---- for all feeds ----

    def ready(self):
        return [c for c in self.connections if c.is_ready]

    def deliver(self, c, event):
        event.sent.append((c, time.monotonic()))
        c.send(event.message)

    def publish(self):
        event = self.make(len(self.events) + 1)
        self.events.append(event)
        for c in self.ready():
            self.deliver(c, event)

    def replay(self, c, events):
        for event in list(events):
            self.deliver(c, event)

    def watch(self):
        """Called several times a second."""
        now = time.monotonic()
        for c in [c for c in self.connections if not c.is_over and not c.is_frozen]:
            if not c.is_ready and now - c.opened > self.SUBSCRIBE_S:
                c.broke("did not subscribe in time", 4003)
            elif c.is_ready and self.BEAT_S and now - c.notes.get("beat", c.opened) > self.BEAT_S:
                c.broke("does not beat", 4000)
            elif not c.is_ready or not self.TICK_S or now - self.ticked < self.TICK_S:
                continue
            else:
                self.beat(c)
        if self.TICK_S and now - self.ticked >= self.TICK_S:
            self.ticked = now

    @staticmethod
    def beats(c):
        c.notes["beat"] = time.monotonic()

    @staticmethod
    def ping(c):
        if c.pinged and time.monotonic() - c.pinged > 10:
            c.broke("did not answer a ping")
        elif not c.pinged:
            c.ping()

    def deliver_together(self, c, events):
        """Sends events together in one frame."""
        now = time.monotonic()
        for event in events:
            event.sent.append((c, now))
        return [event.message for event in events]

    def url(self, path=""):
        return f"ws://127.0.0.1:{self.port}{path}"


class Jetstream(Feed):
    name = "jetstream"
    replays = True

    def refuses(self, request):
        if request.path != "/subscribe" or not request.asks("wantedCollections"):
            return 400, {"error": "no wantedCollections"}
        return None

    def opened(self, c):
        c.is_ready = True
        cursor = c.request.asks("cursor")
        if cursor:
            self.replay(c, [e for e in self.events if e.message["time_us"] >= int(cursor)])

    def make(self, n):
        did, rkey, rev = f"did:plc:{n % 7}", f"3m{n:06}", f"3r{n:06}"
        return Event(f"{did}|app.bsky.feed.post|{rkey}|{rev}",
                     {"did": did, "time_us": EPOCH * 10 ** 6 + n * 1000, "kind": "commit",
                      "commit": {"rev": rev, "operation": "create", "collection": "app.bsky.feed.post", "rkey": rkey,
                                 "record": {"text": f"post {n} 🐦"}, "cid": f"b{n}"}})


class JetstreamV2(Feed):
    name = "jetstream-v2"
    subprotocol = "xrpc.v1.json"
    replays = True

    def refuses(self, request):
        if self.subprotocol not in request.subprotocols():
            return 400, {"error": "InvalidRequest"}
        return None

    def opened(self, c):
        c.is_ready = True
        cursor = c.request.asks("cursor")
        if cursor:
            self.replay(c, [e for e in self.events if e.message["payload"]["seq"] >= int(cursor)])

    def make(self, n):
        did, rkey, rev = f"did:plc:{n % 7}", f"3m{n:06}", f"3r{n:06}"
        return Event(f"{did}|app.bsky.feed.post|{rkey}|{rev}",
                     {"$type": "message", "payload": {
                         "$type": "network.bsky.jetstream.subscribeEvents#commit", "seq": 88000000 + n, "did": did,
                         "time": stamp(n), "rev": rev, "operation": "create", "collection": "app.bsky.feed.post",
                         "rkey": rkey, "record": {"text": f"post {n}"}}})


class Kraken(Feed):
    """Knows no other pair than BTC/USD: the profile's other one is refused."""
    name = "kraken"
    letters = 1
    BEAT_S = 6
    TICK_S = 1
    overrides = {"ping": {"every_s": 1, "send": {"method": "ping", "req_id": "${counter}"}}}

    def opened(self, c):
        c.send('{"channel":"status","type":"update","data":[{"api_version":"v2","connection_id":18446744073709551615,'
               '"system":"online"}]}')

    def received(self, c, message):
        if message.get("method") == "ping" and isinstance(message["req_id"], int):
            self.beats(c)
            c.send({"method": "pong", "req_id": message["req_id"]})
        elif message.get("method") == "subscribe" and message["params"]["channel"] == "trade" and not c.is_ready:
            for symbol in message["params"]["symbol"]:
                c.send({"method": "subscribe", "result": {"channel": "trade", "symbol": symbol}, "success": True, "req_id": 1}
                       if symbol == "BTC/USD" else
                       {"method": "subscribe", "error": f"Currency pair not supported {symbol}", "symbol": symbol,
                        "success": False, "req_id": 1})
            c.is_ready = "BTC/USD" in message["params"]["symbol"]
            if c.is_ready:
                self.snapshot(c)
        else:
            super().received(c, message)

    def snapshot(self, c):
        last = self.deliver_together(c, self.events[-50:])
        if last:
            c.send({"channel": "trade", "type": "snapshot", "data": [message["data"][0] for message in last]})

    def beat(self, c):
        c.send({"channel": "heartbeat"})

    def make(self, n):
        return Event(f"BTC/USD|{n}", {"channel": "trade", "type": "update", "data": [
            {"symbol": "BTC/USD", "side": "buy", "price": 80691.5, "qty": 0.00027625, "ord_type": "limit", "trade_id": n,
             "timestamp": stamp(n)}]})


class Coinbase(Feed):
    name = "coinbase"
    fills = True
    overrides = {"backoff": {"min_ms": 100, "max_ms": 1000}}
    TICK_S = 1

    def http(self, request):
        """The newest trades before a number, at most 10 so that there are pages."""
        if not request.path.startswith("/products/BTC-USD/trades"):
            return 404, {}
        after = int(request.asks("after"))
        return 200, [{name: event.message[name] for name in ("time", "trade_id", "price", "size", "side")}
                     for event in self.events[max(after - 11, 0):after - 1][::-1]]

    def is_replayed(self, event):
        return event.is_late

    def received(self, c, message):
        if message.get("type") != "subscribe" or "matches" not in message["channels"] or not message["product_ids"]:
            super().received(c, message)
            return
        c.send({"type": "subscriptions", "channels": []})
        c.is_ready = True
        if self.events:
            last = self.events[-1]
            last.sent.append((c, time.monotonic()))
            c.send({**last.message, "type": "last_match"})

    def beat(self, c):
        c.send({"type": "heartbeat", "sequence": 90, "last_trade_id": len(self.events), "product_id": "BTC-USD",
                "time": stamp(0)})

    def make(self, n):
        return Event(f"BTC-USD|{n}", {"type": "match", "trade_id": n, "side": "sell", "size": "0.1", "price": "80691.53",
                                      "product_id": "BTC-USD", "sequence": 3 * n, "time": stamp(n)})


class CoinbaseAdvanced(Feed):
    name = "coinbase-advanced"
    TICK_S = 1

    def received(self, c, message):
        if message.get("type") != "subscribe":
            super().received(c, message)
            return
        c.notes[message["channel"]] = True
        c.send({"channel": "subscriptions", "sequence_num": 0, "events": [{"subscriptions": {}}]})
        if {"market_trades", "heartbeats"} <= set(c.notes):
            c.is_ready = True
            self.snapshot(c)

    def snapshot(self, c):
        last = self.deliver_together(c, self.events[-20:][::-1])
        c.send({"channel": "market_trades", "sequence_num": 1, "events": [
            {"type": "snapshot", "trades": [message["events"][0]["trades"][0] for message in last]}]})

    def beat(self, c):
        c.send({"channel": "heartbeats", "sequence_num": 2, "events": [{"heartbeat_counter": 1}]})

    def make(self, n):
        return Event(f"BTC-USD|{n}", {"channel": "market_trades", "sequence_num": n, "events": [{"type": "update", "trades": [
            {"trade_id": str(n), "product_id": "BTC-USD", "price": "80691.50", "size": "0.1", "side": "BUY",
             "time": stamp(n)}]}]})


class Binance(Feed):
    """It counts all frames that it receives, even pings and pongs."""

    name = "binance"
    RATE = 5

    def received(self, c, message):
        if message.get("method") != "SUBSCRIBE" or not message["params"]:
            super().received(c, message)
            return
        c.send({"result": None, "id": message["id"]})
        c.is_ready = True

    def controlled(self, c, op):
        if op == PING:
            c.broke("sent a ping")
        heard = c.notes.setdefault("heard", [])
        heard.append(time.monotonic())
        if len(heard) > self.RATE and heard[-1] - heard[-1 - self.RATE] < 1:
            c.broke("sent too much")
        super().controlled(c, op)

    TICK_S = 1

    def beat(self, c):
        self.ping(c)

    def disturb(self, c):
        c.send({"stream": "!serverShutdown", "data": {"e": "serverShutdown", "E": 1}})

    def make(self, n):
        return Event(f"trade|BTCUSDT|{n}", {"stream": "btcusdt@trade", "data": {
            "e": "trade", "E": EPOCH * 1000 + n, "s": "BTCUSDT", "t": n, "p": "80691.53", "q": "0.1", "T": EPOCH * 1000 + n,
            "m": True, "M": True}})


class Polymarket(Feed):
    name = "polymarket"
    ASSET = "65818619657568813474341868652308942079804919287380422192892211131408793125422"
    BEAT_S = 6
    overrides = {"vars": {"assets": [ASSET]}, "ping": {"every_s": 1, "send": {"text": "PING"}}}

    def received(self, c, message):
        if message.get("type") != "market" or message["assets_ids"] != [self.ASSET]:
            super().received(c, message)
            return
        c.send([{"event_type": "book", "asset_id": self.ASSET, "bids": [], "asks": [], "timestamp": "1"}])
        c.is_ready = True

    def said(self, c, text):
        if text == "PING":
            self.beats(c)
            c.send("PONG")
        else:
            super().said(c, text)

    def make(self, n):
        return Event(f"trade|{self.ASSET}|{n:#066x}|BUY|0.456|{n}.5", {
            "event_type": "last_trade_price", "asset_id": self.ASSET, "market": "0xbd31", "price": "0.456", "side": "BUY",
            "size": f"{n}.5", "fee_rate_bps": "0", "timestamp": str(EPOCH * 1000 + n), "transaction_hash": f"{n:#066x}"})


class Okx(Feed):
    name = "okx"
    fills = True
    BEAT_S = 6
    overrides = {"backoff": {"min_ms": 100, "max_ms": 1000}, "ping": {"every_s": 1, "send": {"text": "ping"}}}

    def http(self, request):
        """The newest trades before a number, at most 10 so that there are pages."""
        if request.path != "/api/v5/market/history-trades" or request.asks("instId") != "BTC-USDT":
            return 404, {}
        after = int(request.asks("after"))
        return 200, {"code": "0", "msg": "", "data": [event.message["data"][0] for event in
                                                      self.events[max(after - 11, 0):after - 1][::-1]]}

    def is_replayed(self, event):
        return event.is_late

    def received(self, c, message):
        if message.get("op") != "subscribe" or any(arg["channel"] != "trades-all" for arg in message["args"]):
            super().received(c, message)
            return
        for arg in message["args"]:
            c.send({"event": "subscribe", "arg": arg, "connId": "a4d3ae55"})
        c.is_ready = True

    def said(self, c, text):
        if text == "ping":
            self.beats(c)
            c.send("pong")
        else:
            super().said(c, text)

    def disturb(self, c):
        c.send({"event": "notice", "code": "64008", "msg": "The connection will soon be closed.", "connId": "a4d3ae55"})

    def make(self, n):
        return Event(f"BTC-USDT|{n}", {"arg": {"channel": "trades-all", "instId": "BTC-USDT"}, "data": [
            {"instId": "BTC-USDT", "tradeId": str(n), "px": "80691.5", "sz": "0.1", "side": "buy", "source": "0",
             "ts": str(EPOCH * 1000 + n)}]})


class Bybit(Feed):
    name = "bybit"
    BEAT_S = 6
    overrides = {"ping": {"every_s": 1, "send": {"op": "ping"}}}

    def refuses(self, request):
        return None if request.path == "/v5/public/linear" else (404, {})

    def received(self, c, message):
        if message.get("op") == "ping":
            self.beats(c)
            c.send({"success": True, "ret_msg": "pong", "conn_id": "c", "req_id": "", "op": "ping"})
        elif message.get("op") == "subscribe" and message["args"] == ["publicTrade.BTCUSDT", "publicTrade.ETHUSDT"]:
            c.send({"success": True, "ret_msg": "", "conn_id": "c", "req_id": "", "op": "subscribe"})
            c.is_ready = True
        else:
            super().received(c, message)

    def make(self, n):
        name = f"20f43950-d8dd-5b31-9112-{n:012x}"
        return Event(f"linear|BTCUSDT|{name}", {"topic": "publicTrade.BTCUSDT", "type": "snapshot", "ts": EPOCH * 1000 + n, "data": [
            {"T": EPOCH * 1000 + n, "s": "BTCUSDT", "S": "Buy", "v": "0.001", "p": "80691.50", "L": "PlusTick", "i": name,
             "BT": False, "seq": n // 3}]})


class Hyperliquid(Feed):
    """A subscription begins with the latest trades."""

    name = "hyperliquid"
    BEAT_S = 6
    overrides = {"ping": {"every_s": 1, "send": {"method": "ping"}}}

    def received(self, c, message):
        if message.get("method") == "ping":
            self.beats(c)
            c.send({"channel": "pong"})
        elif message.get("method") == "subscribe" and message["subscription"]["type"] == "trades":
            c.send({"channel": "subscriptionResponse", "data": message})
            if message["subscription"]["coin"] == "BTC":
                self.snapshot(c)
            c.notes.setdefault("coins", set()).add(message["subscription"]["coin"])
            c.is_ready = c.notes["coins"] == {"BTC", "ETH"}
        else:
            super().received(c, message)

    def snapshot(self, c):
        last, now = self.events[-20:], time.monotonic()
        for event in last:
            event.sent.append((c, now))
        c.send({"channel": "trades", "data": [event.message["data"][0] for event in last]})

    def make(self, n):
        return Event(f"BTC|{EPOCH * 1000 + n}|{2 ** 49 + n}", {"channel": "trades", "data": [
            {"coin": "BTC", "side": "B", "px": "80691.0", "sz": "0.1", "time": EPOCH * 1000 + n, "hash": "0x0",
             "tid": 2 ** 49 + n, "users": ["0xa", "0xb"]}]})


class Deribit(Feed):
    """It ends a connection that does not answer its test."""

    name = "deribit"
    fills = True
    overrides = {"backoff": {"min_ms": 100, "max_ms": 1000}}
    TICK_S = 1

    def http(self, request):
        """Returns at most 10 trades, so that there are several pages."""
        if request.path != "/api/v2/public/get_last_trades_by_instrument" or request.asks("instrument_name") != "BTC-PERPETUAL":
            return 400, {}
        wanted = self.events[int(request.asks("start_seq")) - 1:int(request.asks("end_seq"))]
        return 200, {"jsonrpc": "2.0", "result": {"has_more": len(wanted) > 10, "trades": [
            event.message["params"]["data"][0] for event in wanted[:10]]}}

    def is_replayed(self, event):
        return event.is_late

    def received(self, c, message):
        method = message["method"]
        if method == "public/set_heartbeat" and message["params"]["interval"] >= 10:
            c.send({"jsonrpc": "2.0", "id": message["id"], "result": "ok"})
        elif method == "public/subscribe":
            c.send({"jsonrpc": "2.0", "id": message["id"], "result": message["params"]["channels"]})
            c.is_ready = "trades.BTC-PERPETUAL.100ms" in message["params"]["channels"]
        elif method == "public/test" and c.pinged:
            c.pinged = 0.0
            c.send({"jsonrpc": "2.0", "id": message["id"], "result": {"version": "1.2.26"}})
        else:
            super().received(c, message)

    def beat(self, c):
        if c.pinged and time.monotonic() - c.pinged > 10:
            c.broke("did not answer a test")
        elif not c.pinged:
            c.pinged = time.monotonic()
            c.send({"jsonrpc": "2.0", "method": "heartbeat", "params": {"type": "test_request"}})

    def make(self, n):
        return Event(f"BTC-PERPETUAL|{400000000 + n}", {"jsonrpc": "2.0", "method": "subscription", "params": {
            "channel": "trades.BTC-PERPETUAL.100ms", "data": [
                {"timestamp": EPOCH * 1000 + n, "price": 80691.5, "amount": 10.0, "direction": "sell", "index_price": 80690.25,
                 "instrument_name": "BTC-PERPETUAL", "trade_seq": n, "trade_id": str(400000000 + n)}]}})


class Kalshi(Feed):
    """Its upgrade is signed with an RSA key, of which it has the public key."""

    name = "kalshi"
    TICK_S = 1

    def __init__(self):
        super().__init__()
        self.home = tempfile.TemporaryDirectory()
        self.key, self.public, self.signature = (f"{self.home.name}/{name}" for name in ("key.pem", "public.pem", "signature"))
        subprocess.run(["openssl", "genrsa", "-out", self.key, "2048"], check=True, capture_output=True)
        subprocess.run(["openssl", "rsa", "-in", self.key, "-pubout", "-out", self.public], check=True, capture_output=True)
        self.overrides = {"headers": {
            "KALSHI-ACCESS-KEY": "${env:KALSHI_KEY_ID}", "KALSHI-ACCESS-TIMESTAMP": "${now_ms}",
            "KALSHI-ACCESS-SIGNATURE": f"${{rsa_pss_sha256_base64:${{file:{self.key}}}:${{now_ms}}GET/trade-api/ws/v2}}"}}

    def is_signed(self, text, signature):
        with open(self.signature, "wb") as file:
            file.write(base64.b64decode(signature))
        return subprocess.run(["openssl", "dgst", "-sha256", "-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:32",
                               "-verify", self.public, "-signature", self.signature], input=text.encode(), check=False,
                              capture_output=True).returncode == 0

    def refuses(self, request):
        key, stamp, signature = (request.headers.get(f"kalshi-access-{name}", "") for name in ("key", "timestamp", "signature"))
        is_now = stamp.isdigit() and abs(int(stamp) - time.time() * 1000) < 30000
        return None if key == TOKEN and is_now and self.is_signed(f"{stamp}GET{request.path}", signature) else (401, {})

    def received(self, c, message):
        if message.get("cmd") != "subscribe" or message["params"]["channels"] != ["trade"]:
            super().received(c, message)
            return
        c.send({"id": message["id"], "type": "subscribed", "msg": {"channel": "trade", "sid": 1}})
        c.is_ready = True

    def controlled(self, c, op):
        if op == PONG:
            c.pinged = 0.0

    def beat(self, c):
        if c.pinged and time.monotonic() - c.pinged > 10:
            c.broke("did not answer a ping")
        elif not c.pinged:
            c.ping()

    def disturb(self, c):
        c.send({"type": "error", "sid": 1, "msg": {"code": 25, "msg": "Subscription buffer overflow"}})

    def make(self, n):
        name = f"d91bc706-ee49-470d-82d8-{n:012x}"
        return Event(name, {"type": "trade", "sid": 1, "msg": {
            "trade_id": name, "market_ticker": "HIGHNY-22DEC23-B53.5", "yes_price_dollars": "0.360", "count_fp": "136.00",
            "taker_side": "no", "is_block_trade": False, "ts": EPOCH, "ts_ms": EPOCH * 1000 + n}})


class Nostr(Feed):
    name = "nostr"
    replays = True

    def received(self, c, message):
        if message[0] != "REQ" or c.is_ready:
            super().received(c, message)
            return
        wanted = [e for e in self.events if e.message[2]["created_at"] >= message[2].get("since", 0)]
        if "limit" in message[2]:
            wanted = wanted[-message[2]["limit"]:]
        self.replay(c, wanted[::-1])
        c.send(["EOSE", message[1]])
        c.is_ready = True

    def make(self, n):
        name = hashlib.sha256(f"note {n}".encode()).hexdigest()
        return Event(name, ["EVENT", "wsonce", {"id": name, "pubkey": "00" * 32, "created_at": BASE + n // 20, "kind": 1, "tags": [],
                                                "content": f"note {n}", "sig": "00" * 64}])


class Ethereum(Feed):
    """It sends a block with a head and a log for every two events."""

    name = "ethereum"

    def received(self, c, message):
        method, number = message["method"], message["id"]
        if method == "eth_subscribe":
            c.notes[message["params"][0]] = f"0x{random.getrandbits(64):x}"
            c.send({"jsonrpc": "2.0", "id": number, "result": c.notes[message["params"][0]]})
            c.is_ready = {"logs", "newHeads"} <= set(c.notes)
        elif method == "eth_blockNumber":
            c.send({"jsonrpc": "2.0", "id": number, "result": hex(23000000 + len(self.events) // 2)})
        elif method == "eth_getLogs":
            self.missed(c, number, int(message["params"][0]["fromBlock"], 16))
        else:
            super().received(c, message)

    def missed(self, c, number, block):
        logs = [e for e in self.events if e.event_id.startswith("log") and int(e.message["blockNumber"], 16) >= block]
        c.send({"jsonrpc": "2.0", "id": number, "result": self.deliver_together(c, logs)})

    def deliver(self, c, event):
        event.sent.append((c, time.monotonic()))
        name = c.notes["logs" if event.event_id.startswith("log") else "newHeads"]
        c.send({"jsonrpc": "2.0", "method": "eth_subscription", "params": {"subscription": name, "result": event.message}})

    def is_replayed(self, event):
        return event.event_id.startswith("log")

    def make(self, n):
        block = 23000000 + n // 2
        name = f"0x{block:064x}"
        if n % 2 == 0:
            return Event(f"head|{name}", {"number": hex(block), "hash": name, "parentHash": f"0x{block - 1:064x}",
                                          "timestamp": hex(EPOCH + n)})
        return Event(f"log|{name}|0x{n:064x}|0x0|false",
                     {"address": "0xdac17f958d2ee523a2206206994597c13d831ec7", "topics": [], "data": "0x", "logIndex": "0x0",
                      "blockNumber": hex(block), "blockHash": name, "transactionHash": f"0x{n:064x}", "removed": False})


class Arbitrum(Feed):
    """A relay: a new connection gets the messages that are not confirmed yet, in segments."""

    name = "arbitrum"
    replays = True
    TICK_S = 1
    SEGMENT = 240

    def refuses(self, request):
        return None if int(request.headers.get("arbitrum-feed-client-version", 0)) >= 2 else (400, {})

    def opened(self, c):
        for first in range(0, len(self.events), self.SEGMENT):
            segment = self.deliver_together(c, self.events[first:first + self.SEGMENT])
            c.send({"version": 1, "messages": [message["messages"][0] for message in segment]})
        c.is_ready = True

    def beat(self, c):
        self.ping(c)
        c.send({"version": 1, "confirmedSequenceNumberMessage": {"sequenceNumber": 1}})

    def make(self, n):
        header = {"kind": 3, "sender": "0xa4b000000000000000000073657175656e636572", "blockNumber": n // 50,
                  "timestamp": EPOCH + n, "requestId": None, "baseFeeL1": None}
        return Event(f"arb1|{n}", {"version": 1, "messages": [
            {"sequenceNumber": n, "message": {"message": {"header": header, "l2Msg": "BAL40g=="}, "delayedMessagesRead": 1},
             "blockHash": f"0x{n:064x}", "signatureV2": ""}]})


class Solana(Feed):
    name = "solana"
    TICK_S = 0.4

    def received(self, c, message):
        if message["method"] not in ("logsSubscribe", "slotSubscribe") or len(json.dumps(message)) > 4096:
            super().received(c, message)
            return
        c.notes[message["method"]] = random.getrandbits(32)
        c.send({"jsonrpc": "2.0", "result": c.notes[message["method"]], "id": message["id"]})
        c.is_ready = len(c.notes) == 2

    def deliver(self, c, event):
        event.sent.append((c, time.monotonic()))
        c.send({"jsonrpc": "2.0", "method": "logsNotification",
                "params": {"result": event.message, "subscription": c.notes["logsSubscribe"]}})

    def beat(self, c):
        c.send({"jsonrpc": "2.0", "method": "slotNotification",
                "params": {"result": {"parent": 75, "root": 44, "slot": 76}, "subscription": c.notes["slotSubscribe"]}})

    def make(self, n):
        return Event(f"sig{n:085}", {"context": {"slot": 378000000 + n // 20}, "value": {
            "signature": f"sig{n:085}", "err": None, "logs": [f"Program log: Memo {n}"]}})


class HomeAssistant(Feed):
    name = "home-assistant"
    BEAT_S = 6
    overrides = {"ping": {"every_s": 1, "send": {"id": "${counter}", "type": "ping"}}}

    def opened(self, c):
        c.send({"type": "auth_required", "ha_version": "2026.9"})

    def received(self, c, message):
        if message["type"] == "auth":
            if message["access_token"] != TOKEN:
                c.send({"type": "auth_invalid", "message": "Invalid access token"})
                c.broke("has the wrong token")
            else:
                c.notes["last"] = 0
                c.send({"type": "auth_ok", "ha_version": "2026.9"})
        elif message.get("id", 0) <= c.notes.get("last", 1 << 60):
            c.broke(f"sent the id {message.get('id')} after {c.notes.get('last')}")
        else:
            c.notes["last"] = message["id"]
            self.command(c, message)

    def command(self, c, message):
        if message["type"] == "ping":
            self.beats(c)
            c.send({"id": message["id"], "type": "pong"})
            return
        c.send({"id": message["id"], "type": "result", "success": True, "result": None})
        if message["type"] == "subscribe_events":
            c.notes["subscription"] = message["id"]
            c.is_ready = True

    def deliver(self, c, event):
        """Sends two events at a time, as with coalesce_messages."""
        event.sent.append((c, time.monotonic()))
        waiting = c.notes.setdefault("waiting", [])
        waiting.append({"id": c.notes["subscription"], "type": "event", "event": event.message})
        if len(waiting) == 2:
            c.send(waiting)
            c.notes["waiting"] = []

    TICK_S = 0.5

    def beat(self, c):
        if c.notes.get("waiting"):
            c.send(c.notes.pop("waiting")[0])

    def make(self, n):
        """Of some events, two make a frame of more than --max-message."""
        state = {"state": "on" * (300000 if 100 <= n < 103 else 1)}
        return Event(f"state_changed|light.{n % 5}|{stamp(n)}|ctx{n // 3}",
                     {"event_type": "state_changed", "data": {"entity_id": f"light.{n % 5}", "new_state": state},
                      "origin": "LOCAL", "time_fired": stamp(n), "context": {"id": f"ctx{n // 3}", "user_id": None}})


class Mastodon(Feed):
    name = "mastodon"
    fills = True
    overrides = {"backoff": {"min_ms": 100, "max_ms": 1000}}

    def http(self, request):
        """Returns the oldest posts after an id, even those that were deleted meanwhile."""
        if not request.path.startswith("/api/v1/timelines/public") or request.headers.get("authorization") != f"Bearer {TOKEN}":
            return 404, {}
        last, most = int(request.asks("min_id")), int(request.asks("limit"))
        posts = [json.loads(event.message["payload"]) for event in self.events if event.message["event"] == "update"]
        return 200, [post for post in posts if int(post["id"]) > last][:most]

    def is_replayed(self, event):
        return event.is_late and event.message["event"] == "update"

    def opened(self, c):
        c.is_ready = True

    def refuses(self, request):
        return None if request.headers.get("authorization") == f"Bearer {TOKEN}" else (401, {"error": "invalid token"})

    def make(self, n):
        if n % 5 == 0:
            return Event(f"delete|{n - 1}", {"stream": ["public"], "event": "delete", "payload": str(n - 1)})
        return Event(f"update|{POST + n}", {"stream": ["public"], "event": "update", "payload": json.dumps(
            {"id": str(POST + n), "created_at": stamp(n), "edited_at": None, "content": f"<p>\"{n}\"</p>"})})


class GraphQL(Feed):
    name = "graphql"
    subprotocol = "graphql-transport-ws"
    BEAT_S = 6
    TICK_S = 1
    overrides = {"ping": {"every_s": 1, "send": {"type": "ping"}}}

    def refuses(self, request):
        return None if self.subprotocol in request.subprotocols() else (400, {"error": "no subprotocol"})

    def received(self, c, message):
        kind = message["type"]
        if kind == "connection_init" and "init" not in c.notes:
            c.notes["init"] = message.get("payload")
            c.send({"type": "connection_ack"})
        elif kind == "subscribe" and "init" in c.notes and "event:" in message["payload"]["query"]:
            c.notes["id"] = message["id"]
            c.is_ready = True
        elif kind == "ping":
            self.beats(c)
            c.send({"type": "pong"})
        elif kind == "pong" and c.pinged:
            c.pinged = 0.0
        else:
            super().received(c, message)

    def beat(self, c):
        if c.pinged and time.monotonic() - c.pinged > 10:
            c.broke("did not answer a ping", 4408)
        elif not c.pinged:
            c.pinged = time.monotonic()
            c.send({"type": "ping"})

    def deliver(self, c, event):
        event.sent.append((c, time.monotonic()))
        c.send({"id": c.notes["id"], "type": "next", "payload": {"data": {"event": event.message}}})

    def make(self, n):
        return Event(f"evt-{n}", {"id": f"evt-{n}", "type": "PAID", "time": stamp(n), "total": n})


class Phoenix(Feed):
    name = "phoenix"
    BEAT_S = 6
    overrides = {"ping": {"every_s": 1, "send": [None, "${counter}", "phoenix", "heartbeat", {}]}}

    def received(self, c, message):
        join, ref, topic, event, _ = message
        if event == "phx_join" and not c.is_ready:
            c.notes.update(join=join, topic=topic)
            c.send([join, ref, topic, "phx_reply", {"status": "ok", "response": {}}])
            c.is_ready = True
        elif event == "heartbeat" and topic == "phoenix":
            self.beats(c)
            c.send([None, ref, "phoenix", "phx_reply", {"status": "ok", "response": {}}])
        else:
            super().received(c, message)

    def deliver(self, c, event):
        event.sent.append((c, time.monotonic()))
        c.send([c.notes["join"], None, c.notes["topic"], "order_created", event.message])

    def make(self, n):
        return Event(f"orders:all|order_created|{n}", {"id": n, "inserted_at": stamp(n)})


class Supabase(Feed):
    """Ids of subscriptions differ between connections; the contents of data do not."""

    name = "supabase"
    BEAT_S = 6
    overrides = {"ping": {"every_s": 1, "send": {"topic": "phoenix", "event": "heartbeat", "payload": {}, "ref": "${counter}"}}}

    def refuses(self, request):
        return None if request.asks("apikey") == TOKEN and request.asks("vsn") == "1.0.0" else (401, {"error": "Unauthorized"})

    def received(self, c, message):
        topic, ref = message["topic"], message["ref"]
        if message["event"] == "phx_join" and topic == "realtime:wsonce" and not c.is_ready:
            c.notes["id"] = random.getrandbits(24)
            changes = [{"id": c.notes["id"], **wanted} for wanted in message["payload"]["config"]["postgres_changes"]]
            self.say(c, topic, "phx_reply", {"status": "ok", "response": {"postgres_changes": changes}}, ref)
            self.say(c, topic, "system", {"channel": "wsonce", "extension": "postgres_changes", "status": "ok",
                                          "message": "Subscribed to PostgreSQL"})
            c.is_ready = True
        elif message["event"] == "heartbeat" and topic == "phoenix":
            self.beats(c)
            self.say(c, topic, "phx_reply", {"status": "ok", "response": {}}, ref)
        else:
            super().received(c, message)

    @staticmethod
    def say(c, topic, event, payload, ref=None):
        c.send({"topic": topic, "event": event, "payload": payload, "ref": ref})

    def deliver(self, c, event):
        event.sent.append((c, time.monotonic()))
        self.say(c, "realtime:wsonce", "postgres_changes", {"ids": [c.notes["id"]], "data": event.message})

    def make(self, n):
        change = {"schema": "public", "table": "orders", "commit_timestamp": stamp(n // 2), "type": "INSERT", "errors": None,
                  "columns": [{"name": "id", "type": "int8"}], "record": {"id": n}}
        digest = hashlib.sha256(json.dumps(change, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
        return Event(f"public|orders|INSERT|{digest}", change)


class Ably(Feed):
    name = "ably"
    replays = True
    TICK_S = 1

    def refuses(self, request):
        return None if request.asks("key") == TOKEN and request.asks("format") == "json" else (401, {})

    def opened(self, c):
        number = len(self.connections)
        c.send({"action": 4, "connectionId": f"C{number}", "connectionDetails": {
            "connectionKey": f"C{number}!key", "maxIdleInterval": 5000}})

    def received(self, c, message):
        if message.get("action") != 10 or c.is_ready:
            super().received(c, message)
            return
        c.send({"action": 11, "channel": message["channel"], "channelSerial": f"s@{len(self.events)}"})
        first = int(message["channelSerial"].split("@")[1]) if "channelSerial" in message else 0
        c.is_ready = True
        self.replay(c, self.events[first:])

    def beat(self, c):
        c.send({"action": 0})

    def make(self, n):
        return Event(f"pub:{n}:0", {"action": 15, "id": f"pub:{n}", "channel": "orders", "channelSerial": f"s@{n}",
                                    "timestamp": EPOCH * 1000 + n, "messages": [{"name": "created", "data": f"{n}"}]})


class Pusher(Feed):
    name = "pusher"
    ACTIVITY_S = 2

    def refuses(self, request):
        return None if request.path == f"/app/{TOKEN}" and request.asks("protocol") == "7" else (404, {})

    def opened(self, c):
        c.send({"event": "pusher:connection_established",
                "data": json.dumps({"socket_id": "1.2", "activity_timeout": self.ACTIVITY_S})})

    def received(self, c, message):
        if message["event"] == "pusher:subscribe" and not c.is_ready:
            c.notes["channel"] = message["data"]["channel"]
            c.send({"event": "pusher_internal:subscription_succeeded", "channel": c.notes["channel"], "data": "{}"})
            c.is_ready = True
        elif message["event"] == "pusher:ping":
            c.send({"event": "pusher:pong", "data": {}})
        elif message["event"] == "pusher:pong" and c.pinged:
            c.pinged = 0.0
        else:
            super().received(c, message)

    TICK_S = 1

    def beat(self, c):
        if c.pinged and time.monotonic() - c.pinged > 10:
            c.broke("did not answer a ping", 4201)
        elif not c.pinged:
            c.pinged = time.monotonic()
            c.send({"event": "pusher:ping", "data": {}})

    def make(self, n):
        return Event(f"orders|order.created|{n}", {"event": "order.created", "channel": "orders",
                                                   "data": json.dumps({"id": n, "created_at": stamp(n)})})


class Azure(Feed):
    """Each connection has its own numbers; unacknowledged events are sent again to a client that recovers it. The first
    one cannot join the group, though its request has been processed."""

    name = "azure-web-pubsub"
    subprotocol = "json.reliable.webpubsub.azure.v1"
    must_ack = True
    MOST = 1000

    def __init__(self):
        super().__init__()
        self.sessions = {}              # per connection id: the events by sequence id that wait for an ack

    def refuses(self, request):
        if self.subprotocol not in request.subprotocols():
            return 400, {}
        session = request.asks("awps_connection_id")
        if session is None:
            return None if request.asks("access_token") == TOKEN else (401, {})
        return None if session in self.sessions and request.asks("awps_reconnection_token") == f"t-{session}" else (404, {})

    def opened(self, c):
        name = c.request.asks("awps_connection_id") or f"conn-{len(self.sessions)}"
        c.notes["session"] = name
        session = self.sessions.setdefault(name, {"last": 0, "waiting": {}, "asked": False, "joined": False})
        for number, event in session["waiting"].items():
            self.message(c, number, event)
        c.send({"type": "system", "event": "connected", "connectionId": name, "reconnectionToken": f"t-{name}"})
        c.is_ready = session["joined"]

    def received(self, c, message):
        session = self.sessions[c.notes["session"]]
        if message["type"] == "joinGroup":
            name = "Duplicate" if session["asked"] else "InternalServerError" if len(self.sessions) == 1 else None
            error = {"error": {"name": name, "message": "words"}} if name else {}
            c.send({"type": "ack", "ackId": message["ackId"], "success": not name, **error})
            session["joined"] |= not name
            session["asked"], c.is_ready = True, session["joined"]
        elif message["type"] == "sequenceAck" and 0 < message["sequenceId"] <= session["last"]:
            for number in [number for number in session["waiting"] if number <= message["sequenceId"]]:
                self.acked(session["waiting"].pop(number).event_id)
        else:
            super().received(c, message)

    def message(self, c, number, event):
        event.sent.append((c, time.monotonic()))
        c.send({"sequenceId": number, **event.message})

    def deliver(self, c, event):
        session = self.sessions[c.notes["session"]]
        session["last"] += 1
        session["waiting"][session["last"]] = event
        if len(session["waiting"]) > self.MOST:
            c.broke(f"left {self.MOST} messages without an ack")
        self.message(c, session["last"], event)

    def all_acked(self):
        """Returns whether all events on open connections are acked."""
        return not any(self.sessions[c.notes["session"]]["waiting"] for c in self.ready())

    def make(self, n):
        return Event(f"orders|o-{n}", {"type": "message", "from": "group", "group": "orders", "dataType": "json",
                                       "data": {"id": f"o-{n}", "time": stamp(n)}, "fromUserId": "u"})


class Discord(Feed):
    name = "discord"
    is_exclusive = True
    BEAT_S = 6

    def __init__(self):
        super().__init__()
        self.sessions = {}              # what was sent to each, from s = 1

    def opened(self, c):
        c.send({"op": 10, "d": {"heartbeat_interval": 1000}, "s": None, "t": None})

    def received(self, c, message):
        op, d = message["op"], message["d"]
        if op == 1:
            self.beats(c)
            c.send({"op": 11, "d": None, "s": None, "t": None})
        elif op in (2, 6) and d["token"] == TOKEN and "session" not in c.notes:
            if self.ready():
                c.broke("connected beside another")
            elif op == 2:
                self.identify(c)
            else:
                self.resume(c, d)
        else:
            super().received(c, message)

    def identify(self, c):
        name = c.notes["session"] = f"session-{len(self.sessions)}"
        self.sessions[name] = []
        self.dispatch(c, "READY", {"session_id": name, "resume_gateway_url": self.url()})
        c.is_ready = True

    def resume(self, c, d):
        past = self.sessions.get(d["session_id"])
        if past is None or not isinstance(d["seq"], int) or d["seq"] > len(past):
            c.send({"op": 9, "d": False, "s": None, "t": None})
            return
        c.notes["session"] = d["session_id"]
        for s, (event, message) in enumerate(past[d["seq"]:], d["seq"] + 1):
            if event:
                event.sent.append((c, time.monotonic()))
            c.send({"op": 0, "s": s, **message})
        self.dispatch(c, "RESUMED", {})
        c.is_ready = True

    def is_replayed(self, event):
        """Returns whether it was replayed by a RESUME, maybe of another listener than the one that died."""
        return bool(event.sent)

    def dispatch(self, c, kind, d, event=None):
        past = self.sessions[c.notes["session"]]
        past.append((event, {"t": kind, "d": d}))
        c.send({"op": 0, "s": len(past), "t": kind, "d": d})

    def deliver(self, c, event):
        event.sent.append((c, time.monotonic()))
        self.dispatch(c, "MESSAGE_CREATE", event.message, event)

    def make(self, n):
        return Event(f"MESSAGE_CREATE|{1420070400000000000 + n}", {
            "id": str(1420070400000000000 + n), "channel_id": "5", "content": f"message {n}", "timestamp": stamp(n),
            "edited_timestamp": None})

    def disturb(self, c):
        c.send({"op": 7, "d": None, "s": None, "t": None})


class Slack(Feed):
    """Sends each event to one connection, and again, in a new envelope, until it is acknowledged."""

    name = "slack"
    replays = True
    must_ack = True
    RETRY_S = 3

    def __init__(self):
        super().__init__()
        self.tickets = set()
        self.open = {}                  # by envelope id: the event and when it was sent
        self.tries = {}                 # by event id

    def http(self, request):
        if request.path != "/api/apps.connections.open" or request.method != "POST":
            return 404, {"ok": False}
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return 200, {"ok": False, "error": "invalid_auth"}
        ticket = f"{random.getrandbits(64):x}"
        self.tickets.add(ticket)
        return 200, {"ok": True, "url": self.url(f"/link/?ticket={ticket}&app_id=A1")}

    def refuses(self, request):
        if request.asks("ticket") not in self.tickets:
            return 401, {}
        self.tickets.remove(request.asks("ticket"))
        return None

    def opened(self, c):
        c.is_ready = True
        c.send({"type": "hello", "num_connections": len(self.ready()), "connection_info": {"app_id": "A1"}})

    def received(self, c, message):
        if message.get("envelope_id") not in self.open:
            if message.get("envelope_id") not in self.tries:
                super().received(c, message)
            return
        event, _ = self.open.pop(message["envelope_id"])
        self.tries[event.event_id] = None
        self.acked(event.event_id)

    def publish(self):
        event = self.make(len(self.events) + 1)
        self.events.append(event)
        self.tries[event.event_id] = 0
        self.route(event)

    def route(self, event):
        ready = self.ready()
        envelope = f"{event.event_id}-{self.tries[event.event_id]}"
        self.tries[envelope] = None
        self.open[envelope] = (event, time.monotonic())
        if ready:
            c = random.choice(ready)
            event.sent.append((c, time.monotonic()))
            c.send({"envelope_id": envelope, "type": "events_api", "accepts_response_payload": False,
                    "retry_attempt": self.tries[event.event_id], "retry_reason": "", "payload": event.message})

    def watch(self):
        super().watch()
        now = time.monotonic()
        for envelope, (event, when) in list(self.open.items()):
            if now - when > self.RETRY_S:
                del self.open[envelope]
                if self.tries[event.event_id] is not None:
                    self.tries[event.event_id] += 1
                    self.route(event)

    def all_acked(self):
        return not self.open

    def disturb(self, c):
        c.send({"type": "disconnect", "reason": "refresh_requested"})

    def make(self, n):
        return Event(f"Ev{n:06}", {"type": "event_callback", "event_id": f"Ev{n:06}", "event_time": EPOCH + n,
                                   "event": {"type": "message", "text": f"text {n}"}})


class Tap(Feed):
    """Sends each event to one connection, and the next one of its repository once it is acknowledged. Unacknowledged events
    are sent again to any connection."""

    name = "tap"
    replays = True
    must_ack = True
    RETRY_S = 3
    REPOSITORIES = 97

    def __init__(self):
        super().__init__()
        self.queues = [[] for _ in range(self.REPOSITORIES)]
        self.tried = [0.0] * self.REPOSITORIES      # when the first of each queue was sent

    def opened(self, c):
        c.is_ready = True

    def publish(self):
        event = self.make(len(self.events) + 1)
        self.events.append(event)
        self.queues[event.message["id"] % self.REPOSITORIES].append(event)
        self.pass_on()

    def received(self, c, message):
        number = message.get("id")
        if message.get("type") != "ack" or not isinstance(number, int) or not 0 < number <= len(self.events):
            super().received(c, message)
            return
        queue = self.queues[number % self.REPOSITORIES]
        if queue and queue[0].message["id"] == number:
            self.acked(queue.pop(0).event_id)
            self.tried[number % self.REPOSITORIES] = 0.0

    def watch(self):
        super().watch()
        self.pass_on()

    def pass_on(self):
        now, ready = time.monotonic(), self.ready()
        for i, queue in enumerate(self.queues):
            if queue and ready and now - self.tried[i] > self.RETRY_S:
                self.tried[i] = now
                self.deliver(random.choice(ready), queue[0])

    def all_acked(self):
        return not any(self.queues)

    def make(self, n):
        did = f"did:plc:{n % self.REPOSITORIES}"
        if n % 10 == 0:
            identity = {"did": did, "handle": "alice.example.com", "is_active": True, "status": "active"}
            digest = hashlib.sha256(json.dumps(identity, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
            return Event(f"identity|{did}|{n}|{digest}", {"id": n, "type": "identity", "identity": identity})
        record = {"live": True, "did": did, "rev": f"3r{n:06}", "collection": "app.bsky.feed.post", "rkey": f"3m{n:06}",
                  "action": "create", "record": {"text": f"post {n}"}, "cid": f"b{n}"}
        return Event(f"{did}|app.bsky.feed.post|3m{n:06}|3r{n:06}", {"id": n, "type": "record", "record": record})


class Twitch(Feed):
    name = "twitch"
    is_exclusive = True
    TICK_S = 1

    def __init__(self):
        super().__init__()
        self.moves = {}                 # the connection of a challenge

    def opened(self, c):
        c.notes["session"] = c.request.asks("id") or f"S{len(self.connections)}"
        old = self.moves.pop(c.request.asks("challenge"), None)
        c.send(self.message("session_welcome", f"w{len(self.connections)}", {"session": {
            "id": c.notes["session"], "status": "connected", "keepalive_timeout_seconds": 10, "reconnect_url": None}}))
        if old:
            c.is_ready, old.is_ready = True, False
            c.notes["types"] = old.notes["types"]
            old.notes["moved"] = True

    def controlled(self, c, op):
        if op in (TEXT, PING):
            c.broke("sent a frame", 4001)

    def http(self, request):
        if request.headers.get("authorization") != f"Bearer {TOKEN}" or request.headers.get("client-id") != TOKEN:
            return 401, {"error": "Unauthorized"}
        wanted = json.loads(request.body)
        for c in self.connections:
            if c.notes["session"] == wanted["transport"]["session_id"] and not c.is_over and not c.notes.get("moved"):
                types = c.notes.setdefault("types", set())
                if wanted["type"] in types:
                    return 409, {"error": "Conflict"}
                if [other for other in self.ready() if other is not c]:
                    c.broke("subscribed beside another")
                types.add(wanted["type"])
                c.is_ready = True
                return 202, {"data": [{"id": "s", "status": "enabled"}]}
        return 400, {"error": "session does not exist"}

    @staticmethod
    def message(kind, name, payload):
        return {"metadata": {"message_id": name, "message_type": kind, "message_timestamp": stamp(0)}, "payload": payload}

    def watch(self):
        for c in [c for c in self.connections if c.notes.get("moved")]:
            c.opened = time.monotonic()     # it is no longer expected to subscribe
        super().watch()

    def beat(self, c):
        c.send(self.message("session_keepalive", f"k{random.getrandbits(64):x}", {}))

    def disturb(self, c):
        challenge = f"{random.getrandbits(64):x}"
        self.moves[challenge] = c
        query = urllib.parse.urlencode({"challenge": challenge, "id": c.notes["session"]})
        c.send(self.message("session_reconnect", f"r{challenge}", {"session": {
            "id": c.notes["session"], "status": "reconnecting", "reconnect_url": self.url(f"/ws?{query}")}}))

    def revoke(self, c):
        c.is_ready = False
        c.send(self.message("revocation", f"v{random.getrandbits(64):x}", {"subscription": {"status": "version_removed"}}))

    def make(self, n):
        message = self.message("notification", f"n-{n}", {"subscription": {"type": "stream.online"}, "event": {"id": str(n)}})
        message["metadata"].update(subscription_type="stream.online", subscription_version="1")
        return Event(f"n-{n}", message)


class CloudEvents(Feed):
    name = "cloudevents"
    subprotocol = "cloudevents.json"

    def opened(self, c):
        c.is_ready = True

    def refuses(self, request):
        return None if self.subprotocol in request.subprotocols() else (400, {})

    def make(self, n):
        return Event(f"/orders|A-{n}", {"specversion": "1.0", "type": "com.example.order.created", "source": "/orders",
                                        "id": f"A-{n}", "time": stamp(n), "data": {"n": n}})


class AwsApiGateway(Feed):
    """Its connections have a maximum age."""

    name = "aws-api-gateway"
    BEAT_S = 6
    AGE_S = 15
    overrides = {"url": "wss://gateway/production", "ping": {"every_s": 1, "send": {"action": "ping"}}, "max_age_s": 3, "overlap_s": 2}

    def received(self, c, message):
        if message.get("action") == "subscribe":
            c.send({"action": "subscribed", "topic": message["topic"]})
            c.is_ready = True
        elif message.get("action") == "ping":
            self.beats(c)
            c.send({"action": "pong"})
        else:
            super().received(c, message)

    def watch(self):
        super().watch()
        for c in self.ready():
            if time.monotonic() - c.opened > self.AGE_S:
                c.broke("keeps a connection that is too old", 1001)

    def make(self, n):
        return Event(f"m-{n}", {"id": f"m-{n}", "type": "order.created", "time": stamp(n), "n": n})


class Finnhub(Feed):
    name = "finnhub"
    is_exclusive = True
    TICK_S = 1

    def refuses(self, request):
        if request.asks("token") != TOKEN:
            return 401, {}
        return (429, {}) if [c for c in self.connections if not c.is_over and not c.is_frozen] else None

    def received(self, c, message):
        if message.get("type") not in ("subscribe", "subscribe-news"):
            super().received(c, message)
        c.is_ready = True

    def beat(self, c):
        c.send({"type": "ping"})

    def make(self, n):
        if n % 4 == 0:
            return Event(f"news|{n}", {"type": "news", "data": [{"id": n, "datetime": EPOCH + n, "headline": f"News {n}"}]})
        trade = {"c": None, "p": 7296, "s": "BINANCE:BTCUSDT", "t": EPOCH * 1000 + n, "v": n}
        digest = hashlib.sha256(json.dumps(trade, separators=(",", ":")).encode()).hexdigest()
        return Event(f"{trade['s']}|{trade['t']}|{digest}", {"type": "trade", "data": [trade]})


class AisStream(Feed):
    """Sends JSON in binary frames to three connections of an account."""

    name = "aisstream"
    SUBSCRIBE_S = 3
    overrides = {"backoff": {"min_ms": 100, "max_ms": 1000}}

    def refuses(self, request):
        return (429, {}) if sum(not c.is_over for c in self.connections) >= 3 else None

    def received(self, c, message):
        if c.is_ready or message["APIKey"] != TOKEN or message["BoundingBoxes"] != [[[-90, -180], [90, 180]]]:
            super().received(c, message)
            return
        self.say(c, {"MessageType": "SubscriptionConfirmation"})
        c.is_ready = True

    @staticmethod
    def say(c, message):
        c.write(BINARY, json.dumps(message).encode())

    def deliver(self, c, event):
        event.sent.append((c, time.monotonic()))
        self.say(c, event.message)

    def make(self, n):
        report = {"PositionReport": {"UserID": 259000420, "Latitude": 66.02695, "Longitude": 12.253821666666665, "Sog": n}}
        digest = hashlib.sha256(json.dumps(report, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
        when = f"2026-09-21 14:13:{n // 100 % 60}.318353 +0000 UTC"
        return Event(f"PositionReport|259000420|{when}|{digest}", {
            "Message": report, "MessageType": "PositionReport", "MetaData": {"MMSI": 259000420, "time_utc": when}})


class KrakenGzip(Kraken):
    """Compresses messages by gzip, like HTX."""

    name, profile = "kraken-gzip", "kraken"
    overrides = {**Kraken.overrides, "binary": "gzip"}
    pack = staticmethod(gzip.compress)


class Zstd:
    """libzstd with a dictionary of messages like those of `make`."""

    def __init__(self, messages):
        self.library = ctypes.CDLL("libzstd.so.1")
        for name in ("ZSTD_createCCtx", "ZSTD_compressBound", "ZSTD_compress_usingDict", "ZDICT_trainFromBuffer"):
            getattr(self.library, name).restype = ctypes.c_size_t
        self.context = ctypes.c_void_p(self.library.ZSTD_createCCtx())
        room = ctypes.create_string_buffer(8192)
        sizes = (ctypes.c_size_t * len(messages))(*map(len, messages))
        size = self.library.ZDICT_trainFromBuffer(room, ctypes.c_size_t(len(room)), b"".join(messages), sizes, len(messages))
        self.dictionary = room.raw[:size]

    def pack(self, message):
        room = ctypes.create_string_buffer(self.library.ZSTD_compressBound(ctypes.c_size_t(len(message))))
        size = self.library.ZSTD_compress_usingDict(self.context, room, ctypes.c_size_t(len(room)), message,
                                                    ctypes.c_size_t(len(message)), self.dictionary,
                                                    ctypes.c_size_t(len(self.dictionary)), 3)
        return room.raw[:size]


class JetstreamZstd(Jetstream):
    name, profile = "jetstream-zstd", "jetstream"
    overrides = {"headers": {"Socket-Encoding": "zstd"}, "binary": "zstd", "binary_dictionary": "dictionary"}

    def __init__(self):
        super().__init__()
        zstd = Zstd([json.dumps(self.make(n).message).encode() for n in range(500)])
        self.files, self.pack = {"dictionary": zstd.dictionary}, zstd.pack

    def refuses(self, request):
        return super().refuses(request) if request.headers.get("socket-encoding") == "zstd" else (400, {"error": "no zstd"})
class Signed(Feed):
    """For no shipped profile: every place of a profile that can sign does so, in the forms of OKX, Bybit and Deribit."""

    name = "signed"
    BODY = {"scope": "read"}
    profile = {
        "name": "signed", "vars": {"api": "https://feed", "nonce": "1iqt2wls"},
        "url": "wss://feed/private?ticket=${ticket}&sign=${hmac_sha256_base64:${env:KEY}:${ticket}}",
        "url_http": {"url": "${api}/ticket?at=${now_ms}", "body": BODY, "capture": {"ticket": "/ticket"},
                     "headers": {"X-Sign": '${hmac_sha256_hex:${env:KEY}:${now_ms}POST/ticket{"scope":"read"}}'}},
        "headers": {"X-Time": "${now_ms}", "X-Sign": "${hmac_sha256_base64:${env:KEY}:${now_ms}GET/private}"},
        "on_open": [
            {"op": "login", "args": [{"timestamp": "${text:now_s}", "sign": "${hmac_sha256_base64:${env:KEY}:${now_s}GET/users/self/verify}"}]},
            {"op": "auth", "args": ["${now_ms+10000}", "${hmac_sha256_hex:${env:KEY}:GET/realtime${now_ms+10000}}"]},
            {"method": "public/auth", "params": {"timestamp": "${now_ms}", "nonce": "${nonce}", "data": "",
                                                 "signature": "${hmac_sha256_hex:${env:KEY}:${now_ms}\n${nonce}\n}"}}],
        "rules": [
            {"name": "challenge", "when": {"/challenge": {"exists": True}},
             "send": [{"op": "answer", "sign": "${hmac_sha256_hex:${env:KEY}:${/challenge}}"}]},
            {"name": "welcome", "when": {"/event": "login"}, "ready": True},
            {"name": "refused", "when": {"/event": "error"}, "action": "fatal"},
            {"name": "trade", "when": {"/id": {"exists": True}}, "action": "event", "id": [["/id"]]}]}
    STEPS = ("ticket", "upgrade", "login", "auth", "public/auth", "answer")

    def __init__(self, wrong=None):
        super().__init__()
        self.wrong = wrong              # the step whose signature is found to be wrong
        self.signatures = []            # signatures that were sent, which must not be shown anywhere

    def is_right(self, step, text, signature):
        digest = hmac.new(TOKEN.encode(), text.encode(), "sha256")
        self.signatures += [signature, urllib.parse.quote(signature)]
        return step != self.wrong and signature in (digest.hexdigest(), base64.b64encode(digest.digest()).decode())

    @staticmethod
    def is_now(ms, ahead=0):
        return isinstance(ms, int) and abs(ms - ahead - time.time() * 1000) < 30000

    def http(self, request):
        at, signature = request.asks("at"), request.headers.get("x-sign", "")
        if not self.is_now(int(at)) or not self.is_right("ticket", f"{at}POST{request.path}{request.body.decode()}", signature):
            return 401, {"error": f"wrong signature {signature}"}
        return 200, {"ticket": "a+ticket/of=the&feed"}

    def refuses(self, request):
        at, signature, ticket = request.headers["x-time"], request.headers["x-sign"], request.asks("ticket")
        is_signed = self.is_right("upgrade", f"{at}GET{request.path}", signature) and self.is_right("url", ticket, request.asks("sign"))
        return None if is_signed and self.is_now(int(at)) else (401, {"error": f"wrong signature {signature}"})

    def received(self, c, message):
        step, text, signature = message.get("op", message.get("method")), None, None
        at = int(c.request.headers["x-time"])
        if step == "login" and message["args"][0]["timestamp"] == str(at // 1000):
            text, signature = f"{at // 1000}GET/users/self/verify", message["args"][0]["sign"]
        elif step == "auth" and self.is_now(message["args"][0], 10000):
            text, signature = f"GET/realtime{message['args'][0]}", message["args"][1]
        elif step == "public/auth" and message["params"]["timestamp"] == at:
            text, signature = f"{at}\n{message['params']['nonce']}\n", message["params"]["signature"]
        elif step == "answer":
            text, signature = "c-1:{}", message["sign"]
        if text is None:
            super().received(c, message)
        elif not self.is_right(step, text, signature):
            c.send({"event": "error", "msg": f"wrong signature {signature}"})
        elif step == "public/auth":
            c.send({"challenge": "c-1:{}"})
        elif step == "answer":
            c.is_ready = True
            c.send({"event": "login"})

    def make(self, n):
        return Event(f"t-{n}", {"id": f"t-{n}"})


def subclasses(kind):
    return [each for direct in kind.__subclasses__() for each in (direct, *subclasses(direct))]


FEEDS = {feed.name: feed for feed in subclasses(Feed) if feed is not Signed}
PACKED = ("jetstream", "kraken")       # feeds that also have a form with compressed messages
