import { describe, expect, test } from "vitest";
import { attackedKeyrun } from "../harness/attacked-keyrun.ts";
import { campaignSize, figure } from "../harness/campaigns.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { answersIn, rawSocket } from "../harness/raw-socket.ts";
import { type Http1Attack, http1Attacks } from "./http1-attacks.ts";

const keyrun = closedAtEnd(await attackedKeyrun());

const rounds = campaignSize("malformed-http");
const megabytesMax = 400;

describe("malformed HTTP/1.1 is refused, runs no app, and does not disturb another caller:", () => {
  test.each(http1Attacks.map((attack) => [attack.name, attack] as const))(
    "%s",
    { timeout: 180_000 + rounds * 1_000 },
    async (_, attack) => {
      for (let round = 0; round < rounds; round += 1) {
        for (const how of ways) await expectRefused(attack, how);
        await keyrun.expectServing();
      }
    },
  );

  test("and memory stays bounded", async () => {
    const [megabytes, runs] = [keyrun.memory().peak, await keyrun.runsByAttacks()];
    figure("HTTP/1: malformed requests", http1Attacks.length * rounds);
    figure("HTTP/1: runs of the app", runs);
    figure("HTTP/1: at most", megabytes, "MB");
    expect(runs).toBe(0);
    expect(megabytes).toBeLessThan(megabytesMax);
  });
});

/**
 * In one packet with a good run behind it, in small packets with one behind it, and alone by a
 * caller that then sends no more. A run behind an attack that closes its connection must not start.
 */
const ways = ["in one packet", "in pieces", "alone"] as const;
const smuggled =
  "POST /api/apps/echo/run HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer KEY\r\n" +
  'Content-Type: application/json\r\nContent-Length: 12\r\n\r\n{"text":"x"}';

async function expectRefused(attack: Http1Attack, how: (typeof ways)[number]): Promise<void> {
  const { bytes, staysOpen = false, isCutOff = false, refusal = malformed } = attack;
  const client = rawSocket({ port: keyrun.port, allowHalfOpen: how === "alone" });
  const text = (staysOpen || how === "alone" ? bytes : bytes + smuggled).replaceAll("KEY", keyrun.key);
  const sent = Buffer.from(text, "latin1");
  if (how === "in pieces") await sendInPieces(client.send, sent);
  else client.send(sent);
  if (how === "alone") client.socket.end();
  const closes = !staysOpen || how === "alone";
  const heard = closes ? await client.closed() : await client.until((some) => answersIn(some).length > 0);
  client.socket.destroy();
  // What is sent after the refusal can make the kernel drop the answer (RFC 9112, section 9.6).
  if (how === "in pieces" && heard === "") return;
  // The connection of a caller that has closed its side closes before a handler is asked.
  if (how === "alone" && staysOpen && heard === "") return;
  const answers = answersIn(heard).map(({ status, headers, body }) => {
    const { error } = JSON.parse(body);
    expect(error.requestId).toBe(headers.get("x-request-id"));
    if (!staysOpen) expect(headers.get("connection")).toBe("close");
    return [status, error.code];
  });
  const expected = isCutOff && how === "alone" ? [refusal, malformed] : [refusal];
  expect(answers).toHaveLength(1);
  expect(expected).toContainEqual(answers[0]);
}

const malformed = [400, "malformed_request"] as const;

const piecesMax = 30;
const pieceBytesMin = 7;

async function sendInPieces(send: (bytes: Buffer) => void, bytes: Buffer): Promise<void> {
  const size = Math.max(pieceBytesMin, Math.ceil(bytes.length / piecesMax));
  for (let at = 0; at < bytes.length; at += size) {
    send(bytes.subarray(at, at + size));
    await new Promise((resolve) => setImmediate(resolve));
  }
}
