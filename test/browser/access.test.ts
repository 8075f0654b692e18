import { expect, test } from "vitest";
import { colourOf } from "./page-probes.ts";
import { describeInBrowser, openScreen } from "./screen.ts";
import { makeKeys, rowOf } from "./screen-flows.ts";
import { expectWellMade } from "./screen-state.ts";

const email = "owner@localhost";

describeInBrowser("which page a person sees", () => {
  test("a deep link leads through sign-in and back, and the code stays neither in the address nor in the history", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    await page.goto(screen.url("/settings/team/demo/api-keys"));
    await page.getByRole("heading", { name: "Sign in to Keyrun" }).waitFor();
    expect(new URL(page.url()).searchParams.get("return_to")).toBe("/settings/team/demo/api-keys");
    await expectWellMade(page, "sign-in");
    const { url } = await keyrun.sessions.createSignInLink({});
    const tab = await screen.context.newPage();
    const addresses: string[] = [];
    tab.on("request", (request) => void addresses.push(request.url()));
    await tab.goto(url);
    await tab.getByRole("heading", { name: "API keys", exact: true }).waitFor();
    const code = new URL(url).hash;
    expect([tab.url(), ...addresses].filter((address) => address.includes(code))).toEqual([]);
    await tab.goBack();
    await tab.waitForURL("about:blank");
    // The page that waits in the first tab goes on without a click.
    await page.waitForURL("**/settings/team/demo/api-keys");
  });

  test("a link works once: the second time it says so, and how to get another", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const { url } = await keyrun.sessions.createSignInLink({});
    await page.goto(url);
    await page.waitForURL("**/settings/**");
    await screen.context.clearCookies();
    await page.goto("about:blank");
    await page.goto(url);
    await page.getByRole("heading", { name: "This sign-in link no longer works" }).waitFor();
    expect(await page.locator("main code").textContent()).toBe("./keyrun sign-in-link");
    await expectWellMade(page, "used-link");
    // A new link in the same tab changes the address behind its # alone.
    await page.goto((await keyrun.sessions.createSignInLink({})).url);
    await page.waitForURL("**/settings/**");
  });

  test("who is signed out elsewhere is told to sign in, and not to report a code", async () => {
    const screen = await openScreen();
    const { page, context } = screen;
    await makeKeys(screen, "ci-deploy");
    await screen.signIn();
    const dialogs: [open: string, act: string][] = [
      ["Create new secret key", "Create key"],
      ["Revoke ci-deploy", "Revoke key"],
    ];
    const cookies = await context.cookies();
    for (const [open, act] of dialogs) {
      await context.addCookies(cookies);
      await page.reload();
      await page.getByRole("button", { name: open }).click();
      await page.getByRole("button", { name: act }).waitFor();
      await context.clearCookies();
      await page.getByRole("button", { name: act }).click();
      await page.getByText("You were signed out. Sign in in another tab, then try again.").waitFor();
      expect(await page.locator("body").innerText()).not.toMatch(
        /missing_credential|Request id|tell whoever/,
      );
    }
  });

  test("signing out ends the session for every tab, and says that keys keep working", async () => {
    const screen = await openScreen();
    const { page, context } = screen;
    await screen.signIn();
    const [cookie] = await context.cookies();
    await page.getByRole("button", { name: /^Account/ }).click();
    await expectWellMade(page, "account-menu");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByText("Keys of your teams keep working.").waitFor();
    await expectWellMade(page, "signed-out");
    expect(await context.cookies()).toEqual([]);
    await context.addCookies([cookie!]);
    await page.goto(screen.url("/settings/team/demo/api-keys"));
    await page.getByRole("heading", { name: "Sign in to Keyrun" }).waitFor();
  });

  test("a team that the person is not in looks exactly like a team that does not exist", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const otherId = await keyrun.newTeam();
    await keyrun.newKey(otherId);
    await screen.signIn();
    const seen: string[] = [];
    for (const teamId of [otherId, "nobody"]) {
      await page.goto(screen.url(`/settings/team/${teamId}/api-keys`));
      await page.getByRole("heading", { name: "Team not found" }).waitFor();
      // Who the person is may be known a moment later than that.
      await page.locator("main .command").getByText(`members add ${teamId} ${email}`).waitFor();
      seen.push((await page.getByRole("main").innerHTML()).replaceAll(teamId, "<team>"));
    }
    expect(seen[0]).toBe(seen[1]);
    expect(await page.locator("main .command").textContent()).toContain(`members add nobody ${email}`);
    await expectWellMade(page, "team-not-found");
    // Until it is known who the person is, there is no command that lacks it.
    const known = Promise.withResolvers<void>();
    await page.route("**/keyrun.v1.SessionService/GetSession", async (route) => {
      await known.promise;
      await route.continue();
    });
    await page.reload();
    await page.getByRole("heading", { name: "Team not found" }).waitFor();
    expect(await page.locator("main .command").count()).toBe(0);
    known.resolve();
    await page.locator("main .command").getByText(`members add nobody ${email}`).waitFor();
    // What anybody may have written into an address is in no command.
    await page.goto(screen.url("/settings/team/$(reboot)/api-keys"));
    await page.locator("main .command").getByText(`members add <team_id> ${email}`).waitFor();
  });

  test("a person who is removed from the team loses it at once, and the team's keys keep working", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const { value } = await keyrun.keys.createKey({ teamId: "demo", label: "ci-deploy" });
    await screen.signIn();
    await rowOf(page, "ci-deploy").waitFor();
    await keyrun.teams.removeMember({ teamId: "demo", email });
    await page.getByRole("heading", { name: "Team not found" }).waitFor();
    expect(await page.getByText("ci-deploy").count()).toBe(0);
    await page.goto(screen.url("/"));
    await page.getByRole("heading", { name: "You are not in a team yet" }).waitFor();
    await expectWellMade(page, "no-team");
    expect((await screen.run(value)).status).toBe(200);
  });

  test("a person who loses preview access sees at once what that means and whom to ask, and the keys keep working", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const { value } = await keyrun.keys.createKey({ teamId: "demo", label: "ci-deploy" });
    await screen.signIn();
    await keyrun.teams.setPreviewAccess({ email, granted: false });
    await page.getByText("API keys are in preview and limited to selected users.").waitFor();
    expect(await page.getByText("ci-deploy").count()).toBe(0);
    await page.reload();
    await page.getByText("API keys are in preview and limited to selected users.").waitFor();
    await expect.poll(() => page.locator("main code").textContent()).toBe(`./keyrun preview grant ${email}`);
    await expect.poll(() => page.getByRole("navigation").count()).toBe(0);
    await expectWellMade(page, "preview-off");
    expect((await screen.run(value)).status).toBe(200);
    await keyrun.teams.setPreviewAccess({ email, granted: true });
    await page.reload();
    await rowOf(page, "ci-deploy").waitFor();
  });

  test("with two teams the choice is in the address, and each shows its own keys", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const otherId = await keyrun.newTeam();
    await keyrun.teams.addMember({ teamId: otherId, email });
    await keyrun.keys.createKey({ teamId: otherId, label: "theirs" });
    await makeKeys(screen, "ours");
    await screen.signIn();
    await rowOf(page, "ours").waitFor();
    await page.getByLabel("Team", { exact: true }).selectOption(otherId);
    await rowOf(page, "theirs").waitFor();
    expect(new URL(page.url()).pathname).toBe(`/settings/team/${otherId}/api-keys`);
    expect(await page.title()).toBe(`API keys · ${otherId} · Keyrun`);
    expect(await rowOf(page, "ours").count()).toBe(0);
    await expectWellMade(page, "two-teams");
    await page.goBack();
    await rowOf(page, "ours").waitFor();
    expect(await page.title()).toBe("API keys · Demo · Keyrun");
  });

  test("each command that a page shows calls this very Keyrun", async () => {
    const command = "KEYRUN_DATA_DIR='/srv/my <data>' keyrun";
    const screen = await openScreen({ command });
    const { page, keyrun } = screen;
    const shown = () => page.locator("main .command code").textContent();
    await page.goto(screen.url("/"));
    await page.getByRole("heading", { name: "Sign in to Keyrun" }).waitFor();
    expect(await shown()).toBe(`${command} sign-in-link`);
    await screen.signIn();
    await keyrun.apps.deleteApp({ appId: "echo" });
    await page.goto(screen.url("/settings/team/demo/api-keys"));
    await expect.poll(shown).toContain(`${command} apps create shout `);
    await page.goto(screen.url("/settings/team/nobody/api-keys"));
    await expect.poll(shown).toBe(`${command} members add nobody ${email}`);
    await keyrun.teams.removeMember({ teamId: "demo", email });
    await page.goto(screen.url("/"));
    await expect.poll(shown).toBe(`${command} members add <team_id> ${email}`);
    await keyrun.teams.setPreviewAccess({ email, granted: false });
    await page.goto(screen.url("/"));
    await expect.poll(shown).toBe(`${command} preview grant ${email}`);
  });

  test("an address without a page says so", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await screen.signIn();
    for (const path of ["/settings/nowhere", "/nowhere", "/docs/nowhere"]) {
      const answer = await page.goto(screen.url(path));
      expect(answer?.status()).toBe(path.startsWith("/settings/") ? 200 : 404);
      await page.getByRole("heading", { name: "Page not found" }).waitFor();
    }
    await page.goto(screen.url("/docs"));
    await page.waitForURL("**/docs/api");
    await page.goto(screen.url("/nowhere"));
    await page.getByRole("heading", { name: "Page not found" }).waitFor();
    await expectWellMade(page);
    await page.getByRole("link", { name: "Go to API keys" }).click();
    await page.waitForURL("**/demo/api-keys");
  });

  test("the chosen theme is in force after a reload, before anything is painted", async () => {
    const screen = await openScreen({ browser: { colorScheme: "light" } });
    const { page } = screen;
    await screen.signIn();
    const heading = page.getByRole("heading", { level: 1 });
    const light = await colourOf(heading);
    await page.getByRole("button", { name: /^Account/ }).click();
    await page.getByRole("radio", { name: "Dark" }).check();
    await expect.poll(() => colourOf(heading)).not.toBe(light);
    const dark = await colourOf(heading);
    // The screen itself is held back, so only the small script in the head has run.
    await page.route("**/assets/index-*.js", (route) => route.abort());
    await page.reload();
    expect(await page.locator("html").getAttribute("data-theme")).toBe("dark");
    expect(await colourOf(page.locator("body"))).toBe(dark);
  });
});
