"""Stands in for Stripe's API: keeps each request in a file, a line of JSON each, and
answers a repeated idempotency key as it did before. Customer cus_rich has a default
payment method, others have a saved card. Cards of customer cus_poor are declined;
while the file "down" is there, a POST is answered 503, and while "garbled" is, no
answer is JSON."""
import json
import os
import sys
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

answers = {}


class Api(BaseHTTPRequestHandler):
    def do_POST(self):
        form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["content-length"])).decode()))
        key = self.headers["idempotency-key"]
        with open("requests", "a", encoding="utf-8") as file:
            print(json.dumps({"path": self.path, "key": key, "form": form,
                              "authorization": self.headers["authorization"]}), file=file)
        if os.path.exists("down"):
            status, answer = 503, {}
        elif key in answers:
            status, answer = answers[key]
        else:
            status, answer = 200, {"id": f"pi_{len(answers) + 1}", "status": "succeeded"}
            if form.get("customer") == "cus_poor":
                status, answer = 402, {"error": {"code": "card_declined"}}
            answers[key] = status, answer
        self.answer(status, answer)

    def do_GET(self):
        if "/payment_methods?" in self.path:
            self.answer(200, {"data": [{"id": "pm_saved"}]})
        else:
            self.answer(200, {"invoice_settings": {
                "default_payment_method": "pm_rich" if self.path.endswith("/cus_rich") else None}})

    def answer(self, status, answer):
        body = b"<html>" if os.path.exists("garbled") else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Api).serve_forever()
