import type { Plugin } from "vite";

/**
 * A smaller form of Vite's code around each `import()`, without what fetches files ahead: the screen does that itself
 * when the browser is idle. A part's styles are in force before its code is used; without them it is not here.
 */
export function partLoader(): Plugin {
  return {
    name: "part-loader",
    apply: "build",
    transform: { filter: { id: /vite\/preload-helper/ }, handler: () => ({ code: loader, map: null }) },
  };
}

const loader = `
export const __vitePreload = async (load, styles = []) => (await Promise.all([load(), ...styles.map(style)]))[0];

const styles = {};
const style = (file) => styles[file] ??= new Promise((resolve, reject) => {
  const link = document.createElement("link");
  const onerror = () => {
    link.remove();
    delete styles[file];
    reject();
  };
  document.head.append(Object.assign(link, { rel: "stylesheet", href: "/" + file, onload: resolve, onerror }));
});`;
