import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { apiKey } from "../key-and-limit.ts";
import { announce, appPlace } from "../subject.ts";

// nginx with one worker: the key in a map, limit_req, and proxy_pass with kept connections. Its
// limit is a leaky bucket and not an exact log, it sends no headers of the limit, reads no JSON.
// Debian's place is not on the PATH of everyone.
const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` };
if (spawnSync("nginx", ["-v"], { env }).status !== 0) announce({ missing: "nginx is not installed" });
else await serve();

async function serve() {
  const folder = mkdtempSync(join(tmpdir(), "keyrun-bench-"));
  const port = await freePort();
  writeFileSync(join(folder, "nginx.conf"), configuration(folder, port));
  const child = spawn("nginx", ["-p", folder, "-e", "stderr", "-c", "nginx.conf"], {
    stdio: ["ignore", "ignore", "inherit"],
    env,
  });
  child.once("exit", (code) => process.exit(code ?? 1));
  while (!(await accepts(port)));
  announce({ port, apiKeys: [apiKey], pid: child.pid }, async () => {
    child.removeAllListeners("exit").kill();
    await once(child, "exit");
    rmSync(folder, { recursive: true });
  });
}

function configuration(folder: string, port: number): string {
  const { host, pathname } = new URL(appPlace);
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  return `
daemon off;
worker_processes 1;
error_log stderr warn;
pid ${folder}/nginx.pid;
events { worker_connections 1024; }
http {
  access_log off;
  ${temporary.map((name) => `${name}_temp_path ${folder}/${name};`).join("\n  ")}
  map_hash_bucket_size 256;
  map $http_authorization $team { default ""; "Bearer ${apiKey}" demo; }
  limit_req_zone $team zone=teams:1m rate=1000000r/s;
  upstream app { server ${host}; keepalive 256; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:${port} backlog=1024;
    keepalive_requests 1000000000;
    location ~ ^/api/apps/[a-z][a-z0-9-]*/run$ {
      if ($team = "") { return 401; }
      limit_req zone=teams burst=100000 nodelay;
      proxy_pass http://app${pathname.replace(/\/$/, "")}$is_args;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Authorization "";
    }
  }
}
`;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => resolve(true));
    socket.once("error", () => resolve(false)).once("connect", () => socket.destroy());
  });
}
