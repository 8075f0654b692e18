import type { Page, Route } from "playwright-core";

/** An RPC as the page calls it: "KeyService/ListKeys". */
export type RpcName = `${string}Service/${string}`;

/**
 * Holds each call of an RPC from now on. The function that it returns lets these and all later ones
 * through.
 */
export async function holdCalls(page: Page, rpc: RpcName): Promise<() => void> {
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  await page.route(pattern(rpc), async (route) => {
    await released;
    await route.continue();
  });
  return release;
}

/** Loses each call of an RPC before it reaches Keyrun, until the returned function is called. */
export async function loseCalls(page: Page, rpc: RpcName): Promise<() => Promise<void>> {
  return intercept(page, rpc, (route) => route.abort());
}

/** Lets each call of an RPC reach Keyrun, which carries it out, and loses the answer. */
export async function loseAnswers(page: Page, rpc: RpcName): Promise<() => Promise<void>> {
  return intercept(page, rpc, async (route) => {
    await route.fetch();
    await route.abort();
  });
}

/** Answers each call of an RPC with this message, as JSON, instead of Keyrun. */
export async function answerCalls(page: Page, rpc: RpcName, message: object): Promise<() => Promise<void>> {
  return intercept(page, rpc, (route) => route.fulfill({ json: message }));
}

async function intercept(page: Page, rpc: RpcName, handle: (route: Route) => Promise<void>) {
  await page.route(pattern(rpc), handle);
  return () => page.unroute(pattern(rpc), handle);
}

function pattern(rpc: RpcName): string {
  return `**/keyrun.v1.${rpc}`;
}
