import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { keyrunCommand, repository, serveKeyrun } from "../harness/keyrun-process.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

const { version }: { version: string } = JSON.parse(readFileSync(join(repository, "package.json"), "utf8"));
const folders = createTempFolders();
afterAll(() => folders.remove());

test("the command, the OpenAPI document and the metrics say the version of package.json", async () => {
  expect(version).toMatch(/^\d+\.\d+\.\d+/);
  const keyrun = await serveKeyrun(folders.create());
  onTestFinished(() => keyrun.kill("SIGKILL"));
  const { stdout } = await keyrunCommand({}, ["--version"]);
  expect(stdout).toBe(`${version}\n`);
  const openapi = await fetch(`${keyrun.publicUrl}/openapi.json`);
  expect(await openapi.json()).toMatchObject({ info: { version } });
  const authorization = `Bearer ${keyrun.serviceToken()}`;
  const metrics = await fetch(`${keyrun.internalUrl}/metrics`, { headers: { authorization } });
  expect(await metrics.text()).toContain(
    `keyrun_build_info{version="${version}",node="${process.versions.node}"} 1\n`,
  );
});

test("every tag of the image is the version of package.json", () => {
  const files = ["compose.yaml", "docs/*.md", "deploy/**/*.yaml"].flatMap((glob) =>
    globSync(glob, { cwd: repository }),
  );
  const tags = files.flatMap((file) =>
    [...readFileSync(join(repository, file), "utf8").matchAll(/\bkeyrun:(\d[\w.-]*)/g)].map(([, tag]) => tag),
  );
  expect(tags.length).toBeGreaterThan(2);
  expect([...new Set(tags)]).toEqual([version]);
});
