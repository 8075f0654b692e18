import type { Locator, Page } from "playwright-core";

// What is asked inside of the page is text: the rest of the repository knows no DOM, and should not.

/** What the clipboard holds; needs the permission `clipboard-read`. */
export function readClipboard(page: Page): Promise<string> {
  return page.evaluate<string>("navigator.clipboard.readText()");
}

/** The colour of the text in a place. */
export function colourOf(place: Locator): Promise<string> {
  return place.evaluate((element) => getComputedStyle(element).color);
}

declare function getComputedStyle(element: unknown): { readonly color: string };

/** The element that has the focus, by its label or text; by its tag where it is no control. */
export function focused(page: Page): Promise<string> {
  return page.evaluate<string>(`(() => {
    const element = document.activeElement;
    if (!element.matches("a, button, input, select, textarea, summary, h1, [tabindex='0']")) return element.tagName;
    const label = element.getAttribute("aria-label") ?? element.labels?.[0]?.textContent;
    return (label ?? element.textContent).replace(/\\s+/g, " ").trim();
  })()`);
}

/** Put into a page: notes what has the focus whenever a dialog came, in the same task, before anything is painted. */
export const firstFocusListener = `
  window.firstFocuses = [];
  new MutationObserver((records) => {
    const added = records.flatMap((record) => [...record.addedNodes]);
    if (added.some((node) => node.localName === "dialog")) window.firstFocuses.push(document.activeElement.id || document.activeElement.textContent);
  }).observe(document, { childList: true, subtree: true });`;

/** What had the focus first in each dialog that came, by its id or text. */
export function firstFocuses(page: Page): Promise<string[]> {
  return page.evaluate<string[]>("window.firstFocuses");
}

/** The page and the open dialogs that are wider than the window, as words. */
export function tooWide(page: Page): Promise<string[]> {
  return page.evaluate<string[]>(`
    [document.documentElement, ...document.querySelectorAll("dialog[open]")]
      .filter((box) => box.scrollWidth > box.clientWidth)
      .map((box) => box.tagName + ": " + box.scrollWidth + " of " + box.clientWidth + " px")`);
}

/** Every place of the browser in which a page can leave something, as one text. */
export function everythingKept(page: Page): Promise<string> {
  return page.evaluate<string>(`(async () => {
    const databases = await indexedDB.databases();
    const cacheNames = await caches.keys();
    const fields = [...document.querySelectorAll("input, textarea, select")].map((field) => field.value);
    return JSON.stringify({
      document: document.documentElement.outerHTML,
      fields,
      local: { ...localStorage },
      session: { ...sessionStorage },
      databases,
      cacheNames,
      cookies: document.cookie,
      history: [history.length, history.state],
      address: location.href,
      name: window.name,
      requests: performance.getEntries().map(({ name }) => name),
    });
  })()`);
}

/** Put into every page: complains on the console where the content security policy is broken. */
export const policyListener = `document.addEventListener("securitypolicyviolation", (event) =>
  console.error("policy broken:", event.violatedDirective, event.blockedURI, event.sample))`;

/** The controls that can be pressed now and are lower or narrower than this, as words. Links in a text may be. */
export function smallTargets(page: Page, sizeMin: number): Promise<string[]> {
  return page.evaluate<string[]>(`(() => {
    const within = document.querySelector("dialog[open]") ?? document.body;
    const controls = within.querySelectorAll("button, select, summary, input:not([type=checkbox], [type=radio]), label.check");
    return [...controls].flatMap((control) => {
      const { width, height } = control.getBoundingClientRect();
      const size = Math.round(width) + " × " + Math.round(height) + " px";
      return width === 0 || (width >= ${sizeMin} && height >= ${sizeMin}) ? [] : [control.textContent + ": " + size];
    });
  })()`);
}
