#!/usr/bin/env python3
"""Takes payments by Stripe, and credits them in gpucredit.

  POST /stripe      from Stripe: a checkout was paid, a payment succeeded, failed
                    or was refunded
  POST /gpucredit   from gpucreditd's webhook: a balance needs a top-up, a job has
                    ended

Both are sent again until they are answered with 2xx, more than once, and in any
order. So nothing is remembered here: each call of gpucredit or Stripe carries the
payment, the order or the event that it is for, and takes effect once. Stripe forgets
after a day what it was asked, so an event of gpucredit's that is older is refused.

A top-up is paid by the customer's default payment method for invoices, else by the
card that was saved last, without tax. Metered are the bills of settlements: what a
late report adds, and refunds, are not told to the meter.

The environment:
  GPUCREDIT             where gpucreditd is, as http://127.0.0.1:8086
  GPUCREDIT_TOKEN       a token of scope admin of a member of gpucredit_admin
  GPUCREDIT_SECRET      the secret of the webhook, whsec_...
  STRIPE_KEY            the secret key of the Stripe account
  STRIPE_SECRET         the secret of Stripe's webhook endpoint, whsec_...
  STRIPE_API            https://api.stripe.com, unless said otherwise
  CUSTOMERS             a file of JSON: {"acme": "cus_123"}
  CENTS                 what one credit costs, in the currency's smallest unit
  CURRENCY              eur, unless said otherwise
  METER                 the event name of Stripe's meter; none: nothing is metered
  PORT                  where to listen, on the loopback address
"""
import base64
import hashlib
import hmac
import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from datetime import datetime
from decimal import Decimal, InvalidOperation
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOLERANCE_S = 300
EVENT_MOST_S = 23 * 3600
BODY_MOST = 1 << 20
CURRENCY = os.environ.get("CURRENCY", "eur")
CENTS = Decimal(os.environ["CENTS"])


class Refused(Exception):
    """What will not be right the next time, either; with the status of an answer."""

    def __init__(self, message, status=None):
        super().__init__(message)
        self.status = status


def is_recent(seconds):
    return abs(time.time() - int(seconds)) <= TOLERANCE_S


def signed_by_stripe(headers, body):
    """Stripe-Signature: t=SECONDS,v1=HEX, perhaps with more of each scheme."""
    parts = [part.split("=", 1) for part in headers["stripe-signature"].split(",")]
    at = next(value for name, value in parts if name == "t")
    ours = hmac.new(os.environ["STRIPE_SECRET"].encode(), at.encode() + b"." + body, hashlib.sha256).hexdigest()
    return is_recent(at) and any(
        hmac.compare_digest(ours.encode(), value.encode()) for name, value in parts if name == "v1")


def signed_by_gpucredit(headers, body):
    """As standardwebhooks describes it."""
    key = base64.b64decode(os.environ["GPUCREDIT_SECRET"].removeprefix("whsec_"))
    message = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    ours = b"v1," + base64.b64encode(hmac.new(key, message, hashlib.sha256).digest())
    return is_recent(headers["webhook-timestamp"]) and any(
        hmac.compare_digest(ours, value.encode()) for value in headers["webhook-signature"].split())


def send(request, again=(401, 403, 408, 425, 429)):
    """Sends a request. An answer of 4xx is Refused, but for those that say to come again,
    and for a token or a key that is not accepted, which somebody has to renew."""
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        text = error.read(2000).decode(errors="replace")
        if error.code in again or error.code >= 500:
            raise OSError(f"{request.full_url}: {error.code} {text}") from error
        raise Refused(f"{request.full_url}: {error.code} {text}", error.code) from error
    except (ValueError, http.client.HTTPException) as error:    # something else answered
        raise OSError(f"{request.full_url}: {error!r}") from error


def gpucredit(path, arguments):
    return send(urllib.request.Request(os.environ["GPUCREDIT"] + path, json.dumps(arguments).encode(), {
        "authorization": "Bearer " + os.environ["GPUCREDIT_TOKEN"], "content-type": "application/json"}))


def stripe(path, key=None, form=None):
    """Posts a form under an idempotency key, or reads."""
    headers = {"authorization": "Bearer " + os.environ["STRIPE_KEY"]}
    if key is not None:
        headers["idempotency-key"] = key
    return send(urllib.request.Request(
        os.environ.get("STRIPE_API", "https://api.stripe.com") + path,
        urllib.parse.urlencode(form).encode() if form is not None else None, headers),
        again=(401, 403, 408, 409, 425, 429))


def customer_of(org):
    with open(os.environ["CUSTOMERS"], encoding="utf-8") as file:
        try:
            customer = json.load(file).get(org)
        except ValueError as error:
            raise OSError(f"{file.name}: {error}") from error
    if customer is None:
        raise Refused(f'organisation "{org}" has no customer at Stripe')
    return customer


def payment_method_of(customer):
    """A PaymentIntent has no default of its own."""
    path = "/v1/customers/" + urllib.parse.quote(customer, safe="")
    default = (stripe(path).get("invoice_settings") or {}).get("default_payment_method")
    if default is not None:
        return default
    cards = stripe(path + "/payment_methods?type=card&limit=1")["data"]
    if not cards:
        raise Refused(f"customer {customer} has no payment method")
    return cards[0]["id"]


