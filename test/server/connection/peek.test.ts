import { expect, test } from "vitest";
import { h2cRequest, h2cSession } from "../../harness/h2c-client.ts";
import { openConnections, openSockets } from "../../harness/open-sockets.ts";
import { answersIn, type RawSocket, rawSocket } from "../../harness/raw-socket.ts";
import { echoHandler, type ServedHandlerOptions, serveForTest } from "../../harness/served-handler.ts";

const served = (options?: ServedHandlerOptions) => serveForTest(echoHandler, options);

/** Sends each piece in its own packet: a piece is sent after the one before it was written out. */
async function sendInPieces(client: RawSocket, bytes: Buffer, size: number) {
  for (let at = 0; at < bytes.length; at += size) {
    await new Promise<void>((resolve) => client.socket.write(bytes.subarray(at, at + size), () => resolve()));
    await new Promise(setImmediate);
  }
}

const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
const emptySettings = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]);

function frameTypesIn(heard: string): number[] {
  const bytes = Buffer.from(heard, "latin1");
  const types: number[] = [];
  for (let at = 0; at + 9 <= bytes.length; at += 9 + bytes.readUIntBE(at, 3)) types.push(bytes[at + 3]!);
  return types;
}

test("HTTP/1.1 and HTTP/2 with prior knowledge are served on one port", async () => {
  const { url } = await served();
  const over1 = await fetch(`${url}/one`);
  expect(await over1.json()).toMatchObject({ target: "/one" });
  const session = await h2cSession(url);
  expect(JSON.parse((await h2cRequest(session, { ":path": "/two" })).body)).toMatchObject({ target: "/two" });
  session.close();
});

test.each(["GET", "POST", "PUT", "PATCH", "PROPFIND"])(
  "%s that comes byte by byte is HTTP/1.1",
  async (method) => {
    const { port } = await served();
    const client = rawSocket({ port });
    const request = `${method} /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi`;
    await sendInPieces(client, Buffer.from(request), 1);
    const [answer] = answersIn(await client.closed());
    expect(JSON.parse(answer!.body)).toMatchObject({ method, target: "/x", body: "hi" });
  },
);

test.each([1, 2, 3, 23])("HTTP/2's preface in pieces of %d bytes is HTTP/2", async (size) => {
  const { port } = await served();
  const client = rawSocket({ port });
  await sendInPieces(client, Buffer.concat([preface, emptySettings]), size);
  // The server's SETTINGS, and the acknowledgement of the client's.
  await client.until((heard) => frameTypesIn(heard).filter((type) => type === 4).length >= 2);
});

test("bytes that begin like the preface but differ later are refused as HTTP/1.1", async () => {
  const { port } = await served();
  const client = rawSocket({ port });
  client.send("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n");
  const [answer] = answersIn(await client.closed());
  expect(answer!.status).toBe(400);
});

test.each(["", "P", "PR", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r"])(
  "a connection whose first bytes do not show its protocol is closed in time: %j",
  async (begun) => {
    const { port } = await served({ limits: { peekMsMax: 100 } });
    const client = rawSocket({ port });
    client.send(begun);
    expect(await client.closed()).toBe("");
    await expect.poll(() => openConnections(port)).toBe(0);
  },
);

test("a connection that closes before its protocol is known leaves no open socket", async () => {
  const { port } = await served();
  const socketsBefore = openSockets();
  for (const leave of [(c: RawSocket) => c.socket.end(), (c: RawSocket) => c.socket.resetAndDestroy()]) {
    const client = rawSocket({ port });
    client.send("P");
    await expect.poll(() => openConnections(port)).toBe(1);
    leave(client);
    await expect.poll(() => openConnections(port)).toBe(0);
    await expect.poll(openSockets).toBeLessThanOrEqual(socketsBefore);
  }
});
