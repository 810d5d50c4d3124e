#!/usr/bin/env python3
"""A hub for tests: hub_server.py SCENARIO.json LOG [CERT KEY]. Prints its two ports; ends when stdin does.

The first port is the hub: its API, and redirects to the second one, which holds the files. Each request becomes a line of
JSON in LOG. The scenario: {"repos": {"OWNER/REPO": REPO}, "script": [STEP ...], "api": [STEP ...], "redirects": [URL ...]}
  REPO  {"sha": REVISION, "files": {PATH: {"text": CONTENT, "sha256": a wrong one, "small": true}}, "token": REQUIRED}
  STEP  what happens to the next request of a file, or of the API: {"status": N, "headers": {}}, {"body": TEXT}, {"cut": N}
        (N bytes, then the connection ends), {"whole": true} (no ranges), {"shift": N} (a range from elsewhere), {"etag": TEXT},
        {"extra": N}, {"short": N} (bytes too many or too few), {"wrong": true}, {"hang": N} (N bytes, then silence)
"redirects" are where the next ones lead: "loop" to itself, "none" serves the file from the first port.
"""
import hashlib
import http.server
import json
import os
import sys
import threading
import urllib.parse

scenario = json.load(open(sys.argv[1], encoding="utf-8"))
log = open(sys.argv[2], "a", encoding="utf-8", buffering=1)
lock = threading.Lock()


def next_step(kind):
    with lock:
        steps = scenario.get(kind, [])
        return steps.pop(0) if steps else {}


def sibling(path, file):
    data = file["text"].encode()
    out = {"rfilename": path, "size": len(data), "blobId": hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()}
    if not file.get("small"):
        out["lfs"] = {"sha256": file.get("sha256", hashlib.sha256(data).hexdigest()), "size": file.get("size", len(data)), "pointerSize": 130}
    return out


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        is_hub = self.server is hub
        log.write(json.dumps({"hub": is_hub, "path": self.path, "token": self.headers.get("Authorization", ""),
                              "range": self.headers.get("Range", "")}) + "\n")
        path = urllib.parse.unquote(self.path.split("?")[0])
        if path.startswith("/api/models/"):
            return self.api(path.removeprefix("/api/models/"))
        owner, name, _, _, file = path.strip("/").split("/", 4)
        repo = scenario["repos"].get(owner + "/" + name)
        if repo is None or file not in repo["files"]:
            return self.answer(404)
        redirect = next_step("redirects") if is_hub else {}
        if is_hub and redirect != "none":
            target = self.path if redirect == "loop" else redirect or f"{scheme}://127.0.0.1:{files.server_port}{self.path}"
            return self.answer(302, b"elsewhere", Location=target)
        return self.file(repo["files"][file]["text"].encode())

    def api(self, path):
        step = next_step("api")
        if "status" in step:
            return self.answer(step["status"], **step.get("headers", {}))
        if "body" in step:
            return self.answer(200, step["body"].encode())
        repo = scenario["repos"].get(path.removesuffix("/revision/main"))
        if repo is None:
            return self.answer(404)
        if repo.get("token") and self.headers.get("Authorization") != "Bearer " + repo["token"]:
            return self.answer(401)
        body = {"id": path, "sha": repo["sha"], "siblings": [sibling(*item) for item in repo["files"].items()]}
        return self.answer(200, json.dumps(body).encode(), Content_Type="application/json")

    def file(self, data):
        step = next_step("script")
        if "status" in step:
            return self.answer(step["status"], **step.get("headers", {}))
        wanted = self.headers.get("Range", "") if not step.get("whole") else ""
        start = int(wanted.removeprefix("bytes=").split("-")[0]) if wanted else 0
        if wanted and start >= len(data):
            return self.answer(416, Content_Range=f"bytes */{len(data)}")
        if step.get("wrong"):
            data = data[::-1]
        body = data[start:] + b"x" * step.get("extra", 0)
        body = body[:len(body) - step.get("short", 0)]
        self.send_response(206 if wanted else 200)
        self.send_header("ETag", '"' + step.get("etag", "usual") + '"')
        self.send_header("Content-Length", str(len(body)))
        if wanted:
            shown = start + step.get("shift", 0)
            self.send_header("Content-Range", f"bytes {shown}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        stop = step.get("cut", step.get("hang"))
        self.wfile.write(body[:stop])
        if "hang" in step:
            self.wfile.flush()
            self.rfile.read(1)  # until the client leaves
        if stop is not None:
            self.close_connection = True
        return None


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # clients of these tests leave early


hub, files = Server(("127.0.0.1", 0), Handler), Server(("127.0.0.1", 0), Handler)
scheme = "http"
if len(sys.argv) > 3:
    import ssl  # takes as long as all the rest
    scheme = "https"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[3], sys.argv[4])
    for server in (hub, files):
        server.socket = context.wrap_socket(server.socket, server_side=True)
for server in (hub, files):
    threading.Thread(target=server.serve_forever, daemon=True).start()
print(hub.server_port, files.server_port, flush=True)
sys.stdin.buffer.read()
os._exit(0)
