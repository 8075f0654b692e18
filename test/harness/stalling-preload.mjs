// See stall-on-signal.ts.
import { existsSync, writeFileSync } from "node:fs";

const hold = new URL(import.meta.url).searchParams.get("hold") ?? "";
const sleeping = new Int32Array(new SharedArrayBuffer(4));

process.on("SIGUSR2", () => {
  writeFileSync(`${hold}.begun`, "");
  while (existsSync(hold)) Atomics.wait(sleeping, 0, 0, 5);
});
