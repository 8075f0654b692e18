import { once } from "node:events";
import { expect, test } from "vitest";
import { closedAtEnd } from "../../harness/closed-at-end.ts";
import { h2cSession } from "../../harness/h2c-client.ts";
import { startKeyrun } from "../../harness/keyrun.ts";

const keyrun = closedAtEnd(await startKeyrun());

const reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const series = (entry: string, outcome: string, status: number) =>
  `keyrun_requests_total{entry="${entry}",outcome="${outcome}",status="${status}"}`;
const lines = (reason: string) => keyrun.logLines.filter((line) => line.includes(`"reason":"${reason}"`));

test("a stream of messages that its caller resets counts once as cancelled, and has one line", async () => {
  const session = await h2cSession(keyrun.internalUrl);
  const cancelled = series("grpc", "CANCELLED", 499);
  const before = await keyrun.metric(cancelled);
  const stream = session.request({
    ":method": "POST",
    ":path": reflection,
    "content-type": "application/grpc",
    te: "trailers",
  });
  stream.on("error", () => undefined);
  // The call is running once the ping behind it is answered.
  await new Promise<void>((resolve) => session.ping(() => resolve()));
  // Resets it; `close` would end the messages first.
  stream.destroy();
  await expect.poll(() => lines("CANCELLED").length).toBe(1);
  // What ends with its connection has ended.
  session.close();
  await once(session, "close");
  expect([lines("CANCELLED").length, (await keyrun.metric(cancelled)) - before]).toEqual([1, 1]);
});

test("a method with streams both ways says over HTTP/1.1 that it needs HTTP/2, and that counts", async () => {
  const refused = series("connect", "UNIMPLEMENTED", 501);
  const before = await keyrun.metric(refused);
  const answer = await fetch(`${keyrun.internalUrl}${reflection}`, {
    method: "POST",
    headers: { "content-type": "application/connect+json", "connect-protocol-version": "1" },
    body: "",
  });
  expect(answer.status).toBe(501);
  expect(await answer.json()).toMatchObject({ error: { message: "This method needs HTTP/2." } });
  expect((await keyrun.metric(refused)) - before).toBe(1);
});

test("a message whose compression is cut off is the caller's fault, and no error of Keyrun's in the log", async () => {
  const answer = await fetch(`${keyrun.internalUrl}/grpc.health.v1.Health/Check`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "connect-protocol-version": "1",
      "content-encoding": "gzip",
    },
    body: Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0]),
  });
  expect(await answer.json()).toMatchObject({ code: "invalid_argument" });
  expect(lines("INTERNAL")).toEqual([]);
});
