// The Node that Keyrun needs, and the error message for an older one. Plain JavaScript, because an
// old Node must be able to read it.
import { readFileSync } from "node:fs";

const { engines } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));

export const leastNode = engines.node.replace(">=", "");

export function isNewEnough(version) {
  const [least, given] = [leastNode, version].map((text) => text.split(".").map(Number));
  return given[0] > least[0] || (given[0] === least[0] && given[1] >= least[1]);
}

/** Ends the process with a sentence that says which Node is needed. */
export function refuseThisNode() {
  const needed = `Keyrun needs Node ${leastNode} or newer, and this is Node ${process.versions.node}.`;
  console.error(`${needed} Install Node 26, or run \`npm ci\` again, which on Linux brings Node 24.`);
  process.exit(1);
}
