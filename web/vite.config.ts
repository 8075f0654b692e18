import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { beforePaint } from "./before-paint-plugin.ts";
import { compressedFiles } from "./compressed-files-plugin.ts";
import { docsPages } from "./docs-pages-plugin.ts";
import { firstView } from "./first-view-plugin.ts";

// A shell in which it is "development" would get a build twice as large, with paths of its machine.
process.env.NODE_ENV = "production";

/**
 * Builds the screen into `web/dist`: its document, those of the docs, and files under `assets/`.
 * The name of each of those holds its hash, so that browsers may cache it for ever. Nothing is
 * inline, because the content security policy forbids it.
 */
// biome-ignore lint/style/noDefaultExport: Vite reads its settings from the default export.
export default defineConfig({
  plugins: [react(), beforePaint(), firstView(), docsPages(), compressedFiles()],
  // An extension of the browser for React could read what components hold, such as a new key.
  define: { __REACT_DEVTOOLS_GLOBAL_HOOK__: "undefined" },
  build: {
    target: "es2023",
    // These browsers know `light-dark()`, nesting and oklch, so the build rewrites none of them.
    cssTarget: ["chrome125", "firefox128", "safari18"],
    modulePreload: false,
    assetsInlineLimit: 0,
    rollupOptions: {
      input: ["index.html", "docs/api.html", "docs/errors.html", "docs/security.html"].map(
        (name) => `${import.meta.dirname}/${name}`,
      ),
    },
  },
});
