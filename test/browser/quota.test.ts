import { expect, test } from "vitest";
import { describeInBrowser, openScreen } from "./screen.ts";
import { answerCalls } from "./screen-calls.ts";
import { expectWellMade } from "./screen-state.ts";

const rateLimit = { limit: 300, remaining: 277, resetTime: "2026-11-30T12:00:00Z" };
const month = { limit: "1000", period: "QUOTA_PERIOD_MONTH", resetTime: "2026-12-01T00:00:00Z" };

const states = [
  { name: "0", quota: month, used: "0 of 1,000 used", tone: "calm", warning: undefined },
  {
    name: "79",
    quota: { ...month, used: "799" },
    used: "799 of 1,000 used",
    tone: "calm",
    warning: undefined,
  },
  {
    name: "80",
    quota: { ...month, used: "800" },
    used: "800 of 1,000 used",
    tone: "near",
    warning: "Most of",
  },
  {
    name: "100",
    quota: { ...month, used: "1000" },
    used: "1,000 of 1,000 used",
    tone: "reached",
    warning: "used up",
  },
  {
    name: "granted",
    quota: { ...month, used: "1000", granted: "500" },
    used: "1,000 of 1,500 used",
    tone: "calm",
    warning: undefined,
  },
];

describeInBrowser("the team's quota", () => {
  test.each(states)(
    "the card of the plan shows it as it is: $name",
    async ({ name, quota, used, tone, warning }) => {
      const screen = await openScreen({ browser: { locale: "en-GB" } });
      const { page } = screen;
      await answerCalls(page, "TeamService/GetRateLimit", { rateLimit, quota });
      await screen.signIn();
      const meter = page.getByRole("meter", { name: "Requests used this month" });
      await meter.waitFor();
      expect(await meter.getAttribute("aria-valuetext")).toBe(used);
      expect(await meter.getAttribute("data-tone")).toBe(tone);
      const card = page.getByRole("region", { name: "Plan and usage" });
      await card.getByText("1 Dec 2026, 00:00 UTC").waitFor();
      expect(await card.getByText("500 granted").count()).toBe(name === "granted" ? 1 : 0);
      expect(await card.locator(".quota-warning").count()).toBe(warning === undefined ? 0 : 1);
      if (warning !== undefined) await card.getByText(warning).waitFor();
      await expectWellMade(page, `quota-${name}`);
    },
  );

  test("a plan without a quota has no meter of one", async () => {
    const screen = await openScreen();
    await screen.signIn();
    await screen.page.getByRole("meter", { name: "Requests used this minute" }).waitFor();
    expect(await screen.page.getByRole("meter").count()).toBe(1);
  });
});
