import { execFileSync } from "node:child_process";
import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../../", import.meta.url));
const read = (path: string) => readFileSync(join(root, path), "utf8");
const tracked = execFileSync("git", ["ls-files", "-z"], { cwd: root, encoding: "utf8" })
  .split("\0")
  // A file that is deleted and not yet committed is still listed.
  .filter((path) => path !== "" && existsSync(join(root, path)));

test("every dependency is pinned to one version, because an old npm would choose another", () => {
  const { dependencies, devDependencies, optionalDependencies } = JSON.parse(read("package.json"));
  const versions = Object.entries<string>({ ...dependencies, ...devDependencies, ...optionalDependencies });
  expect(versions.length).toBeGreaterThan(30);
  expect(versions.filter(([, version]) => !/^\d+\.\d+\.\d+$/.test(version))).toEqual([]);
});

test("the changelog has the version of package.json, as released or as still to be", () => {
  const { version } = JSON.parse(read("package.json"));
  const changelog = read("CHANGELOG.md");
  const unreleased = `There is no tagged release yet. The version in \`package.json\` is ${version}.`;
  const isNamed =
    changelog.includes(`\n## [${version}] - `) || changelog.replaceAll("\n", " ").includes(unreleased);
  expect(isNamed).toBe(true);
});

test("every tag of the image, and the chart, has the version of package.json", () => {
  const files = ["compose.yaml", "docs/*.md", "deploy/**/*.yaml"].flatMap((glob) =>
    globSync(glob, { cwd: root }),
  );
  const tags = files.flatMap((file) =>
    [...read(file).matchAll(/\bkeyrun:(\d[\w.-]*)/g)].map(([, tag]) => tag),
  );
  expect(tags.length).toBeGreaterThan(2);
  for (const [, version] of read("deploy/helm/Chart.yaml").matchAll(/^(?:v|appV)ersion: (.*)$/gm))
    tags.push(version);
  expect([...new Set(tags)]).toEqual([JSON.parse(read("package.json")).version]);
});

test("the lock file names no registry, so that it installs from any", () => {
  const { packages } = JSON.parse(read("package-lock.json"));
  const all = Object.entries<{ resolved?: string; integrity?: string; link?: true }>(packages);
  // The packages of this repository are folders of its own, and links to them.
  const entries = all.filter(([name, { link }]) => !link && !name.startsWith("packages/"));
  expect(entries.length).toBeGreaterThan(100);
  expect(entries.filter(([, { resolved }]) => resolved !== undefined)).toEqual([]);
  expect(entries.filter(([name, { integrity }]) => name !== "" && !integrity)).toEqual([]);
});

test("no file holds a path or a registry of the machine it was written on", () => {
  // Made from parts, so that this file does not contain them itself.
  const folders = ["work", "root", "home/\\w+", "Users/\\w+"].map(
    (name) => `(?:(?<![\\w.}/-])|file://)/${name}/`,
  );
  const hosts = ["registry\\.[a-z-]+\\.[a-z]{2,}", "artifact" + "ory", "verd" + "accio", "good" + "proxy"];
  const ours = new RegExp([...folders, ...hosts].join("|"), "i");
  for (const before of ["see ", "file://"]) expect(`${before}/ho${"me/ada/x"}`).toMatch(ours);
  expect(tracked.length).toBeGreaterThan(200);
  const found = tracked.flatMap((path) => {
    const line = read(path)
      .split("\n")
      .find((text) => ours.test(text));
    return line === undefined ? [] : [`${path}: ${line.slice(0, 200)}`];
  });
  expect(found).toEqual([]);
});

test("the packages are for others too: none says a word of Keyrun", () => {
  const own = tracked.filter((path) => path.startsWith("packages/"));
  expect(own.length).toBeGreaterThan(20);
  expect(own.filter((path) => /keyrun/i.test(`${path} ${read(path)}`))).toEqual([]);
});

test("vendored protos keep their licence", () => {
  const vendored = tracked.filter((path) => /^proto\/(google|grpc)\/.*\.proto$/.test(path));
  expect(vendored.length).toBeGreaterThan(4);
  for (const path of vendored) expect(read(path)).toContain("Licensed under the Apache License, Version 2.0");
  for (const owner of ["google", "grpc"]) expect(read(`proto/${owner}/LICENSE`)).toContain("Version 2.0");
});
