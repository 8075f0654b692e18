import { type BrowserServer, chromium } from "playwright-core";
import type { TestProject } from "vitest/node";
import { chromiumArgs, findChromium } from "./chromium.ts";
import { buildScreen } from "./screen-build.ts";

declare module "vitest" {
  interface ProvidedContext {
    /**
     * Where tests reach the one browser. Empty without a browser: the suite in a browser is left
     * out.
     */
    chromiumEndpoint: string;
  }
}

let server: BrowserServer | undefined;

/** Builds the screen and starts the one browser of a test run, before the tests that need them. */
export async function setup(project: TestProject): Promise<void> {
  buildScreen();
  const executablePath = findChromium(process.env);
  if (executablePath === undefined) {
    const problem =
      "The suite in a browser (test/browser) is left out: install Chromium, or set KEYRUN_TEST_CHROMIUM to its path, to include it.";
    if (process.env.KEYRUN_TEST_REQUIRE_ALL === "1") throw new Error(problem);
    process.stderr.write(`${problem}\n`);
    return project.provide("chromiumEndpoint", "");
  }
  server = await chromium.launchServer({ executablePath, args: chromiumArgs });
  project.provide("chromiumEndpoint", server.wsEndpoint());
}

export async function teardown(): Promise<void> {
  await server?.close();
}
