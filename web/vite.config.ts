import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { themeAtStart } from "./theme-at-start-plugin.ts";

/**
 * Builds the screen into `web/dist`: a document, and under `assets/` files whose names hold their hash, so that
 * they may be cached for ever. Nothing is inline, as the content security policy demands.
 */
// biome-ignore lint/style/noDefaultExport: Vite reads its settings from the default export.
export default defineConfig({
  plugins: [react(), themeAtStart()],
  build: {
    target: "es2023",
    // All of these know `light-dark()`, nesting and oklch: what is written is what is sent.
    cssTarget: ["chrome125", "firefox128", "safari18"],
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
  },
});
