import { expect, test } from "vitest";
import { outOfSight } from "./page-probes.ts";
import { describeInBrowser, openScreen } from "./screen.ts";
import { loseCalls } from "./screen-calls.ts";
import { createByHand, makeKeys, openCreateDialog, wholePage } from "./screen-flows.ts";
import { expectWellMade } from "./screen-state.ts";

/** A small laptop; the same at 200 % zoom; a phone; and a laptop's window under its own bars. */
const sizes = [
  { width: 1280, height: 800 },
  { width: 640, height: 400 },
  { width: 320, height: 640 },
  { width: 640, height: 340 },
];

describeInBrowser("the foot of a dialog", () => {
  test("stays in sight in each dialog and size, also with errors, and covers nothing that has the focus", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await makeKeys(screen, "ci-deploy of a team whose labels are as long as labels may be");
    await screen.signIn();
    await wholePage(page);
    const check = async (dialog: string) => {
      for (const size of sizes) {
        await page.setViewportSize(size);
        expect({ dialog, size, hidden: await outOfSight(page) }).toEqual({ dialog, size, hidden: [] });
      }
      await page.setViewportSize(sizes[0]!);
    };
    const back = async () => {
      await page.keyboard.press("Escape");
      await page.locator("dialog").waitFor({ state: "detached" });
    };

    await openCreateDialog(page);
    await page.getByLabel("Expires").selectOption("date");
    await page.locator("dialog summary").click();
    await page.getByLabel("Requests a minute").fill("7000000");
    await page.getByLabel("Label (optional)").fill("W".repeat(129));
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByText("Choose a day.").waitFor();
    await check("create, with three errors");
    await expectWellMade(page, "create-errors");
    await back();

    await page.getByRole("button", { name: /^ci-deploy/ }).click();
    await check("details");
    await page.getByRole("button", { name: "Edit…" }).click();
    await page.getByLabel("Label (optional)").fill("W".repeat(129));
    await page.getByRole("button", { name: "Save" }).click();
    await check("edit, with an error");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Rotate…" }).click();
    await check("rotate");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Revoke key…" }).click();
    await page.getByRole("alertdialog").waitFor();
    await check("revoke");
    await back();

    const { dialog } = await createByHand(page, "ci");
    await dialog.getByRole("button", { name: "Send a test request" }).click();
    await dialog.getByText("It works").waitFor();
    await check("save your key");
    await page.keyboard.press("Escape");
    await dialog.getByText("Close without copying?").waitFor();
    await check("close without copying");
  });

  test("a refusal at the end of a long form is shown, although the form has to be scrolled for it", async () => {
    const screen = await openScreen({ browser: { viewport: { width: 640, height: 400 } } });
    const { page } = screen;
    await screen.signIn();
    await wholePage(page);
    await loseCalls(page, "KeyService/CreateKey");
    await openCreateDialog(page);
    await page.getByRole("button", { name: "Create key" }).click();
    const note = page.getByRole("alert");
    await note.getByText("Trying again is safe").waitFor();
    const foot = page.locator("dialog .dialog-buttons");
    await expect
      .poll(async () => {
        const [of, above] = [await note.boundingBox(), await foot.boundingBox()];
        return of!.y + of!.height <= above!.y;
      })
      .toBe(true);
  });

  test("the answer to a test request is shown, although the dialog has to be scrolled for it", async () => {
    const screen = await openScreen({ browser: { viewport: { width: 640, height: 400 } } });
    const { page } = screen;
    await screen.signIn();
    await wholePage(page);
    const { dialog } = await createByHand(page, "ci");
    await dialog.getByRole("button", { name: "Send a test request" }).click();
    await dialog.getByText("It works").waitFor();
    const foot = dialog.locator(".dialog-buttons");
    await expect
      .poll(async () => {
        const [of, above] = [await dialog.locator(".answer").boundingBox(), await foot.boundingBox()];
        return of!.y + of!.height <= above!.y;
      })
      .toBe(true);
  });

  test("at 400 % zoom the foot makes room for the form", async () => {
    const screen = await openScreen({ browser: { viewport: { width: 320, height: 256 } } });
    const { page } = screen;
    await screen.signIn();
    await wholePage(page);
    await openCreateDialog(page);
    const button = page.getByRole("button", { name: "Create key" });
    expect((await button.boundingBox())!.y).toBeGreaterThan(256);
    await button.scrollIntoViewIfNeeded();
    expect((await button.boundingBox())!.y).toBeLessThan(256);
  });
});
