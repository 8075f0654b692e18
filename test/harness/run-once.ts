// Runs once on the backend in its argument (JSON). Prints the output, or the refusal's reason and
// cause. A process of its own, because Node reads NODE_EXTRA_CA_CERTS only at its start.
import { parseArgs } from "node:util";
import type { BackendRecord } from "#src/apps/app-store.ts";
import { refusalFrom } from "#src/refusal/refusal.ts";
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
