import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, test } from "vitest";
import { serveHttp } from "../harness/app-backends.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { keyrunCommand, repository, restRun, spawnKeyrun } from "../harness/keyrun-process.ts";
import { startNameServer } from "../harness/name-server.ts";

const folders = tempFolders();

const unit = readFileSync(join(repository, "deploy/keyrun.service"), "utf8");
const installed = ["systemd-analyze", "strace"].every(
  (program) => spawnSync(program, ["--version"], { stdio: "ignore" }).status === 0,
);

/** The exposure that `systemd-analyze security` gives: 0 is none, 10 is all. In tenths. */
const exposureMax = 20;

describe.skipIf(!installed)("deploy/keyrun.service (left out without systemd-analyze and strace)", () => {
  let traced: Traced;
  beforeAll(async () => {
    traced = await traceKeyrun();
  });

  /** The unit, with this clone in place of /opt/keyrun. */
  function verify(text: string) {
    const path = join(folders.create(), "keyrun.service");
    writeFileSync(path, text.replaceAll("/opt/keyrun/", repository));
    const { status, stdout, stderr } = spawnSync("systemd-analyze", ["verify", "--man=no", path], {
      encoding: "utf8",
    });
    const own = `${stdout}${stderr}`.split("\n").filter((line) => line.includes("keyrun"));
    return { status, own };
  }

  test("is a unit that systemd takes, without a word", () => {
    expect(verify(unit)).toEqual({ status: 0, own: [] });
    // It says what it does not take.
    const { own } = verify(unit.replace("ProtectHome=yes", "ProtectHmoe=yes"));
    expect(own).toEqual([expect.stringContaining("ProtectHmoe")]);
    expect(verify(unit.replace("/keyrun serve", "/keyrum serve")).status).not.toBe(0);
  });

  test(`leaves Keyrun little of the machine: systemd rates its exposure at most ${exposureMax / 10} of 10`, () => {
    const path = join(folders.create(), "keyrun.service");
    const rate = (text: string) => {
      writeFileSync(path, text);
      const args = ["security", "--offline=true", `--threshold=${exposureMax}`, "--no-pager", path];
      return spawnSync("systemd-analyze", args, { encoding: "utf8" }).status;
    };
    expect(rate(unit)).toBe(0);
    expect(rate(unit.replace(/^(Protect|Private|Restrict|SystemCall).*$/gm, ""))).not.toBe(0);
  });

  test("forbids no system call that a start, a key, a run and a stop make", () => {
    const filters = [...unit.matchAll(/^SystemCallFilter=(~?)(.*)$/gm)];
    expect(filters.map(([, not]) => not)).toEqual(["", "~"]);
    const [allowed, forbidden] = filters.map(([, , groups = ""]) => groups.split(" ").flatMap(callsOf));
    const { calls } = traced;
    expect(calls).toEqual(expect.arrayContaining(["accept4", "fsync", "clone3", "epoll_ctl"]));
    // SQLite keeps the owner of a file only where it runs as root.
    const asRoot = process.getuid?.() === 0 ? ["fchown"] : [];
    const refused = calls.filter((call) => !allowed?.includes(call) || forbidden?.includes(call));
    expect(refused.filter((call) => !asRoot.includes(call))).toEqual([]);
  });

  test("forbids no family of sockets that they open, also where an app is found by its name", () => {
    const [, allowed = ""] = /^RestrictAddressFamilies=(.*)$/m.exec(unit) ?? [];
    expect(traced.families).toEqual(expect.arrayContaining(["AF_INET", "AF_NETLINK"]));
    expect(traced.families.filter((family) => !allowed.split(" ").includes(family))).toEqual([]);
  });

  test("kills Keyrun only after a drain that has the longest delay of docs/operations.md", () => {
    const [, seconds] = /^TimeoutStopSec=(\d+)$/m.exec(unit) ?? [];
    expect(Number(seconds)).toBeGreaterThanOrEqual(5 + 10 + 5);
  });
});

/** The system calls of a group such as `@system-service`, with those of the groups in it. */
function callsOf(group: string): string[] {
  const list = spawnSync("systemd-analyze", ["syscall-filter", "--no-pager", group], { encoding: "utf8" });
  const names = list.stdout
    .split("\n")
    .slice(1)
    .map((line) => line.trim());
  const calls = names.filter((name) => name !== "" && !name.startsWith("#"));
  return calls.flatMap((name) => (name.startsWith("@") ? callsOf(name) : [name]));
}

interface Traced {
  /** The names of all system calls. */
  readonly calls: readonly string[];
  /** The address families of all sockets. */
  readonly families: readonly string[];
}

/** Gives Keyrun the name server of the test in place of the machine's. */
const otherNameFiles = fileURLToPath(new URL("../harness/other-name-files.ts", import.meta.url));

async function traceKeyrun(): Promise<Traced> {
  const folder = folders.create();
  const [dataDir, trace] = [join(folder, "data"), join(folder, "trace")];
  await using names = await startNameServer({ "app.example": [{ address: "127.0.0.1", ttlS: 30 }] });
  await using app = await serveHttp((request, response) => {
    request.resume();
    response.setHeader("content-type", "application/json").end('{"text":"from a name"}');
  });
  const settings = {
    ...{ KEYRUN_PORT: "0", KEYRUN_GRPC_PORT: "0", KEYRUN_DATA_DIR: dataDir },
    KEYRUN_TEST_RESOLV_CONF: names.files().resolver,
  };
  const strace = ["strace", "--follow-forks", "-qq", "--summary", "--summary-columns=name"];
  const traced = spawnKeyrun(settings, [
    ...[...strace, "--string-limit=0", `--output=${trace}`, process.execPath, "--import", otherNameFiles],
    ...["--max-semi-space-size=8", "--initial-old-space-size=100", "bin/keyrun.mjs", "serve"],
  ]);
  try {
    await traced.until(() => traced.stdout().includes("curl "));
    const [, publicUrl = ""] = /ready: (\S+)/.exec(traced.stdout()) ?? [];
    const command = (...args: string[]) => keyrunCommand({ KEYRUN_DATA_DIR: dataDir }, args);
    const made = await command("keys", "create", "--team", "demo");
    const url = app.backend.url.replace("127.0.0.1", "app.example");
    expect(await command("apps", "create", "named", "--backend", "http", "--url", url)).toMatchObject({
      code: 0,
    });
    for (const appId of ["echo", "named"]) {
      const { status, body } = await restRun(publicUrl, { value: made.stdout.trim(), appId });
      expect(status, body).toBe(200);
    }
    expect(names.asked).toEqual(["app.example"]);
    const children = readFileSync(`/proc/${traced.pid}/task/${traced.pid}/children`, "utf8");
    process.kill(Number(children.split(" ")[0]), "SIGTERM");
    expect(await traced.exited).toMatchObject({ code: 0 });
  } finally {
    traced.kill("SIGKILL");
  }
  const text = readFileSync(trace, "utf8");
  const lines = text.split("\n").map((line) => line.trim());
  return {
    calls: lines.filter((line) => /^[a-z]\w+$/.test(line) && !["syscall", "total"].includes(line)),
    families: [...new Set([...text.matchAll(/\bsocket\((\w+)/g)].map(([, family = ""]) => family))],
  };
}
