import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { request } from "node:https";
import { connect } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { makeCertificates } from "../harness/certificates.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { freePort } from "../harness/free-port.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { repository } from "../harness/keyrun-process.ts";
import { describeWith, programsMissing } from "../harness/needs.ts";
import { startTalkingApp } from "../harness/talking-app.ts";

const folders = tempFolders();

/** What the block of the page is given here in place of its names, and how it is run. */
interface Place {
  readonly folder: string;
  readonly port: number;
  readonly keyrun: string;
  readonly certFile: string;
  readonly keyFile: string;
}

function blockOf(language: string): string {
  const page = readFileSync(join(repository, "docs/operations.md"), "utf8");
  const [, block = ""] = new RegExp(`^ *\`\`\`${language}\n([\\s\\S]*?)^ *\`\`\``, "m").exec(page) ?? [];
  expect(block).toContain("keyrun.example.com");
  return block.replaceAll("127.0.0.1:8080", "KEYRUN");
}

const proxies = {
  nginx({ folder, port, keyrun, certFile, keyFile }: Place) {
    const server = blockOf("nginx")
      .replaceAll("KEYRUN", keyrun)
      .replaceAll("443", `${port}`)
      .replace(/ssl_certificate .*;/, `ssl_certificate ${certFile};`)
      .replace(/ssl_certificate_key .*;/, `ssl_certificate_key ${keyFile};`);
    const path = join(folder, "nginx.conf");
    const own = `daemon off; pid ${folder}/pid; error_log stderr; events {}\n`;
    const temp = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
      (name) => `${name}_temp_path ${folder}/${name};`,
    );
    writeFileSync(path, `${own}http { access_log off; ${temp.join(" ")}\n${server} }\n`);
    return ["nginx", "-e", "stderr", "-p", folder, "-c", path];
  },
  caddy({ folder, port, keyrun, certFile, keyFile }: Place) {
    const site = blockOf("caddyfile")
      .replaceAll("KEYRUN", keyrun)
      .replace("keyrun.example.com {", `https://localhost:${port} {\n  tls ${certFile} ${keyFile}`);
    const path = join(folder, "Caddyfile");
    writeFileSync(path, `{\n  admin off\n  auto_https disable_redirects\n}\n${site}`);
    return ["caddy", "run", "--adapter", "caddyfile", "--config", path];
  },
};

for (const [name, command] of Object.entries(proxies)) {
  describeWith(programsMissing(name, "openssl"))(`${name}, with the block of docs/operations.md`, () => {
    test("ends TLS: a run is answered, a stream passes piece by piece, and the caller's address arrives", async () => {
      const folder = folders.create();
      const certificates = makeCertificates(folder);
      const port = await freePort();
      const keyrun = await startKeyrun({ settings: { KEYRUN_TRUST_PROXY: "1", KEYRUN_ACCESS_LOG: "true" } });
      onTestFinished(keyrun.close);
      const app = await startTalkingApp();
      onTestFinished(app.close);
      await keyrun.apps.createApp({ app: { id: "talking", backend: app.backend } });
      const { value } = await keyrun.newKey(await keyrun.newTeam());
      const [program = "", ...args] = command({
        ...{ folder, port, keyrun: new URL(keyrun.publicUrl).host },
        ...certificates,
      });
      const proxy = spawn(program, args, {
        env: { ...process.env, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder },
        stdio: ["ignore", "pipe", "pipe"],
      });
      let words = "";
      for (const output of [proxy.stdout, proxy.stderr])
        output.setEncoding("utf8").on("data", (part: string) => {
          words += part;
        });
      onTestFinished(async () => {
        if (proxy.exitCode !== null) return;
        proxy.kill();
        await once(proxy, "exit");
      });
      while (!(await accepts(port))) {
        if (proxy.exitCode !== null) throw new Error(words);
        await pause(50);
      }

      const ca = readFileSync(certificates.caFile);
      const ask = async (path: string, body: object) => {
        const sent = request(`https://localhost:${port}/api/apps/${path}`, {
          method: "POST",
          ca,
          headers: {
            authorization: `Bearer ${value}`,
            "content-type": "application/json",
            accept: "application/x-ndjson, application/json",
            // What a caller claims is not its address.
            "x-forwarded-for": "192.0.2.1",
          },
        });
        sent.end(JSON.stringify(body));
        const [answer] = (await once(sent, "response")) as [IncomingMessage];
        return answer;
      };
      const run = await ask("echo/run", { text: "through TLS" });
      expect([run.statusCode, JSON.parse(await text(run))]).toMatchObject([200, { text: "through TLS" }]);

      const asked = ask("talking/stream", { text: "slow" });
      const talk = await app.talk("slow");
      talk.say("first");
      const pieces = (await asked).setEncoding("utf8");
      let seen = "";
      for await (const piece of pieces) {
        seen += piece;
        // The app says no more before the first piece has passed.
        if (seen.includes('"first"')) {
          if (!talk.isOver) talk.end();
        }
      }
      expect(seen.trimEnd().split("\n").at(-1)).toBe('{"end":{}}');
      expect(keyrun.accessLines.at(-1)).toContain('"address":"127.0.0.1"');
    });
  });
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    socket.once("connect", () => socket.destroy());
  });
}
