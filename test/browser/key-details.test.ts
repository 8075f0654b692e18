import { expect, test } from "vitest";
import { bounds } from "../../web/bounds.ts";
import { holdTimers } from "./held-timers.ts";
import { focused, readClipboard } from "./page-probes.ts";
import { describeInBrowser, openScreen } from "./screen.ts";
import { clipboard, createByHand, makeKeys, rowOf } from "./screen-flows.ts";
import { expectWellMade } from "./screen-state.ts";

const teamId = "demo";
const longLabels = [
  "W".repeat(128),
  "本番環境の鍵".repeat(21),
  "👩‍💻🚀".repeat(32),
  "مفتاح النشر ".repeat(10).trim(),
];

describeInBrowser("all that is known of a key", () => {
  test("its label opens the whole label, its id to copy, and exact times, by keyboard as well", async () => {
    const screen = await openScreen({ browser: { ...clipboard, locale: "de-DE" } });
    const { page, keyrun } = screen;
    const label = longLabels[0]!;
    const { key, value } = await keyrun.keys.createKey({ teamId, label });
    await screen.run(value);
    await screen.signIn();
    const created = page.locator("tbody time").first();
    await created.hover();
    expect(await created.getAttribute("title")).toMatch(/^\d\d?\.\d\d?\.\d{4}, /);
    await page.getByRole("button", { name: label, exact: true }).focus();
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog", { name: "Key details" });
    await expect.poll(() => focused(page)).toBe("Close");
    const facts = await dialog.getByRole("definition").allTextContents();
    expect(facts.slice(0, 2)).toEqual([label, key!.redactedValue]);
    expect(facts[2]).toContain(key!.id);
    // As German writes it, with the zone.
    const exact = /^\d\d?\.\d\d?\.\d{4}, \d\d:\d\d:\d\d \S+ \((just now|\d+ (?:second|minute)s? ago)\)/;
    expect(facts[3]).toMatch(exact);
    expect(facts[3]).toMatch(/by the service token$/);
    expect(facts[4]).toMatch(exact);
    expect(await dialog.locator("time[lang]").first().getAttribute("lang")).toBe("de-DE");
    await expectWellMade(page, "details");
    await dialog.getByRole("button", { name: "Copy key id" }).click();
    await expect.poll(() => readClipboard(page)).toBe(key!.id);
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await expect.poll(() => focused(page)).toBe(label);
  });

  test("while they are open, a revocation elsewhere shows; and they lead to the revocation", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const [first] = await makeKeys(screen, "ci-deploy", "other");
    const opened = page.waitForResponse("**/keyrun.v1.KeyService/WatchKeys");
    await screen.signIn();
    await opened;
    await page.getByRole("button", { name: "ci-deploy", exact: true }).click();
    const dialog = page.getByRole("dialog", { name: "Key details" });
    await dialog.getByRole("button", { name: "Revoke key…" }).waitFor();
    await keyrun.keys.revokeKey({ teamId, keyId: first! });
    await dialog.getByRole("term").getByText("Revoked").waitFor();
    expect(await dialog.getByRole("button", { name: "Revoke key…" }).count()).toBe(0);
    await expectWellMade(page, "details-revoked");
    await dialog.locator(".dialog-buttons").getByRole("button", { name: "Close" }).click();
    await page.getByRole("button", { name: "other", exact: true }).click();
    await dialog.getByRole("button", { name: "Revoke key…" }).click();
    await page.getByRole("alertdialog", { name: "Revoke other?" }).waitFor();
    await expect.poll(() => focused(page)).toBe("Cancel");
    await page.keyboard.press("Escape");
    await expect.poll(() => focused(page)).toBe("Revoke other");
  });

  test("however long a label is, its row, its badge, the dialogs and the message keep their size", async () => {
    const screen = await openScreen({ browser: clipboard });
    const { page, keyrun } = screen;
    const ids = await makeKeys(screen, ...longLabels);
    await keyrun.keys.revokeKey({ teamId, keyId: ids[1]! });
    const pass = await holdTimers(screen, bounds.statusMs);
    // The row of a past key has a line more for "2 seconds ago" than for "just now".
    await page.clock.setFixedTime(Date.now());
    await screen.signIn();
    await page.getByRole("radio", { name: "Past" }).check();
    await page.getByText("Revoked", { exact: true }).waitFor();
    const { dialog } = await createByHand(page, longLabels[0]!);
    await dialog.getByRole("button", { name: longLabels[0]! }).click();
    expect(await dialog.getByRole("button", { name: longLabels[0]! }).getAttribute("aria-expanded")).toBe(
      "true",
    );
    await dialog.getByRole("button", { name: "Copy API key" }).click();
    await dialog.getByRole("button", { name: "Done" }).click();
    const message = await page.locator(".toast").boundingBox();
    expect(message!.height).toBeLessThan(72);
    await pass();
    // Two lines of a label and one of a badge, and in narrower windows one of the key; cards have
    // one line for the label.
    for (const [width, heightMax] of [
      [1280, 80],
      [768, 100],
      [320, 114],
    ] as const) {
      await page.setViewportSize({ width, height: 860 });
      // The page learns of its width, and renders anew, a moment later.
      const fitting = async () => {
        const heights = await page.evaluate<number[]>(
          "[...document.querySelectorAll('.keys tbody tr')].map((row) => row.getBoundingClientRect().height)",
        );
        return heights.map((height) => height <= heightMax);
      };
      await expect.poll(fitting, { message: `${width} px` }).toEqual([true, true, true, true]);
    }
    await expectWellMade(page, "long-labels");
    await page.setViewportSize({ width: 1280, height: 860 });
    await page
      .locator("tbody")
      .getByRole("button", { name: /^Revoke W/ })
      .first()
      .click();
    const alert = page.getByRole("alertdialog");
    await alert.getByText(longLabels[0]!, { exact: true }).waitFor();
    expect((await alert.getByRole("heading").boundingBox())!.height).toBeLessThan(60);
    await expectWellMade(page, "revoke-long-label");
  });

  test("on a small phone the card of a key is at most 92 px high", async () => {
    const screen = await openScreen({
      browser: { hasTouch: true, isMobile: true, viewport: { width: 320, height: 700 } },
    });
    const { page, keyrun } = screen;
    const { value } = await keyrun.keys.createKey({ teamId, label: "ci-deploy" });
    await screen.run(value);
    await makeKeys(screen, "");
    await screen.signIn();
    for (const label of ["ci-deploy", "Untitled key"]) {
      const box = await rowOf(page, label).boundingBox();
      expect(box!.height).toBeLessThanOrEqual(92);
    }
  });
});
