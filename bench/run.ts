import { readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { parseArgs } from "node:util";
import { measure, type Plan } from "./measure.ts";
import { questions } from "./questions.ts";
import { tableOf } from "./table.ts";

// Measures what a request costs each server, all in one run; see README.md.
const { values } = parseArgs({
  options: {
    only: { type: "string" },
    rounds: { type: "string", default: "9" },
    requests: { type: "string", default: "4000" },
    connections: { type: "string" },
    "memory-requests": { type: "string", default: "0" },
    write: { type: "boolean", default: false },
  },
});
const plan: Plan = {
  rounds: wholeNumber("rounds", 1),
  requests: wholeNumber("requests", 1),
  warmUp: { connections: 16, requests: 30_000 },
  memoryRequests: wholeNumber("memory-requests", 0),
  connections: values.connections === undefined ? undefined : [wholeNumber("connections", 1)],
};
const names = questions.map(({ name }) => name);
if (values.only !== undefined && !names.includes(values.only)) {
  throw new Error(`--only takes one of ${names.join(", ")}.`);
}
if (values.write && values.only !== undefined) throw new Error("--write needs all tables: leave --only out.");

const printed: string[] = [];
for (const question of questions) {
  if (values.only !== undefined && values.only !== question.name) continue;
  const { tables, missing } = await measure(question, plan);
  for (const table of tables) print(tableOf(question.title, table, plan));
  for (const { name, missing: why } of missing) print(`Left out: ${name}, because ${why}.`);
}
print(`Node ${process.versions.node}, ${cpus().length} × ${cpus()[0]?.model.trim()}`);
if (values.write) write(new URL("./README.md", import.meta.url), printed.join("\n\n"));

function print(paragraph: string): void {
  console.log(`\n${paragraph}`);
  printed.push(paragraph);
}

function wholeNumber(name: "rounds" | "requests" | "connections" | "memory-requests", min: number): number {
  const number = Number(values[name]);
  if (!Number.isInteger(number) || number < min)
    throw new Error(`--${name} takes a whole number from ${min}.`);
  return number;
}

function write(readme: URL, result: string): void {
  const [begin, end] = ["<!-- printed by `npm run bench -- --write` -->", "<!-- end -->"];
  const text = readFileSync(readme, "utf8");
  const [before, after] = [text.indexOf(begin), text.indexOf(end)];
  if (before < 0 || after < before) throw new Error("README.md has no place for the tables.");
  writeFileSync(readme, `${text.slice(0, before)}${begin}\n\n${result}\n\n${text.slice(after)}`);
}
