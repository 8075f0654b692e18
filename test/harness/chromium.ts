import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/**
 * The browser to test in: `KEYRUN_TEST_CHROMIUM`, or the first on the path; undefined without one.
 */
export function findChromium(env: NodeJS.ProcessEnv): string | undefined {
  if (env.KEYRUN_TEST_CHROMIUM) return env.KEYRUN_TEST_CHROMIUM;
  const folders = (env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  return names.flatMap((name) => folders.map((folder) => join(folder, name))).find(isProgram);
}

const names = ["chromium", "chromium-browser", "google-chrome"];

/** Only the page under test may use the network. Nothing is shown on the machine's screen. */
export const chromiumArgs = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
