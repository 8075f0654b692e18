import { expect, test } from "vitest";
import { preferredType, weightOfCoding } from "#src/http/headers.ts";

const json = "application/json";
const problem = "application/problem+json";

test.each([
  [undefined, json],
  ["", json],
  ["*/*", json],
  ["text/html", json],
  [problem, problem],
  ["Application/Problem+JSON ; charset=utf-8", problem],
  [`${problem};q=0`, json],
  [`${problem};q=0.000, */*`, json],
  [`${problem};q=0, ${json};q=0.1`, json],
  [`${json}, ${problem}`, json],
  [`${problem}, ${json}`, json],
  [`${problem}, */*`, problem],
  [`${problem};q=0.9, */*`, json],
  [`${problem};q=0.9, ${json};q=0.8, */*`, problem],
  [`application/*;q=0.5, ${json};q=0.4`, problem],
  [`application/*;q=0.5, ${problem};q=0.4`, json],
  [`*/*;q=0.5, application/*;q=0`, json],
  [`${json};q=0`, json],
  [`${json};q=0, */*`, problem],
  [`${problem};Q=0.001`, problem],
  [`${problem};q=much`, problem],
  [`${problem};q=9, ${json};q=-1`, problem],
  [`x${problem}`, json],
  [`${problem}x;q=1`, json],
])("of JSON and a problem, Accept: %s gets %s", (accept, expected) => {
  expect(preferredType(accept, [json, problem])).toBe(expected);
});

test.each([
  [undefined, 0],
  ["gzip, br", 1],
  ["br;q=0.1, gzip;q=1", 0.1],
  ["BR ; q=0.5", 0.5],
  ["br;q=0", 0],
  ["*, xbr", 0],
])("in Accept-Encoding: %s, br has the weight %s", (header, expected) => {
  expect(weightOfCoding(header, "br")).toBe(expected);
});

test("of a header of commas alone only a bounded number of options is read", () => {
  const many = ",".repeat(15_000);
  expect(preferredType(`${problem}${many}`, [json, problem])).toBe(problem);
  expect(preferredType(`${many}${problem}`, [json, problem])).toBe(json);
  expect(weightOfCoding(`gzip${";".repeat(15_000)}q=0`, "gzip")).toBe(1);
});

test("an empty weight counts as none", () => {
  expect(weightOfCoding("gzip;q=", "gzip")).toBe(1);
});
