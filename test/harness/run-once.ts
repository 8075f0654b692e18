// A process of its own, because Node reads NODE_EXTRA_CA_CERTS once, when it starts: runs on the backend that its
// argument names in JSON, and prints the output, or the reason of the refusal with its cause.
import { parseArgs } from "node:util";
import type { BackendRecord } from "#src/apps/app-store.ts";
import { refusalFrom } from "#src/error.ts";
import { appOn, causeOf, openAppRunner, runOf } from "./app-backends.ts";

const [argument = ""] = parseArgs({ allowPositionals: true }).positionals;
const backend = JSON.parse(argument) as BackendRecord;
await using runner = openAppRunner();
const run = Promise.resolve(runner.run(runOf(appOn(backend))));
const text = await run.catch((thrown: unknown) => {
  const refusal = refusalFrom(thrown);
  return `${refusal.reason}: ${causeOf(refusal)}`;
});
process.stdout.write(text);