def require_recent(event):
    if time.time() - datetime.fromisoformat(event["at"]).timestamp() > EVENT_MOST_S:
        raise Refused(f"event {event['event']} is of {event['at']}: Stripe might not know that it was asked before")


def checkout_paid(session):
    """Credit for what was paid, less tax and shipping. The session's maker wrote its metadata."""
    if session.get("payment_status") != "paid":
        return          # checkout.session.async_payment_succeeded follows
    if session["currency"] != CURRENCY:
        raise Refused(f'the currency is {session["currency"]}')
    details = session.get("total_details") or {}
    paid = session["amount_total"] - (details.get("amount_tax") or 0) - (details.get("amount_shipping") or 0)
    credits = (Decimal(paid) / CENTS).quantize(Decimal("0.000001"))
    gpucredit("/v1/billing/payments", {
        "org": session["metadata"]["org"], "account": session["metadata"].get("account", ""),
        "payment": session["payment_intent"], "credits": str(credits)})


def payment_succeeded(payment):
    order = payment.get("metadata", {}).get("top_up_order")
    if order is not None:
        gpucredit(f"/v1/billing/top_ups/orders/{int(order)}/complete", {"payment": payment["id"]})


def payment_failed(payment):
    order = payment.get("metadata", {}).get("top_up_order")
    why = (payment.get("last_payment_error") or {}).get("message") or "the payment failed"
    if order is not None:
        why = "".join(c if c.isprintable() else " " for c in why)[:120]
        gpucredit(f"/v1/billing/top_ups/orders/{int(order)}/fail", {"reason": why})


def charge_refunded(charge):
    if charge.get("refunded") and charge.get("payment_intent"):     # as a whole
        name = urllib.parse.quote(charge["payment_intent"], safe="")
        gpucredit(f"/v1/billing/payments/{name}/refund", {"reason": "refunded at Stripe"})


FROM_STRIPE = {
    "checkout.session.completed": checkout_paid,
    "checkout.session.async_payment_succeeded": checkout_paid,
    "payment_intent.succeeded": payment_succeeded,
    "payment_intent.payment_failed": payment_failed,
    "charge.refunded": charge_refunded,
}


def top_up(event):
    """Takes the order's payment from the customer's card; Stripe tells what became of it."""
    require_recent(event)
    detail = event["detail"]
    cents = (Decimal(detail["credits"]) * CENTS).to_integral_value(rounding="ROUND_CEILING")
    order = int(detail["order"])
    try:
        customer = customer_of(event["org"])
        stripe("/v1/payment_intents", f"gpucredit-top-up-{order}", {
            "amount": str(cents), "currency": CURRENCY, "customer": customer,
            "payment_method": payment_method_of(customer), "confirm": "true", "off_session": "true",
            "automatic_payment_methods[enabled]": "true", "automatic_payment_methods[allow_redirects]": "never",
            "metadata[top_up_order]": str(order)})
    except Refused as refused:
        if refused.status != 402:               # the card was declined: Stripe's event says so
            gpucredit(f"/v1/billing/top_ups/orders/{order}/fail", {"reason": "Stripe took no payment"})
            raise


def meter(event):
    """What an attempt cost, in millionths of a credit. Stripe counts an identifier once."""
    billed = Decimal(event["detail"].get("billed") or 0)
    if "METER" in os.environ and billed > 0:
        require_recent(event)
        stripe("/v1/billing/meter_events", f"gpucredit-event-{event['event']}", {
            "event_name": os.environ["METER"], "identifier": f"gpucredit-event-{event['event']}",
            "timestamp": str(int(datetime.fromisoformat(event["at"]).timestamp())),
            "payload[stripe_customer_id]": customer_of(event["org"]),
            "payload[value]": str((billed * 1000000).to_integral_value())})


FROM_GPUCREDIT = {"balance.top_up": top_up, "job.ended": meter, "job.requeued": meter}


class Receiver(BaseHTTPRequestHandler):
    timeout = 30

    def do_POST(self):
        self.send_response(self.answer())
        self.send_header("content-length", "0")
        self.end_headers()

    def answer(self):
        """The status: 2xx for what is done or will never be, 5xx to hear of it again."""
        try:
            length = int(self.headers["content-length"])
            if not 0 <= length <= BODY_MOST:
                return 413
            body = self.rfile.read(length)
            genuine = {"/stripe": signed_by_stripe, "/gpucredit": signed_by_gpucredit}[self.path](self.headers, body)
        except (AttributeError, KeyError, StopIteration, TypeError, ValueError):
            return 400
        if not genuine:
            return 401
        try:
            event = json.loads(body)
            if self.path == "/stripe":
                found, subject = FROM_STRIPE.get(event["type"]), event["data"]["object"]
            else:
                found, subject = FROM_GPUCREDIT.get(event["type"]), event["data"]
            if found is not None:
                found(subject)
        except (Refused, AttributeError, KeyError, TypeError, ValueError, InvalidOperation) as error:
            print(f"not credited: {error!r}", file=sys.stderr, flush=True)
            return 202
        except OSError as error:
            print(f"to be repeated: {error!r}", file=sys.stderr, flush=True)
            return 503
        return 200

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    for name in "GPUCREDIT", "GPUCREDIT_TOKEN", "GPUCREDIT_SECRET", "STRIPE_KEY", "STRIPE_SECRET", "CUSTOMERS", "PORT":
        if not os.environ.get(name):
            sys.exit(f"{name} is not set")
    ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Receiver).serve_forever()
