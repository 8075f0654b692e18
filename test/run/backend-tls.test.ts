import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { createSecureServer } from "node:http2";
import { createServer } from "node:https";
import type { AddressInfo, Server } from "node:net";
import { promisify } from "node:util";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AppBackendService } from "#gen/keyrun/v1/app_backend_service_pb.ts";
import type { BackendRecord } from "#src/apps/app-store.ts";
import { hasOpenssl, makeCertificates } from "../harness/certificates.ts";
import { createTempFolders } from "../harness/temp-folders.ts";

describe.skipIf(!hasOpenssl)("a backend behind TLS", () => {
  const folders = createTempFolders();
  const servers: Server[] = [];
  const seen = { http: 0, grpc: 0 };
  let caFile = "";
  let backends: { http: BackendRecord; grpc: BackendRecord };

  beforeAll(async () => {
    const files = makeCertificates(folders.create());
    caFile = files.caFile;
    const identity = { cert: readFileSync(files.certFile), key: readFileSync(files.keyFile) };
    const http = createServer(identity, (_, response) => {
      seen.http += 1;
      response.end('{"text":"over https"}');
    });
    const routes = connectNodeAdapter({
      routes: (router) =>
        router.service(AppBackendService, {
          run: () => {
            seen.grpc += 1;
            return { text: "over TLS" };
          },
        }),
    });
    const grpc = createSecureServer(identity, routes);
    servers.push(http, grpc);
    for (const server of servers) await new Promise<void>((bound) => server.listen(0, "127.0.0.1", bound));
    const [httpPort, grpcPort] = servers.map((server) => (server.address() as AddressInfo).port);
    backends = {
      http: { kind: "http", url: `https://127.0.0.1:${httpPort}/run`, headers: [] },
      grpc: { kind: "grpc", target: `127.0.0.1:${grpcPort}`, tls: true },
    };
  });
  afterAll(() => {
    for (const server of servers) server.close();
    folders.remove();
  });

  test.each([
    ["http", "over https"],
    ["grpc", "over TLS"],
  ] as const)(
    "gets runs on %s only if its certificate is trusted, and has its host's name",
    async (kind, text) => {
      const backend = backends[kind];
      const [untrusted] = await runOnEach([backend], {});
      expect(untrusted).toMatch(/^APP_UNREACHABLE: .*(certificate|UNABLE_TO_VERIFY|self)/i);
      expect(seen[kind]).toBe(0);
      const named = [backend, at("localhost", backend), at("app.localhost", backend)];
      const [byAddress, byName, byOtherName] = await runOnEach(named, { NODE_EXTRA_CA_CERTS: caFile });
      expect([byAddress, byName]).toEqual([text, text]);
      expect(byOtherName).toMatch(/^APP_UNREACHABLE: /);
      expect(seen[kind]).toBe(2);
    },
  );
});

/** The backend, under another name of this machine. */
function at(host: string, backend: BackendRecord): BackendRecord {
  return JSON.parse(JSON.stringify(backend).replace("127.0.0.1", host));
}

async function runOnEach(list: readonly BackendRecord[], env: NodeJS.ProcessEnv): Promise<string[]> {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ["test/run/run-once.ts", JSON.stringify(list)],
    { env: { ...process.env, NODE_OPTIONS: "", ...env } },
  );
  return JSON.parse(stdout);
}
