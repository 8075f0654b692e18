import { expect, test } from "vitest";
import { streamTurns } from "#src/limit/stream-turns.ts";
import { appOn, openAppRunner, runOf } from "../../harness/app-backends.ts";
import { appKinds, type Talk } from "../../harness/streamed-apps.ts";

/** Streams that take the whole of each turn, until the returned function is called. */
function busyStreams(count: number): () => void {
  let isOver = false;
  const work = () => {
    const untilMs = performance.now() + 12;
    while (performance.now() < untilMs);
    if (!isOver) streamTurns.ask(work);
  };
  for (let n = 0; n < count; n++) streamTurns.ask(work);
  return () => {
    isOver = true;
  };
}

function countedTurns() {
  let turns = 0;
  let next = setImmediate(function count() {
    turns += 1;
    next = setImmediate(count);
  });
  return {
    now: () => turns,
    [Symbol.dispose]: () => clearImmediate(next),
  };
}

const streaming = Object.entries(appKinds).filter(([, { isWhole }]) => !isWhole);

test.each(streaming)("what %s sends is read in a turn of its stream", async (_, kind) => {
  const talking = Promise.withResolvers<Talk>();
  await using app = await kind.serve(talking.resolve);
  await using runner = openAppRunner();
  const opening = runner.stream(runOf(appOn(app.backend)));
  const talk = await talking.promise;
  talk.begin();
  const pieces = (await opening)[Symbol.asyncIterator]();
  const first = pieces.next();
  talk.say("one ");
  expect(await first).toMatchObject({ value: "one " });
  using turns = countedTurns();
  const stop = busyStreams(20);
  const second = pieces.next();
  const from = turns.now();
  talk.say("two ");
  expect(await second).toMatchObject({ value: "two " });
  // Those that asked before it were served, each in a turn.
  expect(turns.now() - from).toBeGreaterThanOrEqual(15);
  stop();
  talk.end();
  expect(await pieces.next()).toMatchObject({ done: true });
});
