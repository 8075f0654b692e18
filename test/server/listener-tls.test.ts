import { readFileSync } from "node:fs";
import { connect } from "node:http2";
import { request } from "node:https";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { MutualTls } from "#src/server/http1-server.ts";
import { hasOpenssl, makeCertificates } from "../harness/certificates.ts";
import { h2cRequest } from "../harness/h2c-client.ts";
import { rawSocket, rawTlsSocket } from "../harness/raw-socket.ts";
import { type ServedDoor, serveDoor, tellingDoor } from "../harness/served-door.ts";
import { soon } from "../harness/soon.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

const folders = createTempFolders();
let server: ServedDoor;
let own: MutualTls;
/** Of an authority that the server does not know. */
let foreign: MutualTls;

beforeAll(async () => {
  if (!hasOpenssl) return;
  [own, foreign] = [certificates(), certificates()];
  server = await serveDoor(tellingDoor, { tls: own, limits: { tlsHandshakeMsMax: 300 } });
});

afterAll(() => {
  server?.listener.destroy();
  folders.remove();
});

function certificates(): MutualTls {
  const files = makeCertificates(folders.create());
  return {
    cert: readFileSync(files.certFile),
    key: readFileSync(files.keyFile),
    clientCa: readFileSync(files.caFile),
  };
}

function client({ cert, key } = own) {
  return { host: "127.0.0.1", port: server.port, ca: own.clientCa, cert, key };
}

const get = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const withTls = test.runIf(hasOpenssl);

withTls(
  "over mutual TLS both protocols are served, by ALPN, and HTTP/1.1 where none is offered",
  async () => {
    const session = connect(`https://127.0.0.1:${server.port}`, client());
    expect((await h2cRequest(session, { ":path": "/two" })).body).toContain('"target":"/two"');
    expect(session.alpnProtocol).toBe("h2");
    session.close();
    const status = await new Promise((resolve, reject) => {
      request({ ...client(), agent: false }, (res) => res.resume().on("end", () => resolve(res.statusCode)))
        .on("error", reject)
        .end();
    });
    expect(status).toBe(200);
    const plain = rawTlsSocket({ ...client(), ALPNProtocols: [] });
    plain.send(get);
    expect(await plain.closed()).toContain("HTTP/1.1 200 ");
  },
);

withTls("a client without a certificate, or with another authority's, is never heard", async () => {
  const { host, port, ca } = client();
  for (const options of [{ host, port, ca }, { ...client(foreign) }]) {
    const refused = rawTlsSocket(options);
    refused.send(get);
    expect(await refused.closed()).toBe("");
  }
  await soon(() => server.events.filter((event) => event.kind === "request_refused").length).toBe(2);
});

withTls("TLS older than 1.2 is refused", async () => {
  const old = rawTlsSocket({
    ...client(),
    minVersion: "TLSv1",
    maxVersion: "TLSv1.1",
    ciphers: "ALL:@SECLEVEL=0",
  });
  old.send(get);
  expect(await old.closed()).toBe("");
});

withTls(
  "a handshake that never ends is closed in time, and bytes that are none end their connection",
  async () => {
    const silent = rawSocket({ port: server.port });
    expect(await silent.closed()).toBe("");
    const plaintext = rawSocket({ port: server.port });
    plaintext.send(get);
    expect(await plaintext.closed()).not.toContain("HTTP/1.1");
  },
);

withTls("destroy takes TLS connections away, too", async () => {
  const other = await serveDoor(tellingDoor, { tls: own });
  const idle = rawTlsSocket({ ...client(), port: other.port });
  idle.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  await idle.until((heard) => heard.includes("200"));
  expect(other.listener.connections()).toBe(1);
  other.listener.destroy();
  await idle.closed();
  await other.listener.drained();
  await soon(() => other.listener.connections()).toBe(0);
});
