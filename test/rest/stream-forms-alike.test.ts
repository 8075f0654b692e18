import fc from "fast-check";
import { expect, test } from "vitest";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { eventReader, lineReader } from "../harness/rest-stream-callers.ts";
import { connectStreamCallers, readAll, type StreamEvent, textIn } from "../harness/stream-callers.ts";
import { startTalkingApp } from "../harness/talking-app.ts";

let texts = 0;

const app = closedAtEnd(await startTalkingApp());
const keyrun = closedAtEnd(await startKeyrun({ settings: { KEYRUN_PLAN_LIMITS: "free=100000" } }));
await keyrun.apps.createApp({ app: { id: "talk", backend: app.backend } });
const authorization = `Bearer ${(await keyrun.newKey(await keyrun.newTeam())).value}`;
const grpc = closedAtEnd((connectStreamCallers.gRPC ?? expect.fail())(keyrun.publicUrl));

const readers = { "text/event-stream": eventReader, "application/x-ndjson": lineReader };

/** Lets the app say the pieces, one after the other, and ends or breaks off. */
async function speak(text: string, pieces: readonly string[], end: "end" | "breakOff"): Promise<void> {
  const talk = await app.talk(text);
  talk.begin();
  for (const piece of pieces) talk.say(piece);
  talk[end]();
}

/** The bytes of the whole answer over REST, read again in parts of these sizes. */
async function overRest(type: keyof typeof readers, text: string, sizes: readonly number[]) {
  const headers = { authorization, accept: type, "content-type": "application/json" };
  const url = `${keyrun.publicUrl}/api/apps/talk/stream`;
  const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify({ text }) });
  const bytes = new Uint8Array(await answer.arrayBuffer());
  const told: StreamEvent[] = [];
  const read = readers[type](told);
  const decoder = new TextDecoder("utf-8", { fatal: true });
  for (let at = 0, part = 0; at < bytes.length; part += 1) {
    const size = sizes[part % sizes.length] ?? 1;
    read(decoder.decode(bytes.subarray(at, at + size), { stream: true }));
    at += size;
  }
  return told;
}

test("gRPC, events and lines tell the same text and the same end, whatever the texts, and however the bytes are split", async () => {
  const pieces = fc.array(fc.string({ unit: "binary", minLength: 1, maxLength: 20 }), { maxLength: 8 });
  const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 5 });
  await fc.assert(
    fc.asyncProperty(pieces, fc.constantFrom("end", "breakOff"), sizes, async (said, end, parts) => {
      texts += 1;
      const names = ["grpc", "text/event-stream", "application/x-ndjson"].map((name) => `${name} ${texts}`);
      const [byGrpc = "", byEvents = "", byLines = ""] = names;
      const speaking = names.map((name) => speak(name, said, end));
      const [{ events, end: last }, ...others] = await Promise.all([
        readAll(grpc.open({ appId: "talk", text: byGrpc, authorization })),
        overRest("text/event-stream", byEvents, parts),
        overRest("application/x-ndjson", byLines, parts),
      ]);
      await Promise.all(speaking);
      expect(last.kind).toBe(end === "end" ? "end" : "refused");
      for (const told of [events, ...others]) {
        expect([told[0]?.kind, textIn(told)]).toEqual(["started", said.join("")]);
      }
      for (const told of others) expect(told.at(-1)).toEqual(last);
    }),
    { numRuns: 40 },
  );
});
