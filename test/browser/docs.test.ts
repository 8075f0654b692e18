import { expect, test } from "vitest";
import { describeInBrowser, openScreen } from "./screen.ts";
import { expectWellMade } from "./screen-state.ts";

describeInBrowser("the pages of the documentation", () => {
  test.each([
    ["api", "Calling Keyrun"],
    ["errors", "Refusals"],
    ["security", "Security"],
  ])("/docs/%s can be read by anybody, on every device", async (name, title) => {
    const { page, url } = await openScreen();
    await page.goto(url(`/docs/${name}`));
    expect(await page.title()).toBe(`${title} · Keyrun`);
    expect(await page.getByRole("heading", { level: 1 }).textContent()).toBe(title);
    await expectWellMade(page, `docs-${name}`);
  });

  test("have commands that work as they stand, with a key", async () => {
    const { page, url, keyrun, context } = await openScreen();
    const { value } = await keyrun.keys.createKey({ teamId: "demo" });
    await page.goto(url("/docs/api"));
    const command = (await page.locator("pre").first().textContent())!;
    const address = /http:\S+/.exec(command)?.[0];
    expect(address).toBe(url("/api/apps/echo/run"));
    const answer = await context.request.post(address!, {
      headers: { authorization: `Bearer ${value}` },
      data: { text: "hello" },
    });
    expect(answer.status()).toBe(200);
    const all = (await page.locator("main").textContent())!;
    expect(all.match(/http:\/\/127\.0\.0\.1:8080/g)).toBeNull();
  });

  test("hold what the pages of the repository say, such as the words of each refusal", async () => {
    const { page, url } = await openScreen();
    await page.goto(url("/docs/errors"));
    const row = page.getByRole("row", { name: "revoked_api_key" });
    expect(await row.innerText()).toContain("The API key was revoked at {revoke_time}");
    expect(await page.getByText("<!--").count()).toBe(0);
  });

  test("every link on them leads to something that is there", async () => {
    const { page, url } = await openScreen();
    const text = await (await page.request.get(url("/.well-known/security.txt"))).text();
    const seen = new Set(text.match(/http\S+/g));
    for (const path of ["/docs/api", "/docs/errors", "/docs/security"]) {
      await page.goto(url(path));
      const links = await page.evaluate<string[]>("[...document.links].map(({ href }) => href)");
      for (const link of links.filter((one) => one.startsWith(url("/")))) seen.add(link);
    }
    expect(seen.size).toBeGreaterThan(3);
    for (const link of seen) {
      // A page that is only asked for can't lead elsewhere by itself, as the screen's does.
      expect((await page.request.get(link)).ok(), link).toBe(true);
      const { hash } = new URL(link);
      if (!hash) continue;
      await page.goto(link);
      expect(await page.locator(hash).count(), link).toBe(1);
    }
  });
});
