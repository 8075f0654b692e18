import { spawnSync } from "node:child_process";
import { describe, inject } from "vitest";

declare module "vitest" {
  interface ProvidedContext {
    /** Empty without a MongoDB server: in the tier `quick`, and where none can be had. */
    mongodbUri: string;
    /** The tier `quick` is tried with Node, npm and git alone. */
    isQuick: boolean;
  }
}

/** The programs of these that the PATH lacks, for `describeWith`; undefined if none. */
export function programsMissing(...programs: readonly string[]): string | undefined {
  const lacks = (name: string) =>
    spawnSync("sh", ["-c", `command -v ${name}`], { stdio: "ignore" }).status !== 0;
  const lacking = programs.filter(lacks);
  return lacking.length > 0 ? `not installed: ${lacking.join(", ")}` : undefined;
}

/** The URI of the test run's MongoDB server; empty if there is none. */
export const mongodbUri: string = inject("mongodbUri");

/** What a machine lacks for the tests on MongoDB; undefined if nothing. */
export const mongodbMissing: string | undefined =
  mongodbUri === "" ? "there is no MongoDB server" : undefined;

/** What a test lacks that makes files of another user; undefined if nothing. */
export const rootMissing: string | undefined =
  process.geteuid?.() === 0 ? undefined : "only root can make another user's files";

/**
 * `describe` for tests that need more than Node, npm and git. In the tier `quick` they do not
 * exist; elsewhere they are skipped where `missing` says what the machine lacks.
 */
export function describeWith(missing: string | undefined): (name: string, suite: () => void) => void {
  return (name, suite) => {
    if (inject("isQuick")) return;
    if (missing === undefined) describe(name, suite);
    else describe.skip(`${name} (left out: ${missing})`, suite);
  };
}

/** The store on which a file of two tiers is tried: MongoDB, or in `quick` the embedded one. */
export const storesOfTier = <T>(embedded: T, mongodb: T): T[] => [mongodbUri === "" ? embedded : mongodb];
