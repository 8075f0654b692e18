import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { partLoader } from "./part-loader-plugin.ts";
import { sessionDescriptors } from "./session-descriptors-plugin.ts";
import { themeAtStart } from "./theme-at-start-plugin.ts";
import { unusedEnums } from "./unused-enums-plugin.ts";

/**
 * Builds the screen into `web/dist`: a document, and under `assets/` files whose names hold their hash, so that
 * they may be cached for ever. Nothing is inline, as the content security policy demands.
 */
// biome-ignore lint/style/noDefaultExport: Vite reads its settings from the default export.
export default defineConfig({
  plugins: [react(), themeAtStart(), sessionDescriptors(), unusedEnums(), partLoader()],
  // A browser's extension for React would read what components hold, and one of them holds a new key.
  define: { __REACT_DEVTOOLS_GLOBAL_HOOK__: "undefined" },
  build: {
    target: "es2023",
    // All of these know `light-dark()`, nesting and oklch: what is written is what is sent.
    cssTarget: ["chrome125", "firefox128", "safari18"],
    modulePreload: false,
    assetsInlineLimit: 0,
    rolldownOptions: {
      output: {
        // One file for the first view: what it shares with the late parts would else be cut from it.
        codeSplitting: { groups: [{ name: "screen", tags: ["$initial"], test: /^(?!.*theme-at-start)/ }] },
      },
    },
  },
});
