import { describe, expect, test } from "vitest";
import { attackedKeyrun } from "../harness/attacked-keyrun.ts";
import { campaignSize, figure } from "../harness/campaigns.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { frame, frameTypes, h2Opening } from "../harness/h2-frames.ts";
import { type RawSocket, rawSocket } from "../harness/raw-socket.ts";
import { type H2Answer, h2AnswerIn } from "./h2-answer.ts";
import { type Http2Attack, http2Attacks } from "./http2-attacks.ts";

const keyrun = closedAtEnd(await attackedKeyrun());

const rounds = campaignSize("malformed-http");
const megabytesMax = 400;

describe("attacks by the frames of HTTP/2 are refused, run no app, and do not disturb another caller:", () => {
  test.each(http2Attacks.map((attack) => [attack.name, attack] as const))(
    "%s",
    { timeout: 180_000 + rounds * 1_000 },
    async (_, attack) => {
      for (let round = 0; round < rounds; round += 1) {
        const client = rawSocket(keyrun);
        client.send(Buffer.concat([attack.opening ?? h2Opening, attack.frames(keyrun.key)]));
        await expectEnd(attack, client);
        client.socket.destroy();
        await keyrun.expectServing();
      }
    },
  );

  test("and memory stays bounded", async () => {
    const [megabytes, runs] = [keyrun.memory().peak, await keyrun.runsByAttacks()];
    figure("HTTP/2: attacks by frames", http2Attacks.length * rounds);
    figure("HTTP/2: runs of the app", runs);
    figure("HTTP/2: at most", megabytes, "MB");
    expect(runs).toBe(0);
    expect(megabytes).toBeLessThan(megabytesMax);
  });
});

async function expectEnd({ end }: Http2Attack, client: RawSocket): Promise<void> {
  if (end === "closed") return void (await client.closed());
  if (end === "endured") return expectAlive(client);
  if ("connection" in end) {
    expect(end.connection).toContain(h2AnswerIn(await client.closed()).goAway);
    return;
  }
  const { goAway, reset, status, body } = h2AnswerIn(await client.until(isDecided));
  if ("answer" in end) {
    const { error } = JSON.parse(body);
    expect([status, error.code]).toEqual(end.answer);
    expect(error.requestId).toEqual(expect.any(String));
    await expectAlive(client);
  } else {
    // An endpoint may end the connection in place of the stream (RFC 9113, section 5.4.1).
    expect(end.stream).toContain(reset ?? goAway);
    await (goAway === undefined ? expectAlive(client) : client.closed());
  }
}

function isDecided(heard: string): boolean {
  const { goAway, reset, status, body }: H2Answer = h2AnswerIn(heard);
  return goAway !== undefined || reset !== undefined || (status !== undefined && body.endsWith("}\n"));
}

const question = Buffer.from("alive?!\n");

/** The connection answers a PING, so it goes on for the other streams on it. */
async function expectAlive(client: RawSocket): Promise<void> {
  client.send(frame({ type: frameTypes.ping, flags: 0, stream: 0 }, question));
  await client.until((heard) => heard.includes(question.toString("latin1")));
}
