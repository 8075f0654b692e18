import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from "playwright-core";
import { expect, inject, onTestFinished } from "vitest";
import { chromiumArgs, findChromium } from "../harness/chromium.ts";
import { type Keyrun, type KeyrunOptions, startKeyrun } from "../harness/keyrun.ts";
import { describeWith } from "../harness/needs.ts";
import { screenFolder } from "../harness/screen-build.ts";
import { policyListener } from "./page-probes.ts";

/** The endpoint of the one browser of the test run; empty without a browser. */
const chromiumEndpoint: string = inject("chromiumEndpoint");

/** `describe` for tests in a browser. They are skipped where there is none. */
export const describeInBrowser = describeWith(chromiumEndpoint === "" ? "there is no Chromium" : undefined);

export interface ScreenOptions extends KeyrunOptions {
  readonly browser?: BrowserContextOptions;
}

/** A Keyrun for one test, with the built screen, and a new browser context at it. */
export interface Screen {
  readonly keyrun: Keyrun;
  readonly context: BrowserContext;
  readonly page: Page;
  /** Opens a new one-time link in the page, and waits for the keys of `demo`. */
  signIn(): Promise<void>;
  /** The URL of a path of the screen. */
  url(path: string): string;
  /** What the pages have complained of so far. The test fails if anything is in it at the end. */
  readonly complaints: string[];
  /** Runs `echo` with a key, from outside the browser. */
  run(key: string): Promise<Response>;
}

/**
 * Opens a screen for one test, and closes it after the test. The test fails if a page violated the
 * content security policy, threw, or wrote a warning or an error to its console.
 */
export async function openScreen(options: ScreenOptions = {}): Promise<Screen> {
  const keyrun = await startKeyrun({ ...options, screenFolder });
  onTestFinished(() => keyrun.close());
  // All pages of a browser share its clipboard.
  const browser = options.browser?.permissions
    ? await chromium.launch({ executablePath: `${findChromium(process.env)}`, args: chromiumArgs })
    : await chromium.connect(chromiumEndpoint);
  onTestFinished(() => closeBrowser(browser));
  const context = await browser.newContext({
    reducedMotion: "reduce",
    viewport: { width: 1280, height: 860 },
    ...options.browser,
  });
  context.setDefaultTimeout(60_000);
  const complaints = await listenForComplaints(context);
  onTestFinished(() => expect(complaints).toEqual([]));
  const page = await context.newPage();
  const url = (path: string) => `${keyrun.publicUrl}${path}`;
  return {
    keyrun,
    context,
    page,
    complaints,
    url,
    async signIn() {
      const link = await keyrun.sessions.createSignInLink({});
      await page.goto(link.url);
      await page.waitForURL("**/settings/team/demo/api-keys");
      await page.getByText(/^\d+ active keys? \(up to \d+/).waitFor();
    },
    run: (key) =>
      fetch(url("/api/apps/echo/run"), {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify({ text: "hello" }),
      }),
  };
}

/** Closes the browser of one test. A page may call to its last moment: no fault if that is cut. */
async function closeBrowser(browser: Browser): Promise<void> {
  const pages = browser.contexts().flatMap((context) => context.pages());
  await Promise.all(pages.map((page) => page.unrouteAll({ behavior: "ignoreErrors" })));
  await browser.close();
}

async function listenForComplaints(context: BrowserContext): Promise<string[]> {
  const complaints: string[] = [];
  await context.addInitScript({ content: policyListener });
  context.on("console", (message) => {
    const isTrouble = message.type() === "error" || message.type() === "warning";
    // The browser writes this line itself when an answer is an error that the test asked for.
    if (isTrouble && !message.text().startsWith("Failed to load resource")) complaints.push(message.text());
  });
  context.on("weberror", (error) => void complaints.push(String(error.error())));
  return complaints;
}
