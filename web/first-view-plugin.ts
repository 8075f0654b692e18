import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { type Plugin, runnerImport } from "vite";

const place = "<!-- first view -->";

/**
 * Puts the first view into the document, so that a person sees the page while its script is still
 * on its way. It comes from the same components, so it can't differ from them.
 */
export function firstView(): Plugin {
  return {
    name: "first-view",
    apply: "build",
    transformIndexHtml: {
      order: "pre",
      async handler(html, { filename }) {
        // The documents of the docs are whole as they are.
        if (!filename.endsWith("/web/index.html")) return html;
        const path = `${import.meta.dirname}/first-view.tsx`;
        const { module } = await runnerImport<typeof import("./first-view.tsx")>(path, {
          configFile: false,
          root: import.meta.dirname,
        });
        if (!html.includes(place)) throw new Error(`index.html must have a place for it: ${place}`);
        return html.replace(place, renderToStaticMarkup(createElement(module.FirstView)));
      },
    },
  };
}
