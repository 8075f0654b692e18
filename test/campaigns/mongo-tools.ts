import { spawnSync } from "node:child_process";
import { buildGoPrograms } from "../harness/built-program.ts";

const programs = {
  mongodump: "github.com/mongodb/mongo-tools/mongodump/main",
  mongorestore: "github.com/mongodb/mongo-tools/mongorestore/main",
};

/** Where MongoDB's own tools are on this machine, or the reason why they are not. */
export type MongoTools =
  /** Empty where they are on the PATH. */
  { readonly folder: string } | { readonly missing: string };

/** `mongodump` and `mongorestore` if installed, else built by Go, once, in half a minute. */
export function mongoTools(): MongoTools {
  if (Object.keys(programs).every((program) => runs(program, "--version"))) return { folder: "" };
  if (!runs("go", "version")) return { missing: "neither mongodump nor Go is installed" };
  const folder = buildGoPrograms({
    folder: "mongo-tools",
    sources: ["go.mod", "go.sum"],
    programs,
  });
  return folder === undefined ? { missing: "mongodump could not be built" } : { folder };
}

function runs(program: string, argument: string): boolean {
  return spawnSync(program, [argument], { stdio: "ignore" }).status === 0;
}
