import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { toBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { reasons } from "#src/refusal/reasons.ts";
import { ownBufImage } from "../harness/buf-image.ts";
import { closedAtEnd, tempFolders } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { python, pythonHas } from "../harness/python.ts";

const folders = tempFolders();

const isMissing = !pythonHas("grpc", "google.protobuf");
if (isMissing) {
  process.stderr.write(
    "gRPC from Python is left out: `apt-get install python3-grpcio python3-protobuf` includes it.\n",
  );
}

const keyrun = closedAtEnd(await startKeyrun());

test("python3-grpcio is installed where every test is required", () => {
  expect(process.env.KEYRUN_TEST_REQUIRE_ALL === "1" && isMissing).toBeFalsy();
});

test.skipIf(isMissing)("gRPC from Python shows the same life of a key", async () => {
  const descriptors = join(folders.create(), "keyrun.binpb");
  await writeFile(descriptors, toBinary(FileDescriptorSetSchema, await ownBufImage()));
  const target = keyrun.internalUrl.replace("http://", "");
  const story = await tell({ target, service_token: keyrun.serviceToken, descriptors });
  expect(story).toMatchObject({
    run: { appId: "echo", text: "hello from Python", remaining: "59" },
    verified: { verdict: "VERDICT_VALID", teamId: "demo", plan: "PLAN_FREE", rateLimit: { remaining: 59 } },
    revoked: { key: { state: "KEY_STATE_REVOKED", revokedBy: "the service token", label: "python" } },
    refused: {
      code: "UNAUTHENTICATED",
      words: expect.stringMatching(/^The API key was revoked at 20\S+Z and/),
    },
    withoutKey: { code: "UNAUTHENTICATED", words: reasons.MISSING_API_KEY.words },
    keyForToken: { code: "UNAUTHENTICATED", words: reasons.INVALID_CREDENTIAL.words },
    unknown: Array(3).fill({ code: "UNIMPLEMENTED", words: reasons.UNIMPLEMENTED.words }),
  });
});

function tell(asked: object): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const program = join(import.meta.dirname, "story.py");
    const child = execFile(python, [program], (error, stdout, stderr) => {
      if (error) reject(new Error(stderr, { cause: error }));
      else resolve(JSON.parse(stdout));
    });
    child.stdin?.end(JSON.stringify(asked));
  });
}
