import type { ElementHandle, Locator, Page } from "playwright-core";

// Code that runs inside the page is a string, so the types of this repository need no DOM.

/** The text in the clipboard. Needs the permission `clipboard-read`. */
export function readClipboard(page: Page): Promise<string> {
  return page.evaluate<string>("navigator.clipboard.readText()");
}

/** The colour of the text in an element. */
export function colourOf(place: Locator): Promise<string> {
  return place.evaluate((element) => getComputedStyle(element).color);
}

declare function getComputedStyle(element: unknown): { readonly color: string };

/** True if this very element has the focus. */
export function hasFocus(element: ElementHandle): Promise<boolean> {
  return element.evaluate((one) => one === document.activeElement);
}

declare const document: { readonly activeElement: unknown };

/** The focused element, by its label or text; by its tag if it is no control. */
export function focused(page: Page): Promise<string> {
  return page.evaluate<string>(`(() => {
    const element = document.activeElement;
    if (!element.matches("a, button, input, select, textarea, summary, h1, [tabindex='0']")) return element.tagName;
    const label = element.getAttribute("aria-label") ?? element.labels?.[0]?.textContent;
    return (label ?? element.textContent).replace(/\\s+/g, " ").trim();
  })()`);
}

/**
 * A script for a page. Notes which element has the focus when a dialog was added, in the same task,
 * before anything is painted.
 */
export const firstFocusListener = `
  window.firstFocuses = [];
  new MutationObserver((records) => {
    const added = records.flatMap((record) => [...record.addedNodes]);
    if (added.some((node) => node.localName === "dialog")) window.firstFocuses.push(document.activeElement.id || document.activeElement.textContent);
  }).observe(document, { childList: true, subtree: true });`;

/** The element that had the focus first in each dialog, by its id or text. */
export function firstFocuses(page: Page): Promise<string[]> {
  return page.evaluate<string[]>("window.firstFocuses");
}

/** Describes the page and the open dialogs that are wider than the window. */
export function tooWide(page: Page): Promise<string[]> {
  return page.evaluate<string[]>(`
    [document.documentElement, ...document.querySelectorAll("dialog[open]")]
      .filter((box) => box.scrollWidth > box.clientWidth)
      .map((box) => box.tagName + ": " + box.scrollWidth + " of " + box.clientWidth + " px")`);
}

/**
 * Describes what a person can't reach in the open dialog: the buttons of its foot that are out of
 * sight or covered, the controls that are behind its head or foot while they have the focus, and
 * what is wrong with these, where it is behind the foot.
 */
export function outOfSight(page: Page): Promise<string[]> {
  return page.evaluate<string[]>(`(() => {
    const dialog = document.querySelector("dialog[open]");
    const foot = dialog.querySelector(":scope > .close-question") ?? [...dialog.querySelectorAll(".dialog-buttons")].at(-1);
    const head = dialog.querySelector(".dialog-head");
    const found = [];
    for (const button of foot.querySelectorAll("button")) {
      const { left, top, width, height } = button.getBoundingClientRect();
      const met = document.elementFromPoint(left + width / 2, top + height / 2);
      if (!button.contains(met)) found.push("in the foot: " + button.textContent);
    }
    for (const control of dialog.querySelectorAll("button, input, select, textarea, summary")) {
      if (foot.contains(control) || head.contains(control) || !control.checkVisibility()) continue;
      // A control that has the focus already is not scrolled to.
      control.blur();
      control.focus();
      const { top, bottom } = control.getBoundingClientRect();
      const [from, to] = [head.getBoundingClientRect().bottom, foot.getBoundingClientRect().top];
      if (top < from || bottom > to) found.push("has the focus: " + (control.id || control.textContent));
      if (control.ariaInvalid !== "true") continue;
      for (const id of control.getAttribute("aria-describedby").split(" ")) {
        const words = document.getElementById(id);
        if (words.matches(".field-problem") && words.getBoundingClientRect().bottom > to) found.push("of the focus: " + id);
      }
    }
    return found;
  })()`);
}

/** Everything that a page can leave in the browser, as one text. */
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

/** A script for every page. Logs an error when the content security policy is violated. */
export const policyListener = `document.addEventListener("securitypolicyviolation", (event) =>
  console.error("policy broken:", event.violatedDirective, event.blockedURI, event.sample))`;

/** Describes the usable controls that are lower or narrower than this. Links in a text may be. */
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

/**
 * Describes the fields of a filter that are narrower than what they show. The words of a `<select>`
 * are measured beside it: it does not tell that it cuts them.
 */
export function cutFilters(page: Page): Promise<string[]> {
  return page.evaluate<string[]>(`(() => {
    const context = document.createElement("canvas").getContext("2d");
    return [...document.querySelectorAll(".activity-filters :is(select, input)")].flatMap((field) => {
      const { font, paddingLeft, paddingRight } = getComputedStyle(field);
      context.font = font;
      const words = field.selectedOptions?.[0].textContent || field.placeholder || field.value;
      const room = field.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
      return context.measureText(words).width > room ? [words + ": " + room + " px"] : [];
    });
  })()`);
}

/**
 * A script for a page. Notes each layout shift that no person has caused
 * (https://wicg.github.io/layout-instability/).
 */
export const layoutShiftListener = `
  window.layoutShifts = [];
  window.layoutShiftObserver = new PerformanceObserver((list) => window.noteLayoutShifts(list.getEntries()));
  window.noteLayoutShifts = (entries) => {
    for (const { value, hadRecentInput, sources } of entries) {
      if (hadRecentInput) continue;
      const moves = sources.map(({ node, previousRect: from, currentRect: to }) =>
        (node?.className ?? node?.textContent ?? "gone") + " " + [from.x, from.y, from.width, from.height] + " to " + [to.x, to.y, to.width, to.height]);
      window.layoutShifts.push({ value, moves });
    }
  };
  window.layoutShiftObserver.observe({ type: "layout-shift", buffered: true });`;

/** How much the parts of the page have moved so far, and which did. */
export function layoutShifts(page: Page): Promise<{ total: number; moves: string[] }> {
  return page.evaluate(`(async () => {
    await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    window.noteLayoutShifts(window.layoutShiftObserver.takeRecords());
    return {
      total: window.layoutShifts.reduce((sum, { value }) => sum + value, 0),
      moves: window.layoutShifts.flatMap(({ value, moves }) => moves.map((move) => value.toFixed(4) + " " + move)),
    };
  })()`);
}
