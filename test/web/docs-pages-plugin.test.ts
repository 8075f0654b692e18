import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { renderPage } from "../../web/docs-pages-plugin.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const read = (page: string) => readFileSync(join(root, page), "utf8");

test.each(["docs/api.md", "docs/errors.md"])(
  "what a server shows of %s is for its callers: nothing on it takes a clone of Keyrun",
  (page) => {
    // The words of the refusals are the server's own.
    const markdown = read(page).replace(/<!-- refusals:start -->.*<!-- refusals:end -->/s, "");
    const ofClone =
      /npm (start|ci|run)|\.\/keyrun|\bterminal|\b[\w-]+\.md\b|\bsrc\/|your own machine|in a clone/g;
    // Proves that the page has such words, for its readers in the repository.
    expect(markdown).toMatch(ofClone);
    const served = renderPage(markdown);
    expect(served.match(ofClone)).toBeNull();
    expect(served).toContain("</h1>");
  },
);

test("each link of a page that a server shows leads to a page that it has, or is plain text", () => {
  const html = renderPage("[a](api.md#x) [b](errors.md) [c](apps.md) [d](#e) [f](https://g.example/)");
  expect(html).toContain('<a href="/docs/api#x">a</a> <a href="/docs/errors">b</a> c <a href="#e">d</a>');
  expect(renderPage("a<!-- in a clone:start --> b<!-- in a clone:end --> c")).toBe("<p>ac</p>\n");
});
