// Makes JavaScript and declarations of the package's TypeScript, in dist/. `npm pack` runs it.
// Node strips the types itself, so the code keeps its lines; tsc writes the declarations.

import { execFileSync } from "node:child_process";
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { dirname } from "node:path";

process.chdir(import.meta.dirname);
rmSync("dist", { recursive: true, force: true });
for (const path of globSync("{src,gen}/**/*.ts")) {
  write(path.replace(/\.ts$/, ".js"), stripTypeScriptTypes(readFileSync(path, "utf8")));
}
execFileSync("tsc", ["-p", "tsconfig.json", "--outDir", "dist"], { stdio: "inherit" });
for (const path of globSync("dist/**/*.d.ts")) {
  write(path.slice("dist/".length), readFileSync(path, "utf8"));
}

/** TypeScript imports the files that it has, JavaScript those that it becomes. */
function write(path, text) {
  mkdirSync(dirname(`dist/${path}`), { recursive: true });
  writeFileSync(`dist/${path}`, text.replace(/( from "\.[^"]*)\.ts"/g, '$1.js"'));
}
