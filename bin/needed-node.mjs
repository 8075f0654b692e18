// Which Node Keyrun runs on, and what is said where there is none. Plain JavaScript, as old Nodes must be able to read it.

const [major, minor] = process.versions.node.split(".").map(Number);

/** Whether this Node is new enough. */
export const isNewEnough = major > 24 || (major === 24 && minor >= 15);

/** Ends the process in a sentence, where no Node that is new enough is to be had. */
export function refuseThisNode() {
  stop(
    `this is Node ${process.versions.node}. Install Node 24, or run \`npm ci\` again, which on Linux brings it.`,
  );
}

export function stop(why) {
  console.error(`Keyrun needs Node 24.15 or newer, and ${why}`);
  process.exit(1);
}
