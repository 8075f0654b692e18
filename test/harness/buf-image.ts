import { execFile } from "node:child_process";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { createFileRegistry, type FileRegistry, fromBinary } from "@bufbuild/protobuf";
import { type FileDescriptorSet, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";

const repository = fileURLToPath(new URL("../../", import.meta.url));
const bufBin = join(repository, "node_modules/.bin/buf");

/** The descriptors that buf builds from the folder's protos, with comments. */
export async function bufImage(folder: string): Promise<FileDescriptorSet> {
  const args = [bufBin, "build", folder, "-o", "-#format=binpb"];
  const options = { encoding: "buffer", maxBuffer: 16 * 1024 * 1024 } as const;
  const { stdout } = await promisify(execFile)(process.execPath, args, options);
  return fromBinary(FileDescriptorSetSchema, stdout);
}

/** The descriptors of this repository's protos, with comments. */
export function ownBufImage(): Promise<FileDescriptorSet> {
  return bufImage(join(repository, "proto"));
}

/** The descriptors of a proto file. It may import `google/api/*.proto` and the well-known types. */
export async function bufRegistry(source: string): Promise<FileRegistry> {
  const folder = await mkdtemp(join(tmpdir(), "keyrun-protos-"));
  try {
    await cp(join(repository, "proto/google"), join(folder, "google"), { recursive: true });
    await writeFile(join(folder, "buf.yaml"), "version: v2\n");
    await writeFile(join(folder, "test.proto"), source);
    return createFileRegistry(await bufImage(folder));
  } finally {
    await rm(folder, { recursive: true });
  }
}
