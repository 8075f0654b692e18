import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import { type AddressInfo, connect, type Server } from "node:net";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { hasOpenssl, makeCertificates } from "../harness/certificates.ts";
import { serveKeyrun, spawnKeyrun } from "../harness/keyrun-process.ts";
import { createMongoDatabases } from "../harness/mongo-databases.ts";
import { describeWith, mongodbMissing } from "../harness/needs.ts";
import { redisMissing, startRedis } from "../harness/redis-server.ts";
import { createTempFolders } from "../harness/temp-folders.ts";
import { openTlsProxy, type TlsProxy, targetOf } from "../harness/tls-proxy.ts";

const missing = mongodbMissing ?? redisMissing() ?? (hasOpenssl ? undefined : "openssl is not installed");

describeWith(missing)(
  "MongoDB, Redis and the issuer, each with a certificate of the operator's authority,",
  () => {
    const folders = createTempFolders();
    const databases = createMongoDatabases();
    const closers: (() => unknown)[] = [() => databases.drop(), () => folders.remove()];
    let caFile = "";
    let issuer: Server;
    let settings: Record<string, string> = {};

    beforeAll(async () => {
      const files = makeCertificates(folders.create());
      caFile = files.caFile;
      const identity = { cert: readFileSync(files.certFile), key: readFileSync(files.keyFile) };
      issuer = createServer(identity, (_, response) => {
        response.setHeader("content-type", "application/json").end(JSON.stringify(metadataOf(issuer)));
      });
      await new Promise<void>((bound) => issuer.listen(0, "127.0.0.1", bound));
      const redis = await startRedis();
      const behindTls = async (target: { host: string; port: number }): Promise<TlsProxy> => {
        const proxy = await openTlsProxy(target, identity);
        closers.unshift(() => proxy.close());
        return proxy;
      };
      const uri = databases.createUri();
      const mongo = await behindTls(targetOf(uri));
      const redisTls = await behindTls({ host: "127.0.0.1", port: redis.port });
      closers.unshift(
        () => redis.kill(),
        () => issuer.close(),
      );
      settings = {
        KEYRUN_MONGODB_URI: `mongodb://127.0.0.1:${mongo.port}${new URL(uri).pathname}?directConnection=true&tls=true`,
        KEYRUN_REDIS_URL: `rediss://127.0.0.1:${redisTls.port}`,
        KEYRUN_SECRET: "s".repeat(43),
        KEYRUN_SERVICE_TOKEN: "t".repeat(43),
        KEYRUN_PUBLIC_URL: "https://keyrun.example",
        KEYRUN_OIDC_ISSUER: issuerUrl(issuer),
        KEYRUN_OIDC_CLIENT_ID: "keyrun",
        KEYRUN_OIDC_CLIENT_SECRET: "client-secret-for-tests-only",
      };
    });
    afterAll(async () => {
      for (const close of closers) await close();
    });

    /** Where Keyrun sends a browser that wants to sign in. */
    async function signInAt(publicUrl: string): Promise<string> {
      const { port } = new URL(publicUrl);
      const socket = connect(Number(port), "127.0.0.1");
      socket.write("GET /sign-in HTTP/1.1\r\nHost: keyrun.example\r\nConnection: close\r\n\r\n");
      let answer = "";
      for await (const bytes of socket) answer += bytes;
      return /^location: (.*)\r$/im.exec(answer)?.[1] ?? answer;
    }

    test.each(["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"])("are trusted by %s", async (name) => {
      const serving = await serveKeyrun(folders.create(), { ...settings, [name]: caFile });
      onTestFinished(async () => {
        serving.kill("SIGTERM");
        await serving.exited;
      });
      expect(await signInAt(serving.publicUrl)).toMatch(`${issuerUrl(issuer)}/authorize?`);
    });

    test("are refused without it, and the words say so", async () => {
      const refused = spawnKeyrun({ ...settings, KEYRUN_PORT: "0", KEYRUN_DATA_DIR: folders.create() });
      expect(await refused.exited).toMatchObject({ code: 1 });
      expect(refused.stderr()).toMatch(
        /MongoDB at 127.* can't be reached: unable to .*UNABLE_TO_.*NODE_EXTRA_CA_CERTS/,
      );
    });
  },
);

function issuerUrl(server: Server): string {
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function metadataOf(server: Server) {
  const issuer = issuerUrl(server);
  return {
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    jwks_uri: `${issuer}/jwks`,
    response_types_supported: ["code"],
    subject_types_supported: ["public"],
    id_token_signing_alg_values_supported: ["RS256"],
  };
}
