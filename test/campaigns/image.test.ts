import {
  chownSync,
  existsSync,
  globSync,
  lstatSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
} from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { figure } from "../harness/campaigns.ts";
import { repository, restRun, type Settings, statusOf } from "../harness/keyrun-process.ts";
import { createTempFolders } from "../harness/temp-folders.ts";
import { type BuiltImage, builderVersion, builtImage, imageMissing } from "./image/built-image.ts";
import { type Container, type ContainerOptions, startContainer } from "./image/container.ts";
import { type ContainerNetwork, openContainerNetwork } from "./image/container-network.ts";

const megabyte = 1024 * 1024;
/** Node alone takes 144 MB. */
const ownBytesMax = 190 * megabyte;
const readyMsMax = 120_000;
const missing = imageMissing();

const readJson = (path: string) => JSON.parse(readFileSync(path, "utf8"));

describe.skipIf(missing !== undefined)(`the image${missing ? ` (left out: ${missing})` : ""}`, () => {
  const folders = createTempFolders();
  let image: BuiltImage;
  let network: ContainerNetwork;

  beforeAll(async () => {
    image = await builtImage();
    network = await openContainerNetwork();
  }, 900_000);
  afterAll(async () => {
    await network?.close();
    folders.remove();
  });

  const inImage = (path: string) => join(image.rootfs, path);

  test("is small: Debian's slim base, Node, and a few megabytes of Keyrun", () => {
    figure("the image has", image.bytes / megabyte, "MB");
    figure("of which its base has", image.baseBytes / megabyte, "MB");
    expect(image.bytes - image.baseBytes).toBeLessThan(ownBytesMax);
    expect(image.bytes - image.baseBytes).toBeGreaterThan(100 * megabyte);
  });

  test("runs as a fixed user who is not root, and buildah starts it as that user", () => {
    expect(image.config.User).toBe("10001:10001");
    expect(image.ran).toEqual([
      "10001",
      `v${builderVersion()}`,
      readJson(join(repository, "package.json")).version,
    ]);
  });

  test("has the Node of its builder, which is Node 26, and no other", () => {
    expect(builderVersion()).toMatch(/^26\./);
    const nodes = filesIn(image.rootfs).filter((path) => path.endsWith("/node"));
    expect(nodes).toEqual([inImage("usr/local/bin/node")]);
  });

  test("holds the packages of the lock file that production needs: each of them, and no other", () => {
    const { packages } = readJson(join(repository, "package-lock.json"));
    const needed = Object.entries<LockedPackage>(packages)
      .filter(([, each]) => !each.dev && !each.devOptional)
      .filter(([, { cpu }]) => cpu === undefined || cpu.includes(process.arch))
      // Its Node is the builder's.
      .filter(([path]) => path.startsWith("node_modules/") && !path.startsWith("node_modules/node-linux-"))
      // One of this repository's own packages is a link to its folder.
      .map(([path, each]) => `${path} ${(each.link ? packages[each.resolved ?? ""] : each).version}`);
    expect(needed.length).toBeGreaterThan(50);
    expect(packagesIn(inImage("opt/keyrun"), "node_modules").sort()).toEqual(needed.sort());
  });

  test("holds the built screen, and of the repository only what a start reads", () => {
    expect(readdirSync(inImage("opt/keyrun")).sort()).toEqual([
      ...["bin", "gen", "keyrun", "node_modules", "package.json", "packages", "src", "web"],
    ]);
    expect(readdirSync(inImage("opt/keyrun/packages/transcode")).sort()).toEqual([
      ...["gen", "package.json", "src"],
    ]);
    expect(readdirSync(inImage("opt/keyrun/packages"))).toEqual(["transcode"]);
    expect(readdirSync(inImage("opt/keyrun/web"))).toEqual(["dist"]);
    const screen = ["index.html", "docs/api.html", "assets/*.js", "assets/*.css"];
    for (const path of screen) {
      expect(globSync(path, { cwd: inImage("opt/keyrun/web/dist") }), path).not.toEqual([]);
    }
  });

  test("holds no file that lay beside the sources, no secret of its build, and no .git", () => {
    const files = filesIn(image.rootfs).filter((path) => !/\/(etc|proc|sys|dev)\//.test(path));
    expect(files.length).toBeGreaterThan(2_000);
    const canary = Buffer.from(image.canary);
    expect(files.filter((path) => readFileSync(path).includes(canary))).toEqual([]);
    const named = filesIn(image.rootfs).map((path) => path.slice(image.rootfs.length));
    expect(
      named.filter((path) => /\/(\.git|\.env|\.npmrc|npmrc|npm-ca\.pem|\.npm)(\/|$)/.test(path)),
    ).toEqual([]);
    expect(JSON.stringify(image.config)).not.toContain(image.canary);
  });

  test("belongs to root, and its user can change nothing but the volume", () => {
    const own = ["opt/keyrun", "data"].map((path) => lstatSync(inImage(path)));
    expect(own.map(({ uid, mode }) => [uid, (mode & 0o777).toString(8)])).toEqual([
      [0, "755"],
      [10001, "700"],
    ]);
    const changeable = filesIn(inImage("opt")).filter((path) => {
      const { uid, mode } = lstatSync(path);
      return !lstatSync(path).isSymbolicLink() && (uid !== 0 || (mode & 0o022) !== 0);
    });
    expect(changeable).toEqual([]);
    expect(Object.keys(image.config.Volumes)).toEqual(["/data"]);
    expect(readlinkSync(inImage("usr/local/bin/keyrun"))).toBe("/opt/keyrun/keyrun");
  });

  /** Starts the image as an engine does: with its own user, entrypoint, environment and volume. */
  async function start(own: Partial<ContainerOptions> & { volume?: string; settings?: Settings } = {}) {
    const { volume = folders.create(), settings = {}, ...others } = own;
    const { User: user, Env, Entrypoint, Cmd, WorkingDir: workingDir } = image.config;
    const env = Object.fromEntries(Env.map((each) => each.split(/=(.*)/s).slice(0, 2)));
    // A new volume gets the owner and the rights of the folder in the image.
    chownSync(volume, 10001, 10001);
    const container = await startContainer({
      ...{ name: "keyrun", network, rootfs: image.rootfs, folder: join(folders.create(), "container") },
      ...{ user, workingDir, command: [...Entrypoint, ...Cmd], readOnly: true },
      env: { ...env, ...settings },
      binds: [{ source: volume, target: "/data" }],
      ...others,
    });
    onTestFinished(container.kill);
    return container;
  }

  const publicUrl = ({ address }: Container) => `http://${address}:8080`;

  async function ready(container: Container): Promise<void> {
    const end = performance.now() + readyMsMax;
    while ((await statusOf(`${publicUrl(container)}/readyz`)) !== 200) {
      if (container.isOver() || performance.now() > end) throw new Error(container.output());
      await pause(50);
    }
  }

  async function makeKey(container: Container): Promise<string> {
    const made = await container.exec(["keyrun", "keys", "create", "--team", "demo"]);
    expect(made.code, made.stderr).toBe(0);
    return made.stdout.trim();
  }

  const healthOf = (container: Container, before: readonly string[] = []) =>
    container.exec([...before, ...image.config.Healthcheck.Test.slice(1)]);

  test("serves on a read-only root: a key, a run, a health check without curl, and data on the volume", async () => {
    const volume = folders.create();
    const container = await start({ volume });
    await ready(container);
    // The root is read-only indeed.
    expect((await container.exec(["touch", "/opt/keyrun/x"])).stderr).toContain("Read-only file system");

    const value = await makeKey(container);
    const run = await restRun(publicUrl(container), { value, text: "in a container" });
    expect(run.status, run.body).toBe(200);
    expect(JSON.parse(run.body)).toMatchObject({ appId: "echo", text: "in a container" });

    expect(existsSync(inImage("usr/bin/curl"))).toBe(false);
    expect(await healthOf(container)).toEqual({ code: 0, stdout: "", stderr: "" });
    const wrong = await healthOf(container, ["env", "KEYRUN_PORT=8082"]);
    expect(wrong).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("does not answer (ECONNREFUSED)"),
    });

    container.signal("SIGTERM");
    expect(await container.exited).toEqual({ code: 0, signal: null });
    const files = readdirSync(volume).sort();
    expect(files).toEqual(expect.arrayContaining(["keyrun.db", "secret", "service-token"]));
    expect(files.map((name) => lstatSync(join(volume, name)).uid)).toEqual(files.map(() => 10001));

    // Another container on the volume goes on where this one ended.
    const next = await start({ volume });
    await ready(next);
    expect((await restRun(publicUrl(next), { value })).status).toBe(200);
  });

  test("writes nothing outside of its volume where the root could be written", async () => {
    const container = await start({ readOnly: false });
    await ready(container);
    expect((await restRun(publicUrl(container), { value: await makeKey(container) })).status).toBe(200);
    expect((await healthOf(container)).code).toBe(0);
    expect(container.written()).toEqual([]);
    // What is written there is seen.
    await container.exec(["touch", "/tmp/x"]);
    expect(container.written()).toEqual(["/tmp", "/tmp/x"]);
  });

  test("Keyrun is process 1, gets SIGTERM itself, and drains: a running request ends well", async () => {
    const app = createServer((request, response) => {
      request
        .resume()
        .on("end", () =>
          arrived.resolve(() =>
            response.writeHead(200, { "Content-Type": "application/json" }).end('{"text":"late"}'),
          ),
        );
    });
    const arrived = Promise.withResolvers<() => void>();
    app.listen(0, network.hostAddress);
    onTestFinished(() => void app.close());
    await new Promise((resolve) => app.once("listening", resolve));
    const { port } = app.address() as { port: number };

    const container = await start();
    await ready(container);
    expect(readlinkSync(`/proc/${container.pid()}/exe`)).toMatch(/\/usr\/local\/bin\/node$/);
    const url = `http://${network.hostAddress}:${port}/run`;
    const made = await container.exec([
      "keyrun",
      "apps",
      "create",
      "slow",
      "--backend",
      "http",
      "--url",
      url,
      "--team",
      "demo",
    ]);
    expect(made).toMatchObject({ code: 0 });
    const run = restRun(publicUrl(container), { value: await makeKey(container), appId: "slow" });
    const answer = await arrived.promise;
    container.signal("SIGTERM");
    while (!container.output().includes('"draining"')) await pause(10);
    expect(container.isOver()).toBe(false);
    answer();
    expect((await run).status).toBe(200);
    expect(await container.exited).toEqual({ code: 0, signal: null });
    expect(container.output()).toContain('"stopped"');
  });

  test.each([
    { what: "a start with an unknown setting", settings: { KEYRUN_PROT: "1" }, args: ["serve"], code: 1 },
    { what: "a command that is used wrongly", settings: {}, args: ["keys", "list", "--no"], code: 2 },
    { what: "a command that succeeds", settings: {}, args: ["--help"], code: 0 },
  ])("the container ends with the status of Keyrun: $what", async ({ settings, args, code }) => {
    const container = await start({ settings, command: [...image.config.Entrypoint, ...args] });
    expect(await container.exited, container.output()).toEqual({ code, signal: null });
  });

  test("a volume that its user can't write refuses the start, and says so", async () => {
    const volume = folders.create();
    const container = await start({ volume, user: "10002:10002" });
    expect(await container.exited).toMatchObject({ code: 1 });
    expect(container.output()).toContain("The data folder /data can't be");
  });
});

interface LockedPackage {
  readonly version: string;
  readonly dev?: boolean;
  readonly devOptional?: boolean;
  readonly cpu?: readonly string[];
  readonly link?: boolean;
  /** The folder that a link leads to. */
  readonly resolved?: string;
}

/** The packages below a folder of packages, each as its path and version. */
function packagesIn(root: string, below: string): string[] {
  return readdirSync(join(root, below))
    .filter((name) => !name.startsWith("."))
    .flatMap((name) => {
      const path = `${below}/${name}`;
      if (name.startsWith("@")) return packagesIn(root, path);
      const { version } = readJson(join(root, path, "package.json"));
      const inner = existsSync(join(root, path, "node_modules"))
        ? packagesIn(root, `${path}/node_modules`)
        : [];
      return [`${path} ${version}`, ...inner];
    });
}

/** Not what an absolute link of the image leads to on this machine. */
function filesIn(folder: string): string[] {
  const root = realpathSync(folder);
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && realpathSync(entry.parentPath).startsWith(root))
    .map(({ parentPath, name }) => join(parentPath, name));
}
