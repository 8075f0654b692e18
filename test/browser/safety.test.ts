import { request as send } from "node:http";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { everythingKept } from "./page-probes.ts";
import { describeInBrowser, openScreen, type Screen } from "./screen.ts";
import { clipboard, createByHand } from "./screen-flows.ts";

/**
 * Sends a request as another page or program would: with these headers and `Host`, and no others.
 */
function post(
  screen: Screen,
  path: string,
  headers: Record<string, string>,
): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const request = send(screen.url(path), { method: "POST", headers }, async (response) =>
      resolve({ status: response.statusCode ?? 0, body: await text(response) }),
    );
    request.on("error", reject);
    request.end(JSON.stringify({ teamId: "demo" }));
  });
}

describeInBrowser("what a browser must not reveal", () => {
  test("after the dialog has closed the secret is nowhere: page, fields, storage, caches, history, requests", async () => {
    const screen = await openScreen({ browser: clipboard });
    const { page, context, keyrun } = screen;
    const urls: string[] = [];
    const kept: string[] = [];
    const said: string[] = [];
    context.on("console", (message) => void said.push(message.text()));
    context.on("request", (request) => void urls.push(request.url()));
    await screen.signIn();
    const { dialog, value } = await createByHand(page, "ci-deploy");
    const secret = value.slice(value.indexOf(".") + 1);
    const holds = (where: string) => where.includes(secret);
    // The secret is here now, which proves that the search finds it.
    expect(holds(await everythingKept(page))).toBe(true);
    await dialog.getByRole("button", { name: "Copy API key" }).click();
    await dialog.getByRole("button", { name: "Send a test request" }).click();
    await dialog.locator(".answer").waitFor();
    await dialog.getByRole("button", { name: "Done" }).click();
    await dialog.waitFor({ state: "detached" });
    kept.push(await everythingKept(page), JSON.stringify(await context.storageState({ indexedDB: true })));
    await page.reload();
    await page.getByRole("rowheader").waitFor();
    kept.push(await everythingKept(page));
    expect(kept.map(holds)).toEqual([false, false, false]);
    expect([...urls, ...said, ...keyrun.logLines].filter(holds).length).toBe(0);
    expect(urls.length).toBeGreaterThan(10);
    // All of it came from Keyrun itself.
    expect(urls.filter((url) => !url.startsWith(keyrun.publicUrl))).toEqual([]);
  });

  test("the screen stores only the theme, and no script can read its cookie", async () => {
    const screen = await openScreen();
    const { page, context, keyrun } = screen;
    await screen.signIn();
    await page.getByRole("button", { name: /^Account/ }).click();
    await page.getByRole("radio", { name: "Dark" }).check();
    const { cookies, origins } = await context.storageState({ indexedDB: true });
    expect(origins).toEqual([
      { origin: keyrun.publicUrl, localStorage: [{ name: "theme", value: "dark" }], indexedDB: [] },
    ]);
    const { port } = new URL(keyrun.publicUrl);
    expect(cookies).toMatchObject([
      { name: `keyrun-${port}`, httpOnly: true, sameSite: "Lax", path: "/", secure: false },
    ]);
    expect(await page.evaluate("document.cookie")).toBe("");
  });

  test("the policy holds: a label that is a script is text, and no text becomes a page", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    const label = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;
    await keyrun.keys.createKey({ teamId: "demo", label });
    await screen.signIn();
    expect(await page.getByRole("rowheader").textContent()).toBe(label);
    expect(await page.title()).toBe("API keys · Demo · Keyrun");
    const thrown = await page.evaluate(
      "(() => { try { document.body.innerHTML = '<p>'; } catch (error) { return error.name; } })()",
    );
    expect(thrown).toBe("TypeError");
    await expect.poll(() => screen.complaints.join()).toContain("policy broken: require-trusted-types-for");
    screen.complaints.splice(0);
  });

  test("a page of another site can't use the session, whatever it sends", async () => {
    const screen = await openScreen();
    const { context, keyrun } = screen;
    await screen.signIn();
    const [cookie] = await context.cookies();
    const own = {
      cookie: `${cookie!.name}=${cookie!.value}`,
      "content-type": "application/json",
      "connect-protocol-version": "1",
    };
    const attempts: Record<string, string>[] = [
      { "sec-fetch-site": "cross-site" },
      { "sec-fetch-site": "same-site" },
      { "sec-fetch-site": "none" },
      { origin: "https://evil.example" },
      { origin: "null" },
      {},
    ];
    const rpc = "/keyrun.v1.KeyService/CreateKey";
    for (const attempt of attempts) {
      const { status, body } = await post(screen, rpc, { ...own, ...attempt });
      expect({ attempt, status }).toEqual({ attempt, status: 403 });
      expect(body).toContain("CROSS_SITE_REQUEST");
    }
    expect((await post(screen, rpc, { ...own, "sec-fetch-site": "same-origin" })).status).toBe(200);
    expect((await keyrun.keys.listKeys({ teamId: "demo" })).keys.length).toBe(1);
  });

  test("a form of another site comes without the session, and makes nothing", async () => {
    const screen = await openScreen();
    const { page, keyrun } = screen;
    await screen.signIn();
    const action = screen.url("/keyrun.v1.KeyService/CreateKey");
    // The name and the value of the form's one field make JSON together.
    const field = `<input name='{"teamId":"demo","label":"' value='"}'>`;
    const body = `<form method="post" enctype="text/plain" action="${action}">${field}<button>Win</button></form>`;
    await page.route("http://evil.example/", (route) => route.fulfill({ contentType: "text/html", body }));
    await page.goto("http://evil.example/");
    const [request] = await Promise.all([
      page.waitForRequest(action),
      page.getByRole("button", { name: "Win" }).click(),
    ]);
    expect((await request.allHeaders()).cookie).toBeUndefined();
    expect((await request.response())?.status()).toBeGreaterThanOrEqual(400);
    expect((await keyrun.keys.listKeys({ teamId: "demo" })).keys).toEqual([]);
  });
});
