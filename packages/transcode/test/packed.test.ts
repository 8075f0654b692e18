import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";

const home = fileURLToPath(new URL("..", import.meta.url));
const modules = fileURLToPath(new URL("../../../node_modules", import.meta.url));
const env = { ...process.env, PATH: `${join(modules, ".bin")}:${process.env.PATH}` };
const run = (program: string, args: readonly string[], cwd: string) =>
  promisify(execFile)(program, args, { cwd, env });

/** A stranger's project: the example, with the packed package and its peers from local folders. */
let project: string;

beforeAll(async () => {
  project = await mkdtemp(join(tmpdir(), "stranger-"));
  await run("npm", ["pack", "--pack-destination", project], home);
  const tarball = (await readdir(project)).find((name) => name.endsWith(".tgz"));
  await cp(join(home, "examples/library"), project, { recursive: true });
  await cp(join(home, "../../proto/google/api"), join(project, "proto/google/api"), { recursive: true });
  const local = [
    "@bufbuild/protobuf",
    "@connectrpc/connect",
    "@connectrpc/connect-node",
    "@types/node",
    "undici-types",
  ];
  const peers = local.map((name) => [name, `file:${join(modules, name)}`]);
  const dependencies = { ...Object.fromEntries(peers), "connect-transcode": `file:${tarball}` };
  await writeFile(join(project, "package.json"), JSON.stringify({ type: "module", dependencies }));
  // Copies, not links, so that nothing is found beside what the project has installed.
  await run("npm", ["install", "--offline", "--install-links", "--ignore-scripts", "--no-audit"], project);
  await run("buf", ["generate"], project);
});

afterAll(() => rm(project, { recursive: true, force: true }));

test("in a stranger's project the packed package serves a Connect router as REST, by the lines of its README", async () => {
  const readme = await readFile(join(home, "README.md"), "utf8");
  expect(readme).toContain(await readFile(join(project, "server.js"), "utf8"));
  const [, service] =
    /(service Library \{.*?\n\})/s.exec(await readFile(join(project, "proto/library.proto"), "utf8")) ?? [];
  expect(readme).toContain(service);

  const port = await freePort();
  const file = join(project, "server.js");
  await writeFile(file, (await readFile(file, "utf8")).replace("8080", `${port}`));
  const server = spawn(process.execPath, ["server.js"], {
    cwd: project,
    stdio: ["ignore", "ignore", "inherit"],
  });
  const exited = once(server, "exit");
  try {
    await answering(`http://127.0.0.1:${port}`, exited);
    const [, session = ""] = /```console\n(.*?)```/s.exec(readme) ?? [];
    const calls = session.split(/^\$ /m).slice(1);
    expect(calls.length).toBeGreaterThan(4);
    for (const call of calls) {
      const [command = "", ...answer] = call.trimEnd().split("\n");
      const { stdout } = await run(
        "sh",
        ["-c", command.replace("localhost:8080", `127.0.0.1:${port}`)],
        project,
      );
      expect([command, ...stdout.trimEnd().split("\n")]).toEqual([command, ...answer]);
    }
  } finally {
    server.kill();
    await exited;
  }
});

test("its types fit Connect's transports, in the strictest project", async () => {
  const lines = [
    'import { createRouterTransport } from "@connectrpc/connect";',
    'import { createGrpcTransport } from "@connectrpc/connect-node";',
    'import { createFetchHandler, type FetchHandler } from "connect-transcode/fetch-handler";',
    'import { createNodeListener } from "connect-transcode/node-listener";',
    'import { createTranscoder } from "connect-transcode/transcoder";',
    "const transports = [createRouterTransport(() => {}), createGrpcTransport({ baseUrl: '' })];",
    "export const handlers: FetchHandler[] = transports.map((transport) => createFetchHandler({ services: [], transport }));",
    "export const bindings = createTranscoder([]).bindings.map(({ method }) => method.name);",
    "export const listeners = handlers.map((handler) => createNodeListener(handler, (_, { end }) => end()));",
    "// @ts-expect-error",
    "createFetchHandler({ services: [], transport: {} });",
  ];
  await writeFile(join(project, "types.ts"), lines.join("\n"));
  const options = [
    "--noEmit",
    "--strict",
    "--exactOptionalPropertyTypes",
    "--module",
    "nodenext",
    "--target",
    "es2024",
  ];
  await run("tsc", [...options, "--types", "node", "types.ts"], project);
});

/** Returns when the server answers. Throws if it has exited instead. */
async function answering(url: string, exited: Promise<unknown>): Promise<void> {
  const end = exited.then(() => Promise.reject(new Error("The server has exited.")));
  const answers = expect
    .poll(() =>
      fetch(url).then(
        ({ status }) => status,
        () => 0,
      ),
    )
    .toBe(404);
  await Promise.race([answers, end]);
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (typeof address !== "object" || address === null) throw new Error("no port");
  return address.port;
}
