import { describe, expect, test } from "vitest";
import { mongodbUriProblem } from "#src/settings/mongodb-uri.ts";
import { readSettings } from "#src/settings/read-settings.ts";

describe("a password with a raw character is refused with a hint, and no part of it is in the words:", () => {
  const raw = [
    "Qq/Zz77",
    "Qq@Zz77",
    "Qq:Zz77",
    "Qq%Zz77",
    "Qq?Zz77",
    "Qq#Zz77",
    "Qq[Zz77",
    "1/Zz77",
    "Qq@1/Zz77",
  ];
  const uris = raw.flatMap((password) => [
    `mongodb://keyrun:${password}@db.internal:27017/keyrun`,
    `mongodb+srv://keyrun:${password}@db.internal/keyrun?retryWrites=true`,
  ]);
  test.each(uris)("%s", (uri) => {
    const problem = mongodbUriProblem(uri);
    expect(problem).toContain("percent-encoded: %2F for /, %40 for @");
    expect(problem).not.toMatch(/Qq|Zz77|db\.internal/);
  });
});

test.each([
  "mongodb://db",
  "mongodb://db.internal:27017,db2.internal:27017/keyrun?replicaSet=rs0",
  "mongodb://keyrun:p%2Fa%40ss@db.internal:27017/keyrun?authSource=admin",
  "mongodb://CN%3Dkeyrun@db/?authMechanism=MONGODB-X509&tls=true&tlsCertificateKeyFile=/run/x.pem",
  "mongodb://%2Ftmp%2Fmongodb-27017.sock/keyrun",
  "mongodb://[fd00::5]:27017/keyrun",
  "mongodb+srv://keyrun:pass@cluster0.example.net/?retryWrites=true&w=majority&appName=Cluster0",
  "mongodb://cosmos:a2V5%3D%3D@c.mongo.cosmos.azure.com:10255/?ssl=true&replicaSet=globaldb&retrywrites=false&maxIdleTimeMS=120000&appName=%40c%40",
  "mongodb://u:p@docdb:27017/?tls=true&tlsCAFile=global-bundle.pem&replicaSet=rs0&readPreference=primary&retryWrites=false",
])("%s is taken", (uri) => {
  expect(mongodbUriProblem(uri)).toBeUndefined();
});

test.each([
  ["w=1", "w"],
  ["w=0", "w"],
  ["journal=false", "journal"],
  ["readPreference=secondaryPreferred", "readPreference"],
  ["READPREFERENCE=nearest", "readPreference"],
  ["readConcernLevel=local", "readConcernLevel"],
  ["wtimeoutMS=10", "wTimeoutMS"],
  ["maxStalenessSeconds=90", "maxStalenessSeconds"],
  ["timeoutMS=100", "timeoutMS"],
])("%s is refused in words, because a promise depends on it", (option, name) => {
  expect(mongodbUriProblem(`mongodb://db/keyrun?${option}`)).toMatch(
    new RegExp(`^has the option ${name}, which would break a promise .*: remove it`),
  );
});

test("an unknown option is refused, and is not named: it may be a part of a password", () => {
  expect(mongodbUriProblem("mongodb://db/keyrun?Zz77=1")).toBe(
    "has an option that Keyrun does not take: docs/operations.md lists those that it takes",
  );
});

test("every problem is told by the setting's name, as that of any other setting", () => {
  const read = readSettings(
    { KEYRUN_MONGODB_URI: "mongodb://db/?w=1", KEYRUN_SECRET: "s".repeat(43) },
    () => "",
  );
  expect(read).toMatchObject({
    problems: [expect.stringMatching(/^KEYRUN_MONGODB_URI has the option w, .*set it to majority\.$/)],
  });
});
