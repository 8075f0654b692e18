import { spawnSync } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { callsIn, type Place, programFor, programIn } from "#src/base/program.ts";
import { tempFolders } from "../harness/closed-at-end.ts";

const folders = tempFolders();

const program = "/opt/keyrun/keyrun";

test("the command is short in Keyrun's own folder, and elsewhere whole paths, each of which a shell reads as one word", () => {
  const inFolder = (cwd: string, dataDir = "data") => programFor(dataDir, { cwd, env: {} }, program);
  expect(inFolder("/opt/keyrun")).toBe("./keyrun");
  expect(inFolder("/opt/keyrun/", "/opt/keyrun/data/")).toBe("./keyrun");
  expect(inFolder("/opt/keyrun", "data.second")).toBe("KEYRUN_DATA_DIR=/opt/keyrun/data.second ./keyrun");
  expect(inFolder("/srv/keyrun")).toBe("KEYRUN_DATA_DIR=/srv/keyrun/data /opt/keyrun/keyrun");
  for (const root of ["/opt/my keyrun", "/opt/ada's $HOME", "/opt/a;b"]) {
    const command = programFor(root, { cwd: "/", env: {} }, `${root}/keyrun`);
    const said = spawnSync("sh", ["-c", `printf '%s' ${command}`], { encoding: "utf8" }).stdout;
    expect(said).toBe(`KEYRUN_DATA_DIR=${root}${root}/keyrun`);
  }
});

test("where a shell finds this very program by its name, it is called by that", () => {
  const [installed, bin, others] = [folders.create(), folders.create(), folders.create()];
  const path = join(installed, "keyrun");
  writeFileSync(path, "");
  symlinkSync(path, join(bin, "keyrun"));
  mkdirSync(join(others, "bin"));
  writeFileSync(join(others, "bin", "keyrun"), "");
  const called = (env: Place["env"]) => programIn({ cwd: "/", env }, path);
  expect(called({ PATH: `/nowhere:${bin}` })).toBe("keyrun");
  // The name is another program's.
  expect(called({ PATH: `${others}/bin:${bin}` })).toBe(path);
  expect(called({ PATH: "/nowhere" })).toBe(path);
  expect(called({})).toBe(path);
  // npx has put it there for its own child alone.
  expect(called({ PATH: bin, npm_command: "exec" })).toBe(path);
  expect(programFor("data", { cwd: "/srv", env: { PATH: bin } }, path)).toBe(
    "KEYRUN_DATA_DIR=/srv/data keyrun",
  );
});

test("a hint repeats the data folder that its command was given, and starts a server as the place allows", () => {
  const at = (cwd: string, KEYRUN_DATA_DIR?: string) => callsIn({ cwd, env: { KEYRUN_DATA_DIR } }, program);
  expect(at("/opt/keyrun")).toEqual({ program: "./keyrun", start: "npm start" });
  expect(at("/opt/keyrun", "my data")).toEqual({
    program: "KEYRUN_DATA_DIR='my data' ./keyrun",
    start: "KEYRUN_DATA_DIR='my data' npm start",
  });
  expect(at("/srv")).toEqual({ program, start: `${program} serve` });
  expect(at("/srv", "/data")).toEqual({
    program: `KEYRUN_DATA_DIR=/data ${program}`,
    start: `KEYRUN_DATA_DIR=/data ${program} serve`,
  });
});
