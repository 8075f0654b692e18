import { fileURLToPath } from "node:url";
import { AxeBuilder } from "@axe-core/playwright";
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { tooWide } from "./page-probes.ts";

/** For people, who ask for them: they take a second a state. */
const takesPictures = process.env.KEYRUN_TEST_PICTURES === "1";
const pictures = fileURLToPath(new URL("../../artifacts/screens", import.meta.url));
const themes = ["light", "dark"] as const;
const widths = [320, 768, 1280];
const height = 860;

/**
 * What each state of the screen promises: axe finds no violation, and nothing scrolls sideways.
 * With a `name`, also takes pictures where KEYRUN_TEST_PICTURES asks for them.
 */
export async function expectWellMade(page: Page, name?: string): Promise<void> {
  await expectAccessible(page);
  await expectNoSidewaysScroll(page);
  if (name !== undefined) await takePictures(page, name);
}

/**
 * Checks the page by WCAG 2.2 up to level AA, and by the good practices that axe knows: all of it
 * in light, and in dark again what is a matter of colours.
 */
export async function expectAccessible(page: Page): Promise<void> {
  for (const colorScheme of themes) {
    await page.emulateMedia({ colorScheme });
    const [allTags, ofColours] = [
      { type: "tag" as const, values: tags },
      { type: "rule" as const, values: colourRules },
    ];
    const runOnly = colorScheme === "light" ? allTags : ofColours;
    // The other mode reads the frames, of which a page has none, and opens a page for it each time.
    const { violations, passes } = await new AxeBuilder({ page })
      .setLegacyMode()
      .options({ runOnly })
      .analyze();
    const found = violations.map(({ id, nodes }) => ({
      id,
      at: nodes.map(({ target, failureSummary }) => `${target}: ${failureSummary}`),
    }));
    expect({ colorScheme, found }).toEqual({ colorScheme, found: [] });
    // Proves that axe looked at something: an empty page has no violation either.
    expect(passes.length).toBeGreaterThan(colorScheme === "light" ? 15 : 0);
  }
}

const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
const colourRules = ["color-contrast", "link-in-text-block"];

/** WCAG 2.2, 1.4.10: at 320 px neither the page nor a dialog on it scrolls sideways. */
async function expectNoSidewaysScroll(page: Page): Promise<void> {
  const before = page.viewportSize();
  await page.setViewportSize({ width: 320, height });
  expect(await tooWide(page)).toEqual([]);
  if (before) await page.setViewportSize(before);
}

/**
 * Puts pictures into `artifacts/screens/`, for people to look at. None shows the value of a key.
 */
export async function takePictures(page: Page, name: string): Promise<void> {
  if (!takesPictures) return;
  const before = page.viewportSize();
  const fullPage = (await page.locator("dialog[open], :popover-open").count()) === 0;
  for (const width of widths) {
    await page.setViewportSize({ width, height });
    for (const colorScheme of themes) {
      await page.emulateMedia({ colorScheme });
      const path = `${pictures}/${name}-${width}-${colorScheme}.png`;
      await page.screenshot({ path, fullPage, ...withoutSecrets(page) });
    }
  }
  if (before) await page.setViewportSize(before);
}

/** The options for a picture that shows no key. */
function withoutSecrets(page: Page) {
  return { mask: [page.locator("#secret-key")], maskColor: "#8b8d98" };
}
