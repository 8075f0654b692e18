import { expect, test } from "vitest";
import { bindingsOf } from "../src/binding.ts";
import {
  createRouteTable,
  type RouteTable,
  rememberedCharactersMax,
  rememberedTargetsMax,
  rememberRoutes,
} from "../src/route-table.ts";
import { ruleOf, serviceOf } from "./transcoding.ts";

const table = createRouteTable(
  bindingsOf(serviceOf({ rule: ruleOf("GET /v1/{name}") }, { rule: ruleOf("DELETE /v1/{name}") })),
);

/** Returns a table and the list of targets that were looked up in it. */
function asked(): { routes: RouteTable; targets: string[] } {
  const targets: string[] = [];
  const routes = rememberRoutes((httpMethod, target) => {
    targets.push(target);
    return table(httpMethod, target);
  });
  return { routes, targets };
}

test("every result is the table's own, also for a repeated target", () => {
  const { routes } = asked();
  for (const target of ["/v1/a", "/v1/b?c=d", "/v1/%zz", "/v1/a/b", "/v2", "no slash", "/v1/a"]) {
    for (const method of ["GET", "DELETE", "POST", "GET"]) {
      expect(routes(method, target)).toEqual(table(method, target));
    }
  }
});

test("a target that was found is looked up only once for each method", () => {
  const { routes, targets } = asked();
  for (const method of ["GET", "DELETE", "GET", "DELETE"]) routes(method, "/v1/a");
  expect(targets).toEqual(["/v1/a", "/v1/a"]);
});

test("targets that are not found, have no such method or are long are not kept, so callers can't fill the memory", () => {
  const { routes, targets } = asked();
  const long = `/v1/${"a".repeat(rememberedCharactersMax)}`;
  for (const target of ["/v2", "/v1/%zz", long, "/v2", "/v1/%zz", long]) routes("GET", target);
  routes("POST", "/v1/a");
  routes("POST", "/v1/a");
  expect(targets).toHaveLength(8);
});

test("no more targets are kept than the bound: a full cache is emptied", () => {
  const { routes, targets } = asked();
  for (let n = 0; n <= rememberedTargetsMax; n++) routes("GET", `/v1/${n}`);
  targets.length = 0;
  routes("GET", `/v1/${rememberedTargetsMax}`);
  expect(targets).toEqual([]);
  routes("GET", "/v1/0");
  expect(targets).toEqual(["/v1/0"]);
});
