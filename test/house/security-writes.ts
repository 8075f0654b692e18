import { parseSync } from "vite";

/**
 * The store writes that may take a right away or make one known, by the kind of change that they
 * belong to.
 */
export const securityWrites: Readonly<Record<string, readonly string[]>> = {
  key: [
    "keys.insert",
    "keys.update",
    "keys.markExpired",
    "keys.rotate",
    "keys.settlePending",
    "keys.revoke",
    "keys.delete",
    "keys.deleteAll",
  ],
  "service-token": [
    "serviceTokens.insert",
    "serviceTokens.revoke",
    "serviceTokens.delete",
    "serviceTokens.leaveTeam",
  ],
  team: ["teams.insert", "teams.update", "teams.delete"],
  app: ["apps.insert", "apps.update", "apps.delete"],
  member: ["members.remove", "members.removeAll"],
  preview: ["preview.set", "users.release"],
  session: ["sessions.insert", "sessions.touch", "sessions.delete"],
};
const guarded = new Set(Object.values(securityWrites).flat());

/** Whose records each port's type writes. `Stores` has a port under each of these names. */
const portOfType: Readonly<Record<string, string>> = {
  KeyStore: "keys",
  ServiceTokenStore: "serviceTokens",
  TeamStore: "teams",
  AppStore: "apps",
  MemberStore: "members",
  PreviewStore: "preview",
  UserStore: "users",
  SessionStore: "sessions",
};

export interface SecurityWrite {
  readonly path: string;
  /** As in `securityWrites`. */
  readonly write: string;
  /**
   * The kind that the surrounding call of `changeSecurityState` names; undefined: there is no such
   * call.
   */
  readonly kind: string | undefined;
}

/**
 * Every mention of such a write in a file: calls, and methods that are handed on or taken out of
 * their store.
 */
export function findSecurityWrites(path: string, text: string): SecurityWrite[] {
  const { program, errors } = parseSync(path, text, { lang: "ts" });
  if (errors.length > 0) throw new Error(`${path} can't be parsed: ${errors[0]?.message}`);
  const root = program as unknown as Node;
  const names = portNames(root);
  const found: SecurityWrite[] = [];
  const note = (port: string | undefined, method: string | undefined, kind: string | undefined) => {
    const write = `${port}.${method}`;
    if (guarded.has(write)) found.push({ path, write, kind });
  };
  const visit = (node: Node, kind: string | undefined): void => {
    if (node.type === "CallExpression" && nameOf(node.callee) === "changeSecurityState") {
      const [first, write] = nodesIn(node.arguments);
      if (write) visit(write, typeof first?.value === "string" ? first.value : "?");
      return;
    }
    if (node.type === "MemberExpression") note(portNamed(names, node.object), nameOf(node), kind);
    if (node.type === "ObjectPattern") {
      const port = portOfAnnotation(node);
      for (const { key } of nodesIn(node.properties)) note(port, nameOf(key), kind);
    }
    if (node.type === "VariableDeclarator" && isNode(node.id) && node.id.type === "ObjectPattern") {
      const port = portNamed(names, node.init);
      for (const { key } of nodesIn(node.id.properties)) note(port, nameOf(key), kind);
    }
    for (const child of childrenOf(node)) visit(child, kind);
  };
  visit(root, undefined);
  return found;
}

/** The ports that this file's names stand for: by their types, and by what they are taken from. */
function portNames(root: Node): Map<string, string> {
  const names = new Map(Object.values(portOfType).map((port) => [port, port]));
  const learn = (name: string | undefined, port: string | undefined) => {
    if (name !== undefined && port !== undefined) names.set(name, port);
  };
  const visit = (node: Node): void => {
    if (node.type === "TSPropertySignature") learn(nameOf(node.key), portOfAnnotation(node));
    if (node.type === "Identifier") learn(nameOf(node), portOfAnnotation(node));
    if (node.type === "VariableDeclarator") {
      learn(nameOf(node.id), portNamed(names, node.init));
      // A store comes in as an argument: what is made here, as a Set, only has the name of one.
      if (isNode(node.init) && node.init.type === "NewExpression") names.delete(nameOf(node.id) ?? "");
    }
    if (node.type === "Property" && nameOf(node.value) !== nameOf(node.key)) {
      learn(nameOf(node.value), names.get(nameOf(node.key) ?? ""));
    }
    for (const child of childrenOf(node)) visit(child);
  };
  visit(root);
  return names;
}

function portNamed(names: ReadonlyMap<string, string>, value: unknown): string | undefined {
  return names.get(nameOf(value) ?? "");
}

/** The port that a name's type is, whole or a part of it as in `Pick<KeyStore, "find">`. */
function portOfAnnotation({ typeAnnotation }: Node): string | undefined {
  if (!isNode(typeAnnotation) || !isNode(typeAnnotation.typeAnnotation)) return undefined;
  const { typeName, typeArguments } = typeAnnotation.typeAnnotation;
  const [first] = isNode(typeArguments) ? nodesIn(typeArguments.params) : [];
  return portOfType[nameOf(typeName) ?? ""] ?? portOfType[nameOf(first?.typeName) ?? ""];
}

interface Node {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** What a name or a member is called last: `revoke` in `stores.keys.revoke`. */
function nameOf(value: unknown): string | undefined {
  if (!isNode(value)) return undefined;
  if (value.type === "MemberExpression") return nameOf(value.property);
  if (value.type === "Literal") return typeof value.value === "string" ? value.value : undefined;
  return value.type === "Identifier" && typeof value.name === "string" ? value.name : undefined;
}

function childrenOf(node: Node): Node[] {
  return Object.values(node).flatMap((value) => nodesIn(Array.isArray(value) ? value : [value]));
}

function nodesIn(values: unknown): Node[] {
  return Array.isArray(values) ? values.filter(isNode) : [];
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && "type" in value && typeof value.type === "string";
}
