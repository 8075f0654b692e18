import type { Plugin } from "vite";

/**
 * Puts `before-paint.ts` into the head of the document, as a classic script. A module would run
 * after the first paint, and the policy allows no inline script. Only a small blocking file shows
 * the chosen theme and the right page from the first paint on.
 */
export function beforePaint(): Plugin {
  const name = "before-paint";
  return {
    name,
    apply: "build",
    buildStart() {
      this.emitFile({ type: "chunk", id: `${import.meta.dirname}/${name}.ts`, name });
    },
    transformIndexHtml: {
      order: "post",
      handler(_html, { bundle }) {
        const file = Object.values(bundle ?? {}).find((one) => one.type === "chunk" && one.name === name);
        if (file?.type !== "chunk" || file.imports.length > 0 || file.exports.length > 0) {
          throw new Error(`${name}.ts must stay alone: a classic script can't import or export.`);
        }
        return [{ tag: "script", attrs: { src: `/${file.fileName}` }, injectTo: "head-prepend" }];
      },
    },
  };
}
