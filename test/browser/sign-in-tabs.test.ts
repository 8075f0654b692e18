import type { Page } from "playwright-core";
import { expect, onTestFinished, test } from "vitest";
import { freePort } from "../harness/free-port.ts";
import { startIssuer } from "../harness/issuer.ts";
import { describeInBrowser, openScreen, type Screen } from "./screen.ts";
import { makeKeys, rowOf } from "./screen-flows.ts";

/** A screen whose people sign in at an issuer. Ada may use it. */
async function openScreenWithIssuer() {
  const port = await freePort();
  const publicUrl = `http://127.0.0.1:${port}`;
  const issuer = await startIssuer(`${publicUrl}/sign-in/callback`);
  onTestFinished(() => issuer.close());
  const email = "ada@example.com";
  issuer.state.accounts.set("ada", { email, email_verified: true });
  const screen = await openScreen({ settings: { KEYRUN_PORT: String(port), ...issuer.settings(publicUrl) } });
  await screen.keyrun.teams.addMember({ teamId: "demo", email });
  await screen.keyrun.teams.setPreviewAccess({ email, granted: true });
  return { screen, issuer };
}

/** Opens a tab for each path, all at once, and waits until each is at the issuer. */
async function openTabs(screen: Screen, paths: readonly string[]): Promise<Page[]> {
  const tabs = await Promise.all(paths.map(() => screen.context.newPage()));
  await Promise.all(tabs.map((tab, n) => tab.goto(screen.url(paths[n]!))));
  await Promise.all(tabs.map((tab) => tab.getByPlaceholder("Enter any login").waitFor()));
  return tabs;
}

/** Signs in as Ada in the form of the issuer, and agrees. */
async function signInAtIssuer(tab: Page): Promise<void> {
  await tab.getByPlaceholder("Enter any login").fill("ada");
  await tab.getByPlaceholder("and password").fill("any");
  await tab.getByRole("button", { name: "Sign-in" }).click();
  const agree = tab.getByRole("button", { name: "Continue" });
  await Promise.race([agree.waitFor().then(() => agree.click()), tab.waitForURL("**/settings/**")]);
}

const allPaths = ["/settings/team/demo/api-keys", "/settings/team/demo/activity", "/"];

describeInBrowser("tabs that a browser has restored, with an issuer", () => {
  test.each([2, 3])("%i of them are all signed in, and each goes where it was going", async (count) => {
    const { screen } = await openScreenWithIssuer();
    const tabs = await openTabs(screen, allPaths.slice(0, count));
    for (const tab of tabs) await signInAtIssuer(tab);
    for (const [n, tab] of tabs.entries()) {
      const path = allPaths[n] === "/" ? "/settings/team/demo/api-keys" : allPaths[n];
      await tab.waitForURL(screen.url(path!));
      await tab.getByRole("button", { name: /^Account/ }).waitFor();
    }
    // No tab has signed another out: the first still sees what happens.
    await tabs[0]!.getByText(/^\d+ active keys? \(up to \d+/).waitFor();
    await makeKeys(screen, "made-later");
    await rowOf(tabs[0]!, "made-later").waitFor();
    const names = (await screen.context.cookies(screen.url("/"))).map(({ name }) => name);
    expect(names.filter((name) => name.startsWith("keyrun"))).toEqual([
      `keyrun-${new URL(screen.url("/")).port}`,
    ]);
  });

  test("one that is cancelled ends no other, and then goes where it was going", async () => {
    const { screen } = await openScreenWithIssuer();
    const [first, second, third] = await openTabs(screen, allPaths);
    await first!.getByRole("link", { name: "Cancel" }).click();
    await first!.getByRole("heading", { name: "You are not signed in" }).waitFor();
    await signInAtIssuer(second!);
    await second!.waitForURL(screen.url(allPaths[1]!));
    // By now there is a session.
    await third!.getByRole("link", { name: "Cancel" }).click();
    await third!.waitForURL(screen.url("/settings/team/demo/api-keys"));
  });
});
