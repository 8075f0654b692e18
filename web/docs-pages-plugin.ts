import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Marked, type Tokens } from "marked";
import type { Plugin } from "vite";

const place = /<!-- (docs\/[\w-]+\.md|SECURITY\.md) -->/;
const inClone = /<!-- in a clone:start -->.*?<!-- in a clone:end -->\s?/gs;
/** The pages that the screen's server has, by their names in the repository's `docs/`. */
const served = new Map([
  ["api.md", "/docs/api"],
  ["errors.md", "/docs/errors"],
]);

/**
 * Puts a page of `docs/`, or SECURITY.md, into each document that names it in a comment, as HTML.
 * Headings get an id, so that links reach them. A link to a file that is not served becomes plain
 * text. What only a reader of the repository can use is left out: it stands between
 * `<!-- in a clone:start -->` and `<!-- in a clone:end -->`.
 */
export function docsPages(): Plugin {
  return {
    name: "docs-pages",
    transformIndexHtml: {
      order: "pre",
      handler: (html) =>
        html.replace(place, (_comment, name: string) =>
          renderPage(readFileSync(join(import.meta.dirname, "..", name), "utf8")),
        ),
    },
  };
}

/** The page in HTML. Our own pages hold no HTML but comments, which are dropped. */
export function renderPage(markdown: string): string {
  const marked = new Marked({ gfm: true });
  marked.use({
    renderer: {
      html: () => "",
      heading({ depth, tokens, text }: Tokens.Heading) {
        return `<h${depth} id="${slugOf(text)}">${this.parser.parseInline(tokens)}</h${depth}>\n`;
      },
      link({ href, tokens }: Tokens.Link) {
        const words = this.parser.parseInline(tokens);
        const to = targetOf(href);
        return to === undefined ? words : `<a href="${to}">${words}</a>`;
      },
      // Wide code and tables scroll by themselves; the focus lets the keyboard scroll them.
      code: ({ text }: Tokens.Code) => `<pre tabindex="0"><code>${escapeHtml(text)}</code></pre>\n`,
      table(token: Tokens.Table) {
        const { header, rows } = token;
        const inline = ({ tokens }: Tokens.TableCell) => this.parser.parseInline(tokens);
        const head = header.map((cell) => `<th scope="col">${inline(cell)}</th>`).join("");
        const body = rows.map(
          (row) => `<tr>${row.map((cell) => `<td>${inline(cell)}</td>`).join("")}</tr>\n`,
        );
        const label = header.map(({ text }) => text).join(", ");
        return `<div class="docs-table" role="region" aria-label="Table: ${label}" tabindex="0"><table>
<thead><tr>${head}</tr></thead>
<tbody>${body.join("")}</tbody>
</table></div>\n`;
      },
    },
  });
  return marked.parse(markdown.replace(inClone, ""), { async: false });
}

/** As GitHub makes it, so that one link works in both places. */
function slugOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s-]/gu, "")
    .trim()
    .replace(/\s/g, "-");
}

function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}

function targetOf(href: string): string | undefined {
  if (/^(https:\/\/|#|\/)/.test(href)) return href;
  const [name = "", fragment] = href.split("#");
  const path = served.get(name);
  return path && (fragment === undefined ? path : `${path}#${fragment}`);
}
