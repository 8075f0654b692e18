import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Plugin } from "vite";
import { compress } from "#src/http/static-body.ts";

/**
 * Writes the compressed forms of each text beside it, as `<name>.br` and `<name>.gz`, where they
 * are smaller. The server would need longer for them than for the rest of its start.
 */
export function compressedFiles(): Plugin {
  return {
    name: "compressed-files",
    apply: "build",
    writeBundle: {
      order: "post",
      async handler({ dir = "" }) {
        const names = readdirSync(dir, { recursive: true, encoding: "utf8" });
        await Promise.all(
          names.filter((name) => /\.(html|js|css|svg)$/.test(name)).map((name) => write(join(dir, name))),
        );
      },
    },
  };
}

const brotliQuality = 11;

async function write(path: string): Promise<void> {
  const { br, gzip } = await compress(readFileSync(path), { brotliQuality });
  if (br) writeFileSync(`${path}.br`, br);
  if (gzip) writeFileSync(`${path}.gz`, gzip);
}
