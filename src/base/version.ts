import { readFileSync } from "node:fs";

/** Returns the version of Keyrun, which stands in package.json alone. */
export function readVersion(): string {
  const { version }: { version: string } = JSON.parse(
    readFileSync(new URL("../../package.json", import.meta.url), "utf8"),
  );
  return version;
}
