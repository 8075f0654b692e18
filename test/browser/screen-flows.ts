import type { Locator, Page } from "playwright-core";
import type { Screen } from "./screen.ts";

export const clipboard = { permissions: ["clipboard-read", "clipboard-write"] };

/**
 * Opens the dialog of a new key and waits for its form. On a slow machine, a dialog that says so
 * comes first.
 */
export async function openCreateDialog(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Create new secret key" }).click();
  await page.getByLabel("Label (optional)").waitFor();
}

/** Waits until all of the page of a team's keys is loaded, with the lazy parts. */
export async function wholePage(page: Page): Promise<void> {
  await page.getByRole("combobox", { name: "App" }).waitFor();
}

/** Creates a key by hand, up to the dialog that shows its value. */
export async function createByHand(page: Page, label: string): Promise<{ dialog: Locator; value: string }> {
  await page.getByRole("button", { name: "Create new secret key" }).click();
  await page.getByLabel("Label (optional)").fill(label);
  await page.getByRole("button", { name: "Create key" }).click();
  const dialog = page.getByRole("dialog", { name: "Save your key" });
  return { dialog, value: await dialog.locator("#secret-key").inputValue() };
}

/** Creates keys as an internal service would. Returns their ids. */
export async function makeKeys({ keyrun }: Screen, ...labels: string[]): Promise<string[]> {
  const ids: string[] = [];
  for (const label of labels) {
    const { key } = await keyrun.keys.createKey({ teamId: "demo", label });
    ids.push(key!.id);
  }
  return ids;
}

/** The row of a key in the list. */
export function rowOf(page: Page, label: string): Locator {
  return page.getByRole("row").filter({ has: page.getByRole("rowheader", { name: label }) });
}

/** Goes back in the history, and waits until the page has answered that. */
export async function goBackInVain(page: Page): Promise<void> {
  await page.evaluate(`new Promise((resolve) => {
    addEventListener("popstate", () => setTimeout(resolve), { once: true });
    history.back();
  })`);
}
