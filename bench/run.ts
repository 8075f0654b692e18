import { readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { parseArgs } from "node:util";
import { measure, type Plan } from "./measure.ts";
import { questions } from "./questions.ts";
import { measureStreams, streamTableOf } from "./stream-costs.ts";
import { tableOf } from "./table.ts";

// Measures what a request costs each server, all in one run; see README.md.
const { values } = parseArgs({
  options: {
    only: { type: "string" },
    rounds: { type: "string", default: "9" },
    requests: { type: "string", default: "4000" },
    connections: { type: "string" },
    node: { type: "string" },
    "memory-requests": { type: "string", default: "0" },
    write: { type: "boolean", default: false },
  },
});
const plan: Plan = {
  rounds: wholeNumber("rounds", 1),
  requests: wholeNumber("requests", 1),
  warmUp: { connections: 16, requests: 30_000 },
  memoryRequests: wholeNumber("memory-requests", 0),
  node: values.node,
  connections: values.connections === undefined ? undefined : [wholeNumber("connections", 1)],
};
const names = [...questions.map(({ name }) => name), "streams"];
if (values.only !== undefined && !names.includes(values.only)) {
  throw new Error(`--only takes one of ${names.join(", ")}.`);
}

const machine = `Node ${process.versions.node}, ${cpus().length} × ${cpus()[0]?.model.trim()}`;
for (const question of questions) {
  if (values.only !== undefined && values.only !== question.name) continue;
  const { tables, missing } = await measure(question, plan);
  const paragraphs = [
    ...tables.map((table) => tableOf(question.title, table, plan)),
    ...missing.map(({ name, missing: why }) => `Left out: ${name}, because ${why}.`),
    machine,
  ];
  console.log(`\n${paragraphs.join("\n\n")}`);
  if (values.write) write(question.name, paragraphs.join("\n\n"));
}

function wholeNumber(name: "rounds" | "requests" | "connections" | "memory-requests", min: number): number {
  const number = Number(values[name]);
  if (!Number.isInteger(number) || number < min)
    throw new Error(`--${name} takes a whole number from ${min}.`);
  return number;
}

if (values.only === undefined || values.only === "streams") {
  const table = `${streamTableOf(await measureStreams(plan.rounds))}\n\n${machine}`;
  console.log(`\n${table}`);
  if (values.write) write("streams", table);
}

/** Writes the answer to one question into its place in the README. */
function write(name: string, result: string): void {
  const readme = new URL("./README.md", import.meta.url);
  const [begin, end] = [`<!-- ${name}: printed by \`npm run bench -- --write\` -->`, "<!-- end -->"];
  const text = readFileSync(readme, "utf8");
  const before = text.indexOf(begin);
  const after = text.indexOf(end, before);
  if (before < 0 || after < 0) throw new Error(`README.md has no place for ${name}.`);
  writeFileSync(readme, `${text.slice(0, before)}${begin}\n\n${result}\n\n${text.slice(after)}`);
}
