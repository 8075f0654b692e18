import { expect, test } from "vitest";
import { jsonProblem } from "../../../web/try-it/json-problem.ts";

test.each(["", "  ", "{}", ' {"a":[1]} '])("%j can be sent, or is nothing", (text) => {
  expect(jsonProblem(text)).toBeNull();
});

test.each(["[]", "null", "1", '"a"'])("%s is no object, and is told what is one", (text) => {
  expect(jsonProblem(text)).toContain("Not an object");
});

test.each(['{"a"', "{a:1}", "{'a':1}"])("%s is told not to be JSON, with where it stops to be", (text) => {
  expect(jsonProblem(text)).toMatch(/^Not JSON yet: .*(position|end)/);
});
