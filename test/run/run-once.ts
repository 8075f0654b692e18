// Runs once on each of the backends in its argument (JSON), in their order. Prints for each the
// output, or the refusal's reason and cause, as JSON. A process of its own, because Node reads
// NODE_EXTRA_CA_CERTS only at its start.
import { parseArgs } from "node:util";
import type { BackendRecord } from "#src/apps/app-store.ts";
import { refusalFrom } from "#src/refusal/refusal.ts";
import { appOn, causeOf, openAppRunner, runOf } from "../harness/app-backends.ts";

const [argument = ""] = parseArgs({ allowPositionals: true }).positionals;
const runner = openAppRunner();
const outcomes: string[] = [];
for (const backend of JSON.parse(argument) as BackendRecord[]) {
  const run = Promise.resolve(runner.run(runOf(appOn(backend))));
  const outcome = run.catch((thrown: unknown) => {
    const refusal = refusalFrom(thrown);
    return `${refusal.reason}: ${causeOf(refusal)}`;
  });
  outcomes.push(await outcome);
}
await runner.close();
process.stdout.write(JSON.stringify(outcomes));
