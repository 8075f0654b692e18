import { expect, test } from "vitest";
import { measureRunFunctions } from "../../bench/run-functions.ts";

test("the functions that a run passes are those on its way, each with its place", async () => {
  const { functions, files } = await measureRunFunctions({ warmRuns: 20, rounds: 2 });
  expect(functions.length).toBeGreaterThan(files.length);
  expect(files).toEqual(expect.arrayContaining(["src/rest/rest-handler.ts", "src/run/http-runner.ts"]));
  // Not the start, the command line, an RPC or an app over gRPC.
  expect(files.filter((file) => /^src\/(serve\.|cli\/|rpc\/|run\/grpc)/.test(file))).toEqual([]);
  for (const each of functions) expect(each).toMatch(/^src\/[\w/-]+\.ts:\d+ \S/);
});
