"""Signatures of webhooks, by the specification's words alone: nothing of the program under test is in here."""
import base64
import hashlib
import hmac


def is_signed(secret, headers, body):
    """secret: bytes; headers: by name in small letters."""
    signed = b".".join([headers.get("webhook-id", "").encode(), headers.get("webhook-timestamp", "").encode(), body])
    wanted = "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
    return any(hmac.compare_digest(wanted, one) for one in headers.get("webhook-signature", "").split(" "))
