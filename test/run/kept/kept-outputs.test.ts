import { randomUUID } from "node:crypto";
import { describe, expect, onTestFinished, test } from "vitest";
import { readOutput } from "#src/run/kept/run-ends.ts";
import { runBounds } from "#src/run/run-bounds.ts";
import type { RunInput, RunOutput } from "#src/run/runner.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { closedAtEnd, tempFolders } from "../../harness/closed-at-end.ts";
import { keptInstance } from "./kept-instances.ts";

const folders = tempFolders();
const { runs: store } = closedAtEnd(await openSqliteStores({ dataDir: folders.create() }));

/** Runs an app with this output, and returns what a repeat finds of the run, and the store. */
async function ran(output: RunOutput) {
  const inputs: RunInput[] = [];
  const run = async ({ text, input }: RunInput) => {
    inputs.push({ text, input });
    return output;
  };
  const { runs, start } = keptInstance(store, { run });
  onTestFinished(() => runs.close());
  const order = { text: undefined, input: { a: [1] }, key: randomUUID() };
  const first = await start(order);
  expect(await first.output).toEqual(output);
  await runs.idle();
  const repeat = await start(order);
  expect({ id: repeat.record.id, output: repeat.output }).toEqual({ id: first.record.id, output: undefined });
  expect(inputs).toEqual([{ text: undefined, input: { a: [1] } }]);
  return { record: repeat.record, kept: await store.textOf(repeat.record.id) };
}

describe("the output of a run", () => {
  const long = { text: "é".repeat(524_000), output: { long: "\n".repeat(1_048_000) } };
  test.each<[string, RunOutput]>([
    ["a text", { text: "hello" }],
    ["an empty text", { text: "" }],
    ["a text that looks as if it were kept JSON", { text: '{"output":1}' }],
    ["a text that begins with a brace", { text: "{" }],
    ["null", { output: null }],
    ["a number", { output: 0.5 }],
    ["a string", { output: '{"text":"a"}' }],
    [
      "names that are special elsewhere",
      { output: JSON.parse('{"__proto__":{"a":1},"constructor":2,"":3}') },
    ],
    ["text and JSON", { text: "hello", output: [{ a: false }] }],
    ["an empty text and JSON", { text: "", output: {} }],
    ["text and JSON of 1 MiB each", long],
  ])("that is %s comes back as it was", async (_, output) => {
    const { record, kept } = await ran(output);
    expect(record).toMatchObject({ state: "succeeded", textBytes: Buffer.byteLength(kept!) });
    const again = readOutput(kept!);
    expect(again).toEqual(output);
    expect(JSON.stringify(again.output)).toBe(JSON.stringify(output.output));
  });

  test("that is a text alone is kept as it is", async () => {
    expect((await ran({ text: 'so "it" is\n' })).kept).toBe('so "it" is\n');
  });

  test("is kept up to the bound of what is written, of which escapes are a part", async () => {
    const fits = "\n".repeat((runBounds.keptTextBytesMax - '{"output":""}'.length) / 2);
    expect((await ran({ output: fits })).kept).toHaveLength('{"output":""}'.length + 2 * fits.length);
    const { record, kept } = await ran({ output: `${fits}\n` });
    expect({ state: record.state, textBytes: record.textBytes, kept }).toEqual({
      ...{ state: "succeeded", textBytes: null, kept: null },
    });
  });
});
