import type { Costs, Plan } from "./measure.ts";

/**
 * The costs as a Markdown table. Each cost is divided by the first subject's in the same round, so
 * that a slow machine affects neither side. The last column compares the fastest round of each, as
 * on a machine without other work.
 */
export function tableOf(title: string, costs: Costs, { rounds, load }: Plan): string {
  const lines = [
    `**${title}**: ${rounds} rounds of ${load.requests} requests, ${load.connections} at a time`,
    "",
    "| server | µs a request | times bare | middle half of the rounds | fastest round to fastest |",
    "| --- | ---: | ---: | --- | ---: |",
  ];
  const [bare = []] = costs.values();
  for (const [name, each] of costs) {
    const ratios = each.map((cost, round) => cost / (bare[round] ?? Number.NaN));
    const middle = `${quantile(ratios, 0.25).toFixed(2)} to ${quantile(ratios, 0.75).toFixed(2)}`;
    const fastest = (quantile(each, 0) / quantile(bare, 0)).toFixed(2);
    lines.push(
      `| ${name} | ${quantile(each, 0.5).toFixed(1)} | ${quantile(ratios, 0.5).toFixed(2)} | ${middle} | ${fastest} |`,
    );
  }
  return lines.join("\n");
}

function quantile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.round((values.length - 1) * share)] ?? Number.NaN;
}
