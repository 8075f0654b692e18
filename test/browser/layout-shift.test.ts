import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { layoutShiftListener, layoutShifts } from "./page-probes.ts";
import { describeInBrowser, openScreen, type Screen } from "./screen.ts";
import { holdCalls } from "./screen-calls.ts";
import { makeKeys } from "./screen-flows.ts";

/** The most that the parts of the page may move in total while it loads. */
const layoutShiftMax = 0.05;
const keysPath = "/settings/team/demo/api-keys";
const phone = { hasTouch: true, isMobile: true } as const;

describeInBrowser("while the page loads, nothing moves", () => {
  test.each([
    { width: 320, height: 568, keys: 5, touch: true },
    { width: 412, height: 823, keys: 1, touch: true },
    { width: 412, height: 823, keys: 50, touch: true },
    { width: 640, height: 480, keys: 1, touch: true },
    { width: 700, height: 860, keys: 0, touch: false },
    { width: 768, height: 1024, keys: 5, touch: true },
    { width: 1280, height: 860, keys: 5, touch: false },
  ])(
    "on a slow device of $width px with $keys keys, first and cached",
    async ({ width, height, keys, touch }) => {
      const screen = await openScreen({ browser: { viewport: { width, height }, ...(touch ? phone : {}) } });
      await makeKeys(screen, ...Array.from({ length: keys }, (_, index) => `key-${index}`));
      await screen.signIn();
      for (const cached of [false, true]) {
        const page = await slowPage(screen, { cached });
        await page.goto(screen.url(keysPath));
        await whole(page);
        await expectStill(page);
        await page.close();
      }
    },
  );

  test("whichever call answers last, with several teams", async () => {
    const screen = await openScreen({ browser: phone });
    await makeKeys(screen, "ci-deploy", "Nightly reports");
    await screen.signIn();
    await screen.keyrun.teams.createTeam({
      team: { id: "acme", displayName: "Acme Incorporated of Nowhere" },
    });
    await screen.keyrun.teams.addMember({ teamId: "acme", email: "owner@localhost" });
    for (const [last, width, height] of [
      ["SessionService/GetSession", 412, 823],
      ["SessionService/GetSession", 768, 1024],
      ["KeyService/ListKeys", 412, 823],
      ["TeamService/GetRateLimit", 412, 823],
      ["TeamService/GetRateLimit", 1280, 860],
      ["AppService/ListRunnableApps", 320, 568],
    ] as const) {
      const page = await screen.context.newPage();
      await page.setViewportSize({ width, height });
      await page.addInitScript({ content: layoutShiftListener });
      const release = await holdCalls(page, last);
      await page.goto(screen.url(keysPath));
      const others = signs(page).filter(({ rpc }) => rpc !== last);
      await Promise.all(others.map(({ sign }) => sign.waitFor()));
      release();
      await whole(page);
      await expectStill(page, `${last} at ${width} px`);
      await page.close();
    }
  });

  test("the first view stands in the document, and the script puts the same in its place", async () => {
    const screen = await openScreen();
    const { page } = screen;
    await screen.signIn();
    const blocked = await holdScripts(page);
    await page.goto(screen.url(keysPath), { waitUntil: "commit" });
    await styled(page);
    const places = async () => ({
      heading: await page.getByText("API keys", { exact: true }).last().boundingBox(),
      card: await page.locator(".usage").boundingBox(),
      table: await page.locator("table[aria-busy=true]").boundingBox(),
    });
    await page.locator("#first-view table").waitFor();
    const before = await places();
    const release = await holdCalls(page, "KeyService/ListKeys");
    blocked();
    await page.locator("#first-view").waitFor({ state: "detached" });
    expect(await places()).toEqual(before);
    release();
    await whole(page);
  });

  test("other pages don't show the first view of a team's keys", async () => {
    const screen = await openScreen();
    const { page } = screen;
    const blocked = await holdScripts(page);
    await page.goto(screen.url("/sign-in"), { waitUntil: "commit" });
    await styled(page);
    await page.locator("#first-view").waitFor({ state: "attached" });
    expect(await page.locator("#first-view").isVisible()).toBe(false);
    blocked();
    await page.getByRole("heading", { name: "Sign in to Keyrun" }).waitFor();
  });
});

/** What shows that an RPC has answered. */
function signs(page: Page) {
  return [
    { rpc: "SessionService/GetSession", sign: page.locator(".account-button") },
    { rpc: "KeyService/ListKeys", sign: page.locator("main .toolbar input").first() },
    { rpc: "TeamService/GetRateLimit", sign: page.locator("meter") },
  ];
}

async function whole(page: Page): Promise<void> {
  await Promise.all(signs(page).map(({ sign }) => sign.waitFor()));
  await page.getByRole("combobox", { name: "App" }).waitFor();
}

/** Waits for the style sheets. Until they are there, the document has other places. */
async function styled(page: Page): Promise<void> {
  await expect
    .poll(() =>
      page.evaluate<boolean>(`(() => {
      const links = [...document.querySelectorAll("link[rel=stylesheet]")];
      return links.length > 0 && links.every(({ sheet }) => sheet !== null);
    })()`),
    )
    .toBe(true);
}

async function expectStill(page: Page, when = ""): Promise<void> {
  const { total, moves } = await layoutShifts(page);
  expect({ total, ...(total > layoutShiftMax && { moves }) }, when).toEqual({ total });
  expect(total, when).toBeLessThanOrEqual(layoutShiftMax);
}

/** A page on a slow phone: a quarter of this machine's speed, and slow 4G as Lighthouse has it. */
async function slowPage({ context }: Screen, { cached }: { cached: boolean }): Promise<Page> {
  const page = await context.newPage();
  await page.addInitScript({ content: layoutShiftListener });
  const devTools = await context.newCDPSession(page);
  await devTools.send("Emulation.setCPUThrottlingRate", { rate: 4 });
  await devTools.send("Network.enable");
  await devTools.send("Network.setCacheDisabled", { cacheDisabled: !cached });
  const bytesPerSecond = 1_600_000 / 8;
  const speed = { latency: 150, downloadThroughput: bytesPerSecond, uploadThroughput: bytesPerSecond / 2 };
  await devTools.send("Network.emulateNetworkConditions", { offline: false, ...speed });
  return page;
}

async function holdScripts(page: Page): Promise<() => void> {
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.route("**/assets/index-*.js", async (route) => {
    await released;
    await route.continue();
  });
  return release;
}
