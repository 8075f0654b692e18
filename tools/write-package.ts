// Around `npm pack`: makes what a package runs, and the manifest that it has. Node strips the types
// of a clone as it loads it, but not of what lies under node_modules. So the same stripper does it
// here, into dist/: the same files and lines, without a bundler.
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const root = fileURLToPath(new URL("..", import.meta.url));
const dist = join(root, "dist");
const manifest = join(root, "package.json");
/** The manifest of the clone while npm packs, also after a packing that was broken off. */
const kept = join(dist, "clone.json");

if (existsSync(kept)) renameSync(kept, manifest);
rmSync(dist, { recursive: true, force: true });
if (process.argv[2] === "begin") {
  for (const path of globSync("{src,gen,packages/transcode/{src,gen}}/**/*.ts", { cwd: root })) {
    const code = stripTypeScriptTypes(readFileSync(join(root, path), "utf8"));
    const target = join(dist, path.replace(/\.ts$/, ".js"));
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, withNewSpecifiers(code));
  }
  cpSync(join(root, "gen/openapi.json"), join(dist, "gen/openapi.json"));
  await build({ root: join(root, "web"), build: { outDir: join(dist, "web/dist") }, logLevel: "error" });
  const whole = readFileSync(manifest, "utf8");
  renameSync(manifest, kept);
  writeFileSync(manifest, `${JSON.stringify(ofPackage(JSON.parse(whole)), undefined, 2)}\n`);
}

/** What begins with `#` stays, for the manifest's `imports`. `bin` is JavaScript, outside of dist/. */
function withNewSpecifiers(code: string): string {
  return code
    .replace(/((?:\bfrom|\bimport\(|^import) ?"\.[^"\n]*)\.ts"/gm, '$1.js"')
    .replace(/(\bfrom ")(?=(?:\.\.\/)+bin\/)/g, "$1../");
}

/** Without what is only for a clone, such as the Node that npm brings: npx has run on a newer one. */
function ofPackage(whole: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { scripts, workspaces, devDependencies, optionalDependencies, allowScripts, ...rest } = whole;
  const imports = {
    "#gen/*.ts": "./dist/gen/*.js",
    "#gen/*": "./dist/gen/*",
    "#transcode/*.ts": "./dist/packages/transcode/src/*.js",
  };
  return { ...rest, imports };
}
