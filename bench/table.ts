import type { Measured, Plan, Row } from "./measure.ts";

/**
 * What was measured as a Markdown table, medians of the rounds. Each cost is divided by the first
 * row's in the same round, so that a slow machine affects neither side.
 */
export function tableOf(title: string, { connections, rows }: Measured, { rounds, requests }: Plan): string {
  const atATime = connections === 1 ? "one at a time" : `${connections} at a time`;
  return [
    `**${title}**, ${atATime}: ${rounds} rounds of ${requests} requests`,
    "",
    "| server | µs a request | times bare | middle half of the rounds | p50 ms | p99 ms | resident MB |",
    "| --- | ---: | ---: | --- | ---: | ---: | ---: |",
    ...rows.map((row) => lineOf(row, rows[0]!)),
  ].join("\n");
}

function lineOf({ name, rounds, residentMb }: Row, bare: Row): string {
  const ratios = rounds.map(({ cpuUs }, round) => cpuUs / bare.rounds[round]!.cpuUs);
  const median = (of: (round: Row["rounds"][number]) => number) => quantile(rounds.map(of), 0.5);
  const cells = [
    name,
    median(({ cpuUs }) => cpuUs).toFixed(1),
    quantile(ratios, 0.5).toFixed(2),
    `${quantile(ratios, 0.25).toFixed(2)} to ${quantile(ratios, 0.75).toFixed(2)}`,
    median(({ p50Ms }) => p50Ms).toFixed(2),
    median(({ p99Ms }) => p99Ms).toFixed(2),
    residentMb.toFixed(0),
  ];
  return `| ${cells.join(" | ")} |`;
}

function quantile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.round((values.length - 1) * share)] ?? Number.NaN;
}
