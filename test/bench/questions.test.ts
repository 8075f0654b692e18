import { readdirSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { measure } from "../../bench/measure.ts";
import { questions } from "../../bench/questions.ts";
import { tableOf } from "../../bench/table.ts";

const few = { connections: 2, requests: 10 };
const plan = { rounds: 2, load: few, warmUp: few };

describe.each(questions)("$name", (question) => {
  test("every server starts, does the work it is compared by, and is in the table with its cost", async () => {
    const costs = await measure(question, plan);
    expect([...costs.keys()]).toEqual(question.subjects);
    for (const each of costs.values()) {
      expect(each).toHaveLength(plan.rounds);
      expect(each.every((cost) => cost > 0)).toBe(true);
    }
    const rows = tableOf(question.title, costs, plan).split("\n").slice(4);
    expect(rows.map((row) => row.split(" ")[1])).toEqual(question.subjects);
    expect(rows[0]).toMatch(/\| 1\.00 \| 1\.00 to 1\.00 \| 1\.00 \|$/);
  });
});

test("every server that there is has its place in a table", () => {
  const files = readdirSync(new URL("../../bench/subjects", import.meta.url));
  const asked = new Set(questions.flatMap(({ subjects }) => subjects.map((name) => `${name}.ts`)));
  expect([...asked].sort()).toEqual(files.sort());
});

test("a multiple is taken within its round, so that what slows all servers counts for none", () => {
  const costs = new Map([
    ["bare", [10, 100, 10]],
    ["other", [20, 200, 40]],
  ]);
  const table = tableOf("T", costs, { ...plan, rounds: 3 });
  expect(table.split("\n").at(-1)).toBe("| other | 40.0 | 2.00 | 2.00 to 4.00 | 2.00 |");
});
