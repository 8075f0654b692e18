import { readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { parseArgs } from "node:util";
import { measure, type Plan } from "./measure.ts";
import { questions } from "./questions.ts";
import { tableOf } from "./table.ts";

// Measures the processor time of a request on each server, all in one run; see README.md.
const { values } = parseArgs({
  options: {
    only: { type: "string" },
    rounds: { type: "string", default: "21" },
    connections: { type: "string", default: "16" },
    write: { type: "boolean", default: false },
  },
});
const plan: Plan = {
  rounds: wholeNumber("rounds"),
  load: { connections: wholeNumber("connections"), requests: 2_000 },
  warmUp: { connections: 16, requests: 30_000 },
};
const asked = questions.filter(({ name }) => values.only === undefined || values.only === name);
if (asked.length === 0) throw new Error(`--only takes ${questions.map(({ name }) => name).join(" or ")}.`);

const machine = `Node ${process.versions.node}, ${cpus().length} × ${cpus()[0]?.model.trim()}`;
const tables: string[] = [];
for (const question of asked) {
  const table = tableOf(question.title, await measure(question, plan), plan);
  console.log(`\n${table}`);
  tables.push(table);
}
console.log(`\n${machine}`);
if (values.write) write(new URL("./README.md", import.meta.url), [...tables, machine].join("\n\n"));

function wholeNumber(name: "rounds" | "connections"): number {
  const number = Number(values[name]);
  if (!Number.isInteger(number) || number < 1) throw new Error(`--${name} takes a whole number from 1.`);
  return number;
}

function write(readme: URL, result: string): void {
  const [begin, end] = ["<!-- printed by `npm run bench -- --write` -->", "<!-- end -->"];
  const text = readFileSync(readme, "utf8");
  const [before, after] = [text.indexOf(begin), text.indexOf(end)];
  if (before < 0 || after < before) throw new Error("README.md has no place for the tables.");
  writeFileSync(readme, `${text.slice(0, before)}${begin}\n\n${result}\n\n${text.slice(after)}`);
}
