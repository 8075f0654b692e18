import { readFileSync } from "node:fs";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { StartRefused } from "#src/refusal/start-refused.ts";
import { connectMongo } from "#src/store/mongo/connection.ts";
import { hasOpenssl, makeCertificates } from "../../harness/certificates.ts";
import { freePort } from "../../harness/free-port.ts";
import { createMongoDatabases } from "../../harness/mongo-databases.ts";
import { describeWith, mongodbMissing } from "../../harness/needs.ts";
import { createTempFolders } from "../../harness/temp-folders.ts";
import { openTlsProxy, targetOf } from "../../harness/tls-proxy.ts";

describeWith(mongodbMissing)("a connection to MongoDB", () => {
  const databases = createMongoDatabases();
  afterAll(() => databases.drop());

  test("is as the options of the URI say, and of two time-outs the shorter one counts", async () => {
    const options = {
      retryWrites: "false",
      maxPoolSize: "7",
      appName: "billing",
      socketTimeoutMS: "700",
      connectTimeoutMS: "0",
      serverSelectionTimeoutMS: "600000",
    };
    const uri = withOptions(databases.createUri(), options);
    const { client } = await connectMongo(uri, { selectionMsMax: 20_000, socketMsMax: 20_000 });
    onTestFinished(() => client.close());
    const { retryWrites, maxPoolSize, appName, ...times } = client.options;
    expect({ retryWrites, maxPoolSize, appName }).toEqual({
      retryWrites: false,
      maxPoolSize: 7,
      appName: "billing",
    });
    expect(times).toMatchObject({
      socketTimeoutMS: 700,
      connectTimeoutMS: 5_000,
      serverSelectionTimeoutMS: 20_000,
      readPreference: { mode: "primary" },
      readConcern: { level: "majority" },
      writeConcern: { w: "majority", journal: true },
    });
  });

  test("that can't be had says the innermost cause, and nothing of the login", async () => {
    const uri = databases.createUri();
    const { host, port } = targetOf(uri);
    const nobody = await freePort();
    const causes = {
      [`mongodb://user:QqZz77@127.0.0.1:${nobody}/keyrun`]: `connect ECONNREFUSED 127.0.0.1:${nobody}`,
      [`mongodb://user:QqZz77@127.0.0.1:${nobody}/?tls=true&tlsCAFile=/nowhere.pem`]:
        "ENOENT: no such file or directory, open '/nowhere.pem'",
      [`mongodb://${host}:${port}/?replicaSet=other`]: "no server there is of the replica set other",
      [`mongodb://${host}:${port}/?directConnection=true&authMechanism=MONGODB-AWS`]:
        "Cannot find module '@aws-sdk/credential-providers' (MODULE_NOT_FOUND): the package has to be installed",
    };
    for (const [each, cause] of Object.entries(causes)) {
      const { message } = await refusalOf(each);
      expect(message).toContain(cause);
      expect(message).toMatch(/^MongoDB at 127\.0\.0\.1:\d+ can't be reached: /);
      expect(message).not.toContain("QqZz77");
    }
  });

  test("names an option whose value can't be used", async () => {
    const { message } = await refusalOf(withOptions(databases.createUri(), { maxPoolSize: "many" }));
    expect(message).toBe(
      "KEYRUN_MONGODB_URI has a value of the option maxpoolsize that can't be used: correct or remove it.",
    );
  });

  describe.skipIf(!hasOpenssl)("with TLS", () => {
    test("names a certificate that is not trusted, and what helps", async () => {
      const folders = createTempFolders();
      onTestFinished(() => folders.remove());
      const files = makeCertificates(folders.create());
      const identity = { cert: readFileSync(files.certFile), key: readFileSync(files.keyFile) };
      const proxy = await openTlsProxy(targetOf(databases.createUri()), identity);
      onTestFinished(() => proxy.close());
      const uri = `mongodb://127.0.0.1:${proxy.port}/?directConnection=true&tls=true`;
      expect((await refusalOf(uri)).message).toMatch(
        /can't be reached: unable to .* \(UNABLE_TO_\w+\): NODE_EXTRA_CA_CERTS can name a file/,
      );
      const { client } = await connectMongo(`${uri}&tlsCAFile=${files.caFile}`, bounded);
      await client.close();
    });
  });
});

const bounded = { selectionMsMax: 2_000, socketMsMax: 2_000 };

async function refusalOf(uri: string): Promise<StartRefused> {
  const outcome = await connectMongo(uri, bounded).then(
    ({ client }) => client.close(),
    (thrown: unknown) => thrown,
  );
  if (outcome instanceof StartRefused) return outcome;
  throw new Error(`the connection was not refused: ${String(outcome)}`);
}

function withOptions(uri: string, options: Readonly<Record<string, string>>): string {
  return `${uri}${uri.includes("?") ? "&" : "?"}${new URLSearchParams(options)}`;
}
