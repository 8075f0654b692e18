import { expect, test } from "vitest";
import { closedAtEnd } from "../../harness/closed-at-end.ts";
import { h2cRequest, h2cSession } from "../../harness/h2c-client.ts";
import { startKeyrun } from "../../harness/keyrun.ts";
import { answersIn, rawSocket } from "../../harness/raw-socket.ts";

const keyrun = closedAtEnd(await startKeyrun());

const rpcPath = "/keyrun.v1.RunService/RunApp";
const rpcHead =
  "Content-Type: application/json\r\nConnect-Protocol-Version: 1\r\nContent-Length: 2\r\n\r\n{}";
const listeners = ["publicUrl", "internalUrl"] as const;

function rpcHeaders(authority: string) {
  return {
    ":method": "POST",
    ":path": rpcPath,
    ":authority": authority,
    "content-type": "application/json",
    "connect-protocol-version": "1",
  };
}

/**
 * Returns everything that the listener answers to these bytes, after it has closed the connection.
 */
async function answersTo(url: string, bytes: string) {
  const client = rawSocket({ port: Number(new URL(url).port) });
  client.send(bytes);
  return answersIn(await client.closed());
}

async function expectServing(url: string) {
  const answer = await fetch(`${url}${rpcPath}`, {
    method: "POST",
    headers: { "content-type": "application/json", "connect-protocol-version": "1" },
    body: "{}",
  });
  expect(answer.status).toBe(401);
}

function expectMalformed(answer: { status: number; body: string } | undefined) {
  expect(answer?.status).toBe(400);
  expect(JSON.parse(answer?.body ?? "").error).toMatchObject({ code: "malformed_request" });
}

/** A host is a name or an address, and a port. The rest of a URL is no part of it. */
const malformedHosts = [
  ...["[", "", "a:99999", "1.2.3.256", "a:80:80", "a:x", "[::1", "[v1.x]"],
  ...["evil/x", "evil/", "u:p@evil", "@evil", "evil?x", "evil#x", "evil\\x", "evil\tx", "a, b", "<evil>"],
];

for (const listener of listeners) {
  test(`on ${listener}, a Host that no URL can have is refused over HTTP/1.1, and the server continues to serve`, async () => {
    await expectServing(keyrun[listener]);
    for (const host of malformedHosts) {
      const answers = await answersTo(
        keyrun[listener],
        `POST ${rpcPath} HTTP/1.1\r\nHost: ${host}\r\n${rpcHead}`,
      );
      expect(answers).toHaveLength(1);
      expectMalformed(answers[0]);
    }
    await expectServing(keyrun[listener]);
  });

  test(`on ${listener}, an RPC without Host is refused over HTTP/1.0, and the server continues to serve`, async () => {
    const answers = await answersTo(keyrun[listener], `POST ${rpcPath} HTTP/1.0\r\n${rpcHead}`);
    expect(answers).toHaveLength(1);
    expectMalformed(answers[0]);
    await expectServing(keyrun[listener]);
  });

  test(`on ${listener}, an :authority that no URL can have is refused, and its session stays usable`, async () => {
    const session = await h2cSession(keyrun[listener]);
    for (const authority of malformedHosts.filter((host) => host !== "")) {
      const answer = await h2cRequest(session, rpcHeaders(authority), "{}").catch(String);
      // Node's library refuses some of them itself, without an answer.
      if (typeof answer === "string") expect(answer).toContain("NGHTTP2_PROTOCOL_ERROR");
      else expectMalformed(answer);
    }
    expect((await h2cRequest(session, rpcHeaders("a.example:8080"), "{}")).status).toBe(401);
    session.close();
    await expectServing(keyrun[listener]);
  });
}

test("requests that are no RPC are also refused without Host, or with one that no URL can have", async () => {
  for (const head of ["HTTP/1.1\r\nHost: [", "HTTP/1.0\r\nHost: [", "HTTP/1.1\r\nX-Host: a"])
    expectMalformed((await answersTo(keyrun.publicUrl, `GET /healthz ${head}\r\n\r\n`))[0]);
  const session = await h2cSession(keyrun.publicUrl);
  expectMalformed(await h2cRequest(session, { ":path": "/healthz", ":authority": "[" }));
  session.close();
});

test("a balancer's health check over HTTP/1.0 may omit Host, and any host with a port is accepted", async () => {
  const bare = "GET /healthz HTTP/1.0\r\n\r\n";
  expect((await answersTo(keyrun.publicUrl, bare)).map(({ status }) => status)).toEqual([200]);
  for (const host of [
    "[::1]:8080",
    "keyrun.example.com",
    "10.0.0.1:80",
    "key_run",
    "k%C3%A9y.example",
    "a:",
  ]) {
    const request = `GET /healthz HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`;
    expect((await answersTo(keyrun.publicUrl, request)).map(({ status }) => status)).toEqual([200]);
  }
});
