import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { tempFolders } from "../harness/closed-at-end.ts";
import { freePort } from "../harness/free-port.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { repository } from "../harness/keyrun-process.ts";
import { describeWith } from "../harness/needs.ts";
import { python, pythonEnv, pythonHas } from "../harness/python.ts";

const folders = tempFolders();

const page = readFileSync(join(repository, "docs/apps.md"), "utf8");
const go = spawnSync("go", ["version"]).status === 0 ? "go" : "/usr/local/go/bin/go";
const goMissing = spawnSync(go, ["version"]).status === 0 ? undefined : "there is no Go";

/** The app of the page in this language, and how its file is called and started there. */
const apps = [
  {
    language: "python",
    file: "app.py",
    missing: pythonHas("flask") ? undefined : "Python has no flask",
    start: (folder: string) => spawn(python, ["app.py"], { ...quietly, cwd: folder, env: pythonEnv }),
  },
  {
    language: "js",
    file: "app.mjs",
    missing: undefined,
    start(folder: string) {
      symlinkSync(join(repository, "node_modules"), join(folder, "node_modules"));
      return spawn(process.execPath, ["app.mjs"], { ...quietly, cwd: folder });
    },
  },
  {
    language: "go",
    file: "app.go",
    missing: goMissing,
    start(folder: string) {
      // `go run` would leave the program running when it is killed.
      execFileSync(go, ["build", "-o", "app", "app.go"], { cwd: folder });
      return spawn(join(folder, "app"), { ...quietly, cwd: folder });
    },
  },
] as const;
const quietly = { stdio: "ignore" } as const;

function codeOf(language: string): string {
  const [, code] = new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, "m").exec(page) ?? [];
  if (code === undefined) throw new Error(`The page has no ${language}.`);
  return code;
}

async function listens(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

async function stop(app: ChildProcess): Promise<void> {
  if (app.exitCode !== null || app.signalCode !== null) return;
  const exited = once(app, "exit");
  app.kill();
  await exited;
}

for (const { language, file, missing, start } of apps) {
  describeWith(missing)(`the app in ${language} on the page for apps`, () => {
    test("has under 15 lines, answers runs and streams, and refuses in words that its caller gets", async () => {
      const code = codeOf(language);
      expect(code.split("\n").filter((line) => line !== "").length).toBeLessThan(15);
      expect(page).toContain(`as \`${file}\``);
      const port = await freePort();
      const folder = folders.create();
      writeFileSync(join(folder, file), code.replace("9000", String(port)));
      const app = start(folder);
      onTestFinished(() => stop(app));
      await expect.poll(() => listens(port)).toBe(true);

      const keyrun = await startKeyrun();
      onTestFinished(() => keyrun.close());
      const url = `http://127.0.0.1:${port}/run`;
      await keyrun.apps.createApp({
        app: { id: "said", backend: { kind: { case: "http", value: { url } } } },
      });
      const { value } = await keyrun.keys.createKey({ teamId: "demo" });
      const ask = (way: string, text: string) =>
        fetch(`${keyrun.publicUrl}/api/apps/said/${way}`, {
          method: "POST",
          headers: {
            accept: "application/x-ndjson",
            authorization: `Bearer ${value}`,
            "content-type": "application/json",
          },
          body: JSON.stringify({ text }),
        });
      expect(await (await ask("run", "hello ☀")).json()).toMatchObject({ text: "You said: hello ☀" });
      // The longest JSON that a text of nearly 1 MiB can become.
      const long = "\u0001".repeat(170_000);
      expect(await (await ask("run", long)).json()).toMatchObject({ text: `You said: ${long}` });
      expect(await (await ask("stream", "hello")).text()).toContain('{"delta":{"text":"You said: hello"}}');
      for (const way of ["run", "stream"]) {
        const refused = await ask(way, "");
        expect(refused.status).toBe(422);
        const error = { code: "app_refused", message: "Send some text." };
        expect(await refused.json()).toMatchObject({ error });
      }
    });
  });
}
