// From an HTTP method and a target to the rule that takes them. The table is a tree of path
// segments; the targets that callers send again and again are remembered beside it.

import { type Binding, nameOfBinding } from "./binding.ts";
import { decodeAll, decodeExceptSlash } from "./template.ts";

/** The rule that matches a request, and the values from its path. */
export interface MatchedRoute {
  readonly binding: Binding;
  /** Decoded values by the variable's field path, as written in the template. */
  readonly captures: ReadonlyMap<string, string>;
  /** The text after the first question mark, not decoded; empty if there is none. */
  readonly query: string;
}

export type Match =
  | { readonly kind: "found"; readonly route: MatchedRoute }
  | { readonly kind: "not_found" }
  /** The path is known but the method is not. `allow` lists the methods of this path, sorted. */
  | { readonly kind: "method_not_allowed"; readonly allow: string[] }
  /**
   * The path and the method are known, but a variable has a percent escape that can't be decoded.
   */
  | { readonly kind: "bad_escape" };

export type RouteTable = (httpMethod: string, target: string) => Match;

/**
 * Builds a tree of path segments from the templates. At each segment a literal is preferred to `*`,
 * and `*` to `**`. A verb must match exactly. On the same template a rule for one method is
 * preferred to a rule for every method. Throws an Error that names both rules if two match the same
 * requests.
 */
export function createRouteTable(bindings: readonly Binding[]): RouteTable {
  const withoutVerb = newNode();
  const withVerb = new Map<string, Node>();
  for (const binding of bindings) {
    const { verb } = binding.template;
    const root = verb === undefined ? withoutVerb : (withVerb.get(verb) ?? newNode());
    if (verb !== undefined) withVerb.set(verb, root);
    insert(root, binding);
  }
  return (httpMethod, target) => {
    if (!target.startsWith("/")) return notFound;
    const mark = target.indexOf("?");
    const segments = target.slice(1, mark === -1 ? undefined : mark).split("/");
    const query = mark === -1 ? "" : target.slice(mark + 1);
    const allow = new Set<string>();
    const find = (root: Node, parts: readonly string[]): Match | undefined => {
      const binding = search(root, parts, 0, httpMethod, allow);
      return binding && capture(binding, parts, query);
    };
    const found = findByVerb(withVerb, segments, find) ?? find(withoutVerb, segments);
    if (found !== undefined) return found;
    return allow.size === 0 ? notFound : { kind: "method_not_allowed", allow: [...allow].sort() };
  };
}

const notFound: Match = { kind: "not_found" };

interface Node {
  readonly literals: Map<string, Node>;
  one: Node | undefined;
  /** The templates that end in `**` here, by HTTP method. */
  readonly rest: Map<string, Binding>;
  /** The templates that end here, by HTTP method. */
  readonly end: Map<string, Binding>;
}

function newNode(): Node {
  return { literals: new Map(), one: undefined, rest: new Map(), end: new Map() };
}

function insert(root: Node, binding: Binding): void {
  let node = root;
  let leaf: Map<string, Binding> | undefined;
  for (const segment of binding.template.segments) {
    if (segment.kind === "rest") leaf = node.rest;
    else if (segment.kind === "one") node = node.one ??= newNode();
    else {
      const next = node.literals.get(segment.text) ?? newNode();
      node.literals.set(segment.text, next);
      node = next;
    }
  }
  leaf ??= node.end;
  const other = leaf.get(binding.httpMethod);
  if (other !== undefined) {
    throw new Error(
      `Two rules take the same requests: ${nameOfBinding(other)} and ${nameOfBinding(binding)}.`,
    );
  }
  leaf.set(binding.httpMethod, binding);
}

/**
 * The text after the last colon may be a verb. If no rule has that verb, the colon is ordinary
 * text.
 */
function findByVerb(
  roots: ReadonlyMap<string, Node>,
  segments: readonly string[],
  find: (root: Node, segments: readonly string[]) => Match | undefined,
): Match | undefined {
  const last = segments.at(-1);
  if (roots.size === 0 || last === undefined) return undefined;
  const colon = last.lastIndexOf(":");
  if (colon === -1) return undefined;
  const verb = decodeAll(last.slice(colon + 1));
  const root = verb === undefined ? undefined : roots.get(verb);
  return root && find(root, [...segments.slice(0, -1), last.slice(0, colon)]);
}

/**
 * Finds the best binding for the method. Adds to `allow` the methods of other bindings that match
 * the path. Visits each node at most once, so the size of the tree bounds its work.
 */
function search(
  node: Node,
  segments: readonly string[],
  at: number,
  httpMethod: string,
  allow: Set<string>,
): Binding | undefined {
  const segment = segments[at];
  if (segment === undefined) return pick(node.end, httpMethod, allow) ?? pick(node.rest, httpMethod, allow);
  const literal = node.literals.get(segment.includes("%") ? (decodeAll(segment) ?? "") : segment);
  const found = literal && search(literal, segments, at + 1, httpMethod, allow);
  if (found !== undefined) return found;
  const one = segment === "" ? undefined : node.one && search(node.one, segments, at + 1, httpMethod, allow);
  return one ?? pick(node.rest, httpMethod, allow);
}

function pick(leaf: Map<string, Binding>, httpMethod: string, allow: Set<string>): Binding | undefined {
  if (leaf.size === 0) return undefined;
  const binding = leaf.get(httpMethod) ?? leaf.get("*");
  if (binding === undefined) for (const method of leaf.keys()) allow.add(method);
  return binding;
}

function capture(binding: Binding, segments: readonly string[], query: string): Match {
  const captures = new Map<string, string>();
  for (const { fieldPath, start, end, multi } of binding.variables) {
    const open = multi && binding.template.segments[end - 1]?.kind === "rest";
    const value = multi
      ? decodeExceptSlash(segments.slice(start, open ? undefined : end).join("/"))
      : decodeAll(segments[start] ?? "");
    if (value === undefined) return { kind: "bad_escape" };
    captures.set(fieldPath, value);
  }
  return { kind: "found", route: { binding, captures, query } };
}

/**
 * How many targets are kept for each HTTP method. `methodsMax` bounds how many methods have some.
 */
export const rememberedTargetsMax = 1_000;
const methodsMax = 16;
/** Longer targets are not kept. */
export const rememberedCharactersMax = 256;

/**
 * Caches the matches of a route table, because callers send the same few targets again and again.
 * Only successful matches are kept. A full cache is emptied.
 */
export function rememberRoutes(table: RouteTable): RouteTable {
  const known = new Map<string, Map<string, Match>>();
  return (httpMethod, target) => {
    const match = known.get(httpMethod)?.get(target);
    if (match !== undefined) return match;
    const found = table(httpMethod, target);
    if (found.kind === "found" && target.length <= rememberedCharactersMax) {
      if (known.size >= methodsMax && !known.has(httpMethod)) known.clear();
      const targets = known.get(httpMethod) ?? new Map<string, Match>();
      if (targets.size >= rememberedTargetsMax) targets.clear();
      known.set(httpMethod, targets.set(target, found));
    }
    return found;
  };
}
