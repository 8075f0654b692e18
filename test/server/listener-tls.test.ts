import { readFileSync } from "node:fs";
import { connect } from "node:http2";
import { request } from "node:https";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { ListenerTls } from "#src/server/connection/front-server.ts";
import { hasOpenssl, makeCertificates } from "../harness/certificates.ts";
import { h2cRequest } from "../harness/h2c-client.ts";
import { openConnections } from "../harness/open-sockets.ts";
import { rawSocket, rawTlsSocket } from "../harness/raw-socket.ts";
import { echoHandler, type ServedHandler, serveHandler } from "../harness/served-handler.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

const folders = createTempFolders();
let server: ServedHandler;
let own: ListenerTls;
/** A certificate of an authority that the server does not trust. */
let foreign: ListenerTls;

beforeAll(async () => {
  if (!hasOpenssl) return;
  [own, foreign] = [certificates(), certificates()];
  server = await serveHandler(echoHandler, { tls: own });
});

afterAll(() => {
  server?.listener.destroy();
  folders.remove();
});

function certificates(): ListenerTls {
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
  "over mutual TLS both protocols are served by ALPN, and HTTP/1.1 if the client offers none",
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

withTls(
  "a request from a client without a certificate, or with another authority's, never reaches a handler",
  async () => {
    const { host, port, ca } = client();
    for (const options of [{ host, port, ca }, { ...client(foreign) }]) {
      const refused = rawTlsSocket(options);
      refused.send(get);
      expect(await refused.closed()).toBe("");
    }
    await expect
      .poll(() => server.events.filter((event) => event.kind === "connection_failed").length)
      .toBe(2);
  },
);

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

withTls("TLS 1.2 is served with AEAD suites, and no suite with CBC is", async () => {
  const answerWith = async (suites: string) => {
    const caller = rawTlsSocket({
      ...client(),
      maxVersion: "TLSv1.2",
      ALPNProtocols: ["http/1.1"],
      ciphers: suites,
    });
    caller.send(get);
    return (await caller.closed()).slice(0, 13);
  };
  for (const cipher of ["AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305"]) {
    expect(await answerWith(`ECDHE-RSA-${cipher}:ECDHE-ECDSA-${cipher}`)).toBe("HTTP/1.1 200 ");
  }
  for (const suites of ["AES128-SHA256", "AES256-SHA384", "AES128-SHA", "AES256-SHA"]) {
    expect(await answerWith(`ECDHE-RSA-${suites}:ECDHE-ECDSA-${suites}:${suites}:@SECLEVEL=0`)).toBe("");
  }
});

withTls(
  "a handshake that never ends is closed in time, and bytes that are not TLS end their connection",
  async () => {
    const impatient = await serveHandler(echoHandler, { tls: own, limits: { tlsHandshakeMsMax: 300 } });
    const silent = rawSocket({ port: impatient.port });
    expect(await silent.closed()).toBe("");
    impatient.listener.destroy();
    const plaintext = rawSocket({ port: server.port });
    plaintext.send(get);
    expect(await plaintext.closed()).not.toContain("HTTP/1.1");
  },
);

withTls("destroy closes TLS connections too", async () => {
  const other = await serveHandler(echoHandler, { tls: own });
  const idle = rawTlsSocket({ ...client(), port: other.port });
  idle.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  await idle.until((heard) => heard.includes("200"));
  expect(openConnections(other.port)).toBe(1);
  other.listener.destroy();
  await idle.closed();
  await other.listener.drained();
  await expect.poll(() => openConnections(other.port)).toBe(0);
});
