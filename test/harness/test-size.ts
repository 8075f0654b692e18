/**
 * How often a test tries its attack: the number in the environment variable, or the usual one,
 * which suits continuous integration. CONTRIBUTING.md lists the variables.
 */
export function testSize(name: `KEYRUN_TEST_${string}`, usual: number): number {
  const given = process.env[name];
  if (given === undefined) return usual;
  const size = Number(given);
  if (!Number.isInteger(size) || size < 1) throw new Error(`${name} must be a whole number above 0.`);
  return size;
}

/** Prints the figures of a test, as docs/reliability.md repeats them. */
export function printFigures(words: string): void {
  process.stderr.write(`${words}\n`);
}

/** The middle and the largest of some times, in words. */
export function timesInWords(ms: readonly number[]): string {
  const sorted = [...ms].sort((a, b) => a - b);
  const [middle = 0, largest = 0] = [sorted[Math.floor(sorted.length / 2)], sorted.at(-1)];
  return `median ${Math.round(middle)} ms, longest ${Math.round(largest)} ms`;
}
