import { expect, test } from "vitest";
import { bounds } from "../../web/bounds.ts";
import { holdTimers } from "./held-timers.ts";
import { focused, readClipboard } from "./page-probes.ts";
import { describeInBrowser, openScreen } from "./screen.ts";
import { holdCalls, loseAnswers, loseCalls } from "./screen-calls.ts";
import { clipboard, createByHand, goBackInVain, openCreateDialog } from "./screen-flows.ts";
import { expectWellMade } from "./screen-state.ts";

describeInBrowser("creating a key", () => {
  test("a label of 128 code points is accepted; a longer one is refused at the field and never sent", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    await screen.signIn();
    await page.getByRole("button", { name: "Create new secret key" }).click();
    const field = page.getByLabel("Label (optional)");
    const submit = page.getByRole("button", { name: "Create key" });
    await expectWellMade(page, "create");
    await field.fill("😀".repeat(100));
    await page.getByText("100/128").waitFor();
    await field.fill("😀".repeat(99));
    await page.locator(".counter").waitFor({ state: "detached" });
    await field.fill("😀".repeat(129));
    await page.getByText("129/128").waitFor();
    expect(await field.getAttribute("aria-invalid")).toBe("true");
    const describedBy = (await field.getAttribute("aria-describedby"))!.split(" ")[0];
    expect(await page.locator(`#${describedBy}`).textContent()).toBe(
      "The label is too long. Use at most 128 characters.",
    );
    await submit.click();
    await expect.poll(() => focused(page)).toBe("Label (optional)");
    await expectWellMade(page);
    await field.fill("safe\u202etxt");
    await submit.click();
    await page.getByText("The label holds hidden control or text-direction characters").waitFor();
    await field.fill("😀".repeat(128));
    await submit.click();
    await page.getByRole("dialog", { name: "Save your key" }).waitFor();
    const { keys } = await keyrun.keys.listKeys({ teamId: "demo" });
    expect(keys.map(({ label }) => label)).toEqual(["😀".repeat(128)]);
  });

  test("while a key is created nothing closes the dialog, and a second click makes no second key", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    await screen.signIn();
    const release = await holdCalls(page, "KeyService/CreateKey");
    await openCreateDialog(page);
    await page.keyboard.press("Enter");
    const pending = page.getByRole("button", { name: "Creating…" });
    expect(await pending.getAttribute("aria-disabled")).toBe("true");
    await pending.click({ force: true });
    await page.keyboard.press("Enter");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Close" }).click();
    await page.getByRole("button", { name: "Cancel" }).click({ force: true });
    release();
    await page.getByRole("dialog", { name: "Save your key" }).waitFor();
    expect((await keyrun.keys.listKeys({ teamId: "demo" })).keys.length).toBe(1);
  });

  test("the new key is shown once, is all that can be copied, is in no snippet, and its row is marked as new until the next visit", async () => {
    const screen = await openScreen({ browser: clipboard });
    const { page } = screen;
    await screen.signIn();
    const { dialog, value } = await createByHand(page, "ci-deploy");
    await expect.poll(() => focused(page)).toBe("Copy API key");
    expect(await dialog.textContent()).toContain("you won’t be able to view it again");
    const buttons = await dialog.getByRole("button").allTextContents();
    expect(buttons.filter((words) => words.startsWith("Copy"))).toEqual(["Copy API key"]);
    for (const role of ["tab", "radio"] as const) expect(await dialog.getByRole(role).count()).toBe(0);
    await dialog.getByText("Try it, below the keys, shows how a program uses the key.").waitFor();
    const tryIt = page.locator(".try-it");
    expect(await tryIt.textContent()).toContain("The second line waits for the key");
    expect((await tryIt.textContent())!.includes(value)).toBe(false);
    await expectWellMade(page);
    await dialog.getByRole("button", { name: "Send a test request" }).click();
    await dialog.locator(".answer").waitFor();
    await expectWellMade(page, "just-created-and-tried");
    await page.setViewportSize({ width: 1280, height: 400 });
    await dialog.getByRole("button", { name: "Done" }).scrollIntoViewIfNeeded();
    const heading = await dialog.getByRole("heading", { name: "Save your key" }).boundingBox();
    expect(heading!.y).toBeGreaterThan(0);
    await dialog.getByRole("button", { name: "Copy API key" }).click();
    await dialog.getByRole("button", { name: "Done" }).click();
    const badge = page.getByRole("rowheader").getByText("New", { exact: true });
    await badge.waitFor();
    await page.reload();
    await page.getByRole("rowheader").waitFor();
    expect(await badge.count()).toBe(0);
  });

  test("closing without a copy asks once, however often Esc is pressed, and keeps what the person chose", async () => {
    const screen = await openScreen({ browser: clipboard });
    const { page } = screen;
    await screen.signIn();
    const { dialog, value } = await createByHand(page, "ci-deploy");
    for (let times = 0; times < 5; times++) await page.keyboard.press("Escape");
    await dialog.getByText("Close without copying? You won’t see this key again.").waitFor();
    await expect.poll(() => focused(page)).toBe("Copy and close");
    await expectWellMade(page, "close-question");
    await page.keyboard.press("Tab");
    await expect.poll(() => focused(page)).toBe("Keep open");
    await page.keyboard.press("Enter");
    await dialog.getByText("Close without copying?").waitFor({ state: "detached" });
    expect((await dialog.locator("#secret-key").inputValue()) === value).toBe(true);
    await expect.poll(() => focused(page)).toBe("Copy API key");

    await dialog.getByRole("button", { name: "Close", exact: true }).click();
    await dialog.getByRole("button", { name: "Close anyway" }).click();
    await dialog.waitFor({ state: "detached" });
    await expect.poll(() => focused(page)).toBe("Create new secret key");
  });

  test("a key that was copied closes at once", async () => {
    const screen = await openScreen({ browser: clipboard });
    const { page } = screen;
    await holdTimers(screen, bounds.copiedMs);
    await screen.signIn();
    const { dialog } = await createByHand(page, "");
    await page.keyboard.press("Enter");
    await dialog.getByText("API key copied").waitFor({ state: "attached" });
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
  });

  test("a key that was copied in any way is not asked about, and one button at a time is filled", async () => {
    const screen = await openScreen({ browser: clipboard });
    const { page } = screen;
    await screen.signIn();
    const { dialog } = await createByHand(page, "ci-deploy");
    const filled = async () => (await dialog.locator(".button-primary").allTextContents()).join();
    expect(await filled()).toMatch(/^Copy/);
    await dialog.getByRole("button", { name: "Done" }).click();
    await dialog.getByText("Close without copying?").waitFor();
    expect(await filled()).toBe("Copy and close");
    await dialog.getByRole("button", { name: "Keep open" }).click();
    await dialog.getByRole("button", { name: "Copy API key" }).click();
    await expect.poll(filled).toBe("Done");
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
  });

  test("the question before an uncopied key is lost copies it and closes", async () => {
    const screen = await openScreen({ browser: clipboard });
    const { page } = screen;
    await holdTimers(screen, bounds.statusMs);
    await screen.signIn();
    const { dialog, value } = await createByHand(page, "ci-deploy");
    await page.keyboard.press("Escape");
    await expect.poll(() => focused(page)).toBe("Copy and close");
    await page.keyboard.press("Enter");
    await dialog.waitFor({ state: "detached" });
    expect((await readClipboard(page)) === value).toBe(true);
    await page.getByText("Key ci-deploy created").waitFor();
  });

  test("where the clipboard refuses, the question stays open and says how to copy by hand", async () => {
    const screen = await openScreen();
    const { page, context } = screen;
    await context.addInitScript({
      content: "navigator.clipboard.writeText = () => Promise.reject(new Error('refused'))",
    });
    await screen.signIn();
    const { dialog } = await createByHand(page, "");
    await page.keyboard.press("Escape");
    await expect.poll(() => focused(page)).toBe("Copy and close");
    await page.keyboard.press("Enter");
    await dialog.getByText("Press Ctrl+C to copy").waitFor();
    await expect.poll(() => page.evaluate("getSelection().toString().length > 0")).toBe(true);
    expect(await dialog.getByText("Close without copying?").count()).toBe(0);
  });

  test("the key is never cut off: it goes on in the next line", async () => {
    const screen = await openScreen({ browser: { viewport: { width: 320, height: 860 } } });
    const { page } = screen;
    await screen.signIn();
    await createByHand(page, "");
    for (const width of [320, 412, 768, 1280]) {
      await page.setViewportSize({ width, height: 860 });
      const cut = await page.evaluate(`(() => {
        const { scrollWidth, clientWidth, scrollHeight, clientHeight } = document.querySelector("#secret-key");
        return scrollWidth > clientWidth || scrollHeight > clientHeight;
      })()`);
      expect({ width, cut }).toEqual({ width, cut: false });
    }
  });

  test("a test request says that the key works, or in the refusal's words why not, with the wait", async () => {
    const screen = await openScreen({ settings: { KEYRUN_PLAN_LIMITS: "free=1" } });
    const { page } = screen;
    await screen.signIn();
    const { dialog } = await createByHand(page, "");
    const send = dialog.getByRole("button", { name: "Send a test request" });
    await send.click();
    await dialog.getByRole("status").getByText("It works").waitFor();
    expect(await dialog.locator(".retry-wait").count()).toBe(0);
    await send.click();
    await dialog
      .getByRole("status")
      .getByText(/^The team has used its 1 requests? a minute/)
      .waitFor();
    const wait = dialog.getByText(/^You can try again in \d+ s$/);
    const secondsLeft = async () => Number(/\d+/.exec((await wait.textContent())!)![0]);
    const first = await secondsLeft();
    expect(first).toBeLessThanOrEqual(60);
    await expect.poll(secondsLeft).toBeLessThan(first);
    await expectWellMade(page, "tried-and-refused");
  });

  test("a test request to an app that is down says that the key works, and that the app does not", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    await keyrun.apps.deleteApp({ appId: "echo" });
    // Nothing listens on this port: only the system could open it.
    const backend = { kind: { case: "http", value: { url: "http://127.0.0.1:1/run" } } } as const;
    await keyrun.apps.createApp({ app: { id: "down", backend } });
    await screen.signIn();
    const { dialog } = await createByHand(page, "");
    await dialog.getByRole("button", { name: "Send a test request" }).click();
    const status = dialog.getByRole("status");
    await status.getByText("The key works", { exact: true }).waitFor();
    expect(await dialog.locator(".answer-bad").allTextContents()).toEqual([
      expect.stringMatching(/^The app could not be reached/),
    ]);
    await expectWellMade(page, "tried-and-down");
    await keyrun.keys.revokeKey({
      teamId: "demo",
      keyId: (await keyrun.keys.listKeys({ teamId: "demo" })).keys[0]!.id,
    });
    await dialog.getByRole("button", { name: "Send a test request" }).click();
    await dialog.locator(".answer-bad").getByText("The API key was revoked").waitFor();
    expect(await dialog.getByText("The key works").count()).toBe(0);
  });

  test("the page shows the programs of both calls", async () => {
    const screen = await openScreen({ browser: clipboard });
    const { page } = screen;
    await screen.signIn();
    await page.getByRole("radio", { name: "Stream" }).check({ force: true });
    for (const [tab, part] of [
      ["curl", "curl -N -sS -X POST"],
      ["JavaScript", "delta?.text"],
      ["Python", '"delta"'],
    ] as const) {
      await page.getByRole("tab", { name: tab }).click();
      await page.getByRole("button", { name: "Copy snippet" }).click();
      await expect.poll(async () => (await readClipboard(page)).includes(part)).toBe(true);
      expect(await readClipboard(page)).toContain("/api/apps/echo/stream");
    }
    const json = page.getByLabel("JSON input (optional)");
    await json.fill('{"city":');
    await page.getByText("Not JSON yet:").waitFor();
    expect(await json.getAttribute("aria-invalid")).toBe("true");
    expect(await page.locator("pre").textContent()).not.toContain("input");
    await expectWellMade(page, "try-it-wrong-json");
    await json.fill('{"city":"Oslo"}');
    expect(await page.locator("pre").textContent()).toContain(
      '"input": json.loads("{\\"city\\":\\"Oslo\\"}")',
    );
    await expectWellMade(page, "try-it-stream");
    await page.getByRole("radio", { name: "Run" }).check({ force: true });
    expect(await page.locator("pre").textContent()).toContain("/api/apps/echo/run");
  });

  test("a guard is asked and not run: by the program on the page, and by the test request of its key", async () => {
    const screen = await openScreen({ browser: clipboard });
    const { page, keyrun } = screen;
    const backend = { kind: { case: "guard", value: {} } } as const;
    await keyrun.apps.createApp({ app: { id: "orders", backend } });
    await screen.signIn();
    await page.getByRole("tab", { name: "Python" }).click();
    await page.getByRole("combobox", { name: "App" }).selectOption("orders");
    expect(await page.locator("pre").textContent()).toMatch(
      /^curl -sS -i "\$KEYRUN_URL\/api\/apps\/orders\/guard"/,
    );
    expect(await page.getByRole("tab").allTextContents()).toEqual(["curl"]);
    expect(await page.getByRole("radio", { name: "Stream" }).count()).toBe(0);
    await expectWellMade(page, "try-it-guard");
    await page.getByRole("combobox", { name: "App" }).selectOption("echo");
    expect(await page.getByRole("tab", { name: "Python" }).getAttribute("aria-selected")).toBe("true");

    await openCreateDialog(page);
    await page.locator("details.restrict summary").click();
    await page.getByRole("checkbox", { name: "orders" }).check();
    await page.getByRole("button", { name: "Create key" }).last().click();
    const dialog = page.getByRole("dialog", { name: "Save your key" });
    await dialog.getByText("Asks the guard of orders and uses one request").waitFor();
    await dialog.getByRole("button", { name: "Send a test request" }).click();
    await dialog.getByText("It works").waitFor();
    expect(await dialog.getByRole("term").allTextContents()).toEqual(["Status", "RateLimit"]);
    await expectWellMade(page, "tried-guard");
  });

  test("a team without apps sees that, and how to add one, in place of a snippet", async () => {
    const screen = await openScreen({ browser: clipboard });
    const { page, keyrun } = screen;
    await keyrun.apps.deleteApp({ appId: "echo" });
    await screen.signIn();
    await page.getByText("This team has no app to run yet.").waitFor();
    expect(await page.getByRole("tab").count()).toBe(0);
    await expectWellMade(page, "no-apps");
    await page.getByRole("button", { name: "Copy command" }).click();
    await expect
      .poll(() => readClipboard(page))
      .toMatch(/^\.\/keyrun apps create \S+ --backend http .* --team demo$/);
    const { dialog } = await createByHand(page, "");
    await dialog
      .getByText("This team has no app to run yet. Try it, below the keys, shows how to add one.")
      .waitFor();
    expect(await dialog.getByRole("button", { name: "Copy command" }).count()).toBe(0);
    expect(await dialog.getByRole("button", { name: "Send a test request" }).count()).toBe(0);
  });

  test("copying a part of the key by hand does not count: closing still asks", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await screen.signIn();
    await createByHand(page, "ci");
    await page.locator("#secret-key").focus();
    await page.evaluate("document.activeElement.setSelectionRange(0, 8)");
    await page.keyboard.press("Control+C");
    await page.locator("#save-key-text").dblclick({ position: { x: 12, y: 8 } });
    await page.keyboard.press("Control+C");
    await page.keyboard.press("Escape");
    await page.getByText("Close without copying?").waitFor();
  });

  test("where the clipboard refuses, the key is selected, and copying it by hand counts", async () => {
    const screen = await openScreen({ browser: { permissions: ["clipboard-read"] } });
    const { page, context } = screen;
    await context.addInitScript({
      content: "navigator.clipboard.writeText = () => Promise.reject(new Error('refused'))",
    });
    await screen.signIn();
    const { dialog, value } = await createByHand(page, "");
    await dialog.getByRole("button", { name: "Copy API key" }).click();
    await dialog.getByText("Press Ctrl+C to copy").waitFor();
    await page.keyboard.press("Control+c");
    await expect.poll(async () => (await readClipboard(page)) === value).toBe(true);
    await dialog.getByRole("button", { name: "Done" }).click();
    await dialog.waitFor({ state: "detached" });
  });

  test("Back asks before a key that was not copied is lost, and stays", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const otherId = await keyrun.newTeam();
    await keyrun.teams.addMember({ teamId: otherId, email: "owner@localhost" });
    await screen.signIn();
    await page.getByLabel("Team", { exact: true }).selectOption(otherId);
    await page.waitForURL(`**/${otherId}/api-keys`);
    const { dialog } = await createByHand(page, "");
    await page.evaluate("history.back()");
    await dialog.getByText("Close without copying?").waitFor();
    expect(page.url()).toBe(screen.url(`/settings/team/${otherId}/api-keys`));
    await dialog.getByRole("button", { name: "Close anyway" }).click();
    await page.evaluate("history.back()");
    await page.waitForURL("**/demo/api-keys");
  });

  test("while a key is created, Back stays and asks nothing, and closing the tab asks", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const otherId = await keyrun.newTeam();
    await keyrun.teams.addMember({ teamId: otherId, email: "owner@localhost" });
    await screen.signIn();
    await page.getByLabel("Team", { exact: true }).selectOption(otherId);
    await page.waitForURL(`**/${otherId}/api-keys`);
    const release = await holdCalls(page, "KeyService/CreateKey");
    await openCreateDialog(page);
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Creating…" }).waitFor();
    await goBackInVain(page);
    expect(page.url()).toBe(screen.url(`/settings/team/${otherId}/api-keys`));
    const asked = page.waitForEvent("dialog");
    await page.close({ runBeforeUnload: true });
    const question = await asked;
    expect(question.type()).toBe("beforeunload");
    await question.dismiss();
    release();
    const dialog = page.getByRole("dialog", { name: "Save your key" });
    await dialog.locator("#secret-key").waitFor();
    expect(await dialog.getByText("Close without copying?").count()).toBe(0);
  });

  test("closing the tab asks before a key that was not copied is lost, and no longer after a copy", async () => {
    const screen = await openScreen({ browser: clipboard });
    const { page } = screen;
    await holdTimers(screen, bounds.copiedMs);
    await screen.signIn();
    const { dialog } = await createByHand(page, "");
    const asked: string[] = [];
    page.on("dialog", (question) => {
      asked.push(question.type());
      void question.dismiss();
    });
    await page.close({ runBeforeUnload: true });
    await expect.poll(() => asked).toEqual(["beforeunload"]);
    await dialog.getByRole("button", { name: "Copy API key" }).click();
    await dialog.getByText("API key copied").waitFor({ state: "attached" });
    await Promise.all([page.waitForEvent("close"), page.close({ runBeforeUnload: true })]);
    expect(asked.length).toBe(1);
  });

  test("a request lost on its way: trying again creates the one key", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    await screen.signIn();
    const find = await loseCalls(page, "KeyService/CreateKey");
    await page.getByRole("button", { name: "Create new secret key" }).click();
    await page.getByLabel("Label (optional)").fill("ci-deploy");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").getByText("Trying again is safe").waitFor();
    await expectWellMade(page);
    await find();
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByRole("dialog", { name: "Save your key" }).waitFor();
    const { keys } = await keyrun.keys.listKeys({ teamId: "demo" });
    expect(keys.map(({ label }) => label)).toEqual(["ci-deploy"]);
  });

  test("an answer lost on its way: says that a key without its secret exists, revokes it, and creates a new one", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    await screen.signIn();
    const find = await loseAnswers(page, "KeyService/CreateKey");
    await page.getByRole("button", { name: "Create new secret key" }).click();
    await page.getByLabel("Label (optional)").fill("ci-deploy");
    await page.keyboard.press("Enter");
    await page.getByText("A key was created but its secret did not reach this browser.").waitFor();
    await expect.poll(() => focused(page)).toBe("Revoke");
    await expectWellMade(page, "lost-response");
    await find();
    await page.keyboard.press("Enter");
    expect(await page.getByLabel("Label (optional)").inputValue()).toBe("ci-deploy");
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByRole("dialog", { name: "Save your key" }).waitFor();
    const { keys } = await keyrun.keys.listKeys({ teamId: "demo", showRevoked: true });
    expect(keys.map(({ revokeTime }) => revokeTime !== undefined)).toEqual([false, true]);
    // No one else revoked it, so the page announces no revocation, and the row of the lost key
    // goes.
    expect(await page.getByText("was revoked by").count()).toBe(0);
    expect(await page.locator("tr.past").count()).toBe(0);
  });

  test("an answer lost on its way, and the list as well: trying again creates no second key", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    await screen.signIn();
    const findAnswers = await loseAnswers(page, "KeyService/CreateKey");
    const findLists = await loseCalls(page, "KeyService/ListKeys");
    await openCreateDialog(page);
    await page.keyboard.press("Enter");
    await page.getByText("Trying again is safe").waitFor();
    await findAnswers();
    await findLists();
    await page.getByRole("button", { name: "Create key" }).click();
    await page.getByText("A key was created but its secret did not reach this browser.").waitFor();
    expect((await keyrun.keys.listKeys({ teamId: "demo" })).keys.length).toBe(1);
  });
});
