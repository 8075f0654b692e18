import { execFile, spawnSync } from "node:child_process";
import { mkdirSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { createResolveHost, type NameFilePaths } from "#src/run/resolve-host.ts";
import { startNameServer } from "../harness/name-server.ts";
import { describeWith } from "../harness/needs.ts";

const here = [{ address: "127.0.0.1", ttlS: 30 }];

function resolver(files: NameFilePaths) {
  const resolve = createResolveHost(files);
  return async (host: string) => {
    const { addresses, keptMs } = await resolve(host, new AbortController().signal);
    return { addresses: addresses.map(({ address }) => address), keptMs };
  };
}

test("/etc/hosts comes first, with all addresses of a name, in any case, and nothing is asked", async () => {
  await using server = await startNameServer({ "app.example": here });
  const hosts = "# ours\n192.0.2.1 first App.Example # alias\n::1\tapp.example\nnonsense app.example\n";
  const resolve = resolver(server.files({ hosts }));
  for (const name of ["app.example", "APP.example", "app.example."]) {
    expect(await resolve(name)).toEqual({ addresses: ["192.0.2.1", "::1"], keptMs: undefined });
  }
  expect(await resolve("first")).toMatchObject({ addresses: ["192.0.2.1"] });
  expect(server.asked).toEqual([]);
});

test("localhost is this machine, even if /etc/hosts does not have it", async () => {
  await using server = await startNameServer();
  const resolve = resolver(server.files());
  for (const name of ["localhost", "LOCALHOST", "app.localhost"]) {
    expect(await resolve(name)).toMatchObject({ addresses: ["127.0.0.1", "::1"] });
  }
  const own = resolver(server.files({ hosts: "127.0.0.1 localhost" }));
  expect(await own("localhost")).toMatchObject({ addresses: ["127.0.0.1"] });
  expect(server.asked).toEqual([]);
});

test("a name server's addresses come with the shortest time that their records say", async () => {
  const two = [
    { address: "192.0.2.1", ttlS: 60 },
    { address: "192.0.2.2", ttlS: 7 },
  ];
  await using server = await startNameServer({ "app.example": two });
  const resolve = resolver(server.files());
  expect(await resolve("app.example")).toEqual({ addresses: ["192.0.2.1", "192.0.2.2"], keptMs: 7_000 });
});

test("search domains are tried as resolv.conf says: first for short names, last for long ones", async () => {
  await using server = await startNameServer({ "app.two.example": here, "a.b.two.example": here });
  const resolve = resolver(server.files({ resolver: "search one.example two.example\noptions ndots:1\n" }));
  expect(await resolve("app")).toMatchObject({ addresses: ["127.0.0.1"] });
  expect(await resolve("a.b")).toMatchObject({ addresses: ["127.0.0.1"] });
  expect(server.asked).toEqual([
    "app.one.example",
    "app.two.example",
    "a.b",
    "a.b.one.example",
    "a.b.two.example",
  ]);
  await expect(resolve("app.")).rejects.toThrow(/ENOTFOUND app/);
  expect(server.asked.at(-1)).toBe("app");
});

test("ndots decides which names are short, as in a cluster", async () => {
  await using server = await startNameServer({ "app.team.svc.example": here });
  const resolve = resolver(server.files({ resolver: "search svc.example\noptions timeout:1 ndots:5\n" }));
  expect(await resolve("app.team")).toMatchObject({ addresses: ["127.0.0.1"] });
  expect(server.asked).toEqual(["app.team.svc.example"]);
});

test("a search domain whose server refuses the name does not hide the name itself", async () => {
  await using server = await startNameServer({ "a.b": here, "a.b.corp": "refused" });
  const resolve = resolver(server.files({ resolver: "search corp\noptions ndots:5\n" }));
  expect(await resolve("a.b")).toMatchObject({ addresses: ["127.0.0.1"] });
  expect(server.asked).toContain("a.b.corp");
});

test("a name server whose line is not valid is ignored", async () => {
  await using server = await startNameServer({ "app.example": here });
  const wrong = ["127.0.0.1:99999", "999.1.1.1:53", "[:::]:5", "[127.0.0.1]:53"];
  const resolve = resolver(server.files({ resolver: wrong.map((each) => `nameserver ${each}\n`).join("") }));
  expect(await resolve("app.example")).toMatchObject({ addresses: ["127.0.0.1"] });
});

test("a file that could not be read is read again by the next look-up", async () => {
  await using server = await startNameServer();
  const files = server.files();
  // A folder in its place can be looked at, and not be read.
  rmSync(files.hosts);
  mkdirSync(files.hosts);
  const resolve = resolver(files);
  await expect(resolve("app.example")).rejects.toThrow(/ENOTFOUND app\.example/);
  rmdirSync(files.hosts);
  writeFileSync(files.hosts, "192.0.2.1 app.example\n");
  expect(await resolve("app.example")).toMatchObject({ addresses: ["192.0.2.1"] });
  rmSync(files.hosts);
  mkdirSync(files.hosts);
  expect(await resolve("app.example")).toMatchObject({ addresses: ["192.0.2.1"] });
});

test("a change of the files is seen by the next look-up", async () => {
  await using one = await startNameServer();
  await using other = await startNameServer({ "app.example": here });
  const files = one.files();
  const resolve = resolver(files);
  await expect(resolve("app.example")).rejects.toThrow(/ENOTFOUND app\.example/);
  const { resolver: changed } = other.files({ resolver: "# another size\n" });
  const unread = resolver({ hosts: files.hosts, resolver: changed });
  expect(await unread("app.example")).toMatchObject({ addresses: ["127.0.0.1"] });
  writeFileSync(files.hosts, "192.0.2.9 app.example\n");
  expect(await resolve("app.example")).toMatchObject({ addresses: ["192.0.2.9"] });
});

test("without any of the files, localhost is still found", async () => {
  const resolve = resolver({ hosts: "/nowhere/hosts", resolver: "/nowhere/resolv.conf" });
  expect(await resolve("localhost")).toMatchObject({ addresses: ["127.0.0.1", "::1"] });
});

const hasStrace = spawnSync("strace", ["--version"], { stdio: "ignore" }).status === 0;

describeWith(hasStrace ? undefined : "there is no strace")(
  "where the system does not say which interfaces it has",
  () => {
    test("a name is found", async () => {
      await using server = await startNameServer({ "app.example": here });
      const { hosts, resolver: resolv } = server.files();
      const program = fileURLToPath(new URL("./resolve-once.ts", import.meta.url));
      // Only the list of interfaces needs `bind` in that program: it is asked for by netlink.
      const { stdout } = await promisify(execFile)("strace", [
        ...[
          "--follow-forks",
          "-qq",
          "--output=/dev/null",
          "--trace=bind",
          "--inject=bind:error=EAFNOSUPPORT",
        ],
        ...[process.execPath, program, "app.example", hosts, resolv],
      ]);
      expect(stdout).toBe("127.0.0.1");
    });
  },
);
